"""Aggregation of series that are aligned by time: by device first, then the windows of the devices are aligned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.compute.columnar.device_groups import KEY, DeviceGroups, group_by_device
from headrace.compute.evaluation.series_rows import series_rows
from headrace.compute.nodes import TIME, string_sql
from headrace.compute.plan import WEND, WSTART, Plan
from headrace.compute.plan_sources import Scan, SeriesRows
from headrace.compute.windows.ranges import RangeWindow, assign_windows, within_range
from headrace.compute.windows.segments import prepare, update_columns
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def aggregate_by_device(plan: Plan, source: SeriesRows, read: Callable[[Scan], DataFrame]) -> DataFrame | None:
    """Return the partials of all windows that have rows; None if some depend on several devices or on all rows."""
    by_device = group_by_device(plan.one_pass) if all(aggregate.bounded for aggregate in plan.groups.aggregates) else None
    if by_device is None:
        return None
    own = by_device.plan
    assert isinstance(own.source, SeriesRows)
    rows = series_rows(own.source, read)
    if isinstance(own.window, RangeWindow):
        rows = within_range(own, own.window, rows, TIME)
    prepared = prepare(own, rows)
    empty = prepared.where("false").agg(*update_columns(own))
    ends: Sequence[str] = ()
    if isinstance(own.window, RangeWindow):
        prepared, ends = assign_windows(own, own.window, prepared), (WSTART, WEND)
    windows = prepared.groupBy(KEY, *ends).agg(*update_columns(own))
    return align_windows(by_device, source, windows, empty, ends)


def align_windows(
    by_device: DeviceGroups, source: SeriesRows, windows: DataFrame, empty: DataFrame, ends: Sequence[str]
) -> DataFrame:
    """Return windows with the partials of all devices, given those of each device, and those of no rows."""
    values = [
        F.expr(f"any_value(if({KEY} = {string_sql(source.devices[rank])}, {name}, NULL), true)").alias(column)
        for column, (name, rank) in by_device.targets.items()
    ]
    absent = empty.withColumnsRenamed({name: f"_{name}" for name in empty.columns})
    aligned = windows.groupBy(*ends).agg(*values).crossJoin(F.broadcast(absent))
    return aligned.selectExpr(
        *ends, *(f"coalesce({column}, _{name}) AS {column}" for column, (name, _) in by_device.targets.items())
    )
