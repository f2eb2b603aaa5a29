"""The result of a chunk on its way to the target: through this process as Arrow, or where it is large through Spark's executors.

Both write the same rows in one commit under the same guard; the size decides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.terms import quote
from headrace.model.types import TypeKind
from headrace.storage import Bounds, Commit
from headrace.storage.spark.functions import F
from headrace.storage.types import MICROSECONDS
from headrace.streams.context import Context
from headrace.streams.sinks.target import TargetTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME: Final = "_target"


class ChunkResult(Protocol):
    """Rows for a stream's target."""

    def retract(self, bounds: Bounds, groups: Callable[[], pa.Table]) -> None:
        """Withdraw what the target has within bounds (as stored) beside these rows, of subtables of the query's `groups`."""

    def write(self, commit: Commit) -> None:
        """One commit; nothing happens where it is recorded already.

        Raises:
            FencedError: its guard does not hold.
        """


class ArrowChunkResult:
    """A result that passes through this process. `windows` are finished windows."""

    def __init__(self, context: Context, target: TargetTable, windows: pa.Table) -> None:
        self._context = context
        self._target = target
        self._rows = target.rows(windows)
        self._gone: pa.Table | None = None

    def retract(self, bounds: Bounds, groups: Callable[[], pa.Table]) -> None:
        plan, key = self._target.plan, list(self._target.plan.target.primary_key)
        present = self._context.tables.scan(plan.target, plan.target_database, columns=key, bounds=bounds)
        gone = present.join(self._rows.select(key), key, join_type="left anti") if self._rows.num_rows else present
        if gone.num_rows:
            self._gone = gone.filter(pc.is_in(gone[plan.target.series_key], own_subtables(self._target, groups())))

    def write(self, commit: Commit) -> None:
        plan = self._target.plan
        self._context.tables.replace(plan.target, plan.target_database, self._rows, self._gone, commit)


class DataFrameChunkResult:
    """A result that stays with Spark. `windows` are finished windows, kept by Spark."""

    def __init__(self, context: Context, target: TargetTable, windows: DataFrame) -> None:
        self._context = context
        self._target = target
        self._rows = self._physical(windows)
        self._gone: DataFrame | None = None

    def retract(self, bounds: Bounds, groups: Callable[[], pa.Table]) -> None:
        plan, spark = self._target.plan, self._context.spark()
        key = [quote(name) for name in plan.target.primary_key]
        low, high = (instant(value, self._stored_time) for value in (bounds.low, bounds.high))
        stored = self._context.tables.frame(spark, plan.target)
        present = stored.where(f"{key[1]} >= {low} AND {key[1]} <= {high}").select(*key)
        gone = present.join(self._rows.select(*key), list(plan.target.primary_key), "left_anti")
        if gone.limit(1).count():
            series = plan.target.series_key
            own = spark.createDataFrame(pa.table({series: own_subtables(self._target, groups())}))
            self._gone = gone.join(own, series, "left_semi")

    def write(self, commit: Commit) -> None:
        plan, spark = self._target.plan, self._context.spark()
        self._context.tables.replace_frame(spark, plan.target, plan.target_database, self._rows, self._gone, commit)

    @property
    def _stored_time(self) -> pa.DataType:
        plan = self._target.plan
        schema = self._context.tables.schema(plan.target, plan.target_database)
        return schema.field(plan.target.timestamp.name).type

    def _physical(self, windows: DataFrame) -> DataFrame:
        """Finished windows as rows of the target; groups that can have no subtable are left out."""
        plan = self._target.plan
        schema = self._context.tables.schema(plan.target, plan.target_database)
        columns = [f"{NAME} AS {plan.target.series_key}"]
        for place, name in enumerate(plan.columns):
            column = plan.target.column(name)
            kind = None if column is None else column.type.kind
            source = plan.query.outputs[place].type.kind
            value = (
                as_instant(f"o{place}", windows, schema.field(name).type) if kind is source is TypeKind.TIMESTAMP else f"o{place}"
            )
            columns.append(f"{value} AS {quote(name)}")
        return self._named(windows).selectExpr(*columns)

    def _named(self, windows: DataFrame) -> DataFrame:
        """Windows with the subtable of their group."""
        columns = list(self._target.plan.groups.columns)
        groups = windows.select(*columns).distinct().toArrow() if columns else pa.table({"_": [0]})
        names = self._target.subtables(groups)
        if not columns:
            return windows.withColumn(NAME, F.lit(names[0].as_py())).where(f"{NAME} IS NOT NULL")
        known = groups.append_column(NAME, names).filter(pc.is_valid(names))
        mapping = F.broadcast(self._context.spark().createDataFrame(known.rename_columns([*(f"_{c}" for c in columns), NAME])))
        same = reduce(lambda one, other: one & other, (windows[c].eqNullSafe(mapping[f"_{c}"]) for c in columns))
        return windows.join(mapping, same)


def own_subtables(target: TargetTable, groups: pa.Table) -> pa.Array:
    """Subtables of the target that belong to groups of the query."""
    return pc.unique(target.subtables(groups)).drop_null()


def instant(stored: int, type_: pa.DataType) -> str:
    """A stored timestamp as a literal of its column's type."""
    return f"timestamp_micros({stored}L)" if type_ == MICROSECONDS else f"{stored}L"


def as_instant(column: str, windows: DataFrame, wanted: pa.DataType) -> str:
    """A stored instant of the source's precision in the form of the target's: a timestamp, or nanoseconds."""
    is_timestamp = windows.schema[column].dataType.typeName() == "timestamp"
    if is_timestamp == (wanted == MICROSECONDS):
        return column
    return f"unix_micros({column}) * 1000L" if is_timestamp else f"timestamp_micros(({column} - pmod({column}, 1000L)) div 1000L)"
