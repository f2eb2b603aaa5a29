"""Recompute queries over tables, from the definition of each clause in TDengine's documentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.model.queries import Query, Union
from headrace.verify.compare import STRICT, Allowance, ResultRow
from headrace.verify.result import Answer, VerificationResult, answer_rows, verify_answer
from headrace.verify.steps import END, START, Steps
from headrace.verify.tdengine.fill import UNTIL
from headrace.verify.tdengine.frames import Lookup, StoredTable
from headrace.verify.tdengine.recomputation import Recomputation

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["DroppedRows", "Lookup", "MaintainedTable", "StoredTable", "recompute", "verify"]


Matches = Callable[[ResultRow], bool]


@dataclass(slots=True)
class DroppedRows:
    """Rows that are not stored any more: first and last instants, with what a result of their groups matches.

    Windows may start `span` before the rows. `windows` counts those that differ.
    """

    ranges: Sequence[tuple[int, int, Matches]]
    span: int | None
    windows: int = 0

    def may_be_in(self, row: ResultRow, start: int, end: int | None = None) -> bool:
        """Return whether a window may have had some of the rows; without its end, the longest one counts."""
        return any(
            start <= last and (end is None or end >= first) and self._starts_late(start, first) and matches(row)
            for first, last, matches in self.ranges
        )

    def _starts_late(self, start: int, first: int) -> bool:
        return self.span is None or start >= first - self.span

    def explains(self, row: ResultRow) -> bool:
        """Return whether a window that differs may have had some of the rows, and count it if so."""
        explained = self.may_be_in(row, row[0])
        self.windows += explained
        return explained


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """How a stream's target may differ from its query.

    Windows whose last instant is before `watermark` (None: all) must be in it; others may be, also with earlier values. `partial`
    means that the stream has not seen all rows, so that windows it never touched may be missing. Windows may still have rows of
    subtables that were `dropped`.
    """

    watermark: int | None = None
    partial: bool = False
    dropped: DroppedRows | None = None


def verify(
    query: Query | Union,
    result: Callable[[], pa.Table],
    lookup: Lookup,
    timezone: str = "UTC",
    *,
    maintained: MaintainedTable | None = None,
) -> VerificationResult:
    """Recompute a query over the tables that `lookup` returns by name, and compare a result with it by `verify_answer`.

    The time zone is that of a query without FROM. Set `maintained` if the result is a stream's target: the first column of its
    query is the window's start or the row's timestamp.
    """

    def compute(steps: Steps) -> Answer:
        return Recomputation(steps, lookup, timezone, maintained is not None).answer(query)

    def allowance(steps: Steps, answer: Answer, expected: Sequence[ResultRow]) -> Allowance:
        if maintained is None:
            return STRICT
        allowed = _stream_allowance(steps, answer, maintained)
        return allowed if maintained.dropped is None else _with_dropped(steps, answer, expected, maintained.dropped, allowed)

    return verify_answer(compute, result, allowance=allowance)


def recompute(
    connection: duckdb.DuckDBPyConnection, query: Query | Union, lookup: Lookup, timezone: str = "UTC"
) -> tuple[Answer | None, list[ResultRow]]:
    """Recompute a query by `answer_rows`."""
    return answer_rows(connection, lambda steps: Recomputation(steps, lookup, timezone).answer(query))


def _with_dropped(
    steps: Steps, answer: Answer, expected: Sequence[ResultRow], dropped: DroppedRows, allowed: Allowance
) -> Allowance:
    """Return an allowance that also leaves out windows which only dropped rows explain."""
    columns = [row[0] for row in steps.connection.execute(f"DESCRIBE {answer.relation}").fetchall()]
    end = UNTIL if UNTIL in columns else END
    if END not in columns:
        return Allowance(allowed.missing, lambda row: allowed.extra(row) or dropped.explains(row))
    windows = steps.connection.execute(f"SELECT {START}, {end} FROM {answer.relation} ORDER BY _n").fetchall()
    return Allowance(
        lambda position: allowed.missing(position) or dropped.may_be_in(expected[position], *windows[position]),
        lambda row: allowed.extra(row) or dropped.explains(row),
    )


def _stream_allowance(steps: Steps, answer: Answer, maintained: MaintainedTable) -> Allowance:
    """Return what a stream's target may lack, or have in addition, among the windows that are still open."""
    columns = [row[0] for row in steps.connection.execute(f"DESCRIBE {answer.relation}").fetchall()]
    if maintained.watermark is None or END not in columns:
        return Allowance(missing=lambda _: maintained.partial)
    end = UNTIL if UNTIL in columns else END
    windows = f"SELECT {START}, {end} >= {maintained.watermark} FROM {answer.relation} ORDER BY _n"
    rows = steps.connection.execute(windows).fetchall()
    starts = {start for start, is_open in rows if is_open}
    return Allowance(lambda position: maintained.partial or rows[position][1], lambda row: row[0] in starts)
