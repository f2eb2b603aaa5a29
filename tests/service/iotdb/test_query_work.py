"""What the process of a DAG run does: its own instant, what is due around it, and what other runs wait for."""

from __future__ import annotations

from typing import Any

import pytest

import headrace
from headrace.context import Context
from headrace.errors import Error
from headrace.model import failpoints
from headrace.model.continuous_queries import Execution
from headrace.model.jobs import DesiredState, JobDefinition, JobState
from headrace.queries import executions
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.runtime.query_runs import QueryWork
from headrace.runtime.query_work import execute_work
from tests.service.iotdb.conftest import START

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

EVERY = 10_000
HOLDER = "airflow/r"


@pytest.fixture
def context(plant: headrace.Connection) -> Context:
    """Provide a plant with a continuous query `q` that is due for the fifth time."""
    rows = ", ".join(f"({START + second * 1000}, {second})" for second in range(-10, 60))
    plant.execute(f"insert into root.plant.line1(time, s1) values {rows}")
    plant.execute("create cq q begin select count(s1) into root.agg.line1(c) from root.plant.line1 group by (10s) end")
    plant.clock.advance(4 * EVERY)
    return plant.session.context


def definition(context: Context) -> JobDefinition:
    return context.catalog.jobs.get("", "q", CONTINUOUS_QUERY).definition


def work(context: Context, number: int, holder: str = HOLDER, **options: Any) -> QueryWork:
    return QueryWork(definition(context).id, holder, START + number * EVERY, **options)


def ledger(context: Context) -> dict[int, Execution]:
    """Return the executions by number, in the order in which they were last finished."""
    done = sorted(context.catalog.executions.all(definition(context).id), key=lambda execution: execution.finished or 0)
    return {(execution.scheduled - START) // EVERY: execution for execution in done}


def test_a_run_that_catches_up_executes_all_that_is_due_in_order(context: Context) -> None:
    execute_work(context, work(context, 1, catch_up=True))
    assert [(number, entry.state.value) for number, entry in sorted(ledger(context).items())] == [(n, "DONE") for n in range(5)]
    execute_work(context, work(context, 3, "airflow/s", catch_up=True))
    assert {entry.holder for entry in ledger(context).values()} == {HOLDER}


def test_a_backfill_executes_its_instant_and_those_of_waiting_runs_again(context: Context) -> None:
    execute_work(context, work(context, 0, catch_up=True))
    ahead = ((START + EVERY, "airflow/b/2"), (START + 3 * EVERY, "airflow/d"))
    execute_work(context, work(context, 0, "airflow/a", again=True, ahead=ahead))
    assert {number: (entry.holder, entry.attempt) for number, entry in sorted(ledger(context).items())} == {
        0: ("airflow/a", 2),
        1: ("airflow/b/2/by/a", 2),
        2: (HOLDER, 1),
        3: ("airflow/d/by/a", 2),
        4: (HOLDER, 1),
    }
    execute_work(context, work(context, 0, "airflow/a", again=True, ahead=ahead))
    assert {entry.attempt for entry in ledger(context).values()} == {1, 2}, "a retry repeats nothing"


def test_what_another_process_is_at_is_left_to_it(context: Context) -> None:
    for number in (0, 3):
        at = START + number * EVERY
        context.catalog.executions.claim(definition(context).id, definition(context).schedule, at, "snode default")
    execute_work(context, work(context, 1, catch_up=True))
    assert {number: entry.state.value for number, entry in ledger(context).items() if entry.holder != HOLDER} == {
        0: "RUNNING",
        3: "RUNNING",
    }
    assert sorted(number for number, entry in ledger(context).items() if entry.holder == HOLDER) == [1, 2, 4]


def test_a_process_waits_for_the_one_that_is_at_its_instant(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = context.catalog.executions.claim(definition(context).id, definition(context).schedule, START, "snode default")
    monkeypatch.setattr("headrace.runtime.query_work.time.sleep", lambda _: context.catalog.executions.finish(claim, 7))
    execute_work(context, work(context, 0))
    assert (ledger(context)[0].holder, ledger(context)[0].rows) == ("snode default", 7)


def test_a_failure_ahead_is_left_to_its_own_run(context: Context) -> None:
    with failpoints.calling("queries.execution.written", lambda: break_target(context)):
        execute_work(context, work(context, 0, catch_up=True, stop=True))
    assert {number: entry.state.value for number, entry in sorted(ledger(context).items())} == {0: "DONE", 1: "FAILED"}
    assert context.catalog.jobs.by_id(definition(context).id).state is JobState.RUNNING


def break_target(context: Context) -> None:
    """Give the target a type that no count fits."""
    with headrace.connect(context.settings.home, dialect="iotdb", settings=context.settings, clock=context.clock) as other:
        other.execute("delete timeseries root.agg.line1.c")
        other.execute("create timeseries root.agg.line1.c with datatype=BOOLEAN")


def test_a_failing_run_stops_the_query_if_it_is_the_last_try(context: Context) -> None:
    execute_work(context, work(context, 0))
    break_target(context)
    for stop, state in ((False, JobState.RUNNING), (True, JobState.STOPPED)):
        with pytest.raises(Error, match="not compatible"):
            execute_work(context, work(context, 1, stop=stop))
        assert context.catalog.jobs.by_id(definition(context).id).state is state
    assert "not compatible" in str(context.catalog.jobs.by_id(definition(context).id).reason)
    assert ledger(context)[1].message is not None


def test_a_query_that_is_paused_meanwhile_executes_nothing_more(context: Context) -> None:
    catalog, job = context.catalog, definition(context)

    def pause() -> None:
        catalog.jobs.set_desired(job.id, DesiredState.PAUSED)
        catalog.jobs.set_state(job.id, JobState.PAUSED)

    with failpoints.calling("queries.execution.written", pause):
        execute_work(context, work(context, 0, catch_up=True))
    assert list(ledger(context)) == [0]


def test_a_query_that_is_dropped_meanwhile_writes_nothing(plant: headrace.Connection, context: Context) -> None:
    with failpoints.calling("queries.execution.claimed", lambda: context.catalog.jobs.drop(definition(context).id)):
        execute_work(context, work(context, 0, catch_up=True, stop=True))
    assert plant.execute("select c from root.agg.line1").fetchall() == []


def test_a_range_is_recomputed_once_even_if_the_process_is_interrupted(context: Context) -> None:
    execute_work(context, work(context, 0, catch_up=True))
    range_ = QueryWork(definition(context).id, "airflow/m", range=(START, START + 2 * EVERY))
    with failpoints.armed("queries.execution.written:2:raise"), pytest.raises(failpoints.FailpointError):
        execute_work(context, range_)
    execute_work(context, range_)
    assert [ledger(context)[number].attempt for number in range(5)] == [1, 2, 3, 1, 1]
    instants = list(executions.recomputed_instants(definition(context).schedule, None, START, context.clock.now()))
    assert instants == [START], "without a start, from the first execution on"
