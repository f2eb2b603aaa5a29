"""Queries over tables, in this process or on Spark: DataFrames of the tables that a plan reads, and the result as Arrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.compute import AnyPlan, Scan, TableStatistics, evaluate
from headrace.compute.columnar.near import evaluate_locally
from headrace.compute.nodes import UnsupportedError
from headrace.compute.plan import Plan
from headrace.compute.shares import KernelUse, WantedShares
from headrace.compute.sql_text import unassignable_raised
from headrace.context import Context
from headrace.errors import DataError, LimitError
from headrace.model.tables import Table, TableKind
from headrace.queries import running
from headrace.queries.local_rows import CountedReader, LocalReader, all_subtables
from headrace.storage.spark.arrow_results import collect_arrow
from headrace.storage.spark.task_errors import error_of_job, error_of_task, has_raised
from headrace.streams.sources.shares import TableShares
from headrace.streams.sources.virtual_frames import virtual_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headrace.compute import Scan
    from headrace.context import Context
    from headrace.storage.delta.shares import Share


OVERFLOW: Final = "long overflow"
"""What Java says of an instant with too many microseconds."""
STATUS: Final = re.compile(r"(\d{3}): (.*)", re.DOTALL)
MIN_LARGE_TABLE_ROWS: Final = 1_000_000
"""Smaller tables are not worth collecting statistics for."""
MAX_ENCODED_SUBTABLES: Final = 100_000
"""Each task gets the names of all subtables; with more than this, names stay in the rows."""


def read_scan(scan: Scan, context: Context) -> DataFrame:
    """Read a scan's table with the tags it needs, NULL for a series without tags. The plan filters rows by series."""
    from pyspark.sql import functions as F

    table = scan.table
    # New series get their tags before their rows, so tags that are read after the version of the rows have those of all of them.
    version = context.tables.version(table) if scan.tags and not table.is_virtual else None
    rows = virtual_frame(context, scan) if table.is_virtual else context.tables.frame(context.spark(), table, version=version)
    if not scan.tags:
        return rows
    tags = context.spark().createDataFrame(context.tables.tags.read(table).select([table.series_key, *scan.tags]))
    return rows.join(F.broadcast(tags), table.series_key, "left")


@dataclass
class Execution:
    """What has evaluated a query: a data frame, or this process, which has read rows; and the shares that kernels have read."""

    frame: DataFrame | None = None
    rows_read: int = 0
    shares: list[Share] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RecordedShares:
    """Shares of tables that are recorded when they are made."""

    provider: TableShares
    recorded: list[Share]

    @property
    def use(self) -> KernelUse:
        """See `ShareProvider`."""
        return self.provider.use

    def is_large(self, scan: Scan) -> bool:
        """See `ShareProvider`."""
        return self.provider.is_large(scan)

    def shares(self, wanted: WantedShares) -> Sequence[Share]:
        """See `ShareProvider`."""
        shares = self.provider.shares(wanted)
        self.recorded.extend(shares)
        return shares


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of tables, from Delta's own and from the lists of subtables. Remembers the names it has returned.

    With `large` False, no table counts as large.
    """

    context: Context
    large: bool = True
    names: dict[str, tuple[Table, set[str]]] = field(default_factory=dict)

    def size(self, scan: Scan) -> TableStatistics | None:
        """Return the statistics of a large table; None for any other."""
        table, tables = scan.table, self.context.tables
        # Only the rows of a tree and of an external table tell their series, and a virtual table stores none.
        has_list = table.kind is not TableKind.TREE and not table.is_virtual and table.external is None
        if not self.large or not has_list or tables.rows(table) < MIN_LARGE_TABLE_ROWS:
            return None
        names = self.subtables(scan)
        if names.num_rows > MAX_ENCODED_SUBTABLES:
            return None
        self.names[f"{table.database}.{table.name}"] = (table, set(names[0].to_pylist()))
        firsts, lasts, rows = zip(*tables.extents(table, scan.database, tables.version(table)), strict=True)
        return TableStatistics(max(1, (max(lasts) - min(firsts)) * names.num_rows // sum(rows)), names)

    def subtables(self, scan: Scan) -> pa.Table:
        """Return the series key and tags of every subtable; a plain table has one, named like itself."""
        return all_subtables(self.context, scan.table)

    def is_outdated(self) -> bool:
        """Return True if a table has gained a subtable since its names were returned."""
        return any(set(all_subtables(self.context, table)[0].to_pylist()) - names for table, names in self.names.values())


def collect(
    plan: AnyPlan, context: Context, *, ordered: bool = True, max_rows: int | None = None, execution: Execution | None = None
) -> pa.Table:
    """Evaluate a plan on Spark, and return all its rows, or `max_rows` of them. `execution` records how.

    It is evaluated again without surrogate keys if a subtable was added meanwhile, whose rows then lack a name.
    """
    statistics = Statistics(context)
    execution = execution or Execution()
    result = evaluate_with_kernels(plan, context, statistics, execution, ordered=ordered, max_rows=max_rows)
    if not statistics.is_outdated():
        return result
    frame = evaluate(plan, lambda scan: read_scan(scan, context), ordered=ordered, statistics=Statistics(context, large=False))
    return limited(by_spark_sql(frame, execution), max_rows)


def evaluate_bounded(plan: AnyPlan, context: Context, max_rows: int) -> pa.Table | None:
    """Evaluate a bound query and return all its rows in any order; None if there are more than `max_rows`.

    Raises what `evaluate_query` does.
    """
    plan = unordered(plan)
    local = evaluate_locally(plan, LocalReader(context), context.settings.local_rows, max_rows)
    if local is not None:
        return local
    context.spark()
    with translated():
        result = collect(plan, context, ordered=False, max_rows=max_rows + 1)
    return result if result.num_rows <= max_rows else None


@contextmanager
def stored_result(plan: AnyPlan, context: Context) -> Iterator[DataFrame]:
    """Evaluate a bound query, and keep its rows on the executors' disks for the duration of the context, in any order.

    Columns are named `c0`, `c1`, …. Raises what `evaluate_query` does.
    """
    from pyspark import StorageLevel

    context.spark()
    with translated():
        # Without statistics, so that rows of a subtable that is added meanwhile have its name.
        frame = evaluate(unordered(plan), lambda scan: read_scan(scan, context), ordered=False)
        stored = frame.toDF(*(f"c{number}" for number in range(len(plan.outputs)))).persist(StorageLevel.DISK_ONLY)
    try:
        with translated():
            yield stored
    finally:
        stored.unpersist()


def unordered(plan: AnyPlan) -> AnyPlan:
    """Return a plan without its ORDER BY, unless that decides which rows LIMIT keeps, or what FILL takes for a gap."""
    is_needed = plan.order.is_limited or (isinstance(plan, Plan) and plan.gap_fill is not None)
    return plan if is_needed else replace(plan, order=replace(plan.order, sorts=()))


def by_spark_sql(frame: DataFrame, execution: Execution) -> DataFrame:
    execution.frame = frame
    execution.shares.clear()
    return frame


def evaluate_with_kernels(
    plan: AnyPlan, context: Context, statistics: Statistics, execution: Execution, *, ordered: bool, max_rows: int | None
) -> pa.Table:
    """Evaluate a plan, by kernels if they can; without them if they meet a value that they do not handle."""
    from pyspark.errors import PythonException

    def read(scan: Scan) -> DataFrame:
        return read_scan(scan, context)

    try:
        shares = RecordedShares(TableShares(context, KernelUse(context.settings.kernels)), execution.shares)
        execution.frame = evaluate(plan, read, ordered=ordered, statistics=statistics, shares=shares)
        return limited(execution.frame, max_rows)
    except PythonException as error:
        if not has_raised(str(error), UnsupportedError):
            raise
        return limited(by_spark_sql(evaluate(plan, read, ordered=ordered, statistics=statistics), execution), max_rows)


def limited(frame: DataFrame, max_rows: int | None) -> pa.Table:
    """Return all rows of a data frame, or `max_rows` of them."""
    return collect_arrow(frame if max_rows is None else frame.limit(max_rows), running.check)


def evaluate_query(plan: AnyPlan, context: Context, execution: Execution | None = None, *, max_rows: int | None = None) -> pa.Table:
    """Evaluate a bound query and return all its rows, or at least the first `max_rows` of them. `execution` records how.

    Raises:
        DataError: A value is not valid for an expression.
        LimitError: FILL or INTERP would generate too many rows.
        OperationalError: Spark failed.
    """
    execution, reader = execution or Execution(), CountedReader(LocalReader(context))
    local = evaluate_locally(plan, reader, context.settings.local_rows)
    execution.rows_read = reader.rows_read
    if local is not None:
        running.check(local.num_rows, local.nbytes)
        return local
    context.spark()  # started here, since a query without a table asks for the active session
    with translated():
        return collect(plan, context, max_rows=max_rows, execution=execution)


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of Spark into ours."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as error:
        if OVERFLOW in str(error):
            raise calendar_error() from error
        raise error_of_job(str(error)) from error
    except PySparkException as error:
        if (invalid := unassignable_raised(error)) is not None:
            raise invalid from error
        condition = error.getCondition() or type(error).__name__
        first_line = str(error).strip().splitlines()[0]
        if OVERFLOW in first_line:
            raise calendar_error() from error
        if condition == "USER_RAISED_EXCEPTION":
            message = (error.getMessageParameters() or {}).get("errorMessage", first_line)
            raise raised_error(message) from error
        if condition.startswith(("ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE")):
            raise DataError(
                "a result of the expression is out of range", hint="cast its operands to DOUBLE, or leave them out with WHERE"
            ) from error
        if condition.startswith(("CAST_", "ARITHMETIC", "DIVIDE", "NUMERIC", "INVALID_")):
            raise DataError(
                first_line, hint="a value is not valid for the expression; cast it, or leave it out with WHERE"
            ) from error
        if (own := error_of_task(str(error))) is not None:
            raise own from error
        raise error_of_job(str(error)) from error


def calendar_error() -> DataError:
    """Return the error for an instant that no timestamp of Arrow can hold."""
    return DataError(
        "a timestamp of the result is outside the calendar", hint="numbers are ticks since 1970; leave it out with WHERE"
    )


def raised_error(message: str) -> LimitError | DataError:
    """Return the error that an expression of the query has raised. The message begins with a status if its language has one."""
    match = STATUS.fullmatch(message)
    if match is None:
        return LimitError(message, hint="narrow the range of timestamps in WHERE or RANGE, or make steps longer")
    return DataError(match[2], hint="leave the value out with WHERE, or choose another type").with_status(int(match[1]))
