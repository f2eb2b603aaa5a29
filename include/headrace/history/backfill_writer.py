"""Writing one chunk of a stream's target: evaluate the plan over the chunk's rows at one source version, and commit its windows.

These rules make it safe to repeat, at any time and from any process:

- Rows are read at fixed offsets of the sources: the boundary for a backfill, the live stream's position for a recomputation.
- A chunk owns the windows that start in it, reads the rows up to the end of the last of them, and writes no others. Windows whose
  length has no bound belong to chunks by their series instead.
- The commit that completes a chunk records a Delta transaction of (stream, run, chunk) in the target; if that is recorded, nothing
  is computed. Anything that a failed attempt has written are upserts of the same rows. The commit needs no epoch: a process that
  was frozen while another did its chunk finds the transaction recorded, whatever became of its lock.
- A backfill also writes the windows that are still open, whatever the trigger mode; the live stream has the same in its state.
- A recomputation commits only if the live stream has not committed since the chunk's range was last known to be untouched by later
  changes of the source. If such changes touch the range, the chunk is recomputed at the newer version, so older values never
  replace newer ones. Windows that are still open are left to the live stream.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import STATE, WSTART
from headrace.compute.windows import key_columns
from headrace.compute.windows.fill import IS_FILLED
from headrace.context import Context
from headrace.errors import Error, FencedError, OperationalError
from headrace.history.chunk_evaluation import ChunkEvaluation
from headrace.history.chunk_results import ChunkResult, RetractionScope
from headrace.history.chunks import MAX_CHUNKS
from headrace.model.failpoints import failpoint
from headrace.model.job_parts import part_id, part_ids
from headrace.model.jobs import JobRecord
from headrace.model.ledger import Chunk, ChunkState
from headrace.model.positions import Offsets, Position, furthest, latest
from headrace.model.run_reports import RunReport, chunk_report, reported
from headrace.model.windows import WindowGrid
from headrace.storage import Bounds, Commit, ExpectedTransaction
from headrace.storage.delta.commits import RETIRED, chunk_app, stream_app
from headrace.storage.delta.shares import ALL_SERIES, SeriesRange
from headrace.storage.values.scalars import stored_nanoseconds
from headrace.streams.definition.define import StreamPlan
from headrace.streams.failures import translate_errors
from headrace.streams.notifications.events import WindowEvents, add_neighbor_states
from headrace.streams.notifications.messages import MessageEncoder
from headrace.streams.quarantine.stored_rows import without_quarantine
from headrace.streams.sinks.target import TargetTable

logger = logging.getLogger(__name__)

# How long to wait for a chunk that another process works on. Airflow tries again after that.
CHUNK_WAIT_MS: Final = 3_600_000
# Closed windows rarely change. A chunk whose range keeps changing during this many attempts is left for later.
MAX_RECOMPUTATIONS: Final = 5
# The live stream commits a few times per second. More conflicts in a row than this have another cause.
MAX_COMMIT_ATTEMPTS: Final = 100
# Timestamps beyond these, in any stored unit, cannot be written by Spark as literals.
MIN_STORED: Final = -62_135_596_800_000_000
MAX_STORED: Final = 9_223_372_036_854_775_807


class SourceChangedError(Exception):
    """The source has changed in the range of a chunk since the version at which it was evaluated."""


class BackfillWriter:
    """Computes and writes chunks of one stream. `grid` is where its windows may start, None if their length has no bound."""

    def __init__(self, context: Context, record: JobRecord, plan: StreamPlan, grid: WindowGrid | None, *, history: bool) -> None:
        self._context = context
        self._plan = plan
        self._grid = grid
        self._history = history
        self._record = record
        self._target = TargetTable(context, plan)

    def fill(self, run: str, number: int, wait_ms: int) -> Chunk:
        """Claim a chunk, compute it, write it, and record the outcome in the ledger; see `backfill.fill_chunk`."""
        ledger, job_id = self._context.catalog.ledger, self._plan.id
        with self._context.catalog.lock(f"chunk.{job_id}.{run}.{number}", wait_ms):
            # We hold the chunk's lock, so any existing claim belongs to a dead process.
            chunk = ledger.claim(job_id, run, number, abandoned_ms=0)
            if chunk.state is not ChunkState.DONE:
                with reported(self._context.reports, self._report(chunk)):
                    self._fill(chunk)
                    ledger.finish(job_id, run, number, chunk.rows)
            return next(recorded for recorded in ledger.chunks(job_id, run) if recorded.number == number)

    def _report(self, chunk: Chunk) -> RunReport:
        """Return the report that a chunk begins."""
        return chunk_report(self._record.definition, chunk, self._plan.source_database.precision)

    def _fill(self, chunk: Chunk) -> None:
        try:
            with translate_errors():
                self._retire_replaced()
                if self._context.tables.transaction(self._plan.target, self._app(chunk)) is None:
                    self._compute(chunk)
        except Exception as error:
            with suppress(Error):  # the original error matters more than a failure to record it
                self._context.catalog.ledger.fail(chunk.job_id, chunk.run, chunk.number, str(error))
            raise

    def _retire_replaced(self) -> None:
        """Prevent commits of the job that this one replaces, so that it cannot add rows to chunks that are done."""
        replaced = self._record.definition.replaces
        if self._history and replaced is not None:
            for number in range(replaced.parts):
                self._context.tables.writer.retire(self._plan.target, part_id(replaced.job_id, number))

    def _compute(self, chunk: Chunk) -> None:
        for _ in range(MAX_RECOMPUTATIONS):
            try:
                with self._target.groups.committing():
                    return self._write(chunk, self._offsets())
            except SourceChangedError:
                logger.info("recomputing chunk %d of %s: its source has changed", chunk.number, self._plan.name)
        raise OperationalError(
            f"the source of {self._plan.name} keeps changing in chunk {chunk.number}", hint="try again when fewer late rows arrive"
        )

    def _offsets(self) -> Offsets:
        if self._history:
            boundary = self._record.progress.boundary
            if boundary is None:
                raise OperationalError(f"the stream {self._plan.name} has no boundary", hint="plan its backfill first")
            return boundary
        return self._live_offsets()[1]

    def _live_offsets(self) -> tuple[int | None, Offsets]:
        """Return the live stream's last micro-batch in the target, and the offsets it has reached by now."""
        committed = self._context.tables.committed_position(self._plan.target, self._plan.id, self._plan.source_ids)
        if committed is not None and committed.batch == RETIRED:
            raise FencedError(f"the stream {self._plan.name} was dropped or replaced", hint="nothing was written")
        position = latest(committed, self._context.catalog.jobs.by_id(self._plan.id).progress.position)
        if position is None:
            raise OperationalError(f"the stream {self._plan.name} is not live", hint="wait until it is RUNNING")
        return None if committed is None else committed.batch, position.offsets

    def _write(self, chunk: Chunk, offsets: Offsets) -> None:
        watermark = self._watermark(chunk)
        failpoint("history.evaluate")
        with self._evaluation(chunk, offsets).result(self._target, chunk, watermark) as result:
            if not self._history:
                self._retract_vanished(result, chunk, offsets, watermark)
            else:
                self._retract_replaced(result, chunk, offsets)
                notify_chunk(self._context, self._target, chunk, result.windows())
            failpoint("history.commit")
            self._commit(result, chunk, offsets)
        failpoint("history.committed")

    def _evaluation(self, chunk: Chunk, offsets: Offsets) -> ChunkEvaluation:
        series = SeriesRange(chunk.first_series, chunk.end_series)
        context = without_quarantine(self._context, *part_ids(self._record.definition))
        fills, is_new = self._plan.fills_gaps and self._history, self._record.definition.replaces is None
        return ChunkEvaluation(context, self._plan, offsets, self._grid, series, fills=fills, fills_near=is_new)

    def _watermark(self, chunk: Chunk) -> int | None:
        """Return the watermark that written windows must end before; None to write all, as a backfill does."""
        if self._history or self._plan.query.window is None:
            return None
        watermark = self._context.catalog.jobs.by_id(self._plan.id).progress.watermark
        return chunk.start if watermark is None else watermark

    def _commit(self, result: ChunkResult, chunk: Chunk, offsets: Offsets) -> None:
        """Commit the result, retrying whenever the live stream commits in between.

        Raises:
            SourceChangedError: A commit in between has changed the chunk's range.
        """
        checked = offsets
        for _ in range(MAX_COMMIT_ATTEMPTS):
            # A job that was replaced is recorded with a micro-batch, which ends its backfill.
            expected: ExpectedTransaction | None = ExpectedTransaction(stream_app(self._plan.id), None)
            if not self._history:
                recorded, reached = self._live_offsets()
                if self._evaluation(chunk, reached).has_changed(chunk.start, chunk.end, checked):
                    raise SourceChangedError
                checked, expected = furthest(checked, reached), ExpectedTransaction(stream_app(self._plan.id), recorded)
            try:
                result.write(Commit(self._app(chunk), 1, expected))
                return
            except FencedError:
                if self._history:
                    raise
                logger.debug("retrying the commit of a chunk: the live stream %s has committed", self._plan.name)
        raise OperationalError(f"chunk {chunk.number} could not be written: the live stream commits too often", hint="try again")

    def _app(self, chunk: Chunk) -> str:
        return chunk_app(chunk.job_id, chunk.run, chunk.number)

    def _retract_vanished(self, result: ChunkResult, chunk: Chunk, offsets: Offsets, watermark: int | None) -> None:
        """Retract closed windows of the chunk that the stream no longer has."""
        if self._grid is None:
            scope = replace(
                self._scope(chunk, offsets), live=partial(self._evaluation(chunk, offsets).open_windows, chunk, watermark)
            )
            result.retract(Bounds(MIN_STORED, MAX_STORED), scope)
            return
        end = chunk.end if watermark is None else min(chunk.end, watermark - self._grid.length + 1)
        if end > chunk.start:
            result.retract(self._target_bounds(chunk.start, end - 1), self._scope(chunk, offsets))

    def _scope(self, chunk: Chunk, offsets: Offsets) -> RetractionScope:
        """Return the rows that a chunk may retract.

        Groups without rows belong to no series, so the first of several chunks by series retracts them. If another job writes to
        the target, they may be its groups.
        """
        evaluation, target = self._evaluation(chunk, offsets), self._plan.target.id
        jobs = self._context.catalog.jobs.all()
        is_shared = any(job.definition.target == target and job.definition.id != self._plan.id for job in jobs)
        has_former = chunk.number == 0 or evaluation.series == ALL_SERIES
        all_groups = None if is_shared or not has_former else replace(evaluation, series=ALL_SERIES).groups
        return RetractionScope(self._target, evaluation.groups, all_groups)

    def _retract_replaced(self, result: ChunkResult, chunk: Chunk, offsets: Offsets) -> None:
        replaced = self._record.definition.replaces
        if replaced is not None:
            result.retract(self._replaced_bounds(chunk), None if replaced.clears else self._scope(chunk, offsets))

    def _replaced_bounds(self, chunk: Chunk) -> Bounds:
        """Return the times whose rows a chunk replaces: up to the next chunk, and unbounded at the ends of the history."""
        chunks = self._context.catalog.ledger.chunks(chunk.job_id, chunk.run)
        following = [other.start for other in chunks if other.number == chunk.number + 1]
        first = None if chunk.number == 0 else self._target_bounds(chunk.start, chunk.start).low
        last = self._target_bounds(following[0] - 1, following[0] - 1).high if following else None
        return Bounds(MIN_STORED if first is None else first, MAX_STORED if last is None else last)

    def _target_bounds(self, first: int, last: int) -> Bounds:
        """Convert event times of the source, in ticks, to the units that the target stores."""
        tick = self._plan.source_database.precision.nanoseconds
        unit = stored_nanoseconds(self._plan.target_database.precision)
        return Bounds(first * tick // unit, last * tick // unit)


MAX_PARTS: Final = 1_000_000


def notify_chunk(context: Context, target: TargetTable, chunk: Chunk, parts: Iterable[pa.Table]) -> None:
    """Add the messages about a chunk's windows to the stream's outbox, before the chunk is committed.

    Repeating a chunk adds nothing: the outbox records its parts. Messages of history have negative micro-batch numbers, in the
    order of chunks, so that they precede all others.
    """
    plan = target.plan
    if plan.notification is None or not plan.notification.history:
        return
    encoder, outbox = MessageEncoder(plan, target), context.tables.outbox(plan.id)
    outbox.open()
    for number, windows in enumerate(parts):
        position = Position((chunk.number - MAX_CHUNKS) * MAX_PARTS + number, {})
        messages = encoder.encode(history_events(plan, windows), position, context.clock.now())
        if messages:
            app = f"{chunk_app(chunk.job_id, chunk.run, chunk.number)}.{number}"
            outbox.append(messages, Commit(app, 1), position.batch)


def history_events(plan: StreamPlan, windows: pa.Table) -> WindowEvents:
    """Return the events of finished windows: each opens and closes. Windows that FILL has added have none."""
    assert plan.notification is not None
    if IS_FILLED in windows.column_names:
        windows = windows.filter(pc.invert(windows[IS_FILLED]))
    if plan.conditions.state:
        if STATE not in windows.column_names:  # Kernels name it, Spark does not.
            windows = windows.append_column(STATE, windows[plan.conditions.state])
        windows = add_neighbor_states(windows, [windows], [*key_columns(plan.query), WSTART])
    return WindowEvents({event: windows for event in plan.notification.events if windows.num_rows})
