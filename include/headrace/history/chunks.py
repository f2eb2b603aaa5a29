"""Cutting the event-time range of a source into chunks of about equal work: pure arithmetic, no Spark, no tables."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Final

from headrace.errors import LimitError

# Airflow maps at most 1024 task instances by default ([core] max_map_length); a run's chunks must stay below.
MAX_CHUNKS: Final = 1000
NOTHING: Final = Decimal(0)


@dataclass(frozen=True, slots=True)
class Extent:
    """So many rows between two event times, both inclusive, in ticks: what a file's statistics tell."""

    first: int
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Where windows may start: `origin + k * step` ticks. A window that starts at t holds rows of `[t, t + length)` at most."""

    step: int = 1
    origin: int = 0
    length: int = 1

    def floor(self, ts: int) -> int:
        """The last point of the grid not after an instant."""
        return ts - (ts - self.origin) % self.step

    def ceiling(self, ts: int) -> int:
        """The first point of the grid not before an instant."""
        return -((self.origin - ts) // self.step) * self.step + self.origin


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """The windows whose start lies in `[start, end)`; `rows` is an estimate of the rows there."""

    start: int
    end: int
    rows: int


class RowProfile:
    """How many rows lie before an instant, taking the rows of an extent as spread evenly over it.

    Decimals, because a binary fraction too much that a dense extent leaves behind would be rows over the years that follow it.
    """

    def __init__(self, extents: Iterable[Extent]) -> None:
        change: dict[int, Decimal] = defaultdict(Decimal)
        for extent in extents:
            density = Decimal(extent.rows) / (extent.last - extent.first + 1)
            change[extent.first] += density
            change[extent.last + 1] -= density
        self._times = sorted(change)
        self._before, self._density = [NOTHING], [NOTHING]
        for time, following in zip(self._times, [*self._times[1:], None], strict=True):
            self._density.append(self._density[-1] + change[time])
            if following is not None:
                self._before.append(self._before[-1] + self._density[-1] * (following - time))

    def before(self, ts: int) -> Decimal:
        """Rows with an event time less than `ts`, about."""
        place = bisect_right(self._times, ts)
        if place == 0:
            return NOTHING
        return self._before[place - 1] + max(NOTHING, self._density[place]) * (ts - self._times[place - 1])

    def instant(self, rows: Decimal) -> int:
        """The instant before which about so many rows lie."""
        place = min(bisect_right(self._before, rows), len(self._times) - 1)
        density = self._density[place]
        beyond = rows - self._before[place - 1]
        return self._times[place - 1] + (round(beyond / density) if density > 0 else 0)


def span(extents: Sequence[Extent], grid: Grid, start: int | None, end: int | None) -> tuple[int, int]:
    """Window starts that can hold rows of the extents, as `[first, beyond)`, cut to `[start, end)` and widened to the grid."""
    lowest = grid.ceiling(min(extent.first for extent in extents) - grid.length + 1)
    beyond = grid.floor(max(extent.last for extent in extents)) + grid.step
    first = lowest if start is None else max(lowest, grid.floor(start))
    return first, beyond if end is None else min(beyond, grid.ceiling(end))


def by_rows(
    extents: Sequence[Extent], grid: Grid, rows: int, *, start: int | None = None, end: int | None = None
) -> list[ChunkRange]:
    """Pieces of about `rows` rows each, at most `MAX_CHUNKS`, whose edges lie on the grid; they cover the whole range once."""
    extents = [extent for extent in extents if extent.rows > 0]
    if not extents:
        return []
    first, beyond = span(extents, grid, start, end)
    if first >= beyond:
        return []
    profile = RowProfile(extents)
    low, high = profile.before(first), profile.before(beyond)
    count = max(1, min(MAX_CHUNKS, round((high - low) / rows)))
    inner = (grid.floor(profile.instant(low + (high - low) * number / count)) for number in range(1, count))
    edges = sorted({first, beyond, *(edge for edge in inner if first < edge < beyond)})
    return chunk_ranges(edges, profile)


def by_duration(
    extents: Sequence[Extent], grid: Grid, ticks: int, *, start: int | None = None, end: int | None = None
) -> list[ChunkRange]:
    """Pieces of at least `ticks` each, whose edges lie on the grid.

    Raises:
        LimitError: they would be more than `MAX_CHUNKS`.
    """
    extents = [extent for extent in extents if extent.rows > 0]
    if not extents:
        return []
    first, beyond = span(extents, grid, start, end)
    length = max(grid.step, grid.ceiling(grid.origin + ticks) - grid.origin)
    count = -((first - beyond) // length)
    if count > MAX_CHUNKS:
        raise LimitError(f"chunks of that length would be {count}, at most {MAX_CHUNKS} are possible", hint="take longer chunks")
    edges = [*range(first, beyond, length), beyond]
    return chunk_ranges(edges, RowProfile(extents)) if first < beyond else []


def chunk_ranges(edges: Sequence[int], profile: RowProfile) -> list[ChunkRange]:
    """Pieces between neighbouring edges, with rows that add up."""
    ranks = [round(profile.before(edge)) for edge in edges]
    return [
        ChunkRange(left, right, after - before)
        for (left, right), (before, after) in zip(pairwise(edges), pairwise(ranks), strict=True)
    ]
