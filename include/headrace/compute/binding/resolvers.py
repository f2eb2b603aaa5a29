"""How names are resolved over rows, and over groups of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment, SourceColumn
from headrace.compute.functions.aggregates import AggregateFunction, Given, PartialRule, chosen
from headrace.compute.functions.arrow import TIME, ArrowArguments, ArrowFunction
from headrace.compute.functions.series import SeriesFunction
from headrace.compute.language import Language
from headrace.compute.plan import (
    KEYS,
    TIES,
    TS,
    Aggregate,
    Argument,
    GroupCall,
    IntervalWindow,
    Key,
    Partial,
    Series,
    WindowPlan,
)
from headrace.compute.terms import ColumnRole, Term, text
from headrace.errors import NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.expressions import Call, ColumnRef, DurationLiteral, Expression, Literal, Scalar, Star, walk
from headrace.model.time import Duration
from headrace.model.types import BIGINT, TIMESTAMP, DataType


def needs_window(reference: ColumnRef) -> ProgrammingError:
    """A window's pseudo-column where there is no window; targets of streams have real columns of these names."""
    return ProgrammingError(
        f"{reference.name} needs a window", hint="add INTERVAL, SESSION or another window clause", span=reference.span
    )


def aggregate_calls(node: Expression, language: Language) -> Iterator[Call]:
    """The aggregates of an expression."""
    return (part for part in walk(node) if isinstance(part, Call) and language.aggregate(part.function))


def constants(rows: Binder, call: Call) -> tuple[Scalar | Duration, ...]:
    """The arguments of a call after the first."""
    return tuple(constant(rows, call, node) for node in call.arguments[1:])


def constant(rows: Binder, call: Call, node: Expression) -> Scalar | Duration:
    if isinstance(node, DurationLiteral):
        return node.value
    term = rows.bind(node)
    if term.constant is None or term.constant.relative:
        raise TypeMismatchError(f"only the first argument of {call.function} may be a column", span=node.span)
    return term.constant.value


@dataclass(slots=True)
class RowResolver:
    """Names over the rows of a source. `place` says where, for the message about aggregates."""

    environment: Environment
    place: str = "here"

    def whole(self, _: Expression) -> Term | None:
        return None

    def column(self, reference: ColumnRef) -> Term:
        names = self.environment.language.pseudo_columns
        if reference.name in names.of_windows and not self.environment.has(reference):
            raise needs_window(reference)
        if reference.name in names.of_points and not self.environment.has(reference):
            raise ProgrammingError(
                f"{reference.name} needs an interpolation", hint="select interp(…) of a column beside it", span=reference.span
            )
        return self.environment.column(reference).term

    def aggregate(self, call: Call) -> Term | None:
        language = self.environment.language
        if language.aggregate(call.function) or language.series(call.function):
            raise ProgrammingError(f"the function {call.function} cannot stand {self.place}", span=call.span)
        return None


@dataclass(slots=True)
class SeriesResolver(RowResolver):
    """Names over rows, and functions of neighbours, each use collected once. `rows` binds what is inside them."""

    rows: Binder | None = None
    uses: dict[Call, Series] = field(default_factory=dict)
    types: dict[Call, DataType] = field(default_factory=dict)

    def aggregate(self, call: Call) -> Term | None:
        function = self.environment.language.series(call.function)
        if function is None:
            return None
        if call not in self.uses:
            self.uses[call] = self.used(function, call)
        return Term(self.uses[call].column, self.types[call])

    def used(self, function: SeriesFunction, call: Call) -> Series:
        if not call.arguments or self.rows is None:
            raise TypeMismatchError(f"{function.name} takes an argument")
        function.check_count(len(call.arguments))
        term = self.rows.bind(call.arguments[0])
        given = Given(function.name, term.type or BIGINT, constants(self.rows, call), self.environment.precision)
        rule = function.applied(given)
        self.types[call] = rule.type
        column = f"__s{len(self.uses)}"
        places = {"t": f"__{TS}", "keys": KEYS, "ties": TIES, "over": f"PARTITION BY {KEYS} ORDER BY {TIES}"}
        names = {"x": term.sql, "first": f"_{column}", "value": column} | places
        first, before, keep, order = (part and part.format(**names) for part in (rule.first, rule.before, rule.keep, rule.order))
        return Series(column, function.name, rule.value.format(**names), first, before, keep, order)


@dataclass(slots=True)
class GroupResolver:
    """Names over groups: keys, window pseudo-columns, aggregates, and columns beside one selection function.

    Collects the arguments and the partials that the select list needs, each once. `touched` is set where an expression depends on
    the rows of a group.
    """

    environment: Environment
    rows: Binder
    keys: list[Key]
    expressions: dict[Expression, Key]
    window_terms: dict[str, Term]
    window: WindowPlan | None
    order: str
    selection: Call | None = None
    dependent: bool = False
    touched: bool = False
    arguments: dict[str, Argument] = field(default_factory=dict)
    columns: dict[tuple[str, str, str | None], str] = field(default_factory=dict)
    aggregates: dict[Call, Aggregate] = field(default_factory=dict)
    group_calls: list[GroupCall] = field(default_factory=list)

    def whole(self, node: Expression) -> Term | None:
        if (key := self.expressions.get(node)) is not None:
            return Term(key.column, key.type, role=key.role)
        return None

    def column(self, reference: ColumnRef) -> Term:
        if reference.table is None:
            if (term := self.window_terms.get(reference.name)) is not None:
                return term
            window_names = self.environment.language.pseudo_columns.of_windows
            if reference.name in window_names and not self.environment.has(reference):
                raise needs_window(reference)
            for key in self.keys:
                if key.name == reference.name:
                    return Term(key.column, key.type, role=key.role)
        return self.beside(reference)

    def beside(self, reference: ColumnRef) -> Term:
        """A plain column or tag of a group: fixed by the subtable, or that of the row which the selection function picks."""
        column = self.environment.column(reference)
        if column.tag and self.dependent:
            return self.implied(reference, column.term)
        if self.selection is None:
            raise self.ungrouped(reference, column)
        return self.companion(self.selection, column.term)

    def ungrouped(self, reference: ColumnRef, column: SourceColumn) -> ProgrammingError:
        """A column that has no one value in a group, and what may be meant instead."""
        name, clauses = reference.name, "GROUP BY or PARTITION BY" if self.window is None else "PARTITION BY"
        hint = f"add it to {clauses}, or take first({name}) or last({name})"
        if self.window is not None and column is self.environment.time:
            start = self.environment.language.pseudo_columns.window_start
            hint = f"the window's start is {start}; first({name}) is that of its first row"
        return ProgrammingError(f"column {name} is neither grouped nor aggregated", hint=hint, span=reference.span)

    def implied(self, reference: ColumnRef, term: Term) -> Term:
        """A tag of the group's subtable: one more key, which splits nothing."""
        assert term.type is not None
        key = Key(f"p{len(self.keys)}", reference.name, term.sql, term.type, implied=True, role=term.role)
        self.keys.append(key)
        return Term(key.column, key.type, role=key.role)

    def aggregate(self, call: Call) -> Term | None:
        function = self.environment.language.aggregate(call.function)
        if function is None and self.environment.language.series(call.function):
            raise NotSupportedError(
                f"{call.function} gives a value for each row, which cannot be combined with groups and windows",
                hint="put it in a sub-query",
                span=call.span,
            )
        if function is None:
            return None
        self.touched = True
        if call not in self.aggregates:
            self.aggregates[call] = self.used(function, call)
        aggregate = self.aggregates[call]
        return Term(aggregate.value, aggregate.type)

    def used(self, function: AggregateFunction | ArrowFunction, call: Call) -> Aggregate:
        """One use of a function: its arguments checked and its partials made."""
        if not call.arguments:
            raise TypeMismatchError(f"{function.name} takes an argument")
        if isinstance(function, ArrowFunction):
            return self.arrow_call(function, call)
        function.check_count(len(call.arguments))
        term = self.argument(call.arguments[0])
        others = constants(self.rows, call)
        interval = isinstance(self.window, IntervalWindow)
        rule = function.applied(Given(function.name, term.type or BIGINT, others, self.environment.precision, interval))
        names = {"x": term.sql}
        if any("{before}" in part.update or "{after}" in part.update for part in rule.partials):
            names |= self.beside_points(call.arguments[0])
        partials = self.kept(rule.partials, names)
        columns = {part.name: partial.column for part, partial in zip(rule.partials, partials, strict=True)}
        final = rule.final.format(**columns)
        shown = f"{function.name}({', '.join(map(str, (term.sql, *others)))})"
        return Aggregate(function.name, shown, partials, final, rule.type, function.bounded, rule.many)

    def arrow_call(self, function: ArrowFunction, call: Call) -> Aggregate:
        """One use of an Arrow function: a group keeps its rows, and the value is made of them by a step of its own."""
        columns = [node for node in call.arguments if not isinstance(node, Literal | DurationLiteral)]
        terms = [self.argument(node) for node in columns]
        others = tuple(constant(self.rows, call, node) for node in call.arguments[len(columns) :])
        types = tuple(term.type or BIGINT for term in terms)
        rule = function.applied(ArrowArguments(function.name, types, others, self.environment.precision))
        fields = ", ".join(f"{text(name)}, {sql}" for name, sql in row_fields(terms))
        (rows,) = self.kept((row_list(f"named_struct({fields})"),), {})
        made = GroupCall(f"g{len(self.group_calls)}", rows.column, rule.type, rule.apply, rule.many)
        self.group_calls.append(made)
        shown = f"{function.name}({', '.join(map(str, (*(term.sql for term in terms), *others)))})"
        return Aggregate(function.name, shown, (rows,), made.column, rule.type, bounded=False, many=rule.many)

    def beside_points(self, node: Expression) -> dict[str, str]:
        """The points before and after each row that have a value, as columns of the prepared rows."""
        assert self.environment.time is not None
        value, time = self.rows.bind(node).sql, self.environment.time.sql
        point = f"if({value} IS NULL, NULL, named_struct('t', {time}, 'v', CAST({value} AS DOUBLE)))"
        keys = ", ".join(key.sql for key in self.keys) or "1"
        ordered = f"IGNORE NULLS OVER (PARTITION BY {keys} ORDER BY {time})"
        found = {"before": f"lag({point}) {ordered}", "after": f"lead({point}) {ordered}"}
        return {name: self.column_argument(Term(sql, BIGINT)).sql for name, sql in found.items()}

    def argument(self, node: Expression) -> Term:
        """An argument of an aggregate as a column of the prepared rows; constants stay as they are."""
        if isinstance(node, Star):
            return Term("1", BIGINT)
        if isinstance(node, Literal):
            return self.rows.bind(node)
        return self.column_argument(self.rows.bind(node))

    def column_argument(self, term: Term) -> Term:
        if term.role is ColumnRole.TIME:
            return Term(TS, TIMESTAMP)
        argument = self.arguments.setdefault(term.sql, Argument(f"a{len(self.arguments)}", term.sql, term.type or BIGINT))
        return Term(argument.column, argument.type)

    def kept(self, rules: tuple[PartialRule, ...], names: dict[str, str]) -> tuple[Partial, ...]:
        """The partial columns of one use; what another use keeps already is shared."""
        places = {"t": TS, "o": self.order} | names
        made = [(rule, rule.update.format(**places), rule.direct and rule.direct.format(**places)) for rule in rules]
        columns = {rule.name: self.place(update, rule.merge, direct) for rule, update, direct in made}
        return tuple(
            Partial(columns[rule.name], update, rule.merge.format(**columns), rule.row and rule.row.format(**places), direct)
            for rule, update, direct in made
        )

    def place(self, update: str, merge: str, direct: str | None) -> str:
        return self.columns.setdefault((update, merge, direct), f"x{len(self.columns)}")

    def companion(self, call: Call, term: Term) -> Term:
        """A plain column at the row that a selection function picks."""
        self.touched = True
        function = self.environment.language.aggregate(call.function)
        assert isinstance(function, AggregateFunction)
        assert function.pick is not None
        assert function.order is not None
        assert term.type is not None
        names = {"x": self.argument(call.arguments[0]).sql, "y": self.column_argument(term).sql}
        partials = self.kept(chosen(function.pick, function.order, "{y}"), names)
        self.aggregates[Call(f"row of {function.name}", (Literal(term.sql),))] = Aggregate(
            function.name, f"{term.sql} at {function.name}({names['x']})", partials, partials[1].column, term.type
        )
        return Term(partials[1].column, term.type)


def row_fields(terms: list[Term]) -> Iterator[tuple[str, str]]:
    """The fields of a row as Arrow functions see it: its instant, then the arguments."""
    yield TIME, TS
    yield from ((f"x{number}", term.sql) for number, term in enumerate(terms))


def row_list(row: str) -> PartialRule:
    """The partial that keeps the rows of a group."""
    return PartialRule("rows", f"collect_list({row})", "flatten(collect_list({rows}))", f"array({row})")
