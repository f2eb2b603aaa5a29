"""Queries in two steps: calls that take the points of time-series functions, and such functions that take aggregates.

What they take is evaluated first, as an inner query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeGuard, cast

from headrace.compute.binding.environment import plan_environment
from headrace.compute.binding.sources import BoundSource
from headrace.compute.functions.arrow import SeriesArrowFunction
from headrace.compute.functions.series import SeriesFunction
from headrace.compute.iotdb.expansion import END_TIME, TIME
from headrace.compute.language import Language
from headrace.compute.plan import Plan
from headrace.model.expressions import Call, Cast, ColumnRef, Expression, Literal, transform, walk
from headrace.model.queries import Query, SelectItem
from headrace.model.types import TIMESTAMP

TIME_COLUMN: Final = ColumnRef(TIME)
DERIVED: Final = "derived {}"
"""The name of a column of the inner query, which no path can have."""


def needs_points(query: Query, language: Language) -> bool:
    """Return whether an aggregate, or the control expression of a window clause, takes the points of a time-series function."""
    nodes = [item.expression for item in query.items] + [order.expression for order in query.order_by]
    nodes += [node for node in (query.having,) if node is not None]
    calls = (part for node in nodes for part in walk(node) if isinstance(part, Call) and language.aggregate(part.function))
    arguments = [argument for call in calls for argument in call.arguments]
    control = getattr(query.window, "expression", None)
    return any(has_series_call(node, language) for node in (arguments if control is None else [*arguments, control]))


def has_series_call(node: Expression, language: Language) -> bool:
    return any(is_series_call(part, language) for part in walk(node))


def is_series_call(node: Expression, language: Language) -> TypeGuard[Call]:
    return isinstance(node, Call) and isinstance(language.functions.get(node.function), SeriesFunction | SeriesArrowFunction)


def nests_calls(query: Query, language: Language) -> bool:
    return any(is_nested(part, language) for item in query.items for part in walk(item.expression))


def takes_aggregates(query: Query, language: Language) -> bool:
    parts = (part for item in query.items for part in walk(item.expression))
    calls = (part for part in parts if isinstance(part, Call) and has_series_call(replace(part, arguments=()), language))
    return any(isinstance(inner, Call) and language.aggregate(inner.function) for call in calls for inner in walk(call))


def is_nested(node: Expression, language: Language) -> bool:
    """Return whether an expression is a call of a time-series function that takes the points of another one."""
    return is_series_call(node, language) and any(has_series_call(argument, language) for argument in node.arguments)


def derive(query: Query, bind: Callable[[Query], Plan], language: Language) -> tuple[Query, BoundSource] | None:
    """Split a query in two: the inner one computes arguments that call time-series functions, the outer one takes its rows.

    Returns the outer query, and the inner one, bound by `bind`, as its source; None if no argument needs it.
    """
    aggregated = needs_points(query, language)
    derivation: Derivation
    if not aggregated and takes_aggregates(query, language):
        derivation = WindowDerivation(query, language, aggregated)
    elif aggregated or nests_calls(query, language):
        derivation = Derivation(query, language, aggregated)
    else:
        return None
    outer = derivation.outer()
    inner = bind(derivation.inner())
    return outer, BoundSource(inner, plan_environment(inner, None, language))


@dataclass(slots=True)
class Derivation:
    """Splits a query. The inner query has the columns that the outer one has been found to need."""

    query: Query
    language: Language
    aggregated: bool
    columns: dict[Expression, ColumnRef] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[SelectItem, ...]:
        """The keys, which both queries have."""
        return tuple(SelectItem(item.expression, cast("ColumnRef", item.expression).name) for item in self.query.partition_by)

    def outer(self) -> Query:
        """Return the outer query."""
        having, control = self.query.having, getattr(self.query.window, "expression", None)
        return replace(
            self.changed(),
            window=self.query.window
            if control is None
            else replace(cast("Any", self.query.window), expression=self.column(control)),
            having=None if having is None else transform(having, self.change),
        )

    def changed(self) -> Query:
        """Return the query over the rows of the inner one, without its conditions."""
        query = self.query
        items = tuple(replace(item, expression=transform(item.expression, self.change)) for item in query.items)
        orders = tuple(replace(order, expression=transform(order.expression, self.change)) for order in query.order_by)
        return replace(query, items=items, where=None, window=None, having=None, order_by=orders)

    def inner(self) -> Query:
        """Return the inner query."""
        keys = self.keys
        items = [SelectItem(TIME_COLUMN, TIME), *keys, *(SelectItem(node, name.name) for node, name in self.columns.items())]
        return Query(tuple(items), None, where=self.query.where, partition_by=keys, span=self.query.span)

    def column(self, node: Expression) -> Expression:
        """Return the column of the inner query that computes an expression."""
        return self.columns.setdefault(node, ColumnRef(DERIVED.format(len(self.columns)), span=node.span))

    def change(self, node: Expression) -> Expression | None:
        """Replace what the inner query computes in an expression of the outer one."""
        match node:
            case Call(function=function, arguments=arguments) if self.language.aggregate(function) or is_nested(
                node, self.language
            ):
                return replace(node, arguments=tuple(part if self.is_kept(part) else self.column(part) for part in arguments))
            case ColumnRef() if not self.aggregated and not self.is_kept(node):
                return self.column(node)
        return None

    def is_kept(self, node: Expression) -> bool:
        """Return whether an expression is the same in both queries."""
        return isinstance(node, Literal) or node == TIME_COLUMN or any(node == item.expression for item in self.query.partition_by)


@dataclass(slots=True)
class WindowDerivation(Derivation):
    """Splits a query whose time-series functions take aggregates: the inner query has the windows, the outer one its points."""

    def outer(self) -> Query:
        """Return the outer query."""
        return self.changed()

    def inner(self) -> Query:
        """Return the inner query. All rows that aggregate to one have the instant 0."""
        query, keys = self.query, self.keys
        time = TIME_COLUMN if query.window is not None else Cast(Literal(0), TIMESTAMP)
        columns = (SelectItem(node, name.name) for node, name in self.columns.items())
        return replace(
            query, items=(SelectItem(time, TIME), *keys, *columns), partition_by=keys, order_by=(), limit=None, offset=None
        )

    def change(self, node: Expression) -> Expression | None:
        """Replace what the inner query computes in an expression of the outer one."""
        is_aggregate = isinstance(node, Call) and self.language.aggregate(node.function) is not None
        return self.column(node) if is_aggregate or node == ColumnRef(END_TIME) else None
