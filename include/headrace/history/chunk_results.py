"""Writing the result of a chunk to the target: as Arrow through this process, or, if it is large, by Spark's executors.

Both write the same rows in one commit under the same guard. The size decides which is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.nodes import quote
from headrace.compute.plan import WSTART
from headrace.compute.windows import key_columns
from headrace.context import Context
from headrace.storage import Bounds, Commit
from headrace.storage.spark.functions import F
from headrace.storage.types import MICROSECONDS
from headrace.streams.filling.filler import Filler
from headrace.streams.keep import kept_windows, oldest_kept
from headrace.streams.sinks.target import TargetTable
from headrace.streams.sinks.target_frame import target_rows

MAX_PARTS: Final = 32
LIVE_FROM: Final = "_live_from"

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ArrowChunkResult:
    """A result that passes through this process. `windows` are finished windows."""

    def __init__(self, context: Context, target: TargetTable, windows: pa.Table) -> None:
        self._context = context
        self._target = target
        self._windows = kept_windows(target.plan, windows, context.clock.now())
        self._rows = target.to_rows(self._windows)
        self._retractions: pa.Table | None = None

    def windows(self) -> Iterator[pa.Table]:
        """Yield the finished windows, in parts."""
        yield self._windows

    def retract(self, bounds: Bounds, scope: RetractionScope | None) -> None:
        """Retract what else the target has within bounds (in stored units), as far as `scope` has it; None for all."""
        plan, key = self._target.plan, list(self._target.plan.target.primary_key)
        present = self._context.tables.scan(plan.target, columns=key, bounds=bounds)
        retractions = present.join(self._rows.select(key), key, join_type="left anti") if self._rows.num_rows else present
        if retractions.num_rows and scope is not None:
            retractions = scope.restrict(retractions)
        self._retractions = retractions if retractions.num_rows else None

    def write(self, commit: Commit) -> None:
        """Commit the rows. Has no effect if the commit is recorded already.

        Raises:
            FencedError: The commit's guard does not hold.
        """
        plan = self._target.plan
        self._context.tables.writer.replace(self._target.table, plan.target_database, self._rows, self._retractions, commit)


class FilledChunkResult:
    """A result for a target with FILL, whose gaps are filled as a live stream does. `windows` are finished windows of the query."""

    def __init__(self, context: Context, target: TargetTable, windows: pa.Table) -> None:
        self._context = context
        self._target = target
        self._windows = windows
        self._retractions = windows.slice(0, 0)
        self._former: pa.Table | None = None
        self._filler = Filler(context, target.plan, target)

    def windows(self) -> Iterator[pa.Table]:
        yield self._windows

    def retract(self, bounds: Bounds, scope: RetractionScope | None) -> None:
        """Only a recomputation has such a result, so that its groups are known."""
        assert scope is not None
        self._retractions = self._filler.other_windows(self._windows, bounds, scope.groups())
        key = list(self._target.plan.target.primary_key)
        present = self._context.tables.scan(self._target.plan.target, columns=key, bounds=bounds)
        self._former = present.filter(pc.is_in(present[key[0]], scope.former_subtables(present[key[0]])))

    def write(self, commit: Commit) -> None:
        self._filler.commit(self._windows, self._retractions, commit, self._former)


class DataFrameChunkResult:
    """A result that stays with Spark. `windows` are finished windows, cached by Spark."""

    def __init__(self, context: Context, target: TargetTable, windows: DataFrame) -> None:
        self._context = context
        self._target = target
        self._windows = self._kept(windows)
        self._rows = target_rows(context, target, self._windows)
        self._retractions: DataFrame | None = None

    def windows(self) -> Iterator[pa.Table]:
        """A part has the windows of some groups, so that it is the same however Spark divides them."""
        keys = key_columns(self._target.plan.query)
        part = F.pmod(F.xxhash64(*keys), F.lit(MAX_PARTS))
        for number in range(MAX_PARTS if keys else 1):
            yield (self._windows.where(part == number) if keys else self._windows).toArrow()

    def retract(self, bounds: Bounds, scope: RetractionScope | None) -> None:
        plan, spark = self._target.plan, self._context.spark()
        key = [quote(name) for name in plan.target.primary_key]
        stored_time = self._context.tables.schema(plan.target, plan.target_database).field(plan.target.timestamp.name).type
        low, high = (timestamp_literal(value, stored_time) for value in (bounds.low, bounds.high))
        stored = self._context.tables.frame(spark, plan.target)
        present = stored.where(f"{key[1]} >= {low} AND {key[1]} <= {high}").select(*key)
        retractions = present.join(self._rows.select(*key), list(plan.target.primary_key), "left_anti")
        if retractions.limit(1).count():
            self._retractions = retractions if scope is None else self._within(retractions, scope)

    def _within(self, retractions: DataFrame, scope: RetractionScope) -> DataFrame:
        plan, spark = self._target.plan, self._context.spark()
        series, name = plan.target.series_key, quote(plan.target.timestamp.name)
        own = scope.own_subtables(retractions.select(quote(series)).distinct().toArrow()[series])
        retractions = retractions.join(spark.createDataFrame(pa.table({series: own})), series, "left_semi")
        live = scope.live_from()
        if live is None:
            return retractions
        joined = retractions.join(F.broadcast(spark.createDataFrame(live)), series, "left")
        return joined.where(f"{LIVE_FROM} IS NULL OR {name} < {LIVE_FROM}").drop(LIVE_FROM)

    def write(self, commit: Commit) -> None:
        plan = self._target.plan
        self._context.tables.frames.replace(self._target.table, plan.target_database, self._rows, self._retractions, commit)

    def _kept(self, windows: DataFrame) -> DataFrame:
        """Leave out windows that the target's database does not keep."""
        oldest = oldest_kept(self._target.plan, self._context.clock.now())
        if oldest is None:
            return windows
        is_timestamp = windows.schema["o0"].dataType.typeName() == "timestamp"
        return windows.where(f"o0 >= {f'timestamp_micros({oldest}L)' if is_timestamp else f'{oldest}L'}")


@dataclass(frozen=True)
class RetractionScope:
    """What a chunk may retract from a target that may have rows of others.

    Attributes:
        target: The target.
        groups: Returns the keys of the query's groups whose windows the chunk has.
        all_groups: Returns the keys of all groups of the query, if the chunk retracts those that have no rows any more; else None.
        live: Returns the first window of each group that is left to the live stream; None if bounds say what is.
    """

    target: TargetTable
    groups: Callable[[], pa.Table]
    all_groups: Callable[[], pa.Table] | None
    live: Callable[[], pa.Table] | None = None

    def restrict(self, rows: pa.Table) -> pa.Table:
        """Return the keys of rows of the target that may be retracted."""
        series, time = self.target.plan.target.primary_key[:2]
        own = rows.filter(pc.is_in(rows[series], self.own_subtables(rows[series])))
        live = self.live_from()
        if live is None or own.num_rows == 0:
            return own
        live_from = live[LIVE_FROM].take(pc.index_in(own[series], live[series]))
        return own.filter(pc.less(own[time], live_from).fill_null(True))

    def own_subtables(self, names: pa.ChunkedArray) -> pa.Array:
        """Return those of these subtables that belong to groups, now or before their rows got other keys."""
        distinct = pc.unique(names)
        own = distinct.filter(pc.is_in(distinct, find_subtables(self.target, self.groups())))
        return own if len(own) == len(distinct) else pa.concat_arrays([own, self.former_subtables(distinct)])

    def former_subtables(self, names: pa.Array) -> pa.Array:
        """Return those of these subtables that belonged to groups that no row has any more."""
        distinct = pc.unique(names)
        if self.all_groups is None:
            return distinct.slice(0, 0)
        is_former = pc.invert(pc.is_in(distinct, find_subtables(self.target, self.all_groups())))
        return distinct.filter(pc.and_(is_former, self.target.plan.groups.is_generated(distinct)))

    def live_from(self) -> pa.Table | None:
        """Return the subtables with windows that are left to the live stream, and the start of the first."""
        if self.live is None:
            return None
        windows, plan = self.live(), self.target.plan
        times = self.target.to_timestamps(pa.chunked_array([windows[WSTART].combine_chunks()]))
        rows = pa.table({plan.target.series_key: self.target.groups.assign(windows), LIVE_FROM: times})
        first = rows.group_by(plan.target.series_key).aggregate([(LIVE_FROM, "min")])
        return first.select([plan.target.series_key, f"{LIVE_FROM}_min"]).rename_columns([plan.target.series_key, LIVE_FROM])


ChunkResult = ArrowChunkResult | FilledChunkResult | DataFrameChunkResult
"""The rows of a chunk for a stream's target, with the methods of `ArrowChunkResult`."""


def find_subtables(target: TargetTable, groups: pa.Table) -> pa.Array:
    """Return the subtables of the target that belong to groups of the query."""
    return pc.unique(target.groups.assign(groups)).drop_null()


def timestamp_literal(stored: int, type_: pa.DataType) -> str:
    """Return a stored timestamp as a SQL literal of its column's type."""
    return f"timestamp_micros({stored}L)" if type_ == MICROSECONDS else f"{stored}L"
