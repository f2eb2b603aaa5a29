"""`bind`: a query as written becomes a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast as assume

from headrace.compute import limits
from headrace.compute.binding import Binder
from headrace.compute.environment import Environment, SourceColumn, environment
from headrace.compute.functions import AGGREGATES
from headrace.compute.operators import same_instant, timestamp
from headrace.compute.plan import (
    TS,
    WEND,
    WSTART,
    AnyPlan,
    Argument,
    Bound,
    EventWindow,
    IntervalWindow,
    Key,
    Nothing,
    Output,
    Plan,
    PlanSource,
    Scan,
    SessionWindow,
    Sort,
    StateWindow,
    UnionPlan,
    WindowPlan,
)
from headrace.compute.resolvers import GroupResolver, RowResolver, aggregate_calls
from headrace.compute.scalars import Surroundings
from headrace.compute.scope import Relation, Scope
from headrace.compute.terms import Term, quote
from headrace.compute.types import BIGINT, TIMESTAMP, from_ticks
from headrace.errors import LimitError, NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.expressions import Call, ColumnRef, Expression, Literal, Star, walk
from headrace.model.queries import (
    Count,
    Event,
    Interval,
    Item,
    Join,
    Ordering,
    Query,
    QuerySource,
    Session,
    State,
    TableSource,
    Union,
)
from headrace.model.tables import TBNAME
from headrace.model.types import INTEGERS, STRINGS, DataType, Kind

EXPANDED = ("last_row", "last", "first")
ALWAYS_A_ROW = ("count", "hyperloglog")
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def bind(query: Query | Union, scope: Scope, *, stream: bool = False) -> AnyPlan:
    """The plan of a query: names and types resolved, limits checked.

    With `stream`, what only queries can have is refused, and `_wend` of a session is its last row plus the gap.
    Errors: `NotFoundError`, `TypeMismatchError`, `LimitError`, `NotSupportedError`, `ProgrammingError`, with spans.
    """
    if isinstance(query, Union):
        return bind_union(query, scope)
    return SelectBinder(query, scope, stream).plan()


def bind_union(query: Union, scope: Scope) -> UnionPlan:
    raise NotSupportedError("UNION is not offered yet")


@dataclass(slots=True)
class SelectBinder:
    """Binds one SELECT, clause by clause."""

    query: Query
    scope: Scope
    stream: bool = False

    def plan(self) -> Plan:
        source = self.source()
        names = environment(source)
        rows = Binder(RowResolver(names, "in WHERE"), Surroundings(names.precision, self.scope.timezone))
        condition, first, last = self.where(rows, names)
        arguments = replace(rows, resolver=RowResolver(names, "inside another aggregate"))
        items = tuple(self.expanded(names))
        keys, expressions = self.keys(arguments, items)
        window = self.window(arguments, names)
        aggregated = self.is_aggregated(items)
        order = TS if self.unique(names, keys) else tie_order(names)
        groups = GroupResolver(names, arguments, keys, expressions, self.window_terms(window), order)
        groups.dependent = names.subtable or any(key.sql == quote(TBNAME) for key in keys)
        groups.selection = selection([item.expression for item in items]) if aggregated else None
        binder = Binder(groups, rows.surroundings) if aggregated else replace(rows, resolver=RowResolver(names, "here"))
        outputs = tuple(self.output(binder, number, item) for number, item in enumerate(items))
        sorts, hidden = self.sorts(binder, items, outputs)
        having = binder.condition(self.query.having) if self.query.having is not None else None
        if aggregated and not keys and window is None and not always_a_row(items):
            having = self.some_rows(binder, having)
        return Plan(
            query=self.query,
            source=self.pruned(source, names),
            precision=names.precision,
            timezone=self.scope.timezone,
            now=self.scope.now,
            time=names.time.sql if names.time else None,
            tbname=names.tbname.sql if names.tbname else None,
            key=names.key.sql if names.key else None,
            filter=condition,
            first=first,
            last=last,
            keys=tuple(groups.keys),
            window=window,
            arguments=tuple(groups.arguments.values()),
            aggregates=tuple(groups.aggregates.values()),
            outputs=outputs,
            hidden=hidden,
            having=having,
            fill=self.query.fill,
            sorts=sorts,
            distinct=self.query.distinct,
            limit=self.query.limit,
            offset=self.query.offset,
            series_limit=self.query.series_limit,
            series_offset=self.query.series_offset,
            partitioned=bool(self.query.partition_by),
            aggregated=aggregated,
            unique=order == TS,
        )

    def source(self) -> PlanSource:
        match self.query.source:
            case None:
                return Nothing()
            case TableSource(name=name, alias=alias):
                found: Relation = self.scope.lookup(name)
                columns = tuple(column.name for column in (*found.table.columns, *found.table.tags))
                return Scan(found.table, found.database, found.subtable, alias, (*columns, TBNAME))
            case QuerySource(query=query):
                return bind(query, self.scope)
            case Join():
                raise NotSupportedError("joins are not offered yet")

    def pruned(self, source: PlanSource, names: Environment) -> PlanSource:
        """The source with only the columns that the plan uses; the time line and `tbname` are always among them."""
        if not isinstance(source, Scan):
            return source
        needed = names.used | {source.table.timestamp.name, TBNAME, *((names.key.column,) if names.key else ())}
        return replace(source, columns=tuple(column for column in source.columns if column in needed))

    def where(self, rows: Binder, names: Environment) -> tuple[str | None, Bound | None, Bound | None]:
        """The condition, and the range of instants that it lets through."""
        conditions: list[str] = []
        first: Bound | None = None
        last: Bound | None = None
        if names.subtable and isinstance(self.query.source, TableSource) and names.tbname is not None:
            found = self.scope.lookup(self.query.source.name)
            if found.subtable is not None:
                conditions.append(f"{quote(TBNAME)} = {text_literal(found.subtable)}")
        for part in conjuncts(self.query.where):
            bounds = time_bounds(part, rows, names)
            for sign, bound in bounds:
                conditions.append(bounded(sign, bound, names))
                first = tighter(first, bound, max) if sign == ">=" else first
                last = tighter(last, bound, min) if sign == "<=" else last
            if not bounds:
                conditions.append(rows.condition(part))
        return (" AND ".join(conditions) or None), first, last

    def expanded(self, names: Environment) -> Iterator[Item]:
        """The select list with stars written out."""
        for item in self.query.items:
            match item.expression:
                case Star(table=table):
                    yield from (starred(column) for column in names.starred(table))
                case Call(function=function, arguments=(Star(table=table),)) if function in EXPANDED:
                    for column in names.starred(table):
                        inner = ColumnRef(column.name, column.qualifier)
                        yield Item(Call(function, (inner,)), item.alias, f"{function}({column.name})")
                case _:
                    yield item

    def keys(self, rows: Binder, items: tuple[Item, ...]) -> tuple[list[Key], dict[Expression, Key]]:
        """PARTITION BY and GROUP BY; a name there may be an alias of the select list."""
        aliases = {item.alias: item.expression for item in items if item.alias is not None}
        keys: list[Key] = []
        expressions: dict[Expression, Key] = {}
        for item in (*self.query.partition_by, *self.query.group_by):
            node = item.expression
            if isinstance(node, ColumnRef) and node.table is None and node.name in aliases and not has_column(rows, node):
                node = aliases[node.name]
            term = rows.bind(node)
            key = expressions.get(node) or Key(f"p{len(keys)}", item.name, term.sql, term.type or BIGINT)
            if node not in expressions:
                keys.append(key)
                expressions[node] = key
        return keys, expressions

    def window(self, rows: Binder, names: Environment) -> WindowPlan | None:
        window, precision = self.query.window, names.precision
        if window is None:
            return None
        if names.time is None:
            raise ProgrammingError("a window needs a source with a timestamp column", span=window.span)
        if self.query.group_by:
            raise ProgrammingError("GROUP BY does not go with a window", hint="use PARTITION BY", span=window.span)
        match window:
            case Interval():
                return limits.interval(window, precision, self.scope.timezone)
            case Session():
                return limits.session(window, names.time.name, precision)
            case State():
                return self.state(window, rows, names)
            case Event():
                shortest = limits.true_for(window.true_for, precision, window.span)
                start, end = rows.condition(window.start), rows.condition(window.end)
                return EventWindow(f"coalesce({start}, false)", f"coalesce({end}, false)", shortest)
            case Count():
                return limits.count(window)

    def state(self, window: State, rows: Binder, names: Environment) -> StateWindow:
        """STATE_WINDOW takes integers, truth values and text, not tags."""
        node = window.expression
        if isinstance(node, ColumnRef) and names.column(node).tag:
            raise ProgrammingError(f"STATE_WINDOW is not possible on the tag {node.name}", span=node.span or window.span)
        term = rows.bind(node)
        if term.type is None or term.type.kind not in (*INTEGERS, *STRINGS, Kind.BOOL):
            raise TypeMismatchError(
                f"STATE_WINDOW takes integers, truth values or text, not {term.type}",
                hint="cast it, as in STATE_WINDOW(CAST(x AS INT))",
                span=node.span or window.span,
            )
        return StateWindow(Argument("_state", term.sql, term.type), limits.true_for(window.true_for, names.precision, window.span))

    def window_terms(self, window: WindowPlan | None) -> dict[str, Term]:
        """The pseudo-columns of a window, over finished segments."""
        if window is None:
            return {}
        end, length = WEND, f"({WEND} - {WSTART})"
        if isinstance(window, IntervalWindow):
            end, length = f"({WEND} + 1L)", f"({WEND} + 1L - {WSTART})"
        elif isinstance(window, SessionWindow) and self.stream:
            end, length = f"({WEND} + {window.gap}L)", f"({WEND} + {window.gap}L - {WSTART})"
        return {WSTART: Term(WSTART, TIMESTAMP), WEND: Term(end, TIMESTAMP), "_wduration": Term(length, BIGINT)}

    def is_aggregated(self, items: tuple[Item, ...]) -> bool:
        if self.query.window is not None or self.query.group_by:
            return True
        nodes = [item.expression for item in items]
        nodes += [ordering.expression for ordering in self.query.order_by]
        return any(next(aggregate_calls(node), None) is not None for node in nodes)

    def unique(self, names: Environment, keys: list[Key]) -> bool:
        """Whether no two rows of a group can have the same instant."""
        if names.tbname is None or names.key is not None:
            return False
        return names.subtable or any(key.sql == names.tbname.sql for key in keys)

    def output(self, binder: Binder, number: int, item: Item) -> Output:
        term = binder.bind(item.expression)
        return Output(f"o{number}", item.name, term.sql, term.type or DataType(Kind.BOOL))

    def sorts(
        self, binder: Binder, items: tuple[Item, ...], outputs: tuple[Output, ...]
    ) -> tuple[tuple[Sort, ...], tuple[Output, ...]]:
        """ORDER BY: positions, aliases, items of the select list, and expressions of their own as hidden columns."""
        sorts, hidden = [], []
        for ordering in self.query.order_by:
            column = sorted_output(ordering, items, outputs)
            if column is None:
                term = binder.bind(ordering.expression)
                column = f"h{len(hidden)}"
                hidden.append(Output(column, column, term.sql, term.type or BIGINT))
            nulls_first = not ordering.descending if ordering.nulls_first is None else ordering.nulls_first
            sorts.append(Sort(column, ordering.descending, nulls_first))
        if hidden and self.query.distinct:
            raise ProgrammingError("ORDER BY of SELECT DISTINCT takes only columns of the select list")
        return tuple(sorts), tuple(hidden)

    def some_rows(self, binder: Binder, having: str | None) -> str:
        """Without keys, and without a function that counts, no rows give no row."""
        rows = binder.bind(Call("count", (Star(),))).sql
        return f"{rows} > 0L" + (f" AND {having}" if having else "")


def text_literal(value: str) -> str:
    from headrace.compute.terms import text

    return text(value)


def always_a_row(items: tuple[Item, ...]) -> bool:
    return any(call.function in ALWAYS_A_ROW for item in items for call in aggregate_calls(item.expression))


def tie_order(names: Environment) -> str:
    """What orders rows whose instants may be equal."""
    parts = [TS, *(TBNAME for _ in (names.tbname,) if names.tbname), *("_key" for _ in (names.key,) if names.key)]
    return f"struct({', '.join(parts)})" if len(parts) > 1 else TS


def has_column(rows: Binder, reference: ColumnRef) -> bool:
    names = assume(RowResolver, rows.resolver).environment
    return any(column.name == reference.name for column in names.columns)


def starred(column: SourceColumn) -> Item:
    return Item(ColumnRef(column.name, column.qualifier), column.name, column.name)


def conjuncts(node: Expression | None) -> Iterator[Expression]:
    """The parts of a condition that are joined by AND."""
    match node:
        case None:
            return
        case Call(function="and", arguments=arguments):
            for argument in arguments:
                yield from conjuncts(argument)
        case _:
            yield node


def time_bounds(node: Expression, rows: Binder, names: Environment) -> list[tuple[str, Bound]]:
    """A condition on the time line alone, as inclusive bounds (`>=` or `<=`); empty where it is something else."""
    match node:
        case Call(function="between", arguments=(subject, low, high)) if is_time(subject, names):
            ends = (("<=", constant_instant(high, rows)), (">=", constant_instant(low, rows)))
            return [(sign, end) for sign, end in ends if end is not None] if all(end for _, end in ends) else []
        case Call(function=sign, arguments=(left, right)) if sign in MIRRORED:
            if is_time(right, names) and not is_time(left, names):
                left, right, sign = right, left, MIRRORED[sign]
            if not is_time(left, names) or (end := constant_instant(right, rows)) is None:
                return []
            return inclusive(sign, end)
    return []


def inclusive(sign: str, end: Bound) -> list[tuple[str, Bound]]:
    match sign:
        case "=":
            return [(">=", end), ("<=", end)]
        case "<":
            return [("<=", replace(end, ticks=end.ticks - 1))]
        case ">":
            return [(">=", replace(end, ticks=end.ticks + 1))]
        case _:
            return [(sign, end)]


def is_time(node: Expression, names: Environment) -> bool:
    if not isinstance(node, ColumnRef) or names.time is None:
        return False
    return node.name in (names.time.name, "_rowts", "_c0") and node.table in (None, names.time.qualifier)


def constant_instant(node: Expression, rows: Binder) -> Bound | None:
    """A constant as an instant; None where it is no constant."""
    if any(isinstance(part, ColumnRef) and part.name not in ("now", "today") for part in walk(node)):
        return None
    term = rows.bind(node)
    if term.constant is None or term.type is None:
        return None
    moment = term if same_instant(term) else timestamp(term, rows.surroundings.timezone, rows.surroundings.precision)
    constant = moment.constant
    if constant is None or not isinstance(constant.value, int):
        return None
    return Bound(constant.value, constant.relative)


def bounded(sign: str, bound: Bound, names: Environment) -> str:
    """A bound on the stored column, so that files and row groups outside it are skipped."""
    from headrace.compute.terms import NOW, ticks

    assert names.time is not None
    value = f"({NOW} + {ticks(bound.ticks)})" if bound.relative else ticks(bound.ticks)
    if names.time.sql == names.time.column:
        return f"{names.time.sql} {sign} {value}"
    return f"{quote(names.time.column)} {sign} {from_ticks(value, names.precision)}"


def tighter(known: Bound | None, other: Bound, choose: object) -> Bound:
    """The tighter of two bounds; of a fixed and a relative one the later written."""
    if known is None or known.relative != other.relative:
        return other
    pick = max if choose is max else min
    return Bound(pick(known.ticks, other.ticks), other.relative)


def selection(nodes: list[Expression]) -> Call | None:
    """The one selection function of a select list; None where there is none or more than one."""
    found = {call for node in nodes for call in aggregate_calls(node) if AGGREGATES[call.function].selects}
    return next(iter(found)) if len(found) == 1 else None


def sorted_output(ordering: Ordering, items: tuple[Item, ...], outputs: tuple[Output, ...]) -> str | None:
    """The output that an ORDER BY item means, if it means one."""
    match ordering.expression:
        case Literal(value=int(position), span=span) if not isinstance(position, bool):
            if not 1 <= position <= len(outputs):
                raise LimitError(f"ORDER BY {position}: the select list has {len(outputs)} columns", span=span)
            return outputs[position - 1].column
        case ColumnRef(name=name, table=None):
            for item, output in zip(items, outputs, strict=True):
                if item.alias == name:
                    return output.column
    for item, output in zip(items, outputs, strict=True):
        if item.expression == ordering.expression:
            return output.column
    return None
