"""Binding of INTERP: its points, its values, and what may stand beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment
from headrace.compute.binding.ranges import constant_instant
from headrace.compute.binding.resolvers import constants
from headrace.compute.durations import fixed
from headrace.compute.evaluation.interp import AT, FILLED, check_points
from headrace.compute.language import Language
from headrace.compute.plan import Argument, Bound, InterpPlan, Key
from headrace.compute.terms import ColumnRole, Term
from headrace.errors import Error, LimitError, ProgrammingError, TypeMismatchError
from headrace.model.expressions import Call, ColumnRef, Expression, walk
from headrace.model.queries import FillClause, FillMode, InterpolationClause, Query, SelectItem
from headrace.model.types import BIGINT, BOOL, TIMESTAMP


def uses_interp(items: tuple[SelectItem, ...], language: Language) -> bool:
    """Whether a select list interpolates."""
    parts = (part for item in items for part in walk(item.expression))
    return any(isinstance(part, Call) and part.function == language.interpolation for part in parts)


def point_terms(language: Language) -> dict[str, Term]:
    """The pseudo-columns of interpolated points."""
    names = language.pseudo_columns
    return {names.point_time: Term(AT, TIMESTAMP), names.point_filled: Term(FILLED, BOOL)}


@dataclass(slots=True)
class PointResolver:
    """Names over interpolated points: `interp(…)`, `_irowts`, `_isfilled` and the partition keys."""

    environment: Environment
    rows: Binder
    keys: list[Key]
    expressions: dict[Expression, Key]
    arguments: dict[str, Argument] = field(default_factory=dict)
    skips: set[bool] = field(default_factory=set)

    def whole(self, node: Expression) -> Term | None:
        key = self.expressions.get(node)
        return None if key is None else Term(key.column, key.type)

    def column(self, reference: ColumnRef) -> Term:
        points = point_terms(self.environment.language)
        if reference.name in points and reference.table is None:
            return points[reference.name]
        column = self.environment.column(reference)
        if not (column.tag and self.fixes_series()):
            raise ProgrammingError(
                f"column {reference.name} has no value at a point between rows",
                hint="interpolate it, or PARTITION BY it",
                span=reference.span,
            )
        key = Key(f"p{len(self.keys)}", reference.name, column.sql, column.type, implied=True)
        self.keys.append(key)
        self.expressions[reference] = key
        return Term(key.column, key.type)

    def fixes_series(self) -> bool:
        """Return whether all rows of a group are of one series."""
        return self.environment.one_series or any(key.role is ColumnRole.SERIES for key in self.keys)

    def aggregate(self, call: Call) -> Term | None:
        language = self.environment.language
        if language.aggregate(call.function) or language.series(call.function):
            raise ProgrammingError(
                f"{call.function} cannot be combined with interp", hint="take it over a sub-query that interpolates", span=call.span
            )
        if call.function != language.interpolation:
            return None
        if not 1 <= len(call.arguments) <= 2:
            raise TypeMismatchError(f"interp takes 1 to 2 arguments, not {len(call.arguments)}")
        self.skips.add(self.skipped(call))
        if len(self.skips) > 1:
            raise ProgrammingError(
                "interp with and without the option 1 in one query", hint="give it to all of them or to none", span=call.span
            )
        term = self.rows.bind(call.arguments[0])
        argument = self.arguments.setdefault(term.sql, Argument(f"a{len(self.arguments)}", term.sql, term.type or BIGINT))
        return Term(f"i{argument.column[1:]}", argument.type)

    def skipped(self, call: Call) -> bool:
        """Whether rows without a value are passed over."""
        match constants(self.rows, call):
            case () | (0,):
                return False
            case (1,):
                return True
            case _:
                raise LimitError("the option of interp is 0 or 1", span=call.span)


def interp_plan(query: Query, resolver: PointResolver) -> InterpPlan:
    """RANGE, EVERY and FILL of an INTERP query."""
    given = query.interpolation or InterpolationClause()
    precision = resolver.environment.precision
    first, last = (range_end(end, resolver.rows) for end in (given.start, given.end))
    if given.start is not None and given.end is None:
        last = first
    if given.every is None and (first is None or first != last):
        raise ProgrammingError("INTERP needs EVERY, unless RANGE is one instant", hint="add EVERY(1s), say", span=query.span)
    every = 1 if given.every is None else fixed(given.every, "EVERY", precision, query.span)
    if every < 1:
        raise LimitError(f"EVERY {given.every} is shorter than the tick of the database", span=query.span)
    if first is not None and last is not None and not (first.relative or last.relative):
        check_points(first.ticks, last.ticks, every)
    fill = query.fill or FillClause(FillMode.NONE)
    return InterpPlan(first, last, every, fill.mode, fill_values(fill, resolver), resolver.skips == {True})


def range_end(node: Expression | None, rows: Binder) -> Bound | None:
    if node is None:
        return None
    try:
        found = constant_instant(node, rows)
    except Error as error:
        error.span = error.span or node.span
        raise
    if found is None:
        raise TypeMismatchError("RANGE takes constant timestamps", span=node.span)
    return found


def fill_values(fill: FillClause, resolver: PointResolver) -> tuple[str, ...]:
    """The constants of FILL(VALUE, …), one for each interpolated column."""
    if fill.mode not in (FillMode.VALUE, FillMode.VALUE_F):
        return ()
    arguments = tuple(resolver.arguments.values())
    if len(fill.values) != len(arguments):
        raise ProgrammingError(
            f"FILL has {len(fill.values)} values for {len(arguments)} interpolated columns",
            hint="give one value for each",
            span=fill.span,
        )
    rows, pairs = resolver.rows, zip(fill.values, arguments, strict=True)
    return tuple(rows.language.operators.cast(rows.bind(node), each.type, rows.expression_context).sql for node, each in pairs)
