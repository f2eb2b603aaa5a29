"""Which devices and series have points, and when the latest was."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.context import Context
from headrace.model.expressions import Expression
from headrace.model.trees import Device, SeriesRef, Timeseries
from headrace.trees.scope import scope_of

SeriesPair = tuple[Device, Timeseries]
SeriesKey = tuple[str, str]
"""The path of a device and the stored column of a series."""


def pair_key(device: Device, series: Timeseries) -> SeriesKey:
    return device.path, series.column


def active_devices(devices: Sequence[Device], where: Expression, context: Context) -> set[str]:
    """Return the paths of those devices that have points at times that meet a condition."""
    return set(read_times(devices, (), where, context).column(0).to_pylist()) if devices else set()


def latest_times(pairs: Sequence[SeriesPair], where: Expression | None, context: Context) -> dict[SeriesKey, int]:
    """Return the ticks of the latest point of each series, of those points whose time meets a condition."""
    if not pairs:
        return {}
    devices = {device.path: device for device, _ in pairs}
    table = read_times(list(devices.values()), pairs, where, context)
    columns = list(dict.fromkeys(series.column for _, series in pairs))
    paths = table.column(0).to_pylist()
    return {
        (path, column): ticks
        for column, values in zip(columns, table.columns[2:], strict=True)
        for path, ticks in zip(paths, values.to_pylist(), strict=True)
        if ticks is not None
    }


def read_times(devices: Sequence[Device], pairs: Sequence[SeriesPair], where: Expression | None, context: Context) -> pa.Table:
    """Return the path of each device that has points, the ticks of its latest point, and those of each column of some series."""
    from headrace.compute.iotdb import activity
    from headrace.queries.evaluation import read_scan, translated

    plan = activity.bind_activity(devices, [SeriesRef(*pair) for pair in pairs], where, scope_of(devices, context))
    context.spark()
    with translated():
        return activity.latest_times(plan, lambda scan: read_scan(scan, context)).toArrow()
