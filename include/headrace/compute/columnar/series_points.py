"""Rows of series as arrays, points that functions over series return, and how these become columns of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.functions.arrow import TIME
from headrace.compute.functions.series_streams import SERIES, VALUE, SeriesStream

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of some devices: the number of each row's device, and columns by name."""

    devices: Array
    columns: Mapping[str, pa.Array]

    def filter(self, keep: Array) -> Rows:
        """Return the rows for which a mask is true."""
        return Rows(self.devices[keep], {name: values.filter(pa.array(keep)) for name, values in self.columns.items()})


def concat_rows(parts: Sequence[Rows]) -> Rows:
    """Return several batches of rows as one."""
    columns = {name: pa.concat_arrays([part.columns[name] for part in parts]) for name in parts[0].columns}
    return Rows(np.concatenate([part.devices for part in parts]), columns)


def to_integers(times: pa.ChunkedArray) -> Array:
    """Return stored timestamps as integers of their unit."""
    integers: Array = pc.cast(times, pa.int64()).to_numpy(zero_copy_only=False)
    return integers


@dataclass(frozen=True, slots=True)
class Points:
    """The points of a call over all devices."""

    devices: Array
    ticks: Array
    values: pa.Array

    def select(self, keep: Array) -> Points:
        """Return the points for which a mask is true."""
        if keep.all():
            return self
        return Points(self.devices[keep], self.ticks[keep], self.values.filter(pa.array(keep)))


def process_part(stream: SeriesStream, devices: Array, ticks: Array, inputs: Sequence[pa.Array], *, more: bool) -> Points:
    """Return the points that a call adds for rows in order of device and time. Rows in which all inputs are NULL are no points."""
    columns = {f"x{number}": values for number, values in enumerate(inputs)}
    rows = pa.table({SERIES: pa.array(devices), TIME: pa.array(ticks), **columns})
    if inputs and all(values.null_count for values in inputs):
        rows = rows.filter(reduce(pc.or_, (pc.is_valid(values) for values in inputs)))
    points = stream.process(rows, more=more)
    return Points(to_integers(points[SERIES]), to_integers(points[TIME]), points[VALUE].combine_chunks())


def concat_points(parts: Sequence[Points]) -> Points:
    """Return several points as one; there is at least one part."""
    devices, ticks = np.concatenate([part.devices for part in parts]), np.concatenate([part.ticks for part in parts])
    return Points(devices, ticks, pa.concat_arrays([part.values for part in parts]))


def first_of_each_time(points: Points) -> Points:
    """Return points without those that have a device and a time of an earlier one, in any order."""
    if is_in_order(points):
        return points
    order = np.lexsort((points.ticks, points.devices))
    devices, ticks = points.devices[order], points.ticks[order]
    repeated = (devices[1:] == devices[:-1]) & (ticks[1:] == ticks[:-1])
    keep = np.ones(len(order), np.bool_)
    keep[order[1:][repeated]] = False
    return points.select(keep)


def is_in_order(points: Points) -> bool:
    """Return whether each point comes after the one before, by device and time."""
    later = points.ticks[1:] > points.ticks[:-1]
    return bool(((points.devices[1:] > points.devices[:-1]) | ((points.devices[1:] == points.devices[:-1]) & later)).all())


def join(rows: Rows, ticks: Array, calls: Mapping[str, Points]) -> tuple[Rows, Array]:
    """Join the points of calls to rows on device and time; both must be unique in each. Returns the rows and their times."""
    if all(has_instants_of(points, rows, ticks) for points in calls.values()):
        return Rows(rows.devices, {**rows.columns, **{name: points.values for name, points in calls.items()}}), ticks
    devices = np.concatenate([rows.devices, *(points.devices for points in calls.values())])
    instants = np.concatenate([ticks, *(points.ticks for points in calls.values())])
    order = np.lexsort((instants, devices))
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (np.diff(devices[order]) != 0) | (np.diff(instants[order]) != 0)
    positions = np.empty(len(order), np.int64)
    positions[order] = np.cumsum(is_new) - 1
    chosen = order[is_new]
    columns = {name: place(values, positions[: len(ticks)], len(chosen)) for name, values in rows.columns.items()}
    start = len(ticks)
    for name, points in calls.items():
        columns[name] = place(points.values, positions[start : start + len(points.ticks)], len(chosen))
        start += len(points.ticks)
    return Rows(devices[chosen], columns), instants[chosen]


def has_instants_of(points: Points, rows: Rows, ticks: Array) -> bool:
    """Return whether a call has exactly one point for each row, in the order of the rows."""
    return np.array_equal(points.ticks, ticks) and np.array_equal(points.devices, rows.devices)


def place(values: pa.Array, positions: Array, length: int) -> pa.Array:
    """Return values at some positions of a longer column, NULL elsewhere."""
    indices = np.full(length, -1, np.int64)
    indices[positions] = np.arange(len(positions))
    return values.take(pa.array(indices, mask=indices < 0))
