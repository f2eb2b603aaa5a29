"""Binding and evaluation of SELECT LAST: the latest point of each series, with its value as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment
from headrace.compute.binding.ranges import where_condition
from headrace.compute.binding.resolvers import RowResolver
from headrace.compute.evaluation.series_rows import series_rows
from headrace.compute.expression_context import ExpressionContext
from headrace.compute.iotdb.expansion import SeriesNames, expand, paths
from headrace.compute.iotdb.rows import ColumnPart, RowsBuilder
from headrace.compute.iotdb.schema import SeriesRef
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.iotdb.select import as_tuple, conjunction
from headrace.compute.nodes import NOW, Column, Node, bigint, substitute
from headrace.compute.plan_sources import Scan, SeriesRows
from headrace.compute.types import to_ticks
from headrace.errors import ProgrammingError
from headrace.model.expressions import ColumnRef, Expression
from headrace.model.time import Precision
from headrace.model.tree_queries import TreeOrdering, TreeQuery
from headrace.model.tree_types import type_name
from headrace.model.types import DataType, TypeKind
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEADERS: Final = ("Time", "Timeseries", "Value", "DataType")


@dataclass(frozen=True, slots=True)
class LastPlan:
    """The latest points of series.

    Attributes:
        rows: Rows by device, with a column `s0`, `s1`, … for each stored column.
        series: The series in the order of the result, and the column of each.
        filter: The condition on time as Spark SQL.
        orders: Headers of the columns to sort by, and whether in descending order; then by the order of `series`.
    """

    rows: SeriesRows
    series: tuple[tuple[SeriesRef, str], ...]
    filter: Node | None
    precision: Precision
    orders: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None
    offset: int | None = None


def bind_last(query: TreeQuery, scope: TreeScope) -> LastPlan | None:
    """Bind SELECT LAST. Return None if its paths match no series."""
    check_last(query)
    names = SeriesNames(scope.tree, query.prefixes)
    refs: dict[str, SeriesRef] = {}
    for item in query.items:
        if not isinstance(item.expression, ColumnRef):
            raise ProgrammingError(
                "Last queries can only be applied on raw time series.", hint="select series", span=item.expression.span
            )
        refs |= {reference.name: names.series[reference.name] for reference in names(item.expression)}
    check_filter(query, names, has_series=bool(refs))
    if not refs:
        return None
    rows = RowsBuilder(scope, aligned=False)
    parts: dict[str, dict[ColumnPart, DataType]] = defaultdict(dict)
    for ref in refs.values():
        rows.devices[ref.device.path] = ref.device
        # Databases may have columns of one name and several types.
        parts[column_key(ref)][ColumnPart(ref.device.database, ref.series.column)] = ref.type
    for key, own in parts.items():
        rows.add(key, next(iter(own.values())), list(own))
    columns = {column: f"s{number}" for number, column in enumerate(rows.columns)}
    bound = rows.bind()
    where = conjunction([part for node in as_tuple(query.where) for part in expand(node, names)])
    series = tuple((ref, columns[column_key(ref)]) for ref in refs.values())
    assert isinstance(bound.source, SeriesRows)
    orders = tuple((sort_header(order), order.descending) for order in query.order_by)
    condition = time_condition(where, bound.names, scope)
    return LastPlan(bound.source, series, condition, bound.names.precision, orders, query.limit, query.offset)


def check_filter(query: TreeQuery, names: SeriesNames, *, has_series: bool) -> None:
    """Raise an error for a condition on values, unless neither the query nor the condition matches any series."""
    if query.where is None:
        return
    filtered = paths(query.where)
    if filtered and (has_series or any(names(path) for path in filtered)):
        raise ProgrammingError("Only time filters are supported in LAST query", hint="filter by time only", span=query.where.span)


def time_condition(where: Expression | None, names: Environment, scope: TreeScope) -> Node | None:
    """Return a condition on time; None if there is none."""
    binder = Binder(RowResolver(names, "in WHERE"), ExpressionContext(names.precision, scope.timezone), scope.language)
    condition = where_condition(where, [], binder, names).node
    return condition and substitute(condition, {NOW.name: bigint(scope.now * names.precision.ticks_per_second // 1000)})


def column_key(ref: SeriesRef) -> str:
    """Return the name of the column that holds a series: that of all series with its stored name and type."""
    return f"{ref.series.column} {type_name(ref.type)}"


def check_last(query: TreeQuery) -> None:
    """Raise `ProgrammingError` for clauses that LAST does not support."""
    wrong = {
        "Common queries and aggregated queries are not allowed to appear at the same time": query.grouping is not None,
        "Last query doesn't support align by device.": query.by_device,
        "SLIMIT and SOFFSET can not be used in LastQuery.": bool(query.series_limit or query.series_offset),
        "Expression of HAVING clause can not be used in NonAggregationQuery": query.having is not None,
    }
    for message, is_wrong in wrong.items():
        if is_wrong:
            raise ProgrammingError(message, hint="leave the clause out, or leave out LAST", span=query.span)


def sort_header(order: TreeOrdering) -> str:
    """Return the header of the column that an item of ORDER BY names."""
    name = order.key.name.lower() if isinstance(order.key, ColumnRef) else ""
    header = next((header for header in HEADERS if header.lower() == name), None)
    if header is None:
        raise ProgrammingError(
            f"Sorting by {name or 'an expression'} is not supported in LAST",
            hint=f"sort by {', '.join(HEADERS)}",
            span=order.key.span,
        )
    return header


def last_points(plan: LastPlan, read: Callable[[Scan], DataFrame]) -> DataFrame:
    """Return `Time`, `Timeseries`, `Value` and `DataType` of each series that has a point, in the order of the plan."""
    rows = series_rows(plan.rows, read)
    filtered = rows.where(str(plan.filter)) if plan.filter else rows
    kinds = {column: ref.type.kind for ref, column in plan.series}
    pairs = ", ".join(f"'{column}', {as_text(column, kind, plan.precision)}" for column, kind in kinds.items())
    points = filtered.selectExpr("time", "device", f"stack({len(kinds)}, {pairs}) AS (column, value)").where("value IS NOT NULL")
    latest = points.groupBy("device", "column").agg(F.max("time").alias("time"), F.expr("max_by(value, time)").alias("value"))
    listing = [
        (number, ref.device.path, column, ref.device.series_path(ref.series.measurement), type_name(ref.type))
        for number, (ref, column) in enumerate(plan.series)
    ]
    series = rows.sparkSession.createDataFrame(listing, "position INT, device STRING, column STRING, path STRING, type STRING")
    result = latest.join(F.broadcast(series), ["device", "column"])
    stored = dict(zip(HEADERS, ("time", "path", "value", "type"), strict=True))
    sorts = [F.col(stored[header]).desc() if descending else F.col(stored[header]).asc() for header, descending in plan.orders]
    ordered = result.orderBy(*sorts, "position")
    if plan.offset:
        ordered = ordered.offset(plan.offset)
    ordered = ordered if plan.limit is None else ordered.limit(plan.limit)
    return ordered.select("time", "path", "value", "type").toDF(*HEADERS)


def as_text(column: str, kind: TypeKind, precision: Precision) -> str:
    """Write a column as the text that IoTDB prints."""
    if kind is TypeKind.TIMESTAMP:
        return f"CAST({to_ticks(Column(column), precision)} AS STRING)"
    if kind is TypeKind.VARBINARY:
        return f"concat('0x', lower(hex({column})))"
    return f"CAST({column} AS STRING)"
