"""Binding and evaluation of SELECT LAST, by Spark or with Arrow: the latest point of each series, with its value as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment
from headrace.compute.binding.ranges import where_condition
from headrace.compute.binding.resolvers import RowResolver
from headrace.compute.columnar.casts import java_text
from headrace.compute.columnar.table_plans import TableEvaluator, TableReader
from headrace.compute.evaluation.series_rows import series_rows
from headrace.compute.expression_context import ExpressionContext
from headrace.compute.iotdb.expansion import DEVICE, SeriesNames, expand, paths
from headrace.compute.iotdb.rows import ColumnPart, RowsBuilder
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.iotdb.select import as_tuple, conjunction
from headrace.compute.nodes import NOW, NULL, TIME, Column, Node, UnsupportedError, bigint, call, if_, substitute
from headrace.compute.plan import TS, Plan, RowIdentity
from headrace.compute.plan_clauses import Aggregate, GroupSelection, Key, Partial
from headrace.compute.plan_sources import Scan, SeriesRows
from headrace.compute.terms import ColumnRole
from headrace.compute.types import to_ticks
from headrace.compute.window_plans import Argument
from headrace.errors import ProgrammingError
from headrace.model.expressions import ColumnRef, Expression
from headrace.model.queries import Query
from headrace.model.time import Precision
from headrace.model.tree_queries import TreeOrdering, TreeQuery
from headrace.model.tree_types import type_name
from headrace.model.trees import SeriesRef
from headrace.model.types import VARCHAR, DataType, TypeKind
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
    name = order.key.name.lower() if isinstance(order.key, ColumnRef) else ""
    header = next((header for header in HEADERS if header.lower() == name), None)
    if header is None:
        message = f"Sorting by {name or 'an expression'} is not supported in LAST"
        raise ProgrammingError(message, hint=f"sort by {', '.join(HEADERS)}", span=order.key.span)
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


def last_points_locally(plan: LastPlan, reader: TableReader, max_rows: int) -> pa.Table | None:
    """Return what `last_points` does; None if Spark has to evaluate the plan."""
    try:
        return find_points(plan, reader, max_rows)
    except UnsupportedError:
        return None


def find_points(plan: LastPlan, reader: TableReader, max_rows: int) -> pa.Table:
    """Return the latest point of each series, or raise `UnsupportedError` if that is not supported, or takes too much."""
    writers = {column: TEXTS.get(ref.type.kind) for ref, column in plan.series}
    if None in writers.values():
        raise UnsupportedError("series")
    evaluator, own = TableEvaluator(reader, [max_rows]), latest_plan(plan)
    latest = evaluator.groups(own, evaluator.batches(own)).to_pydict()
    ranks = {path: rank for rank, path in enumerate(plan.rows.devices)}
    points = []
    for ref, column in plan.series:
        rank, write = ranks[ref.device.path], writers[column]
        instant, value = (latest[name][rank] for name in (instant_of(column), f"{column} latest"))
        if write is not None and value is not None:
            points.append((instant, ref.device.series_path(ref.series.measurement), write(value), type_name(ref.type)))
    for header, descending in reversed(plan.orders):
        points.sort(key=itemgetter(HEADERS.index(header)), reverse=descending)
    first = plan.offset or 0
    points = points[first : None if plan.limit is None else first + plan.limit]
    times = pa.array([point[0] for point in points], pa.int64())
    unit = plan.precision.ticks_per_second
    stored = (
        times if unit > 1_000_000 else pa.array([point[0] * (1_000_000 // unit) for point in points], pa.timestamp("us", "UTC"))
    )
    texts = [pa.array([point[number] for point in points], pa.string()) for number in (1, 2, 3)]
    return pa.table(dict(zip(HEADERS, (stored, *texts), strict=True)))


def latest_plan(plan: LastPlan) -> Plan:
    """Return the plan of the latest value of each column and device, and its instant."""
    types = {column: ref.type for ref, column in plan.series}
    ticks = to_ticks(Column(TIME), plan.precision)
    partials = []
    for column in types:
        value, instant = Column(column), Column(instant_of(column))
        at = if_(value.is_null(), NULL, Column(TS))
        latest = Partial(f"{column} latest", call("max_by", value, at), call("max_by", Column(f"{column} latest"), instant), value)
        partials += [latest, Partial(instant.name, call("max", at), call("max", instant), at)]
    return Plan(
        query=Query((), None),
        source=plan.rows,
        precision=plan.precision,
        timezone="UTC",
        now=0,
        identity=RowIdentity(ticks),
        filter=plan.filter,
        keys=(Key("p0", DEVICE, Column(DEVICE), VARCHAR, role=ColumnRole.SERIES),),
        arguments=tuple(Argument(column, Column(column), type_) for column, type_ in types.items()),
        selection=GroupSelection(aggregates=(Aggregate("last", "last", tuple(partials), NULL, VARCHAR),)),
    )


def instant_of(column: str) -> str:
    """Return the name of the instant of a column's value."""
    return f"{column} at"


TEXTS: Final[dict[TypeKind, Callable[[Any], str]]] = {
    TypeKind.BOOL: lambda value: "true" if value else "false",
    TypeKind.INT: str,
    TypeKind.BIGINT: str,
    TypeKind.FLOAT: lambda value: java_text(np.float32(value)),
    TypeKind.DOUBLE: java_text,
    TypeKind.VARCHAR: str,
    TypeKind.NCHAR: str,
}
"""How values are written as the text that IoTDB prints. Spark writes those of other types."""
