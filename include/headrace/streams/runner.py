"""One stream at work: where it stands, its next batch, and what is durable of it.

The order of a batch is state file, target, catalog. Whatever dies in between, the stream stands at the larger of what the
target has recorded and what the catalog says, and the state of exactly that version exists.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from headrace.errors import HistoryGoneError
from headrace.model.faults import reach
from headrace.model.streams import StreamProgress, StreamRecord
from headrace.streams.context import Context
from headrace.streams.define import StreamPlan, plan_of
from headrace.streams.incoming import Changes
from headrace.streams.projection import ProjectionStep
from headrace.streams.restore import rebuild
from headrace.streams.state import State, StateError, StateStore
from headrace.streams.step import Outcome, WindowStep
from headrace.streams.target import Target


class Reader(Protocol):
    """Where a stream gets its changes from."""

    def after(self, version: int, tags: tuple[str, ...], last: int | None = None) -> Changes | None:
        """The next batch after a version, with these tags; None when there is none. With `last`, none later than that."""

    def pending(self, version: int) -> tuple[int, int | None]:
        """Changes after a version, and when the oldest of them was committed (epoch ms); None when there is none."""


class Step(Protocol):
    def run(self, state: State, changes: Changes) -> Outcome:
        """Handle one batch; nothing is written."""


def step_of(context: Context, plan: StreamPlan) -> Step:
    """The step for a plan's kind of query."""
    return ProjectionStep(context, plan) if plan.query.window is None else WindowStep(context, plan)


def state_store(context: Context, stream_id: str) -> StateStore:
    """The files of a stream's state."""
    return StateStore(context.state_uri, stream_id, context.epoch)


class Runner:
    """A stream's step, state, target and position."""

    def __init__(self, context: Context, record: StreamRecord, reader: Reader) -> None:
        self.context = context
        self.plan = plan_of(record.definition, context.catalog)
        self.reader = reader
        self.progress = record.progress
        self.store = state_store(context, self.plan.id)
        self.target = Target(context, self.plan)
        self.step = step_of(context, self.plan)
        self.committed: int | None = None
        self._state: State | None = None

    @property
    def position(self) -> int:
        """The last source version that is handled."""
        return self.state.version

    @property
    def state(self) -> State:
        """The state at the stream's position; read, or worked out again, when first asked for."""
        if self._state is None:
            self._state = self.restored()
            if self.progress.source_version != self._state.version:
                self.record()
        return self._state

    def reset(self) -> None:
        """Forget what is in memory: after a failure only what is durable counts."""
        self._state = None
        self.target = Target(self.context, self.plan)
        self.progress = self.context.catalog.streams.by_id(self.plan.id).progress

    def restored(self) -> State:
        self.target.fence()
        self.committed = self.target.version()
        position = max(self.committed or 0, self.progress.source_version or 0, self.progress.boundary or 0)
        try:
            state = self.store.read(position)
            damage = "there is no state" if self.store.versions() else None
        except StateError as error:
            state, damage = None, error.message
        return state if state is not None else self.recovered(position, damage)

    def recovered(self, position: int, damage: str | None) -> State:
        """The state at a position of which there is none: from an older one and the changes since, else from the stored rows."""
        state = self.replayed(position)
        how = "worked out again from the changes since an older one"
        if state is None:
            state = rebuild(self.context, self.plan, position, after_history=damage is None, counters=self.progress.counters)
            how = "rebuilt from the stored rows"
        if damage is not None:
            message = f"state of source version {position}: {damage}; it was {how}"
            self.context.catalog.events.record("stream", self.plan.id, "STATE_RESTORED", message)
        self.store.write(state, position)
        return state

    def replayed(self, position: int) -> State | None:
        """The state at a position from an older one and the changes since; None where either is gone."""
        for version in reversed(self.store.versions()):
            if version >= position:
                continue
            try:
                state = self.store.read(version)
                while state is not None and state.version < position:
                    changes = self.reader.after(state.version, self.plan.query.scans[0].tags, position)
                    state = None if changes is None else self.step.run(state, changes).state
            except (StateError, HistoryGoneError):
                continue
            if state is not None:
                return state
        return None

    def advance(self) -> bool:
        """Handle the next batch; False when there is none."""
        state = self.state
        changes = self.reader.after(state.version, self.plan.query.scans[0].tags)
        if changes is None:
            return False
        outcome = self.step.run(state, changes)
        reach("streams.evaluated")
        self.store.write(outcome.state, state.version)
        reach("streams.state.written")
        self.commit(outcome)
        reach("streams.target.committed")
        self._state = outcome.state
        self.record()
        reach("streams.progress.recorded")
        return True

    def commit(self, outcome: Outcome) -> None:
        """Write a batch's results; a batch without any touches the target not at all."""
        upserts = self.target.rows(outcome.upserts) if outcome.upserts.num_rows else None
        deletes = self.target.keys(outcome.withdrawn) if outcome.withdrawn.num_rows else None
        if not any(part is not None and part.num_rows for part in (upserts, deletes)):
            return
        self.target.commit(upserts, deletes, outcome.state.version, self.committed)
        self.committed = outcome.state.version

    def record(self) -> None:
        """Tell the catalog how far the stream has come."""
        state, now = self.state, self.context.clock.now()
        pending, oldest = self.reader.pending(state.version)
        counters = replace(state.counters, rows_in=state.counters.rows_in + pending, rows_pending=pending)
        self.progress = StreamProgress(
            source_version=state.version,
            boundary=self.progress.boundary,
            frontier=state.frontier(self.plan.watermark),
            updated=now,
            lag_ms=0 if oldest is None else max(0, now - oldest),
            counters=counters,
        )
        self.context.catalog.streams.set_progress(self.plan.id, self.progress, self.context.epoch or None)
