"""Compare a result with its recomputation, and explain the first difference."""

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
from headrace.verify.fill import UNTIL
from headrace.verify.frames import Lookup
from headrace.verify.query import QueryResult, Recomputation
from headrace.verify.values import unsupported

MAX_SAMPLE_ROWS: Final = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows to show.

    Attributes:
        names: Names of the columns.
        rows: The rows, instants in ticks.
        instants: Positions of the columns that hold instants.
    """

    names: tuple[str, ...]
    rows: tuple[ResultRow, ...]
    instants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between a result and its recomputation.

    Attributes:
        names: Names of the result's columns.
        expected: The recomputed row; None if the actual row has no counterpart.
        found: The actual row; None if the expected one is missing.
        columns: Names of the columns that differ.
        source: Source rows that the expected row was computed from, at most `MAX_SAMPLE_ROWS`.
        total: How many such rows there are.
        instants: Positions of the columns that hold instants.
    """

    names: tuple[str, ...]
    expected: ResultRow | None
    actual: ResultRow | None
    columns: tuple[str, ...]
    source: Sample
    total: int
    instants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """The outcome of a verification.

    Attributes:
        rows: Number of rows compared.
        seconds: How long DuckDB took.
        precision: The unit of ticks.
        windows: True if each row is a window's.
        difference: The first difference, None if there is none.
        remark: Why a difference may be legitimate, and what was not compared.
    """

    rows: int
    seconds: float
    precision: Precision
    windows: bool = False
    difference: Difference | None = None
    remark: str = ""

    @property
    def equal(self) -> bool:
        """True if the result equals its recomputation."""
        return self.difference is None


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """How a stream's target may differ from its query.

    Windows whose last instant is before `watermark` (None: all) must be in it; others may be, also with earlier values. `partial`
    means that the stream has not seen all rows, so that windows it never touched may be missing.
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
    """Recompute a query over the tables that `lookup` returns, and compare a result with it.

    Args:
        query: The query.
        result: Returns the result, with the columns of the select list; instants are timestamps, or ticks in a nanosecond database.
            Called once the query has proved to be supported.
        lookup: Returns a table by its name in the query.
        timezone: The time zone of a query without FROM.
        maintained: Set if the result is a stream's target. The first column of its query is the window's start or the row's
            timestamp.

    Raises:
        NotSupportedError: The query uses something that verify does not support.
        DataError: The result cannot be that of the query.
    """
    with open_database() as connection:
        started = time.perf_counter()
        answer, expected = recompute(connection, query, lookup, timezone, stream=maintained is not None)
        seconds = time.perf_counter() - started
        table = result()
        if len(answer.outputs) != table.num_columns:
            raise DataError(f"the query has {len(answer.outputs)} columns, the result {table.num_columns}")
        actual = to_rows(table, answer.precision)
        comparisons = [output.comparison for output in answer.outputs]
        allowance = STRICT if maintained is None else stream_allowance(connection, answer, maintained)
        mismatch = first_difference(expected, actual, comparisons, answer.sorted, allowance)
        difference = None if mismatch is None else explain_mismatch(connection, answer, mismatch)
        windows = isinstance(query, Query) and query.window is not None
        return VerificationResult(len(actual), seconds, answer.precision, windows, difference)


def recompute(
    connection: duckdb.DuckDBPyConnection, query: Query | Union, lookup: Lookup, timezone: str = "UTC", *, stream: bool = False
) -> tuple[QueryResult, list[ResultRow]]:
    """Recompute a query.

    Returns:
        Its relations, and its rows in order, instants as ticks.
    """
    try:
        answer = Recomputation(connection, lookup, timezone, stream).answer(query)
        columns = ", ".join(output.column for output in answer.outputs)
        return answer, connection.execute(f"SELECT {columns} FROM {answer.relation} ORDER BY _n").fetchall()
    except duckdb.Error as error:
        raise unsupported(f"this query in DuckDB: {str(error).splitlines()[0]}") from error


def stream_allowance(connection: duckdb.DuckDBPyConnection, answer: QueryResult, maintained: MaintainedTable) -> Allowance:
    """Return what a stream's target may lack, or have in addition, among the windows that are still open."""
    columns = table_columns(connection, answer.relation)
    if maintained.watermark is None or "_we" not in columns:
        return Allowance(missing=lambda _: maintained.partial)
    end = UNTIL if UNTIL in columns else "_we"
    rows = connection.execute(f"SELECT _ws, {end} >= {maintained.watermark} FROM {answer.relation} ORDER BY _n").fetchall()
    starts = {start for start, is_open in rows if is_open}
    return Allowance(lambda position: maintained.partial or rows[position][1], lambda row: row[0] in starts)


def to_rows(result: pa.Table, precision: Precision) -> list[ResultRow]:
    """Convert a result to rows of Python values, instants as ticks."""
    columns = [to_values(column, precision) for column in result.columns]
    return list(zip(*columns, strict=True))


def to_values(column: pa.ChunkedArray, precision: Precision) -> list[Any]:
    """Convert a column to Python values, instants as ticks."""
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if value is None else value * 1000 // precision.nanoseconds for value in micros]
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def explain_mismatch(connection: duckdb.DuckDBPyConnection, answer: QueryResult, mismatch: Mismatch) -> Difference:
    """Add the source rows to a difference."""
    names = tuple(output.name for output in answer.outputs)
    sample, total = sample_source_rows(connection, answer, mismatch.position)
    return Difference(
        names,
        mismatch.expected,
        mismatch.actual,
        tuple(names[position] for position in mismatch.columns),
        sample,
        total,
        tuple(position for position, output in enumerate(answer.outputs) if output.type == TIMESTAMP),
    )


def sample_source_rows(connection: duckdb.DuckDBPyConnection, answer: QueryResult, position: int | None) -> tuple[Sample, int]:
    """Return a sample of the rows behind the window or group at a position of the answer, and their number."""
    names = tuple(name for name, _, _ in answer.member_columns)
    instants = tuple(index for index, (_, _, type_) in enumerate(answer.member_columns) if type_ == TIMESTAMP)
    if answer.members is None or position is None:
        return Sample(names, ()), 0
    condition = members_condition(connection, answer, position)
    columns = ", ".join(column for _, column, _ in answer.member_columns)
    order = f" ORDER BY {answer.member_columns[instants[0]][1]}" if instants else ""
    rows = connection.execute(
        f"SELECT {columns} FROM {answer.members} m WHERE {condition}{order} LIMIT {MAX_SAMPLE_ROWS}"
    ).fetchall()
    total = connection.execute(f"SELECT count(*) FROM {answer.members} m WHERE {condition}").fetchone()
    return Sample(names, tuple(rows), instants), total[0] if total else 0


def members_condition(connection: duckdb.DuckDBPyConnection, answer: QueryResult, position: int) -> str:
    """Return the condition that selects the rows behind the answer's window at a position."""
    columns = table_columns(connection, answer.relation)
    window = f"(SELECT * FROM {answer.relation} ORDER BY _n LIMIT 1 OFFSET {position})"
    if any(column not in columns for column in answer.member_keys):
        return "false"
    keys = [column for column in answer.member_keys if column != "_ws"]
    tests = [f"m.{column} IS NOT DISTINCT FROM (SELECT {column} FROM {window})" for column in keys]
    if "_ws" in answer.member_keys:
        tests += [f"m._ws >= (SELECT _ws FROM {window})", f"m._we <= (SELECT _we FROM {window})"]
    return " AND ".join(tests) or "true"


def table_columns(connection: duckdb.DuckDBPyConnection, relation: str) -> Sequence[str]:
    """Return the names of a relation's columns."""
    return [row[0] for row in connection.execute(f"SELECT column_name FROM (DESCRIBE {relation})").fetchall()]
