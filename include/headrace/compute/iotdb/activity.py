"""The times of the latest points of devices and series, which SHOW and COUNT choose and sort them by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.compute.evaluation.series_rows import series_rows
from headrace.compute.iotdb.expansion import DEVICE, TIME, expand
from headrace.compute.iotdb.last import time_condition
from headrace.compute.iotdb.rows import ColumnPart, RowsBuilder
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.iotdb.select import as_tuple, conjunction
from headrace.compute.nodes import Column, Node
from headrace.compute.plan_sources import Scan, SeriesRows
from headrace.compute.types import to_ticks
from headrace.model.expressions import Expression
from headrace.model.time import Precision
from headrace.model.trees import Device, SeriesRef
from headrace.model.types import BIGINT
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class ActivityPlan:
    """The latest points of devices, or of their stored columns if there are any: `s0`, `s1`, … of `rows`."""

    rows: SeriesRows
    columns: tuple[str, ...]
    filter: Node | None
    precision: Precision


def bind_activity(
    devices: Iterable[Device], series: Iterable[SeriesRef], where: Expression | None, scope: TreeScope
) -> ActivityPlan:
    """Bind the times of devices, at least one, and of their series; `where` compares time with constants."""
    rows = RowsBuilder(scope, aligned=False)
    rows.devices |= {device.path: device for device in devices}
    parts: dict[str, dict[ColumnPart, None]] = {}
    for ref in series:
        parts.setdefault(ref.series.column, {})[ColumnPart(ref.device.database, ref.series.column, presence=True)] = None
    for column, own in parts.items():
        rows.add(column, BIGINT, list(own))
    bound = rows.bind()
    assert isinstance(bound.source, SeriesRows)
    condition = conjunction([part for node in as_tuple(where) for part in expand(node, lambda reference: [reference])])
    return ActivityPlan(bound.source, tuple(parts), time_condition(condition, bound.names, scope), bound.names.precision)


def latest_times(plan: ActivityPlan, read: Callable[[Scan], DataFrame]) -> DataFrame:
    """Return each device that has points, with the ticks of its latest one and of the latest one in each column."""
    rows = series_rows(plan.rows, read)
    filtered = rows.where(str(plan.filter)) if plan.filter else rows
    ticks = to_ticks(Column(TIME), plan.precision)
    latest = [F.expr(f"max(if(s{number} IS NOT NULL, {ticks}, NULL)) AS t{number}") for number in range(len(plan.columns))]
    return filtered.groupBy(DEVICE).agg(F.expr(f"max({ticks}) AS latest"), *latest)
