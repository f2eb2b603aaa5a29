"""Streams as a kind of jobs. Imports nothing of Spark, nor what computes streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.jobs import actions
from headrace.jobs.actions import JobAction, statement_action
from headrace.jobs.kinds import JobKind, commit_lag_ms, imported
from headrace.model.jobs import JobState
from headrace.model.statements import DropQuarantine, DropStream, PauseStream, ReplayStream, ResetStream, ResumeStream, Statement
from headrace.model.tables import Name

STREAM: Final = "stream"


def action(statement: Callable[[Name], Statement], effect: str) -> JobAction:
    """Return an action whose statement names the stream."""
    return statement_action(lambda job: statement(Name(job.database, job.name)), lambda _: effect)


KIND: Final = JobKind(
    name=STREAM,
    plural="streams",
    dag_prefix="headrace_stream__",
    address="stream",
    runner=imported("headrace.streams.runner:StreamRunner"),
    sources=imported("headrace.streams.sources.poller:SourcePollers"),
    history=imported("headrace.runtime.backfill_queue:BackfillQueue"),
    drop=imported("headrace.streams.lifecycle:drop"),
    dag=imported("headrace_generators.stream:stream_dag"),
    page=imported("headrace.web.stream_view:PAGE"),
    needs=imported("headrace.streams.needs:stream_needs"),
    lineage=imported("headrace.streams.lineage:stream_lineage"),
    metrics=imported("headrace.runtime.job_metrics:stream_families"),
    lag_ms=commit_lag_ms,
    measured=imported("headrace.streams.sources.lag:measured_record"),
    descriptions={
        JobState.CREATED: "recorded, not started by its snode yet",
        JobState.FILLING: "computing its history",
        JobState.RUNNING: "processing new rows of its source",
        JobState.PAUSED: "paused until RESUME STREAM",
        JobState.STOPPED: "failed for the reason shown",
    },
    resumption="catching up with rows written meanwhile",
    actions={
        actions.PAUSE: action(PauseStream, "New rows stay in the source and are processed when the stream is resumed."),
        actions.RESUME: action(
            ResumeStream, "The stream continues from its last offsets and processes the rows that have arrived since."
        ),
        actions.REPLAY: action(ReplayStream, "Processes the rows in quarantine again. Those that still fail stay there."),
        actions.DROP_QUARANTINE: action(
            DropQuarantine, "Leaves the rows in quarantine out for good, unless they are written again. They stay in the source."
        ),
        actions.RESET: action(ResetStream, "Computes the stream again from all stored rows, and replaces its rows in the target."),
        actions.DROP: action(DropStream, "Removes the stream and its state. The target table keeps its rows."),
    },
)
