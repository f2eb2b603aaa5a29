"""A kind of jobs that only these tests register: it runs in a driver, has a DAG, is supervised, and shows on the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

import headrace
from headrace.catalog import Catalog
from headrace.cli.doctor import check_catalog
from headrace.cli.system import describe_job
from headrace.context import Context
from headrace.errors import UnknownKindError
from headrace.model.execution_history import NO_HISTORY
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.runtime.activity import NO_ACTIVITY
from headrace.runtime.context import open_context
from headrace.runtime.dag_ids import job_from_dag_id, record_dag_id
from headrace.runtime.driver import Driver
from headrace.runtime.metrics import Histogram, SnodeMetrics, render_metrics
from headrace.runtime.readiness import find_obstacles
from headrace.runtime.reconciliation import find_unsupervised
from headrace.runtime.snode import count_jobs
from headrace.runtime.supervision import SupervisionStatus, Supervisor, read_snapshot, record_report
from headrace.settings import Settings
from headrace.streams.sources.source_tables import latest_offsets
from headrace_generators import generate
from tests.airflow.web_page import ACTION, Executed, only_job
from tests.jobs.tally import OWNER, SQL, TALLY, create_tally, registered
from tests.runtime.meters import METERS, START, Meters

pytestmark = pytest.mark.airflow

DAG_ID = "headrace_tally__db__t"


@dataclass
class Tallied:
    """A tally over a table of meters, and a driver."""

    context: Context
    meters: Meters
    driver: Driver

    @property
    def record(self) -> JobRecord:
        return self.context.catalog.jobs.by_id("tally-1")

    def write(self, *values: int) -> None:
        """Write a row of each value, and let the driver do what is due."""
        start = START + len(self.meters.stored)
        self.meters.write([("m1", start + number, value) for number, value in enumerate(values)])
        self.work()

    def work(self) -> None:
        self.driver.reconcile()
        while self.driver.host.poll():
            self.driver.reconcile()
        self.driver.reconcile()


@pytest.fixture
def context(home: Settings) -> Iterator[Context]:
    opened = open_context(home)
    yield opened
    opened.tables.close()
    opened.catalog.close()


@pytest.fixture
def tallied(context: Context) -> Iterator[Tallied]:
    """A tally that has counted two rows."""
    with registered():
        meters = Meters.create(context)
        create_tally(context, latest_offsets(context, [METERS.id]))
        driver = Driver(replace(context, epoch=1), "default", fills=False, batches=Histogram(), ended=lambda: None)
        made = Tallied(context, meters, driver)
        made.write(1, 2)
        yield made
        driver.host.close()


def test_a_driver_runs_its_jobs(tallied: Tallied) -> None:
    assert tallied.record.state is JobState.RUNNING
    assert tallied.record.progress.counters.rows_in == 2
    tallied.write(3, 4, 5)
    assert tallied.record.progress.counters.rows_in == 5
    assert count_jobs(tallied.driver.records)["tallies"] == {"RUNNING": 1}
    assert 'headrace_tallies{snode="default",state="RUNNING"} 1.0' in metrics_of(tallied)


def metrics_of(tallied: Tallied) -> str:
    return render_metrics(SnodeMetrics("default", 1, tallied.driver.records, Histogram(), 0, 0.0))


def test_a_job_is_paused_resumed_and_dropped(tallied: Tallied) -> None:
    jobs = tallied.context.catalog.jobs
    jobs.set_desired("tally-1", DesiredState.PAUSED)
    tallied.work()
    tallied.write(3)
    assert (tallied.record.state, tallied.record.progress.counters.rows_in) == (JobState.PAUSED, 2)
    jobs.set_desired("tally-1", DesiredState.RUNNING)
    tallied.work()
    assert (tallied.record.state, tallied.record.progress.counters.rows_in) == (JobState.RUNNING, 3)
    jobs.set_desired("tally-1", DesiredState.DROPPED)
    tallied.work()
    assert jobs.find("db", "t", TALLY.name) is None


def test_a_job_stops_with_a_reason_that_its_supervision_reports(tallied: Tallied) -> None:
    catalog = tallied.context.catalog
    supervisor = Supervisor("tally-1", heartbeat_ms=1_000, lease_ms=10_000)
    tallied.write(-1)
    reason = tallied.record.reason
    assert reason is not None
    assert str(reason) == "[DATA] a value is negative (fix the cause, then run START TALLY)"
    result = supervisor.check(read_snapshot(catalog, catalog.now()))
    assert (result.status, result.reason) == (SupervisionStatus.STOPPED, reason)
    (obstacle,) = find_obstacles(living(tallied), tallied.context.settings)
    assert obstacle.text == f"tally db.t is STOPPED: {reason}"
    assert record_report(catalog, "tally-1", reason)
    settings = tallied.context.settings
    assert list(find_unsupervised(catalog, settings, "default", [])) == [], "it has reported that it has stopped for good"


def living(tallied: Tallied) -> Any:
    """Return a snapshot with a driver that is alive."""
    catalog = tallied.context.catalog
    lease = catalog.leases.acquire("default", "elsewhere:1:1", 3_600_000)
    assert lease is not None
    catalog.snodes.beat(lease, detail=count_jobs(tallied.driver.records))
    return read_snapshot(catalog, catalog.now())


def test_a_job_whose_supervision_has_ended_is_supervised_again(tallied: Tallied) -> None:
    catalog, settings = tallied.context.catalog, tallied.context.settings
    assert list(find_unsupervised(catalog, settings, "default", [])) == [tallied.record]
    assert list(find_unsupervised(catalog, settings, "default", [DAG_ID])) == []


def test_a_job_has_a_dag(tallied: Tallied) -> None:
    assert record_dag_id(tallied.record) == DAG_ID
    assert job_from_dag_id(DAG_ID) == ("tally", "db", "t")
    dags = {dag.dag_id: dag for dag in generate()}
    assert [task.task_id for task in dags[DAG_ID].tasks] == ["supervise"]
    assert [dag.dag_id for dag in generate(DAG_ID)] == [DAG_ID]


def test_the_page_shows_a_job_in_the_words_of_its_kind(tallied: Tallied, page: TestClient, executed: Executed) -> None:
    row = only_job(page)
    assert row["id"] == tallied.record.definition.id
    expected = {
        "kind": "tally",
        "label": "db.t",
        "owner": OWNER,
        "layout": "job",
        "address": {"tally": "db.t"},
        "source": "db.meters",
        "state_text": "counting rows",
        "dag_id": DAG_ID,
    }
    assert {key: row[key] for key in expected} == expected
    listed = page.get("/api/jobs").json()
    assert listed["health"]["kinds"]["tally"] == 1
    assert listed["kinds"]["tally"] == {"plural": "tallies", "address": "tally"}
    detail = page.get("/api/jobs/tally-1").json()
    assert (detail["sql"], detail["tally"]) == (SQL, 2)
    assert [(action["action"], action["sql"]) for action in detail["actions"]] == [
        ("pause", "STOP TALLY t"),
        ("drop", "DROP TALLY t"),
    ]
    plan = page.get("/api/jobs/tally-1/plan").json()
    assert plan["plan"] == "count the rows of db.meters"
    assert [step["texts"] for chain in plan["chains"] for step in chain] == [["count the rows of db.meters"]]
    assert page.post("/api/jobs/tally-1/pause", json={"sql": "STOP TALLY t"}, headers=ACTION).status_code == 200
    assert executed.statements == ["STOP TALLY t"]


def test_commands_show_a_job(tallied: Tallied) -> None:
    cells = describe_job(tallied.record, NO_ACTIVITY, NO_HISTORY, tallied.context.catalog.now())
    assert cells[:3] == ("db.t", "tally", "RUNNING")
    assert check_catalog(tallied.context.settings) == "1 databases, 0 streams, 0 continuous queries, 0 pipes, 1 tallies"


def test_a_job_of_a_kind_that_is_not_registered_stops_and_says_why(context: Context, page: TestClient, catalog: Catalog) -> None:
    with registered():
        meters = Meters.create(context)
        create_tally(context, latest_offsets(context, [METERS.id]))
    driver = Driver(replace(context, epoch=1), "default", fills=False, batches=Histogram(), ended=lambda: None)
    tallied = Tallied(context, meters, driver)
    tallied.write(1, 2)
    reason = tallied.record.reason
    assert reason is not None
    assert (tallied.record.state, reason.code) == (JobState.STOPPED, UnknownKindError.code)
    assert tallied.record.progress.counters.rows_in == 0
    dags = {dag.dag_id: dag for dag in generate()}
    assert set(dags) == {"headrace_snode__default", "headrace_unknown__tally-1"}
    assert "jobs of the kind tally are not known" in str(dags["headrace_unknown__tally-1"].description)
    row = only_job(page)
    assert (row["layout"], row["reason"]["code"], row["lag_ms"]) == ("job", "UNKNOWN_JOB_KIND", None)
    assert page.get("/api/jobs/tally-1").json()["actions"] == []
    assert list(find_unsupervised(catalog, context.settings, "default", [])) == []
    assert describe_job(tallied.record, NO_ACTIVITY, NO_HISTORY, catalog.now())[1] == "tally"
    driver.host.close()


def test_show_lists_a_job_in_the_words_of_its_kind(tallied: Tallied) -> None:
    settings = tallied.context.settings
    with headrace.connect(settings=settings) as connection:
        rows = connection.execute("SHOW JOBS").fetchall()
        assert [row[:5] for row in rows] == [("t", "db", "tally", OWNER, "COUNTING")]
        assert connection.execute("SELECT owner FROM information_schema.ins_jobs WHERE kind = 'tally'").fetchall() == [(OWNER,)]
