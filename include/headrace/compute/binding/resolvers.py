"""Resolution of names and aggregates over rows, and over groups of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment, SourceColumn
from headrace.compute.expression_context import ExpressionContext
from headrace.compute.functions.aggregates import (
    AFTER,
    BEFORE,
    ORDER,
    AggregateArguments,
    AggregateFunction,
    PartialRule,
    T,
    X,
    Y,
    selected_row_partials,
)
from headrace.compute.functions.arrow import (
    STATE,
    TIME,
    ArrowArguments,
    ArrowFunction,
    SeriesArrowArguments,
    SeriesArrowFunction,
    scalar_term,
)
from headrace.compute.functions.scalars import ScalarFunction
from headrace.compute.functions.series import FIRST, VALUE, SeriesFunction
from headrace.compute.language import Language
from headrace.compute.nodes import NULL, Column, Node, Over, columns_of, if_, integer, string, substitute
from headrace.compute.nodes import call as call_node
from headrace.compute.plan import TS
from headrace.compute.plan_clauses import Aggregate, GroupCall, Key, Partial, SeriesArrowCall, SeriesCall
from headrace.compute.terms import ColumnRole, Term
from headrace.compute.window_plans import Argument
from headrace.compute.windows.kind import WindowPlan
from headrace.errors import NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.expressions import Call, ColumnRef, DurationLiteral, Expression, Literal, Scalar, Star, walk
from headrace.model.time import Duration
from headrace.model.types import BIGINT, TIMESTAMP, DataType
from headrace.sql import expression_sql


def needs_window_error(reference: ColumnRef) -> ProgrammingError:
    """Return the error for a window pseudo-column without windows, when the source, unlike a stream's target, lacks the column."""
    return ProgrammingError(
        f"{reference.name} needs a window", hint="add INTERVAL, SESSION or another window clause", span=reference.span
    )


def aggregate_calls(node: Expression, language: Language) -> Iterator[Call]:
    """Yield the aggregate calls in an expression."""
    return (part for part in walk(node) if isinstance(part, Call) and language.aggregate(part.function))


def bind_constants(row_binder: Binder, call: Call, columns: int = 1) -> tuple[Scalar | Duration, ...]:
    """Return the values of a call's arguments after its columns. Raises `TypeMismatchError` if one is not constant."""
    return tuple(bind_constant(row_binder, call, node) for node in call.arguments[columns:])


def bind_constant(row_binder: Binder, call: Call, node: Expression) -> Scalar | Duration:
    """Return the value of a constant argument, or raise `TypeMismatchError`."""
    if isinstance(node, DurationLiteral):
        return node.value
    term = row_binder.bind(node)
    if term.constant is None or term.constant.relative:
        raise TypeMismatchError(f"only the first argument of {call.function} may be a column", span=node.span)
    return term.constant.value


@dataclass(slots=True)
class RowResolver:
    """Resolves names over the rows of a source. `clause` names the clause in messages, as in `in WHERE`."""

    environment: Environment
    clause: str = "here"

    def resolve_expression(self, _: Expression) -> Term | None:
        """Return None: no expression over rows is bound as a whole."""
        return None

    def resolve_column(self, reference: ColumnRef) -> Term:
        names = self.environment.language.pseudo_columns
        if reference.name in names.window_names and not self.environment.has(reference):
            raise needs_window_error(reference)
        if reference.name in names.point_names and not self.environment.has(reference):
            raise ProgrammingError(
                f"{reference.name} needs an interpolation", hint="select interp(…) of a column with it", span=reference.span
            )
        return self.environment.column(reference).term

    def resolve_call(self, call: Call) -> Term | None:
        """Raise `ProgrammingError` for aggregates, which are not allowed over rows."""
        function = self.environment.language.functions.get(call.function)
        if isinstance(function, SeriesArrowFunction) and (term := self._bind_row_by_row(function, call)) is not None:
            return term
        if function is not None and not isinstance(function, ScalarFunction):
            raise ProgrammingError(f"the function {call.function} is not allowed {self.clause}", span=call.span)
        return None

    def _bind_row_by_row(self, function: SeriesArrowFunction, call: Call) -> Term | None:
        """Return the term of a function over a series that has one value for each row; None for any other."""
        names = self.environment
        binder = Binder(self, ExpressionContext(names.precision, names.timezone), names.language)
        terms = [binder.bind(node) for node in call.arguments]
        types = tuple(term.type or BIGINT for term in terms)
        inputs = inputs_sql(call.arguments, names.language)
        rule = function.make_rule(SeriesArrowArguments(function.name, types, call.attributes, names.precision, inputs))
        return None if rule.scalar is None else scalar_term(rule.scalar, terms)


@dataclass(slots=True)
class SeriesResolver(RowResolver):
    """Resolves names over rows and calls of series functions, collecting each call once. `row_binder` binds arguments."""

    row_binder: Binder | None = None
    calls: dict[Call, SeriesCall] = field(default_factory=dict)
    types: dict[Call, DataType] = field(default_factory=dict)
    arrow_calls: dict[Call, SeriesArrowCall] = field(default_factory=dict)

    def resolve_call(self, call: Call) -> Term | None:
        """Return the value of a series function, None for any other call."""
        arrow = self.environment.language.function(call.function, SeriesArrowFunction)
        if arrow is not None:
            if call not in self.arrow_calls:
                self.arrow_calls[call] = self._bind_arrow_call(arrow, call)
            return Term(Column(self.arrow_calls[call].column), self.arrow_calls[call].type)
        function = self.environment.language.function(call.function, SeriesFunction)
        if function is None:
            return None
        if call not in self.calls:
            self.calls[call] = self._bind_call(function, call)
        return Term(Column(self.calls[call].column), self.types[call])

    def _bind_arrow_call(self, function: SeriesArrowFunction, call: Call) -> SeriesArrowCall:
        assert self.row_binder is not None
        terms = [self.row_binder.bind(node) for node in call.arguments]
        types = tuple(term.type or BIGINT for term in terms)
        inputs = inputs_sql(call.arguments, self.environment.language)
        rule = function.make_rule(SeriesArrowArguments(function.name, types, call.attributes, self.environment.precision, inputs))
        return SeriesArrowCall(f"__w{len(self.arrow_calls)}", function.name, rule.type, tuple(term.node for term in terms), rule)

    def _bind_call(self, function: SeriesFunction, call: Call) -> SeriesCall:
        if not call.arguments or self.row_binder is None:
            raise TypeMismatchError(f"{function.name} takes an argument")
        function.check_count(len(call.arguments))
        term = self.row_binder.bind(call.arguments[0])
        arguments = AggregateArguments(
            function.name,
            term.type or BIGINT,
            bind_constants(self.row_binder, call),
            self.environment.precision,
            attributes=call.attributes,
        )
        rule = function.make_rule(arguments)
        self.types[call] = rule.type
        column = f"__s{len(self.calls)}"
        nodes = {
            X.name: term.node,
            FIRST.name: Column(f"_{column}"),
            VALUE.name: Column(column),
            T.name: Column(f"__{TS}"),
        }
        first, before, keep, order = (
            None if node is None else substitute(node, nodes) for node in (rule.first, rule.before, rule.keep, rule.order)
        )
        return SeriesCall(column, function.name, substitute(rule.value, nodes), first, before, keep, order, rule.sparse)


@dataclass(slots=True)
class GroupResolver:
    """Resolves names over groups: keys, window pseudo-columns, aggregates, and plain columns next to one selection function.

    Collects the distinct arguments and partials that the select list needs.

    Attributes:
        expressions: Keys by their expression.
        order: Orders rows for first and last.
        selection: The only selection function of the select list, which determines the row of plain columns.
        is_one_series: Whether all rows of a group are of one series, so that its tags have one value.
        depends_on_rows: Set when a bound expression depends on the rows of a group.
        columns: Names of partial columns by (update, merge, direct).
    """

    environment: Environment
    row_binder: Binder
    keys: list[Key]
    expressions: dict[Expression, Key]
    window_terms: dict[str, Term]
    window: WindowPlan | None
    order: Node
    selection: Call | None = None
    is_one_series: bool = False
    depends_on_rows: bool = False
    arguments: dict[Node, Argument] = field(default_factory=dict)
    columns: dict[tuple[Node, Node, Node | None], str] = field(default_factory=dict)
    aggregates: dict[Call, Aggregate] = field(default_factory=dict)
    group_calls: list[GroupCall] = field(default_factory=list)

    def resolve_expression(self, node: Expression) -> Term | None:
        if (key := self.expressions.get(node)) is not None:
            return Term(Column(key.column), key.type, role=key.role)
        return None

    def resolve_column(self, reference: ColumnRef) -> Term:
        """Return a window pseudo-column, a key, or a plain column of the group."""
        if reference.table is None:
            if (term := self.window_terms.get(reference.name)) is not None:
                return term
            window_names = self.environment.language.pseudo_columns.window_names
            if reference.name in window_names and not self.environment.has(reference):
                raise needs_window_error(reference)
            for key in self.keys:
                if key.name == reference.name:
                    return Term(Column(key.column), key.type, role=key.role)
        return self._plain_column(reference)

    def _plain_column(self, reference: ColumnRef) -> Term:
        """Return a column that is neither key nor aggregated: a tag of the group's only series, or from the selected row."""
        column = self.environment.column(reference)
        if column.tag and self.is_one_series:
            return self._add_implied_key(reference, column.term)
        if self.selection is None:
            raise self._ungrouped_error(reference, column)
        return self._selected_value(self.selection, column.term)

    def _ungrouped_error(self, reference: ColumnRef, column: SourceColumn) -> ProgrammingError:
        """Return the error for a column without a single value per group, with what to write instead."""
        name, clauses = reference.name, "GROUP BY or PARTITION BY" if self.window is None else "PARTITION BY"
        hint = f"add it to {clauses}, or take first({name}) or last({name})"
        if self.window is not None and column is self.environment.time:
            start = self.environment.language.pseudo_columns.window_start
            hint = f"the window's start is {start}; first({name}) is that of its first row"
        return ProgrammingError(f"column {name} is neither grouped nor aggregated", hint=hint, span=reference.span)

    def _add_implied_key(self, reference: ColumnRef, term: Term) -> Term:
        """Add a tag of the group's subtable as a key, which splits no group."""
        assert term.type is not None
        key = Key(f"p{len(self.keys)}", reference.name, term.node, term.type, implied=True, role=term.role)
        self.keys.append(key)
        return Term(Column(key.column), key.type, role=key.role)

    def resolve_call(self, call: Call) -> Term | None:
        """Return the value of an aggregate, None for any other call."""
        function = self.environment.language.aggregate(call.function)
        if function is None and self.environment.language.function(call.function, SeriesFunction):
            message = f"{call.function} gives a value for each row, which cannot be combined with groups and windows"
            raise NotSupportedError(message, hint="put it in a sub-query", span=call.span)
        if function is None:
            return None
        self.depends_on_rows = True
        if call not in self.aggregates:
            self.aggregates[call] = self._bind_call(function, call)
        aggregate = self.aggregates[call]
        return Term(aggregate.value, aggregate.type)

    def _bind_call(self, function: AggregateFunction | ArrowFunction, call: Call) -> Aggregate:
        if not call.arguments:
            raise TypeMismatchError(f"{function.name} takes an argument")
        if isinstance(function, ArrowFunction):
            return self._bind_arrow_call(function, call)
        function.check_count(len(call.arguments))
        if function.one_series and self.environment.series is not None and not self.is_one_series:
            raise ProgrammingError(
                f"{function.name} over a supertable mixes its subtables",
                hint=f"add PARTITION BY {self.environment.series.name}, and sum in a query over that one",
                span=call.span,
            )
        terms = [self._bind_argument(node) for node in call.arguments[: function.columns]]
        term, others = terms[0], bind_constants(self.row_binder, call, function.columns)
        rule = function.make_rule(
            AggregateArguments(
                function.name,
                term.type or BIGINT,
                others,
                self.environment.precision,
                interval=self.window is not None and self.window.interval is not None,
                types=tuple(BIGINT if part.role is ColumnRole.TIME else part.type or BIGINT for part in terms),
                attributes=call.attributes,
            )
        )
        if any({T.name, ORDER.name} & set(columns_of(partial.update)) for partial in rule.partials):
            self._check_time(call)
        names = {name: column.node for name, column in zip("xy", terms, strict=False)}
        if any(name in (BEFORE.name, AFTER.name) for partial in rule.partials for name in columns_of(partial.update)):
            names |= self._neighbor_points(call.arguments[0])
        partials = self._add_partials(rule.partials, names)
        columns = {own.name: Column(partial.column) for own, partial in zip(rule.partials, partials, strict=True)}
        final = substitute(rule.final, columns)
        call_text = f"{function.name}({', '.join(map(str, (*(column.node for column in terms), *others)))})"
        return Aggregate(function.name, call_text, partials, final, rule.type, function.bounded, rule.many)

    def _bind_arrow_call(self, function: ArrowFunction, call: Call) -> Aggregate:
        """Bind an Arrow function: segments collect the rows of a group, and a separate step computes the value."""
        self._check_time(call)
        columns = [node for node in call.arguments if not isinstance(node, Literal | DurationLiteral)]
        terms = [self._bind_argument(node) for node in columns]
        others = tuple(bind_constant(self.row_binder, call, node) for node in call.arguments[len(columns) :])
        types = tuple(term.type or BIGINT for term in terms)
        inputs = inputs_sql(columns, self.environment.language)
        arguments = ArrowArguments(function.name, types, others, self.environment.precision, call.attributes, inputs)
        rule = function.make_rule(arguments)
        fields = [part for name, node in row_fields(terms) for part in (string(name), node)]
        if rule.merge is not None:
            # Its own column, since a state is that of one call.
            fields += [string(f"{STATE}{len(self.group_calls)}"), NULL.cast("binary")]
        (row_partial,) = self._add_partials((row_list(call_node("named_struct", *fields)),), {})
        group_call = GroupCall(f"g{len(self.group_calls)}", row_partial.column, rule)
        self.group_calls.append(group_call)
        call_text = f"{function.name}({', '.join(map(str, (*(term.node for term in terms), *others)))})"
        return Aggregate(function.name, call_text, (row_partial,), Column(group_call.column), rule.type, bounded=False)

    def _neighbor_points(self, node: Expression) -> dict[str, Node]:
        """Return the nearest non-NULL points before and after each row, as columns of the prepared rows."""
        assert self.environment.time is not None
        value, time = self.row_binder.bind(node).node, self.environment.time.node
        point = if_(value.is_null(), NULL, call_node("named_struct", string("t"), time, string("v"), value.cast("double")))
        keys = tuple(key.node for key in self.keys) or (integer(1),)
        neighbors = {
            side.name: Over(call_node(name, point), keys, (time,), ignores_nulls=True)
            for side, name in ((BEFORE, "lag"), (AFTER, "lead"))
        }
        return {name: self._add_argument(Term(node, BIGINT)).node for name, node in neighbors.items()}

    def _check_time(self, call: Call) -> None:
        """Raise `ProgrammingError` if rows have no timestamp, which a call needs."""
        if self.environment.time is None:
            raise ProgrammingError(f"{call.function} needs a source with a timestamp column", span=call.span)

    def _bind_argument(self, node: Expression) -> Term:
        """Return an argument of an aggregate as a column of the prepared rows. Constants are not turned into columns."""
        if isinstance(node, Star):
            return Term(integer(1), BIGINT)
        if isinstance(node, Literal):
            return self.row_binder.bind(node)
        return self._add_argument(self.row_binder.bind(node))

    def _add_argument(self, term: Term) -> Term:
        if term.role is ColumnRole.TIME:
            return Term(Column(TS), TIMESTAMP, role=ColumnRole.TIME)
        argument = self.arguments.setdefault(term.node, Argument(f"a{len(self.arguments)}", term.node, term.type or BIGINT))
        return Term(Column(argument.column), argument.type)

    def _add_partials(self, rules: tuple[PartialRule, ...], names: dict[str, Node]) -> tuple[Partial, ...]:
        """Return the partial columns of a call, sharing those that another call has added already."""
        names = {T.name: Column(TS), ORDER.name: self.order} | names
        filled = [(rule, substitute(rule.update, names), rule.direct and substitute(rule.direct, names)) for rule in rules]
        columns = {rule.name: self._partial_column(update, rule.merge, direct) for rule, update, direct in filled}
        merged: dict[str, Node] = {name: Column(column) for name, column in columns.items()}
        return tuple(
            Partial(columns[rule.name], update, substitute(rule.merge, merged), rule.row and substitute(rule.row, names), direct)
            for rule, update, direct in filled
        )

    def _partial_column(self, update: Node, merge: Node, direct: Node | None) -> str:
        return self.columns.setdefault((update, merge, direct), f"x{len(self.columns)}")

    def _selected_value(self, call: Call, term: Term) -> Term:
        """Return a plain column of the row that a selection function picks."""
        self.depends_on_rows = True
        function = self.environment.language.aggregate(call.function)
        assert isinstance(function, AggregateFunction)
        assert function.pick is not None
        assert function.order is not None
        assert term.type is not None
        names = {X.name: self._bind_argument(call.arguments[0]).node, Y.name: self._add_argument(term).node}
        partials = self._add_partials(selected_row_partials(function.pick, function.order, Y), names)
        self.aggregates[Call(f"row of {function.name}", (Literal(str(term.node)),))] = Aggregate(
            function.name, f"{term.node} at {function.name}({names[X.name]})", partials, Column(partials[1].column), term.type
        )
        return Term(Column(partials[1].column), term.type)


def inputs_sql(inputs: Sequence[Expression], language: Language) -> tuple[str, ...]:
    """Return the inputs of a call in the language of the query."""
    return tuple(expression_sql(node, language.name) for node in inputs)


def row_fields(terms: list[Term]) -> Iterator[tuple[str, Node]]:
    """Yield name and expression of each field of a row passed to an Arrow function: its instant, then the arguments."""
    yield TIME, Column(TS)
    yield from ((f"x{number}", term.node) for number, term in enumerate(terms))


def row_list(row: Node) -> PartialRule:
    merged = call_node("flatten", call_node("collect_list", Column("rows")))
    return PartialRule("rows", call_node("collect_list", row), merged, call_node("array", row))
