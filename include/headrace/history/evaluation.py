"""A stream's plan over the stored rows of its source at one version: Spark frames, bounded in time and pruned by it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.compute import finish, prepare, whole
from headrace.compute.evaluate import project
from headrace.compute.plan import TS, WEND, WSTART, IntervalWindow
from headrace.compute.terms import ColumnRole, quote
from headrace.history.chunks import Grid
from headrace.history.results import ArrowChunkResult, ChunkResult, DataFrameChunkResult
from headrace.model.ledger import Chunk
from headrace.model.tables import TableKind
from headrace.model.time import Precision
from headrace.storage.spark.functions import F
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sinks.target import TargetTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ChunkEvaluation:
    """One stream at one source version. `grid` is where its windows may start, None where they have no bound."""

    def __init__(self, context: Context, plan: StreamPlan, version: int, grid: Grid | None) -> None:
        self._context = context
        self._plan = plan
        self._version = version
        self._grid = grid

    @contextmanager
    def result(self, target: TargetTable, chunk: Chunk, watermark: int | None) -> Iterator[ChunkResult]:
        """The finished windows of a chunk, for the length of a `with` block in which Spark keeps them where they may be many."""
        windows = self.windows(chunk.start, chunk.end, watermark)
        most = self._context.settings.driver_rows
        if self.most_windows(chunk) <= most:
            yield ArrowChunkResult(self._context, target, windows.toArrow())
            return
        kept = windows.persist()
        try:
            few = kept.count() <= most
            yield (
                ArrowChunkResult(self._context, target, kept.toArrow())
                if few
                else DataFrameChunkResult(self._context, target, kept)
            )
        finally:
            kept.unpersist()

    def most_windows(self, chunk: Chunk) -> int:
        """How many windows a chunk has at most: one for each row of it, and for each subtable as many as start in its range."""
        query, by_rows = self._plan.query, chunk.rows * self._overlap
        telling = [key.role for key in query.keys if not key.follows]
        if self._grid is None or query.window is None or telling not in ([], [ColumnRole.SERIES]):
            return by_rows
        if telling and self._plan.source.kind is TableKind.TREE:
            return by_rows
        starts = -((chunk.start - chunk.end) // self._grid.step)
        return min(by_rows, starts * (self._subtables if telling else 1))

    @property
    def _subtables(self) -> int:
        """Subtables of the source that the query reads."""
        source = self._plan.source
        alone = self._plan.source_subtable is not None or source.kind is not TableKind.SUPER
        return 1 if alone else self._context.tables.read_tags(source).num_rows

    def windows(self, start: int, end: int, watermark: int | None) -> DataFrame:
        """Finished windows that start in `[start, end)` and end before `watermark` (None: all): `p…`, their place in time, `o…`."""
        query = self._plan.query
        rows = self._rows(start, self._last_instant(end))
        if query.window is None:
            return project(query, rows) if self._exact(start, end) else project(query, rows).where(self._owned(start, end))
        found = whole(query, prepare(query, rows))
        if self._grid is not None and not self._exact(start, end):
            found = found.where(self._owned(start, end))
        if watermark is not None:
            found = found.where(f"{WEND} < {watermark}L")
        return finish(query, found)

    def groups(self) -> pa.Table:
        """The keys of each group that the query has, of any time."""
        keys = [key.column for key in self._plan.query.keys]
        if not keys:
            return pa.table({"_": [0]})
        return prepare(self._plan.query, self._rows(None, None)).select(*keys).distinct().toArrow()

    def changed(self, start: int, end: int, first: int, last: int) -> bool:
        """Whether source versions `first` to `last` have changed rows of windows that start in `[start, end)`."""
        tables, source = self._context.tables, self._plan.source
        if tables.change_rows(source, first, last) <= self._context.settings.driver_rows:
            rows = self._context.spark().createDataFrame(tables.changes(source, first, last))
        else:
            rows = tables.changes_frame(self._context.spark(), source, first, last)
        return rows.where(self._between(start, self._last_instant(end))).limit(1).count() > 0

    @property
    def _place(self) -> str:
        """The column of a finished window that tells where in time it stands."""
        return TS if self._plan.query.window is None else WSTART

    @property
    def _overlap(self) -> int:
        window = self._plan.query.window
        return window.most_slides(self._plan.query.precision) if isinstance(window, IntervalWindow) else 1

    def _exact(self, start: int, end: int) -> bool:
        """Whether rows of `[start, end)` are those of the windows that start there, and no others."""
        grid = self._grid
        return grid is not None and grid.length == grid.step and grid.floor(start) == start and grid.floor(end) == end

    def _owned(self, start: int, end: int) -> str:
        """Of a row for itself Spark would evaluate this condition, and not of a window: it is left out where it holds always."""
        return f"{self._place} >= {start}L AND {self._place} < {end}L"

    def _last_instant(self, end: int) -> int | None:
        """The last instant that a window which starts before `end` may hold."""
        if self._grid is None:
            return None
        last_start = self._grid.floor(end - 1)
        return last_start + self._grid.length - 1

    def _rows(self, first: int | None, last: int | None) -> DataFrame:
        """Rows of the source with instants from `first` to `last`, both inclusive, tags joined."""
        rows = self._context.tables.frame(self._context.spark(), self._plan.source, version=self._version)
        rows = rows.where(self._between(first, last))
        scan = self._plan.query.scans[0]
        return rows.join(F.broadcast(self._tags), scan.table.series_key, "left") if scan.tags else rows

    @cached_property
    def _tags(self) -> DataFrame:
        source = self._plan.source
        tags = self._context.tables.read_tags(source).select([source.series_key, *self._plan.query.scans[0].tags])
        return self._context.spark().createDataFrame(tags)

    def _between(self, first: int | None, last: int | None) -> str:
        """The condition that a row's instant lies between two, in the form that lets files be skipped."""
        name = quote(self._plan.source.timestamp.name)
        ends = ((">=", first, 0), ("<=", last, self._unit - 1))
        conditions = [f"{name} {sign} {self._literal(ts * self._unit + rest)}" for sign, ts, rest in ends if ts is not None]
        return " AND ".join(conditions) or "true"

    @property
    def _unit(self) -> int:
        """Stored units of one tick."""
        return 1_000 if self._plan.source_database.precision is Precision.MILLISECOND else 1

    def _literal(self, stored: int) -> str:
        nanoseconds = self._plan.source_database.precision is Precision.NANOSECOND
        return f"{stored}L" if nanoseconds else f"timestamp_micros({stored}L)"
