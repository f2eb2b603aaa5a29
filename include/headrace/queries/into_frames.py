"""INTO for results that are too large for the driver: executors keep the result on disk, and make the rows to write of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.compute.iotdb.into import IntoColumn
from headrace.compute.iotdb.select import TreePlan
from headrace.model.time import Precision
from headrace.model.trees import TIME_COLUMN, Device, Timeseries
from headrace.queries.into_layout import Layout, device_column, find_moves, has_time, value_column
from headrace.storage.delta.spark_writes import quote_identifier
from headrace.storage.spark.functions import F
from headrace.storage.types import arrow_type
from headrace.trees.points import DEVICE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TARGET: Final = "_target"
ROWS: Final = "_rows"
RANGE: Final = "_range"


def result_column(index: int) -> str:
    """Return the name of a column of the stored result. The names of the select list need not be unique."""
    return f"c{index}"


def count_values(plan: TreePlan, targets: Sequence[IntoColumn], frame: DataFrame) -> tuple[tuple[int | None, ...], int]:
    """Return how many values each target gets, None if its source has no rows; and how many rows the result has."""
    key = device_column(plan)
    names = sorted({result_column(value_column(plan, target)) for target in targets})
    grouped = frame.groupBy(*([] if key is None else [result_column(key)]))
    counted = grouped.agg(F.count(F.lit(1)).alias(ROWS), *(F.count(name).alias(name) for name in names)).collect()
    rows = {None if key is None else row[result_column(key)]: row for row in counted if row[ROWS]}
    values = tuple(
        int(rows[target.source_device][result_column(value_column(plan, target))]) if target.source_device in rows else None
        for target in targets
    )
    return values, sum(int(row[ROWS]) for row in counted)


def frames_by_database(
    plan: TreePlan, targets: Sequence[IntoColumn], frame: DataFrame, devices: Mapping[str, Device]
) -> dict[str, DataFrame]:
    """Return the rows to write, one for each key, under the names of the stored columns; those without values are left out."""
    parts: dict[str, list[DataFrame]] = defaultdict(list)
    by_columns: dict[tuple[str, tuple[str, ...]], list[tuple[str, Layout]]] = defaultdict(list)
    for (name, layout), paths in find_moves(plan, targets, devices).items():
        if plan.devices:
            parts[name].append(move_by_device(plan, frame, layout, paths))
            continue
        ordered = tuple(sorted(layout, key=lambda pair: pair[1].column))
        by_columns[name, tuple(series.column for _, series in ordered)] += [(path, ordered) for path in paths.values()]
    for (name, _), layouts in by_columns.items():
        parts[name].append(move_by_time(plan, frame, layouts))
    return {name: merge_keys(own) if plan.devices else union(own) for name, own in parts.items()}


def move_by_device(plan: TreePlan, frame: DataFrame, layout: Layout, paths: Mapping[str | None, str]) -> DataFrame:
    """Return the rows of source devices as those of the target devices."""
    key = result_column(device_column(plan) or 0)
    pairs = pa.table({key: pa.array(list(paths), pa.string()), DEVICE: pa.array(list(paths.values()), pa.string())})
    targets = F.broadcast(frame.sparkSession.createDataFrame(pairs))
    values = [stored_value(index, series, plan.plan.precision) for index, series in layout]
    return with_values(frame.join(targets, key).select(time_value(plan), DEVICE, *values), layout)


def move_by_time(plan: TreePlan, frame: DataFrame, layouts: Sequence[tuple[str, Layout]]) -> DataFrame:
    """Return a row for each target device and row; the devices have the same stored columns."""
    precision, (_, first) = plan.plan.precision, layouts[0]
    rows = [
        F.struct(F.lit(path).alias(DEVICE), *(stored_value(index, series, precision) for index, series in layout))
        for path, layout in layouts
    ]
    exploded = frame.select(time_value(plan), F.explode(F.array(*rows)).alias(TARGET))
    names = [DEVICE, *(series.column for _, series in first)]
    fields = [F.col(TARGET).getField(name).alias(name) for name in names]
    return with_values(exploded.select(TIME_COLUMN, *fields), first)


def time_value(plan: TreePlan) -> Column:
    return (F.col(result_column(0)) if has_time(plan) else F.timestamp_micros(F.lit(0))).alias(TIME_COLUMN)


def stored_value(index: int, series: Timeseries, precision: Precision) -> Column:
    from pyspark.sql.pandas.types import from_arrow_type

    return F.col(result_column(index)).cast(from_arrow_type(arrow_type(series.type, precision))).alias(series.column)


def with_values(rows: DataFrame, layout: Layout) -> DataFrame:
    """Return the rows that have a value."""
    return rows.where(
        reduce(lambda left, right: left | right, (F.col(quote_identifier(own.column)).isNotNull() for _, own in layout))
    )


def union(parts: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all parts, NULL in columns that a part lacks."""
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)


def merge_keys(parts: Sequence[DataFrame]) -> DataFrame:
    """Return one row for each key: several source devices may have targets in one device, but each in columns of its own."""
    rows = union(parts)
    if len(parts) == 1:
        return rows
    values = [name for name in rows.columns if name not in (TIME_COLUMN, DEVICE)]
    return rows.groupBy(TIME_COLUMN, DEVICE).agg(
        *(F.first(quote_identifier(name), ignorenulls=True).alias(name) for name in values)
    )


def count_by_range(frame: DataFrame, starts: Sequence[int]) -> dict[int, int]:
    values = [F.col(quote_identifier(name)) for name in frame.columns if name not in (TIME_COLUMN, DEVICE)]
    number = reduce(lambda left, right: left + right, (value.isNotNull().cast("bigint") for value in values))
    length = starts[1] - starts[0]
    range_ = F.floor((F.unix_millis(TIME_COLUMN) - F.lit(starts[0])) / F.lit(length))
    counted = frame.groupBy(range_.alias(RANGE)).agg(F.sum(number).alias(ROWS)).collect()
    return {int(row[RANGE]): int(row[ROWS]) for row in counted}
