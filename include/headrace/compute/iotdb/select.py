"""Binding of an expanded query over its rows with the shared binder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final, cast

from headrace.compute.binding.environment import Environment
from headrace.compute.binding.scope import Scope
from headrace.compute.binding.select import SelectBinder
from headrace.compute.binding.sources import BoundSource
from headrace.compute.iotdb.aggregates import normalize_count_if
from headrace.compute.iotdb.derived import derive, has_series_call
from headrace.compute.iotdb.expansion import END_TIME, TIME, expand
from headrace.compute.iotdb.rows import RowsBuilder, device_column
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.iotdb.types import type_error
from headrace.compute.iotdb.windows import SHOWN_END, gap_fill, limit_windows
from headrace.compute.language import Language
from headrace.compute.nodes import Column
from headrace.compute.plan import WEND, WSTART, Plan
from headrace.compute.plan_clauses import Key
from headrace.compute.terms import Term
from headrace.compute.windows.kind import WindowPlan
from headrace.compute.windows.ranges import RangeWindow
from headrace.errors import ProgrammingError
from headrace.model.expressions import Call, ColumnRef, Expression
from headrace.model.queries import Ordering, Query, SelectItem, WindowClause
from headrace.model.tree_queries import GroupByCondition, GroupByCount, GroupByTime, GroupByVariation, TreeGrouping, TreeQuery
from headrace.model.trees import Device, SeriesRef
from headrace.model.types import TIMESTAMP, DataType, TypeKind

TIME_HEADER: Final = "Time"
DEVICE_HEADER: Final = "Device"
START_TIME: Final = "__startTime"
"""The start of a window. Only the order of the result has it."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A result column other than time and device; `series` is set if it is a series unchanged, `alias` if it was named."""

    name: str
    type: DataType
    expression: Expression
    series: SeriesRef | None = None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class TreePlan:
    """A bound query. In ALIGN BY DEVICE, `devices` are those of the result.

    The outputs of `plan` are the time, unless all rows aggregate to one; the device in ALIGN BY DEVICE; and `columns`.
    """

    query: TreeQuery
    plan: Plan
    columns: tuple[ResultColumn, ...]
    devices: tuple[Device, ...] = ()


def apply_series_limits(items: list[SelectItem], query: TreeQuery) -> list[SelectItem]:
    """Apply SLIMIT and SOFFSET to the columns other than `__endTime`, which comes first then."""
    first = query.series_offset or 0
    columns = items_without_end_time(items)
    last = None if query.series_limit is None else first + query.series_limit
    return [*(item for item in items if item.expression == ColumnRef(END_TIME)), *columns[first:last]]


def conjunction(parts: Sequence[Expression]) -> Expression | None:
    """Join distinct conditions with AND; return None if there are none."""
    joined = list(dict.fromkeys(parts))
    while len(joined) > 1:  # by pairs, since what reads thousands of conditions is recursive
        pairs = zip_longest(joined[::2], joined[1::2])
        joined = [first if second is None else Call("and", (first, second)) for first, second in pairs]
    return joined[0] if joined else None


@dataclass(slots=True)
class TreeSelectBinder(SelectBinder):
    """Binds the expanded query over rows of series."""

    bound: BoundSource | None = None

    def _bind_source(self) -> BoundSource:
        assert self.bound is not None
        return self.bound

    def _has_unique_instants(self, names: Environment, keys: list[Key]) -> bool:  # noqa: ARG002
        """Return True: a device has one row an instant, and so have rows aligned by time."""
        return True

    def window_terms(self, window: WindowPlan | None) -> dict[str, Term]:
        if window is None:
            return {}
        start, end = Term(Column(WSTART), TIMESTAMP), Term(Column(WEND), TIMESTAMP)
        if isinstance(window, RangeWindow) and window.right:
            shown = Term(SHOWN_END, TIMESTAMP)
            return {TIME: shown, END_TIME: shown, START_TIME: start}
        return {TIME: start, END_TIME: end, START_TIME: start}


def as_tuple(node: Expression | None) -> tuple[Expression, ...]:
    """Return an expression as a tuple, which is empty for None."""
    return () if node is None else (node,)


def time_item() -> SelectItem:
    return SelectItem(ColumnRef(TIME), TIME_HEADER)


def end_time_items(items: Sequence[SelectItem]) -> list[SelectItem]:
    return [replace(item, alias=END_TIME) for item in items if item.expression == ColumnRef(END_TIME)][:1]


def items_without_end_time(items: Sequence[SelectItem]) -> list[SelectItem]:
    return [item for item in items if item.expression != ColumnRef(END_TIME)]


def window_clause(grouping: TreeGrouping | None) -> object | None:
    return None if grouping is None else grouping.time or grouping.rows


def control_expressions(clause: object | None) -> tuple[Expression, ...]:
    return as_tuple(getattr(clause, "expression", None))


def expand_clause(clause: object, alternatives: Callable[[ColumnRef], Sequence[ColumnRef]]) -> object:
    """Resolve the paths of a clause. Raise `ProgrammingError` unless its expression matches exactly one series."""
    for node in control_expressions(clause):
        nodes = expand(node, alternatives)
        if len(nodes) != 1:
            raise ProgrammingError("Expression in group by should indicate one value", hint="name one series", span=node.span)
        assert isinstance(clause, GroupByVariation | GroupByCondition | GroupByCount)
        return replace(clause, expression=nodes[0])
    return clause


def start_ordering(orders: Sequence[Ordering], clause: object | None) -> list[Ordering]:
    """Return the order of windows that show the same time, since the range ends in them: that of the times."""
    times = [order for order in orders if order.expression == ColumnRef(TIME)]
    is_shared = isinstance(clause, GroupByTime) and clause.range is not None and clause.range.left_open
    return [replace(order, expression=ColumnRef(START_TIME)) for order in times[:1]] if is_shared else []


def time_ordering(query: TreeQuery, names: Callable[[ColumnRef], Sequence[ColumnRef]], *, aggregated: bool) -> list[Ordering]:
    """Return the sort order of rows aligned by time: the keys of ORDER BY, then time."""
    orders: list[Ordering] = []
    grouped = window_clause(query.grouping) is not None
    for order in query.order_by:
        if aggregated and not grouped and order.key == ColumnRef(TIME):
            continue
        nodes = expand(normalize_count_if(order.key), names)
        if len(nodes) != 1:
            raise ProgrammingError("Sort Item in ORDER BY should indicate one value", hint="name one series", span=order.key.span)
        orders.append(Ordering(nodes[0], order.descending, bool(order.nulls_first)))
    if (grouped or not aggregated) and not any(order.expression == ColumnRef(TIME) for order in orders):
        orders.append(Ordering(ColumnRef(TIME), False, False))
    return orders


def bind_expanded(
    query: TreeQuery,
    scope: TreeScope,
    rows: RowsBuilder,
    items: Sequence[SelectItem],
    where: Expression | None,
    having: Expression | None,
    orders: Sequence[Ordering],
    clause: object | None,
    series: Mapping[str, SeriesRef],
    devices: Sequence[Device],
) -> TreePlan:
    if not rows.devices:
        raise ProgrammingError("a query needs at least one series", hint="select a series", span=query.span)
    # Their expressions may be replaced by columns of an inner query.
    aliases = [item.alias for item in items]
    items = [replace(item, alias=item.name) for item in items]
    partition = (SelectItem(ColumnRef(device_column(scope)), DEVICE_HEADER),) if devices else ()
    flat = Query(
        tuple(items),
        None,
        where=where,
        partition_by=partition,
        window=cast("WindowClause | None", clause),
        having=having,
        order_by=tuple(dict.fromkeys((*orders, *start_ordering(orders, clause)))),
        limit=query.limit,
        offset=query.offset,
        span=query.span,
    )
    plan = bind_flat(flat, flat_scope(scope), rows, calls_series=calls_series(query, clause, scope.language))
    check_sorts(plan)
    plan = replace(plan, order=replace(plan.order, partitioned=False))
    columns = result_columns(items, aliases, plan, series, by_device=bool(devices))
    if query.fill is not None:
        has_time = items[0].expression == ColumnRef(TIME)
        plan = replace(plan, gap_fill=gap_fill(query.fill, plan, has_time=has_time, by_device=bool(devices)))
    return TreePlan(query, limit_windows(plan), columns, tuple(devices))


def check_sorts(plan: Plan) -> None:
    """Raise `TypeMismatchError` if a key of ORDER BY is a BLOB, which has no order."""
    types = {output.column: output.type for output in (*plan.outputs, *plan.hidden)}
    if any(types[sort.column].kind is TypeKind.VARBINARY for sort in plan.order.sorts):
        raise type_error("The data type of BLOB is not comparable", hint="sort by CAST(x AS TEXT)")


def result_columns(
    items: Sequence[SelectItem], aliases: Sequence[str | None], plan: Plan, series: Mapping[str, SeriesRef], *, by_device: bool
) -> tuple[ResultColumn, ...]:
    """Return the result columns other than time and device."""
    headers = {TIME_HEADER, DEVICE_HEADER} if by_device else {TIME_HEADER}
    return tuple(
        ResultColumn(output.name, output.type, item.expression, column_series(item.expression, series), alias)
        for item, alias, output in zip(items, aliases, plan.outputs, strict=True)
        if not (output.name in headers and isinstance(item.expression, ColumnRef))
    )


def calls_series(query: TreeQuery, clause: object | None, language: Language) -> bool:
    """Return whether a query as it is written, with few expressions, calls a time-series function outside of WHERE."""
    orders = (order.key for order in query.order_by)
    nodes = (*(item.expression for item in query.items), *as_tuple(query.having), *orders, *control_expressions(clause))
    return any(has_series_call(node, language) for node in nodes)


def flat_scope(scope: TreeScope) -> Scope:
    return Scope(lambda _: (), scope.language, scope.timezone, scope.now)


def bind_flat(query: Query, scope: Scope, rows: RowsBuilder, *, calls_series: bool) -> Plan:
    """Bind a query over its rows. Time-series functions inside of aggregates, or of each other, are those of an inner query."""
    derived = None
    if calls_series:
        derived = derive(query, lambda inner: bind_flat(inner, scope, rows, calls_series=True), scope.language)
    outer, source = (query, rows.bind()) if derived is None else derived
    return TreeSelectBinder(outer, scope, bound=source).bind()


def column_series(node: Expression, series: Mapping[str, SeriesRef]) -> SeriesRef | None:
    """Return the series of an expression that is only a path, else None."""
    return series.get(node.name) if isinstance(node, ColumnRef) else None
