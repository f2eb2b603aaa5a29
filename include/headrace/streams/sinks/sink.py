"""Sinks: they commit the results of a job's micro-batches and know which have been committed."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.context import Context
from headrace.errors import Error
from headrace.model.positions import Position
from headrace.storage import Bounds, Commit
from headrace.storage.delta.spark_writes import staged_frame
from headrace.storage.row_matching import anti_join, row_ids
from headrace.streams.batches import BatchResult, StagedWindows
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sinks.target import TargetTable
from headrace.streams.sinks.target_frame import target_keys, target_rows
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.wide.staging import discard_staged, stage_windows


class Sink(Protocol):
    """Takes the results of one job's micro-batches, each exactly once and in order. By default without background work."""

    def fence(self) -> None:
        """Make commits of drivers with an older epoch fail from now on, and clear caches.

        Raises:
            FencedError: A newer epoch is recorded.
        """

    def position(self) -> Position | None:
        """Return the position of the last committed micro-batch; None if there is none."""

    def has_room(self) -> bool:
        """Return False if the job has to wait before its next micro-batch."""
        return True

    def is_busy(self) -> bool:
        """Return True while background work is expected to end soon."""
        return False

    def failure(self) -> Error | None:
        """Return the error that has ended background work, and that a user has to fix; None if there is none."""
        return None

    def prepare(self, result: BatchResult, position: Position) -> BatchResult:  # noqa: ARG002
        """Add the messages that `commit` will need to a result, so that the checkpoint holds them."""
        return result

    def resume(self, state: StreamState) -> None:  # noqa: ARG002
        """Commit the messages of a restored state's micro-batch, if a driver has died before it did."""
        return

    def commit(self, result: BatchResult, position: Position, expected: int | None) -> bool:
        """Commit the results of a micro-batch together with the position after it, or nothing.

        `expected` is the number of the last committed micro-batch; None if there is none. Returns False if there was nothing to
        commit, which leaves the sink's position unchanged.

        Raises:
            FencedError: Another driver has taken the job over.
        """

    def close(self, grace_s: float) -> None:  # noqa: ARG002
        """Stop background work, waiting at most `grace_s` for it."""
        return


class DeltaSink(Sink):
    """Writes results to the stream's target table, in one Delta commit per micro-batch."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan
        self.target = TargetTable(context, plan)

    def fence(self) -> None:
        self.target = TargetTable(self.context, self.plan)
        if self.context.epoch > 0:
            self.context.tables.writer.fence(self.plan.target, self.plan.id, self.context.epoch)

    def position(self) -> Position | None:
        return self.context.tables.committed_position(self.plan.target, self.plan.id, self.plan.source_ids)

    def commit(self, result: BatchResult, position: Position, expected: int | None) -> bool:
        """See `Sink`. A micro-batch without rows for the target does not touch it."""
        with self.target.groups.committing():
            return self._commit_result(result, position, expected)

    def _commit_result(self, result: BatchResult, position: Position, expected: int | None) -> bool:
        if result.staged is not None:
            return self._commit_staged(result, result.staged, position, expected)
        upserts = self.target.to_rows(result.upserts) if result.upserts.num_rows else None
        deletes = self.target.to_keys(result.retractions) if result.retractions.num_rows else None
        if not any(rows is not None and rows.num_rows for rows in (upserts, deletes)):
            return False
        if self.plan.target.key is not None:
            deletes = superseded_keys(self.context, self.plan, upserts, deletes)
        commit = self._commit(position, expected)
        is_update = 2 * result.rewritten >= result.upserts.num_rows > 0
        self.context.tables.writer.replace(
            self.target.table, self.plan.target_database, upserts, deletes, commit, is_update=is_update
        )
        return True

    def _commit(self, position: Position, expected: int | None) -> Commit:
        return Commit.of_stream(self.plan.id, position.batch, expected, self.context.epoch, position.offsets)

    def _commit_staged(self, result: BatchResult, staged: StagedWindows, position: Position, expected: int | None) -> bool:
        """Commit results that are staged; executors write them too."""
        all_ = staged.plus(*(stage_windows(staged.uri, rows) for rows in (result.upserts, result.retractions)))
        context, target = self.context, self.target
        upserts = target_rows(context, target, staged_frame(context.spark(), all_.uri, all_.files)) if all_.files else None
        deletes = target_keys(context, target, staged_frame(context.spark(), all_.uri, all_.retracted)) if all_.retracted else None
        has_rows = upserts is not None or deletes is not None
        if has_rows:
            commit = self._commit(position, expected)
            self.context.tables.frames.replace(self.target.table, self.plan.target_database, upserts, deletes, commit)
        discard_staged(staged)
        return has_rows


def superseded_keys(context: Context, plan: StreamPlan, upserts: pa.Table | None, deletes: pa.Table | None) -> pa.Table | None:
    """Return the keys to delete from a target with a composite key: all at the instants that are written or retracted."""
    target = plan.target
    instant_key = [target.series_key, target.timestamp.name]
    changed = [rows.select(instant_key) for rows in (upserts, deletes) if rows is not None and rows.num_rows]
    if not changed:
        return None
    touched_keys = pa.concat_tables(changed)
    times = touched_keys[target.timestamp.name].cast(pa.int64())
    stored = context.tables.scan(
        target,
        columns=list(target.primary_key),
        tbnames=pc.unique(touched_keys[target.series_key]).to_pylist(),
        bounds=Bounds(pc.min(times).as_py(), pc.max(times).as_py()),
    )
    stored_ids, touched_ids = row_ids([stored, touched_keys], instant_key)
    same_instant = stored.filter(pa.array(np.isin(stored_ids, touched_ids)))
    return same_instant if upserts is None else anti_join(same_instant, upserts, list(target.primary_key))
