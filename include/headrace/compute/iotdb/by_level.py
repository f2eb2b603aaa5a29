"""Binding of GROUP BY LEVEL: aggregate together the series whose paths are equal at some levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from headrace.compute.iotdb.aggregates import normalize_count_if
from headrace.compute.iotdb.expansion import (
    DEVICE,
    SeriesNames,
    expand,
    mask_levels,
    paths,
)
from headrace.compute.iotdb.rows import ColumnPart, RowsBuilder
from headrace.compute.iotdb.schema import SeriesRef
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.iotdb.select import (
    TreePlan,
    apply_series_limits,
    as_tuple,
    bind_expanded,
    conjunction,
    time_item,
    time_ordering,
    window_clause,
)
from headrace.compute.terms import string_sql
from headrace.errors import NotSupportedError, TypeMismatchError
from headrace.model.expressions import Call, ColumnRef, Expression
from headrace.model.paths import split_path
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import TreeQuery
from headrace.model.trees import Device
from headrace.model.types import BIGINT
from headrace.sql.iotdb.names import result_name


@dataclass(slots=True)
class LevelQuery:
    """Binds a query that aggregates series by the nodes of their paths at some levels."""

    query: TreeQuery
    scope: TreeScope
    names: SeriesNames
    levels: tuple[int, ...]
    slots: dict[str, int] = field(default_factory=dict)
    columns: dict[Expression, Expression] = field(default_factory=dict)

    def plan(self) -> TreePlan | None:
        """Bind the query; return None if it matches no series."""
        groups: dict[Expression, list[SeriesRef]] = {}
        for item in self.query.items:
            self.group(replace(item, expression=normalize_count_if(item.expression)), groups)
        if not groups:
            return None
        rows = RowsBuilder(self.scope, aligned=False)
        items = [SelectItem(self.with_own_column(node, groups), result_name(node)) for node in groups]
        for ref in (ref for refs in groups.values() for ref in refs):
            self.slots.setdefault(ref.series.column, len(self.slots))
        for node, refs in groups.items():
            self.add_column(rows, self.columns[node], refs)
        rows.slots = len(self.slots)
        items = apply_series_limits(items, self.query)
        clause = window_clause(self.query.grouping)
        orders = time_ordering(self.query, self.names, aggregated=True)
        outputs = items if clause is None else [time_item(), *items]
        where = conjunction([part for node in as_tuple(self.query.where) for part in expand(node, self.names)])
        if where is not None and paths(where):
            raise NotSupportedError(
                "conditions on values cannot be combined with GROUP BY LEVEL", hint="filter by time only", span=where.span
            )
        having = self.query.having and self.masked_condition(self.query.having)
        return bind_expanded(self.query, self.scope, rows, outputs, where, having, orders, clause, {}, ())

    def group(self, item: SelectItem, groups: dict[Expression, list[SeriesRef]]) -> None:
        """Add the series of one select item to the groups."""
        match item.expression:
            case Call(arguments=(ColumnRef() as pattern, *rest)) as call if self.scope.language.aggregate(call.function):
                keep_measurement = not (call.function == "count" and split_path(pattern.name)[-1] in ("*", "**"))
                for reference in self.names(pattern):
                    ref = self.names.series[reference.name]
                    name = mask_levels((*ref.device.nodes, ref.series.measurement), self.levels, keep_measurement=keep_measurement)
                    node = replace(call, arguments=(ColumnRef(name), *rest))
                    groups.setdefault(node, []).append(ref)
            case unsupported:
                raise NotSupportedError(
                    "GROUP BY LEVEL takes aggregates of series only", hint="such as count(s1)", span=unsupported.span
                )

    def with_own_column(self, node: Expression, groups: Mapping[Expression, Sequence[SeriesRef]]) -> Expression:
        """Return a group's aggregate over a column of its own if another function groups other series under the same path."""
        call = cast("Call", node)
        path = cast("ColumnRef", call.arguments[0])
        same_path = [other for other in groups if cast("Call", other).arguments[0] == path]
        first = next(number for number, other in enumerate(same_path) if groups[other] == groups[node])
        column = path if first == 0 else replace(path, name=f"{path.name} {first}")
        self.columns[node] = replace(call, arguments=(column, *call.arguments[1:]))
        return self.columns[node]

    def add_column(self, rows: RowsBuilder, node: Expression, refs: Sequence[SeriesRef]) -> None:
        """Add the values of a group as one column. Each copy of a row (slot) contributes one stored column."""
        for ref in refs:
            rows.devices[ref.device.path] = ref.device
        types = list(dict.fromkeys(ref.type for ref in refs))
        call = cast("Call", node)
        if len(types) > 1 and call.function not in ("count", "min_time", "max_time", "time_duration"):
            raise TypeMismatchError(
                "GROUP BY LEVEL: the data types of the same output column should be the same.",
                hint="select series of one type",
                span=node.span,
            )
        columns: dict[tuple[str, str], list[Device]] = {}
        for ref in refs:
            columns.setdefault((ref.device.database, ref.series.column), []).append(ref.device)
        parts = [self.part(database, column, devices, presence=len(types) > 1) for (database, column), devices in columns.items()]
        name = cast("ColumnRef", call.arguments[0]).name
        rows.add(name, types[0] if len(types) == 1 else BIGINT, parts)

    def part(self, database: str, column: str, devices: Sequence[Device], *, presence: bool) -> ColumnPart:
        """Return the part of a group's column that one stored column of some devices fills, in that column's slot."""
        in_devices = f"{DEVICE} IN ({', '.join(string_sql(device.path) for device in devices)})"
        in_slot = f"_slot = {self.slots[column]} AND " if len(self.slots) > 1 else ""
        return ColumnPart(database, column, in_slot + in_devices, presence)

    def masked_condition(self, node: Expression) -> Expression:
        """Replace the series in HAVING by their groups."""
        groups: dict[Expression, list[SeriesRef]] = {}
        match node:
            case Call() as call if self.scope.language.aggregate(call.function):
                self.group(SelectItem(call), groups)
                return self.columns.get(next(iter(groups)), next(iter(groups)))
            case Call(arguments=arguments):
                return replace(node, arguments=tuple(self.masked_condition(part) for part in arguments))
        return node
