"""The runner of one stream: its position, its next micro-batch, and making results durable.

A micro-batch is written in the order checkpoint, quarantine, sink, catalog. If the driver dies in between, the stream restarts at
the later of the sink's and the catalog's position, and the checkpoint of exactly that micro-batch exists.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

import pyarrow as pa

from headrace.code.languages import functions_named
from headrace.context import Context
from headrace.errors import Error, HistoryGoneError, InternalError, TransientError
from headrace.jobs.runners import Advance, Runner
from headrace.model.clock import is_set_back
from headrace.model.failpoints import failpoint
from headrace.model.functions import RegisteredFunction
from headrace.model.jobs import DesiredState, JobProgress, JobRecord
from headrace.model.positions import Offsets, Position, SourceId, is_behind, latest
from headrace.model.window_notes import WindowNote
from headrace.storage.set_aside import SetAside
from headrace.streams.batches import BatchResult, Processor
from headrace.streams.clocked.processor import ClockedProcessor
from headrace.streams.definition.define import StreamPlan, plan_recorded_stream
from headrace.streams.keep import KeepProcessor
from headrace.streams.metering import Phase, RunnerSample, Stopwatch, sample_state
from headrace.streams.projection import ProjectionProcessor
from headrace.streams.quarantine.quarantine import Quarantine
from headrace.streams.quarantine.replay import read_replay
from headrace.streams.sinks.notifying import sink_of
from headrace.streams.sinks.sink import Sink
from headrace.streams.sinks.target_groups import TargetGroups
from headrace.streams.sources.earlier_tags import EarlierTagsProcessor, keep_groups
from headrace.streams.sources.parts import own_changes
from headrace.streams.sources.tags import RetaggedSubtables
from headrace.streams.state.checkpoints import StateError, StreamState
from headrace.streams.state.rebuild import rebuild
from headrace.streams.state.store import StateStore
from headrace.streams.wide.staging import discard_leftovers, discard_staged
from headrace.streams.windows.change_batch import Changes
from headrace.streams.windows.notes import add_notes
from headrace.streams.windows.processor import WindowProcessor

logger = logging.getLogger(__name__)

RECORD_PAUSE_S: Final = 1.0
"""The pause between attempts to record progress while the catalog cannot be reached."""


class Reader(Protocol):
    """Reads the changes of a stream's sources, of one or of several."""

    def latest(self) -> Offsets:
        """Return the newest version of each source."""

    def read_after(self, offsets: Offsets, tags: tuple[str, ...], last: Offsets | None = None) -> Changes | None:
        """Return the next batch after offsets, with these tags; None if there is none.

        It has changes of any of the sources. What it has depends only on the offsets before and after it. With `last` it ends there
        at the latest; a reader of several sources, whose batches are one write each, ends there exactly, so that the batch that
        ended there is repeated as it was.
        """

    def sync(self) -> None:
        """Have all that was read survive a power failure, so that nothing durable follows from what may be lost."""

    def empty_batch(self, offsets: Offsets, tags: tuple[str, ...]) -> Changes:
        """Return a batch without rows that leaves the offsets as they are."""

    def pending(self, offsets: Offsets) -> tuple[int, int | None]:
        """Return the number of rows written after offsets, and when the oldest was committed (epoch ms; None without any)."""

    def known_pending(self, offsets: Offsets) -> int:
        """Return the number of rows written after offsets, as far as it is known. Reads nothing, so it never waits."""

    def committed_at(self, source: SourceId, version: int) -> int | None:
        """Return when a version of a source was committed, in epoch ms; None if unknown."""


def processor_of(context: Context, plan: StreamPlan) -> Processor:
    create: Callable[[Context, StreamPlan], Processor] = WindowProcessor
    if plan.is_closed_by_clock:
        create = ClockedProcessor
    elif plan.query.window is None:
        create = ProjectionProcessor
    processor: Processor = KeepProcessor(create(context, plan), plan)
    return EarlierTagsProcessor(processor, plan) if plan.keeps_groups else processor


def state_store(context: Context, job_id: str) -> StateStore:
    return StateStore(context.state_uri, job_id, context.epoch)


class StreamRunner(Runner):
    """Runs one stream: owns its processor, checkpoints, sink and position."""

    def __init__(
        self,
        context: Context,
        record: JobRecord,
        reader: Reader,
        *,
        processor: Callable[[Context, StreamPlan], Processor] = processor_of,
        sink: Callable[[Context, StreamPlan], Sink] = sink_of,
    ) -> None:
        self.context = replace(context, set_aside=SetAside())
        self.definition = record.definition
        self.functions = self._called_functions()
        self.plan = plan_recorded_stream(record.definition, context.catalog, context.settings)
        self.reader = reader
        self.progress = record.progress
        self.store = state_store(context, self.plan.id)
        self.sink = sink(self.context, self.plan)
        self.quarantine = Quarantine(self.context, self.plan, processor)
        self.stopwatch = Stopwatch()
        self.committed: int | None = None
        self._state: StreamState | None = None
        self._record_at: float | None = None
        self.quarantine_requested = record.quarantine_requested
        self.notes: tuple[WindowNote, ...] = ()

    @property
    def position(self) -> Position:
        """The position after the last handled micro-batch."""
        return self.state.position

    @property
    def offsets(self) -> Offsets:
        """The last version of each source that is handled."""
        return self.position.offsets

    @property
    def wake_at(self) -> int | None:
        """When the next micro-batch is due even if nothing changes, in epoch ms of the connection's clock."""
        return self.state.wake_at

    @property
    def tags(self) -> tuple[str, ...]:
        return self.plan.query.scans[0].tags

    @property
    def state(self) -> StreamState:
        """The state at the stream's position. Restored on first use."""
        if self._state is None:
            self._state = self.restore()
            if self.progress.position != self._state.position:
                self.record()
        return self._state

    def is_due(self) -> bool:
        """Return True if the clock or the user has asked for a micro-batch, the sink has failed, or progress is to be recorded."""
        return self.sink.failure() is not None or self.is_woken() or self.is_record_due() or self.is_request_due()

    def is_woken(self) -> bool:
        now = self.context.clock.now()
        if self.wake_at is not None and is_set_back(self.state.handled_at, now):
            self._state = replace(self.state, wake_at=now, handled_at=now)
        return self.wake_at is not None and self.wake_at <= now

    def is_outdated(self, keep_ms: Mapping[str, int | None]) -> bool:
        """Return True if the target's database has another KEEP by now, or a function that the stream calls was replaced."""
        database = self.plan.target_database
        return keep_ms.get(database.name, database.keep_ms) != database.keep_ms or self._has_replaced_functions()

    def _has_replaced_functions(self) -> bool:
        return self.functions != self._called_functions()

    def _called_functions(self) -> tuple[RegisteredFunction, ...]:
        return functions_named(self.definition.dialect, self.context.catalog, self.definition.functions)

    def is_record_due(self) -> bool:
        return self._record_at is not None and self._record_at <= time.monotonic()

    @property
    def is_recorded(self) -> bool:
        """True unless the catalog could not be reached when progress was to be recorded."""
        return self._record_at is None

    def is_delivering(self) -> bool:
        return self.sink.is_busy()

    def sample(self) -> RunnerSample | None:
        """Return the runner's measurements; None before the state is restored. Thread-safe."""
        state, progress = self._state, self.progress
        if state is None:
            return None
        offsets = state.position.offsets if progress.position is None else progress.position.offsets
        pending = max(progress.counters.rows_pending, self.reader.known_pending(offsets))
        return sample_state(self.stopwatch.meter, state, pending, self.plan.query.precision.ticks_per_second, self.notes)

    def reset(self) -> None:
        """Forget the state in memory. After a failure only durable state counts."""
        self._state = None
        self.progress = self.context.catalog.jobs.by_id(self.plan.id).progress

    def close(self, grace_s: float) -> None:
        """Stop background work, waiting at most `grace_s` for it."""
        self.sink.close(grace_s)

    def restore(self) -> StreamState:
        """Fence off older drivers, and return the state at the last durable position."""
        self.sink.fence()
        discard_leftovers(self.context, self.plan.id)
        committed = self.sink.position()
        self.committed = None if committed is None else committed.batch
        position = restart_position(self.plan, committed, self.progress)
        self.quarantine.restore(position)
        try:
            state = self.store.read(position.batch)
            damage = "there is no checkpoint" if self.store.batches() else None
        except StateError as error:
            state, damage = None, error.message
        if state is not None and state.position != position:
            state, damage = None, "the checkpoint has other offsets"
        restored = state if state is not None else self.recover(position, damage)
        self.sink.resume(restored)
        return replace(restored, messages=())

    def recover(self, position: Position, damage: str | None) -> StreamState:
        """Compute the state of a position without checkpoint: from an older one and the changes since, else from stored rows."""
        state = self.replay(position)
        method = "recomputed from an older one and the changes since"
        if state is None:
            counters = None if self.progress.position is None else self.progress.counters
            state = rebuild(self.context, self.plan, position, after_history=damage is None, counters=counters)
            method = "rebuilt from the stored rows"
        if damage is not None:
            message = f"state of micro-batch {position.batch}: {damage}; it was {method}"
            self.context.catalog.events.record("job", self.plan.id, "STATE_RESTORED", message)
        return self.store.write(state, position.batch)

    def replay(self, position: Position) -> StreamState | None:
        """Compute the state of a position from an older checkpoint and the changes since; None if either is gone."""
        for batch in reversed(self.store.batches()):
            if batch >= position.batch:
                continue
            try:
                state = self.store.read(batch)
                if state is not None:
                    with self.quarantine.recovering(batch):
                        return self.replay_from(state, position)
            except (StateError, HistoryGoneError):
                continue
        return None

    def replay_from(self, state: StreamState, position: Position) -> StreamState:
        """Apply the changes up to a position to an older state.

        The clock is stopped during the replay, so that no results fall due that would be lost. They are written once the stream
        runs.
        """
        offsets, last = state.position.offsets, position.offsets
        while is_behind(offsets, last):
            changes = self.reader.read_after(offsets, self.tags, last)
            if changes is None:
                raise InternalError(f"{self.plan.name} has read its sources up to {dict(last)}, which do not exist")
            changes = own_changes(self.plan, changes)
            result = self.quarantine.process_batch(state, replace(changes, now=state.handled_at))
            if result.staged is not None:
                discard_staged(result.staged)
            state = replace(result.state, wake_at=result.wake_at, messages=self.sink.prepare(result, position).messages)
            offsets = changes.offsets
        return replace(self.quarantine.recount(state), position=position, computed_before=None)

    def advance(self) -> Advance:
        """Handle the next micro-batch if there is one and the user still wants the stream to run."""
        failure = self.sink.failure()
        if failure is not None:
            raise failure
        state = self.state
        if self.is_request_due():
            return self._serve_request()
        try:
            changes = self._next_changes()
        except Error:
            if self._skip(self._load_record(), state):
                return Advance.HANDLED
            raise
        if changes is None:
            if self.is_record_due():
                self.record()
            return Advance.IDLE
        if not self.sink.has_room():
            return Advance.FULL
        record = self._load_record()
        if record is not None and (record.desired is not DesiredState.RUNNING or self._has_replaced_functions()):
            return Advance.UNWANTED
        if not self._skip(record, state):
            self.handle(changes)
        return Advance.HANDLED

    def _next_changes(self) -> Changes | None:
        """Return the changes of the next micro-batch, without rows if only the clock made it due; None if there is none."""
        with self.stopwatch.measure(Phase.READ):
            changes = self.reader.read_after(self.offsets, self.tags)
        if changes is None and self.is_woken():
            changes = self.reader.empty_batch(self.offsets, self.tags)
        return None if changes is None else self._changed_tags() or own_changes(self.plan, changes)

    def _changed_tags(self) -> Changes | None:
        """Return the rows whose windows a change of tags affects; None if no tags have changed.

        They are handled before any changes. Since tags are asked for after the changes were read, these have the same ones.
        """
        state, has_tags = self.state, self.plan.follows_tags or self.plan.keeps_groups
        version = self.context.tables.tags.version(self.plan.source) if has_tags else None
        if version == state.tags_version:
            return None
        if version is not None and self.plan.keeps_groups:
            self._state = keep_groups(self.context, self.plan, state, version)
            return None
        before = state.tags_version
        retagged = None if before is None else RetaggedSubtables.since(self.context, self.plan, before)
        if version is not None and retagged is not None:
            return retagged.changes(state, version, self.context.clock.now())
        self._state = replace(state, tags_version=version)
        return None

    def _skip(self, record: JobRecord | None, state: StreamState) -> bool:
        """Move to the offsets that the user wants to skip to; return False if there are none, or they are behind."""
        if record is None or record.skip_to is None or not state.position.is_behind(record.skip_to):
            return False
        moved = replace(state, position=state.position.next(record.skip_to))
        self._state = self.store.write(moved, self._durable_batch())
        self.record()
        return True

    def refresh(self, record: JobRecord) -> None:
        if record.quarantine_requested is not None:
            self.quarantine_requested = record.quarantine_requested

    def is_request_due(self) -> bool:
        return self.quarantine_requested is not None

    def _serve_request(self) -> Advance:
        """Drop the rows in quarantine that the user wants to drop, or process those to replay, as a micro-batch of its own."""
        record = self._load_record()
        if record is None:  # the next reconciliation that reaches the catalog asks again
            self.quarantine_requested = None
            return Advance.IDLE
        if record.desired is not DesiredState.RUNNING:
            return Advance.UNWANTED
        if not self.sink.has_room():
            return Advance.FULL
        dropped = self.quarantine.drop(self.state)
        if dropped is not None:
            self.write(dropped, replace(self.reader.empty_batch(self.offsets, self.tags), now=self.context.clock.now()))
        self._replay_quarantine()
        if self.quarantine_requested is not None:
            self.context.catalog.quarantine.finish_request(self.plan.id, self.quarantine_requested)
        self.quarantine_requested = None
        return Advance.HANDLED

    def _replay_quarantine(self) -> None:
        replay = read_replay(self.context, self.plan, self.offsets)
        if replay is not None:
            changes = replace(replay.changes, now=self.context.clock.now())
            with self.stopwatch.measure(Phase.COMPUTE):
                result = self.quarantine.replay(self.state, changes, replay.keys)
            self.write(result, changes)

    def _load_record(self) -> JobRecord | None:
        """Return the job's present record, or None while the catalog cannot be reached.

        It is read after the changes: commits made after a PAUSE are never handled.
        """
        try:
            return self.context.catalog.jobs.by_id(self.plan.id)
        except TransientError as error:
            logger.warning("stream %s: continuing without the catalog: %s", self.plan.name, error.message)
            return None

    def handle(self, changes: Changes) -> None:
        """Compute one micro-batch and make it durable."""
        changes = replace(changes, now=self.context.clock.now())
        with self.stopwatch.measure(Phase.COMPUTE):
            result = self.quarantine.process_batch(self.state, changes)
        self.write(result, changes)

    def write(self, result: BatchResult, changes: Changes) -> None:
        """Make the result of a micro-batch durable."""
        position, now = self.state.position.next(changes.offsets), changes.now
        result = self.sink.prepare(result, position)
        moved = replace(result.state, position=position, wake_at=result.wake_at, handled_at=now, messages=result.messages)
        if changes.tags_version is not None:
            moved = replace(moved, tags_version=changes.tags_version)
        failpoint("streams.evaluated")
        self.reader.sync()
        with self.stopwatch.measure(Phase.CHECKPOINT):
            moved = self.store.write(moved, self._durable_batch())
        failpoint("streams.state.written")
        with self.stopwatch.measure(Phase.WRITE):
            self.quarantine.commit(result.quarantine, position.batch, now, self.store.oldest)
            if self.sink.commit(result, moved.position, self.committed):
                self.committed = position.batch
        failpoint("streams.target.committed")
        self._state = replace(moved, messages=())
        with self.stopwatch.measure(Phase.RECORD):
            self.record()
        if result.noted is not None:
            self.note(result.noted)
        self.stopwatch.count()
        failpoint("streams.progress.recorded")

    def note(self, windows: pa.Table) -> None:
        """Keep notes of windows for those who look at the stream; without the catalog there are none."""
        with suppress(TransientError):
            names = TargetGroups(self.context, self.plan).identify(windows)[1]
            earlier = self.notes or self.context.catalog.window_notes.all(self.plan.id)
            self.notes = add_notes(earlier, windows, names, self.context.clock.now())

    def _durable_batch(self) -> int:
        """Return the number of the micro-batch from which the stream would restart now."""
        recorded = self.progress.position
        return max(self.committed or 0, 0 if recorded is None else recorded.batch)

    def record(self) -> None:
        """Record the stream's progress in the catalog, later if the catalog cannot be reached: a restart does not need it."""
        state, now = self.state, self.context.clock.now()
        pending, pending_since = self.reader.pending(self.offsets)
        progress = JobProgress(
            position=state.position,
            boundary=self.progress.boundary,
            watermark=state.closed_until(self.plan.watermark),
            updated=now,
            pending_since=pending_since,
            counters=replace(state.counters, rows_in=state.counters.rows_in + pending, rows_pending=pending),
        )
        try:
            self.context.catalog.jobs.set_progress(self.plan.id, progress, self.context.epoch or None)
        except TransientError as error:
            logger.warning("stream %s: postponing the record of its progress: %s", self.plan.name, error.message)
            self._record_at = time.monotonic() + RECORD_PAUSE_S
        else:
            self.progress, self._record_at = progress, None


def restart_position(plan: StreamPlan, committed: Position | None, progress: JobProgress) -> Position:
    """Return the last durable position: the later of the sink's and the catalog's, else the end of the backfill."""
    position = latest(committed, progress.position)
    if position is None:
        return Position(0, progress.boundary or dict.fromkeys(plan.source_ids, 0))
    return position
