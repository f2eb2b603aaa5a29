"""Queries without wildcards: their columns, conditions and sort keys, and the rows that they read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.model.expressions import ColumnRef, Expression, Literal
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import TreeGrouping, TreeOrdering, TreeQuery
from headrace.sql.iotdb.names import result_name
from headrace.verify.iotdb.aggregates import COUNTS, aggregate_calls, with_length
from headrace.verify.iotdb.expansion import (
    MeasurementNames,
    PathNames,
    Resolve,
    column_references,
    combinations,
    condition,
    conditions,
    counts_times,
    excludes_all,
    having_condition,
    or_any,
)
from headrace.verify.iotdb.grouped import GroupedColumn, LevelExpansion, TagGroups, tag_columns
from headrace.verify.iotdb.sources import Rows, RowsBuilder, TreeSource
from headrace.verify.values import unsupported


@dataclass(frozen=True, slots=True)
class Expanded:
    """A query without wildcards: its columns by name, conditions, sort keys and the rows that it reads.

    Attributes:
        control: The expression by which GROUP BY VARIATION, CONDITION or COUNT groups rows.
        absent: The devices, or groups of GROUP BY TAGS, that lack a series of a column, or of a count in HAVING, by its expression.
    """

    items: tuple[SelectItem, ...]
    where: Expression | None
    having: Expression | None
    orders: tuple[TreeOrdering, ...]
    rows: Rows
    control: Expression | None = None
    absent: Mapping[Expression, frozenset[str]] = field(default_factory=dict)
    tags: TagGroups | None = None


@dataclass(slots=True)
class Expansion:
    """Resolves the paths of one query."""

    query: TreeQuery
    source: TreeSource
    builder: RowsBuilder

    def expand(self) -> Expanded | None:
        """Return the query without wildcards; None if it matches no series."""
        items = tuple(replace(item, expression=with_length(item.expression)) for item in self.query.items)
        self.query = replace(self.query, items=items, having=self.query.having and with_length(self.query.having))
        grouping = self.query.grouping or TreeGrouping()
        if grouping.tags:
            return self._by_tags(grouping.tags)
        if self.query.by_device:
            return self._by_device()
        if grouping.levels:
            return self._by_level(grouping.levels)
        return self._by_time()

    @property
    def control(self) -> Expression | None:
        """The expression by which GROUP BY groups rows."""
        return None if self.query.grouping is None else getattr(self.query.grouping.rows, "expression", None)

    def _by_time(self) -> Expanded | None:
        """Return the query over rows aligned by time, with full paths."""
        query, names = self.query, PathNames(self.source, self.query.prefixes)
        items = tuple(item for part in query.items for item in _expanded_items(part, names))
        if not items:
            return None
        where, having = condition(query.where, [names.or_nothing]), having_condition(query.having, names.or_nothing)
        orders = tuple(replace(order, key=_single(order.key, names)) for order in query.order_by)
        control = None if self.control is None else _single(self.control, names)
        used = _used([*items_of(items), *present(where, having, control), *(order.key for order in orders)], [names])
        series = {name: part for name, part in names.series.items() if name in used}
        having = Literal(False) if excludes_all(where) else having
        return Expanded(items, where, having, orders, self.builder.by_time(series), control) if series else None

    def _by_device(self) -> Expanded | None:
        """Return the query over rows of devices, with measurements."""
        query = self.query
        devices = [device for device in self.source.devices if any(prefix.matches(device.nodes) for prefix in query.prefixes)]
        names = {device.path: MeasurementNames(device) for device in devices}
        resolvers = list(names.values())
        items = tuple(item for part in query.items for item in _items_of_any(part, resolvers))
        lookups = [or_any(resolver, resolvers) for resolver in resolvers]
        where, having = (condition(node, lookups) for node in (query.where, query.having))
        keys = [key for order in query.order_by for resolver in resolvers for key in combinations(order.key, resolver)]
        controls = [part for part in present(self.control) for resolver in resolvers for part in combinations(part, resolver)]
        control = next(iter(controls), None)
        used = _used([*items_of(items), *present(where, having, control), *keys], resolvers)
        measured = {
            path: {name: part for name, part in resolver.series.items() if name in used}
            for path, resolver in names.items()
            if self._is_shown(resolver, items)
        }
        if not any(measured.values()):
            return None
        counts = [call for call in aggregate_calls(*present(having)) if call.function in COUNTS]
        absent = {
            node: frozenset(path for path in measured if not _names_in(node) <= names[path].series.keys())
            for node in [*items_of(items), *counts]
        }
        return Expanded(items, where, having, query.order_by, self.builder.by_device(measured), control, absent)

    def _is_shown(self, resolver: MeasurementNames, items: Sequence[SelectItem]) -> bool:
        """Return whether a device has the measurements of a column and, if rows are aggregated, those of WHERE."""
        if not any(_names_in(node) <= resolver.series.keys() for node in items_of(items)):
            return False
        aggregated = any(aggregate_calls(node) for node in items_of(items))
        return not (aggregated and any(map(excludes_all, conditions(self.query.where, [resolver]))))

    def _by_tags(self, keys: tuple[str, ...]) -> Expanded | None:
        names = PathNames(self.source, self.query.prefixes)
        columns, groups = tag_columns(self.query, names, keys)
        if not columns:
            return None
        rows, items = self._grouped_rows(columns, "TAGS", groups.values), []
        absent: dict[Expression, frozenset[str]] = {}
        for name, column in columns.items():
            text = column.alias or result_name(replace(column.call, spelling=column.call.function))
            node = replace(column.call, arguments=(ColumnRef(name), *column.call.arguments[1:]))
            items.append(SelectItem(node, text))
            absent[node] = frozenset(groups.values.keys() - column.groups.keys())
        where = condition(self.query.where, [names.or_nothing])
        return Expanded(tuple(items), where, None, self.query.order_by, rows, absent=absent, tags=groups)

    def _by_level(self, levels: Sequence[int]) -> Expanded | None:
        if self.query.where is not None and column_references(self.query.where):
            raise unsupported("conditions on values with GROUP BY LEVEL")
        expansion = LevelExpansion(self.query, PathNames(self.source, self.query.prefixes), levels)
        items, having = expansion.items(), expansion.having()
        if not items:
            return None
        rows = self._grouped_rows(expansion.columns(), "LEVEL")
        return Expanded(tuple(items), condition(self.query.where, [lambda _: []]), having, self.query.order_by, rows)

    def _grouped_rows(self, columns: Mapping[str, GroupedColumn], clause: str, labels: Iterable[str] | None = None) -> Rows:
        for column in columns.values():
            column.check_unique(clause)
        groups = {name: {label: list(parts.values()) for label, parts in one.groups.items()} for name, one in columns.items()}
        return self.builder.by_group(groups, {name: column.type for name, column in columns.items()}, labeled=labels)


def present(*nodes: Expression | None) -> list[Expression]:
    """Return the expressions that there are."""
    return [node for node in nodes if node is not None]


def items_of(items: Sequence[SelectItem]) -> list[Expression]:
    return [item.expression for item in items]


def _names_in(node: Expression) -> set[str]:
    return {reference.name for reference in column_references(node)}


def _used(nodes: Sequence[Expression], resolvers: Sequence[PathNames | MeasurementNames]) -> set[str]:
    """Return the names of the series that expressions read: all of them if one counts rows."""
    used = {name for node in nodes for name in _names_in(node)}
    if any(counts_times(node) for node in nodes):
        used |= {name for resolver in resolvers for name in resolver.all_names()}
    return used


def _expanded_items(item: SelectItem, resolve: Resolve) -> list[SelectItem]:
    nodes = combinations(item.expression, resolve)
    return [SelectItem(node, item.alias or result_name(item.expression if counts_times(node) else node)) for node in nodes]


def _items_of_any(item: SelectItem, resolvers: Sequence[Resolve]) -> list[SelectItem]:
    """Return one item for each column that an item expands to in any device."""
    return list({part.expression: part for resolver in resolvers for part in _expanded_items(item, resolver)}.values())


def _single(node: Expression, resolve: Resolve) -> Expression:
    """Return a sort key, which expands to one column."""
    nodes = combinations(node, resolve)
    if len(nodes) != 1:
        raise unsupported("ORDER BY of several series")
    return nodes[0]
