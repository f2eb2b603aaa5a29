"""Queries on Spark: frames of the tables that a plan reads, and its result as Arrow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.compute import AnyPlan, Scan, TableStatistics, evaluate
from headrace.errors import DataError, LimitError, OperationalError
from headrace.model.tables import Table, TableKind
from headrace.runtime.context import Context
from headrace.service.results import Result
from headrace.storage.delta.extents import extents

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MIN_LARGE_TABLE_ROWS: Final = 1_000_000
"""From so many rows on it is worth to look for a faster way."""
MAX_ENCODED_SUBTABLES: Final = 100_000
"""Subtables that every task is given; with more of them their names stay in the rows."""


def read(scan: Scan, context: Context) -> DataFrame:
    """Read a scan's table with the tags it needs, NULL if a series has none; the plan confines rows to the series meant."""
    from pyspark.sql import functions as F

    rows = context.tables.frame(context.spark(), scan.table)
    if not scan.tags:
        return rows
    tags = context.spark().createDataFrame(context.tables.read_tags(scan.table).select([scan.table.series_key, *scan.tags]))
    return rows.join(F.broadcast(tags), scan.table.series_key, "left")


@dataclass(frozen=True, slots=True)
class Statistics:
    """Facts about tables, from Delta's statistics and their subtables. Remembers the names it has handed out.

    With `large` off no table counts as large.
    """

    context: Context
    large: bool = True
    names: dict[str, tuple[Table, set[str]]] = field(default_factory=dict)

    def size(self, scan: Scan) -> TableStatistics | None:
        """The size of a table with many rows."""
        table, tables = scan.table, self.context.tables
        # The series of a tree are listed nowhere but in its rows.
        if not self.large or table.kind is TableKind.TREE or tables.rows(table) < MIN_LARGE_TABLE_ROWS:
            return None
        names = self.subtables(scan)
        if names.num_rows > MAX_ENCODED_SUBTABLES:
            return None
        self.names[f"{table.database}.{table.name}"] = (table, set(names[0].to_pylist()))
        firsts, lasts, rows = zip(*extents(tables, table, scan.database, tables.version(table)), strict=True)
        return TableStatistics(max(1, (max(lasts) - min(firsts)) * names.num_rows // sum(rows)), names)

    def subtables(self, scan: Scan) -> pa.Table:
        """The series key and tags of every subtable; a plain table has its one name."""
        return self.all_subtables(scan.table)

    def all_subtables(self, table: Table) -> pa.Table:
        if table.kind is not TableKind.SUPER:
            return pa.table({table.series_key: [table.name]})
        return self.context.tables.read_subtables(table)

    def outdated(self) -> bool:
        """Whether a table has gained a subtable since its names were handed out."""
        return any(set(self.all_subtables(table)[0].to_pylist()) - names for table, names in self.names.values())


def collect(plan: AnyPlan, context: Context) -> pa.Table:
    """Evaluate a plan. Rows of a subtable that was written meanwhile may have lost their name: then without surrogate keys."""
    statistics = Statistics(context)
    result = evaluate(plan, lambda scan: read(scan, context), statistics=statistics).toArrow()
    if not statistics.outdated():
        return result
    return evaluate(plan, lambda scan: read(scan, context), statistics=Statistics(context, large=False)).toArrow()


def run_query(plan: AnyPlan, context: Context) -> Result:
    """Evaluate a bound query.

    Raises:
        DataError: a value that the expressions cannot take.
        LimitError: FILL or INTERP would make more rows than anyone can mean.
        OperationalError: Spark failed.
    """
    from pyspark.errors import PySparkException

    context.spark()  # started here, since a query without a table asks for the active session
    try:
        return Result(collect(plan, context))
    except PySparkException as error:
        condition = error.getCondition() or type(error).__name__
        first = str(error).strip().splitlines()[0]
        if condition == "USER_RAISED_EXCEPTION":
            message = (error.getMessageParameters() or {}).get("errorMessage", first)
            raise LimitError(message, hint="narrow the range of timestamps in WHERE or RANGE, or make steps longer") from error
        if condition.startswith(("CAST_", "ARITHMETIC", "DIVIDE", "NUMERIC", "INVALID_")):
            raise DataError(first, hint="a value is not valid for the expression; cast it, or leave it out with WHERE") from error
        raise OperationalError(f"Spark could not answer: {first}", hint="see the cause below, or the driver's log") from error
