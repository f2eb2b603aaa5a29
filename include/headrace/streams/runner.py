"""One stream at work: its position, its next micro-batch, and what is durable of it.

The order of a micro-batch is checkpoint, sink, catalog. If the driver dies in between, the stream restarts at the later of what the
sink has committed and what the catalog says, and the checkpoint of that very micro-batch exists.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from enum import Enum, auto
from typing import Final, Protocol

from headrace.errors import Error, HistoryGoneError, InternalError, TransientError
from headrace.model.failpoints import failpoint
from headrace.model.jobs import DesiredState, JobProgress, JobRecord
from headrace.model.positions import Position, latest
from headrace.streams.batches import BatchResult, Processor
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan, plan_of
from headrace.streams.projection import ProjectionProcessor
from headrace.streams.sinks.sink import DeltaSink, Sink
from headrace.streams.state.checkpoints import StateError, StateStore, StreamState
from headrace.streams.state.rebuild import rebuild
from headrace.streams.windows.changes import Changes
from headrace.streams.windows.processor import WindowProcessor

logger = logging.getLogger(__name__)

RECORD_PAUSE_S: Final = 1.0
"""Between attempts to record progress while the catalog cannot be reached."""


class Reader(Protocol):
    """Where a stream gets its changes from."""

    def after(self, version: int, tags: tuple[str, ...], last: int | None = None) -> Changes | None:
        """Return the next batch after a version, with these tags; None if there is none. With `last`, none later than that."""

    def nothing(self, version: int, tags: tuple[str, ...]) -> Changes:
        """Return a batch without rows, which leaves the offset at a version."""

    def pending(self, version: int) -> tuple[int, int | None]:
        """Return changes after a version, and when the oldest of them was committed (epoch ms); None if there is none."""


class Advance(Enum):
    """What came of asking a stream for its next micro-batch."""

    HANDLED = auto()
    IDLE = auto()
    """There was nothing to do."""
    UNWANTED = auto()
    """The user no longer wants it to run."""
    FULL = auto()
    """Its sink has no room for more results yet."""


def processor_of(context: Context, plan: StreamPlan) -> Processor:
    """Return the processor for a plan's kind of query."""
    return ProjectionProcessor(context, plan) if plan.query.window is None else WindowProcessor(context, plan)


def state_store(context: Context, job_id: str) -> StateStore:
    """Return the checkpoints of a stream."""
    return StateStore(context.state_uri, job_id, context.epoch)


class Runner:
    """A stream's processor, checkpoints, sink and position."""

    def __init__(
        self,
        context: Context,
        record: JobRecord,
        reader: Reader,
        *,
        processor: Callable[[Context, StreamPlan], Processor] = processor_of,
        sink: Callable[[Context, StreamPlan], Sink] = DeltaSink,
    ) -> None:
        self.context = context
        self.plan = plan_of(record.definition, context.catalog)
        self.reader = reader
        self.progress = record.progress
        self.store = state_store(context, self.plan.id)
        self.sink = sink(context, self.plan)
        self.processor = processor(context, self.plan)
        self.committed: int | None = None
        self._state: StreamState | None = None
        self._record_at: float | None = None

    @property
    def position(self) -> Position:
        """The last micro-batch that is handled."""
        return self.state.position

    @property
    def offset(self) -> int:
        """The last source version that is handled."""
        return self.position.offsets[self.plan.source_id]

    @property
    def wake_at(self) -> int | None:
        """When the next micro-batch is due even if nothing changes, in epoch ms of the connection's clock."""
        return self.state.wake_at

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that the query reads."""
        return self.plan.query.scans[0].tags

    @property
    def state(self) -> StreamState:
        """The state at the stream's position; read, or computed again, on first use."""
        if self._state is None:
            self._state = self.restored()
            if self.progress.position != self._state.position:
                self.record()
        return self._state

    def is_due(self) -> bool:
        """Return True if the stream has asked to be woken by now."""
        return self.wake_at is not None and self.wake_at <= self.context.clock.now()

    def is_record_due(self) -> bool:
        """Return True if it is time to record progress that could not be recorded before."""
        return self._record_at is not None and self._record_at <= time.monotonic()

    def reset(self) -> None:
        """Forget what is in memory: after a failure only what is durable counts."""
        self._state = None
        self.progress = self.context.catalog.jobs.by_id(self.plan.id).progress

    def close(self, grace_s: float) -> None:
        """End what works in the background, waiting for it no longer than the grace."""
        self.sink.close(grace_s)

    def restored(self) -> StreamState:
        """Fence off older drivers, and return the state at the last position that is durable."""
        self.sink.fence()
        committed = self.sink.position()
        self.committed = None if committed is None else committed.batch
        position = restart_position(self.plan, committed, self.progress)
        try:
            state = self.store.read(position.batch)
            damage = "there is no checkpoint" if self.store.batches() else None
        except StateError as error:
            state, damage = None, error.message
        if state is not None and state.position != position:
            state, damage = None, "the checkpoint has other offsets"
        return state if state is not None else self.recovered(position, damage)

    def recovered(self, position: Position, damage: str | None) -> StreamState:
        """Compute the state of a position without checkpoint: from an older one and the changes since, else from stored rows."""
        state = self.replayed(position)
        how = "computed again from the changes since an older one"
        if state is None:
            state = rebuild(self.context, self.plan, position, after_history=damage is None, counters=self.progress.counters)
            how = "rebuilt from the stored rows"
        if damage is not None:
            message = f"state of micro-batch {position.batch}: {damage}; it was {how}"
            self.context.catalog.events.record("job", self.plan.id, "STATE_RESTORED", message)
        self.store.write(state, position.batch)
        return state

    def replayed(self, position: Position) -> StreamState | None:
        """Compute the state of a position from an older one and the changes since; None if either is gone."""
        for batch in reversed(self.store.batches()):
            if batch >= position.batch:
                continue
            try:
                state = self.store.read(batch)
                if state is not None:
                    return self.replayed_from(state, position)
            except (StateError, HistoryGoneError):
                continue
        return None

    def replayed_from(self, state: StreamState, position: Position) -> StreamState:
        """Add the changes up to a position to an older state.

        Meanwhile the clock stands still, so that nothing falls due whose results would be lost: that is done once the stream runs.
        """
        source = self.plan.source_id
        last = position.offsets[source]
        offset = state.position.offsets[source]
        while offset < last:
            changes = self.reader.after(offset, self.tags, last)
            if changes is None:
                raise InternalError(f"{self.plan.name} was at version {last} of its source, which has no such version")
            result = self.processor.run(state, replace(changes, now=state.handled_at))
            state = replace(result.state, wake_at=result.wake_at)
            offset = changes.last
        return replace(state, position=position)

    def advance(self) -> Advance:
        """Handle the next micro-batch, if there is one and the user still wants it."""
        state = self.state
        try:
            changes = self._next_changes()
        except Error:
            if self._skip(self._asked(), state):
                return Advance.HANDLED
            raise
        if changes is None:
            if self.is_record_due():
                self.record()
            return Advance.IDLE
        if not self.sink.has_room():
            return Advance.FULL
        asked = self._asked()
        if asked is not None and asked.desired is not DesiredState.RUNNING:
            return Advance.UNWANTED
        if not self._skip(asked, state):
            self.handle(changes)
        return Advance.HANDLED

    def _next_changes(self) -> Changes | None:
        """The changes of the next micro-batch, none if the clock alone is its reason; None if there is none."""
        changes = self.reader.after(self.offset, self.tags)
        if changes is None and self.is_due():
            return self.reader.nothing(self.offset, self.tags)
        return changes

    def _skip(self, asked: JobRecord | None, state: StreamState) -> bool:
        """Go to the offsets that the user wants to skip to; False if there are none, or it is past them."""
        if asked is None or asked.skip_to is None or not state.position.is_behind(asked.skip_to):
            return False
        moved = replace(state, position=state.position.next(asked.skip_to))
        self.store.write(moved, self._durable())
        self._state = moved
        self.record()
        return True

    def _asked(self) -> JobRecord | None:
        """What the user asks for, looked up after the changes were read: what was committed after a PAUSE is never handled.

        None while the catalog cannot be reached.
        """
        try:
            return self.context.catalog.jobs.by_id(self.plan.id)
        except TransientError as error:
            logger.warning("stream %s: continuing without the catalog: %s", self.plan.name, error.message)
            return None

    def handle(self, changes: Changes) -> None:
        """Compute one micro-batch and make it durable."""
        state, now = self.state, self.context.clock.now()
        result = self.processor.run(state, replace(changes, now=now))
        offsets = {self.plan.source_id: changes.last}
        moved = replace(result.state, position=state.position.next(offsets), wake_at=result.wake_at, handled_at=now)
        failpoint("streams.evaluated")
        self.store.write(moved, self._durable())
        failpoint("streams.state.written")
        self.commit(result, moved.position)
        failpoint("streams.target.committed")
        self._state = moved
        self.record()
        failpoint("streams.progress.recorded")

    def commit(self, result: BatchResult, position: Position) -> None:
        """Commit the results of a micro-batch."""
        if self.sink.commit(result, position, self.committed):
            self.committed = position.batch

    def _durable(self) -> int:
        """The micro-batch from which the stream would restart now."""
        recorded = self.progress.position
        return max(self.committed or 0, 0 if recorded is None else recorded.batch)

    def record(self) -> None:
        """Record the stream's progress in the catalog, or later if that cannot be reached: a restart does not need it."""
        state, now = self.state, self.context.clock.now()
        pending, pending_since = self.reader.pending(self.offset)
        progress = JobProgress(
            position=state.position,
            boundary=self.progress.boundary,
            watermark=state.watermark(self.plan.watermark),
            updated=now,
            pending_since=pending_since,
            counters=replace(state.counters, rows_in=state.counters.rows_in + pending, rows_pending=pending),
        )
        try:
            self.context.catalog.jobs.set_progress(self.plan.id, progress, self.context.epoch or None)
        except TransientError as error:
            logger.warning("stream %s: progress is not recorded yet: %s", self.plan.name, error.message)
            self._record_at = time.monotonic() + RECORD_PAUSE_S
        else:
            self.progress, self._record_at = progress, None


def restart_position(plan: StreamPlan, committed: Position | None, progress: JobProgress) -> Position:
    """Return the last position that is durable: the later of the sink's and the catalog's, else the end of the history."""
    position = latest(committed, progress.position)
    if position is None:
        return Position(0, progress.boundary or {plan.source_id: 0})
    return position
