"""What is kept of the points of a window: figures that take in further points, and from which the aggregates are computed.

Points are added to sums one after the other, also over batches, so a sum does not depend on how the points were cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.pipes.processors.grouping import Array, Flags, Integers
from headrace.pipes.processors.jumps import place_before
from headrace.pipes.processors.sampling import is_number
from headrace.pipes.processors.series import VALUE, as_numpy

SUMS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "sum": lambda numbers: numbers,
    "squares": lambda numbers: numbers**2,
    "magnitudes": lambda numbers: np.abs(numbers),
    "roots": lambda numbers: np.sqrt(np.abs(numbers)),
}
"""What is added to each sum."""
SHIFTED: Final = ("shift", "shifted1", "shifted2", "shifted3", "shifted4")
"""Sums of powers of the distances to the first value, so that they do not cancel out where values are large and close."""
EXTREMES: Final = ("min", "max")
ENDS: Final = ("first_time", "first", "last_time", "last")
TYPES: Final[Mapping[str, Any]] = {
    "count": np.int64,
    **dict.fromkeys((*SUMS, *SHIFTED), np.float64),
    **dict.fromkeys(EXTREMES, VALUE),
    "first_time": np.int64,
    "first": VALUE,
    "last_time": np.int64,
    "last": VALUE,
}
"""The type of each figure."""

Partials = dict[str, Array]


@dataclass(frozen=True, slots=True)
class GroupedPoints:
    """Points by the window of their series, in the order of their arrival.

    Attributes:
        starts: Where the points of each window start, and at last the number of points.
        times: The times.
        values: The values.
    """

    starts: Integers
    times: Integers
    values: pa.Array


def add_points(points: GroupedPoints, before: Partials, exist: Flags, needed: Collection[str]) -> Partials:
    """Return the partials of windows after some points were added.

    Args:
        points: The points of each window, at least one.
        before: The partials of the windows, with anything for windows that have none yet.
        exist: Which windows have partials.
        needed: The figures that are needed.
    """
    result: Partials = {"count": np.diff(points.starts) + np.where(exist, before["count"], 0)}
    if is_number(points.values.type):
        numbers = as_floats(points.values)
        with np.errstate(over="ignore", invalid="ignore"):
            add_sums(result, points.starts, numbers, before, exist, needed)
        add_extremes(result, points, before, exist, needed)
    if "first" in needed or "last" in needed:
        add_ends(result, points, before, exist)
    return {name: result.get(name, before[name]) for name in before}


def as_floats(values: pa.Array) -> Array:
    """Return numbers as floats."""
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def add_sums(result: Partials, starts: Integers, numbers: Array, before: Partials, exist: Flags, needed: Collection[str]) -> None:
    """Add numbers to the sums that are needed."""
    for name, term in SUMS.items():
        if name in needed:
            result[name] = add_in_order(starts, term(numbers), before[name], exist)
    if "shift" in needed:
        result["shift"] = np.where(exist, before["shift"], numbers[starts[:-1]])
        distances = numbers - np.repeat(result["shift"], np.diff(starts))
        for power in range(1, 5):
            name = f"shifted{power}"
            result[name] = add_in_order(starts, distances**power, before[name], exist)


def add_in_order(starts: Integers, terms: Array, before: Array, exist: Flags) -> Array:
    """Return the sum of each group, with the terms added one after the other to what was there before."""
    heads, places = place_before(starts, exist.astype(np.int64))
    arranged, groups = np.empty(heads[-1]), np.repeat(np.arange(len(exist)), np.diff(heads))
    arranged[places] = terms
    arranged[heads[:-1][exist]] = before[exist]
    return np.bincount(groups, weights=arranged, minlength=len(exist))


def add_extremes(result: Partials, points: GroupedPoints, before: Partials, exist: Flags, needed: Collection[str]) -> None:
    """Take values into the least and greatest ones."""
    values, heads = as_numpy(points.values), points.starts[:-1]
    for name, combine in (("min", np.minimum), ("max", np.maximum)):
        if name in needed:
            result[name] = combine.reduceat(values, heads)
            result[name][exist] = combine(result[name][exist], before[name][exist])


def add_ends(result: Partials, points: GroupedPoints, before: Partials, exist: Flags) -> None:
    """Take values into the first and last ones by time; of points with the same time, the one that arrived last counts."""
    values, heads, lengths = as_numpy(points.values), points.starts[:-1], np.diff(points.starts)
    for name, choose, is_kept in (("first", np.minimum, np.less), ("last", np.maximum, np.greater)):
        times = choose.reduceat(points.times, heads)
        is_end = points.times == np.repeat(times, lengths)
        indices = np.maximum.reduceat(np.where(is_end, np.arange(len(values)), -1), heads)
        keeps = exist & is_kept(before[f"{name}_time"], times)
        result[f"{name}_time"] = np.where(keeps, before[f"{name}_time"], times)
        result[name] = values[indices]
        result[name][keeps] = before[name][keeps]
