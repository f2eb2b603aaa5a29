"""Backfills of continuous queries in the process of a connection."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

import headrace
from headrace.catalog.executions import ABANDONED_MS
from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.continuous_queries import ExecutionState
from headrace.model.jobs import DesiredState
from headrace.queries import executions
from headrace.service.topics.backfills import plan_backfill
from tests.service.iotdb.conftest import START
from tests.service.iotdb.test_continuous_queries import BODY, SECOND, fetch, insert, job, points, settle_after, states


@pytest.fixture
def query(plant: headrace.Connection) -> headrace.Connection:
    """The connection with a query every ten seconds, four executions of which are done."""
    plant.execute(f"create cq tens {BODY}")
    settle_after(plant, 30)
    return plant


def at(second: int) -> str:
    """Return an instant as an epoch number."""
    return str(START + second * SECOND)


def attempts(connection: headrace.Connection) -> dict[int, int]:
    """Return the attempts of executions by seconds since START."""
    rows = fetch(connection, "show cq executions tens")
    return {round((row[1].timestamp() * 1000 - START) / SECOND): row[5] for row in reversed(rows)}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_backfill_computes_the_ranges_that_overlap_it_again(query: headrace.Connection) -> None:
    insert(query, *range(-10, 30))
    reported: list[tuple[int, int]] = []
    count = query.backfill(cq="tens", start=at(5), end=at(11), progress=lambda done, total: reported.append((done, total)))
    assert (count, reported) == (2, [(0, 2), (1, 2), (2, 2)])
    assert points(query, "select c from root.agg.line1") == {-10: 0, 0: 10, 10: 10, 20: 0}
    assert attempts(query) == {0: 1, 10: 2, 20: 2, 30: 1}
    assert query.backfill(cq="tens") == 4
    assert points(query, "select c from root.agg.line1") == {-10: 10, 0: 10, 10: 10, 20: 10}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_backfill_reaches_back_beyond_the_first_execution_but_not_into_the_future(query: headrace.Connection) -> None:
    insert(query, *range(-50, 60))
    assert query.backfill(cq="tens", start=at(-40), end=at(-20)) == 2
    assert points(query, "select c from root.agg.line1") == {-40: 10, -30: 10, -10: 0, 0: 0, 10: 0, 20: 0}
    assert query.backfill(cq="tens", start=at(20), end=at(1_000)) == 1
    assert query.backfill(cq="tens", start=at(100)) == 0
    settle_after(query, 10)
    assert states(query, "tens") == dict.fromkeys((-30, -20, 0, 10, 20, 30, 40), "DONE")


def test_the_range_is_in_the_time_zone_of_the_query(plant: headrace.Connection) -> None:
    with headrace.connect(
        settings=plant.session.context.settings.replace({"timezone": "Asia/Tokyo"}), dialect="iotdb", clock=plant.clock
    ) as tokyo:
        tokyo.execute(f"create cq tens {BODY}")
    (stage,) = plan_backfill(plant.session, None, "tens", "2023-11-15 07:13:00")
    assert ", from 2023-11-14 22:13:00+00:00, " in stage.describe()[0]


def test_explain_says_how_many_intervals_are_computed(query: headrace.Connection) -> None:
    lines = query.session.explain(plan_backfill(query.session, None, "tens", at(0), "2023-11-14 22:13:40"))
    assert lines == [
        "compute 2 intervals of continuous query tens again, from 2023-11-14 22:13:20+00:00, before 2023-11-14 22:13:40+00:00, "
        "in this process; the rows of each are replaced",
        "needs the right to operate continuous query tens",
    ]
    assert set(attempts(query).values()) == {1}


@pytest.mark.parametrize(
    ("name", "start", "end", "error", "message"),
    [
        ("ten", None, None, NotFoundError, "CQ ten doesn't exist"),
        ("tens", "yesterday", None, ProgrammingError, "'yesterday' is not a timestamp"),
        ("tens", "2024-01-02", "2024-01-01", ProgrammingError, "is empty"),
    ],
)
def test_an_invalid_backfill_is_refused(
    query: headrace.Connection, name: str, start: str | None, end: str | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as refused:
        query.backfill(cq=name, start=start, end=end)
    assert getattr(refused.value, "hint", "")


def due(connection: headrace.Connection) -> list[int]:
    """Return what is due by seconds since START."""
    return [
        (instant - START) // SECOND for instant in executions.due(connection.session.context, job(connection, "tens").definition)
    ]


def test_due_executions_do_not_wait_for_a_range_that_is_computed_again(query: headrace.Connection) -> None:
    ledger, definition = query.session.context.catalog.executions, job(query, "tens").definition
    claimed = ledger.claim(definition.id, definition.schedule, START + 10 * SECOND, "backfill", again=True)
    query.clock.advance(10 * SECOND)
    assert due(query) == [40]
    ledger.fail(claimed, "no space")
    assert due(query) == [10, 40]


def test_an_abandoned_range_is_due_again(query: headrace.Connection) -> None:
    ledger, definition = query.session.context.catalog.executions, job(query, "tens").definition
    query.session.context.catalog.jobs.set_desired(definition.id, DesiredState.PAUSED)
    ledger.claim(definition.id, definition.schedule, START + 10 * SECOND, "backfill", again=True)
    query.clock.advance(ABANDONED_MS)
    assert due(query)[:2] == [10, 40]


def test_an_interrupted_backfill_leaves_a_range_that_is_computed_again(
    query: headrace.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(executions, "compute", interrupt)
    with pytest.raises(KeyboardInterrupt):
        query.backfill(cq="tens", start=at(0), end=at(10))
    context, definition = query.session.context, job(query, "tens").definition
    (failed,) = context.catalog.executions.unfinished(definition.id)
    assert (failed.state, failed.message) == (ExecutionState.FAILED, "the execution was interrupted")
    assert due(query) == [10]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_backfill_that_was_killed_is_repeated_at_once(query: headrace.Connection) -> None:
    insert(query, *range(-10, 30))
    command = [sys.executable, "-m", "headrace.cli.main", "backfill", "--cq", "tens", "--from", at(0), "--to", at(10)]
    environment = os.environ | {"HEADRACE_FAILPOINTS": "queries.execution.claimed:1:kill"}
    environment["HEADRACE_HOME"] = str(query.session.context.settings.home)
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    context, definition = query.session.context, job(query, "tens").definition
    (claimed,) = context.catalog.executions.unfinished(definition.id)
    assert (claimed.state, claimed.attempt) == (ExecutionState.RUNNING, 2)
    assert due(query) == [10]
    assert query.backfill(cq="tens", start=at(0), end=at(10)) == 1
    assert attempts(query)[10] == 3
    assert points(query, "select c from root.agg.line1")[0] == 10
