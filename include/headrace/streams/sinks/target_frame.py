"""Conversion of results that stay with Spark to rows of a stream's target table."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.nodes import quote
from headrace.compute.plan import WSTART
from headrace.compute.windows.fill import IS_FILLED
from headrace.context import Context
from headrace.model.types import TypeKind
from headrace.storage.spark.functions import F
from headrace.storage.types import MICROSECONDS
from headrace.streams.definition.define import StreamPlan
from headrace.streams.definition.groups import TagSource
from headrace.streams.filling.marks import MARK, window_mark
from headrace.streams.sinks.target import TargetTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUBTABLE: Final = "_target"


def target_rows(context: Context, target: TargetTable, windows: DataFrame) -> DataFrame:
    """Convert finished windows to rows of the target. Groups without a subtable are left out."""
    plan = target.plan
    schema = target.schema
    columns = [f"{SUBTABLE} AS {plan.target.series_key}"]
    for index, name in enumerate(plan.columns):
        column = plan.target.column(name)
        kind = None if column is None else column.type.kind
        source = plan.query.outputs[index].type.kind
        value = (
            timestamp_sql(f"o{index}", windows, schema.field(name).type) if kind is source is TypeKind.TIMESTAMP else f"o{index}"
        )
        columns.append(f"{value} AS {quote(name)}")
    columns += [tag_sql(tag, plan, schema.field(tag.name).type) for tag in plan.groups.tags if tag.name in schema.names]
    if plan.fills_gaps:
        mark = window_mark(plan)
        columns.append(f"if({IS_FILLED}, {-mark}L, {mark}L) AS {quote(MARK.name)}")
    return with_subtables(context, target, windows).selectExpr(*columns)


def tag_sql(tag: TagSource, plan: StreamPlan, type_: pa.DataType) -> str:
    """Return the SQL of a tag for windows, by their groups."""
    value = tag.column or "NULL"
    if tag.column is not None and tag.type.kind is TypeKind.TIMESTAMP:
        value = ticks_sql(tag.column, plan.query.precision.nanoseconds, type_)
    return f"{value} AS {quote(tag.name)}"


def target_keys(context: Context, target: TargetTable, windows: DataFrame) -> DataFrame:
    """Convert windows with the columns `p*` and `_wstart` to the keys of their rows. Groups without a subtable are left out."""
    plan = target.plan
    time = plan.target.timestamp.name
    type_ = context.tables.schema(plan.target, plan.target_database).field(time).type
    value = ticks_sql(WSTART, plan.query.precision.nanoseconds, type_)
    keys = f"{SUBTABLE} AS {plan.target.series_key}", f"{value} AS {quote(time)}"
    return with_subtables(context, target, windows).selectExpr(*keys)


def ticks_sql(column: str, nanoseconds: int, type_: pa.DataType) -> str:
    """Return the SQL that converts ticks, each of this number of nanoseconds, to the target's type."""
    if type_ != MICROSECONDS:
        return f"{column} * {nanoseconds}L"
    if nanoseconds >= 1000:
        return f"timestamp_micros({column} * {nanoseconds // 1000}L)"
    return f"timestamp_micros(({column} - pmod({column}, 1000L)) div 1000L)"


def with_subtables(context: Context, target: TargetTable, windows: DataFrame) -> DataFrame:
    columns = list(target.plan.groups.columns)
    groups = windows.select(*columns).distinct().toArrow() if columns else pa.table({"_": [0]})
    names = target.groups.assign(groups)
    if not columns:
        return windows.withColumn(SUBTABLE, F.lit(names[0].as_py())).where(f"{SUBTABLE} IS NOT NULL")
    named_groups = groups.append_column(SUBTABLE, names).filter(pc.is_valid(names))
    mapping = F.broadcast(context.spark().createDataFrame(named_groups.rename_columns([*(f"_{c}" for c in columns), SUBTABLE])))
    is_same_group = reduce(lambda one, other: one & other, (windows[c].eqNullSafe(mapping[f"_{c}"]) for c in columns))
    return windows.join(mapping, is_same_group)


def timestamp_sql(column: str, windows: DataFrame, type_: pa.DataType) -> str:
    is_timestamp = windows.schema[column].dataType.typeName() == "timestamp"
    if is_timestamp == (type_ == MICROSECONDS):
        return column
    return f"unix_micros({column}) * 1000L" if is_timestamp else f"timestamp_micros(({column} - pmod({column}, 1000L)) div 1000L)"
