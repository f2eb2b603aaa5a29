"""The demonstration's streams, and their comparison with the batch query."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa

from headrace.errors import InternalError
from headrace.service.session import Session


@dataclass(frozen=True, slots=True)
class DemoStream:
    """One stream: the statement is put together from its parts, as is the query that it maintains."""

    name: str
    target: str
    source: str
    select: str
    window: str
    options: str
    closed_only: bool
    """WINDOW_CLOSE: the window that is still open is not in the target."""

    @property
    def query(self) -> str:
        return f"SELECT {self.select} FROM demo.{self.source} PARTITION BY tbname {self.window}"

    @property
    def create(self) -> str:
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
    """How many windows agree; `different` is the first that does not, as (window, stream's row, query's row)."""

    stream: str
    windows: int
    different: tuple[datetime, object, object] | None = None


def compare(session: Session, stream: DemoStream) -> Comparison:
    """The stream's table against the query over the stored rows; of closed windows only, where only those are written."""
    columns = column_names(stream)
    expected = by_window(rows_of(session, stream.query, columns))
    got = by_window(rows_of(session, f"SELECT {', '.join(f'`{name}`' for name in columns)} FROM demo.{stream.target}", columns))
    if stream.closed_only and got:
        last = max(got)
        expected = {start: row for start, row in expected.items() if start <= last}
    for start in sorted(expected.keys() | got.keys()):
        if not same(expected.get(start), got.get(start)):
            return Comparison(stream.name, len(got), (start, got.get(start), expected.get(start)))
    return Comparison(stream.name, len(got))


def column_names(stream: DemoStream) -> list[str]:
    """Names of the target's columns: the window's start, then the aliases."""
    return ["_wstart", *(item.split()[-1] for item in stream.select.split(", ")[1:])]


def rows_of(session: Session, query: str, columns: list[str]) -> pa.Table:
    table = session.execute(query).table
    if table is None:
        raise InternalError(f"no rows from {query}")
    return table.rename_columns(columns)


Row = tuple[object, ...]


def by_window(rows: pa.Table) -> dict[datetime, Row]:
    """Rows by their first column."""
    return {row[0]: row[1:] for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)}


def same(left: Row | None, right: Row | None) -> bool:
    """Equal, up to the last digits of sums taken in another order."""
    if left is None or right is None:
        return False
    return all(close(one, other) for one, other in zip(left, right, strict=True))


def close(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-9 * max(1.0, abs(one), abs(other))
    return one == other
