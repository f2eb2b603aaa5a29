"""The timers of an snode leave alone what is not theirs, and rest when nothing is due."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.model.continuous_queries import ExecutionState
from headrace.model.jobs import JobRecord
from headrace.runtime.continuous_queries import execute_due
from headrace.settings import load
from headrace.streams.failures import reason_of
from tests.runtime.test_continuous_queries import SECOND, START, create, done, ledger, records, running
from tests.support.waiting import wait_until


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(dialect="iotdb", clock=headrace.ManualClock(START), settings=load(home=tmp_path / "home")) as opened:
        opened.execute("create timeseries root.plant.line1.s1 with datatype=INT32")
        yield opened


def claim(connection: headrace.Connection, record: JobRecord, instant: int) -> None:
    """Begin to compute an old range again, as a backfill does."""
    definition = record.definition
    connection.session.context.catalog.executions.claim(definition.id, definition.schedule, instant, "backfill", again=True)


def test_new_intervals_are_computed_while_a_backfill_computes_an_old_one_again(connection: headrace.Connection) -> None:
    create(connection, "q")
    connection.settle()
    connection.clock.advance(2 * SECOND)
    connection.settle()
    claim(connection, records(connection)[0], START + SECOND)
    with running(connection):
        connection.clock.advance(2 * SECOND)
        wait_until(lambda: done(connection, "q") == 4, "the new intervals")
    assert [execution.state for execution in ledger(connection, "q")].count(ExecutionState.RUNNING) == 1


def test_the_timers_rest_if_only_the_range_of_a_backfill_is_unfinished(connection: headrace.Connection) -> None:
    create(connection, "q")
    connection.settle()
    connection.clock.advance(SECOND)
    connection.settle()
    (record,) = records(connection)
    claim(connection, record, START)
    with running(connection) as host:
        # Without it, they would look for due executions again and again.
        wait_until(lambda: [getattr(job.runner, "_last", None) for job in host.jobs] == [START + SECOND], "the timers to rest")
        wait_until(lambda: not host.poll(0), "the loop to rest")
        assert execute_due(connection.session.context, [record], "test") == 0


@pytest.mark.parametrize("statement", ["STREAM", "CONTINUOUS QUERY"])
def test_the_hint_of_a_reason_names_the_statement_of_the_job(statement: str) -> None:
    from headrace.errors import DataError

    assert reason_of(DataError("overflow"), 0, statement.lower()).hint == f"fix the cause, then run RESUME {statement}"
