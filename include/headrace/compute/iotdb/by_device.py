"""Binding of ALIGN BY DEVICE: rows grouped by device, one column per measurement."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from headrace.compute.iotdb.aggregates import normalize_count_if
from headrace.compute.iotdb.expansion import (
    DEVICE,
    TIME,
    DeviceNames,
    counts_times,
    distinct_items,
    expand,
    paths,
    result_header,
)
from headrace.compute.iotdb.rows import ColumnPart, RowsBuilder
from headrace.compute.iotdb.schema import SeriesRef
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.iotdb.select import (
    DEVICE_HEADER,
    TreePlan,
    apply_series_limits,
    as_tuple,
    bind_expanded,
    conjunction,
    control_expressions,
    device_column,
    end_time_items,
    expand_clause,
    is_aggregated,
    items_without_end_time,
    time_item,
    window_clause,
)
from headrace.errors import TypeMismatchError
from headrace.model.expressions import ColumnRef, Expression
from headrace.model.queries import Ordering, SelectItem
from headrace.model.tree_queries import TreeQuery
from headrace.model.trees import Device
from headrace.model.types import DataType


@dataclass(slots=True)
class DeviceQuery:
    """Binds a query whose rows are grouped by device."""

    query: TreeQuery
    scope: TreeScope
    types: dict[str, DataType] = field(default_factory=dict)

    def plan(self) -> TreePlan | None:
        """Bind the query; return None if it matches no series."""
        query = self.query
        names: dict[Hashable, DeviceNames] = {}
        devices = self.devices()
        for device in devices:
            names.setdefault(self.scope.tree.names_key(device), DeviceNames(self.scope.tree, device))
        resolvers = list(names.values())
        items = apply_series_limits(self.items(resolvers), query)
        if not items:
            return None
        aggregated = is_aggregated([item.expression for item in items], self.scope.language)
        clause = window_clause(query.grouping)
        where = self.condition(query.where, resolvers)
        having = self.condition(query.having, resolvers)
        sort_keys = [part for order in query.order_by for device in resolvers for part in expand(order.key, device)]
        nodes = [
            *(item.expression for item in items),
            *as_tuple(where),
            *as_tuple(having),
            *control_expressions(clause),
            *sort_keys,
        ]
        rows = self.rows([(device, names[self.scope.tree.names_key(device)]) for device in devices], nodes)
        if not rows.devices:
            return None
        clause = None if clause is None else expand_clause(clause, self.first_match(resolvers))
        outputs = [
            SelectItem(ColumnRef(device_column(self.scope)), DEVICE_HEADER),
            *end_time_items(items),
            *items_without_end_time(items),
        ]
        if not aggregated or clause is not None:
            outputs.insert(0, time_item())
        orders = self.orders(aggregated and clause is None)
        series = {name: ref for resolver in resolvers for name, ref in resolver.series.items()}
        devices = [rows.devices[path] for path in sorted(rows.devices)]
        return bind_expanded(query, self.scope, rows, outputs, where, having, orders, clause, series, devices)

    def devices(self) -> list[Device]:
        """Return the devices that FROM matches, in the order of their paths."""
        matched = [device for prefix in self.query.prefixes for device in self.scope.tree.match_devices(prefix)]
        return sorted({device.path: device for device in matched}.values(), key=lambda device: device.path)

    def items(self, names: Sequence[DeviceNames]) -> list[SelectItem]:
        """Return one select item for each measurement expression, item by item and device by device."""
        expanded = [
            SelectItem(node, item.alias or result_header(item.expression, node))
            for item in self.query.items
            for device in names
            for node in expand(normalize_count_if(item.expression), device)
        ]
        return distinct_items(expanded)

    def condition(self, node: Expression | None, names: Sequence[DeviceNames]) -> Expression | None:
        """Expand WHERE or HAVING to measurements. A device that lacks one of them has no matching rows."""
        if node is None:
            return None
        return conjunction([part for device in names for part in expand(node, device)])

    def rows(self, names: Sequence[tuple[Device, DeviceNames]], nodes: Sequence[Expression]) -> RowsBuilder:
        """Return the source rows of the devices that have at least one of the measurements in the expressions.

        `names` has each device with its names, which devices of equal schemas share.
        """
        rows = RowsBuilder(self.scope, aligned=False)
        resolvers = {id(resolver): resolver for _, resolver in names}
        used = {path.name for node in nodes for path in paths(node)}
        if any(counts_times(node) for node in nodes):
            used |= {name for resolver in resolvers.values() for name in resolver.all_series()}
        refs = {key: {name: ref for name, ref in resolver.series.items() if name in used} for key, resolver in resolvers.items()}
        rows.devices = {device.path: device for device, resolver in names if refs[id(resolver)]}
        parts: dict[str, list[ColumnPart]] = {}
        for name, ref in (pair for own in refs.values() for pair in own.items()):
            self.check_type(name, ref)
            part = ColumnPart(ref.device.database, ref.series.column)
            if part not in parts.setdefault(name, []):
                parts[name].append(part)
        for name, column_parts in parts.items():
            rows.add(name, self.types[name], column_parts)
        return rows

    def check_type(self, name: str, ref: SeriesRef) -> None:
        """Raise `TypeMismatchError` if a measurement has another type on another device."""
        if self.types.setdefault(name, ref.type) != ref.type:
            raise TypeMismatchError(
                "ALIGN BY DEVICE: the data types of the same measurement column should be the same across devices.",
                hint=f"{name} has another type on {ref.device.path}; name the devices of one type in FROM",
                span=self.query.span,
            )

    @staticmethod
    def first_match(names: Sequence[DeviceNames]) -> Callable[[ColumnRef], Sequence[ColumnRef]]:
        """Return the resolver that looks a name up in the first device that has it."""

        def resolve(reference: ColumnRef) -> Sequence[ColumnRef]:
            return next((matched for resolver in names if (matched := resolver(reference))), [])

        return resolve

    def orders(self, is_one_row: bool) -> list[Ordering]:
        """Return the sort order: by device, then time, after the keys of ORDER BY. Omit time if a device has one row."""
        keys = {DEVICE: ColumnRef(device_column(self.scope)), TIME: ColumnRef(TIME)}
        orders = [
            Ordering(
                keys.get(order.key.name.lower(), order.key) if isinstance(order.key, ColumnRef) else order.key,
                order.descending,
                bool(order.nulls_first),
            )
            for order in self.query.order_by
        ]
        present = [order.expression for order in orders]
        orders += [
            Ordering(keys[name]) for name in (DEVICE, TIME) if keys[name] not in present and not (is_one_row and name == TIME)
        ]
        return orders
