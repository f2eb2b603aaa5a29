"""Joins points of functions to the rows of series that come in parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.compute.columnar.series_points import (
    Array,
    Points,
    Rows,
    concat_points,
    concat_rows,
    first_of_each_time,
    has_instants_of,
    join,
)

Joined = tuple[Rows, Array]
"""Rows with a column for each call, and the time of each in ticks."""


@dataclass(slots=True)
class SeriesJoin:
    """Returns rows with the values of calls as early as possible.

    A part in which each call has exactly one point for each row is returned at once, so a long series takes no memory but 8 bytes
    for each of its rows. Other rows are held until their series ends, because further points may belong to them.
    """

    calls: Sequence[str]
    _rows: list[Rows] = field(default_factory=list)
    _ticks: list[Array] = field(default_factory=list)
    _points: dict[str, list[Points]] = field(default_factory=dict)
    _returned: ReturnedInstants = field(default_factory=lambda: ReturnedInstants())

    def add(self, rows: Rows, ticks: Array, points: Mapping[str, Points], *, more: bool) -> Iterator[Joined]:
        """Yield rows that are complete.

        Args:
            rows: the next ones, in order of series and time, at least one. A series may continue in the next part.
            ticks: their times.
            points: those that each call has added for them, also points of series that have ended.
            more: whether another part follows.
        """
        last = int(rows.devices[-1])
        has_all = all(has_instants_of(part, rows, ticks) for part in points.values()) and not self._has_points_after(rows, ticks)
        if not has_all:
            self._hold(rows, ticks, points)
        if any(len(part) and (part[0] < last or not more) for part in self._held_series()):
            yield self._release(last, more)
        self._returned.forget_before(last)
        if has_all:
            self._returned.add(rows.devices, ticks)
            yield join(rows, ticks, points)

    def _hold(self, rows: Rows, ticks: Array, points: Mapping[str, Points]) -> None:
        self._rows.append(rows)
        self._ticks.append(ticks)
        for call, part in points.items():
            self._points.setdefault(call, []).append(part)

    def _all_points(self) -> Iterator[Points]:
        return (part for parts in self._points.values() for part in parts)

    def _has_points_after(self, rows: Rows, ticks: Array) -> bool:
        """Return whether a held point is of a time that these rows may have."""
        series, first = rows.devices[0], ticks[0]
        return any(bool(((part.devices == series) & (part.ticks >= first)).any()) for part in self._all_points())

    def _held_series(self) -> Iterator[Array]:
        yield from (rows.devices for rows in self._rows)
        yield from (points.devices for points in self._all_points())

    def _release(self, last: int, more: bool) -> Joined:
        """Return all held rows of series that have ended."""
        rows, ticks = concat_rows(self._rows), np.concatenate(self._ticks)
        points = {call: concat_points(self._points[call]) for call in self.calls}
        self._rows, self._ticks, self._points = [], [], {}
        ended = rows.devices < last if more else np.ones(len(ticks), np.bool_)
        if not ended.all():
            kept = {call: part.select(part.devices >= last) for call, part in points.items()}
            self._hold(rows.filter(~ended), ticks[~ended], kept)
        complete = {call: part.select(part.devices < last) if more else part for call, part in points.items()}
        new = {call: first_of_each_time(self._returned.without(part)) for call, part in complete.items()}
        return join(rows.filter(ended), ticks[ended], new)


@dataclass(slots=True)
class ReturnedInstants:
    """The instants of the rows of the last series that have been returned: a later point at one of them does not count."""

    series: int = -1
    _ticks: list[Array] = field(default_factory=list)

    def add(self, devices: Array, ticks: Array) -> None:
        """Add rows, of which those of the last series count."""
        self._ticks.append(ticks[devices == self.series].copy())

    def forget_before(self, series: int) -> None:
        """Forget all series before one."""
        if self.series != series:
            self.series, self._ticks = series, []

    def without(self, points: Points) -> Points:
        """Return points without those at instants of returned rows."""
        if not self._ticks:
            return points
        is_returned = (points.devices == self.series) & np.isin(points.ticks, np.concatenate(self._ticks))
        return points.select(~is_returned)
