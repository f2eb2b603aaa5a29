"""Binding of ALIGN BY DEVICE: rows grouped by device, one column per measurement."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, cast

from headrace.compute.iotdb.aggregates import normalize_count_if
from headrace.compute.iotdb.checks import is_aggregated
from headrace.compute.iotdb.derived import has_series_call
from headrace.compute.iotdb.device_types import CHOICE, check_equal, common_type, devices_by_type, typed_name, written_types
from headrace.compute.iotdb.expansion import (
    COUNTS,
    DEVICE,
    TIME,
    Alternatives,
    DeviceNames,
    counts_times,
    empty_if_null,
    expand,
    expand_having,
    expand_where,
    is_never_true,
    paths,
    result_header,
)
from headrace.compute.iotdb.rows import ColumnPart, RowsBuilder, device_column
from headrace.compute.iotdb.schema import SeriesTree
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.iotdb.select import (
    DEVICE_HEADER,
    TIME_HEADER,
    TreePlan,
    apply_series_limits,
    as_tuple,
    bind_expanded,
    conjunction,
    control_expressions,
    end_time_items,
    expand_clause,
    items_without_end_time,
    time_item,
    window_clause,
)
from headrace.compute.iotdb.types import NUMERIC, TEXT
from headrace.compute.nodes import NULL, call, if_, string
from headrace.compute.types import spark_type
from headrace.errors import ProgrammingError
from headrace.model.expressions import Call, Case, Cast, ColumnRef, Expression, Literal, transform
from headrace.model.queries import Ordering, SelectItem
from headrace.model.tree_queries import GroupByCount, GroupByVariation, TreeQuery
from headrace.model.trees import Device, SeriesRef
from headrace.model.types import BIGINT, DataType
from headrace.sql.iotdb.names import result_name


@dataclass(slots=True)
class DeviceQuery:
    """Binds a query whose rows are grouped by device."""

    query: TreeQuery
    scope: TreeScope

    def plan(self) -> TreePlan | None:
        """Bind the query; return None if it matches no series."""
        query, members = self.query, self.members()
        resolvers = list({id(resolver): resolver for _, resolver in members}.values())
        items = apply_series_limits(self.items(resolvers), query)
        if not items_without_end_time(items):
            return None
        aggregated = any(is_aggregated(item.expression, self.scope.language) for item in items)
        selected = [{path.name for path in paths(item.expression)} for item in items_without_end_time(items)]
        complete = [resolver for resolver in resolvers if has_column(resolver, selected)]
        clause = self.clause(complete)
        where, having = self.conditions(complete, aggregated=aggregated)
        nodes = [
            *(item.expression for item in items),
            *as_tuple(where),
            *as_tuple(having),
            *control_needs(clause),
            *(part for device in complete for part in self.sort_keys(device)),
        ]
        rows = self.rows(members, nodes, selected)
        if not rows.devices:
            return None
        # A query of raw rows too is refused if WHERE is only a path that a device of the result lacks.
        empty = self.empty_devices([(device, resolver) for device, resolver in members if device.path in rows.devices])
        if aggregated:
            drop_devices(rows, empty)
        outputs = self.outputs(items, has_time=not aggregated or clause is not None)
        orders = [replace(order, expression=rows.split(order.expression)) for order in self.orders(aggregated and clause is None)]
        having = having and self.without_missing_counts(having, members)
        where, having = (None if node is None else rows.split(node) for node in (where, having))
        present = [(device, resolver) for device, resolver in members if device.path in rows.devices]
        present_only = [self.without_missing_aggregates(item.expression, present) for item in outputs]
        split = [replace(item, expression=rows.split(node)) for item, node in zip(outputs, present_only, strict=True)]
        series = {name: ref for resolver in resolvers for name, ref in resolver.series.items()}
        devices = [rows.devices[path] for path in sorted(rows.devices)]
        scope, clause = with_choice(self.scope), split_clause(clause, rows)
        bound = bind_expanded(query, scope, rows, split, where, having, orders, clause, series, devices)
        return self.without_missing(bound, outputs, present)

    def members(self) -> list[tuple[Device, DeviceNames]]:
        """Return each device with its names, which devices of equal schemas share."""
        names: dict[Hashable, DeviceNames] = {}
        return [
            (device, names.setdefault(self.scope.tree.names_key(device), DeviceNames(self.scope.tree, device)))
            for device in self.devices()
        ]

    def clause(self, names: Sequence[DeviceNames]) -> object | None:
        """Return the window clause with its paths resolved, which each device has to be able to."""
        clause = window_clause(self.query.grouping)
        if clause is None:
            return None
        for resolver in names:
            expand_clause(clause, resolver)
        return with_text(expand_clause(clause, self.first_match(names)), names)

    def conditions(self, names: Sequence[DeviceNames], *, aggregated: bool) -> tuple[Expression | None, Expression | None]:
        """Return WHERE and HAVING with their paths resolved."""
        lookups = self.lookups(names)
        where = conjunction([part for lookup in lookups for part in expand_where(self.query.where, lookup, by_device=True)])
        parts = [expand_having(self.query.having, lookup, self.scope.language, typed=True) for lookup in lookups]
        having = conjunction([part for own in parts for part in own])
        return where, empty_if_null(where, having) if aggregated else having

    def outputs(self, items: Sequence[SelectItem], *, has_time: bool) -> list[SelectItem]:
        """Return the select list: the time, the device, and the columns."""
        device = SelectItem(ColumnRef(device_column(self.scope)), DEVICE_HEADER)
        return [*([time_item()] if has_time else []), device, *end_time_items(items), *items_without_end_time(items)]

    def combines_aggregates(self, node: Expression) -> bool:
        """Return whether an expression has aggregates, but is neither one itself nor takes points of time-series functions."""
        language = self.scope.language
        is_one = isinstance(node, Call) and language.aggregate(node.function) is not None
        return not is_one and is_aggregated(node, language) and not has_series_call(node, language)

    def without_missing_aggregates(self, node: Expression, names: Sequence[tuple[Device, DeviceNames]]) -> Expression:
        """Make the aggregates of an expression that combines them NULL on devices that lack one of their measurements."""

        def hide(part: Expression) -> Expression | None:
            if not isinstance(part, Call) or not self.scope.language.aggregate(part.function):
                return None
            used = {path.name for path in paths(part)} - {DEVICE}
            lacking = [Literal(device.path) for device, resolver in names if not used <= resolver.series.keys()]
            is_lacking = Call("in", (ColumnRef(device_column(self.scope)), *lacking))
            return Call(CHOICE.name, (is_lacking, Literal(None), part)) if lacking else None

        return transform(node, hide) if self.combines_aggregates(node) else node

    def without_missing(
        self, bound: TreePlan, items: Sequence[SelectItem], names: Sequence[tuple[Device, DeviceNames]]
    ) -> TreePlan:
        """Make columns of measurements that a device lacks NULL, also those that count."""
        device = next(output.node for item, output in zip(items, bound.plan.outputs, strict=True) if item.name == DEVICE_HEADER)
        resolvers = {id(resolver): resolver for _, resolver in names}
        outputs = []
        for item, output in zip(items, bound.plan.outputs, strict=True):
            if isinstance(item.expression, ColumnRef) or self.combines_aggregates(item.expression):
                # It is NULL there anyway, or its aggregates are.
                outputs.append(output)
                continue
            used = {path.name for path in paths(item.expression)} - {DEVICE}
            lacking = {key for key, resolver in resolvers.items() if not used <= resolver.series.keys()}
            devices = [string(own.path) for own, resolver in names if id(resolver) in lacking] if lacking else []
            outputs.append(replace(output, node=if_(call("in", device, *devices), NULL, output.node)) if lacking else output)
        written = [item.expression for item in items if item.name not in (TIME_HEADER, DEVICE_HEADER)]
        columns = (replace(column, expression=node) for column, node in zip(bound.columns, written, strict=True))
        return replace(bound, plan=replace(bound.plan, outputs=tuple(outputs)), columns=tuple(columns))

    def without_missing_counts(self, having: Expression, members: Sequence[tuple[Device, DeviceNames]]) -> Expression:
        """Make the counts in HAVING NULL on devices that lack one of their measurements."""

        def hide(part: Expression) -> Expression | None:
            if not isinstance(part, Call) or part.function not in COUNTS:
                return None
            used = {path.name for path in paths(part)}
            lacking = [Literal(device.path) for device, resolver in members if not used <= resolver.series.keys()]
            is_present = Call("not in", (ColumnRef(device_column(self.scope)), *lacking))
            return Case(((is_present, part),), span=part.span) if lacking else None

        return transform(having, hide)

    def devices(self) -> list[Device]:
        """Return the devices that FROM matches, in the order in which the result has them."""
        matched = [device for prefix in self.query.prefixes for device in self.scope.tree.match_devices(prefix)]
        descending = any(order.descending and is_device(order.key) for order in self.query.order_by)
        return sorted({device.path: device for device in matched}.values(), key=lambda device: device.path, reverse=descending)

    def items(self, names: Sequence[DeviceNames]) -> list[SelectItem]:
        """Return one select item for each measurement expression, item by item and device by device."""
        expanded: list[SelectItem] = []
        for item in self.query.items:
            nodes = dict.fromkeys(node for device in names for node in expand(normalize_count_if(item.expression), device))
            if item.alias is not None and len(nodes) > 1:
                message = f"alias '{item.alias}' can only be matched with one time series"
                raise ProgrammingError(message, hint="name the measurement", span=item.expression.span)
            header = result_header(item.expression)
            expanded.extend(SelectItem(node, item.alias, header(node)) for node in nodes)
        return expanded

    def sort_keys(self, device: DeviceNames) -> list[Expression]:
        """Return the expressions of ORDER BY for a device. Raise `ProgrammingError` if it lacks a measurement of one."""
        keys: list[Expression] = []
        for order in self.query.order_by:
            if isinstance(order.key, ColumnRef) and order.key.name.lower() in (TIME, DEVICE):
                continue
            nodes = expand(normalize_count_if(order.key), device)
            if not nodes:
                name = result_name(order.key)
                raise ProgrammingError(
                    f"{name} in order by clause doesn't exist.", hint="name devices that have it in FROM", span=order.key.span
                )
            keys += nodes
        return keys

    @staticmethod
    def lookups(names: Sequence[DeviceNames]) -> list[Alternatives]:
        """Return the resolvers of conditions on devices. A measurement that one lacks is that of the first device that has it."""
        first = cache(DeviceQuery.first_match(names))

        def lookup(device: DeviceNames, reference: ColumnRef) -> Sequence[Expression]:
            return device(reference) or first(reference) or [Literal(None, span=reference.span)]

        return [partial(lookup, device) for device in names]

    def empty_devices(self, names: Sequence[tuple[Device, DeviceNames]]) -> set[str]:
        """Return the devices for which WHERE is never true, as they lack a measurement: not even a row of no values is theirs."""
        resolvers = {id(resolver): resolver for _, resolver in names}
        conditions = {key: expand_where(self.query.where, resolver.or_null, by_device=True) for key, resolver in resolvers.items()}
        empty = {key for key, parts in conditions.items() if any(map(is_never_true, parts))}
        return {device.path for device, resolver in names if id(resolver) in empty}

    def rows(
        self, names: Sequence[tuple[Device, DeviceNames]], nodes: Sequence[Expression], selected: Sequence[set[str]]
    ) -> RowsBuilder:
        """Return the source rows of the devices that have all measurements of one of the columns at least.

        `selected` has the measurements of each column of the select list, `nodes` all expressions.
        """
        rows = RowsBuilder(self.scope, aligned=False)
        resolvers = {id(resolver): resolver for _, resolver in names}
        used = {path.name for node in nodes for path in paths(node)}
        if any(counts_times(node) for node in nodes):
            used |= {name for resolver in resolvers.values() for name in resolver.all_series()}
        refs = {
            key: {name: ref for name, ref in resolver.series.items() if name in used}
            for key, resolver in resolvers.items()
            if has_column(resolver, selected)
        }
        present = [(device, refs[id(resolver)]) for device, resolver in names if id(resolver) in refs]
        rows.devices = {device.path: device for device, _ in present}
        by_name: dict[str, list[SeriesRef]] = {}
        for name, ref in (pair for own in refs.values() for pair in own.items()):
            by_name.setdefault(name, []).append(ref)
        mixed = [name for name, own in by_name.items() if len({ref.type for ref in own}) > 1]
        if any(name in column for name in mixed for column in selected):
            self.check_types(present, mixed)
        rows.casts = written_types({name: {ref.type for ref in own} for name, own in by_name.items()}, nodes)
        rows.kinds = devices_by_type(present, mixed)
        split = [rows.split(node) for node in nodes]
        for name, own in by_name.items():
            for type_ in (*rows.casts.get(name, ()), *rows.kinds.get(name, ())):
                self.add_column(rows, typed_name(name, type_), [ref for ref in own if ref.type == type_], split)
            self.add_column(rows, name, own, split)
        return rows

    def add_column(self, rows: RowsBuilder, name: str, refs: Sequence[SeriesRef], nodes: Sequence[Expression]) -> None:
        """Add the column of a measurement."""
        types = {ref.type for ref in refs}
        type_ = common_type(name, types, nodes, self.query.span)
        wider = spark_type(type_) if type_ is not None and len(types) > 1 else ""
        parts = [ColumnPart(ref.device.database, ref.series.column, presence=type_ is None, cast=wider) for ref in refs]
        rows.add(name, type_ or BIGINT, list(dict.fromkeys(parts)))

    def check_types(self, devices: Sequence[tuple[Device, Mapping[str, SeriesRef]]], mixed: Sequence[str]) -> None:
        """Raise `TypeMismatchError` if a column of the result has several types, because measurements have."""
        kinds: dict[tuple[DataType | None, ...], list[Device]] = {}
        for device, refs in devices:
            kinds.setdefault(tuple(refs[name].type if name in refs else None for name in mixed), []).append(device)
        plain = replace(self.query, where=None, having=None, order_by=(), fill=None, limit=None, offset=None, into=())
        scopes = [replace(self.scope, tree=SeriesTree(own)) for own in kinds.values()]
        plans = [DeviceQuery(replace(plain, series_limit=None, series_offset=None), scope).plan() for scope in scopes]
        check_equal([[(column.expression, column.type) for column in plan.columns] for plan in plans if plan], self.query.span)

    @staticmethod
    def first_match(names: Sequence[DeviceNames]) -> Callable[[ColumnRef], Sequence[ColumnRef]]:
        def resolve(reference: ColumnRef) -> Sequence[ColumnRef]:
            return next((matched for resolver in names if (matched := resolver(reference))), [])

        return resolve

    def orders(self, is_one_row: bool) -> list[Ordering]:
        """Return the sort order: by device, then time, after the keys of ORDER BY. Omit time if a device has one row."""
        keys = {DEVICE: ColumnRef(device_column(self.scope)), TIME: ColumnRef(TIME)}
        orders = [
            Ordering(
                keys.get(order.key.name.lower(), order.key) if isinstance(order.key, ColumnRef) else normalize_count_if(order.key),
                order.descending,
                bool(order.nulls_first),
            )
            for order in self.query.order_by
            if not (is_one_row and order.key == ColumnRef(TIME))
        ]
        present = [order.expression for order in orders]
        orders += [
            Ordering(keys[name]) for name in (DEVICE, TIME) if keys[name] not in present and not (is_one_row and name == TIME)
        ]
        return orders


def is_device(key: Expression) -> bool:
    return isinstance(key, ColumnRef) and key.name.lower() == DEVICE


def with_choice(scope: TreeScope) -> TreeScope:
    return replace(scope, language=replace(scope.language, functions={**scope.language.functions, CHOICE.name: CHOICE}))


def with_text(clause: object, names: Sequence[DeviceNames]) -> object:
    """Return VARIATION of a measurement of several types as that of its text, which changes whenever the value does."""
    if not isinstance(clause, GroupByVariation) or clause.delta:
        return clause
    refs = [own.series.get(path.name) for own in names for path in paths(clause.expression)]
    kinds = {ref.type.kind for ref in refs if ref is not None}
    return replace(clause, expression=Cast(clause.expression, TEXT)) if len(kinds) > 1 and not kinds <= set(NUMERIC) else clause


def control_needs(clause: object | None) -> tuple[Expression, ...]:
    """Return what a window clause needs to know: the control expression; of COUNT only whether it has a value."""
    controls = control_expressions(clause)
    return tuple(Call("is not null", (node,)) for node in controls) if isinstance(clause, GroupByCount) else controls


def split_clause(clause: object | None, rows: RowsBuilder) -> object | None:
    controls = control_expressions(clause)
    return replace(cast("Any", clause), expression=rows.split(controls[0])) if controls else clause


def has_column(names: DeviceNames, columns: Sequence[set[str]]) -> bool:
    """Return whether a device has all measurements of one of the columns at least."""
    return any(column <= names.series.keys() for column in columns)


def drop_devices(rows: RowsBuilder, empty: set[str]) -> None:
    """Leave out devices, unless these are all."""
    if len(empty) < len(rows.devices):
        rows.devices = {path: device for path, device in rows.devices.items() if path not in empty}
