"""Where the columns of a result stand, and the stored columns of the series that INTO writes them to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from headrace.compute.iotdb.into import IntoColumn
from headrace.compute.iotdb.select import TIME_HEADER, TreePlan
from headrace.model.trees import Device, Timeseries

Layout = tuple[tuple[int, Timeseries], ...]
"""Columns of the result, and the series of a device that they are written to."""
Moves = Mapping[tuple[str, Layout], Mapping[str | None, str]]
"""The target device of each source device, by database and layout; without ALIGN BY DEVICE, of each target device itself."""


def has_time(plan: TreePlan) -> bool:
    """Return whether the result has a time; an aggregate over all rows has none, and IoTDB stores it at the epoch."""
    return plan.plan.outputs[0].name == TIME_HEADER


def value_column(plan: TreePlan, target: IntoColumn) -> int:
    """Return the index of a target's values in the result."""
    return int(has_time(plan)) + bool(plan.devices) + target.column


def device_column(plan: TreePlan) -> int | None:
    """Return the index of the devices in the result of ALIGN BY DEVICE, else None."""
    return int(has_time(plan)) if plan.devices else None


def find_moves(plan: TreePlan, targets: Sequence[IntoColumn], devices: Mapping[str, Device]) -> Moves:
    """Return which columns of the result go to which series. Targets that do not exist get no values."""
    layouts: dict[tuple[str | None, str], list[tuple[int, Timeseries]]] = defaultdict(list)
    for target in targets:
        device = devices.get(target.device)
        series = None if device is None else device.find(target.measurement)
        if series is not None:
            layouts[target.source_device, target.device].append((value_column(plan, target), series))
    moves: dict[tuple[str, Layout], dict[str | None, str]] = defaultdict(dict)
    for (source, path), layout in layouts.items():
        # Without ALIGN BY DEVICE each target device gets all rows, in columns of its own.
        moves[devices[path].database, tuple(layout)][path if source is None else source] = path
    return moves
