"""The last steps of a query: DISTINCT, SLIMIT, ORDER BY, LIMIT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.compute import nodes
from headrace.compute.frames import Frame, SparkRows
from headrace.compute.nodes import Node, Over, bigint, both, call, integer, negated
from headrace.compute.plan import Plan
from headrace.compute.plan_clauses import NO_CALLS, ResultOrder, Sort
from headrace.compute.plan_sources import SeriesRows
from headrace.compute.windows.numbering import over
from headrace.errors import LimitError
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

R = TypeVar("R", bound=Frame)
MAX_SPARK_ROWS: Final = 2**31 - 1
RANK: Final = "_rank"
RANGE_PARTITION: Final = "_range_partition"
"""The rank of a subtable's name, from 0, and the range partition of that rank."""


def order_result(plan: Plan, rows: DataFrame, natural: Sequence[str], *, ordered: bool) -> DataFrame:
    """Return the columns of the select list, sorted and limited. `natural` is the order by partition and time."""
    outputs = [output.column for output in plan.outputs]
    order, single_task = plan.order, needs_single_task(plan)
    if order.distinct:
        distinct = rows.select(*outputs).distinct()
        return apply_limit(sort_rows(distinct, order.sorts, outputs if ordered else (), single_task=single_task), order)
    rows = apply_series_limit(plan, rows)
    if order.partitioned and not order.sorts and order.limit is not None:
        rows = limit_partitions(plan, SparkRows(plan, rows), natural).frame
        return sort_rows(rows, (), natural if ordered else (), single_task=True).select(*outputs)
    needed = ordered or order.sorts or order.limit is not None
    return apply_limit(sort_rows(rows, order.sorts, natural if needed else (), single_task=single_task), order).select(*outputs)


def limits_before_select(plan: Plan) -> bool:
    """Return whether LIMIT and OFFSET are applied to rows of series before the select list is evaluated."""
    fills_from_rows = plan.gap_fill is not None and plan.gap_fill.mode != "CONSTANT"
    is_plain = plan.selection == NO_CALLS and not plan.order.distinct and not fills_from_rows
    return isinstance(plan.source, SeriesRows) and plan.order.is_limited and is_plain


def limit_first(plan: Plan, rows: DataFrame, natural: Sequence[str]) -> DataFrame:
    if plan.order.limit is not None:
        return apply_limit(sort_rows(rows, plan.order.sorts, natural), plan.order)
    # Spark would evaluate the select list before an OFFSET without LIMIT.
    order = [str(key) for sort in (*plan.order.sorts, *map(Sort, natural)) for key in sort_nodes(sort)]
    return rows.selectExpr("*", f"row_number() {over([], order)} AS _number").where(f"_number > {plan.order.offset}")


def needs_single_task(plan: Plan) -> bool:
    """Return whether one task should sort the rows: if they are few compared to those they are computed from, and all returned."""
    is_reduced = plan.aggregated or plan.order.distinct or plan.interp is not None or bool(plan.series.calls)
    return is_reduced and not plan.order.is_limited


def sort_rows(rows: DataFrame, sorts: Sequence[Sort], natural: Sequence[str], *, single_task: bool = False) -> DataFrame:
    """Sort rows by ORDER BY, then by their natural order.

    With `single_task`, one task sorts all rows. Several tasks would need range boundaries, and Spark samples them by computing the
    rows once more: twice the time of a query over windows, whose result is small compared to its input. If rows have the rank of
    their subtable, the range partitions are computed in advance instead.
    """
    columns = [directed(F.expr(str(key)), sort) for sort in (*sorts, *map(Sort, natural)) for key in sort_keys(sort)]
    if not columns:
        return rows
    if not single_task:
        return rows.orderBy(*columns)
    has_ranks = not sorts and natural[0] == RANK
    partitioned = (
        rows.repartitionById(rows.sparkSession.sparkContext.defaultParallelism, RANGE_PARTITION)
        if has_ranks
        else rows.repartition(1)
    )
    return partitioned.sortWithinPartitions(*columns)


def sort_keys(sort: Sort) -> list[Node]:
    """Return the keys of an ORDER BY item. Spark takes -0.0 and 0.0 for equal, so a second key orders them."""
    column = nodes.Column(sort.column)
    return [column, negated(call("is_negative_zero", column))] if sort.orders_zeros else [column]


def sort_nodes(sort: Sort) -> list[Node]:
    """Return the keys of an ORDER BY item with their direction."""
    nulls, direction = "nulls first" if sort.nulls_first else "nulls last", "desc" if sort.descending else "asc"
    return [call(nulls, call(direction, key)) for key in sort_keys(sort)]


def directed(column: Column, sort: Sort) -> Column:
    if sort.descending:
        return column.desc_nulls_first() if sort.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if sort.nulls_first else column.asc_nulls_last()


def apply_limit(rows: DataFrame, order: ResultOrder) -> DataFrame:
    """Apply LIMIT and OFFSET, which Spark adds up as 32-bit integers. A limit beyond these is none: no result is that long.

    Raises:
        LimitError: The offset is beyond them.
    """
    offset = order.offset or 0
    if offset > MAX_SPARK_ROWS:
        raise LimitError(f"OFFSET is at most {MAX_SPARK_ROWS}", hint="narrow the query with WHERE instead")
    if offset:
        rows = rows.offset(offset)
    return rows if order.limit is None or offset + order.limit > MAX_SPARK_ROWS else rows.limit(order.limit)


def apply_series_limit(plan: Plan, rows: DataFrame) -> DataFrame:
    """Apply SLIMIT and SOFFSET: keep some of the partitions, in the order of their keys."""
    if plan.order.series_limit is None or not plan.keys:
        return rows
    first = plan.order.series_offset or 0
    keys = [key.column for key in plan.keys]
    ranked = rows.selectExpr("*", f"dense_rank() {over([], keys)} AS _series")
    return ranked.where(f"_series > {first} AND _series <= {first + plan.order.series_limit}").drop("_series")


def limit_partitions(plan: Plan, rows: R, natural: Sequence[str]) -> R:
    """Apply LIMIT and OFFSET to each partition."""
    first, number = plan.order.offset or 0, nodes.Column("_number")
    columns: dict[str, Node] = {name: nodes.Column(name) for name in rows.columns}
    keys, order = (tuple(map(nodes.Column, names)) for names in ([key.column for key in plan.keys], natural))
    numbered = rows.extend({number.name: Over(call("row_number"), keys, order or (integer(1),))})
    kept = numbered.where(both(number > bigint(first), number <= bigint(first + (plan.order.limit or 0))))
    return kept.select(columns)
