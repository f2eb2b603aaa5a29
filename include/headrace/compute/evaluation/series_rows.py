"""Rows of series of trees, aligned by time or kept by device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from headrace.compute.nodes import Column, Node
from headrace.compute.plan import WEND, WSTART, Plan
from headrace.compute.plan_sources import SLOT, Regrouping, RowGroup, Scan, SeriesRows
from headrace.compute.windows.segments import key_columns, merge_columns, update_columns
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUP: Final = "_group"
COLUMNS: Final = "_columns"
RANK: Final = "_rank"


def series_rows(source: SeriesRows, read: Callable[[Scan], DataFrame]) -> DataFrame:
    """Return `time`, `device` unless rows are aligned, and the columns of the source; rows without any value are left out."""
    projections = source.projections or ((),) * len(source.scans)
    sides = [tree_rows(source, *own, read) for own in zip(source.scans, source.columns, projections, strict=True)]
    rows = reduce(lambda left, right: left.union(right), sides)
    names = [name for _, name in source.columns[0]]
    if source.aligned and len(source.devices) > 1:
        rows = rows.groupBy("time").agg(*(F.expr(f"any_value({name}, true) AS {name}") for name in names))
    elif source.aligned:
        rows = rows.drop("device")
    return with_values(rows, names)


def with_values(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Keep the rows with a value in one of some columns."""
    return rows.where(" OR ".join(f"{name} IS NOT NULL" for name in names)) if names else rows


def regrouped_rows(regrouping: Regrouping, rows: DataFrame) -> DataFrame:
    """Filter and copy rows, and return the columns of the copies; copies without any value are left out."""
    filtered = rows.where(str(regrouping.filter)) if regrouping.filter else rows
    numbers = ", ".join(map(str, range(regrouping.slots)))
    copies = filtered.selectExpr("*", f"explode(array({numbers})) AS {SLOT}")
    columns = [f"{sql} AS {name}" for sql, name in regrouping.columns]
    return with_values(copies.selectExpr(f"{regrouping.time} AS time", *columns), [name for _, name in regrouping.columns])


def tree_rows(
    source: SeriesRows,
    scan: Scan,
    columns: tuple[tuple[Node, str], ...],
    projection: tuple[tuple[Node, str], ...],
    read: Callable[[Scan], DataFrame],
) -> DataFrame:
    rows = read(scan)
    if scan.condition is not None:
        rows = rows.where(str(scan.condition))
    time, key = scan.table.timestamp.name, scan.table.series_key
    if projection:
        rows, time, key = rows.selectExpr(*(f"{node} AS {Column(name)}" for node, name in projection)), "time", "device"
    if source.slots > 1:
        numbers = ", ".join(map(str, range(source.slots)))
        rows = rows.selectExpr("*", f"explode(array({numbers})) AS {SLOT}")
    if source.groups:
        rows, key = with_groups(rows, key, source.groups), GROUP
    return rows.selectExpr(f"{time} AS time", f"{key} AS device", *(f"{node} AS {name}" for node, name in columns))


def with_groups(rows: DataFrame, key: str, groups: Sequence[RowGroup]) -> DataFrame:
    """Return a copy of each row for each group of its device, with `_group`, `_columns` and `_rank`."""
    listing = [(group.device, group.group, list(group.columns), group.rank) for group in groups]
    schema = f"_device STRING, {GROUP} STRING, {COLUMNS} ARRAY<STRING>, {RANK} BIGINT"
    frame = rows.sparkSession.createDataFrame(listing, schema)
    return rows.join(F.broadcast(frame), F.col(key) == F.col("_device"))


def add_empty_windows(
    plan: Plan, source: SeriesRows, partials: DataFrame, prepared: DataFrame, windows: DataFrame | None
) -> DataFrame:
    """Add the partials of no rows, in their types over `prepared` rows, for each device and window that has no row.

    `windows` are all windows; None if the query has none.
    """
    keys = key_columns(plan)
    empty = prepared.where("false").agg(*update_columns(plan))
    if keys:
        devices = partials.sparkSession.createDataFrame([(device,) for device in source.devices], f"{keys[0]} STRING")
        empty = devices.crossJoin(F.broadcast(empty))
    if windows is not None:
        empty = windows.crossJoin(F.broadcast(empty))
    combined = partials.unionByName(empty.select(*partials.columns))
    groups = [*keys, *(name for name in (WSTART, WEND) if name in partials.columns)]
    return combined.groupBy(*groups).agg(*merge_columns(plan))
