"""Filling one chunk of a stream's target: evaluate the plan over the chunk's rows at one source version, and write its windows.

What makes it safe to do again, at any time and from any process:

- Rows are read at a fixed version of the source: the boundary for the history, the live stream's position for a recomputation.
- A chunk owns the windows whose start lies in it, reads the rows up to the end of the last of them, and writes no others.
- The commit that completes it records a Delta transaction of (stream, run, chunk) in the target; where that is recorded, nothing
  is computed. What an attempt that died had written before are upserts of the same rows, which change nothing. It needs no epoch:
  a process that was frozen while another did its chunk finds the transaction recorded, whatever has become of its lock.
- A history writes the windows that are still open too, whatever the trigger mode; the live stream holds them as written.
- A recomputation commits only while the live stream's own transaction in the target stands where it stood when the range was
  last found to be untouched by later changes of the source. Where such changes touch the range, it is computed again at the
  newer version, so that older values never replace newer ones. Windows still open are left to the live stream.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from headrace.errors import Error, FencedError, OperationalError
from headrace.history.chunks import Grid
from headrace.history.evaluation import ChunkEvaluation
from headrace.history.results import ChunkResult
from headrace.model.failpoints import failpoint
from headrace.model.jobs import JobRecord
from headrace.model.ledger import Chunk, ChunkState
from headrace.model.positions import latest
from headrace.model.progress import Progress
from headrace.model.time import Precision
from headrace.storage import Bounds, Commit, ExpectedTransaction
from headrace.storage.delta.commits import chunk_app, stream_app
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan
from headrace.streams.failures import translate_errors
from headrace.streams.sinks.target import TargetTable

logger = logging.getLogger(__name__)

# One who waits for a chunk that another works on gives up after this; Airflow tries again.
CHUNK_WAIT_MS: Final = 3_600_000
# A range of closed windows changes seldom. One that changes so often while it is computed is left for later.
RECOMPUTATIONS: Final = 5
# The live stream commits some times a second: so many misses in a row mean that something else is wrong.
COMMITS: Final = 100


class TouchedError(Exception):
    """The source has changed in the range of a chunk since the version at which it was evaluated."""


class BackfillWriter:
    """Fills chunks of one stream. `grid` is where its windows may start, None where they have no bound."""

    def __init__(self, context: Context, record: JobRecord, plan: StreamPlan, grid: Grid | None, *, history: bool) -> None:
        self._context = context
        self._plan = plan
        self._grid = grid
        self._history = history
        self._record = record
        self._target = TargetTable(context, plan)

    def fill(self, run: str, number: int, progress: Progress) -> Chunk:
        """Claim, compute, write, and tell the ledger; see `backfill.fill_chunk`."""
        ledger, job_id = self._context.catalog.ledger, self._plan.id
        with self._context.catalog.lock(f"chunk.{job_id}.{run}.{number}", CHUNK_WAIT_MS):
            # Who has the lock is alone with the chunk: a claim that stands is that of a process that died.
            chunk = ledger.claim(job_id, run, number, abandoned_ms=0)
            if chunk.state is not ChunkState.DONE:
                self._worked(chunk, progress)
                ledger.finish(job_id, run, number, chunk.rows)
            return next(one for one in ledger.chunks(job_id, run) if one.number == number)

    def _worked(self, chunk: Chunk, progress: Progress) -> None:
        """Compute and write, or have the ledger say why not."""
        progress(0, chunk.rows)
        try:
            with translate_errors():
                if self._context.tables.transaction(self._plan.target, self._app(chunk)) is None:
                    self._compute(chunk)
        except Exception as error:
            with suppress(Error):  # what has gone wrong here matters more than that the ledger cannot be told
                self._context.catalog.ledger.fail(chunk.job_id, chunk.run, chunk.number, str(error))
            raise
        progress(chunk.rows, chunk.rows)

    def _compute(self, chunk: Chunk) -> None:
        for _ in range(RECOMPUTATIONS):
            version = self._version()
            try:
                return self._write(chunk, version)
            except TouchedError:
                logger.info("chunk %d of %s was changed while it was computed: again", chunk.number, self._plan.name)
        raise OperationalError(
            f"the source of {self._plan.name} keeps changing in chunk {chunk.number}", hint="try again when fewer late rows arrive"
        )

    def _version(self) -> int:
        """The source version at which to evaluate."""
        if self._history:
            boundary = self._record.boundary_version
            if boundary is None:
                raise OperationalError(f"the stream {self._plan.name} has no boundary", hint="plan its history first")
            return boundary
        return self._live_version()[1]

    def _live_version(self) -> tuple[int | None, int]:
        """Return the live stream's last micro-batch in the target, and the source version it has reached by now."""
        committed = self._context.tables.committed_position(self._plan.target, self._plan.id, [self._plan.source_id])
        position = latest(committed, self._context.catalog.jobs.by_id(self._plan.id).progress.position)
        if position is None:
            raise OperationalError(f"the stream {self._plan.name} is not live", hint="wait until it is RUNNING")
        return None if committed is None else committed.batch, position.offsets[self._plan.source_id]

    def _write(self, chunk: Chunk, version: int) -> None:
        """Write the chunk's windows as of a source version."""
        watermark = self._frontier(chunk)
        failpoint("history.evaluate")
        with self._evaluation(version).result(self._target, chunk, watermark) as result:
            if not self._history:
                self._withdraw(result, chunk, version, watermark)
            failpoint("history.commit")
            self._commit(result, chunk, version)
        failpoint("history.committed")

    def _evaluation(self, version: int) -> ChunkEvaluation:
        return ChunkEvaluation(self._context, self._plan, version, self._grid)

    def _frontier(self, chunk: Chunk) -> int | None:
        """Windows are written whose last instant lies before it; None: all, as a history does whatever the trigger mode."""
        if self._history or self._plan.query.window is None:
            return None
        known = self._context.catalog.jobs.by_id(self._plan.id).progress.watermark
        return chunk.start if known is None else known

    def _commit(self, result: ChunkResult, chunk: Chunk, version: int) -> None:
        """One commit, tried as often as the live stream comes in between.

        Raises:
            TouchedError: what came in between has changed the chunk's range.
        """
        checked = version
        for _ in range(COMMITS):
            expected = None
            if not self._history:
                recorded, reached = self._live_version()
                self._check_untouched(chunk, checked + 1, reached)
                checked, expected = max(checked, reached), ExpectedTransaction(stream_app(self._plan.id), recorded)
            try:
                result.write(Commit(self._app(chunk), 1, expected))
                return
            except FencedError:
                logger.debug("the live stream %s has committed in between", self._plan.name)
        raise OperationalError(f"chunk {chunk.number} could not be written: the stream commits all the time", hint="try again")

    def _app(self, chunk: Chunk) -> str:
        return chunk_app(chunk.job_id, chunk.run, chunk.number)

    def _check_untouched(self, chunk: Chunk, first: int, last: int) -> None:
        """Raise `TouchedError` where source versions `first` to `last` have changed rows that the chunk reads."""
        if first > last or self._context.tables.change_rows(self._plan.source, first, last) == 0:
            return
        if self._evaluation(last).changed(chunk.start, chunk.end, first, last):
            raise TouchedError

    def _withdraw(self, result: ChunkResult, chunk: Chunk, version: int, watermark: int | None) -> None:
        """Have the result withdraw closed windows of the chunk that the stream no longer has.

        Of windows without a bound nothing tells which keys are those of open ones, and none is withdrawn.
        """
        if self._grid is None:
            return
        beyond = chunk.end if watermark is None else min(chunk.end, watermark - self._grid.length + 1)
        if beyond > chunk.start:
            result.retract(self._stored(chunk.start, beyond - 1), self._evaluation(version).groups)

    def _stored(self, first: int, last: int) -> Bounds:
        """Instants of the source, in ticks, as the target stores them."""
        tick = self._plan.source_database.precision.nanoseconds
        unit = 1 if self._plan.target_database.precision is Precision.NANOSECOND else 1_000
        return Bounds(first * tick // unit, last * tick // unit)
