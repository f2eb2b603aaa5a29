"""A stream's plan over the stored rows of its source at one version: Spark frames, bounded in time and pruned by it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F

from headrace.compute import finish, merge, prepare, segments
from headrace.compute.evaluate import project
from headrace.compute.plan import TS, WEND, WSTART, IntervalWindow
from headrace.model.streams import Chunk
from headrace.model.tables import TBNAME, TableKind
from headrace.model.time import Precision
from headrace.runtime.chunks import Grid
from headrace.runtime.context import Context
from headrace.streams import StreamPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Cuts of a large result need not be exact; this bounds the error to a thousandth of its rows.
ACCURACY: Final = 1_000


class Evaluation:
    """One stream at one source version. `grid` is where its windows may start, None where they have no bound."""

    def __init__(self, context: Context, plan: StreamPlan, version: int, grid: Grid | None) -> None:
        self._context = context
        self._plan = plan
        self._version = version
        self._grid = grid

    def slices(self, chunk: Chunk, frontier: int | None) -> Iterator[pa.Table]:
        """The finished windows of a chunk as Arrow tables that pass through this process, one at least, cut by time.

        Where the result may be large Spark keeps it meanwhile.
        """
        windows = self.windows(chunk.start, chunk.end, frontier)
        most = self._context.settings.driver_rows
        if chunk.rows * self._overlap <= most:
            yield windows.toArrow()
            return
        kept = windows.persist()
        try:
            count = kept.count()
            for low, high in pairwise(self._cuts(kept, -(-count // max(1, most)))):
                yield kept.where(f"{self._place} >= {low}L AND {self._place} < {high}L").toArrow()
        finally:
            kept.unpersist()

    def windows(self, start: int, end: int, frontier: int | None) -> DataFrame:
        """Finished windows that start in `[start, end)` and end before `frontier` (None: all): `p…`, their place in time, `o…`."""
        query = self._plan.query
        rows = self._rows(start, self._last_instant(end))
        if query.window is None:
            return project(query, rows).where(self._owned(start, end))
        found = segments(query, prepare(query, rows))
        if not isinstance(query.window, IntervalWindow):
            found = merge(query, found)
        if self._grid is not None:
            found = found.where(self._owned(start, end))
        if frontier is not None:
            found = found.where(f"{WEND} < {frontier}L")
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

    def _owned(self, start: int, end: int) -> str:
        return f"{self._place} >= {start}L AND {self._place} < {end}L"

    def _last_instant(self, end: int) -> int | None:
        """The last instant that a window which starts before `end` may hold."""
        return None if self._grid is None else end + self._grid.length - 2

    def _rows(self, first: int | None, last: int | None) -> DataFrame:
        """Rows of the source with instants from `first` to `last`, both inclusive, tags joined."""
        rows = self._context.tables.frame(self._context.spark(), self._plan.source, version=self._version)
        rows = rows.where(self._between(first, last))
        if self._plan.source_subtable is not None and self._plan.source.kind is TableKind.SUPER:
            rows = rows.where(F.col(TBNAME) == self._plan.source_subtable)
        scan = self._plan.query.scans[0]
        return rows.join(F.broadcast(self._tags), TBNAME, "left") if scan.tags else rows

    @cached_property
    def _tags(self) -> DataFrame:
        return self._context.spark().createDataFrame(self._context.tables.read_tags(self._plan.source))

    def _between(self, first: int | None, last: int | None) -> str:
        """The condition that a row's instant lies between two, in the form that lets files be skipped."""
        name = self._plan.source.timestamp.name.replace("`", "``")
        ends = ((">=", first, 0), ("<=", last, self._unit - 1))
        conditions = [f"`{name}` {sign} {self._literal(ts * self._unit + rest)}" for sign, ts, rest in ends if ts is not None]
        return " AND ".join(conditions) or "true"

    @property
    def _unit(self) -> int:
        """Stored units of one tick."""
        return 1_000 if self._plan.source_database.precision is Precision.MILLISECOND else 1

    def _literal(self, stored: int) -> str:
        nanoseconds = self._plan.source_database.precision is Precision.NANOSECOND
        return f"{stored}L" if nanoseconds else f"timestamp_micros({stored}L)"

    def _cuts(self, kept: DataFrame, count: int) -> list[int]:
        """Edges of about `count` ranges of time with equally many windows."""
        shares = ", ".join(str(number / count) for number in range(1, count))
        ends = kept.agg(F.min(self._place), F.max(self._place)).collect()[0]
        if ends[0] is None:
            return [0, 1]
        inner = kept.agg(F.expr(f"percentile_approx({self._place}, array({shares}), {ACCURACY})")).collect()[0][0] if shares else []
        return sorted({ends[0], ends[1] + 1, *inner})
