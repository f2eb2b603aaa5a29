"""Pipes as a kind of jobs. Imports no plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.jobs import actions
from headrace.jobs.actions import JobAction, statement_action
from headrace.jobs.kinds import JobKind, commit_lag_ms, imported
from headrace.model.access import Privilege
from headrace.model.jobs import JobState
from headrace.model.tree_statements import DropPipe, StartPipe, StopPipe, TreeStatement

PIPE: Final = "pipe"
RUNNING: Final = "RUNNING"
STOPPED: Final = "STOPPED"


def action(statement: Callable[[str], TreeStatement], effect: str, label: str = "") -> JobAction:
    """Return an action whose statement names the pipe."""
    return statement_action(lambda job: statement(job.name), lambda _: effect, label)


KIND: Final = JobKind(
    name=PIPE,
    plural="pipes",
    dag_prefix="headrace_pipe__",
    address="pipe",
    runner=imported("headrace.pipes.runner:PipeRunner"),
    sources=imported("headrace.pipes.running:PipeSources"),
    drop=imported("headrace.pipes.lifecycle:drop"),
    dag=imported("headrace_generators.pipe:pipe_dag"),
    page=imported("headrace.web.pipe_view:PAGE"),
    needs=imported("headrace.pipes.needs:pipe_needs"),
    lineage=imported("headrace.pipes.lineage:pipe_lineage"),
    needed_version=imported("headrace.pipes.retention:needed_version"),
    metrics=imported("headrace.runtime.job_metrics:pipe_families"),
    lag_ms=commit_lag_ms,
    resume="START",
    counts_rows_in=False,
    # IoTDB has two states.
    states={
        JobState.CREATED: RUNNING,
        JobState.FILLING: RUNNING,
        JobState.RUNNING: RUNNING,
        JobState.PAUSED: STOPPED,
        JobState.STOPPED: STOPPED,
    },
    descriptions={
        JobState.CREATED: "recorded, not started by its snode yet",
        JobState.FILLING: "transferring its history",
        JobState.RUNNING: "transferring what arrives",
        JobState.PAUSED: "stopped until START PIPE",
        JobState.STOPPED: "failed for the reason shown",
    },
    resumption="transferring what was written meanwhile",
    privilege=Privilege.USE_PIPE,
    actions={
        actions.PAUSE: action(StopPipe, "Nothing is transferred until the pipe is started again.", "stop"),
        actions.RESUME: action(
            StartPipe, "The pipe continues where it stopped, and transfers what was written meanwhile.", "start"
        ),
        actions.DROP: action(DropPipe, "Removes the pipe. What it has transferred stays."),
    },
)
