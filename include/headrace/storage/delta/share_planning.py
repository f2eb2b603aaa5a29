"""Planning of shares: which row groups, of which series, each of several tasks reads. Decided by the footers of the data files."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import NotSupportedError
from headrace.model.tables import Table
from headrace.model.windows import WindowGrid
from headrace.storage.delta.external_rows import ExternalRows
from headrace.storage.delta.handles import Handle, translate_errors
from headrace.storage.delta.pruning import MAX_INT64, Bounds, prune_files
from headrace.storage.delta.row_groups import text_range
from headrace.storage.delta.scans import files_at
from headrace.storage.delta.shares import ALL_SERIES, FilePart, SeriesRange, Share
from headrace.storage.delta.table_handles import Handles
from headrace.storage.object_store import locate_file
from headrace.storage.types import MICROSECONDS

TARGET_ROWS: Final = 5_000_000
"""Rows of a share. Fewer make tasks read more row groups that they share with others; more take more memory."""
MAX_ROWS: Final = 12_000_000
"""Greatest number of rows of a share, which are in memory at the same time."""
MAX_READS: Final = 4.0
"""How often a row may be read on average, because row groups have rows of several shares."""
FEW_READS: Final = 2.0
"""If rows are read more often, shares are made as large as possible."""
MIN_WINDOW_ROWS: Final = 8
"""Rows of a window, on average, from which on rows are divided by time: of shorter windows, as many are made as there are rows."""
MAX_SLOWDOWN: Final = 1.5
"""How many times as long as rows that are divided evenly and read once those may take that are divided by windows."""
ORDER_VALUE: Final = 1.5
"""How many times as long shares of series may take as shares of times: their windows need not be sorted."""
MAX_RANGES: Final = 1_000
"""Greatest number of ranges of series to divide a table into."""
MAX_DATA_FILES: Final = 20_000
"""Greatest number of data files whose footers are read."""
MAX_NAMES: Final = 100_000
"""Names of series by which shares are made equally large; of more names, every n-th."""
FOOTER_THREADS: Final = 8
STORED_UNITS: Final = (MICROSECONDS, pa.int64())


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a data file: the number of its rows, the range of its names, and that of its timestamps, as stored.

    Ranges are inclusive; None is unknown. `has_nulls` says whether a row may lack its name or timestamp.
    """

    path: str
    number: int
    rows: int
    names: tuple[str | None, str | None]
    times: Bounds | None
    has_nulls: bool

    @property
    def first(self) -> int:
        """The least timestamp, for ordering."""
        return self.times.low if self.times is not None else 0

    def overlaps(self, series: SeriesRange, bounds: Bounds | None) -> bool:
        """Return whether it may have rows of a range of series and times."""
        in_time = bounds is None or self.times is None or self.times.overlaps(bounds)
        return in_time and series.overlaps(*self.names)


@dataclass(frozen=True, slots=True)
class Division:
    """How to divide a table: by series, by windows, or into some row groups each.

    Attributes:
        tasks: Number of tasks that run at the same time.
        series: Range of series.
        names: Names of series, by which shares are made equally large; they need not be complete.
        by_series: Whether each share has all rows of its series. With `windows`, whether each of them has rows of one series only.
        windows: Windows of which each share has all rows.
    """

    tasks: int
    series: SeriesRange = ALL_SERIES
    names: Collection[str] = ()
    by_series: bool = True
    windows: WindowGrid | None = None


class Footers:
    """Reads the footer of each data file once: a data file never changes, so it is kept while the table has the file."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles
        self._mutex = threading.Lock()
        self._tables: dict[tuple[str, Table | None], dict[str, tuple[RowGroup, ...]]] = {}

    def plan(
        self, table: Table, version: int | None, bounds: Bounds | None, division: Division, paths: Sequence[str] | None
    ) -> list[Share]:
        """Divide a table's version, or these data files of it, among tasks. `bounds` are stored timestamps, inclusive.

        Raises:
            NotSupportedError: The files do not define the rows alone, or reading them in such shares takes too long or too much
                memory.
        """
        handle, series = self._handles.reader(table), division.series
        with handle.latest_snapshot() as newest:
            # Rows of targets carry their tags for other readers; ours join them.
            schema = pa.schema([field for field in newest.schema if not table.is_joined(field.name)])
        if paths is None:
            paths = prune_files(files_at(handle, version)[0], table, schema, bounds, None)["path"].to_pylist()
        groups = [group for group in self._row_groups(handle, table, paths) if group.overlaps(series, bounds)]
        check(groups)
        keys = (table.series_key, table.timestamp.name)
        share = Share(handle.data, (), schema, *keys, series, bounds, whole=False)
        if division.windows is not None:
            return window_shares(share, groups, division, division.windows)
        if division.by_series:
            return series_shares(share, divide_series(groups, division), whole=True)
        return [replace(share, parts=file_parts(own)) for own in divide_groups(groups, division.tasks)]

    def series_ranges(self, table: Table, version: int | None, names: Collection[str], rows: int) -> list[tuple[SeriesRange, int]]:
        """Divide the series of a table among ranges of about this many rows, with the estimated number of rows of each.

        `names` of series need not be complete.

        Raises:
            NotSupportedError: The files do not define the rows alone.
        """
        handle = self._handles.reader(table)
        groups = self._row_groups(handle, table, files_at(handle, version)[0]["path"].to_pylist())
        check(groups)
        points, ends = rows_by_name(groups, ALL_SERIES, names)
        number = max(1, min(MAX_RANGES, round(sum(group.rows for group in groups) / rows)))
        return [(range_, round(estimate(points, ends, range_))) for range_ in cut(points, ends, ALL_SERIES, number)]

    def _row_groups(self, handle: Handle, table: Table, paths: Sequence[str]) -> list[RowGroup]:
        if len(paths) > MAX_DATA_FILES:
            raise NotSupportedError(f"{handle.name} has {len(paths)} data files", hint="compact the table")
        with self._mutex:
            # What series and times are of an external table, its definition says.
            key = (handle.uri, None if table.external is None else table)
            kept = self._tables.setdefault(key, {})
            missing = [path for path in paths if path not in kept]
            with translate_errors(handle.name), ThreadPoolExecutor(FOOTER_THREADS) as executor:
                footers = executor.map(lambda path: read_footer(handle, path, table), missing)
                kept.update(zip(missing, footers, strict=True))
            if len(kept) > 2 * MAX_DATA_FILES:
                self._tables[key] = {path: kept[path] for path in paths}
            return [group for path in paths for group in kept[path]]


def read_footer(handle: Handle, path: str, table: Table) -> tuple[RowGroup, ...]:
    if isinstance(handle.data, ExternalRows):  # rows without a series or timestamp are left out
        return tuple(RowGroup(path, *group, has_nulls=False) for group in handle.data.describe_row_groups(path))
    system, key = locate_file(handle.uri, path)
    metadata = pq.read_metadata(key, filesystem=system)
    schema = metadata.schema.to_arrow_schema()
    series, time = (schema.get_field_index(name) for name in (table.series_key, table.timestamp.name))
    in_unit = schema.field(time).type in STORED_UNITS
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return tuple(describe(path, number, group, series, time, in_unit=in_unit) for number, group in enumerate(groups))


def describe(path: str, number: int, group: pq.RowGroupMetaData, key: int, time: int, *, in_unit: bool) -> RowGroup:
    """Return what the statistics of a row group say of its series and times, the latter if they are in the stored unit."""
    names, times = group.column(key).statistics, group.column(time).statistics
    has_nulls = any(part is None or not part.has_null_count or part.null_count > 0 for part in (names, times))
    is_timed = in_unit and times is not None and times.has_min_max
    ends = text_range(names) or (None, None)
    return RowGroup(path, number, group.num_rows, ends, Bounds(times.min_raw, times.max_raw) if is_timed else None, has_nulls)


def check(groups: Iterable[RowGroup]) -> None:
    """Raise `NotSupportedError` if rows may lack a series or a timestamp, which only foreign writers do."""
    for group in groups:
        if group.has_nulls:
            raise NotSupportedError(f"{group.path} may have rows without a series or timestamp", hint="use Spark SQL")


def divide_groups(groups: Sequence[RowGroup], tasks: int) -> list[list[RowGroup]]:
    """Divide row groups among shares of about equal size, in the order of time, whatever series they have."""
    ordered = sorted(groups, key=lambda group: group.first)
    ends = np.cumsum([0, *(group.rows for group in ordered)])
    number = share_count(int(ends[-1]), tasks)
    shares: list[list[RowGroup]] = [[] for _ in range(number)]
    for group, end in zip(ordered, ends[1:], strict=True):
        shares[min(int((end - 1) * number // max(ends[-1], 1)), number - 1)].append(group)
    return [share for share in shares if share]


def window_shares(share: Share, groups: Sequence[RowGroup], division: Division, windows: WindowGrid) -> list[Share]:
    """Divide row groups among parts of `share` that each have all rows of their windows, by series or by time.

    Raises:
        NotSupportedError: Windows are nearly as many as rows, or so long that few tasks would have any, or files overlap in time.
    """
    if not groups:
        return []
    profile = rows_over_time(groups, share.bounds or ALL_TIMES)
    if (profile.length // windows.step + 1) * max(1, len(division.names)) * MIN_WINDOW_ROWS > profile.total:
        raise NotSupportedError("windows have few rows")
    by_time = divide_times(groups, profile, windows, division.tasks)
    needed = work(by_time, division.tasks)
    if division.by_series:
        with suppress(NotSupportedError):
            by_series = divide_series(groups, division)
            if work(by_series, division.tasks) <= ORDER_VALUE * needed:
                return series_shares(share, by_series, whole=False)
    if needed > MAX_SLOWDOWN * profile.total / division.tasks:
        raise NotSupportedError("the data files are not ordered by time, or windows are long")
    bounds = share.bounds or ALL_TIMES
    return [replace(share, parts=file_parts(own), bounds=range_.intersection(bounds)) for range_, own in by_time]


def divide_times(
    groups: Sequence[RowGroup], profile: RowsOverTime, windows: WindowGrid, tasks: int
) -> list[tuple[Bounds, list[RowGroup]]]:
    """Divide time among shares with about equally many rows, each with the row groups that may have rows of its windows."""
    ranges = profile.cut(windows, share_count(int(profile.total), tasks))
    shares = [(range_, [group for group in groups if group.overlaps(ALL_SERIES, range_)]) for range_ in ranges]
    return [(range_, own) for range_, own in shares if own]


def rows_over_time(groups: Sequence[RowGroup], bounds: Bounds) -> RowsOverTime:
    """Return how the rows of a range of time are spread over it. All row groups overlap the range.

    Raises:
        NotSupportedError: The times of a row group are not known.
    """
    extents, rows = [], []
    for group in groups:
        if group.times is None:
            raise NotSupportedError(f"{group.path} does not have the times of its rows", hint="compact the table")
        extent = group.times.intersection(bounds)
        extents.append(extent)
        rows.append(group.rows * extent.length / group.times.length)
    return RowsOverTime.of(extents, rows)


def work(shares: Sequence[tuple[object, list[RowGroup]]], tasks: int) -> float:
    """Return the number of rows that are read by the time at which the last of several tasks ends."""
    rows = [sum(group.rows for group in own) for _, own in shares]
    return max(sum(rows) / tasks, max(rows))


def series_shares(share: Share, ranges: Iterable[tuple[SeriesRange, list[RowGroup]]], *, whole: bool) -> list[Share]:
    return [replace(share, parts=file_parts(own), series=range_, by_series=True, whole=whole) for range_, own in ranges]


def divide_series(groups: Sequence[RowGroup], division: Division) -> list[tuple[SeriesRange, list[RowGroup]]]:
    """Divide series among shares of about equal size, each with the row groups that may have rows of its series.

    Raises:
        NotSupportedError: A share has too many rows, or rows are read too often.
    """
    series, tasks = division.series, division.tasks
    total = sum(group.rows for group in groups)
    points, ends = rows_by_name(groups, series, division.names)
    shares = assign(groups, cut(points, ends, series, share_count(total, tasks)))
    if reads(shares, total) > FEW_READS:
        shares = assign(groups, cut(points, ends, series, max(min(tasks, int(MAX_READS)), -(-total // MAX_ROWS))))
    if reads(shares, total) > MAX_READS:
        raise NotSupportedError("the data files are not ordered by series", hint="compact the table")
    largest = max((estimate(points, ends, range_) for range_, _ in shares), default=0)
    if largest > MAX_ROWS:
        raise NotSupportedError(f"a series has about {int(largest)} rows", hint="restrict the query in time")
    return shares


def share_count(rows: int, tasks: int) -> int:
    """Return the number of shares: as many for each task."""
    return tasks * max(1, -(-rows // (TARGET_ROWS * tasks)))


def rows_by_name(
    groups: Sequence[RowGroup], series: SeriesRange, names: Collection[str]
) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Return the names of a range in order, and the estimated number of rows up to and including each.

    The rows of a row group are spread evenly over its names.
    """
    ends = {name for group in groups for name in group.names if name is not None}
    some = list(names)[:: 1 + len(names) // MAX_NAMES]
    points = sorted(name for name in ends.union(some) if series.overlaps(name, name)) or [""]
    changes = np.zeros(len(points) + 1)
    for group in groups:
        low, high = group.names
        first = 0 if low is None else min(bisect.bisect_left(points, low), len(points) - 1)
        last = len(points) - 1 if high is None else max(bisect.bisect_right(points, high) - 1, first)
        density = group.rows / (last - first + 1)
        changes[first] += density
        changes[last + 1] -= density
    return points, np.cumsum(np.cumsum(changes[:-1]))


def cut(points: Sequence[str], ends: npt.NDArray[np.float64], series: SeriesRange, number: int) -> list[SeriesRange]:
    """Cut a range of names into at most `number` ranges with about equally many rows."""
    targets = ends[-1] * np.arange(1, number) / number
    starts = sorted({int(position) for position in np.searchsorted(ends, targets * (1 - 1e-9)) + 1 if position < len(points)})
    limits = [series.first, *(points[position] for position in starts), series.end]
    return [SeriesRange(first, end) for first, end in pairwise(limits)]


def assign(groups: Sequence[RowGroup], ranges: Sequence[SeriesRange]) -> list[tuple[SeriesRange, list[RowGroup]]]:
    """Return the row groups that may have rows of each range; ranges without any are left out."""
    shares = [(series, [group for group in groups if series.overlaps(*group.names)]) for series in ranges]
    return [(series, own) for series, own in shares if own]


def reads(shares: Sequence[tuple[SeriesRange, list[RowGroup]]], total: int) -> float:
    """Return how often a row is read on average."""
    return sum(group.rows for _, own in shares for group in own) / max(total, 1)


def estimate(points: Sequence[str], ends: npt.NDArray[np.float64], series: SeriesRange) -> float:
    """Return the estimated number of rows in a range of series."""
    first = 0 if series.first is None else bisect.bisect_left(points, series.first)
    last = len(points) if series.end is None else bisect.bisect_left(points, series.end)
    before = float(ends[first - 1]) if first else 0.0
    return float(ends[last - 1]) - before if last else 0.0


def file_parts(groups: Sequence[RowGroup]) -> tuple[FilePart, ...]:
    firsts: dict[str, int] = {}
    for group in groups:
        firsts[group.path] = min(group.first, firsts.get(group.path, group.first))
    ordered = sorted(groups, key=lambda group: (firsts[group.path], group.path, group.number))
    return tuple(FilePart(path, tuple(group.number for group in own)) for path, own in groupby(ordered, lambda group: group.path))


ALL_TIMES = Bounds(-MAX_INT64, MAX_INT64)


@dataclass(frozen=True, slots=True)
class RowsOverTime:
    """How many rows are earlier than each of some instants, which ascend; between them, rows are spread evenly."""

    instants: npt.NDArray[np.int64]
    earlier: npt.NDArray[np.float64]

    @classmethod
    def of(cls, extents: Sequence[Bounds], rows: Sequence[float]) -> RowsOverTime:
        """Estimate the times of rows by the least and greatest timestamp of each row group, and about how many rows it has."""
        lows = np.array([extent.low for extent in extents])
        ends = np.array([extent.high for extent in extents]) + 1
        instants = np.unique(np.concatenate([lows, ends]))
        density = np.array(rows) / (ends - lows)
        changes = np.zeros(len(instants))
        np.add.at(changes, np.searchsorted(instants, lows), density)
        np.add.at(changes, np.searchsorted(instants, ends), -density)
        between = np.cumsum(changes)[:-1] * np.diff(instants)
        return cls(instants, np.concatenate([[0.0], np.cumsum(between)]))

    @property
    def total(self) -> float:
        """About how many rows there are."""
        return float(self.earlier[-1])

    @property
    def length(self) -> int:
        """The time from the first row to the last."""
        return int(self.instants[-1] - self.instants[0])

    def cut(self, windows: WindowGrid, number: int) -> list[Bounds]:
        """Return at most `number` ranges that cover all times, have about equally many rows, and do not cut a window."""
        targets = self.total * np.arange(1, number) / number
        instants = np.interp(targets, self.earlier, self.instants)
        starts = sorted({windows.floor(int(instant)) for instant in instants})
        inner = [start for start in starts if start > self.instants[0]]
        return [Bounds(low, end - 1) for low, end in pairwise([ALL_TIMES.low, *inner, ALL_TIMES.high + 1])]
