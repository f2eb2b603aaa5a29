"""What follows once rows are computed: DISTINCT, SLIMIT, ORDER BY, LIMIT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headrace.compute.plan import Plan, Sort, UnionPlan
from headrace.compute.windows.numbering import over
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RANK: Final = "_rank"
SHARE: Final = "_share"
"""The place of a subtable's name among all, from 0 on, and the task that sorts the rows of such subtables."""


def order_result(plan: Plan, found: DataFrame, natural: Sequence[str], *, ordered: bool) -> DataFrame:
    """The select list's columns, in order and cut to the limits. `natural` is the order by partition and time."""
    outputs = [output.column for output in plan.outputs]
    if plan.distinct:
        distinct = found.select(*outputs).distinct()
        return cut(sorted_by(distinct, plan.sorts, outputs if ordered else (), alone=alone(plan)), plan.limit, plan.offset)
    found = series(plan, found)
    if plan.partitioned and not plan.sorts and plan.limit is not None:
        found = each_partition(plan, found, natural)
        return sorted_by(found, (), natural if ordered else (), alone=True).select(*outputs)
    needed = ordered or plan.sorts or plan.limit is not None
    found = sorted_by(found, plan.sorts, natural if needed else (), alone=alone(plan))
    return cut(found, plan.limit, plan.offset).select(*outputs)


def alone(plan: Plan) -> bool:
    """Whether one task sorts the rows: those that are made of many others, and are all wanted."""
    made = plan.aggregated or plan.distinct or plan.interp is not None or bool(plan.series)
    return made and plan.limit is None and not plan.offset


def order_union(plan: UnionPlan, found: DataFrame) -> DataFrame:
    return cut(sorted_by(found, plan.sorts, ()), plan.limit, plan.offset)


def sorted_by(found: DataFrame, sorts: Sequence[Sort], natural: Sequence[str], *, alone: bool = False) -> DataFrame:
    """Rows in the order asked for, ties in their natural order.

    With `alone` one task sorts them all. Several would need to know first which values there are, and Spark finds that out by
    computing the rows once more: twice the time of a query over windows, whose rows are few beside those that they are made of.
    Where the rows come by the rank of their subtable, it is known beforehand which share of them each task takes.
    """
    columns = [direction(sort) for sort in sorts] + [F.col(name).asc_nulls_first() for name in natural]
    if not columns:
        return found
    if not alone:
        return found.orderBy(*columns)
    shared = not sorts and natural[0] == RANK
    parted = found.repartitionById(found.sparkSession.sparkContext.defaultParallelism, SHARE) if shared else found.repartition(1)
    return parted.sortWithinPartitions(*columns)


def direction(sort: Sort) -> Column:
    column = F.col(sort.column)
    if sort.descending:
        return column.desc_nulls_first() if sort.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if sort.nulls_first else column.asc_nulls_last()


def cut(found: DataFrame, limit: int | None, offset: int | None) -> DataFrame:
    if offset:
        found = found.offset(offset)
    return found if limit is None else found.limit(limit)


def series(plan: Plan, found: DataFrame) -> DataFrame:
    """SLIMIT and SOFFSET: some of the partitions, in the order of their keys."""
    if plan.series_limit is None or not plan.keys:
        return found
    first = plan.series_offset or 0
    keys = [key.column for key in plan.keys]
    ranked = found.selectExpr("*", f"dense_rank() {over([], keys)} AS _series")
    return ranked.where(f"_series > {first} AND _series <= {first + plan.series_limit}").drop("_series")


def each_partition(plan: Plan, found: DataFrame, natural: Sequence[str]) -> DataFrame:
    """LIMIT of a partitioned query without ORDER BY: so many rows of each partition."""
    first = plan.offset or 0
    keys = [key.column for key in plan.keys]
    order = list(natural) or ["1"]
    ranked = found.selectExpr("*", f"row_number() {over(keys, order)} AS _place")
    return ranked.where(f"_place > {first} AND _place <= {first + (plan.limit or 0)}").drop("_place")
