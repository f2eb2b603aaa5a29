"""Binding of INTERP: its points, its values, and what can be selected with it."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment
from headrace.compute.binding.outputs import cast_fill_values
from headrace.compute.binding.ranges import constant_instant
from headrace.compute.binding.resolvers import bind_constants
from headrace.compute.evaluation.interp import FILLED, POINT, check_points
from headrace.compute.functions.series import SeriesFunction
from headrace.compute.instants import fixed_ticks
from headrace.compute.language import Language
from headrace.compute.nodes import Column, Node
from headrace.compute.plan_clauses import InterpPlan, Key
from headrace.compute.terms import ColumnRole, Term
from headrace.compute.window_plans import Argument, Bound
from headrace.errors import Error, LimitError, ProgrammingError, TypeMismatchError
from headrace.model.expressions import Call, ColumnRef, Expression, walk
from headrace.model.queries import FillClause, FillMode, InterpolationClause, Query, SelectItem
from headrace.model.types import BIGINT, BOOL, TIMESTAMP


def uses_interp(items: tuple[SelectItem, ...], language: Language) -> bool:
    """Return whether a select list interpolates."""
    parts = (part for item in items for part in walk(item.expression))
    return any(isinstance(part, Call) and part.function == language.interpolation for part in parts)


def point_terms(language: Language) -> dict[str, Term]:
    names = language.pseudo_columns
    return {names.point_time: Term(Column(POINT), TIMESTAMP), names.point_filled: Term(Column(FILLED), BOOL)}


@dataclass(slots=True)
class PointResolver:
    """Resolves names over interpolated points: `interp(…)`, whose arguments `row_binder` binds, `_irowts`, `_isfilled` and keys."""

    environment: Environment
    row_binder: Binder
    keys: list[Key]
    expressions: dict[Expression, Key]
    arguments: dict[Node, Argument] = field(default_factory=dict)
    skip_options: set[bool] = field(default_factory=set)

    def resolve_expression(self, node: Expression) -> Term | None:
        key = self.expressions.get(node)
        return None if key is None else Term(Column(key.column), key.type)

    def resolve_column(self, reference: ColumnRef) -> Term:
        """Return a pseudo-column of points, or a tag if all rows of a group are of one series."""
        points = point_terms(self.environment.language)
        if reference.name in points and reference.table is None:
            return points[reference.name]
        column = self.environment.column(reference)
        if not (column.tag and self.fixes_series()):
            message = f"column {reference.name} has no value at a point between rows"
            raise ProgrammingError(message, hint="interpolate it, or PARTITION BY it", span=reference.span)
        key = Key(f"p{len(self.keys)}", reference.name, column.node, column.type, implied=True)
        self.keys.append(key)
        self.expressions[reference] = key
        return Term(Column(key.column), key.type)

    def fixes_series(self) -> bool:
        return self.environment.one_series or any(key.role is ColumnRole.SERIES for key in self.keys)

    def resolve_call(self, call: Call) -> Term | None:
        """Return the value of an `interp` call, None for any other call."""
        language = self.environment.language
        if language.aggregate(call.function) or language.function(call.function, SeriesFunction):
            message = f"{call.function} cannot be combined with interp"
            raise ProgrammingError(message, hint="use it in a query over a sub-query that interpolates", span=call.span)
        if call.function != language.interpolation:
            return None
        if not 1 <= len(call.arguments) <= 2:
            raise TypeMismatchError(f"interp takes 1 to 2 arguments, not {len(call.arguments)}")
        self.skip_options.add(self._skips_nulls(call))
        if len(self.skip_options) > 1:
            raise ProgrammingError("all calls of interp must have the same option", span=call.span)
        term = self.row_binder.bind(call.arguments[0])
        argument = self.arguments.setdefault(term.node, Argument(f"a{len(self.arguments)}", term.node, term.type or BIGINT))
        return Term(Column(f"i{argument.column[1:]}"), argument.type)

    def _skips_nulls(self, call: Call) -> bool:
        """Return whether a call ignores rows whose argument is NULL."""
        match bind_constants(self.row_binder, call):
            case () | (0,):
                return False
            case (1,):
                return True
            case _:
                raise LimitError("the option of interp is 0 or 1", span=call.span)


def make_interp_plan(query: Query, resolver: PointResolver) -> InterpPlan:
    clause = query.interpolation or InterpolationClause()
    precision = resolver.environment.precision
    first, last = (bind_range_end(end, resolver.row_binder) for end in (clause.start, clause.end))
    if clause.start is not None and clause.end is None:
        last = first
    if clause.every is None and (first is None or first != last):
        raise ProgrammingError(
            "INTERP needs EVERY, unless RANGE is one instant",
            hint="add EVERY, for example EVERY(1s)",
            span=query.span_of("RANGE … EVERY"),
        )
    every = 1 if clause.every is None else fixed_ticks(clause.every, "EVERY", precision)
    if every < 1:
        raise LimitError(f"EVERY {clause.every} is shorter than the tick of the database", span=getattr(clause.every, "span", None))
    if first is not None and last is not None and not (first.relative or last.relative):
        check_points(first.ticks, last.ticks, every)
    fill = query.fill or FillClause(FillMode.NONE)
    return InterpPlan(first, last, every, fill.mode, bind_fill_values(fill, resolver), resolver.skip_options == {True})


def bind_range_end(node: Expression | None, row_binder: Binder) -> Bound | None:
    """Bind an end of RANGE, or raise `TypeMismatchError` if it is no constant timestamp."""
    if node is None:
        return None
    try:
        bound = constant_instant(node, row_binder)
    except Error as error:
        error.span = error.span or node.span
        raise
    if bound is None:
        raise TypeMismatchError("RANGE takes constant timestamps", span=node.span)
    return bound


def bind_fill_values(fill: FillClause, resolver: PointResolver) -> tuple[Node, ...]:
    """Bind the constants of FILL(VALUE, …), one per interpolated column."""
    if fill.mode not in (FillMode.VALUE, FillMode.VALUE_F):
        return ()
    types = [argument.type for argument in resolver.arguments.values()]
    return cast_fill_values(fill, resolver.row_binder, types, "interpolated columns", "give one value for each")
