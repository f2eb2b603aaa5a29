"""The range of instants that WHERE lets through, derived from its conditions on the time column, and what refers to it.

Constants replace `_qstart` and the like, and the offset `AUTO` of INTERVAL, before a query is bound. `SELECT TAGS`, with a row for
each subtable, also for those without rows, becomes a query of groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment
from headrace.compute.language import PseudoColumns
from headrace.compute.nodes import Column, Node, both, call
from headrace.compute.plan_sources import Scan
from headrace.compute.terms import instant_literal, is_instant
from headrace.compute.types import from_ticks
from headrace.compute.window_plans import Bound
from headrace.errors import Error, NotSupportedError, ProgrammingError
from headrace.model.expressions import Call, Cast, ColumnRef, Expression, Literal, Star, conjuncts, transform, walk
from headrace.model.queries import IntervalClause, Query, SelectItem
from headrace.model.spans import Span
from headrace.model.time import Duration, Precision
from headrace.model.types import TIMESTAMP

if TYPE_CHECKING:
    from headrace.compute.binding.sources import BoundSource

MIN_TICKS: Final = -(2**63)
MAX_TICKS: Final = 2**63 - 1
MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class WhereCondition:
    """WHERE, and the first and last instant it lets through."""

    node: Node | None
    first: Bound | None
    last: Bound | None


def where_condition(node: Expression | None, conditions: Sequence[Node], row_binder: Binder, names: Environment) -> WhereCondition:
    """Bind a WHERE clause together with further conditions. Bounds on time test the stored column, so that files can be pruned."""
    parts = list(conditions)
    ends: dict[str, list[Bound]] = {">=": [], "<=": []}
    for part in conjuncts(node):
        bounds = located_bounds(part, row_binder, names)
        for sign, bound in bounds:
            ends[sign].append(bound)
            parts.append(bound_condition(sign, bound, names))
        if not bounds:
            parts.append(row_binder.condition(part))
    return WhereCondition(both(*parts) if parts else None, tightest(ends[">="], 1), tightest(ends["<="], -1))


def located_bounds(node: Expression, row_binder: Binder, names: Environment) -> list[tuple[str, Bound]]:
    try:
        return time_bounds(node, row_binder, names)
    except Error as error:
        error.span = error.span or node.span
        raise


def time_bounds(node: Expression, row_binder: Binder, names: Environment) -> list[tuple[str, Bound]]:
    """Return a condition on the time column alone as inclusive bounds (`>=` or `<=`). Empty for any other condition."""
    match node:
        case Call(function="between", arguments=(subject, low, high)) if is_time(subject, names):
            low_bound, high_bound = constant_instant(low, row_binder), constant_instant(high, row_binder)
            return [(">=", low_bound), ("<=", high_bound)] if low_bound and high_bound else []
        case Call(function=sign, arguments=(left, right)) if sign in MIRRORED:
            if is_time(right, names) and not is_time(left, names):
                left, right, sign = right, left, MIRRORED[sign]
            end = constant_instant(right, row_binder) if is_time(left, names) else None
            return inclusive_bounds(sign, end) if end is not None else []
    return []


def inclusive_bounds(sign: str, end: Bound) -> list[tuple[str, Bound]]:
    """Return a comparison with an instant as inclusive bounds."""
    match sign:
        case "=":
            return [(">=", end), ("<=", end)]
        case "<" if end.ticks > MIN_TICKS:
            return [("<=", replace(end, ticks=end.ticks - 1))]
        case ">" if end.ticks < MAX_TICKS:
            return [(">=", replace(end, ticks=end.ticks + 1))]
        case "<" | ">":
            return [(">=", Bound(MAX_TICKS)), ("<=", Bound(MIN_TICKS))]
        case _:
            return [(sign, end)]


def is_time(node: Expression, names: Environment) -> bool:
    """Return whether an expression is the time column."""
    if not isinstance(node, ColumnRef) or names.time is None:
        return False
    return node.name in (names.time.name, *names.language.pseudo_columns.row_time) and node.table in (None, names.time.qualifier)


def constant_instant(node: Expression, row_binder: Binder) -> Bound | None:
    """Bind a constant expression as an instant. None if it is not constant."""
    if any(isinstance(part, ColumnRef) for part in walk(node)):
        return None
    term = row_binder.bind(node)
    if term.constant is None or term.is_null:
        return None
    zone, precision = row_binder.expression_context.timezone, row_binder.expression_context.precision
    instant = term if is_instant(term) else row_binder.language.operators.instant(term, zone, precision)
    value = instant.constant.value if instant.constant else None
    if not isinstance(value, int) or instant.constant is None:
        return None
    return Bound(min(max(value, MIN_TICKS), MAX_TICKS), instant.constant.present)


def bound_condition(sign: str, bound: Bound, names: Environment) -> Node:
    assert names.time is not None
    names.use(names.time)
    value = instant_literal(bound.ticks, bound.present).node
    if not names.time.is_converted:
        return call(sign, names.time.node, value)
    return call(sign, Column(names.time.column), from_ticks(value, names.precision))


def tightest(ends: list[Bound], sign: int) -> Bound | None:
    """Return the tightest bound, preferring fixed bounds over those relative to the present."""
    fixed = [end for end in ends if not end.relative] or ends
    return max(fixed, key=lambda end: sign * end.at(0), default=None)


TICK_UNITS: Final = {Precision.MILLISECOND: "a", Precision.MICROSECOND: "u", Precision.NANOSECOND: "b"}
CONDITIONS: Final = {"start": "ts >= …", "end": "ts <= …"}


def resolve_range(query: Query, where: WhereCondition, names: Environment, now: int, *, stream: bool) -> Query:
    """Return a query with constants instead of what refers to the range of its WHERE; `now` is in epoch milliseconds.

    Raise `ProgrammingError` if WHERE has no such end, and `NotSupportedError` for streams and windows that follow a calendar.
    """
    constants = QueryRange(where, names, now, stream)
    if isinstance(query.window, IntervalClause) and query.window.auto_offset:
        query = replace(query, window=constants.shifted(query.window))
    expressions = [item.expression for item in query.items] + [ordering.expression for ordering in query.order_by]
    expressions += [query.having] if query.having is not None else []
    if not any(constants.is_reference(part) for expression in expressions for part in walk(expression)):
        return query
    return replace(
        query,
        items=tuple(constants.in_item(item) for item in query.items),
        order_by=tuple(replace(ordering, expression=constants.in_expression(ordering.expression)) for ordering in query.order_by),
        having=None if query.having is None else constants.in_expression(query.having),
    )


class QueryRange:
    """The range of time in WHERE as constants."""

    def __init__(self, where: WhereCondition, names: Environment, now: int, stream: bool) -> None:
        self._bounds = {"start": where.first, "end": where.last}
        self._precision = names.precision
        self._timezone = names.timezone
        self._now = now * names.precision.ticks_per_second // 1000
        self._stream = stream
        self._names = reference_names(names.language.pseudo_columns)

    def is_reference(self, node: Expression) -> bool:
        return isinstance(node, ColumnRef) and node.table is None and node.name in self._names

    def in_item(self, item: SelectItem) -> SelectItem:
        """Return an item of the select list with constants, and the same name."""
        changed = self.in_expression(item.expression)
        return item if changed == item.expression else replace(item, expression=changed, alias=item.name)

    def in_expression(self, expression: Expression) -> Expression:
        """Return an expression with constants."""
        return transform(expression, self._constant)

    def _constant(self, node: Expression) -> Expression | None:
        if not isinstance(node, ColumnRef) or not self.is_reference(node):
            return None
        what = self._names[node.name]
        if what == "duration":
            return Literal(self._ticks("end", node.name, node.span) - self._ticks("start", node.name, node.span), node.span)
        return Cast(Literal(self._ticks(what, node.name, node.span), node.span), TIMESTAMP, node.span)

    def shifted(self, window: IntervalClause) -> IntervalClause:
        """Return a window whose offset makes the range start with a window; without a start, one without offset."""
        if not self._stream and self._bounds["start"] is None:
            return replace(window, auto_offset=False)
        sliding = window.sliding or window.length
        if any(part.unit in "ny" or (part.unit in "dw" and self._timezone != "UTC") for part in (window.length, sliding)):
            message = f"the offset AUTO of INTERVAL({window.length}) is not supported: its windows follow the calendar"
            raise NotSupportedError(message, hint="write the offset as a duration, or use the units a, s, m or h", span=window.span)
        start, step = self._ticks("start", "AUTO", window.span), max(1, sliding.ticks(self._precision))
        return replace(window, offset=Duration(start % step, TICK_UNITS[self._precision]), auto_offset=False)

    def _ticks(self, end: str, what: str, span: Span | None) -> int:
        """Return an end of the range in ticks."""
        if self._stream:
            raise NotSupportedError(
                f"{what} is not supported in a stream, which has no range of time", hint="use it in a query", span=span
            )
        bound: Bound | None = self._bounds[end]
        if bound is None:
            raise ProgrammingError(
                f"{what} needs the {end} of a range of time", hint=f"add a condition to WHERE: {CONDITIONS[end]}", span=span
            )
        return bound.at(self._now)


def reference_names(columns: PseudoColumns) -> Mapping[str, str]:
    named = {columns.query_start: "start", columns.query_end: "end", columns.query_duration: "duration"}
    return {name: what for name, what in named.items() if name}


HINT: Final = "use SELECT DISTINCT, or GROUP BY"
COUNTED: Final = Call(">=", (Call("count", (Star(),)), Literal(0)))
"""A condition that is always true. A query that counts by tags and series key has a group for each subtable."""


def query_of_tags(query: Query, source: BoundSource, *, stream: bool) -> Query:
    """Return a query that reads no rows but has the same result as `SELECT TAGS`: it groups by tags and series key.

    Raise `ProgrammingError` for other columns or a source without tags, `NotSupportedError` for windows, groups and streams.
    """
    names = source.names
    if stream or query.window is not None or query.partition_by or query.group_by or query.having or query.interpolation:
        what = "in a stream" if stream else "with windows or groups"
        raise NotSupportedError(f"SELECT TAGS {what} is not supported", hint=HINT, span=query.span)
    if not isinstance(source.source, Scan) or not source.source.table.tags or names.time is None:
        raise ProgrammingError("SELECT TAGS needs a supertable or subtable", hint=HINT, span=query.span)
    expressions = [item.expression for item in query.items] + [ordering.expression for ordering in query.order_by]
    check_tags([*expressions, *([] if query.where is None else [query.where])], names)
    references = {part for expression in expressions for part in walk(expression) if isinstance(part, ColumnRef)}
    keys = {ColumnRef(names.language.pseudo_columns.series), *references}
    time = ColumnRef(names.time.name)
    # An empty range of time, because of which no file is read.
    conditions = (Call(">=", (time, Literal(1))), Call("<=", (time, Literal(0))))
    where = Call("and", conditions if query.where is None else (query.where, *conditions))
    return replace(
        query, where=where, group_by=tuple(SelectItem(key) for key in sorted(keys, key=str)), having=COUNTED, tags_only=False
    )


def check_tags(expressions: list[Expression], names: Environment) -> None:
    """Refuse expressions over other columns than tags and the series key."""
    for expression in expressions:
        for part in walk(expression):
            if isinstance(part, Star) or (isinstance(part, ColumnRef) and not is_constant_in_series(part, names)):
                raise ProgrammingError("SELECT TAGS takes only tags and tbname", hint=HINT, span=part.span)


def is_constant_in_series(node: Expression, names: Environment) -> bool:
    """Return whether an expression has one value per series: its columns are tags or the series key."""
    return all(names.column(part).tag for part in walk(node) if isinstance(part, ColumnRef))
