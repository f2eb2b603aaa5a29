"""Continuous queries that a real Airflow executes: missed intervals, a backfill, cleared runs, failures, and a killed process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import headrace
from headrace.model.clock import ManualClock, SystemClock
from headrace.model.continuous_queries import Execution, ExecutionState
from headrace.model.jobs import JobDefinition, JobRecord, JobState
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.runtime.query_runs import instant_text
from tests.airflow.conftest import HOOK
from tests.airflow.rest_server import Server
from tests.airflow.running import RunningSystem
from tests.airflow.test_system_provider import xcom

pytestmark = [pytest.mark.airflow, pytest.mark.e2e, pytest.mark.timeout(3600)]

MINUTE = 60_000
HOUR = 60 * MINUTE
BACKFILLED = 6
"""Intervals of a native backfill, of which Airflow starts two at a time."""
BODY = "BEGIN SELECT count(s), max_value(s) INTO root.{name}.d(c, m) FROM root.plant.d GROUP BY (1m) END"


class Queries:
    """Creates continuous queries in the past, so that executions are due at once, and shows what became of them."""

    def __init__(self, up: RunningSystem) -> None:
        self.up = up
        self.now = SystemClock().now()
        self.trees = headrace.connect(settings=up.settings, dialect="iotdb")

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return self.trees.execute(statement).fetchall()

    def create(self, name: str, every: str, *, ago: int = 0, clauses: str = "") -> None:
        clock = ManualClock(self.now - ago)
        statement = f"CREATE CQ {name} RESAMPLE EVERY {every} {clauses} {BODY.format(name=name)}"
        with headrace.connect(settings=self.up.settings, dialect="iotdb", clock=clock) as past:
            past.execute(statement)

    def record(self, name: str) -> JobRecord:
        return self.up.catalog.jobs.get("", name, CONTINUOUS_QUERY)

    def definition(self, name: str) -> JobDefinition:
        return self.record(name).definition

    def executions(self, name: str) -> list[Execution]:
        """Return the executions of a query, oldest instant first."""
        return self.up.catalog.executions.all(self.definition(name).id)[::-1]

    def done(self, name: str) -> list[Execution]:
        return [execution for execution in self.executions(name) if execution.state is ExecutionState.DONE]

    def until(self, poll: Callable[[], Any], what: str) -> Any:
        return self.up.until(poll, what)

    def runs(self, name: str, run_type: str) -> list[dict[str, Any]]:
        return [run for run in self.up.client.runs(f"headrace_cq__{name}", 100) if run["run_type"] == run_type]

    def tasks(self, name: str, run_id: str) -> dict[str, str]:
        return {task["task_id"]: task["state"] for task in self.up.client.tasks(f"headrace_cq__{name}", run_id)}

    def assert_equals_query(self, name: str, executions: list[Execution]) -> None:
        """Check that the rows of INTO are those of the query over the ranges of these executions, each once."""
        stored = self.sql(f"SELECT c, m FROM root.{name}.d")
        expected = []
        for start, end in sorted({(execution.start, execution.end) for execution in executions}):
            windows = f"GROUP BY ([{start}, {end}), 1m)"
            expected += self.sql(f"SELECT count(s), max_value(s) FROM root.plant.d {windows}")
        assert stored == expected
        assert len({time for time, *_ in stored}) == len(stored)


@pytest.fixture(scope="module")
def queries(up: RunningSystem) -> Iterator[Queries]:
    queries = Queries(up)
    first = queries.now // HOUR * HOUR - 30 * HOUR
    rows = ", ".join(f"({first + number * MINUTE}, {number})" for number in range(31 * 60))
    queries.sql(f"INSERT INTO root.plant.d(time, s) VALUES {rows}")
    yield queries
    queries.trees.close()


def test_missed_intervals_are_executed_in_order_although_a_process_is_killed(queries: Queries) -> None:
    """The fifth execution has been written when the process dies, so its retry writes it again."""
    queries.create("killed", "1m", ago=6 * MINUTE)
    for number in range(1, 7):
        queries.until(lambda: len(queries.done("killed")) >= number, f"execution {number} of 6")  # noqa: B023
    for number in range(1, 7):
        queries.until(lambda: len(done_runs(queries, "killed", "scheduled")) >= number, f"run {number} of 6")  # noqa: B023
    queries.sql("PAUSE CONTINUOUS QUERY killed")
    queries.until(lambda: all(run["state"] == "success" for run in queries.runs("killed", "scheduled")), "the last run to end")
    executions = queries.executions("killed")
    schedule = queries.definition("killed").schedule
    assert [execution.scheduled for execution in executions] == [
        schedule.first + number * MINUTE for number in range(len(executions))
    ]
    finished = [execution.finished or 0 for execution in executions]
    assert finished == sorted(finished)
    assert {execution.state for execution in executions} == {ExecutionState.DONE}
    assert [execution.attempt for execution in executions] == [1] * 4 + [2] + [1] * (len(executions) - 5)
    queries.assert_equals_query("killed", executions)
    queries.sql("DROP CQ killed")


def test_a_dag_scheduled_on_the_asset_of_a_query_runs_after_its_runs(queries: Queries) -> None:
    """It is the one of the documentation."""
    client, dag, name = queries.up.client, "means_report", "boiler_means"
    queries.until(lambda: client.dag(dag), "the DAG to be known")
    client._call("PATCH", f"/api/v2/dags/{dag}", json={"is_paused": False})
    queries.create(name, "1h", ago=HOUR)

    def ranges() -> list[dict[str, Any]]:
        runs = [run["dag_run_id"] for run in client.runs(dag) if run["state"] == "success"]
        return [one for run in runs for one in xcom(queries.up, run, "computed_ranges", dag)]

    queries.until(lambda: len(ranges()) >= len(queries.done(name)) > 0, "a run after each of the query")
    done = sorted(queries.done(name), key=lambda execution: execution.start)
    found = sorted(ranges(), key=lambda one: str(one["from"]))
    assert [(one["from"], one["rows"]) for one in found] == [(instant_text(one.start), one.rows) for one in done]
    queries.sql(f"DROP CQ {name}")


def test_a_scheduled_run_that_misses_its_deadline_raises_an_alert(queries: Queries, hook: Server) -> None:
    def texts() -> list[str]:
        return [body["text"] for body in hook.bodies("POST", HOOK) if "headrace_cq__killed is late" in body["text"]]

    (text, *_) = queries.until(texts, "the alert")
    assert text.startswith("[Headrace] headrace_cq__killed is late\nIts run scheduled__20")
    assert "has not ended 1 s after it was queued" in text


def test_a_query_that_is_due_often_is_supervised_until_it_is_dropped_and_its_form_recomputes_a_range(queries: Queries) -> None:
    queries.create("often", "30s", ago=0, clauses="BOUNDARY 2100-01-01T00:00:00")
    queries.until(lambda: queries.up.client.dag("headrace_cq__often"), "the DAG")
    run = queries.until(lambda: queries.runs("often", "scheduled"), "its run")[0]["dag_run_id"]
    queries.until(lambda: queries.tasks("often", run)["supervise"] == "deferred", "supervision to start")
    form = {"from": iso(queries.now - 2 * MINUTE), "to": iso(queries.now)}
    manual = queries.up.trigger("headrace_cq__often", form)
    queries.until(lambda: done_runs(queries, "often", "manual"), "the range to be recomputed")
    assert queries.tasks("often", manual) == {"recompute": "success", "begin": "skipped", "supervise": "skipped"}
    assert {execution.holder for execution in queries.done("often")} == {f"airflow/{manual}"}
    queries.assert_equals_query("often", queries.done("often"))
    queries.sql("DROP CQ often")
    queries.until(lambda: queries.tasks("often", run)["supervise"] == "success", "supervision to end")


def test_a_failing_query_is_stopped_and_resumed_by_clearing_its_task(queries: Queries) -> None:
    """It has been away for long, and executes its latest interval only."""
    queries.create("latest", "5m", ago=50 * MINUTE, clauses="TIMEOUT POLICY DISCARD")
    queries.sql("CREATE TIMESERIES root.latest.d.m WITH DATATYPE=BOOLEAN")
    queries.until(lambda: queries.record("latest").state is JobState.STOPPED, "the query to be STOPPED")
    reason = str(queries.record("latest").reason)
    ((_, _, shown),) = [row for row in queries.sql("SHOW CQS") if row[0] == "latest"]
    assert shown == f"STOPPED: {reason}"
    failed = queries.until(lambda: [run for run in queries.runs("latest", "scheduled") if run["state"] == "failed"], "the failure")[
        0
    ]
    assert reason in queries.up.log_text("headrace_cq__latest", failed["dag_run_id"], "execute", 2)
    queries.sql("DELETE TIMESERIES root.latest.d.m")
    queries.up.client.clear("headrace_cq__latest", failed["dag_run_id"])
    queries.until(lambda: queries.done("latest"), "the execution")
    assert queries.record("latest").state is JobState.RUNNING
    states = [row[4] for row in queries.sql("SHOW CQ EXECUTIONS latest")]
    earlier = states[len(states) - states[::-1].index("DONE") :]
    assert len(earlier) >= 9
    assert set(earlier) == {"MISSED"}
    queries.assert_equals_query("latest", queries.done("latest"))
    queries.sql("DROP CQ latest")


def test_a_native_backfill_computes_every_interval_of_its_range(queries: Queries) -> None:
    queries.create("hourly", "1h")
    queries.until(lambda: queries.up.client.dag("headrace_cq__hourly"), "the DAG")
    first = queries.now // HOUR * HOUR - 26 * HOUR
    from_date, to_date = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (first, first + (BACKFILLED - 1) * HOUR))
    queries.up.client.backfill("headrace_cq__hourly", from_date, to_date)
    for number in range(1, BACKFILLED + 1):
        queries.until(lambda: len(done_runs(queries, "hourly", "backfill")) >= number, f"run {number}")  # noqa: B023
    runs = done_runs(queries, "hourly", "backfill")
    executions = [execution for execution in queries.done("hourly") if "backfill" in execution.holder]
    assert [execution.start for execution in executions] == [first + number * HOUR for number in range(BACKFILLED)]
    tries = [task["try_number"] for run in runs for task in queries.up.client.tasks("headrace_cq__hourly", run["dag_run_id"])]
    assert max(execution.attempt for execution in executions) <= max(tries), "only a task that is tried again repeats an interval"
    queries.assert_equals_query("hourly", queries.done("hourly"))


def test_a_cleared_run_computes_its_interval_again(queries: Queries) -> None:
    run = sorted(queries.runs("hourly", "backfill"), key=lambda run: str(run["logical_date"]))[3]
    start = round(datetime.fromisoformat(run["logical_date"]).timestamp() * 1000)
    queries.sql(f"INSERT INTO root.plant.d(time, s) VALUES ({start + 1}, 1000000), ({start + HOUR + 1}, 1000000)")
    before = {execution.start: execution.attempt for execution in queries.done("hourly")}
    queries.up.client.clear("headrace_cq__hourly", run["dag_run_id"])

    def repeated() -> list[int]:
        return [done.start for done in queries.done("hourly") if done.attempt > before.get(done.start, done.attempt)]

    assert queries.until(repeated, "the interval to be computed again") == [start]
    largest = [row[2] for row in queries.sql("SELECT c, m FROM root.hourly.d") if row[2] == 1_000_000]
    assert largest == [1_000_000], "the interval after it was not computed again"
    queries.sql("DROP CQ hourly")
    assert queries.sql("SHOW CQS") == []


def done_runs(queries: Queries, name: str, run_type: str) -> list[dict[str, Any]]:
    return [run for run in queries.runs(name, run_type) if run["state"] == "success"]


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()
