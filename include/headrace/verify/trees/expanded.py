"""Queries without wildcards: their columns, conditions and sort keys, and the rows that they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.model.expressions import ColumnRef, Expression, Literal
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import TreeGrouping, TreeOrdering, TreeQuery
from headrace.sql.iotdb.names import result_name
from headrace.verify.trees.aggregates import COUNTS, aggregate_calls, with_length
from headrace.verify.trees.conditions import condition, conditions, excludes_all, having_condition, or_any
from headrace.verify.trees.expansion import (
    MeasurementNames,
    PathNames,
    Resolve,
    column_references,
    combinations,
    counts_times,
    from_devices,
)
from headrace.verify.trees.levels import LevelExpansion
from headrace.verify.trees.rows import Rows, RowsBuilder
from headrace.verify.trees.source import TreeSource
from headrace.verify.trees.tags import TagExpansion, TagGroups
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
            return self.by_tags(grouping.tags)
        if self.query.by_device:
            return self.by_device()
        if grouping.levels:
            return self.by_level(grouping.levels)
        return self.by_time()

    @property
    def control(self) -> Expression | None:
        """The expression by which GROUP BY groups rows."""
        return None if self.query.grouping is None else getattr(self.query.grouping.rows, "expression", None)

    def by_time(self) -> Expanded | None:
        """Return the query over rows aligned by time, with full paths."""
        query, names = self.query, PathNames(self.source, self.query.prefixes)
        items = tuple(item for part in query.items for item in expanded_items(part, names))
        if not items:
            return None
        where, having = condition(query.where, [names.or_nothing]), having_condition(query.having, names.or_nothing)
        orders = tuple(replace(order, key=single(order.key, names)) for order in query.order_by)
        control = None if self.control is None else single(self.control, names)
        nodes = [*(item.expression for item in items), *present(where, having, control), *(order.key for order in orders)]
        used = {reference.name for node in nodes for reference in column_references(node)}
        if any(counts_times(node) for node in nodes):
            used |= set(names.all_names())
        series = {name: part for name, part in names.series.items() if name in used}
        having = Literal(False) if excludes_all(where) else having
        return Expanded(items, where, having, orders, self.builder.by_time(series), control) if series else None

    def by_device(self) -> Expanded | None:
        """Return the query over rows of devices, with measurements."""
        query = self.query
        names = {device.path: MeasurementNames(device) for device in from_devices(self.source, query)}
        resolvers = list(names.values())
        items = tuple(item for part in query.items for item in items_of_any(part, resolvers))
        lookups = [or_any(resolver, resolvers) for resolver in resolvers]
        where, having = (condition(node, lookups) for node in (query.where, query.having))
        keys = [key for order in query.order_by for resolver in resolvers for key in combinations(order.key, resolver)]
        controls = [part for part in present(self.control) for resolver in resolvers for part in combinations(part, resolver)]
        control = next(iter(controls), None)
        nodes = [*(item.expression for item in items), *present(where, having, control), *keys]
        used = {reference.name for node in nodes for reference in column_references(node)}
        if any(counts_times(node) for node in nodes):
            used |= {name for resolver in resolvers for name in resolver.all_names()}
        columns = {item.expression: {reference.name for reference in column_references(item.expression)} for item in items}
        aggregated = any(aggregate_calls(node) for node in columns)
        measured = {
            path: {name: part for name, part in resolver.series.items() if name in used}
            for path, resolver in names.items()
            # A device that lacks a measurement of each column is left out.
            if any(column <= resolver.series.keys() for column in columns.values())
            # So is one without rows because it lacks a measurement of WHERE.
            and not (aggregated and any(map(excludes_all, conditions(query.where, [resolver]))))
        }
        if not items or not any(measured.values()):
            return None
        counts = [call for node in present(having) for call in aggregate_calls(node) if call.function in COUNTS]
        columns |= {call: {reference.name for reference in column_references(call)} for call in counts}
        absent = {
            node: frozenset(path for path in measured if not column <= names[path].series.keys())
            for node, column in columns.items()
        }
        return Expanded(items, where, having, query.order_by, self.builder.by_device(measured), control, absent)

    def by_tags(self, keys: tuple[str, ...]) -> Expanded | None:
        """Return the query over the points of groups of series with the same tags."""
        expansion = TagExpansion(self.query, self.source, keys)
        expansion.resolve()
        if not expansion.outputs:
            return None
        groups = expansion.groups()
        rows = self.builder.by_tags(expansion.points(), groups.values)
        where = condition(self.query.where, [PathNames(self.source, self.query.prefixes).or_nothing])
        items = tuple(expansion.items())
        return Expanded(items, where, None, self.query.order_by, rows, absent=expansion.absent(groups), tags=groups)

    def by_level(self, levels: Sequence[int]) -> Expanded | None:
        """Return the query over the points of groups of series."""
        if self.query.where is not None and column_references(self.query.where):
            raise unsupported("conditions on values with GROUP BY LEVEL")
        expansion = LevelExpansion(self.query, PathNames(self.source, self.query.prefixes), levels)
        items, having = expansion.items(), expansion.having()
        if not items:
            return None
        rows = self.builder.by_group(expansion.series(), expansion.types())
        return Expanded(tuple(items), condition(self.query.where, [lambda _: []]), having, self.query.order_by, rows)


def present(*nodes: Expression | None) -> list[Expression]:
    """Return the expressions that there are."""
    return [node for node in nodes if node is not None]


def expanded_items(item: SelectItem, resolve: Callable[[ColumnRef], Sequence[str]]) -> list[SelectItem]:
    """Return one item for each column that an item expands to."""
    nodes = combinations(item.expression, resolve)
    return [SelectItem(node, item.alias or result_name(item.expression if counts_times(node) else node)) for node in nodes]


def items_of_any(item: SelectItem, resolvers: Sequence[Resolve]) -> list[SelectItem]:
    """Return one item for each column that an item expands to in any device."""
    return list({part.expression: part for resolver in resolvers for part in expanded_items(item, resolver)}.values())


def single(node: Expression, resolve: Callable[[ColumnRef], Sequence[str]]) -> Expression:
    """Return a sort key, which expands to one column."""
    nodes = combinations(node, resolve)
    if len(nodes) != 1:
        raise unsupported("ORDER BY of several series")
    return nodes[0]
