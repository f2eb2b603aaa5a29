"""What Airflow's tasks do about a stream's history, and about ranges that are computed again by hand."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from headrace.errors import DataError, Error, NotFoundError
from headrace.history import backfill
from headrace.model.jobs import DesiredState, JobRecord, JobState, StopReason
from headrace.model.ledger import Chunk, ChunkState
from headrace.model.time import Duration, Precision
from headrace.runtime.context import Context

FAILED: Final = "BACKFILL"
HOLDER: Final = "airflow"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Airflow allows no slash in a run id, so these runs of the ledger collide with no other, whatever a person calls a DAG run.
AIRFLOW_RUN: Final = "airflow/{run_id}"
CHUNK_RUN: Final = "{run}/chunk-{number}"
REPEATED_RUN: Final = "{run}/{time}"


@dataclass(frozen=True, slots=True)
class Range:
    """Window starts `[start, end)` to be computed again; None is open. Chunks by `rows`, or by `duration` where given."""

    start: datetime | None = None
    end: datetime | None = None
    rows: int | None = None
    duration: Duration | None = None

    @classmethod
    def of_form(cls, form: Mapping[str, Any], timezone: str = "UTC") -> Range:
        """The range that a DAG's form asks for: `from`, `to`, `chunk_rows`, `chunk_minutes`, each of which may be missing.

        A `DataError` names the field that makes no sense.
        """
        start, end = (_instant(name, form.get(name), timezone) for name in ("from", "to"))
        if start is not None and end is not None and start >= end:
            raise DataError(f"the range from {start} to {end} is empty", hint="`to` is exclusive and must lie after `from`")
        minutes = form.get("chunk_minutes")
        return cls(start, end, form.get("chunk_rows"), Duration(int(minutes), "m") if minutes else None)


def zone_of(context: Context, job_id: str) -> str:
    """The time zone of a stream's source, in which a range without a zone is meant."""
    return context.catalog.databases.get(context.catalog.jobs.by_id(job_id).definition.source.database).timezone


def plan_history(context: Context, job_id: str) -> list[Chunk]:
    """The chunks of a stream's history that are not done; none for a stream without history, or one that is live already."""
    record = go_on(context, job_id)
    if record.is_live:
        return []
    return [chunk for chunk in backfill.plan_chunks(context, job_id) if chunk.state is not ChunkState.DONE]


def plan_range(context: Context, job_id: str, run_id: str, wanted: Range) -> list[Chunk]:
    """Cut the range of a DAG run into chunks; those not done.

    They are fixed when the run is planned first. Where all are done, somebody has cleared the task to have the range computed once
    more: it is planned anew.
    """
    run = unfinished_run(context, job_id, AIRFLOW_RUN.format(run_id=run_id))
    record = context.catalog.jobs.by_id(job_id)
    precision = context.catalog.databases.get(record.definition.source.database).precision
    chunks = backfill.plan_chunks(
        context,
        job_id,
        run,
        start=ticks(wanted.start, precision),
        end=ticks(wanted.end, precision),
        rows=wanted.rows,
        duration=wanted.duration,
    )
    return [chunk for chunk in chunks if chunk.state is not ChunkState.DONE]


def run_to_fill(context: Context, job_id: str, run: str, number: int) -> str:
    """The run of the ledger under which to compute a chunk.

    That is another than `run` where the chunk is done: somebody has cleared its task to have it computed once more. A chunk of
    the history stays done: the live stream has built on it.
    """
    chunk = next((chunk for chunk in context.catalog.ledger.chunks(job_id, run) if chunk.number == number), None)
    if run == backfill.HISTORY or chunk is None or chunk.state is not ChunkState.DONE:
        return run
    again = unfinished_run(context, job_id, CHUNK_RUN.format(run=run, number=number), first=2)
    context.catalog.ledger.plan(job_id, again, [chunk])
    return again


def unfinished_run(context: Context, job_id: str, run: str, first: int = 1) -> str:
    """The run of the ledger, or the first repetition of it (2, 3, …, from `first` on), that has not been computed to its end."""
    for time in itertools.count(first):
        name = run if time == 1 else REPEATED_RUN.format(run=run, time=time)
        chunks = context.catalog.ledger.chunks(job_id, name)
        if not chunks or any(chunk.state is not ChunkState.DONE for chunk in chunks):
            return name
    raise AssertionError


def activate(context: Context, job_id: str) -> None:
    """Hand the stream to its snode where its history is filled; nothing to do for a stream that has none, or is live."""
    record = go_on(context, job_id)
    if not record.is_live:
        backfill.activate(context, job_id)


def go_on(context: Context, job_id: str, number: int | None = None) -> JobRecord:
    """The stream, resumed where a failed backfill had stopped it and nothing but chunk `number` of it is FAILED still.

    Whoever clears a task that failed wants this.
    """
    record = context.catalog.jobs.by_id(job_id)
    if record.reason is None or record.reason.code != FAILED or record.desired is not DesiredState.RUNNING:
        return record
    chunks = context.catalog.ledger.chunks(job_id, backfill.HISTORY)
    if any(chunk.state is ChunkState.FAILED and chunk.number != number for chunk in chunks):
        return record
    context.catalog.jobs.replace_state(record, record.resumed_state)
    return context.catalog.jobs.by_id(job_id)


def cause(context: Context, job_id: str, run: str, number: int, fallback: str) -> str:
    """Why a chunk failed, as the job that computed it has recorded, else what is known otherwise."""
    with suppress(Error):
        for chunk in context.catalog.ledger.chunks(job_id, run):
            if chunk.number == number and chunk.message:
                return chunk.message
    return fallback


def failed(context: Context, job_id: str, message: str, number: int | None = None) -> StopReason | None:
    """Mark a stream STOPPED because its history could not be filled; None where it was dropped, or asked to pause."""
    if number is not None:
        _mark_failed(context, job_id, number, message)
    where = "" if number is None else f"chunk {number} of "
    hint = "mend the cause, then RESUME STREAM, or clear the failed task"
    reason = StopReason(FAILED, f"{where}the history could not be filled: {message}", hint, context.clock.now())
    try:
        record = context.catalog.jobs.by_id(job_id)
        if record.desired is not DesiredState.RUNNING or not context.catalog.jobs.replace_state(record, JobState.STOPPED, reason):
            return None
        context.catalog.events.record("job", job_id, "STOPPED", str(reason))
    except NotFoundError:
        return None
    return reason


def _mark_failed(context: Context, job_id: str, number: int, message: str) -> None:
    """A chunk whose job did not come so far as to say it, is FAILED."""
    with suppress(Error):
        chunk = context.catalog.ledger.claim(job_id, backfill.HISTORY, number, HOLDER, abandoned_ms=0)
        if chunk.state is ChunkState.RUNNING:
            context.catalog.ledger.fail(job_id, backfill.HISTORY, number, message, HOLDER)


def ticks(instant: datetime | None, precision: Precision) -> int | None:
    """An instant in ticks of a precision since the epoch."""
    if instant is None:
        return None
    passed = instant - EPOCH
    microseconds = (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
    return microseconds * 1_000 // precision.nanoseconds


def _instant(name: str, text: str | None, timezone: str) -> datetime | None:
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise DataError(f"{name}: {text!r} is not a date and time", hint="write it as 2026-01-31T14:30:00+00:00") from None
    return instant if instant.tzinfo else instant.replace(tzinfo=ZoneInfo(timezone))
