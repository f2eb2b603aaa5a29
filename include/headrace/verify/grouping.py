"""Resolve names and calls by context: over rows or over groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.errors import ProgrammingError
from headrace.model.expressions import Call, ColumnRef, DurationLiteral, Expression, Literal, Scalar, Star, walk
from headrace.model.queries import IntervalClause, Query, SelectItem, SessionClause, StateClause
from headrace.model.tables import TBNAME
from headrace.model.time import Duration
from headrace.model.types import BIGINT, TIMESTAMP
from headrace.verify import aggregates, series
from headrace.verify.aggregates import (
    AGGREGATES,
    END,
    ESTIMATES,
    SELECTIONS,
    START,
    TEXT_RESULTS,
    TS,
    USE_ADJACENT_POINTS,
    ComparisonMode,
)
from headrace.verify.expressions import Compiler
from headrace.verify.frames import Frame
from headrace.verify.values import Value, to_double, unsupported

EXPANDED = ("first", "last", "last_row")


def aggregate_calls(node: Expression) -> list[Call]:
    """Return the calls of aggregates in an expression, including those that verify does not support."""
    functions = (*AGGREGATES, *aggregates.UNSUPPORTED_AGGREGATES)
    return [part for part in walk(node) if isinstance(part, Call) and part.function in functions]


def series_calls(node: Expression) -> list[Call]:
    """Return the calls of functions of adjacent rows in an expression."""
    functions = (*series.SERIES, "sample")
    return [part for part in walk(node) if isinstance(part, Call) and part.function in functions]


def row_leaf(frame: Frame) -> Callable[[Expression], Value | None]:
    """Return the leaf resolver for the columns of a source."""

    def leaf(node: Expression) -> Value | None:
        return frame.column(node).value if isinstance(node, ColumnRef) else None

    return leaf


def constant_arguments(rows: Compiler, call: Call) -> tuple[Scalar | Duration, ...]:
    """Return the arguments of a call after the first, which must be constants."""
    arguments: list[Scalar | Duration] = []
    for node in call.arguments[1:]:
        if isinstance(node, DurationLiteral):
            arguments.append(node.value)
            continue
        value = rows.value(node)
        if not value.is_constant:
            raise unsupported(f"{call.function} with arguments that are not constant")
        arguments.append(value.constant)
    return tuple(arguments)


@dataclass(frozen=True, slots=True)
class Key:
    """A partition or group key: its column, the name a user may call it by, its expression, and its value over rows."""

    column: str
    name: str
    node: Expression
    value: Value


def resolve_keys(query: Query, items: Sequence[SelectItem], frame: Frame, rows: Compiler) -> list[Key]:
    """Return the distinct keys of PARTITION BY and GROUP BY; a name that is not a column may be an alias of the select list."""
    aliases = {item.alias: item.expression for item in items if item.alias is not None}
    keys: list[Key] = []
    for item in (*query.partition_by, *query.group_by):
        node = item.expression
        if isinstance(node, Literal) and isinstance(node.value, int) and not isinstance(node.value, bool):
            item = items[node.value - 1]
            node = item.expression
        if isinstance(node, ColumnRef) and node.table is None and frame.find(node) is None:
            node = aliases.get(node.name, node)
        if all(key.node != node for key in keys):
            keys.append(Key(f"k{len(keys)}", item.name, node, rows.value(node)))
    return keys


def expand_stars(items: Sequence[SelectItem], frame: Frame) -> list[SelectItem]:
    """Expand stars in the select list."""
    expanded_items: list[SelectItem] = []
    for item in items:
        match item.expression:
            case Star(table=table):
                expanded_items += [
                    SelectItem(ColumnRef(column.name, column.qualifier), column.name) for column in frame.starred(table)
                ]
            case Call(function=function, arguments=(Star(table=table),)) if function in EXPANDED:
                for column in frame.starred(table):
                    call = Call(function, (ColumnRef(column.name, column.qualifier),))
                    expanded_items.append(SelectItem(call, item.alias, f"{function}({column.name})"))
            case _:
                expanded_items.append(item)
    return expanded_items


@dataclass(slots=True)
class Groups:
    """Resolves names over groups, and collects what aggregates need: `columns` over a group, `row_columns` over rows.

    `depends_on_rows` is whether the last resolved expression depends on the rows of a group.
    """

    query: Query
    frame: Frame
    rows: Compiler
    keys: list[Key]
    selection: Call | None
    stream: bool = False
    columns: dict[str, str] = field(default_factory=dict)
    row_columns: dict[str, str] = field(default_factory=dict)
    depends_on_rows: bool = False

    @property
    def is_single_subtable(self) -> bool:
        """True if all rows of a group belong to one subtable."""
        return self.frame.single or any(key.node == ColumnRef(TBNAME) for key in self.keys)

    @property
    def counts_subtables(self) -> bool:
        """True if rows of a table are counted by expressions that are constant within a subtable."""
        query = self.query
        nodes = [item.expression for item in query.items] + [ordering.expression for ordering in query.order_by]
        nodes += [query.having] if query.having is not None else []
        has_count = any(call.function == "count" for node in nodes for call in aggregate_calls(node))
        by_subtable = all(self.frame.is_of_subtable(key.node) for key in self.keys)
        return bool(has_count and self.keys and query.window is None and self.frame.subtables and by_subtable)

    def leaf(self, node: Expression) -> Value | None:
        """Resolve a key, the window's state, an aggregate or a name; None for any other expression."""
        for key in self.keys:
            if key.node == node:
                return Value(key.column, key.value.type)
        window = self.query.window
        if isinstance(window, StateClause) and window.expression == node:
            state = self.rows.value(node)
            return Value(self.column("first(_state)"), state.type)
        match node:
            case Call(function=function) if function in AGGREGATES:
                return self.aggregate(node)
            case Call(function=function) if function in aggregates.UNSUPPORTED_AGGREGATES:
                raise unsupported(f"the aggregate {function}")
            case ColumnRef():
                return self.reference(node)
            case _:
                return None

    def reference(self, node: ColumnRef) -> Value:
        """Resolve a name: of the window, of a key, of a tag, or of a column at the row that the selection function picks."""
        if node.table is None:
            if (window_value := self.window_value(node.name)) is not None:
                return window_value
            for key in self.keys:
                if key.name == node.name:
                    return Value(key.column, key.value.type)
        column = self.frame.column(node)
        if column.tag and self.is_single_subtable:
            key = Key(f"k{len(self.keys)}", node.name, node, column.value)
            self.keys.append(key)
            return Value(key.column, column.type)
        if self.selection is None:
            raise ProgrammingError(f"column {node.name} is neither grouped nor aggregated", span=node.span)
        self.depends_on_rows = True
        return Value(self.column(aggregates.selected_value(self.use(self.selection), column.value).sql), column.type)

    def window_value(self, name: str) -> Value | None:
        """Resolve `_wstart`, `_wend` and `_wduration`.

        The end of an INTERVAL is an instant after its last; that of a stream's SESSION is a gap after it.
        """
        window = self.query.window
        if window is None:
            return None
        after = 1 if isinstance(window, IntervalClause) else 0
        if isinstance(window, SessionClause) and self.stream:
            after = window.gap.ticks(self.rows.precision)
        end = f"({END} + {after})"
        values = {"_wstart": START, "_wend": end, "_wduration": f"({end} - {START})"}
        return Value(values[name], BIGINT if name == "_wduration" else TIMESTAMP) if name in values else None

    def aggregate(self, call: Call) -> Value:
        """Compile an aggregate to a column over a group."""
        self.depends_on_rows = True
        value = AGGREGATES[call.function](self.use(call))
        return Value(self.column(value.sql), value.type)

    def column(self, sql: str) -> str:
        """Return the name of the column that computes `sql` over a group."""
        return self.columns.setdefault(sql, f"g{len(self.columns)}")

    def use(self, call: Call) -> aggregates.AggregateCall:
        """Describe one call of an aggregate."""
        argument = call.arguments[0]
        if call.distinct:
            raise unsupported(f"{call.function}(DISTINCT …)")
        x = Value("1", BIGINT) if isinstance(argument, Star) else self.rows.value(argument)
        before = after = ""
        interval = isinstance(self.query.window, IntervalClause)
        if interval and call.function in USE_ADJACENT_POINTS:
            before, after = self.points(x, "lag"), self.points(x, "lead")
        unique = self.is_single_subtable and self.frame.key is None and self.frame.tbname is not None
        return aggregates.AggregateCall(
            call.function,
            x,
            constant_arguments(self.rows, call),
            self.frame.order,
            self.rows.precision,
            unique,
            interval,
            before,
            after,
        )

    def points(self, x: Value, function: str) -> str:
        """Return the column of the rows with the nearest earlier (`lag`) or later (`lead`) point that has a value."""
        point = f"CASE WHEN {x.sql} IS NOT NULL THEN {{'t': {TS}, 'v': {to_double(x)}}} END"
        keys = ", ".join(key.value.sql for key in self.keys) or "1"
        sql = f"{function}({point} IGNORE NULLS) OVER (PARTITION BY {keys} ORDER BY {TS})"
        return self.row_columns.setdefault(sql, f"b{len(self.row_columns)}")


def find_selection(nodes: Sequence[Expression]) -> Call | None:
    """Return the one selection function of a select list; None if there is none or more than one."""
    calls = {call for node in nodes for call in aggregate_calls(node) if call.function in SELECTIONS}
    return next(iter(calls)) if len(calls) == 1 else None


def comparison_mode(node: Expression) -> ComparisonMode:
    """Return how an item's values are compared.

    Raises:
        NotSupportedError: An estimate is part of a larger expression, whose range is unknown.
    """
    functions = [call.function for call in aggregate_calls(node)]
    if isinstance(node, Call) and node.function in ESTIMATES:
        return ComparisonMode.IN_RANGE
    if any(function in ESTIMATES for function in functions):
        raise unsupported("an estimate inside an expression")
    if isinstance(node, Call) and node.function in TEXT_RESULTS and (node.function != "percentile" or len(node.arguments) > 2):
        return ComparisonMode.AS_TEXT
    return ComparisonMode.EXACT


def has_aggregates(query: Query, items: Sequence[SelectItem]) -> bool:
    """Return True if a query has a window, GROUP BY or an aggregate."""
    nodes = [item.expression for item in items] + [ordering.expression for ordering in query.order_by]
    return bool(query.window or query.group_by) or any(aggregate_calls(node) for node in nodes)


def ordering_position(node: Expression, items: Sequence[SelectItem]) -> int | None:
    """Return the position of the item that an ORDER BY expression refers to; None if it refers to none."""
    match node:
        case Literal(value=int(position)) if not isinstance(position, bool):
            return position - 1
        case ColumnRef(name=name, table=None):
            positions = [index for index, item in enumerate(items) if item.alias == name]
            if positions:
                return positions[0]
    return next((index for index, item in enumerate(items) if item.expression == node), None)
