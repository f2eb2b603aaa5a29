"""Windows of series: which points belong to which, and which windows are closed.

Window `w` of a series spans `[boundary + w * slide, boundary + (w + width) * slide)`. It is closed when the series has a point at
or after its end. A point that comes later than that does not count in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.model.clock import MAX_STEP_MS
from headrace.pipes.processors.aggregate_partials import TYPES, GroupedPoints, Partials, add_points
from headrace.pipes.processors.grouping import Flags, Integers
from headrace.pipes.processors.jumps import running_greatest
from headrace.pipes.processors.series import ColumnState


@dataclass(frozen=True, slots=True)
class WindowedPoints:
    """Points of some series with a window for each, ordered by series and window.

    Attributes:
        points: Indices of the points.
        series: The series of each group of points with the same window.
        windows: The window of each group.
        starts: Where each group starts, and at last the number of points.
        newest: The newest window of each series.
    """

    points: Integers
    series: Integers
    windows: Integers
    starts: Integers
    newest: Integers


@dataclass(frozen=True, slots=True)
class Closed:
    """Windows whose results are due: the series (by its place in a list), the window, and its figures."""

    series: Integers
    windows: Integers
    partials: Partials


def assign(windows: Integers, starts: Integers, before: Integers, width: int) -> WindowedPoints:
    """Return the points that count, once for each window that they are in and that is not closed when they arrive.

    Args:
        windows: The newest window that contains each point.
        starts: Where the points of each series start, and at last the number of points.
        before: The newest window of each series before.
        width: How many windows contain a point.
    """
    greatest = running_greatest(windows, starts, before)
    series = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    numbers = [windows - shift for shift in range(width)]
    counting = [np.flatnonzero(number > greatest.after - width) for number in numbers]
    points = np.concatenate(counting)
    chosen = np.concatenate([number[counted] for number, counted in zip(numbers, counting, strict=True)])
    owners = series[points]
    if not is_sorted(owners, chosen):
        order = np.lexsort((points, chosen, owners))
        points, chosen, owners = points[order], chosen[order], owners[order]
    is_first = np.ones(len(points), np.bool_)
    is_first[1:] = (owners[1:] != owners[:-1]) | (chosen[1:] != chosen[:-1])
    heads = np.flatnonzero(is_first)
    return WindowedPoints(points, owners[heads], chosen[heads], np.append(heads, len(points)), greatest.last)


def is_sorted(owners: Integers, windows: Integers) -> bool:
    """Return whether groups follow each other; points of a group are in the order of their arrival if so."""
    return bool(((owners[1:] > owners[:-1]) | ((owners[1:] == owners[:-1]) & (windows[1:] >= windows[:-1]))).all())


class OpenWindows:
    """The open windows of series in their state: `width` places for each series, of which window `w` has place `w % width`."""

    FIELDS: Final = {"window": np.int64, "is_open": np.bool_, "newest": np.int64, "received": np.int64, "is_pending": np.bool_}
    """Fields of each place besides the figures; `newest` is that of the series, in its first place."""

    def __init__(self, state: ColumnState, needed: Collection[str]) -> None:
        """Use the state of a column; `needed` are the figures that operators need."""
        self._state, self._width, self._needed = state, state.width, needed
        self._figures = [name for name in TYPES if name == "count" or name in needed]

    def add(
        self, devices: Sequence[str], windows: Integers, starts: Integers, times: Integers, values: pa.Array, now: int
    ) -> Closed:
        """Add points to their windows, and return the windows that are closed then.

        Args:
            devices: The series.
            windows: The newest window of each point.
            starts: Where the points of each series start, and at last the number of points.
            times: The times of the points.
            values: Their values.
            now: The clock in epoch ms.
        """
        state, width = self._state, self._width
        slots = state.find(devices)
        before = np.where(slots >= 0, state["newest"][slots * width], np.iinfo(np.int64).min >> 1)
        grouped = assign(windows, starts, before, width)
        slots = state.ensure(devices, slots)
        places = slots[grouped.series] * width + grouped.windows % width
        exist = state["is_open"][places] & (state["window"][places] == grouped.windows)
        points = GroupedPoints(grouped.starts, times[grouped.points], values.take(pa.array(grouped.points)))
        partials = add_points(points, self._partials(places), exist, self._needed)

        state["is_open"][places[exist]] = False
        limits = grouped.newest - width
        stored = self._close(slots, limits)
        is_closed = grouped.windows <= limits[grouped.series]
        self._store(places[~is_closed], grouped.windows[~is_closed], choose(partials, ~is_closed), now)
        state["newest"][slots * width] = grouped.newest
        return merge(stored, Closed(grouped.series[is_closed], grouped.windows[is_closed], choose(partials, is_closed)))

    def _partials(self, places: Integers) -> Partials:
        return {name: self._state[name][places] for name in self._figures}

    def _close(self, slots: Integers, limits: Integers) -> Closed:
        """Close the windows of series up to a limit for each."""
        state = self._state
        places = (slots[:, None] * self._width + np.arange(self._width)).ravel()
        series = np.repeat(np.arange(len(slots)), self._width)
        is_closed = state["is_open"][places] & (state["window"][places] <= limits[series])
        places, series = places[is_closed], series[is_closed]
        state["is_open"][places] = False
        return Closed(series, state["window"][places], self._partials(places))

    def _store(self, places: Integers, windows: Integers, partials: Partials, now: int) -> None:
        state = self._state
        state["window"][places], state["is_open"][places], state["is_pending"][places] = windows, True, True
        state["received"][places] = now
        for name, values in partials.items():
            state[name][places] = values

    def overdue(self, now: int, delay: int) -> Closed:
        """Return the open windows that last got points so long ago and were not returned since; they stay open.

        So do those whose points came by a clock that was set back since. The series are the slots of the state.
        """
        received = self._state["received"]
        places = np.flatnonzero(self._pending() & ((received <= now - delay) | (received > now + MAX_STEP_MS)))
        self._state["is_pending"][places] = False
        return Closed(places // self._width, self._state["window"][places], self._partials(places))

    def _pending(self) -> Flags:
        pending: Flags = self._state["is_open"] & self._state["is_pending"]
        return pending

    def oldest(self) -> int | None:
        """Return when the window that waits longest got its last point; None if none waits."""
        received = self._state["received"][self._pending()]
        return int(received.min()) if len(received) else None


def choose(partials: Partials, flags: Flags) -> Partials:
    """Return the partials of some windows."""
    return {name: values[flags] for name, values in partials.items()}


def merge(first: Closed, second: Closed) -> Closed:
    """Return windows in the order of series and time."""
    series, windows = np.concatenate((first.series, second.series)), np.concatenate((first.windows, second.windows))
    order = np.lexsort((windows, series))
    partials = {name: np.concatenate((values, second.partials[name]))[order] for name, values in first.partials.items()}
    return Closed(series[order], windows[order], partials)
