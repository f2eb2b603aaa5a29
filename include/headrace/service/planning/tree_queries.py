"""SELECT over trees: its paths are looked up in the catalog, then it is bound; INTO adds the writing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.errors import NotSupportedError, ProgrammingError
from headrace.model.expressions import ColumnRef, Expression, walk
from headrace.model.paths import ROOT, PathPattern, split_path
from headrace.model.tree_queries import TreeGrouping, TreeQuery
from headrace.model.tree_statements import TreeSelect
from headrace.model.trees import TREE_TABLE, Device
from headrace.service.planning.dispatch import PlanningContext
from headrace.service.planning.queries import DESCRIBE_CATALOG
from headrace.service.planning.trees import may_lie_in
from headrace.service.results import INSTANT, STRING, CatalogRows, Result
from headrace.service.stages import ReadCatalog, RunQuery, Stage
from headrace.service.tree_stages import FindLast, WriteInto
from headrace.sql.iotdb.status import SEMANTIC_ERROR

if TYPE_CHECKING:
    from headrace.compute.iotdb.scope import TreeScope
    from headrace.compute.iotdb.select import TreePlan


def select(statement: TreeSelect, session: PlanningContext) -> list[Stage]:
    """Plan a query, and with INTO the writing of its result. An error has the status of a semantic error, unless it has another."""
    try:
        return query_stages(statement.query, session)
    except ProgrammingError as error:
        raise error.with_status(SEMANTIC_ERROR) from None


def query_stages(query: TreeQuery, session: PlanningContext) -> list[Stage]:
    """Plan a query."""
    if query.grouping is not None and query.grouping.tags:
        raise NotSupportedError(
            "GROUP BY TAGS is not supported", hint="group by LEVEL, or name the paths", span=query.grouping.span
        )
    if query.into:
        from headrace.compute.iotdb.into import check_into

        check_into(query)
    if query.last:
        return [last(query, session)]
    bound = bind(query, tree_scope(query, session))
    if query.into:
        from headrace.compute.iotdb.into import into_targets

        return [WriteInto(bound, into_targets(query, bound) if bound is not None else ())]
    if bound is None:
        return [ReadCatalog("a query of no series", lambda: Result(CatalogRows({"Time": INSTANT}, [])), DESCRIBE_CATALOG)]
    return [RunQuery(bound.plan)]


def bind(query: TreeQuery, scope: TreeScope) -> TreePlan | None:
    """Bind a query; None if its paths match no series."""
    from headrace.compute.iotdb.binding import bind_tree

    return bind_tree(query, scope)


def last(query: TreeQuery, session: PlanningContext) -> Stage:
    """Plan SELECT LAST."""
    from headrace.compute.iotdb.last import bind_last

    bound = bind_last(query, tree_scope(query, session))
    if bound is None:
        columns = {"Time": INSTANT, "Timeseries": STRING, "Value": STRING, "DataType": STRING}
        return ReadCatalog("a query of no series", lambda: Result(CatalogRows(columns, [])), DESCRIBE_CATALOG)
    return FindLast(bound)


def tree_scope(query: TreeQuery, session: PlanningContext) -> TreeScope:
    """Return what the paths of a query are resolved against: the devices that they may name."""
    from headrace.compute.iotdb.schema import SeriesTree
    from headrace.compute.iotdb.scope import TreeScope
    from headrace.compute.language import language

    catalog = session.context.catalog
    patterns = list(named_patterns(query))
    devices: list[Device] = []
    tables = {}
    for name in catalog.trees.databases():
        if any(may_lie_in(pattern, name) for pattern in patterns):
            devices += catalog.trees.matching(name, patterns)
            tables[name] = (catalog.databases.get(name), catalog.tables.get(name, TREE_TABLE))
    return TreeScope(
        language("iotdb"),
        SeriesTree(devices),
        tables,
        timezone=session.context.settings.timezone,
        now=session.context.clock.now(),
        ttl_ms=ttl_by_device(devices, catalog.trees.ttls()),
    )


def ttl_by_device(devices: Iterable[Device], ttls: dict[str, int]) -> dict[str, int]:
    """Return the time to live of each device: that of the most specific path that matches it."""
    rules = [(PathPattern(split_path(path)), ttl) for path, ttl in ttls.items()]
    rules.sort(key=lambda rule: (not rule[0].has_wildcard, len(rule[0].nodes)), reverse=True)
    chosen = {}
    for device in devices:
        ttl = next((ttl for pattern, ttl in rules if covers(pattern, device)), None)
        if ttl is not None:
            chosen[device.path] = ttl
    return chosen


def covers(pattern: PathPattern, device: Device) -> bool:
    """Return whether a path of a time to live is about a device: its own, or a pattern that ends with `**`."""
    nodes = device.nodes
    if pattern.nodes[-1] == "**":
        return pattern.matches(nodes) or PathPattern(pattern.nodes[:-1]).matches(nodes)
    return pattern.matches(nodes)


def named_patterns(query: TreeQuery) -> Iterator[PathPattern]:
    """Yield the patterns of all series that a query may read."""
    for node in expressions(query):
        for part in walk(node):
            if isinstance(part, ColumnRef):
                nodes = split_path(part.name)
                yield from (
                    [PathPattern(nodes)] if nodes[0] == ROOT else (PathPattern(prefix.nodes + nodes) for prefix in query.prefixes)
                )
    if query.by_device:
        yield from (PathPattern((*prefix.nodes, "*")) for prefix in query.prefixes)


def expressions(query: TreeQuery) -> Iterator[Expression]:
    """Yield every expression of a query."""
    yield from (item.expression for item in query.items)
    yield from (node for node in (query.where, query.having) if node is not None)
    yield from (order.key for order in query.order_by)
    rows = (query.grouping or TreeGrouping()).rows
    control = getattr(rows, "expression", None)
    if control is not None:
        yield control
