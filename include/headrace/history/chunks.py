"""Splitting the event-time range of a source into chunks of about equal work: pure arithmetic, without Spark or tables."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Final

from headrace.errors import LimitError
from headrace.model.ledger import Chunk
from headrace.model.windows import WindowGrid
from headrace.storage.delta.scans import Extent
from headrace.storage.delta.shares import ALL_SERIES, SeriesRange

# Airflow maps at most 1024 task instances by default ([core] max_map_length); a run's chunks must stay below.
MAX_CHUNKS: Final = 1000
ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """The windows of some series that start in `[start, end)`; `rows` is an estimate of their rows."""

    start: int
    end: int
    rows: int
    series: SeriesRange = ALL_SERIES

    def to_chunk(self, job_id: str, run: str, number: int) -> Chunk:
        series = self.series
        return Chunk(job_id, run, number, self.start, self.end, self.rows, first_series=series.first, end_series=series.end)


class RowProfile:
    """The estimated number of rows before an instant, with the rows of each extent spread evenly over it.

    Uses decimals: the rounding error of a binary fraction in a dense extent would add up to rows in the years after it.
    """

    def __init__(self, extents: Iterable[Extent]) -> None:
        change: dict[int, Decimal] = defaultdict(Decimal)
        for extent in extents:
            density = Decimal(extent.rows) / (extent.last - extent.first + 1)
            change[extent.first] += density
            change[extent.last + 1] -= density
        self._times = sorted(change)
        self._before, self._density = [ZERO], [ZERO]
        for time, next_time in zip(self._times, [*self._times[1:], None], strict=True):
            self._density.append(self._density[-1] + change[time])
            if next_time is not None:
                self._before.append(self._before[-1] + self._density[-1] * (next_time - time))

    def rows_before(self, ts: int) -> Decimal:
        """Return the approximate number of rows with an event time less than `ts`."""
        index = bisect_right(self._times, ts)
        if index == 0:
            return ZERO
        return self._before[index - 1] + max(ZERO, self._density[index]) * (ts - self._times[index - 1])

    def instant_at(self, rows: Decimal) -> int:
        """Return the instant that has about `rows` rows before it."""
        index = min(bisect_right(self._before, rows), len(self._times) - 1)
        density = self._density[index]
        remaining = rows - self._before[index - 1]
        return self._times[index - 1] + (round(remaining / density) if density > 0 else 0)


def window_start_range(extents: Sequence[Extent], grid: WindowGrid, start: int | None, end: int | None) -> tuple[int, int]:
    min_start = grid.ceiling(min(extent.first for extent in extents) - grid.length + 1)
    max_end = grid.floor(max(extent.last for extent in extents)) + grid.step
    first = min_start if start is None else max(min_start, grid.floor(start))
    return first, max_end if end is None else min(max_end, grid.ceiling(end))


def chunk_by_rows(
    extents: Sequence[Extent], grid: WindowGrid, rows: int, *, start: int | None = None, end: int | None = None
) -> list[ChunkRange]:
    """Return chunk ranges of about `rows` rows each, at most `MAX_CHUNKS`, aligned to the grid, without gaps."""
    extents = [extent for extent in extents if extent.rows > 0]
    if not extents:
        return []
    first, last = window_start_range(extents, grid, start, end)
    if first >= last:
        return []
    profile = RowProfile(extents)
    low, high = profile.rows_before(first), profile.rows_before(last)
    count = max(1, min(MAX_CHUNKS, round((high - low) / rows)))
    inner_edges = (grid.floor(profile.instant_at(low + (high - low) * number / count)) for number in range(1, count))
    edges = sorted({first, last, *(edge for edge in inner_edges if first < edge < last)})
    return chunk_ranges(edges, profile)


def chunk_by_duration(
    extents: Sequence[Extent], grid: WindowGrid, ticks: int, *, start: int | None = None, end: int | None = None
) -> list[ChunkRange]:
    """Return chunk ranges of at least `ticks` each, aligned to the grid.

    Raises:
        LimitError: There would be more than `MAX_CHUNKS`.
    """
    extents = [extent for extent in extents if extent.rows > 0]
    if not extents:
        return []
    first, last = window_start_range(extents, grid, start, end)
    length = max(grid.step, grid.ceiling(grid.offset + ticks) - grid.offset)
    count = -((first - last) // length)
    if count > MAX_CHUNKS:
        raise LimitError(
            f"the range has {count} chunks of that length, more than the maximum of {MAX_CHUNKS}", hint="use longer chunks"
        )
    edges = [*range(first, last, length), last]
    return chunk_ranges(edges, RowProfile(extents)) if first < last else []


def chunk_ranges(edges: Sequence[int], profile: RowProfile) -> list[ChunkRange]:
    ranks = [round(profile.rows_before(edge)) for edge in edges]
    return [
        ChunkRange(left, right, after - before)
        for (left, right), (before, after) in zip(pairwise(edges), pairwise(ranks), strict=True)
    ]
