"""Sinks: what commits the results of a job's micro-batches, and knows which it has committed."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.positions import Position
from headrace.storage import Bounds, Commit
from headrace.streams.batches import BatchResult
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sinks.target import TargetTable
from headrace.streams.windows.row_matching import identities, without


class Sink(Protocol):
    """Takes the results of one job's micro-batches, each exactly once and in order."""

    def fence(self) -> None:
        """Make commits of drivers with an older epoch fail from now on, and forget what is cached.

        Raises:
            FencedError: a newer epoch is recorded.
        """

    def position(self) -> Position | None:
        """Return the position of the last micro-batch that has been committed; None if there is none."""

    def has_room(self) -> bool:
        """Return False if the job has to wait before its next micro-batch."""

    def commit(self, result: BatchResult, position: Position, expected: int | None) -> bool:
        """Commit the results of a micro-batch together with its position, or nothing.

        Args:
            result: What to write and to retract.
            position: The position after the micro-batch.
            expected: The number of the last committed micro-batch; None if there is none.

        Returns:
            False if there was nothing to commit, so that the sink's position is as before.

        Raises:
            FencedError: another driver has taken the job over.
        """

    def close(self, grace_s: float) -> None:
        """End what works in the background, waiting for it no longer than the grace."""


class DeltaSink:
    """Writes results to the stream's target table, in one Delta commit per micro-batch."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan
        self.target = TargetTable(context, plan)

    def fence(self) -> None:
        """See `Sink`."""
        self.target = TargetTable(self.context, self.plan)
        if self.context.epoch > 0:
            self.context.tables.fence(self.plan.target, self.plan.id, self.context.epoch)

    def position(self) -> Position | None:
        """See `Sink`."""
        return self.context.tables.committed_position(self.plan.target, self.plan.id, [self.plan.source_id])

    def has_room(self) -> bool:
        """See `Sink`: a table takes whatever comes."""
        return True

    def close(self, grace_s: float) -> None:
        """See `Sink`: nothing works in the background."""

    def commit(self, result: BatchResult, position: Position, expected: int | None) -> bool:
        """See `Sink`. A micro-batch without rows for the target does not touch it."""
        upserts = self.target.rows(result.upserts) if result.upserts.num_rows else None
        deletes = self.target.keys(result.retractions) if result.retractions.num_rows else None
        if not any(part is not None and part.num_rows for part in (upserts, deletes)):
            return False
        if self.plan.target.key is not None:
            deletes = self.superseded(upserts, deletes)
        commit = Commit.of_stream(self.plan.id, position.batch, expected, self.context.epoch, position.offsets)
        self.context.tables.replace(self.plan.target, self.plan.target_database, upserts, deletes, commit)
        return True

    def superseded(self, upserts: pa.Table | None, deletes: pa.Table | None) -> pa.Table | None:
        """Return the keys to delete from a target with a composite key: all at the instants that are written or retracted."""
        target = self.plan.target
        instant = [target.series_key, target.timestamp.name]
        touched = [part.select(instant) for part in (upserts, deletes) if part is not None and part.num_rows]
        if not touched:
            return None
        touching = pa.concat_tables(touched)
        times = touching[target.timestamp.name].cast(pa.int64())
        stored = self.context.tables.scan(
            target,
            self.plan.target_database,
            columns=list(target.primary_key),
            tbnames=pc.unique(touching[target.series_key]).to_pylist(),
            bounds=Bounds(pc.min(times).as_py(), pc.max(times).as_py()),
        )
        mine, theirs = identities([stored, touching], instant)
        same_instant = stored.filter(pa.array(np.isin(mine, theirs)))
        return same_instant if upserts is None else without(same_instant, upserts, list(target.primary_key))
