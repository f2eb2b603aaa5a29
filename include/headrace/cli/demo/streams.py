"""The demonstration's streams, and the comparison of their tables with the batch query."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa

from headrace.errors import InternalError
from headrace.service.session import Session


@dataclass(frozen=True, slots=True)
class DemoStream:
    """A stream of the demonstration; its statement and its query are built from the same parts."""

    name: str
    target: str
    source: str
    select: str
    window: str
    options: str
    closed_only: bool
    """True for WINDOW_CLOSE: the target has no open windows."""

    @property
    def query(self) -> str:
        """The batch query that the stream maintains."""
        return f"SELECT {self.select} FROM demo.{self.source} PARTITION BY tbname {self.window}"

    @property
    def create_statement(self) -> str:
        return f"CREATE STREAM demo.{self.name} {self.options} FILL_HISTORY 1 INTO demo.{self.target} AS\n  {self.query}"


STREAMS: Final = (
    DemoStream(
        "glucose_by_hour",
        "glucose_hourly",
        "glucose",
        "_wstart, avg(glucose) mean, min(glucose) low, max(glucose) high, count(*) readings",
        "INTERVAL(1h)",
        "TRIGGER AT_ONCE",
        False,
    ),
    DemoStream(
        "sea_by_day",
        "sea_daily",
        "sea",
        "_wstart, avg(temperature) mean, spread(temperature) spread, count(*) readings",
        "INTERVAL(1d)",
        "TRIGGER WINDOW_CLOSE",
        True,
    ),
    DemoStream(
        "glucose_last_6h",
        "glucose_sliding",
        "glucose",
        "_wstart, avg(glucose) mean, stddev(glucose) spread",
        "INTERVAL(6h) SLIDING(1h)",
        "TRIGGER WINDOW_CLOSE WATERMARK 30m",
        True,
    ),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Outcome of a comparison: the number of windows in the target, and the first one that differs from the query."""

    stream: str
    windows: int
    first_difference: tuple[datetime, object, object] | None = None
    """Start of the window, the stream's row, the query's row."""


def compare_with_query(session: Session, stream: DemoStream) -> Comparison:
    """Compare a stream's target with its query over the stored rows, up to the last window that the target may hold."""
    columns = target_column_names(stream)
    query_windows = index_by_window(query_rows(session, stream.query, columns))
    target_windows = index_by_window(
        query_rows(session, f"SELECT {', '.join(f'`{name}`' for name in columns)} FROM demo.{stream.target}", columns)
    )
    if stream.closed_only and target_windows:
        last = max(target_windows)
        query_windows = {start: row for start, row in query_windows.items() if start <= last}
    for start in sorted(query_windows.keys() | target_windows.keys()):
        if not are_same_rows(query_windows.get(start), target_windows.get(start)):
            return Comparison(stream.name, len(target_windows), (start, target_windows.get(start), query_windows.get(start)))
    return Comparison(stream.name, len(target_windows))


def target_column_names(stream: DemoStream) -> list[str]:
    """Return the names of the target's columns: the window's start, then the aliases."""
    return ["_wstart", *(item.split()[-1] for item in stream.select.split(", ")[1:])]


def query_rows(session: Session, query: str, columns: list[str]) -> pa.Table:
    """Run a query, and return its rows with the columns renamed."""
    table = session.execute(query).table
    if table is None:
        raise InternalError(f"the query returned no rows: {query}")
    return table.rename_columns(columns)


Row = tuple[object, ...]


def index_by_window(rows: pa.Table) -> dict[datetime, Row]:
    return {row[0]: row[1:] for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)}


def are_same_rows(left: Row | None, right: Row | None) -> bool:
    """Return True if two rows are equal up to rounding, which depends on the order of summation."""
    if left is None or right is None:
        return False
    return all(are_close(a, b) for a, b in zip(left, right, strict=True))


def are_close(left: object, right: object) -> bool:
    """Return True if two values are equal, floats up to a relative error of 1e-9."""
    if isinstance(left, float) and isinstance(right, float):
        return abs(left - right) <= 1e-9 * max(1.0, abs(left), abs(right))
    return left == right
