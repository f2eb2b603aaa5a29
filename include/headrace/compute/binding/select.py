"""`bind`: a query as written becomes a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import overload

from headrace.compute.binding.binder import Binder, Resolver
from headrace.compute.binding.environment import Environment, SourceColumn
from headrace.compute.binding.interpolation import PointResolver, interp_plan, uses_interp
from headrace.compute.binding.ranges import Condition, condition, conjuncts
from headrace.compute.binding.resolvers import GroupResolver, RowResolver, SeriesResolver, aggregate_calls
from headrace.compute.binding.scope import Scope
from headrace.compute.binding.sources import BoundSource, Sources
from headrace.compute.expression_context import ExpressionContext
from headrace.compute.language import Language
from headrace.compute.plan import (
    KEY,
    SERIES,
    STATE,
    TS,
    WEND,
    WSTART,
    AnyPlan,
    FillPlan,
    IntervalWindow,
    Key,
    Output,
    Plan,
    Scan,
    SessionWindow,
    Sort,
    StateWindow,
    UnionPlan,
    WindowPlan,
)
from headrace.compute.terms import ColumnRole, Term
from headrace.errors import InvalidStreamError, LimitError, NotSupportedError, ProgrammingError
from headrace.model.expressions import Call, ColumnRef, Expression, Literal, Star, walk
from headrace.model.queries import FillClause, FillMode, Ordering, Query, SelectItem, StateClause, Union
from headrace.model.spans import Span
from headrace.model.types import BIGINT, BOOL, TIMESTAMP


@overload
def bind(query: Query, scope: Scope, *, stream: bool = False) -> Plan: ...
@overload
def bind(query: Union, scope: Scope, *, stream: bool = False) -> UnionPlan: ...
@overload
def bind(query: Query | Union, scope: Scope, *, stream: bool = False) -> AnyPlan: ...
def bind(query: Query | Union, scope: Scope, *, stream: bool = False) -> AnyPlan:
    """The plan of a query: names and types resolved, limits checked.

    With `stream`, what only queries can have is refused, and `_wend` of a session is its last row plus the gap.

    Raises:
        NotFoundError, TypeMismatchError, LimitError, NotSupportedError, ProgrammingError: as their names say, with spans.
    """
    if isinstance(query, Union):
        return bind_union(query, scope)
    return SelectBinder(query, scope, stream).plan()


def bind_union(query: Union, scope: Scope) -> UnionPlan:
    left, right = bind(query.left, scope), bind(query.right, scope)
    if len(left.outputs) != len(right.outputs):
        raise ProgrammingError(
            f"UNION of {len(left.outputs)} and {len(right.outputs)} columns", hint="select as many on both sides"
        )
    if left.precision != right.precision:
        raise NotSupportedError("UNION of databases with different precisions", hint="cast the timestamps to BIGINT")
    common = scope.language.operators.common
    outputs = tuple(
        replace(ours, column=f"o{number}", sql=f"o{number}", type=common([ours.type, theirs.type]) or ours.type, role=None)
        for number, (ours, theirs) in enumerate(zip(left.outputs, right.outputs, strict=True))
    )
    sorts = tuple(union_sort(ordering, outputs, scope.language) for ordering in query.order_by)
    return UnionPlan(query, left, right, outputs, left.precision, query.all, sorts, query.limit, query.offset)


def union_sort(ordering: Ordering, outputs: tuple[Output, ...], language: Language) -> Sort:
    items = tuple(SelectItem(ColumnRef(output.name), output.name) for output in outputs)
    column = sorted_output(ordering, items, outputs)
    if column is None:
        raise ProgrammingError("ORDER BY of a UNION takes names and positions of its columns", span=ordering.expression.span)
    return sort_of(ordering, column, language)


@dataclass(slots=True)
class SelectBinder:
    """Binds one SELECT, clause by clause."""

    query: Query
    scope: Scope
    stream: bool = False

    def plan(self) -> Plan:
        sourced = Sources(self.scope, lambda query: bind(query, self.scope)).of(self.query.source)
        names = sourced.names
        expression_context = ExpressionContext(names.precision, names.timezone)
        where = condition(
            self.query.where, series_conditions(sourced), self.binder(RowResolver(names, "in WHERE"), expression_context), names
        )
        rows = self.binder(RowResolver(names, "inside another aggregate"), expression_context)
        items = tuple(self.expanded(names))
        keys, expressions = self.keys(self.binder(RowResolver(names, "in PARTITION BY or GROUP BY"), expression_context), items)
        window = self.window(self.binder(RowResolver(names, "in a window's clause"), expression_context), names)
        if uses_interp(items, self.scope.language):
            return self.interpolated(sourced, where, rows, items, keys, expressions)
        self.check_interpolation()
        if self.is_aggregated(items):
            return self.grouped(sourced, where, rows, items, window, keys, expressions)
        return self.plain(sourced, where, rows, items, keys)

    def binder(self, resolver: Resolver, expression_context: ExpressionContext) -> Binder:
        return Binder(resolver, expression_context, self.scope.language)

    def plain(self, sourced: BoundSource, where: Condition, rows: Binder, items: tuple[SelectItem, ...], keys: list[Key]) -> Plan:
        """A query without window and aggregates."""
        resolver = SeriesResolver(sourced.names, rows=rows)
        binder = self.binder(resolver, rows.expression_context)
        outputs = tuple(output(binder, number, item) for number, item in enumerate(items))
        sorts, hidden = self.sorts(binder, items, outputs)
        if self.query.having is not None:
            raise ProgrammingError("HAVING needs GROUP BY or an aggregate", hint="use WHERE", span=self.query.having.span)
        if resolver.uses and sourced.names.time is None:
            names = ", ".join(call.function for call in resolver.uses)
            raise ProgrammingError(f"{names} needs a source with a timestamp column", span=self.query.span)
        series = tuple(resolver.uses.values())
        return replace(self.base(sourced, where), keys=tuple(keys), outputs=outputs, hidden=hidden, sorts=sorts, series=series)

    def check_interpolation(self) -> None:
        """Refuse the clauses of INTERP where nothing is interpolated, and FILL where nothing can be missing."""
        given, fill = self.query.interpolation, self.query.fill
        if given is not None:
            raise ProgrammingError(
                "RANGE and EVERY go only with interp", hint="select interp(…) of a column, or bound the timestamp in WHERE"
            )
        if fill is not None and self.query.window is None:
            raise ProgrammingError("FILL goes only with INTERVAL and interp", hint="remove FILL", span=fill.span)

    def interpolated(
        self,
        sourced: BoundSource,
        where: Condition,
        rows: Binder,
        items: tuple[SelectItem, ...],
        keys: list[Key],
        expressions: dict[Expression, Key],
    ) -> Plan:
        """A query with INTERP."""
        if self.query.window is not None or self.query.group_by or sourced.names.time is None:
            raise ProgrammingError("INTERP goes with a table alone, without window or GROUP BY", span=self.query.span)
        resolver = PointResolver(sourced.names, rows, keys, expressions)
        binder = self.binder(resolver, rows.expression_context)
        outputs = tuple(output(binder, number, item) for number, item in enumerate(items))
        sorts, hidden = self.sorts(binder, items, outputs)
        interp = interp_plan(self.query, resolver)
        return replace(
            self.base(sourced, where),
            keys=tuple(keys),
            arguments=tuple(resolver.arguments.values()),
            outputs=outputs,
            hidden=hidden,
            sorts=sorts,
            interp=interp,
        )

    def grouped(
        self,
        sourced: BoundSource,
        where: Condition,
        rows: Binder,
        items: tuple[SelectItem, ...],
        window: WindowPlan | None,
        keys: list[Key],
        expressions: dict[Expression, Key],
    ) -> Plan:
        """A query with a window, GROUP BY or aggregates."""
        names = sourced.names
        unique = self.unique(names, keys)
        if isinstance(window, StateWindow) and isinstance(self.query.window, StateClause):
            expressions = expressions | {self.query.window.expression: Key(STATE, STATE, STATE, window.state.type)}
        groups = GroupResolver(
            names,
            rows,
            keys,
            expressions,
            self.window_terms(window),
            window,
            order=TS if unique else tie_order(names),
            selection=selection([item.expression for item in items], self.scope.language),
            dependent=names.one_series or groups_by_series(keys),
        )
        binder = self.binder(groups, rows.expression_context)
        outputs = tuple(output(binder, number, item) for number, item in enumerate(items))
        sorts, hidden = self.sorts(binder, items, outputs)
        having = binder.condition(self.query.having) if self.query.having is not None else None
        if groups.group_calls and self.stream:
            raise function_in_stream(groups)
        if not keys and window is None and not always_a_row(items, self.scope.language):
            having = some_rows(binder, having)
        if not groups.aggregates:
            binder.bind(Call("count", (Star(),)))
        return replace(
            self.base(sourced, where),
            keys=tuple(groups.keys),
            window=window,
            arguments=tuple(groups.arguments.values()),
            aggregates=tuple(groups.aggregates.values()),
            group_calls=tuple(groups.group_calls),
            outputs=outputs,
            hidden=hidden,
            having=having,
            fill=self.fill(binder, window, outputs, hidden),
            sorts=sorts,
            aggregated=True,
            unique=unique,
            empty_groups=self.empty_groups(sourced, rows, items, expressions) if expressions and window is None else None,
        )

    def empty_groups(
        self, sourced: BoundSource, rows: Binder, items: tuple[SelectItem, ...], keys: Mapping[Expression, Key]
    ) -> str | None:
        """The condition on subtables of a query that counts and groups by tags and `tbname` alone; None for any other query."""
        nodes = [item.expression for item in items] + [each.expression for each in self.query.order_by]
        nodes += [self.query.having] if self.query.having is not None else []
        counts = any(call.function == "count" for node in nodes for call in aggregate_calls(node, self.scope.language))
        if not counts or not isinstance(sourced.source, Scan) or not all(of_series(key, sourced.names) for key in keys):
            return None
        parts = [rows.condition(part) for part in conjuncts(self.query.where) if of_series(part, sourced.names)]
        return " AND ".join([*series_conditions(sourced), *parts]) or "true"

    def base(self, sourced: BoundSource, where: Condition) -> Plan:
        """What does not depend on the select list."""
        names, query = sourced.names, self.query
        return Plan(
            query=query,
            source=sourced.pruned(),
            precision=names.precision,
            timezone=names.timezone,
            now=self.scope.now,
            time=names.time.sql if names.time else None,
            series_key=names.series.sql if names.series else None,
            series_column=names.series.column if names.series else None,
            key=names.key.sql if names.key else None,
            filter=where.sql,
            first=where.first,
            last=where.last,
            distinct=query.distinct,
            limit=query.limit,
            offset=query.offset,
            series_limit=query.series_limit,
            series_offset=query.series_offset,
            partitioned=bool(query.partition_by),
        )

    def expanded(self, names: Environment) -> Iterator[SelectItem]:
        """The select list with stars written out."""
        for item in self.query.items:
            match item.expression:
                case Star(table=table):
                    yield from (starred(column, item.expression.span) for column in names.starred(table))
                case Call(function=function, arguments=(Star(table=table),)) if function in self.scope.language.expanded:
                    for column in names.starred(table):
                        inner = ColumnRef(column.name, column.qualifier)
                        yield SelectItem(Call(function, (inner,)), item.alias, f"{function}({column.name})")
                case _:
                    yield item

    def keys(self, rows: Binder, items: tuple[SelectItem, ...]) -> tuple[list[Key], dict[Expression, Key]]:
        """PARTITION BY and GROUP BY; a name there may be an alias of the select list, a whole number is a position in it."""
        aliases = {item.alias: item.expression for item in items if item.alias is not None}
        keys: list[Key] = []
        expressions: dict[Expression, Key] = {}
        for written in (*self.query.partition_by, *self.query.group_by):
            item = positioned(written, items)
            node = item.expression
            if isinstance(node, ColumnRef) and node.table is None and node.name in aliases and not has_column(rows, node):
                node = aliases[node.name]
            if node not in expressions:
                term = rows.bind(node)
                name, following = self.scope.language.column_name(item), follows(node, expressions)
                keys.append(Key(f"p{len(keys)}", name, term.sql, term.type or BIGINT, follows=following, role=term.role))
                expressions[node] = keys[-1]
        return keys, expressions

    def window(self, rows: Binder, names: Environment) -> WindowPlan | None:
        window = self.query.window
        if window is None:
            return None
        if names.time is None:
            raise ProgrammingError("a window needs a source with a timestamp column", span=window.span)
        if self.query.group_by:
            raise ProgrammingError("GROUP BY cannot be combined with a window", hint="use PARTITION BY", span=window.span)
        return self.scope.language.windows[type(window)](window, rows, names)

    def window_terms(self, window: WindowPlan | None) -> dict[str, Term]:
        """The pseudo-columns of a window, over finished segments."""
        if window is None:
            return {}
        end, length = WEND, f"({WEND} - {WSTART})"
        if isinstance(window, IntervalWindow):
            end, length = f"({WEND} + 1L)", f"({WEND} + 1L - {WSTART})"
        elif isinstance(window, SessionWindow) and self.stream:
            end, length = f"({WEND} + {window.gap}L)", f"({WEND} + {window.gap}L - {WSTART})"
        names = self.scope.language.pseudo_columns.of_windows
        return dict(zip(names, (Term(WSTART, TIMESTAMP), Term(end, TIMESTAMP), Term(length, BIGINT)), strict=True))

    def fill(
        self, binder: Binder, window: WindowPlan | None, outputs: tuple[Output, ...], hidden: tuple[Output, ...]
    ) -> FillPlan | None:
        """FILL of an INTERVAL, its values matched with the outputs that depend on rows."""
        fill = self.query.fill
        if fill is None or fill.mode is FillMode.NONE:
            return None
        if not isinstance(window, IntervalWindow):
            raise ProgrammingError("FILL goes only with INTERVAL", hint="remove FILL", span=fill.span)
        if fill.mode is FillMode.NEAR:
            raise NotSupportedError("FILL(NEAR) goes only with INTERP", hint="use PREV, NEXT or LINEAR", span=fill.span)
        values = fill_values(fill, binder, outputs, hidden) if fill.mode in (FillMode.VALUE, FillMode.VALUE_F) else ()
        return FillPlan(fill.mode, values)

    def is_aggregated(self, items: tuple[SelectItem, ...]) -> bool:
        if self.query.window is not None or self.query.group_by:
            return True
        nodes = [item.expression for item in items]
        nodes += [ordering.expression for ordering in self.query.order_by]
        return any(next(aggregate_calls(node, self.scope.language), None) is not None for node in nodes)

    def unique(self, names: Environment, keys: list[Key]) -> bool:
        """Whether no two rows of a group can have the same instant."""
        if names.series is None or names.key is not None:
            return False
        return names.one_series or groups_by_series(keys)

    def sorts(
        self, binder: Binder, items: tuple[SelectItem, ...], outputs: tuple[Output, ...]
    ) -> tuple[tuple[Sort, ...], tuple[Output, ...]]:
        """ORDER BY: positions, aliases, items of the select list, and expressions of their own as hidden columns."""
        sorts: list[Sort] = []
        hidden: list[Output] = []
        for ordering in self.query.order_by:
            column = sorted_output(ordering, items, outputs)
            if column is None:
                column = f"h{len(hidden)}"
                made = output(binder, 0, SelectItem(ordering.expression, column))
                hidden.append(replace(made, column=column))
            sorts.append(sort_of(ordering, column, self.scope.language))
        if hidden and self.query.distinct:
            raise ProgrammingError("ORDER BY of SELECT DISTINCT takes only columns of the select list")
        return tuple(sorts), tuple(hidden)


def positioned(item: SelectItem, items: tuple[SelectItem, ...]) -> SelectItem:
    """An item of PARTITION BY or GROUP BY, or that of the select list whose position it is."""
    match item.expression:
        case Literal(value=int(position), span=span) if not isinstance(position, bool):
            if not 1 <= position <= len(items):
                raise LimitError(f"position {position}: the select list has {len(items)} columns", span=span)
            found = items[position - 1]
            return replace(found, alias=item.alias or found.alias)
        case _:
            return item


def series_conditions(sourced: BoundSource) -> list[str]:
    """What confines a scan to the series that are meant."""
    match sourced.source:
        case Scan(condition=str(condition)):
            return [condition]
        case _:
            return []


def groups_by_series(keys: list[Key]) -> bool:
    """Return whether no group has rows of two series."""
    return any(key.role is ColumnRole.SERIES for key in keys)


def function_in_stream(groups: GroupResolver) -> InvalidStreamError:
    """The error of an Arrow function in a stream's query, with its place."""
    columns = {made.column for made in groups.group_calls}
    call = next(call for call, aggregate in groups.aggregates.items() if aggregate.final in columns)
    return InvalidStreamError(
        f"{call.function} needs all rows of a window, which a stream does not keep",
        hint="use it in a query over the source or the target",
        span=call.span,
    )


def of_series(node: Expression, names: Environment) -> bool:
    """Return whether an expression has one value for all rows of a series: its columns are tags or the series key."""
    return all(names.column(part).tag for part in walk(node) if isinstance(part, ColumnRef))


def output(binder: Binder, number: int, item: SelectItem) -> Output:
    if isinstance(binder.resolver, GroupResolver):
        binder.resolver.touched = False
    term = binder.bind(item.expression)
    # A comparison shown as a value is false where an operand is NULL; as a condition it is NULL, so that NOT keeps it out.
    tested = isinstance(item.expression, Call) and item.expression.function in binder.language.nulls.shown_false
    sql = f"coalesce({term.sql}, false)" if tested else term.sql
    fills = isinstance(binder.resolver, GroupResolver) and binder.resolver.touched
    role = None if tested else term.role
    return Output(f"o{number}", binder.language.column_name(item), sql, term.type or BOOL, fills, role)


def fill_values(fill: FillClause, binder: Binder, outputs: tuple[Output, ...], hidden: tuple[Output, ...]) -> tuple[str, ...]:
    """The constants of FILL(VALUE, …), one for each output of the select list that depends on rows."""
    wanted = [made for made in outputs if made.fills]
    if len(fill.values) != len(wanted):
        names = ", ".join(made.name for made in wanted)
        raise ProgrammingError(
            f"FILL has {len(fill.values)} values for {len(wanted)} columns",
            hint=f"give one value for each of {names}" if names else "no column of the select list depends on rows",
            span=fill.span,
        )
    cast = binder.language.operators.cast
    shown = [
        cast(binder.bind(node), made.type, binder.expression_context).sql for node, made in zip(fill.values, wanted, strict=True)
    ]
    return (*shown, *("NULL" for made in hidden if made.fills))


def some_rows(binder: Binder, having: str | None) -> str:
    """Without keys, and without a function that counts, no rows give no row."""
    rows = binder.bind(Call("count", (Star(),))).sql
    return f"{rows} > 0L" + (f" AND {having}" if having else "")


def always_a_row(items: tuple[SelectItem, ...], language: Language) -> bool:
    return any(call.function in language.count_nothing for item in items for call in aggregate_calls(item.expression, language))


def tie_order(names: Environment) -> str:
    """What orders rows whose instants may be equal."""
    parts = [TS] + [column for column, place in ((SERIES, names.series), (KEY, names.key)) if place is not None]
    return f"struct({', '.join(parts)})" if len(parts) > 1 else TS


def has_column(rows: Binder, reference: ColumnRef) -> bool:
    assert isinstance(rows.resolver, RowResolver)
    return any(column.name == reference.name for column in rows.resolver.environment.columns)


def starred(column: SourceColumn, span: Span | None) -> SelectItem:
    return SelectItem(ColumnRef(column.name, column.qualifier, span), column.name, column.name)


def selection(nodes: list[Expression], language: Language) -> Call | None:
    """The one selection function of a select list; None where there is none or more than one."""
    found = {call for node in nodes for call in aggregate_calls(node, language) if language.is_selection(call.function)}
    return next(iter(found)) if len(found) == 1 else None


def sort_of(ordering: Ordering, column: str, language: Language) -> Sort:
    """Sort a column, with NULL where the language puts it unless said otherwise."""
    lowest = ordering.descending != language.nulls.sorts_lowest
    nulls_first = lowest if ordering.nulls_first is None else ordering.nulls_first
    return Sort(column, ordering.descending, nulls_first)


def sorted_output(ordering: Ordering, items: tuple[SelectItem, ...], outputs: tuple[Output, ...]) -> str | None:
    """The output that an ORDER BY item means, if it means one."""
    node = ordering.expression
    match node:
        case Literal(value=int(position), span=span) if not isinstance(position, bool):
            if not 1 <= position <= len(outputs):
                raise LimitError(f"ORDER BY {position}: the select list has {len(outputs)} columns", span=span)
            return outputs[position - 1].column
        case ColumnRef(name=name, table=None):
            aliased = [result.column for item, result in zip(items, outputs, strict=True) if item.alias == name]
            if aliased:
                return aliased[0]
    return next((result.column for item, result in zip(items, outputs, strict=True) if item.expression == node), None)


def follows(node: Expression, keys: Mapping[Expression, Key]) -> bool:
    """Whether an expression is a function of the series key, which is among the keys."""
    parts = list(walk(node))
    columns = [part for part in parts if isinstance(part, ColumnRef)]
    if node in columns or any(isinstance(part, Call) and part.function == "rand" for part in parts):
        return False
    return bool(columns) and all(column in keys and keys[column].role is ColumnRole.SERIES for column in columns)
