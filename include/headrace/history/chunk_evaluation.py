"""Evaluating a stream's plan over the stored rows of its source as of offsets, as DataFrames that skip files by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import aggregate_windows, finish, prepare
from headrace.compute.evaluate import project
from headrace.compute.evaluation.kernel_windows import aggregate_by_kernels
from headrace.compute.nodes import UnsupportedError, quote
from headrace.compute.plan import TS, WEND, WSTART
from headrace.compute.shares import KernelUse
from headrace.compute.terms import ColumnRole
from headrace.compute.windows import window_columns
from headrace.compute.windows.fill import fill_stored
from headrace.context import Context
from headrace.history.chunk_results import ArrowChunkResult, ChunkResult, DataFrameChunkResult, FilledChunkResult
from headrace.model.ledger import Chunk
from headrace.model.positions import Offsets
from headrace.model.tables import Table, TableKind
from headrace.model.time import Precision
from headrace.model.windows import WindowGrid
from headrace.storage.delta.pruning import Bounds, as_stored_integers
from headrace.storage.delta.shares import ALL_SERIES, SeriesRange
from headrace.storage.spark.functions import F
from headrace.storage.spark.task_errors import has_raised
from headrace.storage.values.scalars import stored_units_per_tick
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sinks.target import TargetTable
from headrace.streams.sources.shares import TableShares
from headrace.streams.sources.source_tables import source_tables
from headrace.streams.sources.stored import source_extents, source_frame
from headrace.streams.windows.stored_windows import StoredWindows
from headrace.streams.windows.window_sql import small_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


MAX_WINDOWS: Final = 2**63 - 1

GROWTH: Final = 8
"""The search for the next window reads ranges that grow by this factor."""


@dataclass
class ChunkEvaluation:
    """Evaluates one stream at fixed offsets, for a range of its source's series.

    `grid` is where its windows may start, None if their length has no bound. If it `fills`, the windows of a chunk include those
    that FILL adds after them, as in a history. With `fills_near` the result may add them when it is written, as a live stream does.
    """

    context: Context
    plan: StreamPlan
    offsets: Offsets
    grid: WindowGrid | None
    series: SeriesRange = ALL_SERIES
    fills: bool = field(default=False, kw_only=True)
    fills_near: bool = field(default=False, kw_only=True)

    @contextmanager
    def result(self, target: TargetTable, chunk: Chunk, watermark: int | None) -> Iterator[ChunkResult]:
        """Yield the finished windows of a chunk. Spark caches them until the `with` block ends if there may be many."""
        from pyspark.errors import PythonException

        near = self._near_result(target, chunk, watermark)
        if near is not None:
            yield near
            return
        with ExitStack() as cleanup:
            try:
                windows = self.windows(chunk.start, chunk.end, watermark)
                result = self._compute(target, chunk, windows, cleanup)
            except PythonException as error:
                if not has_raised(str(error), UnsupportedError):
                    raise
                windows = self.windows(chunk.start, chunk.end, watermark, use=KernelUse.NEVER)
                result = self._compute(target, chunk, windows, cleanup)
            yield result

    def _near_result(self, target: TargetTable, chunk: Chunk, watermark: int | None) -> ChunkResult | None:
        """Return the finished windows of a chunk that needs no job of Spark; None if it does."""
        if self.fills and not self.fills_near:
            return None
        windows = self._stored.results(*self._near_range(chunk.start, self._last_instant(chunk.end)))
        if windows is None:
            return None
        if self.grid is not None:
            start = windows[self._time_column]
            windows = windows.filter(pc.and_(pc.greater_equal(start, chunk.start), pc.less(start, chunk.end)))
        if watermark is not None:
            windows = windows.filter(pc.less(windows[WEND], watermark))
        if self.plan.fills_gaps:
            return FilledChunkResult(self.context, target, windows)
        return ArrowChunkResult(self.context, target, windows)

    @property
    def _stored(self) -> StoredWindows:
        return StoredWindows(self.context, self.plan, self.offsets, self.series)

    def _near_range(self, first: int, last: int | None) -> tuple[int | None, int | None]:
        """Return the range of the rows of windows; windows without a bound on their length have all rows of their series."""
        return (None, None) if last is None else (first, last)

    def _compute(self, target: TargetTable, chunk: Chunk, windows: DataFrame, cleanup: ExitStack) -> ChunkResult:
        """Compute the finished windows of a chunk, cached by Spark until `cleanup` if there may be many."""
        max_rows = self.context.settings.driver_rows
        if self.plan.fills_gaps and not self.fills:
            return FilledChunkResult(self.context, target, windows.toArrow())
        if self.max_windows(chunk) <= max_rows:
            return ArrowChunkResult(self.context, target, windows.toArrow())
        cached = windows.persist()
        cleanup.callback(cached.unpersist)
        if cached.count() <= max_rows:
            return ArrowChunkResult(self.context, target, cached.toArrow())
        return DataFrameChunkResult(self.context, target, cached)

    def max_windows(self, chunk: Chunk) -> int:
        """Return an upper bound of a chunk's windows: one for each row, or for each subtable the window starts in its range.

        FILL may add any number of them.
        """
        query, row_bound = self.plan.query, chunk.rows * windows_per_row(self.plan)
        if self.fills:
            return MAX_WINDOWS
        group_roles = [key.role for key in query.keys if not key.is_derived]
        if self.grid is None or query.window is None or group_roles not in ([], [ColumnRole.SERIES]):
            return row_bound
        if group_roles and self.plan.source.kind is TableKind.TREE:
            return row_bound
        starts = -((chunk.start - chunk.end) // self.grid.step)
        return min(row_bound, starts * (self._subtables if group_roles else 1))

    @property
    def _subtables(self) -> int:
        """The number of subtables of the source that the query reads."""
        source = self.plan.source
        is_single = self.plan.source_subtable is not None or source.kind is not TableKind.SUPER
        return 1 if is_single else self.context.tables.tags.read(source).num_rows

    def windows(self, start: int, end: int, watermark: int | None, use: KernelUse | None = None) -> DataFrame:
        """Return finished windows that start in `[start, end)` and end before `watermark` (None: all).

        Columns: `p…`, `_wstart` (the timestamp without a window), `o…`. `use` replaces the setting.
        """
        query = self.plan.query
        if query.window is None:
            rows = project(query, self._rows(start, self._last_instant(end)))
            return rows if self._is_exact(start, end) else rows.where(self._ownership_condition(start, end))
        use = use or KernelUse(self.context.settings.kernels)
        if self.fills and self.grid is not None:
            return self._filled_windows(self.grid, start, end, use)
        windows = self._aggregate(start, self._last_instant(end), use)
        if self.grid is not None and not self._is_exact(start, end):
            windows = windows.where(self._ownership_condition(start, end))
        if watermark is not None:
            windows = windows.where(f"{WEND} < {watermark}L")
        return fill_stored(query, windows) if self.fills else finish(query, windows)

    def _filled_windows(self, grid: WindowGrid, start: int, end: int, use: KernelUse) -> DataFrame:
        """Return the windows of the only group that start in `[start, end)`, and those that FILL adds up to the next one."""
        following = self._next_window(grid, end)
        last = end - 1 if following is None else following
        windows = self._aggregate(start, grid.floor(last) + grid.length - 1, use).where(self._ownership_condition(start, last + 1))
        filled = fill_stored(self.plan.query, windows)
        return filled if following is None else filled.where(self._ownership_condition(start, following))

    def _next_window(self, grid: WindowGrid, end: int) -> int | None:
        """Return the start of the first window that starts at `end` or later; None if there is none."""
        last_row = max((last for _, last, _ in source_extents(self.context, self.plan, self.offsets)), default=end - 1)
        first, size = end, grid.length
        while first <= last_row:
            rows = prepare(self.plan.query, self._rows(first, first + size - 1))
            instant = rows.agg(F.min(TS)).first()
            if instant is not None and instant[0] is not None:
                return max(grid.ceiling(end), grid.ceiling(int(instant[0]) - grid.length + 1))
            first, size = first + size, size * GROWTH
        return None

    def _aggregate(self, first: int, last: int | None, use: KernelUse) -> DataFrame:
        """Return the windows of the rows from `first` to `last`, both inclusive, by kernels if they can."""
        query = self.plan.query
        near = self._stored.windows(*self._near_range(first, last))
        if near is not None:
            return small_frame(self.context.spark(), near.select(list(window_columns(query))))
        self.context.spark()  # started here, since kernels ask for the active session
        version = self.offsets[self.plan.source_ids[0]]  # a virtual table has several, but kernels do not evaluate it
        has_quarantine = self.context.set_aside is not None
        shares = TableShares(self.context, use, version, first, last, self.series)
        by_kernels = None if has_quarantine else aggregate_by_kernels(query, shares)
        return aggregate_windows(query, prepare(query, self._rows(first, last))) if by_kernels is None else by_kernels.windows

    def open_windows(self, chunk: Chunk, watermark: int | None) -> pa.Table:
        """Return the windows of a chunk that end at the watermark or later, with the columns of finished windows."""
        near = self._stored.results(*self._near_range(chunk.start, self._last_instant(chunk.end)))
        if near is not None:
            return near.filter(pc.greater_equal(near[WEND], watermark)) if watermark is not None else near.slice(0, 0)
        windows = self.windows(chunk.start, chunk.end, None)
        return (windows.where("false") if watermark is None else windows.where(f"{WEND} >= {watermark}L")).toArrow()

    def groups(self) -> pa.Table:
        """Return the keys of all groups of the query, at any time."""
        keys = [key.column for key in self.plan.query.keys]
        if not keys:
            return pa.table({"_": [0]})
        if (near := self._stored.groups()) is not None:
            return near.group_by(keys).aggregate([])
        return prepare(self.plan.query, self._rows(None, None)).select(*keys).distinct().toArrow()

    def has_changed(self, start: int, end: int, since: Offsets) -> bool:
        """Return True if rows of windows that start in `[start, end)` have changed since other offsets."""
        return any(
            self._has_source_changed(table, since[source] + 1, self.offsets[source], start, end)
            for source, table in source_tables(self.context, self.plan.sources).items()
        )

    def _has_source_changed(self, source: Table, first: int, last: int, start: int, end: int) -> bool:
        tables = self.context.tables
        count = tables.changes.count(source, first, last) if first <= last else 0
        if count == 0:
            return False
        if count <= self.context.settings.driver_rows:
            pieces: Iterable[pa.Table] = [tables.changes.read(source, first, last)]
        else:
            pieces = (piece for version in range(first, last + 1) for piece in tables.changes.stream(source, version))
        bounds = Bounds.of_ticks(start, self._last_instant(end), self.plan.source_database.precision)
        return any(self._has_rows(piece, source, bounds) for piece in pieces)

    def _has_rows(self, rows: pa.Table, source: Table, bounds: Bounds) -> bool:
        """Return whether some rows are of a range of times, and of the series."""
        times = as_stored_integers(rows[source.timestamp.name])
        rows = rows.filter(pc.and_(pc.greater_equal(times, bounds.low), pc.less_equal(times, bounds.high)))
        mask = self.series.mask(rows[source.series_key].combine_chunks())
        return rows.num_rows > 0 if mask is None else bool(mask.any())

    @property
    def _time_column(self) -> str:
        return TS if self.plan.query.window is None else WSTART

    def _is_exact(self, start: int, end: int) -> bool:
        """Return True if the rows of `[start, end)` are exactly those of the windows that start there."""
        grid = self.grid
        return grid is not None and grid.length == grid.step and grid.floor(start) == start and grid.floor(end) == end

    def _ownership_condition(self, start: int, end: int) -> str:
        """Return the condition that a window belongs to the chunk.

        Spark may evaluate it on rows instead of windows, so callers omit it if it is always true.
        """
        return f"{self._time_column} >= {start}L AND {self._time_column} < {end}L"

    def _last_instant(self, end: int) -> int | None:
        """Return the last instant that a window starting before `end` may hold."""
        if self.grid is None:
            return None
        last_start = self.grid.floor(end - 1)
        return last_start + self.grid.length - 1

    def _rows(self, first: int | None, last: int | None) -> DataFrame:
        """Return the rows of the source from `first` to `last`, both inclusive, with tags joined."""
        rows = self._of_series(source_frame(self.context, self.plan, self.offsets))
        rows = rows.where(self._range_condition(first, last, self.plan.source.timestamp.name))
        scan = self.plan.query.scans[0]
        return rows.join(F.broadcast(self._tags), scan.table.series_key, "left") if scan.tags else rows

    def _of_series(self, rows: DataFrame) -> DataFrame:
        name = F.col(quote(self.plan.source.series_key))
        if self.series.first is not None:
            rows = rows.where(name >= F.lit(self.series.first))
        return rows if self.series.end is None else rows.where(name < F.lit(self.series.end))

    @cached_property
    def _tags(self) -> DataFrame:
        source = self.plan.source
        tags = self.context.tables.tags.read(source).select([source.series_key, *self.plan.query.scans[0].tags])
        return self.context.spark().createDataFrame(tags)

    def _range_condition(self, first: int | None, last: int | None, timestamp: str) -> str:
        """Return the condition that a row lies between two instants, in a form that lets Spark skip files."""
        name = quote(timestamp)
        unit = stored_units_per_tick(self.plan.source_database.precision)
        bounds = ((">=", first, 0), ("<=", last, unit - 1))
        conditions = [f"{name} {operator} {self._literal(ts * unit + offset)}" for operator, ts, offset in bounds if ts is not None]
        return " AND ".join(conditions) or "true"

    def _literal(self, stored: int) -> str:
        nanoseconds = self.plan.source_database.precision is Precision.NANOSECOND
        return f"{stored}L" if nanoseconds else f"timestamp_micros({stored}L)"


def windows_per_row(plan: StreamPlan) -> int:
    """Return the number of windows that a row lies in. A chunk of overlapping windows computes its rows that many times."""
    window = plan.query.interval
    return 1 if window is None else window.max_windows_per_instant(plan.query.precision)
