"""`bind`: turns a parsed query into a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import overload

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment
from headrace.compute.binding.interpolation import PointResolver, make_interp_plan, uses_interp
from headrace.compute.binding.outputs import (
    bind_fill_values,
    find_sorted_output,
    make_output,
    make_sort,
    resolve_position,
    star_item,
)
from headrace.compute.binding.ranges import WhereCondition, is_constant_in_series, query_of_tags, resolve_range, where_condition
from headrace.compute.binding.resolvers import GroupResolver, RowResolver, SeriesResolver, aggregate_calls
from headrace.compute.binding.scope import Scope
from headrace.compute.binding.sources import BoundSource, Sources
from headrace.compute.expression_context import ExpressionContext
from headrace.compute.functions.aggregates import StreamUse
from headrace.compute.language import Language
from headrace.compute.nodes import TRUE, Column, Node, bigint, both, call, columns_of
from headrace.compute.plan import KEY, SERIES_KEY, STATE, TS, WEND, WSTART, AnyPlan, Plan, RowIdentity, UnionPlan
from headrace.compute.plan_clauses import Aggregate, GroupSelection, Key, Output, ResultOrder, RowSelection, Selection, Sort
from headrace.compute.plan_sources import Scan
from headrace.compute.terms import ColumnRole, Term
from headrace.compute.window_plans import Argument, FillPlan
from headrace.compute.windows.intervals import IntervalWindow
from headrace.compute.windows.kind import WindowPlan
from headrace.compute.windows.sessions import SessionWindow
from headrace.compute.windows.states import StateWindow
from headrace.errors import InvalidStreamError, NotSupportedError, ProgrammingError
from headrace.model.expressions import Call, ColumnRef, Expression, Star, conjuncts, walk
from headrace.model.queries import FillMode, Ordering, Query, SelectItem, StateClause, Union
from headrace.model.types import BIGINT, TIMESTAMP


@overload
def bind(query: Query, scope: Scope, *, stream: bool = False) -> Plan: ...
@overload
def bind(query: Union, scope: Scope, *, stream: bool = False) -> UnionPlan: ...
@overload
def bind(query: Query | Union, scope: Scope, *, stream: bool = False) -> AnyPlan: ...
def bind(query: Query | Union, scope: Scope, *, stream: bool = False) -> AnyPlan:
    """Bind a query: resolve names by `scope`, determine types, and check limits. Errors carry spans.

    In a stream, features that only queries support are errors, and `_wend` of a session is its last row plus the gap.
    """
    if isinstance(query, Union):
        return bind_union(query, scope)
    return SelectBinder(query, scope, stream).bind()


def bind_union(query: Union, scope: Scope) -> UnionPlan:
    """Bind both sides of a union. Columns match by position and get their common type."""
    left, right = bind(query.left, scope), bind(query.right, scope)
    if len(left.outputs) != len(right.outputs):
        raise ProgrammingError(
            f"UNION of {len(left.outputs)} and {len(right.outputs)} columns", hint="select as many on both sides"
        )
    if left.precision != right.precision:
        raise NotSupportedError("UNION of databases with different precisions", hint="cast the timestamps to BIGINT")
    common_type = scope.language.operators.common_type
    outputs = tuple(
        replace(
            ours, column=f"o{number}", node=Column(f"o{number}"), type=common_type([ours.type, theirs.type]) or ours.type, role=None
        )
        for number, (ours, theirs) in enumerate(zip(left.outputs, right.outputs, strict=True))
    )
    sorts = tuple(make_union_sort(ordering, outputs, scope.language) for ordering in query.order_by)
    order = ResultOrder(sorts, limit=query.limit, offset=query.offset)
    return UnionPlan(query, left, right, outputs, left.precision, query.all, order)


def make_union_sort(ordering: Ordering, outputs: tuple[Output, ...], language: Language) -> Sort:
    """Bind one item of ORDER BY of a union: a name or position of its columns."""
    items = tuple(SelectItem(ColumnRef(output.name), output.name) for output in outputs)
    column = find_sorted_output(ordering, items, outputs)
    if column is None:
        raise ProgrammingError("ORDER BY of a UNION takes names and positions of its columns", span=ordering.expression.span)
    return make_sort(ordering, next(output for output in outputs if output.column == column), language)


@dataclass(frozen=True, slots=True)
class Clauses:
    """The clauses that are bound alike in every query. `keys` grows by those that only the select list implies."""

    source: BoundSource
    where: WhereCondition
    row_binder: Binder
    items: tuple[SelectItem, ...]
    keys: list[Key]
    expressions: dict[Expression, Key]


@dataclass(frozen=True, slots=True)
class SelectList:
    """The bound select list and ORDER BY."""

    outputs: tuple[Output, ...]
    sorts: tuple[Sort, ...]
    hidden: tuple[Output, ...]


@dataclass(slots=True)
class SelectBinder:
    """Binds one SELECT, clause by clause."""

    query: Query
    scope: Scope
    stream: bool = False

    def bind(self) -> Plan:
        """Return the plan."""
        source = self._bind_source()
        names = source.names
        if self.query.tags_only:
            self.query = query_of_tags(self.query, source, stream=self.stream)
        where_binder = self._row_binder(names, "in WHERE")
        where = where_condition(self.query.where, series_conditions(source), where_binder, names)
        self.query = resolve_range(self.query, where, names, self.scope.now, stream=self.stream)
        items = tuple(self._expand_stars(names))
        keys, expressions = self._bind_keys(self._row_binder(names, "in PARTITION BY or GROUP BY"), items)
        window = self._bind_window(self._row_binder(names, "in a window clause"), names)
        clauses = Clauses(source, where, self._row_binder(names, "inside another aggregate"), items, keys, expressions)
        if uses_interp(items, self.scope.language):
            return self._bind_interpolation(clauses)
        self._check_interpolation()
        if self.is_aggregated(items):
            return self._bind_grouped(clauses, window)
        return self._bind_plain(clauses)

    def _bind_source(self) -> BoundSource:
        return Sources(self.scope, lambda query: bind(query, self.scope)).bind_source(self.query.source)

    def _row_binder(self, names: Environment, clause: str) -> Binder:
        return Binder(RowResolver(names, clause), ExpressionContext(names.precision, names.timezone), self.scope.language)

    def _bind_plain(self, clauses: Clauses) -> Plan:
        names = clauses.source.names
        resolver = SeriesResolver(names, row_binder=clauses.row_binder)
        selected = self._bind_select_list(replace(clauses.row_binder, resolver=resolver), clauses.items)
        if self.query.having is not None:
            raise ProgrammingError("HAVING needs GROUP BY or an aggregate", hint="use WHERE", span=self.query.having.span)
        if resolver.calls and names.time is None:
            functions = ", ".join(call.function for call in resolver.calls)
            raise ProgrammingError(f"{functions} needs a source with a timestamp column", span=self.query.span)
        selection = RowSelection(tuple(resolver.calls.values()), tuple(resolver.arrow_calls.values()))
        return self._make_plan(clauses, selection, selected)

    def _check_interpolation(self) -> None:
        """Raise `ProgrammingError` for clauses of INTERP without interp, and for FILL without windows."""
        fill = self.query.fill
        if self.query.interpolation is not None:
            raise ProgrammingError(
                "RANGE and EVERY require interp", hint="select interp(…) of a column, or bound the timestamp in WHERE"
            )
        if fill is not None and self.query.window is None:
            raise ProgrammingError("FILL requires INTERVAL or interp", hint="remove FILL", span=fill.span)

    def _bind_interpolation(self, clauses: Clauses) -> Plan:
        names = clauses.source.names
        if self.query.window is not None or self.query.group_by or names.time is None:
            raise ProgrammingError(
                "interp requires a timestamp column and cannot be combined with a window or GROUP BY", span=self.query.span
            )
        resolver = PointResolver(names, clauses.row_binder, clauses.keys, clauses.expressions)
        selected = self._bind_select_list(replace(clauses.row_binder, resolver=resolver), clauses.items)
        interpolation = make_interp_plan(self.query, resolver)
        return self._make_plan(clauses, interpolation, selected, tuple(resolver.arguments.values()))

    def _bind_grouped(self, clauses: Clauses, window: WindowPlan | None) -> Plan:
        unique = self._has_unique_instants(clauses.source.names, clauses.keys)
        groups = self._group_resolver(clauses, window, unique=unique)
        binder = replace(clauses.row_binder, resolver=groups)
        selected = self._bind_select_list(binder, clauses.items)
        having = self._bind_having(binder, clauses.items, needs_rows=not clauses.keys and window is None)
        check_rows_of_aggregates(groups.aggregates, self.query)
        if self.stream:
            refuse_queries_only(groups)
        if not groups.aggregates:
            binder.bind(Call("count", (Star(),)))
        selection = GroupSelection(
            self._bind_fill(binder, window, selected),
            aggregates=tuple(groups.aggregates.values()),
            calls=tuple(groups.group_calls),
            having=having,
            unique=unique,
            empty_groups=self._empty_groups(clauses) if clauses.expressions and window is None else None,
        )
        return self._make_plan(clauses, selection, selected, tuple(groups.arguments.values()))

    def _group_resolver(self, clauses: Clauses, window: WindowPlan | None, *, unique: bool) -> GroupResolver:
        names, expressions = clauses.source.names, clauses.expressions
        if isinstance(window, StateWindow) and isinstance(self.query.window, StateClause):
            expressions = expressions | {self.query.window.expression: Key(STATE, STATE, Column(STATE), window.state.type)}
        return GroupResolver(
            names,
            clauses.row_binder,
            clauses.keys,
            expressions,
            self.window_terms(window),
            window,
            order=Column(TS) if unique else tie_order(names),
            selection=single_selection([item.expression for item in clauses.items], self.scope.language),
            is_one_series=names.one_series or groups_by_series(clauses.keys),
        )

    def _bind_having(self, binder: Binder, items: tuple[SelectItem, ...], *, needs_rows: bool) -> Node | None:
        """Bind HAVING. With `needs_rows`, no rows give no result row unless the select list counts."""
        having = binder.condition(self.query.having) if self.query.having is not None else None
        if needs_rows and not has_counting_aggregate(items, self.scope.language):
            return require_rows(binder, having)
        return having

    def _empty_groups(self, clauses: Clauses) -> Node | None:
        """Return the condition on subtables of a query that counts and groups only by tags and series key, None for any other."""
        source = clauses.source
        nodes = [item.expression for item in clauses.items] + [ordering.expression for ordering in self.query.order_by]
        nodes += [self.query.having] if self.query.having is not None else []
        counts = any(call.function == "count" for node in nodes for call in aggregate_calls(node, self.scope.language))
        if not counts or not isinstance(source.source, Scan):
            return None
        if not all(is_constant_in_series(key, source.names) for key in clauses.expressions):
            return None
        parts = [part for part in conjuncts(self.query.where) if is_constant_in_series(part, source.names)]
        conditions = [*series_conditions(source), *map(clauses.row_binder.condition, parts)]
        return both(*conditions) if conditions else TRUE

    def _make_plan(
        self, clauses: Clauses, selection: Selection, selected: SelectList, arguments: tuple[Argument, ...] = ()
    ) -> Plan:
        names, query, where = clauses.source.names, self.query, clauses.where
        identity = RowIdentity(
            names.time.node if names.time else None,
            names.series.node if names.series else None,
            names.series.column if names.series else None,
            names.key.node if names.key else None,
        )
        limits = (query.limit, query.offset, query.series_limit, query.series_offset)
        return Plan(
            query=query,
            source=clauses.source.pruned(),
            precision=names.precision,
            timezone=names.timezone,
            now=self.scope.now,
            identity=identity,
            filter=where.node,
            bounds=(where.first, where.last),
            keys=tuple(clauses.keys),
            arguments=arguments,
            selection=selection,
            outputs=selected.outputs,
            hidden=selected.hidden,
            order=ResultOrder(selected.sorts, query.distinct, *limits, partitioned=bool(query.partition_by)),
        )

    def _expand_stars(self, names: Environment) -> Iterator[SelectItem]:
        for item in self.query.items:
            match item.expression:
                case Star(table=table):
                    yield from (star_item(column, item.expression.span) for column in names.starred(table))
                case Call(function=function, arguments=(Star(table=table),)) if function in self.scope.language.star_functions:
                    for column in names.starred(table):
                        inner = ColumnRef(column.name, column.qualifier)
                        yield SelectItem(Call(function, (inner,)), item.alias, f"{function}({column.name})")
                case _:
                    yield item

    def _bind_keys(self, row_binder: Binder, items: tuple[SelectItem, ...]) -> tuple[list[Key], dict[Expression, Key]]:
        """Bind PARTITION BY and GROUP BY. An item may be an alias of the select list or a position in it."""
        aliases = {item.alias: item.expression for item in items if item.alias is not None}
        keys: list[Key] = []
        expressions: dict[Expression, Key] = {}
        for listed in (*self.query.partition_by, *self.query.group_by):
            item = resolve_position(listed, items)
            node = item.expression
            if isinstance(node, ColumnRef) and node.table is None and node.name in aliases and not has_column(row_binder, node):
                node = aliases[node.name]
            if node not in expressions:
                term = row_binder.bind(node)
                name, derived = self.scope.language.column_name(item), is_derived_from_series(node, expressions)
                keys.append(Key(f"p{len(keys)}", name, term.node, term.type or BIGINT, is_derived=derived, role=term.role))
                expressions[node] = keys[-1]
        return keys, expressions

    def _bind_window(self, row_binder: Binder, names: Environment) -> WindowPlan | None:
        window = self.query.window
        if window is None:
            return None
        if names.time is None:
            raise ProgrammingError("a window needs a source with a timestamp column", span=window.span)
        if self.query.group_by:
            raise ProgrammingError("GROUP BY cannot be combined with a window", hint="use PARTITION BY", span=window.span)
        return self.scope.language.windows[type(window)](window, row_binder, names)

    def window_terms(self, window: WindowPlan | None) -> dict[str, Term]:
        if window is None:
            return {}
        start: Node = Column(WSTART)
        end: Node = Column(WEND)
        if isinstance(window, IntervalWindow):
            end = end + bigint(1)
        elif isinstance(window, SessionWindow) and self.stream:
            end = end + bigint(window.gap)
        names = self.scope.language.pseudo_columns.window_names
        return dict(zip(names, (Term(start, TIMESTAMP), Term(end, TIMESTAMP), Term(end - start, BIGINT)), strict=True))

    def _bind_fill(self, binder: Binder, window: WindowPlan | None, selected: SelectList) -> WindowPlan | None:
        """Bind FILL of an INTERVAL, matching its values with the outputs that depend on rows. Returns the window with it."""
        fill = self.query.fill
        if fill is None or fill.mode is FillMode.NONE:
            return window
        if not isinstance(window, IntervalWindow):
            raise ProgrammingError("FILL requires INTERVAL", hint="remove FILL", span=fill.span)
        if fill.mode is FillMode.NEAR:
            raise NotSupportedError("FILL(NEAR) requires INTERP", hint="use PREV, NEXT or LINEAR", span=fill.span)
        has_values = fill.mode in (FillMode.VALUE, FillMode.VALUE_F)
        values = bind_fill_values(fill, binder, selected.outputs, selected.hidden) if has_values else ()
        return replace(window, fill=FillPlan(fill.mode, values))

    def is_aggregated(self, items: tuple[SelectItem, ...]) -> bool:
        if self.query.window is not None or self.query.group_by:
            return True
        nodes = [item.expression for item in items]
        nodes += [ordering.expression for ordering in self.query.order_by]
        return any(next(aggregate_calls(node, self.scope.language), None) is not None for node in nodes)

    def _has_unique_instants(self, names: Environment, keys: list[Key]) -> bool:
        """Return whether rows of a group never have equal instants."""
        if names.series is None or names.key is not None:
            return False
        return names.one_series or groups_by_series(keys)

    def _bind_select_list(self, binder: Binder, items: tuple[SelectItem, ...]) -> SelectList:
        """Bind the select list and ORDER BY, whose expressions become hidden columns unless the select list has them."""
        outputs = tuple(make_output(binder, number, item) for number, item in enumerate(items))
        sorts: list[Sort] = []
        hidden: list[Output] = []
        for ordering in self.query.order_by:
            column = find_sorted_output(ordering, items, outputs)
            if column is None:
                column = f"h{len(hidden)}"
                output = make_output(binder, 0, SelectItem(ordering.expression, column))
                hidden.append(replace(output, column=column))
            sorted_by = next(output for output in (*hidden, *outputs) if output.column == column)
            sorts.append(make_sort(ordering, sorted_by, self.scope.language))
        if hidden and self.query.distinct:
            raise ProgrammingError("ORDER BY of SELECT DISTINCT takes only columns of the select list")
        return SelectList(outputs, tuple(sorts), tuple(hidden))


def series_conditions(source: BoundSource) -> list[Node]:
    match source.source:
        case Scan(condition=Node() as condition):
            return [condition]
        case _:
            return []


def groups_by_series(keys: list[Key]) -> bool:
    return any(key.role is ColumnRole.SERIES for key in keys)


def refuse_queries_only(groups: GroupResolver) -> None:
    """Raise `InvalidStreamError` for a function over the rows of a group that streams must not call."""
    columns = {group_call.column for group_call in groups.group_calls}
    for node, aggregate in groups.aggregates.items():
        is_group_call = any(name in columns for name in columns_of(aggregate.final))
        if is_group_call and groups.environment.language.stream_use(node.function) is StreamUse.NONE:
            message = f"{node.function} needs all rows of a window, which a stream does not keep"
            raise InvalidStreamError(message, hint="use it in a query over the source or the target", span=node.span)


def require_rows(binder: Binder, having: Node | None) -> Node:
    has_rows = binder.bind(Call("count", (Star(),))).node > bigint(0)
    return has_rows if having is None else both(has_rows, having)


def has_counting_aggregate(items: tuple[SelectItem, ...], language: Language) -> bool:
    return any(
        call.function in language.counting_aggregates for item in items for call in aggregate_calls(item.expression, language)
    )


def tie_order(names: Environment) -> Node:
    parts = [TS] + [column for column, source in ((SERIES_KEY, names.series), (KEY, names.key)) if source is not None]
    return call("struct", *map(Column, parts)) if len(parts) > 1 else Column(TS)


def has_column(row_binder: Binder, reference: ColumnRef) -> bool:
    assert isinstance(row_binder.resolver, RowResolver)
    return any(column.name == reference.name for column in row_binder.resolver.environment.columns)


def single_selection(nodes: list[Expression], language: Language) -> Call | None:
    """Return the only selection function of a select list, or None if it has none or several."""
    selections = {call for node in nodes for call in aggregate_calls(node, language) if language.is_selection(call.function)}
    return next(iter(selections)) if len(selections) == 1 else None


def is_derived_from_series(node: Expression, keys: Mapping[Expression, Key]) -> bool:
    parts = list(walk(node))
    columns = [part for part in parts if isinstance(part, ColumnRef)]
    if node in columns or any(isinstance(part, Call) and part.function == "rand" for part in parts):
        return False
    return bool(columns) and all(column in keys and keys[column].role is ColumnRole.SERIES for column in columns)


def check_rows_of_aggregates(aggregates: Mapping[Call, Aggregate], query: Query) -> None:
    """Reject a function that gives several rows within an expression, HAVING or ORDER BY, where one value is needed."""
    places: list[Expression] = [
        *(item.expression for item in query.items),
        *([query.having] if query.having is not None else []),
        *(key.expression for key in query.order_by),
    ]
    alone = {id(item.expression) for item in query.items}
    for place in places:
        for part in walk(place):
            if not isinstance(part, Call) or part not in aggregates or not aggregates[part].many:
                continue
            if part is not place or id(place) not in alone:
                raise NotSupportedError(
                    f"{part.function} gives several rows, which an expression cannot combine",
                    hint="select it alone, in a sub-query",
                    span=part.span,
                )
