"""Queries on Spark: frames of the tables that a plan reads, and its result as Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.compute import AnyPlan, Scan, evaluate
from headrace.errors import DataError, LimitError, OperationalError
from headrace.model.tables import TBNAME, TableKind
from headrace.model.time import Precision
from headrace.runtime.context import Context
from headrace.service.results import Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MANY_ROWS: Final = 1_000_000
"""From so many rows on it is worth to know how far apart they are."""


def read(scan: Scan, context: Context) -> DataFrame:
    """Rows of a table as a scan wants them: of one subtable where it names one, tags joined where it needs some."""
    from pyspark.sql import functions as F

    rows = context.tables.frame(context.spark(), scan.table)
    if scan.subtable is not None and scan.table.kind is TableKind.SUPER:
        rows = rows.where(F.col(TBNAME) == scan.subtable)
    if not scan.tags:
        return rows
    tags = context.spark().createDataFrame(context.tables.read_tags(scan.table))
    return rows.join(F.broadcast(tags), TBNAME)


def spacing(scan: Scan, context: Context) -> int | None:
    """About how many ticks lie between two rows of a subtable, from statistics; None of a table that is small."""
    table, tables = scan.table, context.tables
    rows, bounds = tables.rows(table), tables.bounds(table)
    if rows < MANY_ROWS or bounds is None:
        return None
    subtables = tables.read_tags(table).num_rows if table.kind is TableKind.SUPER else 1
    ticks = (bounds.high - bounds.low) // (1000 if scan.database.precision is Precision.MILLISECOND else 1)
    return max(1, ticks * subtables // rows)


def run_query(plan: AnyPlan, context: Context) -> Result:
    """Evaluate a bound query.

    Raises:
        DataError: a value that the expressions cannot take.
        LimitError: FILL or INTERP would make more rows than anyone can mean.
        OperationalError: Spark failed.
    """
    from pyspark.errors import PySparkException

    try:
        frame = evaluate(plan, lambda scan: read(scan, context), spacing=lambda scan: spacing(scan, context))
        return Result(frame.toArrow())
    except PySparkException as error:
        condition = error.getCondition() or type(error).__name__
        first = str(error).strip().splitlines()[0]
        if condition == "USER_RAISED_EXCEPTION":
            message = (error.getMessageParameters() or {}).get("errorMessage", first)
            raise LimitError(message, hint="narrow the range of timestamps in WHERE or RANGE, or make steps longer") from error
        if condition.startswith(("CAST_", "ARITHMETIC", "DIVIDE", "NUMERIC", "INVALID_")):
            raise DataError(first, hint="a value does not fit the expression; cast it, or leave it out with WHERE") from error
        raise OperationalError(f"Spark could not answer: {first}", hint="see the cause below, or the driver's log") from error
