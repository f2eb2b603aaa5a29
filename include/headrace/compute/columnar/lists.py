"""Functions of the lists of values or points that groups have collected, with the values that Spark has.

Lists are sorted first. What is added up is added one after the other, in the order of the sorted list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.runs import Int64s, Runs, marks, ranks, to_numpy

COMPARED: Final = {
    "=": np.equal,
    "<>": np.not_equal,
    "!=": np.not_equal,
    "<": np.less,
    ">": np.greater,
    "<=": np.less_equal,
    ">=": np.greater_equal,
}
"""Comparisons by their signs."""
Doubles = npt.NDArray[np.float64]
Numbers = TypeVar("Numbers", bound=npt.NDArray[Any])


@dataclass(frozen=True)
class Ends:
    """A point of each list."""

    times: Int64s
    values: Doubles


@dataclass(frozen=True)
class SortedLists:
    """The elements of lists, each list sorted, with the first element and the number of elements of each."""

    elements: pa.Array
    starts: Int64s
    sizes: Int64s

    @classmethod
    def of(cls, lists: pa.ListArray) -> SortedLists:
        """Sort lists of values or of structs, in which there is no NULL."""
        elements, parents = lists.flatten(), to_numpy(pc.list_parent_indices(lists)).astype(np.int64)
        order = np.lexsort((ranks(elements), parents))
        sizes = to_numpy(pc.fill_null(lists.value_lengths(), 0)).astype(np.int64)
        return cls(elements.take(pa.array(order)), np.cumsum(sizes) - sizes, sizes)

    def field(self, name: str) -> npt.NDArray[np.generic]:
        """Return a field of points."""
        return np.asarray(to_numpy(pc.struct_field(self.elements, name)))

    def points(self, index: Int64s) -> Ends:
        """Return a point of each list; any for an empty one."""
        return Ends(at(self.field("t").astype(np.int64), index), at(self.field("v").astype(np.float64), index))

    def edge(self, points: Ends, index: Int64s, side: str, edges: Int64s, is_beyond: np.ufunc) -> Ends:
        """Return where the line from a point to the one beyond an edge meets it; the point itself if there is none."""
        if not len(self.elements):
            return points
        beyond = pc.struct_field(self.elements, side)
        times, values = pc.struct_field(beyond, "t"), pc.struct_field(beyond, "v")
        at_times = at(to_numpy(pc.fill_null(times, 0)).astype(np.int64), index)
        at_values = at(to_numpy(pc.fill_null(values, np.nan)).astype(np.float64), index)
        crosses = at(to_numpy(times.is_valid()).astype(np.bool_), index) & is_beyond(at_times, edges)
        length = at_times - points.times
        with np.errstate(all="ignore"):
            met = points.values + (at_values - points.values) * (edges - points.times) / np.where(length == 0, 1, length)
        return Ends(np.where(crosses, edges, points.times), np.where(crosses, met, points.values))

    @property
    def last(self) -> Int64s:
        """The last element of each list; any for an empty one."""
        last: Int64s = np.maximum(self.starts + self.sizes - 1, 0)
        return last

    def sums(self, terms: npt.NDArray[Any]) -> Doubles:
        """Return the sums of terms, of which each list has as many as elements."""
        with np.errstate(all="ignore"):
            parts = [np.cumsum(part)[-1:] for part in np.split(terms, self.starts[1:])]
        return np.array([part[0] if len(part) else 0.0 for part in parts]) if len(self.starts) else np.empty(0)


def at(values: Numbers, index: Int64s) -> Numbers:
    """Return values at some positions; any if there are none."""
    chosen = values[np.minimum(index, len(values) - 1)] if len(values) else np.zeros(len(index), values.dtype)
    return cast("Numbers", chosen)


def quantiles(fractions: Sequence[float]) -> Callable[[pa.ListArray], pa.Array]:
    """Return the function that gives the values of lists at a fraction of their ranks; a list of values for several fractions."""
    return partial(quantiles_of, tuple(fractions))


def quantiles_of(fractions: tuple[float, ...], lists: pa.ListArray) -> pa.Array:
    ordered = SortedLists.of(lists)
    values, columns = to_numpy(ordered.elements).astype(np.float64), []
    for fraction in fractions:
        rank = fraction * np.maximum(ordered.sizes - 1, 0)
        low, high = (at(values, ordered.starts + side.astype(np.int64)) for side in (np.floor(rank), np.ceil(rank)))
        with np.errstate(all="ignore"):
            columns.append(low + (high - low) * (rank - np.floor(rank)))
    is_empty = ordered.sizes == 0
    if len(columns) == 1:
        return pa.array(columns[0], mask=is_empty)
    flat = np.stack(columns, axis=1)[~is_empty].ravel()
    offsets = np.concatenate(([0], np.cumsum(np.where(is_empty, 0, len(columns))))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat), mask=pa.array(is_empty))


def most_frequent(lists: pa.ListArray) -> pa.Array:
    """Return the most frequent value of each list, the least of several."""
    ordered = SortedLists.of(lists)
    size, lists_of = len(ordered.elements), np.repeat(np.arange(len(ordered.sizes)), ordered.sizes)
    runs = Runs.of(marks([lists_of, ranks(ordered.elements)], size))
    owner = lists_of[runs.starts]
    best = np.lexsort((np.arange(len(owner)), -runs.lengths, owner))
    _, first = np.unique(owner[best], return_index=True)
    index = np.full(len(ordered.sizes), -1, np.int64)
    index[owner[best[first]]] = runs.starts[best[first]]
    values = ordered.elements.take(pa.array(index, mask=index < 0))
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def first_most_frequent(lists: pa.ListArray) -> pa.Array:
    """Return the most frequent value of the points of each list; of several, the first to appear."""
    ordered = SortedLists.of(lists)
    values, times = pc.struct_field(ordered.elements, "v"), ordered.field("t").astype(np.int64)
    owners = np.repeat(np.arange(len(ordered.sizes)), ordered.sizes)
    runs = Runs.of(marks([owners, ranks(values)], len(values)))
    owner = owners[runs.starts]
    best = np.lexsort((times[runs.starts], -runs.lengths, owner))
    _, first = np.unique(owner[best], return_index=True)
    index = np.full(len(ordered.sizes), -1, np.int64)
    chosen = best[first]
    index[owner[chosen]] = runs.starts[chosen] + runs.lengths[chosen] - 1
    return values.take(pa.array(index, mask=index < 0))


def run_counts(sign: str, length: int) -> Callable[[pa.ListArray], pa.Array]:
    """Return the function that counts the runs of true points in each list, of those whose length meets a condition."""
    return partial(count_runs, sign, length)


def count_runs(sign: str, length: int, lists: pa.ListArray) -> pa.Array:
    ordered = SortedLists.of(lists)
    is_true = ordered.field("v").astype(np.bool_)
    owners = np.repeat(np.arange(len(ordered.sizes)), ordered.sizes)
    runs = Runs.of(marks([owners, is_true], len(is_true)))
    is_counted = is_true[runs.starts] & COMPARED[sign](runs.lengths, length)
    return pa.array(np.bincount(owners[runs.starts][is_counted], minlength=len(ordered.sizes)).astype(np.int64))


def mean_over_time(lists: pa.ListArray) -> pa.Array:
    """Return the mean of the line through the points of each list, or the value of points at one instant."""
    ordered = SortedLists.of(lists)
    return mean_between(ordered, ordered.points(ordered.starts), ordered.points(ordered.last), np.zeros(len(ordered.sizes)))


def mean_over_window(lists: pa.ListArray, starts: pa.Array, lasts: pa.Array) -> pa.Array:
    """Return the mean of the line through the points, which reaches the ends of a window if there are points `b` and `a` beyond."""
    ordered = SortedLists.of(lists)
    first, last = ordered.points(ordered.starts), ordered.points(ordered.last)
    begin = ordered.edge(first, ordered.starts, "b", to_numpy(starts).astype(np.int64), np.less)
    end = ordered.edge(last, ordered.last, "a", to_numpy(lasts).astype(np.int64), np.greater)
    with np.errstate(all="ignore"):
        before = (begin.values + first.values) / 2 * (first.times - begin.times)
        area = before + (last.values + end.values) / 2 * (end.times - last.times)
    return mean_between(ordered, begin, end, area)


def mean_between(ordered: SortedLists, begin: Ends, end: Ends, area: Doubles) -> pa.Array:
    """Return the mean of the line from `begin` through the points to `end`; `area` is that before and after the points."""
    times, values = ordered.field("t").astype(np.int64), ordered.field("v").astype(np.float64)
    terms = np.zeros(len(values))
    with np.errstate(all="ignore"):
        terms[1:] = (values[1:] + values[:-1]) / 2 * (times[1:] - times[:-1])
        terms[ordered.starts[ordered.sizes > 0]] = 0.0
        span = end.times - begin.times
        total = ordered.sums(terms) + area
        mean = np.where(span == 0, at(values, ordered.starts), total / np.where(span == 0, 1, span))
    return pa.array(mean, mask=ordered.sizes == 0)


def rate_of_last(ticks_per_second: int) -> Callable[[pa.ListArray], pa.Array]:
    """Return the function that gives the change per second between the last two points of each list."""
    return partial(last_rate, ticks_per_second)


def last_rate(ticks_per_second: int, lists: pa.ListArray) -> pa.Array:
    ordered = SortedLists.of(lists)
    times, values, before = (
        ordered.field("t").astype(np.int64),
        ordered.field("v").astype(np.float64),
        np.maximum(ordered.last - 1, 0),
    )
    change = counter_changes(at(values, before), at(values, ordered.last))
    seconds = (at(times, ordered.last) - at(times, before)) / float(ticks_per_second)
    with np.errstate(all="ignore"):
        rate = change / np.where(seconds == 0, 1.0, seconds)
    return pa.array(rate, mask=(ordered.sizes < 2) | (seconds == 0))


def counter_changes(before: Doubles, after: Doubles) -> Doubles:
    """Return how much a counter has grown. One that is less than before has restarted from 0."""
    is_less = (after < before) | (np.isnan(before) & ~np.isnan(after))
    with np.errstate(all="ignore"):
        return np.where(is_less, after, after - before)


def increases(lists: pa.ListArray) -> pa.Array:
    """Return the sum of the changes of a counter between the points of each list."""
    ordered = SortedLists.of(lists)
    return pa.array(total_changes(ordered), mask=ordered.sizes == 0)


def total_changes(ordered: SortedLists) -> Doubles:
    values = ordered.field("v").astype(np.float64)
    changes = np.zeros(len(values))
    changes[1:] = counter_changes(values[:-1], values[1:])
    changes[ordered.starts[ordered.sizes > 0]] = 0.0
    return ordered.sums(changes)


def mean_rates(ticks_per_second: int) -> Callable[[pa.ListArray], pa.Array]:
    """Return the function that gives the increase per second from the first to the last point of each list."""
    return partial(mean_rate, ticks_per_second)


def mean_rate(ticks_per_second: int, lists: pa.ListArray) -> pa.Array:
    ordered = SortedLists.of(lists)
    first, last = ordered.points(ordered.starts), ordered.points(ordered.last)
    seconds = (last.times - first.times) / float(ticks_per_second)
    with np.errstate(all="ignore"):
        rate = total_changes(ordered) / np.where(seconds == 0, 1.0, seconds)
    return pa.array(rate, mask=(ordered.sizes == 0) | (seconds == 0))


def lines(start: float, step: float) -> Callable[[pa.ListArray], pa.Array]:
    """Return the function that gives slope and intercept of the line through the values of each list."""
    return partial(fitted_lines, start, step)


def fitted_lines(start: float, step: float, lists: pa.ListArray) -> pa.Array:
    ordered = SortedLists.of(lists)
    values = ordered.field("v").astype(np.float64)
    number = np.arange(len(values)) - np.repeat(ordered.starts, ordered.sizes)
    with np.errstate(all="ignore"):
        x = start + number * step
        n, sums = ordered.sizes, [ordered.sums(terms) for terms in (x, values, x * values, x * x)]
        sum_x, sum_y, sum_xy, sum_xx = sums
        mean = sum_x / np.maximum(n, 1)
        rise, run = sum_xy - sum_y * mean, sum_xx - sum_x * mean
        slope, intercept = rise / run, (sum_y - rise * (sum_x / run)) / n
    is_missing = (run == 0) | (n == 0)
    flat = np.stack([slope, intercept], axis=1)[~is_missing].ravel()
    offsets = np.concatenate(([0], np.cumsum(np.where(is_missing, 0, 2)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat), mask=pa.array(is_missing))
