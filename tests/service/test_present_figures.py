"""What waits for a stream, by every way in which users look at it: they show the same, whatever the state of the stream."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import headrace
from headrace.catalog.processes import process_identity
from headrace.cli.system import describe_jobs
from headrace.cli.top import read_jobs
from headrace.model.jobs import JobState, StopReason
from headrace.runtime import alerts
from headrace.runtime.activity import measured_records, read_present
from headrace.runtime.job_metrics import stream_families
from headrace.runtime.metrics import Histogram, SnodeMetrics
from headrace.runtime.supervision import stale_after_ms
from headrace.settings import load
from headrace.streams.kind import STREAM
from headrace.web.flow_view import FlowRange, row_flow
from headrace.web.view import list_jobs, make_overview
from tests.service.conftest import START

ALERT_LAG_S = 200

Figures = tuple[str, int, int, int]
"""State, lag in ms, rows in, rows pending."""


def by_show_streams(connection: headrace.Connection) -> Figures:
    (row,) = connection.execute(
        "select status, lag_ms, rows_in, rows_pending from information_schema.ins_stream_progress"
    ).fetchall()
    return row


def by_show_jobs(connection: headrace.Connection) -> tuple[str, int]:
    (row,) = connection.execute("select status, lag_ms from information_schema.ins_jobs").fetchall()
    return row


def by_tasks(connection: headrace.Connection) -> str:
    (row,) = connection.execute("select in_queue from information_schema.ins_stream_tasks").fetchall()
    return str(row[0])


def by_page(connection: headrace.Connection) -> Figures:
    context = connection.session.context
    overview = make_overview(context.catalog, read_present(context), {}, {}, context.settings)
    (row,) = list_jobs(overview)["jobs"]
    flow = row_flow(context.catalog, measured_records(context, context.catalog.jobs.all())[0], FlowRange.ALL, START)
    assert flow["sources"]["in"] == row["counters"]["rows_in"]
    return row["state"], row["lag_ms"], row["counters"]["rows_in"], row["counters"]["rows_pending"]


def by_status(connection: headrace.Connection) -> tuple[str, ...]:
    (row,) = describe_jobs(read_present(connection.session.context), {}, stale_after_ms(connection.session.context.settings))
    return row[2:5]


def by_top(connection: headrace.Connection) -> tuple[str, int | None]:
    (line,) = read_jobs(connection, START)
    return line.status, line.lag_ms


def by_metrics(connection: headrace.Connection) -> tuple[float, ...]:
    context = connection.session.context
    records = measured_records(context, context.catalog.jobs.all())
    reading = SnodeMetrics("default", 1, records, Histogram(), 0, 0, context.clock.now())
    values = {sample.name: sample.value for family in stream_families(reading) for sample in family.samples}
    return values["headrace_stream_lag_seconds"], values["headrace_stream_rows_in_total"], values["headrace_stream_rows_pending"]


def by_alerts(connection: headrace.Connection, lag_ms: int) -> bool:
    """Return whether an alert says how far the stream is behind."""
    context = connection.session.context
    texts = alerts.check(context, {}).alerts.values()
    return any(text.startswith(f"stream d.s is {lag_ms // 1000} s behind") for text in texts)


def shown(connection: headrace.Connection) -> Figures:
    """Return what all of them show."""
    state, lag_ms, rows_in, pending = figures = by_show_streams(connection)
    assert by_page(connection) == figures
    assert by_show_jobs(connection) == by_top(connection) == (state, lag_ms)
    assert by_status(connection) == (state, f"{lag_ms} ms", str(rows_in))
    assert by_tasks(connection) == f"{pending} rows"
    assert by_alerts(connection, lag_ms) is (lag_ms > ALERT_LAG_S * 1000)
    assert by_metrics(connection) == (lag_ms / 1000, rows_in, pending)
    return figures


@pytest.mark.parametrize("state", JobState)
def test_lag_and_rows_that_wait_are_the_same_on_every_way(tmp_path: Path, state: JobState) -> None:
    clock = headrace.ManualClock(START)
    settings = load(home=tmp_path / "home", alert_lag_s=ALERT_LAG_S)
    with headrace.connect(settings=settings, clock=clock) as connection:
        connection.execute("create database d")
        connection.execute("use d")
        connection.execute("create table t (ts timestamp, v int)")
        connection.execute("create stream s trigger at_once into o as select _wstart, count(*) n from t interval(1m)")
        connection.execute(f"insert into t values ({START}, 1) ({START + 1}, 2)")
        connection.settle()
        assert shown(connection) == ("RUNNING", 0, 2, 0)
        context = connection.session.context
        (record,) = context.catalog.jobs.all(kind=STREAM)
        reason = StopReason("DATA", "it failed", "", START) if state is JobState.STOPPED else None
        context.catalog.jobs.set_state(record.definition.id, state, reason)
        connection.execute(f"insert into t values ({START + 2}, 3)")
        source = context.catalog.tables.get("d", "t")
        committed = context.tables.changes.committed_at(source, context.tables.version(source))
        assert committed is not None
        clock.set(committed + 231_000)
        assert shown(connection) == (state.value, 231_000, 3, 1)


def test_a_stream_of_a_driver_that_was_killed_is_not_running(tmp_path: Path) -> None:
    clock = headrace.ManualClock(START)
    with headrace.connect(tmp_path / "home", clock=clock) as connection:
        connection.execute("create database d")
        connection.execute("create table d.t (ts timestamp, v int)")
        connection.execute("create stream d.s trigger at_once into d.o as select _wstart, count(*) n from d.t interval(1m)")
        connection.settle()
        context = connection.session.context
        assert shown(connection)[0] == "RUNNING", "a connection that has settled is no driver that has died"
        lease = context.catalog.leases.get("default")
        assert lease is not None
        context.catalog.leases.release(lease)
        if (child := os.fork()) == 0:
            (tmp_path / "holder").write_text(json.dumps(process_identity()))
            os._exit(0)
        os.waitpid(child, 0)
        assert context.catalog.leases.acquire("default", json.loads((tmp_path / "holder").read_text()), 60_000) is not None
        assert shown(connection)[0] == "STOPPED"
        (message,) = connection.execute("select message from information_schema.ins_stream_progress").fetchone() or ()
        assert message.startswith(f"[DRIVER_LOST] the driver of snode default has died (process {child} is gone)")
