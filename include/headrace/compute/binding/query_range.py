"""What queries refer to by the range of time in WHERE: `_qstart` and the like, and the offset `AUTO` of INTERVAL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from headrace.compute.binding.environment import Environment
from headrace.compute.binding.ranges import WhereCondition
from headrace.compute.language import PseudoColumns
from headrace.compute.window_plans import Bound
from headrace.errors import NotSupportedError, ProgrammingError
from headrace.model.expressions import Cast, ColumnRef, Expression, Literal, transform, walk
from headrace.model.queries import IntervalClause, Ordering, Query, SelectItem
from headrace.model.spans import Span
from headrace.model.time import Duration, Precision
from headrace.model.types import TIMESTAMP

TICK_UNITS: Final = {Precision.MILLISECOND: "a", Precision.MICROSECOND: "u", Precision.NANOSECOND: "b"}
CONDITIONS: Final = {"start": "ts >= …", "end": "ts <= …"}


def resolve_range(query: Query, where: WhereCondition, names: Environment, now: int, *, stream: bool) -> Query:
    """Return a query with constants instead of what refers to the range of WHERE.

    Args:
        query: The query.
        where: Its bound WHERE.
        names: Its names.
        now: The present, in epoch milliseconds.
        stream: Whether it is that of a stream.

    Raises:
        ProgrammingError: WHERE has no such end.
        NotSupportedError: The query is that of a stream, or its windows follow a calendar.
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
        order_by=tuple(constants.in_ordering(ordering) for ordering in query.order_by),
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

    def in_ordering(self, ordering: Ordering) -> Ordering:
        return replace(ordering, expression=self.in_expression(ordering.expression))

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
            raise NotSupportedError(
                f"the offset AUTO of INTERVAL({window.length}) is not supported: its windows follow the calendar",
                hint="write the offset as a duration, or use the units a, s, m or h",
                span=window.span,
            )
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
