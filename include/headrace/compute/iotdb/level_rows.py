"""Rows of GROUP BY LEVEL with expressions or conditions on values: rows aligned by time, once for each series of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

from headrace.compute import nodes
from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment, SourceColumn
from headrace.compute.binding.ranges import where_condition
from headrace.compute.binding.resolvers import RowResolver
from headrace.compute.binding.sources import BoundSource
from headrace.compute.expression_context import ExpressionContext
from headrace.compute.iotdb.aggregates import COUNTING
from headrace.compute.iotdb.expansion import TIME
from headrace.compute.iotdb.rows import RowsBuilder
from headrace.compute.iotdb.types import NUMERIC
from headrace.compute.nodes import NOW, Node, bigint, substitute
from headrace.compute.plan import Plan, Regrouped
from headrace.compute.plan_sources import SLOT, Regrouping, SeriesRows
from headrace.errors import NotSupportedError, TypeMismatchError
from headrace.model.expressions import Call, Cast, ColumnRef, Expression, Literal
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, DataType

COLUMN: Final = "level {}"
"""The name of a column of the rows, which no path can have."""
TIME_COLUMN: Final = ColumnRef(TIME)
MAX_COUNTED: Final = 100
"""Series that one `count_if` may combine: each has an aggregate of its own."""
COMPUTING: Final = frozenset(("sum", "avg", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"))


def common_type(call: Call, types: Sequence[DataType]) -> DataType | None:
    """Return the type of the values that a group combines; None if types differ but only the presence of values matters."""
    distinct = list(dict.fromkeys(types))
    if len(distinct) == 1:
        return distinct[0]
    if call.function in COUNTING:
        return None
    if call.function in COMPUTING and all(type_.kind in NUMERIC for type_ in distinct):
        return DOUBLE
    raise TypeMismatchError(
        "GROUP BY LEVEL: the data types of the same output column should be the same.",
        hint="select series of one type",
        span=call.span,
    )


@dataclass(slots=True)
class LevelRows(RowsBuilder):
    """Builds rows with one column for each argument of each group's aggregate; copy `n` of a row holds that of its series `n`.

    Attributes:
        calls: Those with paths of series, by the call with the group's path.
        where: The condition on rows aligned by time.
        points: A query over these rows that takes their place, since it computes time-series functions.
    """

    calls: Mapping[Call, Sequence[Call]] = field(default_factory=dict)
    where: Expression | None = None
    points: BoundSource | None = None
    grouped: dict[Call, Expression] = field(default_factory=dict)
    sources: list[tuple[Node, DataType]] = field(default_factory=list)

    def bind(self) -> BoundSource:
        """Return the source, and record in `grouped` the calls over its columns."""
        aligned = self.points or RowsBuilder.bind(self)
        names = aligned.names
        context = ExpressionContext(names.precision, self.scope.timezone)
        binder = Binder(RowResolver(names, "inside another aggregate"), context, self.scope.language)
        condition = where_condition(
            self.where, [], Binder(RowResolver(names, "in WHERE"), context, self.scope.language), names
        ).node
        present = bigint(self.scope.now * names.precision.ticks_per_second // 1000)
        self.sources.clear()
        for call, calls in self.calls.items():
            self.grouped[call] = self.group(call, calls, binder)
        columns = tuple((node, f"g{number}") for number, (node, _) in enumerate(self.sources))
        slots = max(map(len, self.calls.values()))
        assert isinstance(aligned.source, SeriesRows | Plan)
        assert names.time is not None
        regrouping = Regrouping(names.time.node, condition and substitute(condition, {NOW.name: present}), slots, columns)
        return BoundSource(Regrouped(aligned.source, regrouping), self.regrouped(names))

    def group(self, call: Call, calls: Sequence[Call], binder: Binder) -> Expression:
        """Add the columns of a group, and return its value over them."""
        if call.function == "count_if":
            return self.count_runs(call, calls, binder)
        arguments = []
        for at, argument in enumerate(call.arguments):
            if isinstance(argument, Literal) or argument == TIME_COLUMN:
                arguments.append(argument)
                continue
            arguments.append(ColumnRef(COLUMN.format(len(self.sources)), span=argument.span))
            self.sources.append(self.column(call, [each.arguments[at] for each in calls], binder))
        return replace(call, arguments=tuple(arguments))

    def count_runs(self, call: Call, calls: Sequence[Call], binder: Binder) -> Expression:
        """Add a column for each condition of a group's `count_if`, and return the sum of the runs of each."""
        if len(calls) > MAX_COUNTED:
            raise NotSupportedError(
                f"count_if combines at most {MAX_COUNTED} series in GROUP BY LEVEL", hint="name fewer series", span=call.span
            )
        ignores_null = dict(call.attributes).get("ignoreNull", "true").lower() == "true"
        counts: list[Expression] = []
        for own in calls:
            term = binder.bind(own.arguments[0])
            # The other copies of a row have no value, so a NULL that ends a run is false.
            value = term.node if ignores_null else nodes.call("coalesce", term.node, nodes.FALSE)
            column = ColumnRef(COLUMN.format(len(self.sources)), span=call.span)
            self.sources.append((in_slots([value]), term.type or BIGINT))
            counts.append(replace(call, arguments=(column, *own.arguments[1:]), attributes=()))
        return counts[0] if len(counts) == 1 else Cast(reduce(lambda total, count: Call("+", (total, count)), counts), BIGINT)

    @staticmethod
    def column(call: Call, expressions: Sequence[Expression], binder: Binder) -> tuple[Node, DataType]:
        """Return the value and type of a column: the value of each series in its copy of the row."""
        terms = [binder.bind(node) for node in expressions]
        type_ = common_type(call, [term.type or BIGINT for term in terms])
        return in_slots([term.node if type_ is not None else one_if_present(term.node) for term in terms]), type_ or BIGINT

    def regrouped(self, names: Environment) -> Environment:
        time = SourceColumn(
            TIME, None, TIME, nodes.Column(TIME), TIMESTAMP, role=names.time.role if names.time is not None else None
        )
        columns = [
            SourceColumn(COLUMN.format(number), None, f"g{number}", nodes.Column(f"g{number}"), type_)
            for number, (_, type_) in enumerate(self.sources)
        ]
        return Environment(names.language, (time, *columns), names.precision, names.timezone, time)


def in_slots(values: Sequence[Node]) -> Node:
    return nodes.case((nodes.Column(SLOT).equals(nodes.integer(slot)), value) for slot, value in enumerate(values))


def one_if_present(value: Node) -> Node:
    return nodes.if_(value.is_null(), nodes.NULL, nodes.bigint(1))
