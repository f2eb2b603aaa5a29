"""SHOW and COUNT of trees, answered from the catalog."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from headrace.catalog.trees import Trees
from headrace.errors import NotSupportedError
from headrace.model.paths import ROOT, PathPattern, join_path, split_path
from headrace.model.tree_statements import TreeShow
from headrace.model.tree_types import type_name
from headrace.model.trees import Device, SeriesLabels, Timeseries
from headrace.model.types import TypeKind
from headrace.runtime.context import Context
from headrace.service.planning.dispatch import PlanningContext
from headrace.service.planning.queries import DESCRIBE_CATALOG
from headrace.service.planning.tree_queries import ttl_by_device
from headrace.service.planning.trees import may_lie_in
from headrace.service.results import BIGINT, INT, STRING, CatalogRows, Result
from headrace.service.stages import ReadCatalog, Stage

EVERYTHING: Final = (PathPattern((ROOT, "**")),)
DEFAULT_ENCODINGS: Final = {
    TypeKind.BOOL: "RLE",
    TypeKind.INT: "TS_2DIFF",
    TypeKind.BIGINT: "TS_2DIFF",
    TypeKind.FLOAT: "GORILLA",
    TypeKind.DOUBLE: "GORILLA",
    TypeKind.DATE: "TS_2DIFF",
    TypeKind.TIMESTAMP: "TS_2DIFF",
}
DEFAULT_COMPRESSION: Final = "LZ4"
NODE_KINDS: Final = ("SG INTERNAL", "DATABASE", "INTERNAL", "DEVICE", "TIMESERIES")
PARTITION_MS: Final = 604_800_000
"""IoTDB's time partition, which it shows with each database; it means nothing here."""


def show(statement: TreeShow, session: PlanningContext) -> list[Stage]:
    """Plan SHOW and COUNT."""
    if statement.what not in SHOWS:
        raise NotSupportedError(
            f"SHOW {statement.what.upper()} is not supported", hint=f"supported are {', '.join(sorted(SHOWS))}", span=statement.span
        )
    if statement.time is not None:
        raise NotSupportedError(
            f"a condition on time is not supported in SHOW {statement.what.upper()}", hint="leave it out", span=statement.span
        )
    read = partial(answer, statement, session.context)
    return [ReadCatalog(f"show {statement.what}", read, DESCRIBE_CATALOG)]


def answer(statement: TreeShow, context: Context) -> Result:
    """Return the rows of a SHOW, within its limits."""
    rows = SHOWS[statement.what](statement, context)
    first = statement.offset or 0
    last = None if statement.limit is None else first + statement.limit
    return Result(CatalogRows(rows.columns, rows.values[first:last]))


def patterns_of(statement: TreeShow) -> tuple[PathPattern, ...]:
    """Return the patterns of a SHOW; all paths if it has none."""
    return statement.patterns or EVERYTHING


def matching_devices(patterns: Sequence[PathPattern], trees: Trees) -> list[Device]:
    """Return the devices whose path matches, in IoTDB's order."""
    devices = [
        device
        for name in trees.databases()
        if any(may_lie_in(pattern, name) for pattern in patterns)
        for device in trees.matching(name, patterns)
        if any(pattern.matches(device.nodes) for pattern in patterns)
    ]
    from headrace.compute.iotdb.schema import SeriesTree, concurrent_order

    order = {device.path: place for place, device in enumerate(SeriesTree(devices, concurrent_order).walk_devices())}
    return sorted(devices, key=lambda device: order[device.path])


def matching_series(patterns: Sequence[PathPattern], trees: Trees) -> list[tuple[Device, Timeseries]]:
    """Return the series whose path matches, in IoTDB's order."""
    from headrace.compute.iotdb.schema import SeriesTree, concurrent_order

    devices = [
        device
        for name in trees.databases()
        if any(may_lie_in(pattern, name) for pattern in patterns)
        for device in trees.matching(name, patterns)
    ]
    tree = SeriesTree(devices, concurrent_order)
    matched = {ref.path: (ref.device, ref.series) for pattern in patterns for ref in tree.match(pattern)}
    return list(matched.values())


def databases(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the databases of trees."""
    names = [name for name in context.catalog.trees.databases() if matches_any(name, patterns_of(statement))]
    types = {
        "Database": STRING,
        "SchemaReplicationFactor": INT,
        "DataReplicationFactor": INT,
        "TimePartitionOrigin": BIGINT,
        "TimePartitionInterval": BIGINT,
    }
    return CatalogRows(types, [(name, 1, 1, 0, PARTITION_MS) for name in names])


def matches_any(path: str, patterns: Iterable[PathPattern]) -> bool:
    """Return whether a path matches one of some patterns."""
    nodes = split_path(path)
    return any(pattern.matches(nodes) for pattern in patterns)


def count_databases(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the number of databases."""
    return CatalogRows({"count": INT}, [(len(databases(statement, context).values),)])


def devices(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the devices."""
    trees = context.catalog.trees
    matched = matching_devices(patterns_of(statement), trees)
    ttls = ttl_by_device(matched, trees.ttls())
    types = {"Device": STRING, **({"Database": STRING} if statement.with_database else {})}
    types |= {"IsAligned": STRING, "Template": STRING, "TTL(ms)": STRING}
    rows = [
        (
            device.path,
            *((device.database,) if statement.with_database else ()),
            str(device.aligned).lower(),
            device.template,
            str(ttls.get(device.path, "INF")),
        )
        for device in matched
    ]
    return CatalogRows(types, rows)


def count_devices(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the number of devices."""
    return CatalogRows({"count(devices)": BIGINT}, [(len(matching_devices(patterns_of(statement), context.catalog.trees)),)])


def timeseries(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the series with what is attached to them."""
    headers = ("Timeseries", "Alias", "Database", "DataType", "Encoding", "Compression", "Tags", "Attributes")
    types = dict.fromkeys((*headers, "Deadband", "DeadbandParameters", "ViewType"), STRING)
    matched = chosen_series(statement, context)
    return CatalogRows(types, [series_row(device, series) for device, series in matched])


def series_row(device: Device, series: Timeseries) -> tuple[Any, ...]:
    """Return one row of SHOW TIMESERIES."""
    labels = device.labels_of(series.measurement)
    return (
        device.series_path(series.measurement),
        labels.alias,
        device.database,
        type_name(series.type),
        series.encoding or DEFAULT_ENCODINGS.get(series.type.kind, "PLAIN"),
        series.compression or DEFAULT_COMPRESSION,
        as_json(labels.tags),
        as_json(labels.attributes),
        None,
        None,
        "BASE",
    )


def as_json(labels: Mapping[str, str]) -> str | None:
    """Return tags or attributes as IoTDB prints them; None if there are none."""
    return json.dumps(dict(labels), separators=(",", ":"), ensure_ascii=False) if labels else None


def chosen_series(statement: TreeShow, context: Context) -> list[tuple[Device, Timeseries]]:
    """Return the series of a SHOW or COUNT that meet its condition."""
    matched = matching_series(patterns_of(statement), context.catalog.trees)
    if statement.where is None:
        return matched
    kind, key, sign, value = statement.where
    return [pair for pair in matched if meets(pair, kind, sign, key, value)]


def meets(pair: tuple[Device, Timeseries], kind: str, sign: str, key: str, value: str) -> bool:
    """Return whether a series meets the condition of a SHOW."""
    device, series = pair
    labels: SeriesLabels = device.labels_of(series.measurement)
    match kind:
        case "timeseries":
            value_of: str | None = device.series_path(series.measurement)
        case "device":
            value_of = device.path
        case "datatype":
            value_of = type_name(series.type)
        case "template":
            value_of = device.template
        case _:
            value_of = labels.tags.get(key)
    return COMPARISONS[sign](value_of, value)


COMPARISONS: Final[dict[str, Callable[[str | None, str], bool]]] = {
    "=": lambda written, value: written == value,
    "<>": lambda written, value: written is not None and written != value,
    "contains": lambda written, value: written is not None and value in written,
    "is null": lambda written, _: written is None,
    "is not null": lambda written, _: written is not None,
}


def count_timeseries(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the number of series, in all or for each path of a level."""
    matched = chosen_series(statement, context)
    if statement.level is None:
        return CatalogRows({"count(timeseries)": BIGINT}, [(len(matched),)])
    level = statement.level
    counts = Counter(
        join_path((*device.nodes, series.measurement)[: level + 1]) for device, series in matched if len(device.nodes) >= level
    )
    return CatalogRows({"Column": STRING, "count(timeseries)": BIGINT}, list(counts.items()))


def all_paths(context: Context) -> list[tuple[tuple[str, ...], str]]:
    """Return every node below the databases with what it is, in IoTDB's order."""
    from headrace.compute.iotdb.schema import SeriesTree

    trees = context.catalog.trees
    tree = SeriesTree(device for name in trees.databases() for device in trees.all(name))
    return list(tree.nodes(trees.databases()))


def child_paths(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the paths one level below a pattern, and what they are."""
    rows = [(join_path(path), kind) for path, kind in children(statement, context)]
    return CatalogRows({"ChildPaths": STRING, "NodeTypes": STRING}, rows)


def child_nodes(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the nodes one level below a pattern."""
    return CatalogRows({"ChildNodes": STRING}, [(path[-1],) for path, _ in children(statement, context)])


def children(statement: TreeShow, context: Context) -> list[tuple[tuple[str, ...], str]]:
    """Return the nodes one level below a pattern, sorted by kind and path as IoTDB does."""
    patterns = statement.patterns or (PathPattern((ROOT,)),)
    matched = [(path, kind) for path, kind in all_paths(context) if any(pattern.matches(path[:-1]) for pattern in patterns)]
    return sorted(matched, key=lambda child: (NODE_KINDS.index(child[1]), join_path(child[0])))


def count_nodes(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the number of nodes of a level."""
    level = statement.level or 0
    patterns = patterns_of(statement)
    matched = {
        path[: level + 1]
        for path, _ in all_paths(context)
        if len(path) > level and any(pattern.matches(path) for pattern in patterns)
    }
    return CatalogRows({"count(nodes)": BIGINT}, [(len(matched),)])


def ttl(statement: TreeShow, context: Context) -> CatalogRows:
    """Return times to live."""
    rules = context.catalog.trees.ttls()
    shown = {path: str(value) for path, value in rules.items() if not statement.patterns or matches_any(path, statement.patterns)}
    for pattern in statement.patterns:
        if not pattern.has_wildcard:
            shown.setdefault(str(pattern), str(rules.get(f"{pattern}.**", "INF")))
    return CatalogRows({"Device": STRING, "TTL(ms)": STRING}, list(shown.items()))


def all_ttl(_: TreeShow, context: Context) -> CatalogRows:
    """Return every time to live; that of the whole tree comes first."""
    rules = {"root.**": "INF"} | {path: str(value) for path, value in context.catalog.trees.ttls().items()}
    return CatalogRows({"Device": STRING, "TTL(ms)": STRING}, list(rules.items()))


SHOWS: Final[dict[str, Callable[[TreeShow, Context], CatalogRows]]] = {
    "databases": databases,
    "devices": devices,
    "timeseries": timeseries,
    "child paths": child_paths,
    "child nodes": child_nodes,
    "ttl": ttl,
    "all ttl": all_ttl,
    "count databases": count_databases,
    "count devices": count_devices,
    "count timeseries": count_timeseries,
    "count nodes": count_nodes,
}
