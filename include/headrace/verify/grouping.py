"""What names and calls mean by the place they stand in: over rows, over the groups of rows, over points."""

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
from headrace.verify.aggregates import AGGREGATES, END, ESTIMATES, SELECTIONS, START, SURROUNDED, TS, WRITTEN, Likeness
from headrace.verify.expressions import Compiler
from headrace.verify.frames import Frame
from headrace.verify.values import Value, real, unknown

EXPANDED = ("first", "last", "last_row")


def aggregate_calls(node: Expression) -> list[Call]:
    known = (*AGGREGATES, *aggregates.KNOWN_ELSEWHERE)
    return [part for part in walk(node) if isinstance(part, Call) and part.function in known]


def series_calls(node: Expression) -> list[Call]:
    known = (*series.SERIES, "sample")
    return [part for part in walk(node) if isinstance(part, Call) and part.function in known]


def row_leaf(frame: Frame) -> Callable[[Expression], Value | None]:
    """Columns of a source."""

    def leaf(node: Expression) -> Value | None:
        return frame.column(node).value if isinstance(node, ColumnRef) else None

    return leaf


def constants(rows: Compiler, call: Call) -> tuple[Scalar | Duration, ...]:
    """The arguments of a call after the first."""
    found: list[Scalar | Duration] = []
    for node in call.arguments[1:]:
        if isinstance(node, DurationLiteral):
            found.append(node.value)
            continue
        value = rows.value(node)
        if not value.known:
            raise unknown(f"{call.function} with arguments that are not constant")
        found.append(value.constant)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Key:
    """A partition or group key: its column, the name a user may call it by, what it is and where it was computed from."""

    column: str
    name: str
    node: Expression
    value: Value


def keys_of(query: Query, items: Sequence[SelectItem], frame: Frame, rows: Compiler) -> list[Key]:
    """PARTITION BY and GROUP BY, each key once; a name that is no column may be an alias of the select list."""
    aliases = {item.alias: item.expression for item in items if item.alias is not None}
    found: list[Key] = []
    for item in (*query.partition_by, *query.group_by):
        node = item.expression
        if isinstance(node, Literal) and isinstance(node.value, int) and not isinstance(node.value, bool):
            item = items[node.value - 1]
            node = item.expression
        if isinstance(node, ColumnRef) and node.table is None and frame.find(node) is None:
            node = aliases.get(node.name, node)
        if all(key.node != node for key in found):
            found.append(Key(f"k{len(found)}", item.name, node, rows.value(node)))
    return found


def expanded(items: Sequence[SelectItem], frame: Frame) -> list[SelectItem]:
    """The select list with stars written out."""
    found: list[SelectItem] = []
    for item in items:
        match item.expression:
            case Star(table=table):
                found += [SelectItem(ColumnRef(column.name, column.qualifier), column.name) for column in frame.starred(table)]
            case Call(function=function, arguments=(Star(table=table),)) if function in EXPANDED:
                for column in frame.starred(table):
                    call = Call(function, (ColumnRef(column.name, column.qualifier),))
                    found.append(SelectItem(call, item.alias, f"{function}({column.name})"))
            case _:
                found.append(item)
    return found


@dataclass(slots=True)
class Groups:
    """Names over groups. Collects what each use of an aggregate needs: `columns` over a group, `beside` over rows."""

    query: Query
    frame: Frame
    rows: Compiler
    keys: list[Key]
    selection: Call | None
    stream: bool = False
    columns: dict[str, str] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)
    touched: bool = False

    @property
    def of_subtable(self) -> bool:
        """Whether all rows of a group are of one subtable."""
        return self.frame.single or any(key.node == ColumnRef(TBNAME) for key in self.keys)

    @property
    def counts_subtables(self) -> bool:
        """Whether rows of a table are counted by what is the same in all rows of a subtable."""
        query = self.query
        nodes = [item.expression for item in query.items] + [each.expression for each in query.order_by]
        nodes += [query.having] if query.having is not None else []
        counted = any(call.function == "count" for node in nodes for call in aggregate_calls(node))
        alike = all(self.frame.is_of_subtable(key.node) for key in self.keys)
        return bool(counted and self.keys and query.window is None and self.frame.subtables and alike)

    def leaf(self, node: Expression) -> Value | None:
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
            case Call(function=function) if function in aggregates.KNOWN_ELSEWHERE:
                raise unknown(f"the aggregate {function}")
            case ColumnRef():
                return self.reference(node)
            case _:
                return None

    def reference(self, node: ColumnRef) -> Value:
        if node.table is None:
            if (found := self.of_window(node.name)) is not None:
                return found
            for key in self.keys:
                if key.name == node.name:
                    return Value(key.column, key.value.type)
        column = self.frame.column(node)
        if column.tag and self.of_subtable:
            key = Key(f"k{len(self.keys)}", node.name, node, column.value)
            self.keys.append(key)
            return Value(key.column, column.type)
        if self.selection is None:
            raise ProgrammingError(f"column {node.name} is neither grouped nor aggregated", span=node.span)
        self.touched = True
        return Value(self.column(aggregates.chosen(self.use(self.selection), column.value).sql), column.type)

    def of_window(self, name: str) -> Value | None:
        """`_wstart`, `_wend`, `_wduration`; an INTERVAL ends an instant after its last, a stream's SESSION a gap after it."""
        window = self.query.window
        if window is None:
            return None
        after = 1 if isinstance(window, IntervalClause) else 0
        if isinstance(window, SessionClause) and self.stream:
            after = window.gap.ticks(self.rows.precision)
        end = f"({END} + {after})"
        shown = {"_wstart": START, "_wend": end, "_wduration": f"({end} - {START})"}
        return Value(shown[name], BIGINT if name == "_wduration" else TIMESTAMP) if name in shown else None

    def aggregate(self, call: Call) -> Value:
        self.touched = True
        found = AGGREGATES[call.function](self.use(call))
        return Value(self.column(found.sql), found.type)

    def column(self, sql: str) -> str:
        return self.columns.setdefault(sql, f"g{len(self.columns)}")

    def use(self, call: Call) -> aggregates.AggregateUse:
        argument = call.arguments[0]
        if call.distinct:
            raise unknown(f"{call.function}(DISTINCT …)")
        x = Value("1", BIGINT) if isinstance(argument, Star) else self.rows.value(argument)
        before = after = ""
        interval = isinstance(self.query.window, IntervalClause)
        if interval and call.function in SURROUNDED:
            before, after = self.points(x, "lag"), self.points(x, "lead")
        unique = self.of_subtable and self.frame.key is None and self.frame.tbname is not None
        return aggregates.AggregateUse(
            call.function, x, constants(self.rows, call), self.frame.order, self.rows.precision, unique, interval, before, after
        )

    def points(self, x: Value, function: str) -> str:
        """A column of the rows with the nearest point before or after that has a value."""
        point = f"CASE WHEN {x.sql} IS NOT NULL THEN {{'t': {TS}, 'v': {real(x)}}} END"
        keys = ", ".join(key.value.sql for key in self.keys) or "1"
        sql = f"{function}({point} IGNORE NULLS) OVER (PARTITION BY {keys} ORDER BY {TS})"
        return self.beside.setdefault(sql, f"b{len(self.beside)}")


def selection(nodes: Sequence[Expression]) -> Call | None:
    """The one selection function of a select list; None where there is none or more than one."""
    found = {call for node in nodes for call in aggregate_calls(node) if call.function in SELECTIONS}
    return next(iter(found)) if len(found) == 1 else None


def likeness(node: Expression) -> Likeness:
    """How values of an item are compared; estimates inside an expression cannot be."""
    inside = [call.function for call in aggregate_calls(node)]
    if isinstance(node, Call) and node.function in ESTIMATES:
        return Likeness.WITHIN
    if any(function in ESTIMATES for function in inside):
        raise unknown("an estimate inside an expression")
    if isinstance(node, Call) and node.function in WRITTEN and (node.function != "percentile" or len(node.arguments) > 2):
        return Likeness.WRITTEN
    return Likeness.EXACT


def has_aggregates(query: Query, items: Sequence[SelectItem]) -> bool:
    nodes = [item.expression for item in items] + [ordering.expression for ordering in query.order_by]
    return bool(query.window or query.group_by) or any(aggregate_calls(node) for node in nodes)


def sorted_place(node: Expression, items: Sequence[SelectItem]) -> int | None:
    """Which item of the select list an ORDER BY means; None where it means none."""
    match node:
        case Literal(value=int(position)) if not isinstance(position, bool):
            return position - 1
        case ColumnRef(name=name, table=None):
            found = [place for place, item in enumerate(items) if item.alias == name]
            if found:
                return found[0]
    return next((place for place, item in enumerate(items) if item.expression == node), None)
