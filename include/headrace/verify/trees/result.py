"""Compare the result of a query over trees with its recomputation."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.errors import DataError
from headrace.model.tree_queries import TreeQuery
from headrace.model.types import TIMESTAMP
from headrace.storage.sandbox import open_database
from headrace.verify.aggregates import ComparisonMode
from headrace.verify.compare import Mismatch, ResultRow, first_difference
from headrace.verify.result import MAX_SAMPLE_ROWS, Difference, Sample, VerificationResult, to_rows
from headrace.verify.trees.query import TreeRecomputation
from headrace.verify.trees.select import DEVICE_NAME, TIME_NAME, TreeResult
from headrace.verify.trees.source import TreeSource
from headrace.verify.values import unsupported

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class RecomputedTree:
    """A recomputed result: names of its columns, the positions of those that are instants, and its rows, instants in ticks."""

    names: tuple[str, ...]
    instants: tuple[int, ...]
    rows: list[ResultRow]


def recompute_tree(query: TreeQuery, source: TreeSource) -> RecomputedTree | None:
    """Recompute a query; None if its paths match no series.

    Raises:
        NotSupportedError: The query uses something that verify does not support.
    """
    with open_database() as connection:
        result, rows = recompute(connection, query, source)
        return None if result is None else RecomputedTree(names(result), instants(result), rows)


def verify_tree(
    query: TreeQuery, result: Callable[[], pa.Table], source: TreeSource, *, written: bool = False
) -> VerificationResult:
    """Recompute a query, and compare a result with it. Columns are paired by name, since their order has no meaning.

    Args:
        query: The query, without INTO.
        result: Returns the result. Called once the query has proved to be supported.
        source: The devices and rows that it reads; see `within` to restrict a query to a range of time.
        written: The result was written to series, in which a row without any value leaves no trace.

    Raises:
        NotSupportedError: The query uses something that verify does not support.
        DataError: The result does not have the columns of the query.
    """
    with open_database() as connection:
        started = time.perf_counter()
        recomputed, expected = recompute(connection, query, source)
        seconds = time.perf_counter() - started
        if recomputed is None:
            raise unsupported("a query whose paths match no series")
        actual = to_rows(in_order(result(), names(recomputed)), recomputed.precision)
        comparisons = [ComparisonMode.EXACT] * len(recomputed.outputs)
        kept = positions_with_values(recomputed, expected) if written else list(range(len(expected)))
        mismatch = first_difference([expected[position] for position in kept], actual, comparisons, recomputed.ordered)
        if mismatch is not None and mismatch.position is not None:
            mismatch = replace(mismatch, position=kept[mismatch.position])
        difference = None if mismatch is None else explain(connection, recomputed, mismatch)
        return VerificationResult(len(actual), seconds, recomputed.precision, recomputed.windowed, difference)


def recompute(
    connection: duckdb.DuckDBPyConnection, query: TreeQuery, source: TreeSource
) -> tuple[TreeResult | None, list[ResultRow]]:
    """Return the relations of a recomputed query and its rows in order."""
    import duckdb

    try:
        result = TreeRecomputation(connection, source).result(query)
        if result is None:
            return None, []
        columns = ", ".join(output.column for output in result.outputs)
        return result, connection.execute(f"SELECT {columns} FROM {result.relation} ORDER BY _n").fetchall()
    except duckdb.Error as error:
        raise unsupported(f"this query in DuckDB: {str(error).splitlines()[0]}") from error


def positions_with_values(result: TreeResult, rows: Sequence[ResultRow]) -> list[int]:
    """Return the positions of the rows that have a value beside time and device."""
    values = [position for position, name in enumerate(names(result)) if name not in (TIME_NAME, DEVICE_NAME)]
    return [number for number, row in enumerate(rows) if any(row[position] is not None for position in values)]


def names(result: TreeResult) -> tuple[str, ...]:
    """Return the names of a result's columns."""
    return tuple(output.name for output in result.outputs)


def instants(result: TreeResult) -> tuple[int, ...]:
    """Return the positions of the columns that hold instants."""
    return tuple(position for position, output in enumerate(result.outputs) if output.type == TIMESTAMP)


def in_order(table: pa.Table, expected: Sequence[str]) -> pa.Table:
    """Return a table with its columns in the order of the expected names.

    Raises:
        DataError: It has other columns.
    """
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


def explain(connection: duckdb.DuckDBPyConnection, result: TreeResult, mismatch: Mismatch) -> Difference:
    """Add the rows behind it to a difference."""
    sample, total = sample_rows(connection, result, mismatch.position)
    columns = tuple(names(result)[position] for position in mismatch.columns)
    return Difference(names(result), mismatch.expected, mismatch.actual, columns, sample, total, instants(result))


def sample_rows(connection: duckdb.DuckDBPyConnection, result: TreeResult, position: int | None) -> tuple[Sample, int]:
    """Return some of the rows that a row of the result was computed from, and their number."""
    rows = result.rows
    keys = ["_ts"] + (["_device"] if rows.devices is not None else [])
    shown = ("Time", "Device")[: len(keys)] + tuple(rows.columns)
    if position is None:
        return Sample(shown, ()), 0
    available = [name for name, *_ in connection.execute(f"DESCRIBE {result.relation}").fetchall()]
    row = f"(SELECT * FROM {result.relation} ORDER BY _n LIMIT 1 OFFSET {position})"
    tests = [f"r._device = (SELECT _device FROM {row})"] if rows.devices is not None else []
    if "_first" in available:
        tests.append(f"r._ts BETWEEN (SELECT _first FROM {row}) AND (SELECT _last FROM {row})")
    elif "_time" in available:
        tests.append(f"r._ts = (SELECT _time FROM {row})")
    chosen = f"FROM {rows.relation} r WHERE {' AND '.join(tests) or 'true'}"
    columns = ", ".join([*keys, *(column.sql for column in rows.columns.values())])
    sample = connection.execute(f"SELECT {columns} {chosen} ORDER BY _ts LIMIT {MAX_SAMPLE_ROWS}").fetchall()
    total = connection.execute(f"SELECT count(*) {chosen}").fetchone()
    return Sample(shown, tuple(sample), (0,)), total[0] if total else 0
