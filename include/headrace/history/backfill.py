"""The backfill of a stream: rows up to its boundary, computed in chunks, and the transition to the live stream.

The boundary is the source version fixed by CREATE STREAM. Chunks are evaluated at exactly that version. Rows written meanwhile are
after the boundary, so they are neither lost nor duplicated: the live stream reads them, with its state rebuilt as of the boundary,
which merges windows that span it.

A range of a live stream can be recomputed (any run but `HISTORY`). Such a chunk is evaluated at the version that the live stream
has reached, and is committed only if no later change of the source touches its range; see `history.writer`. Windows that are still
open are left to the live stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from headrace.context import Context
from headrace.errors import InvalidStreamError, NotSupportedError, OperationalError
from headrace.history.backfill_writer import CHUNK_WAIT_MS, BackfillWriter
from headrace.history.chunk_evaluation import windows_per_row
from headrace.history.chunks import ChunkRange, chunk_by_duration, chunk_by_rows
from headrace.model import ledger
from headrace.model.job_parts import part_number, whole_id
from headrace.model.jobs import JobRecord, JobState
from headrace.model.ledger import Chunk, ChunkState
from headrace.model.positions import Offsets
from headrace.model.progress import Progress, no_progress
from headrace.model.time import Duration
from headrace.model.windows import WindowGrid
from headrace.storage.delta.scans import Extent
from headrace.storage.values.scalars import stored_nanoseconds
from headrace.streams import lifecycle
from headrace.streams.definition import define
from headrace.streams.definition.define import StreamPlan
from headrace.streams.owners import running_as_owner
from headrace.streams.quarantine.stored_rows import set_aside_history
from headrace.streams.sources.stored import count_rows, source_extents
from headrace.streams.windows.retention import subtable_key

HISTORY: Final = ledger.HISTORY
"""The run of the ledger that backfills a history, as of all kinds of jobs."""


def plan_of(context: Context, record: JobRecord) -> StreamPlan:
    return define.plan_recorded_stream(record.definition, context.catalog, context.settings)


def plan_chunks(
    context: Context,
    job_id: str,
    run: str = HISTORY,
    *,
    start: int | None = None,
    end: int | None = None,
    rows: int | None = None,
    duration: Duration | None = None,
) -> list[Chunk]:
    """Split a stream's source into chunks and record them in the ledger. A run that has been planned keeps its chunks.

    Needs no Spark, and reads the statistics of files; of the rows only those that a history sets aside. Windows without a bound on
    their length (SESSION, STATE, EVENT, COUNT) are divided by series, and make one chunk if they cannot be. There is at least one
    chunk.

    Windows start in `[start, end)`, in ticks of the source; None is unbounded. A chunk has about `rows` rows, by default those of
    the setting `chunk_rows`, or the length `duration`.

    Raises:
        NotFoundError: There is no such stream.
        LimitError: `duration` makes more chunks than a run may have.
        InvalidStreamError: A manual run while the history is still being backfilled.
        NotSupportedError: There is a range for windows that cannot be split.
        QuarantineFullError: Too many rows of a history are too far ahead of the clock.
    """
    record = context.catalog.jobs.by_id(job_id)
    if planned := context.catalog.ledger.chunks(job_id, run):
        return planned
    plan = plan_of(context, record)
    grid = grid_of(record, plan, run)
    check_run(record, plan, run, is_possible=grid is not None or (start is None and end is None))
    offsets = offsets_to_read(record, run)
    max_rows = context.settings.chunk_rows if rows is None else rows
    if plan.fills_gaps and run != HISTORY:
        max_rows = min(max_rows, context.settings.driver_rows)
    with context.catalog.lock(f"plan.{job_id}.{run}"):
        if planned := context.catalog.ledger.chunks(job_id, run):
            return planned
        if run == HISTORY:
            set_aside_history(context, plan, offsets)
        extents = [Extent(*extent) for extent in source_extents(context, plan, offsets)]
        if grid is None:
            ranges = ranges_by_series(context, record, plan, offsets, extents, max_rows)
        else:
            ranges = ranges_by_time(plan, grid, extents, max_rows, start, end, duration)
            if run != HISTORY:
                ranges = widened_to_results(context, plan, grid, ranges, start, end)
        chunks = [range_.to_chunk(job_id, run, number) for number, range_ in enumerate(ranges)]
        return context.catalog.ledger.plan(job_id, run, chunks)


def ranges_by_series(
    context: Context, record: JobRecord, plan: StreamPlan, offsets: Offsets, extents: Sequence[Extent], rows: int
) -> list[ChunkRange]:
    """Return the ranges of chunks that cannot be made by time: one for some series, or one for all if windows have rows of several.

    A stream that replaces another one retracts the other's rows by ranges of time, so it has one chunk.
    """
    whole = whole_range(extents)
    is_by_series = subtable_key(plan) is not None and plan.source_subtable is None and not plan.source.is_virtual
    if not is_by_series or record.definition.replaces is not None:
        return [whole]
    try:
        ranges = context.tables.series_ranges(plan.source, offsets[plan.source_ids[0]], rows)
    except NotSupportedError:
        return [whole]
    return [replace(whole, rows=count, series=series) for series, count in ranges]


def ranges_by_time(
    plan: StreamPlan,
    grid: WindowGrid,
    extents: Sequence[Extent],
    rows: int,
    start: int | None,
    end: int | None,
    duration: Duration | None,
) -> list[ChunkRange]:
    """Return the ranges of chunks that windows may start in, at least one."""
    if duration is not None:
        ranges = chunk_by_duration(extents, grid, duration.max_ticks(plan.query.precision), start=start, end=end)
    else:
        ranges = chunk_by_rows(extents, grid, max(1, rows // windows_per_row(plan)), start=start, end=end)
    whole = whole_range(extents)
    return ranges or [ChunkRange(whole.start if start is None else start, whole.end if end is None else end, 0)]


def widened_to_results(
    context: Context, plan: StreamPlan, grid: WindowGrid, ranges: Sequence[ChunkRange], start: int | None, end: int | None
) -> list[ChunkRange]:
    """Return ranges of which the first and the last reach to the ends of the target, whose results may have lost their rows."""
    bounds = context.tables.bounds(plan.target) if context.tables.exists(plan.target) else None
    if bounds is None:
        return list(ranges)
    tick, unit = plan.query.precision.nanoseconds, stored_nanoseconds(plan.target_database.precision)
    first, last = grid.floor(bounds.low * unit // tick), grid.floor(-(-bounds.high * unit // tick)) + grid.step
    first = first if start is None else max(first, grid.floor(start))
    last = last if end is None else min(last, grid.ceiling(end))
    widened = [replace(ranges[0], start=min(ranges[0].start, first)), *ranges[1:]]
    return [*widened[:-1], replace(widened[-1], end=max(widened[-1].end, last))]


def whole_range(extents: Sequence[Extent]) -> ChunkRange:
    first = min((extent.first for extent in extents), default=0)
    last = max((extent.last for extent in extents), default=first)
    return ChunkRange(first, last + 1, sum(extent.rows for extent in extents))


def check_run(record: JobRecord, plan: StreamPlan, run: str, *, is_possible: bool) -> None:
    """Reject a run that is not possible in the stream's present state."""
    if run != HISTORY and not record.is_live:
        raise InvalidStreamError(
            f"the stream {record.definition.name} has no results yet, so no range can be recomputed",
            hint="wait until SHOW STREAMS shows it as RUNNING",
        )
    if run != HISTORY and record.definition.parts > 1:
        raise NotSupportedError(
            f"the stream {record.definition.name} is divided by PARTITIONS, so no range of it can be recomputed",
            hint="RESET STREAM recomputes all of it",
        )
    if plan.is_closed_by_clock:
        raise NotSupportedError(
            f"the stream {record.definition.name} has FORCE_WINDOW_CLOSE: its windows are computed once",
            hint="compute a range with a query",
        )
    if not is_possible:
        raise NotSupportedError(
            f"the windows of {record.definition.name} have no fixed length, so no range of them can be recomputed",
            hint="omit the range to recompute all of them",
        )


def offsets_to_read(record: JobRecord, run: str) -> Offsets:
    if run == HISTORY and record.progress.boundary is not None:
        return record.progress.boundary
    if record.offsets is not None:
        return record.offsets
    raise InvalidStreamError(
        f"the stream {record.definition.name} has no boundary yet",
        hint="wait until its CREATE STREAM has ended, or drop the stream and create it again",
    )


def grid_of(record: JobRecord, plan: StreamPlan, run: str) -> WindowGrid | None:
    """Return where windows may start, and their maximum length; None if it has no bound. Without a window each row is its own.

    In a history with FILL, Spark fills the gaps of whole series, or of a single group. A recomputation fills the gaps at the ends
    of its chunks too.
    """
    window, precision = plan.query.interval, plan.query.precision
    if plan.fills_gaps and run == HISTORY and not can_fill_by_time(record, plan):
        return None
    if plan.query.window is None:
        return WindowGrid()
    if window is None:
        return None
    if window.zone is not None or window.sliding.is_calendar:
        return WindowGrid(length=window.max_span(precision))
    return WindowGrid(window.sliding.ticks(precision), window.offset.fixed_ticks(precision), window.max_span(precision))


def can_fill_by_time(record: JobRecord, plan: StreamPlan) -> bool:
    """Return whether the chunks of a history with FILL can be ranges of time: the next window of the only group ends the last gap.

    A chunk of a stream that replaces another one retracts whatever else is in its range, such as the end of an earlier chunk's gap.
    """
    window = plan.query.interval
    is_regular = window is not None and window.zone is None and not window.sliding.is_calendar
    return is_regular and not plan.query.keys and record.definition.replaces is None


def fill_chunk(context: Context, job_id: str, run: str, number: int, wait_ms: int = CHUNK_WAIT_MS) -> Chunk:
    """Compute one chunk and write its windows to the target; return the chunk as recorded afterwards (DONE).

    Idempotent: the commit carries a Delta transaction of (stream, run, chunk), and a chunk replaces exactly the windows it owns.
    It runs with the rights that the stream's owner has now. If it fails, the ledger records FAILED with the message, and the error
    is raised. Only one process works on a chunk: others wait, for at most `wait_ms`, and then see that it is done. If a process
    dies, the next one takes its chunk over.

    Raises:
        NotFoundError: There is no such stream, run or chunk.
        OperationalError: Spark or storage failed; a later try may succeed.
        TransientError: Another process still works on the chunk.
        PermissionDeniedError: The owner has lost a right; the stream is STOPPED.
    """
    record = context.catalog.jobs.by_id(job_id)
    with running_as_owner(context, record.definition):
        plan = plan_of(context, record)
        writer = BackfillWriter(context, record, plan, grid_of(record, plan, run), history=run == HISTORY)
        return writer.fill(run, number, wait_ms)


def activate(context: Context, job_id: str) -> None:
    """Hand a stream whose history is complete over to its snode, which continues at boundary + 1. Idempotent; needs no Spark.

    Raises:
        OperationalError: Chunks of the history are not DONE; the message names them.
    """
    record = context.catalog.jobs.by_id(job_id)
    if record.is_live:
        return
    chunks = context.catalog.ledger.chunks(job_id, HISTORY)
    missing = [chunk for chunk in chunks if chunk.state is not ChunkState.DONE]
    if missing or not chunks:
        names = ", ".join(f"{chunk.number} ({chunk.state.value})" for chunk in missing[:10]) or "none was planned"
        raise OperationalError(
            f"the history of {record.definition.name} is not filled: chunks {names}",
            hint="compute these chunks, then activate the stream again",
        )
    if context.epoch:
        context.catalog.jobs.set_state(job_id, JobState.RUNNING, epoch=context.epoch)
    elif not context.catalog.jobs.replace_state(record, JobState.RUNNING):
        return  # the stream was paused, stopped or activated meanwhile, and the next reconciliation handles that
    rows = sum(chunk.rows for chunk in chunks)
    context.catalog.events.record(
        "job",
        job_id,
        "ACTIVATED",
        f"history of about {rows} rows up to source version {describe_offsets(record.progress.boundary or {})}",
    )


def describe_offsets(offsets: Offsets) -> str:
    if len(offsets) == 1:
        return str(next(iter(offsets.values())))
    return ", ".join(f"{version} of {source}" for source, version in offsets.items())


def has_small_source(context: Context, record: JobRecord) -> bool:
    """Return whether the source of a stream is so small that its snode fills the history itself."""
    return count_rows(context, record.definition.sources) <= context.settings.resident_history_rows


def is_filled(context: Context, job_id: str) -> bool:
    """Return True if all chunks of a stream's history are done. Those of a part are the stream's, which its first part computes."""
    summary = context.catalog.ledger.summary(whole_id(job_id), HISTORY)
    return summary.chunks > 0 and summary.complete


def go_live(context: Context, job_id: str) -> None:
    """Rebuild the state of an activated stream as of its boundary, and record its position, so that a poller can run it."""
    record = context.catalog.jobs.by_id(job_id)
    if record.is_live or record.progress.boundary is None:
        return
    lifecycle.activate(context, plan_of(context, record), record.progress.boundary)


def fill_history(
    context: Context,
    job_id: str,
    progress: Progress = no_progress,
    stopped: Callable[[], bool] = lambda: False,
    wait_ms: int = CHUNK_WAIT_MS,
) -> bool:
    """Backfill a stream in this process: plan, compute all chunks, activate and go live.

    The embedded connection, and an snode without Airflow, do this. `stopped` is checked before each chunk; returns False if it
    ended the backfill early. Completed chunks are kept. Chunks that others work on are waited for, each for at most `wait_ms`.
    Other parts of a stream than the first only go live after that one has done so.
    """
    if part_number(job_id):
        go_live(context, job_id)
        context.catalog.jobs.set_state(job_id, JobState.RUNNING, epoch=context.epoch or None)
        return True
    chunks = plan_chunks(context, job_id)
    if not fill_chunks(context, chunks, progress, stopped, wait_ms):
        return False
    activate(context, job_id)
    go_live(context, job_id)
    return True


def fill_chunks(
    context: Context,
    chunks: Sequence[Chunk],
    progress: Progress = no_progress,
    stopped: Callable[[], bool] = lambda: False,
    wait_ms: int = CHUNK_WAIT_MS,
) -> bool:
    """Compute those chunks of a run that are not done, one after another. Progress is in rows of the whole run."""
    total = sum(chunk.rows for chunk in chunks)
    done = 0
    progress(done, total)
    for chunk in chunks:
        if stopped():
            return False
        if chunk.state is not ChunkState.DONE:
            fill_chunk(context, chunk.job_id, chunk.run, chunk.number, wait_ms=wait_ms)
        done += chunk.rows
        progress(done, total)
    return True


def recompute(
    context: Context,
    job_id: str,
    run: str,
    start: int | None,
    end: int | None,
    *,
    progress: Progress = no_progress,
    rows: int | None = None,
) -> Sequence[Chunk]:
    """Recompute the closed windows of `[start, end)` in this process: plan a run and compute its chunks.

    `headrace backfill` does this. Airflow does the same in steps: `plan_chunks` with start and end, then `fill_chunk` for each
    chunk.
    """
    chunks = plan_chunks(context, job_id, run, start=start, end=end, rows=rows)
    fill_chunks(context, chunks, progress)
    return context.catalog.ledger.chunks(job_id, run)
