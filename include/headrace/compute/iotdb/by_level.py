"""Binding of GROUP BY LEVEL: aggregate together the series whose paths are equal at some levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final, cast

from headrace.compute import nodes
from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment, SourceColumn, plan_environment
from headrace.compute.binding.ranges import where_condition
from headrace.compute.binding.resolvers import RowResolver
from headrace.compute.binding.sources import BoundSource
from headrace.compute.expression_context import ExpressionContext
from headrace.compute.iotdb.aggregates import COUNTING, normalize_count_if
from headrace.compute.iotdb.derived import DERIVED, has_series_call
from headrace.compute.iotdb.expansion import (
    DEVICE,
    TIME,
    SeriesNames,
    empty_if_null,
    expand_having,
    expand_where,
    mask_levels,
    paths,
)
from headrace.compute.iotdb.rows import ColumnPart, RowsBuilder, series_part
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.iotdb.select import (
    TreePlan,
    apply_series_limits,
    as_tuple,
    bind_expanded,
    bind_flat,
    conjunction,
    end_time_items,
    flat_scope,
    items_without_end_time,
    time_item,
    time_ordering,
    window_clause,
)
from headrace.compute.iotdb.types import NUMERIC
from headrace.compute.nodes import NOW, Column, Node, bigint, both, integer, string, substitute
from headrace.compute.nodes import call as call_node
from headrace.compute.plan import Plan, Regrouped
from headrace.compute.plan_sources import SLOT, Regrouping, SeriesRows
from headrace.errors import NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.expressions import Call, Cast, ColumnRef, Expression, Literal, transform, walk
from headrace.model.paths import split_path
from headrace.model.queries import Query, SelectItem
from headrace.model.tree_queries import TreeQuery
from headrace.model.trees import Device, SeriesRef
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, DataType
from headrace.sql.iotdb.names import result_name

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
    message = "GROUP BY LEVEL: the data types of the same output column should be the same."
    raise TypeMismatchError(message, hint="select series of one type", span=call.span)


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


@dataclass(slots=True)
class LevelQuery:
    """Binds a query that aggregates series by the nodes of their paths at some levels.

    `groups` has the aggregate calls with paths of series by the call with the path of their group; `masks` the path of the group of
    each series, as the first item that names it has it.
    """

    query: TreeQuery
    scope: TreeScope
    names: SeriesNames
    levels: tuple[int, ...]
    groups: dict[Call, dict[Call, None]] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    masks: dict[str, str] = field(default_factory=dict)

    def plan(self) -> TreePlan | None:
        """Bind the query; return None if it matches no series."""
        items = [masked for item in items_without_end_time(self.query.items) for masked in self.masked_items(item)]
        check_aliases(items)
        items = apply_series_limits(name_repeated(items), self.query)
        if not items:
            return None
        where = conjunction(expand_where(self.query.where, self.names.or_null))
        conditions = expand_having(self.query.having, self.names.or_null, self.scope.language)
        having = empty_if_null(where, conjunction([self.masked(part) for part in conditions]))
        self.keep_groups([*(item.expression for item in items), *as_tuple(having)])
        if not self.masks:
            message = "GROUP BY LEVEL needs an aggregate of a series, not only of time"
            raise ProgrammingError(message, hint="name a series in it", span=self.query.span)
        clause = window_clause(self.query.grouping)
        orders = time_ordering(self.query, self.names, aggregated=True)
        if clause is not None:
            items = [time_item(), *end_time_items(self.query.items), *items]
        if self.is_simple(where):
            rows, calls = self.series_values()
        else:
            rows = self.expression_rows(where)
            rows.bind()
            where, calls = None, rows.grouped
        items = [replace(item, expression=replace_calls(item.expression, calls)) for item in items]
        having = None if having is None else replace_calls(having, calls)
        return bind_expanded(self.query, self.scope, rows, items, where, having, orders, clause, {}, ())

    def masked_items(self, item: SelectItem) -> list[SelectItem]:
        """Return one item for each group of series that an item's paths match, for each choice of FROM prefixes for the paths."""
        keep_measurement = not is_count_of_all(item.expression)
        return [
            SelectItem(node, item.alias, result_name(node))
            for nodes in self.names.expansions(normalize_count_if(item.expression))
            for node in dict.fromkeys(self.masked(node, keep_measurement=keep_measurement) for node in nodes)
        ]

    def masked(self, node: Expression, *, keep_measurement: bool = True) -> Expression:
        """Replace the series in an expression by their groups, and record which series belong to each."""

        def mask(part: Expression) -> Expression | None:
            ref = self.names.series.get(part.name) if isinstance(part, ColumnRef) else None
            if ref is None:
                return None
            nodes = (*ref.device.nodes, ref.series.measurement)
            path = self.masks.setdefault(ref.path, mask_levels(nodes, self.levels, keep_measurement=keep_measurement))
            return ColumnRef(path, span=part.span)

        def change(part: Expression) -> Expression | None:
            if not isinstance(part, Call) or not self.scope.language.aggregate(part.function):
                return None
            group = replace(part, arguments=tuple(transform(argument, mask) for argument in part.arguments))
            self.groups.setdefault(group, {})[part] = None
            return group

        return transform(node, change)

    def keep_groups(self, nodes: Sequence[Expression]) -> None:
        """Forget the groups that no column of the result needs, as SLIMIT leaves columns out."""
        used = {part for node in nodes for part in walk(node) if isinstance(part, Call)}
        self.groups = {group: calls for group, calls in self.groups.items() if group in used}

    def is_simple(self, where: Expression | None) -> bool:
        """Return whether all aggregates are of series, and the rows are filtered by time at most."""
        arguments = [argument for call in self.groups for argument in call.arguments if not isinstance(argument, Literal)]
        simple = all(isinstance(argument, ColumnRef) for argument in arguments) and len(arguments) == len(self.groups)
        return simple and (where is None or not paths(where)) and all(call.function != "count_if" for call in self.groups)

    def series_values(self) -> tuple[RowsBuilder, Mapping[Call, Expression]]:
        """Return rows by device with a column for each group of a path and its series, and the aggregates over these columns."""
        rows = RowsBuilder(self.scope, aligned=False)
        groups = {
            call: [self.names.series[cast("ColumnRef", each.arguments[0]).name] for each in calls]
            for call, calls in self.groups.items()
        }
        for ref in (ref for refs in groups.values() for ref in refs):
            self.slots.setdefault(ref.series.column, len(self.slots))
        calls: dict[Call, Call] = {}
        columns: dict[tuple[str, tuple[str, ...]], str] = {}
        for call, refs in groups.items():
            path = cast("ColumnRef", call.arguments[0])
            key = path.name, tuple(ref.path for ref in refs)
            others = sum(name == path.name for name, _ in columns)
            column = columns.setdefault(key, f"{path.name} {others}" if others else path.name)
            calls[call] = replace(call, arguments=(replace(path, name=column), *call.arguments[1:]))
            self.add_column(rows, calls[call], refs)
        rows.slots = len(self.slots)
        return rows, calls

    def expression_rows(self, where: Expression | None) -> LevelRows:
        """Return rows aligned by time, with each argument of each group's aggregate as one column."""
        groups = {call: tuple(calls) for call, calls in self.groups.items()}
        rows = LevelRows(self.scope, aligned=True, calls=groups, where=where)
        self.add_series(rows, [*(call for calls in groups.values() for call in calls), *as_tuple(where)])
        if any(has_series_call(call, self.scope.language) for calls in groups.values() for call in calls):
            return self.point_rows(rows)
        return rows

    def point_rows(self, rows: LevelRows) -> LevelRows:
        """Return rows like others, whose aggregates take points of time-series functions: those of a query over the others."""
        columns: dict[Expression, ColumnRef] = {}

        def column(node: Expression) -> Expression:
            is_kept = isinstance(node, Literal) or node == ColumnRef(TIME)
            return node if is_kept else columns.setdefault(node, ColumnRef(DERIVED.format(len(columns)), span=node.span))

        groups = {
            group: tuple(replace(call, arguments=tuple(map(column, call.arguments))) for call in calls)
            for group, calls in rows.calls.items()
        }
        items = (time_item(), *(SelectItem(node, name.name) for node, name in columns.items()))
        inner = Query(items, None, where=rows.where, span=self.query.span)
        aligned = RowsBuilder(self.scope, aligned=True, columns=rows.columns, devices=rows.devices)
        plan = bind_flat(inner, flat_scope(self.scope), aligned, calls_series=True)
        return replace(rows, calls=groups, where=None, points=BoundSource(plan, plan_environment(plan, None, self.scope.language)))

    def add_series(self, rows: RowsBuilder, nodes: Sequence[Expression]) -> None:
        refs = [self.names.series[path.name] for node in nodes for path in paths(node)]
        rows.devices = {ref.device.path: ref.device for ref in refs}
        for ref in refs:
            rows.add(ref.path, ref.type, [series_part(ref, one_device=len(rows.devices) == 1)])

    def add_column(self, rows: RowsBuilder, node: Expression, refs: Sequence[SeriesRef]) -> None:
        """Add the values of a group as one column. Each copy of a row (slot) contributes one stored column."""
        for ref in refs:
            rows.devices[ref.device.path] = ref.device
        call = cast("Call", node)
        type_ = common_type(call, [ref.type for ref in refs])
        columns: dict[tuple[str, str], list[Device]] = {}
        for ref in refs:
            columns.setdefault((ref.device.database, ref.series.column), []).append(ref.device)
        parts = [self.part(database, column, devices, presence=type_ is None) for (database, column), devices in columns.items()]
        name = cast("ColumnRef", call.arguments[0]).name
        rows.add(name, type_ or BIGINT, parts)

    def part(self, database: str, column: str, devices: Sequence[Device], *, presence: bool) -> ColumnPart:
        """Return the part of a group's column that one stored column of some devices fills, in that column's slot."""
        in_devices = call_node("in", Column(DEVICE), *(string(device.path) for device in devices))
        in_slot = [Column(SLOT).equals(integer(self.slots[column]))] if len(self.slots) > 1 else []
        return ColumnPart(database, column, condition=both(*in_slot, in_devices), presence=presence)


def name_repeated(items: Sequence[SelectItem]) -> list[SelectItem]:
    """Give a column that repeats an earlier one, and has no alias, the alias of that one."""
    aliases: dict[str, str] = {}
    named = []
    for item in items:
        if item.alias is not None:
            aliases[item.text] = item.alias
        named.append(replace(item, alias=item.alias or aliases.get(item.text)))
    return named


def check_aliases(items: Sequence[SelectItem]) -> None:
    """Raise `ProgrammingError` unless aliases and columns belong to each other one by one."""
    names: dict[str, str] = {}
    aliases: dict[str, str] = {}
    for item in items:
        if item.alias is None:
            continue
        span = item.expression.span
        if aliases.setdefault(item.text, item.alias) != item.alias:
            message = f"Result column {item.text} with more than one alias[{aliases[item.text]}, {item.alias}]"
            raise ProgrammingError(message, hint="select the column once", span=span)
        if names.setdefault(item.alias, item.text) != item.text:
            message = f"alias '{item.alias}' can only be matched with one result column"
            raise ProgrammingError(message, hint="leave the alias out", span=span)


def is_count_of_all(node: Expression) -> bool:
    """Return whether an expression is `count(*)`, whose groups combine all measurements."""
    match node:
        case Call(function="count", arguments=(ColumnRef(name=name),)):
            return split_path(name)[-1] in ("*", "**")
    return False


def replace_calls(node: Expression, calls: Mapping[Call, Expression]) -> Expression:
    return transform(node, lambda part: calls.get(part) if isinstance(part, Call) else None)
