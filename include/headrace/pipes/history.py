"""The history of a pipe: what tables had at its start, divided into chunks that the ledger records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from headrace.context import Context
from headrace.errors import NotSupportedError
from headrace.history.chunks import MAX_CHUNKS, ChunkRange, chunk_by_rows
from headrace.model.ledger import Chunk
from headrace.model.positions import Offsets
from headrace.model.windows import WindowGrid
from headrace.pipes.changes import device_rows, has_values
from headrace.pipes.events import DeviceRows, Event, InsertEvent
from headrace.pipes.feeds import TableFeed, unless_dropped
from headrace.pipes.selection import Selection, TicksRange
from headrace.pipes.sources.options import TimeWindow
from headrace.storage.delta.pruning import Bounds
from headrace.storage.delta.shares import ALL_SERIES, SeriesRange

HISTORY: Final = "history"
"""The run in the ledger that has the history of a pipe."""
MAX_CHUNK_ROWS: Final = 500_000
"""About how many rows a chunk has, which are in memory at a time."""
GROWTH_PARTS: Final = 8
"""Chunks that are too many are planned again with more rows each: by at least the rows divided by this."""
ALL_TIME: Final = TimeWindow()


@dataclass(frozen=True, slots=True)
class HistoryTable:
    """A table with a history: its feed, the version to read, the newest one if it is None, and the times to transfer."""

    feed: TableFeed
    version: int | None
    times: TicksRange


@dataclass(frozen=True, slots=True)
class History:
    """The stored rows that a source transfers, in chunks of some series and times of a table.

    Attributes:
        context: The environment.
        pipe_id: The pipe, to which the chunks in the ledger belong.
        selection: The series.
        window: The times.
        tables: Returns the tables.
    """

    context: Context
    pipe_id: str
    selection: Selection
    window: TimeWindow
    tables: Callable[[], list[TableFeed]]

    def plan(self, run: str, versions: Offsets | None, again: TimeWindow = ALL_TIME, max_chunks: int | None = None) -> list[Chunk]:
        """Divide what tables have into chunks and record them, unless that is done; return the chunks by number.

        Args:
            run: The run in the ledger.
            versions: The versions of the tables; tables that it lacks are left out. None for the newest ones.
            again: The times to transfer, of those that the source selects.
            max_chunks: The greatest number of chunks of all tables together, which are larger then; each table has at least one.
        """
        ledger = self.context.catalog.ledger
        if planned := ledger.chunks(self.pipe_id, run):
            return planned
        rows = min(MAX_CHUNK_ROWS, self.context.settings.driver_rows or MAX_CHUNK_ROWS)
        tables = [
            HistoryTable(feed, None if versions is None else versions[feed.id], self._times(feed, again))
            for feed in self.tables()
            if versions is None or (feed.id in versions and feed.is_of(versions))
        ]
        ranges = self._ranges(tables, rows)
        while max_chunks is not None and len(ranges) > max_chunks and rows < sum(range_.rows for range_ in ranges):
            rows = max(rows * len(ranges) // max_chunks, rows + -(-rows // GROWTH_PARTS))
            ranges = self._ranges(tables, rows)
        return ledger.plan(self.pipe_id, run, [range_.to_chunk(self.pipe_id, run, at) for at, range_ in enumerate(ranges)])

    def events(self, chunk: Chunk, versions: Offsets | None) -> Iterator[Event]:
        """Yield the rows of a chunk, ordered by series and time; none if its table was dropped."""
        feed, series = table_of(chunk, self.tables())
        if feed is None or (versions is not None and not feed.is_of(versions)):
            return
        version = None if versions is None else versions[feed.id]
        with unless_dropped(feed):
            for data in read_chunk(self.context, chunk, version, feed, series):
                selected = self.selection.apply(data, self.window.ticks(data.precision))
                if selected is not None:
                    yield InsertEvent(selected)

    def _ranges(self, tables: Sequence[HistoryTable], rows: int) -> list[ChunkRange]:
        """Return ranges of about this many rows of tables."""
        ranges: list[ChunkRange] = []
        for table in tables:
            with unless_dropped(table.feed):
                ranges += table_ranges(self.context, table, rows)
        return ranges

    def _times(self, feed: TableFeed, again: TimeWindow) -> TicksRange:
        ranges = [window.ticks(feed.layout.precision) for window in (self.window, again)]
        first = max((range_.first for range_ in ranges if range_.first is not None), default=None)
        last = min((range_.last for range_ in ranges if range_.last is not None), default=None)
        return TicksRange(first, last)


def is_for_tasks(context: Context, chunks: Sequence[Chunk]) -> bool:
    """Return whether tasks of Airflow transfer a history: a large one, unless it has more chunks than Airflow maps tasks."""
    return sum(chunk.rows for chunk in chunks) > context.settings.resident_history_rows and len(chunks) <= MAX_CHUNKS


def table_ranges(context: Context, table: HistoryTable, rows: int) -> Iterator[ChunkRange]:
    """Yield the ranges of a table: some series each, divided by time where these have too many rows."""
    feed = table.feed
    version = feed.version() if table.version is None else table.version
    extents = context.tables.extents(feed.table, feed.database, version)
    if not extents:
        return
    first = min(extent.first for extent in extents) if table.times.first is None else table.times.first
    last = max(extent.last for extent in extents) if table.times.last is None else table.times.last
    if first > last:
        return
    for series, count in series_ranges(context, feed, version, rows):
        whole = ChunkRange(first, last + 1, count, within_table(series, feed))
        if count <= 2 * rows:
            yield whole
            continue
        total = sum(extent.rows for extent in extents)
        parts = chunk_by_rows(extents, WindowGrid(), max(1, total * rows // count), start=first, end=last + 1)
        yield from (replace(part, rows=part.rows * count // max(total, 1), series=whole.series) for part in parts)


def series_ranges(context: Context, feed: TableFeed, version: int, rows: int) -> list[tuple[SeriesRange, int]]:
    try:
        return context.tables.series_ranges(feed.table, version, rows)
    except NotSupportedError:
        return [(ALL_SERIES, context.tables.rows(feed.table))]


def within_table(series: SeriesRange, feed: TableFeed) -> SeriesRange:
    """Return a range of series whose ends show the table that it is of."""
    name = feed.layout.database
    return SeriesRange(f"{name}|{series.first or ''}", f"{name}|{series.end or ''}")


def table_of(chunk: Chunk, feeds: Sequence[TableFeed]) -> tuple[TableFeed | None, SeriesRange]:
    """Return the table of a chunk, None if it was dropped, and the range of its series."""
    name, _, first = (chunk.first_series or "").partition("|")
    end = (chunk.end_series or "").partition("|")[2]
    feed = next((feed for feed in feeds if feed.layout.database == name), None)
    return feed, SeriesRange(first or None, end or None)


def read_chunk(context: Context, chunk: Chunk, version: int | None, feed: TableFeed, series: SeriesRange) -> Iterator[DeviceRows]:
    """Yield the rows of a chunk as of a version of its table, ordered by series and time if shares of it can be read."""
    layout = feed.layout
    bounds = Bounds.of_ticks(chunk.start, chunk.end - 1, layout.precision)
    names = [*layout.key, *layout.columns]
    try:
        shares = context.tables.shares(feed.table, names, 1, version=version, bounds=bounds, series=series)
        parts: Iterator[pa.Table] = (rows for share in shares for rows in share.read(names))
    except NotSupportedError:
        pieces = context.tables.scan_pieces(feed.table, names, version=version, bounds=bounds)
        parts = (of_series(rows, layout.series_key, series) for rows in pieces)
    for rows in parts:
        valued = rows.filter(has_values(rows, list(layout.columns)))
        if valued.num_rows:
            yield device_rows(valued, layout)


def of_series(rows: pa.Table, key: str, series: SeriesRange) -> pa.Table:
    """Return the rows whose series are in a range."""
    mask = series.mask(rows[key].cast(pa.string()))
    return rows if mask is None else rows.filter(pa.array(mask))
