"""Metrics, health and heartbeats of continuous queries, beside streams."""

from __future__ import annotations

from dataclasses import replace

from headrace.model.continuous_queries import ContinuousQuery, Execution, ExecutionState, Schedule
from headrace.model.execution_history import ExecutionHistory
from headrace.model.jobs import DesiredState, JobCounters, JobDefinition, JobProgress, JobRecord, JobState
from headrace.model.tree_statements import TimeoutPolicy
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.runtime.metrics import render_metrics
from headrace.runtime.snode import count_jobs
from tests.runtime.test_metrics import reading

SCHEDULE = Schedule(1_000, 0, 1_000, 0, TimeoutPolicy.BLOCKED, 5_000)


def query(name: str, state: JobState = JobState.RUNNING) -> JobRecord:
    definition = JobDefinition(
        id=f"id-{name}",
        kind=CONTINUOUS_QUERY,
        database="",
        name=name,
        sql="CREATE CQ …",
        dialect="iotdb",
        sources=(),
        target=None,
        created=0,
        continuous_query=ContinuousQuery(SCHEDULE, "UTC", ("root.a",), ("root.b",)),
    )
    counters = JobCounters(rows_out=30, batches=4, failures=2)
    return JobRecord(definition, DesiredState.RUNNING, state, JobProgress(counters=counters))


def lines_of(histories: dict[str, ExecutionHistory] | None) -> list[str]:
    stream = reading()
    records = [*stream.records, query("late"), query("odd name", JobState.STOPPED)]
    return render_metrics(replace(stream, records=records, histories=histories)).splitlines()


def test_queries_have_their_own_metrics() -> None:
    last = Execution("id-late", 8_000, *SCHEDULE.range_at(8_000), ExecutionState.DONE)
    lines = lines_of({"id-late": ExecutionHistory((last,))})
    assert 'headrace_cq_lag_seconds{cq="late",snode="default"} 1.0' in lines
    assert 'headrace_cq_lag_seconds{cq="odd name",snode="default"} 5.0' in lines
    assert 'headrace_cq_executions_done_total{cq="late",snode="default"} 4.0' in lines
    assert 'headrace_cq_executions_failed_total{cq="late",snode="default"} 2.0' in lines
    assert 'headrace_cq_rows_out_total{cq="late",snode="default"} 30.0' in lines


def test_streams_and_queries_are_counted_apart() -> None:
    lines = lines_of({})
    assert 'headrace_streams{snode="default",state="RUNNING"} 1.0' in lines
    assert 'headrace_streams{snode="default",state="STOPPED"} 0.0' in lines
    assert 'headrace_continuous_queries{snode="default",state="RUNNING"} 1.0' in lines
    assert 'headrace_continuous_queries{snode="default",state="STOPPED"} 1.0' in lines
    assert not [line for line in lines if line.startswith("headrace_stream_") and "late" in line]


def test_an_unknown_lag_is_left_out() -> None:
    lines = lines_of(None)
    assert not [line for line in lines if line.startswith("headrace_cq_lag_seconds{")]
    assert [line for line in lines if line.startswith("headrace_cq_executions_done_total{")]


def test_a_heartbeat_counts_streams_and_queries_apart() -> None:
    records = [*reading().records, query("a"), query("b", JobState.STOPPED)]
    assert count_jobs(records) == {"streams": {"RUNNING": 1}, "continuous_queries": {"RUNNING": 1, "STOPPED": 1}, "pipes": {}}
