"""Resolve names and calls over groups of rows, and collect what their aggregates need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import ProgrammingError
from headrace.model.expressions import Call, ColumnRef, Expression, Literal, Star
from headrace.model.queries import IntervalClause, Query, SelectItem, SessionClause, StateClause
from headrace.model.tables import TBNAME
from headrace.model.types import BIGINT, TIMESTAMP
from headrace.verify.compare import ComparisonMode
from headrace.verify.expressions import Compiler
from headrace.verify.steps import END, START, TS, Partition
from headrace.verify.tdengine import aggregates
from headrace.verify.tdengine.aggregates import (
    AGGREGATES,
    ESTIMATES,
    SELECTIONS,
    TEXT_RESULTS,
    USE_ADJACENT_POINTS,
    AggregateCall,
    calls_of,
    constants_of,
)
from headrace.verify.tdengine.conversions import to_double
from headrace.verify.tdengine.frames import Frame
from headrace.verify.values import Value, unsupported

EXPANDED: Final = ("first", "last", "last_row")


def aggregate_calls(*nodes: Expression) -> list[Call]:
    """Return the calls of aggregates in expressions, including those that verify does not support."""
    return [call for node in nodes for call in calls_of(node, *AGGREGATES, *aggregates.UNSUPPORTED)]


@dataclass(frozen=True, slots=True)
class Key:
    """A partition or group key: its column, the name a user may call it by, its expression, and its value over rows."""

    column: str
    name: str
    node: Expression
    value: Value

    @property
    def grouped(self) -> Value:
        """Its value over groups."""
        return Value(self.column, self.value.type)


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
    expanded: list[SelectItem] = []
    for item in items:
        match item.expression:
            case Star(table=table):
                expanded += [SelectItem(ColumnRef(column.name, column.qualifier), column.name) for column in frame.starred(table)]
            case Call(function=function, arguments=(Star(table=table),)) if function in EXPANDED:
                expanded += [
                    SelectItem(
                        Call(function, (ColumnRef(column.name, column.qualifier),)), item.alias, f"{function}({column.name})"
                    )
                    for column in frame.starred(table)
                ]
            case _:
                expanded.append(item)
    return expanded


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
        return self.frame.single or any(key.node == ColumnRef(TBNAME) for key in self.keys)

    @property
    def counts_subtables(self) -> bool:
        """True if rows of a table are counted by expressions that are constant within a subtable."""
        query = self.query
        nodes = [item.expression for item in query.items] + [ordering.expression for ordering in query.order_by]
        nodes += [query.having] if query.having is not None else []
        has_count = any(call.function == "count" for call in aggregate_calls(*nodes))
        by_subtable = all(self.frame.is_of_subtable(key.node) for key in self.keys)
        return bool(has_count and self.keys and query.window is None and self.frame.subtables and by_subtable)

    def leaf(self, node: Expression) -> Value | None:
        """Resolve a key, the window's state, an aggregate or a name; None for any other expression."""
        for key in self.keys:
            if key.node == node:
                return key.grouped
        window = self.query.window
        if isinstance(window, StateClause) and window.expression == node:
            return Value(self.column("first(_state)"), self.rows.value(node).type)
        match node:
            case Call(function=function) if function in AGGREGATES:
                self.depends_on_rows = True
                return self._over_group(AGGREGATES[function](self._use(node)))
            case Call(function=function) if function in aggregates.UNSUPPORTED:
                raise unsupported(f"the aggregate {function}")
            case ColumnRef():
                return self._reference(node)
        return None

    def _reference(self, node: ColumnRef) -> Value:
        """Resolve a name: of the window, of a key, of a tag, or of a column at the row that the selection function picks."""
        if node.table is None:
            if (window_value := self._window_value(node.name)) is not None:
                return window_value
            for key in self.keys:
                if key.name == node.name:
                    return key.grouped
        column = self.frame.column(node)
        if column.tag and self.is_single_subtable:
            self.keys.append(Key(f"k{len(self.keys)}", node.name, node, column.value))
            return self.keys[-1].grouped
        if self.selection is None:
            raise ProgrammingError(f"column {node.name} is neither grouped nor aggregated", span=node.span)
        self.depends_on_rows = True
        return self._over_group(aggregates.selected_value(self._use(self.selection), column.value))

    def _window_value(self, name: str) -> Value | None:
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

    def _over_group(self, value: Value) -> Value:
        return Value(self.column(value.sql), value.type)

    def column(self, sql: str) -> str:
        """Return the name of the column that computes `sql` over a group."""
        return self.columns.setdefault(sql, f"g{len(self.columns)}")

    def _use(self, call: Call) -> AggregateCall:
        argument = call.arguments[0]
        if call.distinct:
            raise unsupported(f"{call.function}(DISTINCT …)")
        x = Value("1", BIGINT) if isinstance(argument, Star) else self.rows.value(argument)
        interval = isinstance(self.query.window, IntervalClause)
        by_points = interval and call.function in USE_ADJACENT_POINTS
        before, after = (self._points(x, "lag"), self._points(x, "lead")) if by_points else ("", "")
        unique = self.is_single_subtable and self.frame.key is None and self.frame.tbname is not None
        constants, order = constants_of(self.rows, call), Partition((), self.frame.order)
        return AggregateCall(call.function, x, constants, order, self.rows, unique, interval, before, after)

    def _points(self, x: Value, function: str) -> str:
        """Return the column of the rows with the nearest earlier (`lag`) or later (`lead`) point that has a value."""
        point = f"CASE WHEN {x.sql} IS NOT NULL THEN {{'t': {TS}, 'v': {to_double(x)}}} END"
        over = Partition(tuple(key.value.sql for key in self.keys), (TS,)).over()
        return self.row_columns.setdefault(f"{function}({point} IGNORE NULLS) {over}", f"b{len(self.row_columns)}")


def find_selection(nodes: Sequence[Expression]) -> Call | None:
    """Return the one selection function of a select list; None if there is none or more than one."""
    calls = {call for call in aggregate_calls(*nodes) if call.function in SELECTIONS}
    return next(iter(calls)) if len(calls) == 1 else None


def comparison_mode(node: Expression) -> ComparisonMode:
    """Return how an item's values are compared.

    Raises:
        NotSupportedError: An estimate is part of a larger expression, whose range is unknown.
    """
    if isinstance(node, Call) and node.function in ESTIMATES:
        return ComparisonMode.IN_RANGE
    if any(call.function in ESTIMATES for call in aggregate_calls(node)):
        raise unsupported("an estimate inside an expression")
    if isinstance(node, Call) and node.function in TEXT_RESULTS and (node.function != "percentile" or len(node.arguments) > 2):
        return ComparisonMode.AS_TEXT
    return ComparisonMode.EXACT


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
