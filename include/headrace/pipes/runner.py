"""The runner of one pipe: reads a batch, processes it, delivers it, and records its position."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headrace.context import Context
from headrace.errors import Error, TransientError
from headrace.jobs.runners import Advance, Runner
from headrace.model.clock import is_set_back
from headrace.model.failpoints import failpoint
from headrace.model.jobs import DesiredState, JobCounters, JobProgress, JobRecord
from headrace.model.pipes import PipeStage
from headrace.model.positions import Position
from headrace.pipes.checkpoints import PipeCheckpoint, PipeCheckpoints
from headrace.pipes.events import Event, bytes_of, rows_of
from headrace.pipes.plugins import Delivery, PipeContext, Processor, Sink, Source, SourceBatch
from headrace.pipes.shared import Shared
from headrace.pipes.shared_sinks import SharedSink
from headrace.pipes.stages import Stage, stage_of
from headrace.pipes.transfer import can_transfer_in_chunks
from headrace.streams.metering import Phase, RunnerSample, Stopwatch

logger = logging.getLogger(__name__)

RECORD_PAUSE_S: Final = 1.0
"""The pause before progress that could not be recorded is recorded again."""


class PipeRunner(Runner):
    """Runs one pipe. Its batches run one after the other, each in any thread.

    A batch is numbered. Where delivering an event twice has an effect, or the processor has a state, a checkpoint says before the
    delivery what the batch ends at: after a crash the same batch is read, processed and delivered again.
    """

    def __init__(self, context: Context, record: JobRecord, shared: Shared) -> None:
        """Create the plugins of a pipe; raise what these raise."""
        definition = record.definition
        self.context = context
        self.id = definition.id
        self.name = definition.name
        self.progress = record.progress
        self.position = record.progress.position or Position(0, {})
        self.counters = handled_counters(record.progress)
        self.stopwatch = Stopwatch()
        self.sink_failure: Error | None = None
        self._shared = shared
        self._stages = {stage: stage_of(context, definition, stage) for stage in PipeStage}
        leaves_history = shared.leaves_history and can_transfer_in_chunks(context, definition)
        self._pipe = PipeContext(context, definition.id, definition.name, definition.owner, shared, leaves_history)
        self._checkpoints = PipeCheckpoints(f"{context.state_uri}", definition.id, context.epoch)
        self._record_at: float | None = None
        self._is_closed = False
        self._open()

    def _open(self) -> None:
        """Create the source and the processor at the recorded position, and take the sink."""
        self.source: Source = self._stages[PipeStage.SOURCE].create(self._pipe)
        self.processor: Processor = self._stages[PipeStage.PROCESSOR].create(self._pipe)
        self.sink: SharedSink = self._take_sink(self._stages[PipeStage.SINK])
        self._restore()

    def _take_sink(self, stage: Stage) -> SharedSink:
        def create() -> Sink:
            sink: Sink = stage.create(self._pipe)
            return sink

        owner = self._pipe.owner if stage.plugin.acts_as_owner else ""
        return self._shared.sinks.take(stage.attributes, self.id, create, owner)

    def _restore(self) -> None:
        """Restore the state of the processor, and find out what was perhaps delivered after the position."""
        checkpoint = self._checkpoints.read(self.position.batch)
        if checkpoint is not None and checkpoint.state is not None:
            self.processor.restore(checkpoint.state)
        self._repeated = self._checkpoints.read(self.position.batch + 1)
        self._checkpoints.delete_after(self.position.batch + 1)

    @property
    def needs_checkpoints(self) -> bool:
        """Whether a batch must be the same when it is repeated."""
        return not self._stages[PipeStage.SINK].plugin.is_idempotent or self.processor.state() is not None

    @property
    def wake_at(self) -> int | None:
        """When the processor wants to be called, in epoch ms."""
        return self.processor.wake_at

    @property
    def is_recorded(self) -> bool:
        """True unless the catalog could not be reached when progress was to be recorded."""
        return self._record_at is None

    def is_due(self) -> bool:
        """Return whether there is something to do."""
        is_record_due = self._record_at is not None and self._record_at <= time.monotonic()
        offsets = self.position.offsets
        is_repeated = self._repeated is not None
        return self._is_woken() or is_record_due or is_repeated or self.source.has_ended(offsets) or self.source.has_news(offsets)

    def advance(self) -> Advance:
        """Handle the next batch if there is one and the user still wants the pipe to run."""
        self.sink_failure = None
        batch = self._read()
        if batch is None:
            if self.source.has_ended(self.position.offsets):
                return self._end()
            if self._record_at is not None:
                self._record()
            return Advance.IDLE
        if not self._is_wanted():
            return Advance.UNWANTED
        self._handle(batch)
        return Advance.HANDLED

    def _read(self) -> SourceBatch | None:
        """Return the next batch, without events if only the processor wants one; None if there is none."""
        with self.stopwatch.measure(Phase.READ):
            until = None if self._repeated is None else self._repeated.offsets
            batch = self.source.read(self.position.offsets, until)
        if batch is None and self._repeated is not None:
            return SourceBatch((), self._repeated.offsets)
        if batch is None and self._is_woken():
            return SourceBatch((), self.position.offsets)
        return batch

    def _is_woken(self) -> bool:
        """Return whether the processor wants to be called by now, also if the clock was set back since its last batch."""
        now = self.context.clock.now()
        return self.wake_at is not None and (self.wake_at <= now or is_set_back(self.progress.updated, now))

    def _is_wanted(self) -> bool:
        """Return whether the pipe is to run; True while the catalog cannot be reached.

        Raises:
            FencedError: Another driver has taken over: it may have delivered what is newer.
        """
        try:
            return self.context.catalog.jobs.is_wanted(self.id, self.context.epoch or None)
        except TransientError as error:
            logger.warning("pipe %s: continuing without the catalog: %s", self.name, error.message)
            return True

    def _handle(self, batch: SourceBatch) -> None:
        number = self.position.batch + 1
        with self.stopwatch.measure(Phase.COMPUTE):
            now = self.context.clock.now() if self._repeated is None else self._repeated.now
            events = self.processor.process(batch.events, now)
        with self.stopwatch.measure(Phase.CHECKPOINT):
            if self.needs_checkpoints:
                self._checkpoints.write(PipeCheckpoint(number, batch.offsets, now, self.processor.state()))
        failpoint("pipes.processed")
        with self.stopwatch.measure(Phase.WRITE):
            if events:
                self._deliver(Delivery(self.id, number, events, self.context.epoch))
        failpoint("pipes.delivered")
        self._count(batch.events, events)
        self.position, self._repeated = Position(number, batch.offsets), None
        with self.stopwatch.measure(Phase.RECORD):
            self._record()
            self.source.acknowledge(batch.offsets)
        self.stopwatch.count()
        failpoint("pipes.recorded")
        if self.needs_checkpoints and self.is_recorded:
            self._checkpoints.delete_before(number)

    def _deliver(self, delivery: Delivery) -> None:
        try:
            self.sink.transfer(delivery)
        except Error as error:
            self.sink_failure = error
            raise

    def _count(self, read: Sequence[Event], delivered: Sequence[Event]) -> None:
        rows_in, rows_out = (sum(map(rows_of, events)) for events in (read, delivered))
        bytes_out = sum(map(bytes_of, delivered))
        self.counters = self.counters.plus(
            JobCounters(rows_in=rows_in, rows_used=rows_in, rows_out=rows_out, bytes_out=bytes_out, batches=1)
        )

    def _record(self) -> None:
        """Record the progress in the catalog, later if it cannot be reached."""
        pending, since = self.source.pending(self.position.offsets)
        progress = JobProgress(
            position=self.position,
            boundary=self.progress.boundary,
            updated=self.context.clock.now(),
            pending_since=since,
            counters=replace(self.counters, rows_in=self.counters.rows_in + pending, rows_pending=pending),
        )
        try:
            self.context.catalog.jobs.set_progress(self.id, progress, self.context.epoch or None)
        except TransientError as error:
            logger.warning("pipe %s: postponing the record of its progress: %s", self.name, error.message)
            self._record_at = time.monotonic() + RECORD_PAUSE_S
        else:
            self.progress, self._record_at = progress, None

    def _end(self) -> Advance:
        """Drop a pipe whose source has ended."""
        self.context.catalog.events.record("job", self.id, "COMPLETED", f"{self.counters.rows_out} rows transferred")
        self.context.catalog.jobs.set_desired(self.id, DesiredState.DROPPED)
        return Advance.UNWANTED

    def sample(self) -> RunnerSample:
        """Return the measurements of the pipe. Thread-safe."""
        return RunnerSample(self.stopwatch.meter, self.progress.counters.rows_pending, 0, 0, None)

    def reset(self) -> None:
        """Begin again from what is durable, after a failure."""
        record = self.context.catalog.jobs.by_id(self.id)
        self._release()
        self.progress, self.counters = record.progress, handled_counters(record.progress)
        self.position = record.progress.position or Position(0, {})
        self._open()

    def close(self, grace_s: float = 0) -> None:  # noqa: ARG002
        """Release the plugins, once."""
        if not self._is_closed:
            self._is_closed = True
            self._release()

    def _release(self) -> None:
        for part in (self.source, self.processor):
            try:
                part.close()
            except Exception:
                logger.exception("pipe %s: closing %s failed", self.name, type(part).__name__)
        self._shared.sinks.give_back(self.sink, self.id)


def handled_counters(progress: JobProgress) -> JobCounters:
    """Return the counters of what is handled; those that are recorded also count what is pending."""
    counters = progress.counters
    return replace(counters, rows_in=counters.rows_in - counters.rows_pending, rows_pending=0)
