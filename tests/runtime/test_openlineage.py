"""Events of OpenLineage: sent by an snode to a real receiver, and not sent while there is none."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

import headrace
from headrace.context import Context
from headrace.model.clock import ManualClock
from headrace.model.jobs import DesiredState, JobCounters, JobProgress, JobRecord, JobState, StopReason
from headrace.model.run_reports import RunReport, RunReports, RunState
from headrace.queries import executions
from headrace.runtime.openlineage.configuration import PARENT, is_configured, name_parent, parent_run
from headrace.runtime.openlineage.job_runs import JobRuns
from headrace.runtime.openlineage.reporter import OpenLineageReports, open_reports
from headrace.runtime.snode import Exit
from headrace.settings import Settings, load
from tests.support.jobs import Job
from tests.support.openlineage_receiver import Event, Receiver, check_event, receiver
from tests.support.pipes import pipe
from tests.support.waiting import wait_until

STREAM: Final = "stream.d.s"
QUERY: Final = "continuous_query.means"
PIPE: Final = "pipe.out"
PARENT_RUN: Final = "018f2c6e-7d0a-7000-8000-000000000001"
TABLES: Final = (
    "create database d",
    "create stable d.readings (ts timestamp, a int, b double) tags (place varchar(20))",
    "create table d.r1 using d.readings tags ('north')",
    "insert into d.r1 values (1700000000000, 1, 1.5) (1700000060000, 2, 2.5)",
    "create stream d.s trigger at_once fill_history 1 into d.maxima (start, most) tags (place varchar(20)) as "
    "select _wstart, max(a) + 1 from d.readings where b > 0 partition by place interval(1m)",
)
TREE: Final = (
    "create database root.plant",
    "insert into root.plant.line1(time, speed) values (now() - 10m, 3.5)",
    "create cq means resample every 1s range 1h begin select avg(speed) into root.plant.means(speed) from root.plant.line1 "
    "group by (1h) end",
    "create pipe out with source ('source'='iotdb-source', 'path'='root.plant.line1.**') "
    "with sink ('sink'='delta-sink', 'uri'='{folder}')",
)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Provide a receiver that OpenLineage's own settings name."""
    with receiver() as running:
        monkeypatch.setenv("OPENLINEAGE_URL", running.url)
        monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "plant")
        yield running


def rows_out(event: Event) -> int:
    return sum(one["outputFacets"]["outputStatistics"]["rowCount"] for one in event["outputs"] if one.get("outputFacets"))


def lineage(dataset: dict[str, Any]) -> dict[str, set[tuple[str, str]]]:
    """Return the input fields of each column, with their transformations; those of all columns under an empty name."""
    facet = dataset["facets"]["columnLineage"]
    fields = {name: one["inputFields"] for name, one in facet["fields"].items()} | {"": facet["dataset"]}
    return {
        name: {(own["field"], way["subtype"]) for own in inputs for way in own["transformations"]}
        for name, inputs in fields.items()
    }


@pytest.mark.spark
@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_an_snode_sends_the_events_of_all_runs(events: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = load(home=tmp_path / "home", spark_master="local[1]")
    monkeypatch.setenv("HEADRACE_OPENLINEAGE_RUNNING_S", "1")
    monkeypatch.setenv(PARENT, f"airflow/headrace_snode.driver/{PARENT_RUN}")
    with headrace.connect(settings=settings) as tables, headrace.connect(settings=settings, dialect="iotdb") as tree:
        for sql in TABLES:
            tables.execute(sql)
        for sql in TREE:
            tree.execute(sql.format(folder=tmp_path / "copy"))
        job = Job(settings, tmp_path, "snode")
        try:
            backfill = events.wait_for(f"{STREAM}.backfill", "COMPLETE", details=lambda: job.text[-4000:])
            events.wait_for(STREAM, "START", details=lambda: job.text[-4000:])
            tables.execute("insert into d.r1 values (1700000120000, 5, 1.5) (1700000180000, 6, 1.5)")
            running = events.wait_for(STREAM, "RUNNING", lambda event: rows_out(event) > 0, details=lambda: job.text[-4000:])
            query = events.wait_for(QUERY, "COMPLETE", lambda event: bool(event["inputs"] and event["outputs"]))
            delivered = events.wait_for(PIPE, "RUNNING", lambda event: rows_out(event) > 0)
            tree.execute("stop pipe out")
            events.wait_for(PIPE, "COMPLETE")
            job.signal(signal.SIGTERM)
            assert job.ended() == Exit.OK
        finally:
            job.clean_up()
    (ended,) = events.of(STREAM, "COMPLETE")
    assert {event["run"]["runId"] for event in events.of(STREAM)} == {ended["run"]["runId"]}
    for event in events.events:
        check_event(event)
        assert event["job"]["namespace"] == "plant"
        assert event["run"]["facets"]["parent"]["run"]["runId"] == PARENT_RUN
    check_stream(running, settings)
    check_others(backfill, query, delivered, tmp_path)


def check_stream(event: Event, settings: Settings) -> None:
    (source,), (target,) = event["inputs"], event["outputs"]
    assert (source["namespace"], source["name"]) == ("file", f"{settings.tables_uri}/d/readings/rows")
    assert target["facets"]["symlinks"]["identifiers"] == [{"namespace": "plant", "name": "d.maxima", "type": "TABLE"}]
    fields = {one["name"]: one["type"] for one in source["facets"]["schema"]["fields"]}
    assert fields == {"ts": "TIMESTAMP", "a": "INT", "b": "DOUBLE", "place": "VARCHAR(20)", "tbname": "VARCHAR"}
    assert lineage(target) == {
        "start": {("ts", "TRANSFORMATION")},
        "most": {("a", "AGGREGATION")},
        "place": {("place", "IDENTITY")},
        "tbname": {("place", "TRANSFORMATION")},
        "": {("b", "FILTER"), ("place", "GROUP_BY"), ("ts", "WINDOW")},
    }
    job, run = event["job"]["facets"], event["run"]["facets"]
    assert job["jobType"]["processingType"] == "STREAMING"
    assert job["sql"]["query"].startswith("create stream d.s")
    assert job["ownership"]["owners"]
    assert run["processing_engine"]["name"] == "spark"


def check_others(backfill: Event, query: Event, delivered: Event, folder: Path) -> None:
    assert backfill["job"]["facets"]["jobType"] | {"_producer": "", "_schemaURL": ""} == {
        "processingType": "BATCH",
        "integration": "HEADRACE",
        "jobType": "BACKFILL",
        "_producer": "",
        "_schemaURL": "",
    }
    (target,) = query["outputs"]
    assert lineage(target)["speed"] == {("speed", "AGGREGATION")}
    assert rows_out(query) > 0
    assert query["run"]["facets"]["nominalTime"]["nominalStartTime"] < query["run"]["facets"]["nominalTime"]["nominalEndTime"]
    (copy,) = delivered["outputs"]
    assert (copy["namespace"], copy["name"]) == ("file", str(folder / "copy"))
    assert lineage(copy)["speed"] == {("speed", "IDENTITY")}


def record(state: JobState = JobState.RUNNING, desired: DesiredState = DesiredState.RUNNING, rows: int = 0) -> JobRecord:
    reason = StopReason("SINK", "the sink is full", "", 0) if state is JobState.STOPPED else None
    return JobRecord(pipe(), desired, state, JobProgress(counters=JobCounters(rows_out=rows)), reason)


class Kept(RunReports):
    """Keeps reports."""

    def __init__(self) -> None:
        self.reports: list[RunReport] = []

    def report(self, report: RunReport) -> None:
        self.reports.append(report)


@pytest.mark.parametrize(
    ("last", "state", "error"),
    [
        ([record(JobState.STOPPED, rows=7)], RunState.FAIL, "[SINK] the sink is full"),
        ([record(JobState.PAUSED, DesiredState.PAUSED, rows=7)], RunState.COMPLETE, None),
        ([record(desired=DesiredState.DROPPED, rows=7)], RunState.ABORT, None),
    ],
)
def test_a_run_ends_as_its_job_does(last: list[JobRecord], state: RunState, error: str | None) -> None:
    kept, records, instants = Kept(), [[record(rows=2)], [record(rows=4)], last, last, [record(rows=8)]], iter((1_000, 2_000))
    runs = JobRuns(kept, "default", 1e-9, lambda: next(instants))
    for one in records:
        runs.look(one)
    runs.end()
    states = [RunState.START, RunState.RUNNING, state, RunState.START, RunState.COMPLETE]
    assert [one.state for one in kept.reports] == states
    assert [one.rows_out for one in kept.reports] == [None, 2, 5, None, 1]
    assert kept.reports[2].error == error
    assert [one.run for one in kept.reports] == ["default/1000"] * 3 + ["default/2000"] * 2


@pytest.mark.parametrize("together", [False, True])
def test_an_execution_that_fails_says_why(settings: Settings, together: bool) -> None:
    kept, instant = Kept(), 1_700_000_000_000
    with headrace.connect(settings=settings, dialect="iotdb", clock=ManualClock(instant)) as tree:
        for sql in TREE[:3]:
            tree.execute(sql)
        context = replace(tree.session.context, reports=kept)
        (job,) = (one.definition for one in context.catalog.jobs.all())
        for at in (job.schedule.first, job.schedule.first + 1_000):
            if together:
                executions.execute_together(context, [(job, [at])], "tests")
            else:
                with suppress(headrace.Error):
                    executions.execute(context, job, at, "tests")
            tree.execute("delete timeseries root.plant.means.speed")
            tree.execute("create timeseries root.plant.means.speed with datatype=BOOLEAN")
    assert [one.state for one in kept.reports] == [RunState.START, RunState.COMPLETE, RunState.START, RunState.FAIL]
    assert kept.reports[1].rows_out == 1
    assert "BOOLEAN" in (kept.reports[3].error or "")


def configure(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """Name a receiver at a port of this machine, which is tried once for each event."""
    for name, value in (("TYPE", "http"), ("URL", f"http://127.0.0.1:{port}"), ("RETRY", '{"total": 0, "connect": 0}')):
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)


def closed_port() -> int:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_runs_do_not_wait_for_a_receiver_that_is_away(
    context: Context, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    configure(monkeypatch, closed_port())
    reports = open_reports(context)
    assert isinstance(reports, OpenLineageReports)
    reports.report(RunReport(pipe(), "1", RunState.START))
    wait_until(lambda: reports.counts()["dropped"] == 1, "the event to be dropped")
    reports.close()
    assert "dropping events of OpenLineage, 1 so far: ConnectionError" in caplog.text


def test_runs_do_not_wait_for_a_receiver_that_is_slow(
    context: Context, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        configure(monkeypatch, silent.getsockname()[1])
        reports = OpenLineageReports(context, max_waiting=5)
        reports.report(RunReport(pipe(), "1", RunState.START))
        connection, _ = silent.accept()
        with connection, caplog.at_level(logging.WARNING):
            for number in range(100):
                reports.report(RunReport(pipe(), str(number), RunState.START))
            assert reports.counts() == {"sent": 0, "dropped": 95, "waiting": 5}
            assert caplog.text.count("5 events wait for their receiver") == 1
    reports.close()


def test_what_configures_openlineage(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert not is_configured(settings, {})
    assert is_configured(settings, {"OPENLINEAGE_URL": "http://x"})
    assert not is_configured(settings, {"OPENLINEAGE_URL": "http://x", "OPENLINEAGE_DISABLED": "True"})
    assert not is_configured(settings.replace({"openlineage": False}), {"OPENLINEAGE_URL": "http://x"})
    (tmp_path / "openlineage.yml").write_text("transport: {type: console}\n")
    assert is_configured(settings, {})


def test_the_parent_of_a_run_is_the_task_of_airflow(settings: Settings) -> None:
    task = SimpleNamespace(dag_id="headrace_cq__q", task_id="execute", try_number=2, map_index=-1)
    run = SimpleNamespace(logical_date=None, run_after=datetime(2026, 1, 1, tzinfo=UTC))
    environment = {"OPENLINEAGE_URL": "http://x"}
    name_parent({"ti": task, "dag_run": run}, settings, environment)
    assert parent_run(environment) == ("default", "headrace_cq__q.execute", "019b76da-a800-7" + environment[PARENT][-21:])
    assert parent_run({}) is None
