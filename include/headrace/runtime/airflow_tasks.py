"""The work of Airflow's tasks: backfilling a stream's history, and recomputing ranges that a user asked for."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from headrace.context import Context
from headrace.errors import DataError, Error, NotFoundError, PermissionDeniedError
from headrace.history import backfill
from headrace.jobs.registry import kind_of
from headrace.model.jobs import DesiredState, JobRecord, JobState, StopReason
from headrace.model.ledger import Chunk, ChunkState
from headrace.model.time import Duration, Precision

BACKFILL_FAILED: Final = "BACKFILL"
HOLDER: Final = "airflow"
RESIDENT_WAIT_S: Final = 60.0
RESIDENT_POLL_S: Final = 0.2
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Airflow allows no slash in a run id, so these runs of the ledger never collide with others, whatever a user calls a DAG run.
AIRFLOW_RUN: Final = "airflow/{run_id}"
CHUNK_RUN: Final = "{run}/chunk-{number}"
REPEATED_RUN: Final = "{run}/{repetition}"


@dataclass(frozen=True, slots=True)
class BackfillRange:
    """A range of window starts `[start, end)` to recompute; None is unbounded. Chunks have `rows` rows or the length `duration`."""

    start: datetime | None = None
    end: datetime | None = None
    rows: int | None = None
    duration: Duration | None = None

    @classmethod
    def of_form(cls, form: Mapping[str, Any], timezone: str = "UTC") -> BackfillRange:
        """Return the range that a DAG's form asks for: `from`, `to`, `chunk_rows`, `chunk_minutes`, all optional.

        Raises:
            DataError: A field is not valid; the message names it.
        """
        start, end = (_instant(name, form.get(name), timezone) for name in ("from", "to"))
        if start is not None and end is not None and start >= end:
            raise DataError(
                f"the range from {start} to {end} is empty", hint="set `to`, which is exclusive, to a time after `from`"
            )
        minutes = form.get("chunk_minutes")
        return cls(start, end, form.get("chunk_rows"), Duration(int(minutes), "m") if minutes else None)


def source_timezone(context: Context, job_id: str) -> str:
    """Return the time zone of a stream's source, which applies to ranges without a zone."""
    return context.catalog.databases.get(context.catalog.jobs.by_id(job_id).definition.source.database).timezone


def plan_history(context: Context, job_id: str) -> list[Chunk]:
    """Return the chunks of a stream's history that are not done; none if it has no history, or is live already."""
    record = resume_cleared_stream(context, job_id)
    if record.is_live:
        return []
    chunks = backfill.plan_chunks(context, job_id)
    if backfill.has_small_source(context, record):
        wait_for_snode(context, job_id)
        chunks = context.catalog.ledger.chunks(job_id, backfill.HISTORY)
    return [chunk for chunk in chunks if chunk.state is not ChunkState.DONE]


def wait_for_snode(context: Context, job_id: str) -> None:
    """Wait until the snode has filled a small history, as long as it can be expected to: a Spark process takes longer to start."""
    deadline = time.monotonic() + RESIDENT_WAIT_S
    while time.monotonic() < deadline and not backfill.is_filled(context, job_id):
        record = context.catalog.jobs.by_id(job_id)
        is_wanted = record.desired is DesiredState.RUNNING and record.state is not JobState.STOPPED
        lease = context.catalog.leases.get(record.definition.snode)
        if not is_wanted or lease is None or not lease.is_valid(context.clock.now()):
            return
        time.sleep(RESIDENT_POLL_S)


def plan_range(context: Context, job_id: str, run_id: str, range_: BackfillRange) -> list[Chunk]:
    """Split the range of a DAG run into chunks, and return those that are not done.

    The chunks are fixed when the run is first planned. If all are done, a user has cleared the task to recompute the range, which
    is then planned as a new run.
    """
    run = unfinished_run(context, job_id, AIRFLOW_RUN.format(run_id=run_id))
    record = context.catalog.jobs.by_id(job_id)
    precision = context.catalog.databases.get(record.definition.source.database).precision
    chunks = backfill.plan_chunks(
        context,
        job_id,
        run,
        start=to_ticks(range_.start, precision),
        end=to_ticks(range_.end, precision),
        rows=range_.rows,
        duration=range_.duration,
    )
    return [chunk for chunk in chunks if chunk.state is not ChunkState.DONE]


def choose_run(context: Context, job_id: str, run: str, number: int) -> str:
    """Return the run of the ledger under which to compute a chunk.

    It differs from `run` if the chunk is done: then a user has cleared its task to recompute it. A chunk of the history stays
    done, since the live stream builds on it.
    """
    chunk = next((chunk for chunk in context.catalog.ledger.chunks(job_id, run) if chunk.number == number), None)
    if run == backfill.HISTORY or chunk is None or chunk.state is not ChunkState.DONE:
        return run
    repeated_run = unfinished_run(context, job_id, CHUNK_RUN.format(run=run, number=number), first=2)
    context.catalog.ledger.plan(job_id, repeated_run, [chunk])
    return repeated_run


def unfinished_run(context: Context, job_id: str, run: str, first: int = 1) -> str:
    """Return the run, or its first repetition (2, 3, …, starting at `first`), that has not been completed."""
    for repetition in itertools.count(first):
        name = run if repetition == 1 else REPEATED_RUN.format(run=run, repetition=repetition)
        chunks = context.catalog.ledger.chunks(job_id, name)
        if not chunks or any(chunk.state is not ChunkState.DONE for chunk in chunks):
            return name
    raise AssertionError


def activate(context: Context, job_id: str) -> None:
    """Hand a stream whose history is complete over to its snode. Has no effect if it has no history, or is live."""
    record = resume_cleared_stream(context, job_id)
    if not record.is_live:
        backfill.activate(context, job_id)


def resume_cleared_stream(context: Context, job_id: str, number: int | None = None) -> JobRecord:
    """Return the stream's record, resumed if a failed backfill had stopped it and no other chunk than `number` is FAILED.

    This is what a user expects who clears a failed task.
    """
    record = context.catalog.jobs.by_id(job_id)
    if record.reason is None or record.reason.code != BACKFILL_FAILED or record.desired is not DesiredState.RUNNING:
        return record
    chunks = context.catalog.ledger.chunks(job_id, backfill.HISTORY)
    if any(chunk.state is ChunkState.FAILED and chunk.number != number for chunk in chunks):
        return record
    context.catalog.jobs.replace_state(record, record.resumed_state)
    return context.catalog.jobs.by_id(job_id)


def failure_message(context: Context, job_id: str, run: str, number: int, fallback: str) -> str:
    """Return why a chunk failed, as recorded by the process that computed it, or the fallback."""
    with suppress(Error):
        for chunk in context.catalog.ledger.chunks(job_id, run):
            if chunk.number == number and chunk.message:
                return chunk.message
    return fallback


def stop_failed_stream(context: Context, job_id: str, message: str, number: int | None = None) -> StopReason | None:
    """Mark a stream STOPPED since its history could not be backfilled; None if it was dropped or paused."""
    if number is not None:
        _mark_failed(context, job_id, number, message)
    subject = "" if number is None else f"chunk {number} of "
    try:
        record = context.catalog.jobs.by_id(job_id)
        if record.reason is not None and record.reason.code == PermissionDeniedError.code:
            return record.reason
        hint = f"fix the cause, then run {kind_of(record.definition).resume_statement}, or clear the failed task"
        reason = StopReason(BACKFILL_FAILED, f"{subject}the history could not be filled: {message}", hint, context.clock.now())
        if record.desired is not DesiredState.RUNNING or not context.catalog.jobs.replace_state(record, JobState.STOPPED, reason):
            return None
        context.catalog.events.record("job", job_id, "STOPPED", str(reason))
    except NotFoundError:
        return None
    return reason


def _mark_failed(context: Context, job_id: str, number: int, message: str) -> None:
    """Record a chunk as FAILED if its process ended before it could do so."""
    with suppress(Error):
        chunk = context.catalog.ledger.claim(job_id, backfill.HISTORY, number, HOLDER, abandoned_ms=0)
        if chunk.state is ChunkState.RUNNING:
            context.catalog.ledger.fail(job_id, backfill.HISTORY, number, message, HOLDER)


def to_ticks(instant: datetime | None, precision: Precision) -> int | None:
    """Return an instant in ticks of a precision since the epoch; None for None."""
    if instant is None:
        return None
    elapsed = instant - EPOCH
    microseconds = (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds
    return microseconds * 1_000 // precision.nanoseconds


def _instant(name: str, text: str | None, timezone: str) -> datetime | None:
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise DataError(f"{name}: {text!r} is not a date and time", hint="write it as 2026-01-31T14:30:00+00:00") from None
    return instant if instant.tzinfo else instant.replace(tzinfo=ZoneInfo(timezone))
