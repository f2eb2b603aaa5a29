"""Compare a result with its recomputation, and explain the first difference."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.errors import DataError
from headrace.model.time import Precision
from headrace.model.types import TIMESTAMP, DataType
from headrace.storage.sandbox import open_database
from headrace.verify.compare import STRICT, Allowance, ComparisonMode, Mismatch, ResultRow, first_difference
from headrace.verify.steps import Steps
from headrace.verify.values import unsupported
from headrace.verify.zones import MACROS

if TYPE_CHECKING:
    import duckdb

MAX_SAMPLE_ROWS: Final = 20


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result: its name in the relation, its own name, its type, and how it is compared."""

    column: str
    name: str
    type: DataType | None
    comparison: ComparisonMode = ComparisonMode.EXACT


@dataclass(frozen=True, slots=True)
class Members:
    """The rows behind the rows of a result: what to show of them, as (name, column, type), and the conditions that tell them.

    A condition is that of a row `m` to belong to the row of the result in the relation `{row}`.
    """

    relation: str
    columns: tuple[tuple[str, str, DataType | None], ...]
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A recomputed result: a relation with the columns of `outputs`, in the order of `_n`.

    Attributes:
        ordered: Positions of the columns whose order is defined.
        members: The rows behind it, if they are known.
        windows: True if each row is a window's.
    """

    relation: str
    outputs: tuple[Output, ...]
    precision: Precision
    timezone: str
    ordered: tuple[int, ...] = ()
    members: Members | None = None
    windows: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(output.name for output in self.outputs)

    @property
    def instants(self) -> tuple[int, ...]:
        """The positions of the columns that hold instants."""
        return tuple(position for position, output in enumerate(self.outputs) if output.type == TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows to show, instants in ticks; `instants` are the positions of the columns that hold some."""

    names: tuple[str, ...]
    rows: tuple[ResultRow, ...]
    instants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between a result and its recomputation.

    Attributes:
        expected: The recomputed row; None if the actual row has no counterpart.
        actual: The actual row; None if the expected one is missing.
        columns: Names of the columns that differ.
        source: Source rows that the expected row was computed from, at most `MAX_SAMPLE_ROWS` of `total`.
        instants: Positions of the columns that hold instants.
    """

    names: tuple[str, ...]
    expected: ResultRow | None
    actual: ResultRow | None
    columns: tuple[str, ...]
    source: Sample
    total: int
    instants: tuple[int, ...] = ()

    @property
    def summary(self) -> str:
        """What differs, in a few words."""
        if self.actual is None:
            return "one is missing"
        return "one is unexpected" if self.expected is None else ", ".join(self.columns)


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """The outcome of a verification.

    Attributes:
        rows: Number of rows compared.
        seconds: How long DuckDB took.
        windows: True if each row is a window's.
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
        return self.difference is None


Recompute = Callable[[Steps], Answer | None]
"""Computes a query in steps; None if its paths match no series."""
AllowanceOf = Callable[[Steps, Answer, Sequence[ResultRow]], Allowance]
"""Returns the tolerated differences from an answer with these rows."""


def answer_rows(connection: duckdb.DuckDBPyConnection, recompute: Recompute) -> tuple[Answer | None, list[ResultRow]]:
    """Return the relations of a recomputed query, and its rows in order, instants as ticks.

    Raises:
        NotSupportedError: The query uses something that verify does not support.
    """
    import duckdb

    for macro in MACROS:
        connection.execute(macro)
    try:
        answer = recompute(Steps(connection))
        if answer is None:
            return None, []
        columns = ", ".join(output.column for output in answer.outputs)
        return answer, connection.execute(f"SELECT {columns} FROM {answer.relation} ORDER BY _n").fetchall()
    except duckdb.Error as error:
        raise unsupported(f"this query in DuckDB: {str(error).splitlines()[0]}") from error


def verify_answer(
    recompute: Recompute,
    result: Callable[[], pa.Table],
    *,
    by_name: bool = False,
    allowance: AllowanceOf = lambda _steps, _answer, _rows: STRICT,
) -> VerificationResult:
    """Recompute a query, and compare a result with it, in which instants are timestamps, or ticks in a nanosecond database.

    The result is asked for only if the query is supported. Columns are paired by position, or `by_name`. `allowance` returns how
    the result may differ.

    Raises:
        NotSupportedError: The query uses something that verify does not support.
        DataError: The result cannot be that of the query.
    """
    with open_database() as connection:
        started = time.perf_counter()
        answer, expected = answer_rows(connection, recompute)
        seconds = time.perf_counter() - started
        if answer is None:
            raise unsupported("a query whose paths match no series")
        table = _in_order(result(), answer.names) if by_name else result()
        if len(answer.outputs) != table.num_columns:
            raise DataError(f"the query has {len(answer.outputs)} columns, the result {table.num_columns}")
        actual = list(zip(*(_to_values(column, answer.precision) for column in table.columns), strict=True))
        comparisons = [output.comparison for output in answer.outputs]
        allowed = allowance(Steps(connection), answer, expected)
        mismatch = first_difference(expected, actual, comparisons, answer.ordered, allowed)
        difference = None if mismatch is None else _explain(connection, answer, mismatch)
        return VerificationResult(len(actual), seconds, answer.precision, answer.windows, difference)


def _in_order(table: pa.Table, expected: Sequence[str]) -> pa.Table:
    """Return a table with its columns in the order of the expected names, of which several may be equal."""
    if Counter(table.column_names) != Counter(expected):
        lacking, extra = Counter(expected) - Counter(table.column_names), Counter(table.column_names) - Counter(expected)
        raise DataError(
            f"the result lacks the columns {sorted(lacking)}" if lacking else f"the result has the columns {sorted(extra)} as well",
            hint="the expected columns are " + ", ".join(expected),
        )
    positions: dict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(table.column_names):
        positions[name].append(position)
    chosen = [positions[name].pop(0) for name in expected]
    return pa.table([table.column(position) for position in chosen], [f"c{number}" for number in range(len(chosen))])


def _to_values(column: pa.ChunkedArray, precision: Precision) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if value is None else value * 1000 // precision.nanoseconds for value in micros]
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def _explain(connection: duckdb.DuckDBPyConnection, answer: Answer, mismatch: Mismatch) -> Difference:
    sample, total = sample_members(connection, answer, mismatch.position)
    columns = tuple(answer.names[position] for position in mismatch.columns)
    return Difference(answer.names, mismatch.expected, mismatch.actual, columns, sample, total, answer.instants)


def sample_members(connection: duckdb.DuckDBPyConnection, answer: Answer, position: int | None) -> tuple[Sample, int]:
    """Return some of the rows behind the row of an answer at a position, and their number."""
    columns = () if answer.members is None else answer.members.columns
    names = tuple(name for name, _, _ in columns)
    if answer.members is None or position is None:
        return Sample(names, ()), 0
    row = f"(SELECT * FROM {answer.relation} ORDER BY _n LIMIT 1 OFFSET {position})"
    where = " AND ".join(test.format(row=row) for test in answer.members.tests) or "true"
    chosen = f"FROM {answer.members.relation} m WHERE {where}"
    instants = tuple(index for index, (_, _, type_) in enumerate(columns) if type_ == TIMESTAMP)
    order = f" ORDER BY {columns[instants[0]][1]}" if instants else ""
    shown = ", ".join(column for _, column, _ in columns)
    rows = connection.execute(f"SELECT {shown} {chosen}{order} LIMIT {MAX_SAMPLE_ROWS}").fetchall()
    total = connection.execute(f"SELECT count(*) {chosen}").fetchone()
    return Sample(names, tuple(rows), instants), total[0] if total else 0
