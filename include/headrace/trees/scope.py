"""What the paths of a query are resolved against: the devices that they may name, and their times to live."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from headrace.code.languages import registered_language
from headrace.compute.iotdb.schema import SeriesTree
from headrace.compute.iotdb.scope import TreeScope
from headrace.context import Context
from headrace.model.access import Privilege
from headrace.model.expressions import ColumnRef, Expression, walk
from headrace.model.paths import ROOT, PathPattern, split_path
from headrace.model.tree_queries import TreeGrouping, TreeQuery
from headrace.model.trees import Device
from headrace.trees.devices import device_tables, devices_of
from headrace.trees.expiry import ttl_by_device
from headrace.trees.visibility import visible_devices


def tree_scope(
    query: TreeQuery, context: Context, timezone: str | None = None, functions: Collection[str] | None = None
) -> TreeScope:
    """Return what the paths of a query are resolved against: the devices that they may name, as far as the user may read.

    `timezone` is the zone of the session; None for that of the settings. `functions` are the registered functions that the query
    may call; None for all.
    """
    devices = visible_devices(devices_of(list(named_patterns(query)), context), context, Privilege.READ_DATA)
    return scope_of(devices, context, timezone, functions)


def scope_of(
    devices: Sequence[Device], context: Context, timezone: str | None = None, functions: Collection[str] | None = None
) -> TreeScope:
    """Return the scope of queries that read these devices."""
    return TreeScope(
        registered_language("iotdb", context.catalog, context.settings, functions),
        SeriesTree(devices),
        device_tables(devices, context),
        timezone=timezone or context.settings.timezone,
        now=context.clock.now(),
        ttl_ms=ttl_by_device((device.path for device in devices), context.catalog.trees.ttls()),
    )


def named_patterns(query: TreeQuery) -> Iterator[PathPattern]:
    """Yield the patterns of all series that a query may read, and in ALIGN BY DEVICE of those whose devices it names."""
    yield from series_patterns(query)
    if query.by_device:
        yield from (PathPattern((*prefix.nodes, "*")) for prefix in query.prefixes)


def series_patterns(query: TreeQuery) -> Iterator[PathPattern]:
    """Yield the patterns of all series that the expressions of a query name."""
    for node in expressions(query):
        for part in walk(node):
            if isinstance(part, ColumnRef):
                nodes = split_path(part.name)
                yield from (
                    [PathPattern(nodes)] if nodes[0] == ROOT else (PathPattern(prefix.nodes + nodes) for prefix in query.prefixes)
                )


def expressions(query: TreeQuery) -> Iterator[Expression]:
    """Yield every expression of a query."""
    yield from (item.expression for item in query.items)
    yield from (node for node in (query.where, query.having) if node is not None)
    yield from (order.key for order in query.order_by)
    rows = (query.grouping or TreeGrouping()).rows
    control = getattr(rows, "expression", None)
    if control is not None:
        yield control
