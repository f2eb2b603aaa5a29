"""Aggregation of series that are aligned by time: by device first, then the windows of the devices are aligned.

Aligning the rows themselves would make as many columns of them as there are series, nearly all of them NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.compute.columnar.cells import ignores_nulls
from headrace.compute.nodes import TIME, Column, Node, call, columns_of, quote, string_sql, substitute
from headrace.compute.plan import TS, WEND, WSTART, Plan
from headrace.compute.plan_sources import Scan, SeriesRows, StoredSeries
from headrace.compute.sql_text import at_present, to_sql
from headrace.compute.window_plans import RangeWindow
from headrace.compute.windows.ranges import assign_windows, within_range
from headrace.storage.spark.functions import F
from headrace.storage.types import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

DEVICE: Final = "device"


@dataclass(frozen=True, slots=True)
class DevicePartial:
    """A partial aggregate of one device: the column that holds it for every device, and its path."""

    column: str
    device: str


def aggregate_by_device(plan: Plan, source: SeriesRows, read: Callable[[Scan], DataFrame]) -> DataFrame | None:
    """Return the partials of all windows that have rows; None if some depend on several devices or on all rows."""
    if not source.aligned or len(source.devices) < 2 or len(source.scans) != 1 or not source.stored:
        return None
    if plan.groups.calls or not all(aggregate.bounded for aggregate in plan.groups.aggregates) or not filters_time_only(plan):
        return None
    updates: dict[Node, str] = {}
    targets: dict[str, DevicePartial] = {}
    for partial in plan.one_pass.partials:
        split = split_partial(plan, source, partial.update)
        if split is None:
            return None
        device, node = split
        targets[partial.column] = DevicePartial(updates.setdefault(node, f"y{len(updates)}"), device)
    return align_windows(plan, *aggregate_devices(plan, source, read, updates), targets)


def filters_time_only(plan: Plan) -> bool:
    """Return whether WHERE is a condition on time alone; one on values applies to the aligned rows of all devices."""
    return plan.filter is None or set(columns_of(at_present(plan, plan.filter))) == {TIME}


def split_partial(plan: Plan, source: SeriesRows, update: Node) -> tuple[str, Node] | None:
    series = {name: part for (_, name), part in zip(source.columns[0], source.stored[0], strict=True) if part is not None}
    arguments = {argument.column: at_present(plan, argument.node) for argument in plan.arguments}
    used = [arguments[name] for name in columns_of(update) if name in arguments]
    names = {name for node in used for name in columns_of(node) if name in series}
    devices = {series[name].device for name in names}
    if len(devices) != 1 or not all(is_null_without_values(plan, source, node, series) for node in used):
        return None
    stored = {name: Column(series[name].column) for name in names}
    columns = {name: substitute(node, stored) for name, node in arguments.items()}
    return devices.pop(), substitute(at_present(plan, update), columns)


def is_null_without_values(plan: Plan, source: SeriesRows, node: Node, series: Mapping[str, StoredSeries]) -> bool:
    """Return whether an argument is NULL in a row in which only other devices have values."""
    columns = {column.name: column.type for column in source.scans[0].table.columns}
    types: dict[str, pa.DataType] = {
        name: arrow_type(columns[series[name].column], plan.precision) for name in columns_of(node) if name in series
    }
    return ignores_nulls(call("count", node), types)


def aggregate_devices(
    plan: Plan, source: SeriesRows, read: Callable[[Scan], DataFrame], updates: Mapping[Node, str]
) -> tuple[DataFrame, DataFrame]:
    """Return the windows of each device with the partials `updates` over its stored columns, and the partials of no rows."""
    (scan,) = source.scans
    rows = read(scan)
    if scan.condition is not None:
        rows = rows.where(str(scan.condition))
    renamed = rows.withColumnsRenamed({scan.table.timestamp.name: TIME, scan.table.series_key: DEVICE})
    if plan.filter:
        renamed = renamed.where(to_sql(plan, plan.filter))
    if isinstance(plan.window, RangeWindow):
        renamed = within_range(plan, plan.window, renamed, TIME)
    stored = sorted({part.column for part in source.stored[0] if part is not None})
    prepared = renamed.selectExpr(DEVICE, f"{plan.identity.time} AS {TS}", *map(quote, stored))
    aggregates = [F.expr(str(node)).alias(column) for node, column in updates.items()]
    empty = prepared.where("false").agg(*aggregates).withColumnsRenamed({column: f"_{column}" for column in updates.values()})
    ends: Sequence[str] = ()
    if isinstance(plan.window, RangeWindow):
        prepared, ends = assign_windows(plan, plan.window, prepared), (WSTART, WEND)
    return prepared.groupBy(DEVICE, *ends).agg(*aggregates), empty


def align_windows(plan: Plan, windows: DataFrame, empty: DataFrame, targets: Mapping[str, DevicePartial]) -> DataFrame:
    ends = (WSTART, WEND) if plan.window is not None else ()
    values = [
        F.expr(f"any_value(if({DEVICE} = {string_sql(target.device)}, {target.column}, NULL), true)").alias(name)
        for name, target in targets.items()
    ]
    aligned = windows.groupBy(*ends).agg(*values).crossJoin(F.broadcast(empty))
    return aligned.selectExpr(*ends, *(f"coalesce({name}, _{target.column}) AS {name}" for name, target in targets.items()))
