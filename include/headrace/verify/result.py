"""What verifying a result gives, and how."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa

from headrace.errors import DataError
from headrace.model.queries import Query, Union
from headrace.model.time import Precision
from headrace.model.types import TIMESTAMP
from headrace.storage.sandbox import open_database
from headrace.verify.compare import STRICT, Allowance, Mismatch, ResultRow, first_difference
from headrace.verify.frames import Lookup
from headrace.verify.query import Answer, Recomputation
from headrace.verify.values import unknown

MAX_ROWS: Final = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows to be shown; instants in ticks."""

    names: tuple[str, ...]
    rows: tuple[ResultRow, ...]
    instants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference: the row that is expected and the one that was found (None: there is none), the names of the columns in
    which they differ, and rows of the source that the expected row is made of, at most `MAX_ROWS` of `total`.
    """

    names: tuple[str, ...]
    expected: ResultRow | None
    found: ResultRow | None
    columns: tuple[str, ...]
    source: Sample
    total: int
    instants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """Whether a result is what DuckDB gets: of how many rows, in how many seconds of DuckDB, and the first difference if not.

    `windows` tells that each row is a window's. `remark` says what a difference may come from where it need not be a fault.
    """

    rows: int
    seconds: float
    precision: Precision
    windows: bool = False
    difference: Difference | None = None
    remark: str = ""

    @property
    def equal(self) -> bool:
        return self.difference is None


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """How far a result is that of a stream.

    Windows whose last instant is before `watermark` (None: all) must be in it; others may, and may be of an earlier state.
    `partial`: the stream has not seen all rows, and windows that it never touched are not in it.
    """

    watermark: int | None = None
    partial: bool = False


def verify(
    query: Query | Union,
    result: Callable[[], pa.Table],
    lookup: Lookup,
    timezone: str = "UTC",
    *,
    maintained: MaintainedTable | None = None,
) -> VerificationResult:
    """Recompute a query over the rows that `lookup` finds, and compare a result with it.

    `result`, which is asked for once the query is known to be one that can be recomputed, has the columns of the select list,
    instants as timestamps, or as ticks in a nanosecond database. `timezone` is that of a query without FROM. `maintained` tells
    that the result is a stream's: its query's first column is the window's start, or the row's timestamp.

    Raises:
        NotSupportedError: the query has something that verify does not know.
        DataError: the result cannot be that of the query.
    """
    with open_database() as connection:
        began = time.perf_counter()
        answer, expected = recomputed(connection, query, lookup, timezone, stream=maintained is not None)
        seconds = time.perf_counter() - began
        given = result()
        if len(answer.outputs) != given.num_columns:
            raise DataError(f"the query has {len(answer.outputs)} columns, the result {given.num_columns}")
        found = rows_of(given, answer.precision)
        likenesses = [output.likeness for output in answer.outputs]
        leave = STRICT if maintained is None else left_open(connection, answer, maintained)
        mismatch = first_difference(expected, found, likenesses, answer.sorted, leave)
        difference = None if mismatch is None else explained(connection, answer, mismatch)
        windows = isinstance(query, Query) and query.window is not None
        return VerificationResult(len(found), seconds, answer.precision, windows, difference)


def recomputed(
    connection: duckdb.DuckDBPyConnection, query: Query | Union, lookup: Lookup, timezone: str = "UTC", *, stream: bool = False
) -> tuple[Answer, list[ResultRow]]:
    """What DuckDB gets: the answer's relations, and its rows in order, instants as ticks."""
    try:
        answer = Recomputation(connection, lookup, timezone, stream).answer(query)
        columns = ", ".join(output.column for output in answer.outputs)
        return answer, connection.execute(f"SELECT {columns} FROM {answer.relation} ORDER BY _n").fetchall()
    except duckdb.Error as error:
        raise unknown(f"how to ask DuckDB for this: {str(error).splitlines()[0]}") from error


def left_open(connection: duckdb.DuckDBPyConnection, answer: Answer, maintained: MaintainedTable) -> Allowance:
    """What a stream's target may lack, and have besides, of the windows that are still open."""
    if maintained.watermark is None or "_we" not in table_columns(connection, answer.relation):
        return Allowance(missing=lambda _: maintained.partial)
    rows = connection.execute(f"SELECT _ws, _we >= {maintained.watermark} FROM {answer.relation} ORDER BY _n").fetchall()
    starts = {start for start, is_open in rows if is_open}
    return Allowance(lambda place: maintained.partial or rows[place][1], lambda row: row[0] in starts)


def rows_of(result: pa.Table, precision: Precision) -> list[ResultRow]:
    """A result's rows as Python values, instants as ticks."""
    columns = [values_of(column, precision) for column in result.columns]
    return list(zip(*columns, strict=True))


def values_of(column: pa.ChunkedArray, precision: Precision) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if value is None else value * 1000 // precision.nanoseconds for value in micros]
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def explained(connection: duckdb.DuckDBPyConnection, answer: Answer, mismatch: Mismatch) -> Difference:
    """A difference with the rows it is made of."""
    names = tuple(output.name for output in answer.outputs)
    sample, total = source_rows(connection, answer, mismatch.place)
    return Difference(
        names,
        mismatch.expected,
        mismatch.found,
        tuple(names[place] for place in mismatch.columns),
        sample,
        total,
        tuple(place for place, output in enumerate(answer.outputs) if output.type == TIMESTAMP),
    )


def source_rows(connection: duckdb.DuckDBPyConnection, answer: Answer, place: int | None) -> tuple[Sample, int]:
    """Rows of the window or group in a place of the answer."""
    names = tuple(name for name, _, _ in answer.shown)
    instants = tuple(number for number, (_, _, type_) in enumerate(answer.shown) if type_ == TIMESTAMP)
    if answer.members is None or place is None:
        return Sample(names, ()), 0
    inside = members_condition(connection, answer, place)
    columns = ", ".join(column for _, column, _ in answer.shown)
    order = f" ORDER BY {answer.shown[instants[0]][1]}" if instants else ""
    rows = connection.execute(f"SELECT {columns} FROM {answer.members} m WHERE {inside}{order} LIMIT {MAX_ROWS}").fetchall()
    counted = connection.execute(f"SELECT count(*) FROM {answer.members} m WHERE {inside}").fetchone()
    return Sample(names, tuple(rows), instants), counted[0] if counted else 0


def members_condition(connection: duckdb.DuckDBPyConnection, answer: Answer, place: int) -> str:
    """The condition that tells the rows of the answer's window at a place."""
    known = table_columns(connection, answer.relation)
    here = f"(SELECT * FROM {answer.relation} ORDER BY _n LIMIT 1 OFFSET {place})"
    if any(column not in known for column in answer.same):
        return "false"
    keys = [column for column in answer.same if column != "_ws"]
    tests = [f"m.{column} IS NOT DISTINCT FROM (SELECT {column} FROM {here})" for column in keys]
    if "_ws" in answer.same:
        tests += [f"m._ws >= (SELECT _ws FROM {here})", f"m._we <= (SELECT _we FROM {here})"]
    return " AND ".join(tests) or "true"


def table_columns(connection: duckdb.DuckDBPyConnection, relation: str) -> Sequence[str]:
    return [row[0] for row in connection.execute(f"SELECT column_name FROM (DESCRIBE {relation})").fetchall()]
