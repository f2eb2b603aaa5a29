"""The history of a stream: rows up to its boundary, computed in chunks, and the step from there to the live stream.

The boundary is the source version fixed by CREATE STREAM. Chunks are evaluated at exactly that version, so what is written
meanwhile is neither lost nor doubled: it lies after the boundary, and the live stream takes it from there with its state rebuilt
as of the boundary, which merges windows that span it.

A stream that is live may have a range computed again (any run but `HISTORY`). Such a chunk is evaluated at the version that the
live stream has reached and is written only while no later change of the source touches its range; see `filling`. Windows that
are still open belong to the live stream and are left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from headrace.compute.plan import IntervalWindow
from headrace.errors import InvalidStreamError, NotSupportedError, OperationalError
from headrace.history.chunks import ChunkRange, Extent, Grid, by_duration, by_rows
from headrace.history.writer import BackfillWriter
from headrace.model.jobs import JobRecord, JobState
from headrace.model.ledger import Chunk, ChunkState
from headrace.model.progress import Progress, silent
from headrace.model.time import Duration, Precision
from headrace.storage.delta.extents import extents
from headrace.streams import lifecycle
from headrace.streams.context import Context
from headrace.streams.definition import define
from headrace.streams.definition.define import StreamPlan

HISTORY: Final = "history"
"""The run in the ledger that fills a stream's history; other runs are manual recomputations."""

# A day of a changing clock has an hour more; zones have changed by more than that, but never by more than a day.
ZONE_SLACK: Final = Duration(1, "d")
LONGEST_MONTH: Final = Duration(31, "d")


def plan_of(context: Context, record: JobRecord) -> StreamPlan:
    """The plan of a recorded stream."""
    return define.plan_of(record.definition, context.catalog)


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
    """Cut a stream's source into chunks and record them in the ledger; the same run gives the same chunks ever after.

    Needs no Spark, and reads no rows: files tell how many they have, and of which time. `start` and `end` bound the window
    starts, in ticks of the source (`[start, end)`); chunks have about `rows` rows (default: the setting `chunk_rows`) or, with
    `duration`, that length. Windows without a bound on their length (SESSION, STATE, EVENT, COUNT) make one chunk. There is
    always one chunk at least.

    Raises:
        NotFoundError: no such stream.
        LimitError: `duration` makes more chunks than a run may have.
        InvalidStreamError: a manual run while the history is still being filled.
        NotSupportedError: a range of windows that cannot be cut.
    """
    record = context.catalog.jobs.by_id(job_id)
    planned = context.catalog.ledger.chunks(job_id, run)
    if planned:
        return planned
    plan = plan_of(context, record)
    check_run(record, plan, run, start, end)
    version = version_to_read(record, run)
    known = [Extent(*extent) for extent in extents(context.tables, plan.source, plan.source_database, version)]
    pieces = cut(plan, known, context.settings.chunk_rows if rows is None else rows, start, end, duration)
    chunks = [Chunk(job_id, run, n, piece.start, piece.end, piece.rows) for n, piece in enumerate(pieces)]
    return context.catalog.ledger.plan(job_id, run, chunks)


def check_run(record: JobRecord, plan: StreamPlan, run: str, start: int | None, end: int | None) -> None:
    """Refuse a run that makes no sense for the stream as it stands."""
    if run != HISTORY and not record.is_live:
        raise InvalidStreamError(
            f"the stream {record.definition.name} has no results yet: a range cannot be computed again",
            hint="wait until it is RUNNING; SHOW STREAMS tells",
        )
    if grid_of(plan) is None and (start is not None or end is not None):
        raise NotSupportedError(
            f"the windows of {record.definition.name} have no fixed length: no range of them can be computed by itself",
            hint="leave the range out, to compute all of them",
        )


def version_to_read(record: JobRecord, run: str) -> int:
    """The source version at which a run is planned."""
    if run == HISTORY and record.boundary_version is not None:
        return record.boundary_version
    if record.source_version is not None:
        return record.source_version
    raise InvalidStreamError(f"the stream {record.definition.name} has no boundary yet", hint="its CREATE STREAM did not end")


def cut(
    plan: StreamPlan, known: Sequence[Extent], rows: int, start: int | None, end: int | None, duration: Duration | None
) -> list[ChunkRange]:
    """The pieces of a run, at least one."""
    grid = grid_of(plan)
    total = sum(extent.rows for extent in known)
    first = min((extent.first for extent in known), default=0)
    last = max((extent.last for extent in known), default=first)
    if grid is None:
        return [ChunkRange(first, last + 1, total)]
    if duration is not None:
        pieces = by_duration(known, grid, duration.ticks(plan.query.precision), start=start, end=end)
    else:
        pieces = by_rows(known, grid, max(1, rows // overlap(plan)), start=start, end=end)
    return pieces or [ChunkRange(first if start is None else start, last + 1 if end is None else end, 0)]


def overlap(plan: StreamPlan) -> int:
    """In how many windows a row lies: a chunk of overlapping windows has so many times its rows to compute."""
    window = plan.query.window
    return window.most_slides(plan.query.precision) if isinstance(window, IntervalWindow) else 1


def grid_of(plan: StreamPlan) -> Grid | None:
    """Where windows may start, and how long they are at most; None where they have no bound. A row without window is its own."""
    window, precision = plan.query.window, plan.query.precision
    if plan.query.fill is not None:
        return None
    if window is None:
        return Grid()
    if not isinstance(window, IntervalWindow):
        return None
    length = longest(window.length, precision)
    if window.zone is not None or window.sliding.is_calendar:
        return Grid(length=length + ZONE_SLACK.ticks(precision))
    return Grid(window.sliding.ticks(precision), window.offset.ticks(precision), length)


def longest(length: Duration, precision: Precision) -> int:
    """Ticks that a duration has at most."""
    return length.months * LONGEST_MONTH.ticks(precision) if length.is_calendar else length.ticks(precision)


def fill_chunk(context: Context, job_id: str, run: str, number: int, progress: Progress = silent) -> Chunk:
    """Compute one chunk and write its windows to the target; the chunk as it stands afterwards (DONE).

    Doing it again, from anywhere, changes nothing: the commit carries a Delta transaction of (stream, run, chunk), and a
    chunk replaces exactly the windows it owns. When it fails, the ledger says FAILED with the message, and the error is raised.
    Only one process works on a chunk: another waits, and finds it done. A process that dies leaves it to the next.

    Raises:
        NotFoundError: no such stream, run or chunk.
        OperationalError: Spark or storage failed; may be tried again.
    """
    record = context.catalog.jobs.by_id(job_id)
    plan = plan_of(context, record)
    filler = BackfillWriter(context, record, plan, grid_of(plan), history=run == HISTORY)
    return filler.fill(run, number, progress)


def activate(context: Context, job_id: str) -> None:
    """Hand a stream whose history is filled to its snode: it goes on from boundary + 1. Needs no Spark; idempotent.

    Raises:
        OperationalError: chunks of the history are not DONE; the message names them.
    """
    record = context.catalog.jobs.by_id(job_id)
    if record.is_live:
        return
    chunks = context.catalog.ledger.chunks(job_id, HISTORY)
    missing = [chunk for chunk in chunks if chunk.state is not ChunkState.DONE]
    if missing or not chunks:
        names = ", ".join(f"{chunk.number} ({chunk.state.value})" for chunk in missing[:10]) or "none was planned"
        raise OperationalError(
            f"the history of {record.definition.name} is not filled: chunks {names}", hint="fill them, then activate again"
        )
    if context.epoch:
        context.catalog.jobs.set_state(job_id, JobState.RUNNING, epoch=context.epoch)
    elif not context.catalog.jobs.replace_state(record, JobState.RUNNING):
        return  # somebody has paused, stopped or activated it meanwhile: the next look at the stream decides
    rows = sum(chunk.rows for chunk in chunks)
    context.catalog.events.record(
        "job", job_id, "ACTIVATED", f"history of about {rows} rows up to source version {record.boundary_version}"
    )


def is_filled(context: Context, job_id: str) -> bool:
    """Whether every chunk of a stream's history is done."""
    summary = context.catalog.ledger.summary(job_id, HISTORY)
    return summary.chunks > 0 and summary.complete


def go_live(context: Context, job_id: str) -> None:
    """Rebuild the state of an activated stream as of its boundary, and record its position there; then a poller takes it in."""
    record = context.catalog.jobs.by_id(job_id)
    if record.is_live or record.progress.boundary is None:
        return
    lifecycle.activate(context, plan_of(context, record), record.progress.boundary)


def fill_history(context: Context, job_id: str, progress: Progress = silent, stopped: Callable[[], bool] = lambda: False) -> bool:
    """Plan, fill all chunks in this process, activate and go live: what the embedded connection and an snode run by hand do.

    Looks at `stopped` before each chunk; False when that ended it early. What is done stays done.
    """
    chunks = plan_chunks(context, job_id)
    if not fill_chunks(context, chunks, progress, stopped):
        return False
    activate(context, job_id)
    go_live(context, job_id)
    return True


def fill_chunks(
    context: Context, chunks: Sequence[Chunk], progress: Progress = silent, stopped: Callable[[], bool] = lambda: False
) -> bool:
    """Fill those chunks of a run that are not done, one after another; progress is in rows of the whole run."""
    total = sum(chunk.rows for chunk in chunks)
    done = 0
    progress(done, total)
    for chunk in chunks:
        if stopped():
            return False
        if chunk.state is not ChunkState.DONE:
            fill_chunk(context, chunk.job_id, chunk.run, chunk.number)
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
    progress: Progress = silent,
    rows: int | None = None,
) -> Sequence[Chunk]:
    """Compute the closed windows of `[start, end)` of a stream again, in this process: plan and fill all chunks of a manual run.

    `headrace backfill` does this; Airflow does the same in parts (`plan_chunks` with start and end, then `fill_chunk` for each).
    """
    chunks = plan_chunks(context, job_id, run, start=start, end=end, rows=rows)
    fill_chunks(context, chunks, progress)
    return context.catalog.ledger.chunks(job_id, run)
