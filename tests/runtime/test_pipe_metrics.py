"""Metrics and samples of pipes."""

from __future__ import annotations

from dataclasses import replace

from headrace.jobs.hosts import JobActivity
from headrace.model.jobs import DesiredState, JobCounters, JobProgress, JobRecord, JobState
from headrace.model.positions import Position
from headrace.runtime.metrics import render_metrics
from tests.runtime.test_metrics import reading
from tests.support.pipes import pipe

COUNTERS = JobCounters(rows_out=20, bytes_out=320, rows_pending=8, batches=3, failures=1)


def record(name: str, state: JobState = JobState.RUNNING, position: Position | None = None) -> JobRecord:
    progress = JobProgress(position, updated=5, counters=COUNTERS)
    return JobRecord(pipe(name), DesiredState.RUNNING, state, progress)


def test_pipes_have_their_own_metrics() -> None:
    records = [record("new", JobState.STOPPED), record("out", position=Position(3, {}))]
    activity = {"pipe-out": JobActivity(10, 0, 4_000)}
    lines = render_metrics(replace(reading(), records=records, activity=activity, now=6_500)).splitlines()
    assert not [line for line in lines if line.startswith('headrace_pipe_lag_seconds{pipe="new"')]
    for line in (
        'headrace_pipe_lag_seconds{pipe="out",snode="default"} 2.5',
        'headrace_pipes{snode="default",state="RUNNING"} 1.0',
        'headrace_pipe_stopped{pipe="out",snode="default"} 0.0',
        'headrace_pipe_stopped{pipe="new",snode="default"} 1.0',
        'headrace_pipe_rows_pending{pipe="out",snode="default"} 8.0',
        'headrace_pipe_rows_out_total{pipe="out",snode="default"} 20.0',
        'headrace_pipe_bytes_out_total{pipe="out",snode="default"} 320.0',
        'headrace_pipe_batches_total{pipe="out",snode="default"} 3.0',
        'headrace_pipe_failures_total{pipe="out",snode="default"} 1.0',
    ):
        assert line in lines
