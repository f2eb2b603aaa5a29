"""Queries without wildcards: their columns, conditions and sort keys, and the rows that they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headrace.model.expressions import Call, ColumnRef, Expression
from headrace.model.paths import split_path
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import TreeOrdering, TreeQuery
from headrace.sql.iotdb.names import result_name
from headrace.verify.trees.aggregates import AGGREGATES, NEED_UNIQUE_INSTANTS
from headrace.verify.trees.expansion import (
    MeasurementNames,
    PathNames,
    column_references,
    combinations,
    conjunction,
    counts_times,
    from_devices,
    masked_path,
)
from headrace.verify.trees.rows import Rows, RowsBuilder
from headrace.verify.trees.source import Series, TreeSource
from headrace.verify.values import unsupported


@dataclass(frozen=True, slots=True)
class Expanded:
    """A query without wildcards: its columns by name, conditions, sort keys and the rows that it reads."""

    items: tuple[SelectItem, ...]
    where: Expression | None
    having: Expression | None
    orders: tuple[TreeOrdering, ...]
    rows: Rows


@dataclass(slots=True)
class Expansion:
    """Resolves the paths of one query."""

    query: TreeQuery
    source: TreeSource
    builder: RowsBuilder

    def expand(self) -> Expanded | None:
        """Return the query without wildcards; None if it matches no series."""
        if self.query.by_device:
            return self.by_device()
        if self.query.grouping is not None and self.query.grouping.levels:
            return self.by_level(self.query.grouping.levels)
        return self.by_time()

    def by_time(self) -> Expanded | None:
        """Return the query over rows aligned by time, with full paths."""
        query, names = self.query, PathNames(self.source, self.query.prefixes)
        items = tuple(item for part in query.items for item in expanded_items(part, names))
        if not items:
            return None
        where, having = (self.condition(node, [names]) for node in (query.where, query.having))
        orders = tuple(replace(order, key=single(order.key, names)) for order in query.order_by)
        nodes = [*(item.expression for item in items), *present(where, having), *(order.key for order in orders)]
        used = {reference.name for node in nodes for reference in column_references(node)}
        if any(counts_times(node) for node in nodes):
            used |= set(names.all_names())
        series = {name: part for name, part in names.series.items() if name in used}
        return Expanded(items, where, having, orders, self.builder.by_time(series)) if series else None

    def by_device(self) -> Expanded | None:
        """Return the query over rows of devices, with measurements."""
        query = self.query
        names = {device.path: MeasurementNames(device) for device in from_devices(self.source, query)}
        resolvers = list(names.values())
        every = [item for part in query.items for resolver in resolvers for item in expanded_items(part, resolver)]
        items = tuple({item.expression: item for item in reversed(every)}.values())[::-1]
        where, having = (self.condition(node, resolvers) for node in (query.where, query.having))
        keys = [key for order in query.order_by for resolver in resolvers for key in combinations(order.key, resolver)]
        nodes = [*(item.expression for item in items), *present(where, having), *keys]
        used = {reference.name for node in nodes for reference in column_references(node)}
        if any(counts_times(node) for node in nodes):
            used |= {name for resolver in resolvers for name in resolver.all_names()}
        columns = [{reference.name for reference in column_references(item.expression)} for item in items]
        measured = {
            path: {name: part for name, part in resolver.series.items() if name in used}
            for path, resolver in names.items()
            # A device that lacks a measurement of each column is left out.
            if any(column <= resolver.series.keys() for column in columns)
        }
        if not items or not any(measured.values()):
            return None
        return Expanded(items, where, having, query.order_by, self.builder.by_device(measured))

    def by_level(self, levels: Sequence[int]) -> Expanded | None:
        """Return the query over the points of groups of series."""
        groups: dict[str, dict[str, Series]] = {}
        masks: dict[str, str] = {}
        items = [
            item
            for part in self.query.items
            for prefix in self.query.prefixes
            for item in self.grouped_items(part, PathNames(self.source, (prefix,)), levels, groups, masks)
        ]
        if not items:
            return None
        if self.query.having is not None:
            raise unsupported("HAVING with GROUP BY LEVEL")
        if self.query.where is not None and column_references(self.query.where):
            raise unsupported("conditions on values with GROUP BY LEVEL")
        where = self.condition(self.query.where, [lambda _: []])
        rows = self.builder.by_group({name: list(parts.values()) for name, parts in groups.items()})
        return Expanded(tuple(items), where, None, self.query.order_by, rows)

    @staticmethod
    def grouped_items(
        item: SelectItem, names: PathNames, levels: Sequence[int], groups: dict[str, dict[str, Series]], masks: dict[str, str]
    ) -> list[SelectItem]:
        """Return the columns of one item of GROUP BY LEVEL, and add their series to the groups, by the names of the columns.

        The path of a series' group is that of the first item that names the series, which `masks` holds.
        """
        match item.expression:
            case Call(function=function, arguments=(ColumnRef() as pattern,)) as call if function in AGGREGATES:
                if function in NEED_UNIQUE_INSTANTS or function == "count_time":
                    raise unsupported(f"{function} with GROUP BY LEVEL")
            case other:
                raise unsupported(f"{result_name(other)} with GROUP BY LEVEL")
        keep = not (call.function == "count" and split_path(pattern.name)[-1] in ("*", "**"))
        columns: dict[str, SelectItem] = {}
        for path in names(pattern):
            masked = masks.setdefault(path, masked_path(names.series[path], levels, keep_measurement=keep))
            name = result_name(replace(call, arguments=(ColumnRef(masked),)))
            groups.setdefault(name, {})[path] = names.series[path]
            columns[name] = SelectItem(replace(call, arguments=(ColumnRef(name),)), name)
        return list(columns.values())

    @staticmethod
    def condition(node: Expression | None, resolvers: Sequence[Callable[[ColumnRef], Sequence[str]]]) -> Expression | None:
        """Return a condition on every series that its paths match."""
        if node is None:
            return None
        parts = [part for resolver in resolvers for part in combinations(node, resolver)]
        return conjunction(list(dict.fromkeys(parts)))


def present(*nodes: Expression | None) -> list[Expression]:
    """Return the expressions that there are."""
    return [node for node in nodes if node is not None]


def expanded_items(item: SelectItem, resolve: Callable[[ColumnRef], Sequence[str]]) -> list[SelectItem]:
    """Return one item for each column that an item expands to."""
    nodes = combinations(item.expression, resolve)
    return [SelectItem(node, item.alias or result_name(item.expression if counts_times(node) else node)) for node in nodes]


def single(node: Expression, resolve: Callable[[ColumnRef], Sequence[str]]) -> Expression:
    """Return a sort key, which expands to one column."""
    nodes = combinations(node, resolve)
    if len(nodes) != 1:
        raise unsupported("ORDER BY of several series")
    return nodes[0]
