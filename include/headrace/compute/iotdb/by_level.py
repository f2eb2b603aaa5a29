"""Binding of GROUP BY LEVEL: aggregate together the series whose paths are equal at some levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from headrace.compute.binding.environment import plan_environment
from headrace.compute.binding.sources import BoundSource
from headrace.compute.iotdb.aggregates import normalize_count_if
from headrace.compute.iotdb.conditions import empty_if_null, expand_having, expand_where
from headrace.compute.iotdb.derived import DERIVED, has_series_call
from headrace.compute.iotdb.expansion import DEVICE, TIME, SeriesNames, mask_levels, paths
from headrace.compute.iotdb.level_rows import LevelRows, common_type
from headrace.compute.iotdb.rows import ColumnPart, RowsBuilder, series_part
from headrace.compute.iotdb.schema import SeriesRef
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
from headrace.compute.nodes import string_sql
from headrace.errors import ProgrammingError
from headrace.model.expressions import Call, ColumnRef, Expression, Literal, transform, walk
from headrace.model.paths import split_path
from headrace.model.queries import Query, SelectItem
from headrace.model.tree_queries import TreeQuery
from headrace.model.trees import Device
from headrace.model.types import BIGINT
from headrace.sql.iotdb.names import result_name


@dataclass(slots=True)
class LevelQuery:
    """Binds a query that aggregates series by the nodes of their paths at some levels.

    Attributes:
        groups: The aggregate calls with paths of series, by the call with the path of their group.
        masks: The path of the group of each series, as the first item that names it has it.
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
        """Return rows by device with the values of each group as one column, and the aggregates over these columns.

        Groups of the same path have a column each if their series differ.
        """
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
        in_devices = f"{DEVICE} IN ({', '.join(string_sql(device.path) for device in devices)})"
        in_slot = f"_slot = {self.slots[column]} AND " if len(self.slots) > 1 else ""
        return ColumnPart(database, column, condition=in_slot + in_devices, presence=presence)


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
