"""SHOW and COUNT of trees, answered from the catalog, and from the times of points."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from headrace.context import Context
from headrace.errors import NotFoundError, NotSupportedError
from headrace.model.access import Privilege
from headrace.model.functions import RegisteredFunction
from headrace.model.paths import ANY_LEVELS, ROOT, PathPattern, join_path, split_path
from headrace.model.tree_statements import INFINITE, TreeShow
from headrace.model.tree_status import TreeStatus
from headrace.model.tree_types import DEFAULT_COMPRESSION, default_encoding, type_name
from headrace.model.trees import Device, NewSeries, SeriesLabels, Timeseries
from headrace.service.results import BIGINT, INT, STRING, CatalogRows, Result
from headrace.service.rights import on_paths
from headrace.service.stage import PlanningContext, Stage
from headrace.service.statement_rights import SHOWS as SHOWN
from headrace.service.topics.continuous_queries import show_executions, show_queries
from headrace.service.topics.queries import DESCRIBE_CATALOG, read_catalog
from headrace.service.topics.snodes import list_tree_queries
from headrace.service.topics.trees.activity import SeriesPair, active_devices, latest_times, pair_key
from headrace.service.topics.trees.pipe_plugins import show_pipe_plugins
from headrace.service.topics.trees.pipe_shows import show_pipe, show_pipes
from headrace.service.topics.trees.triggers import show_triggers
from headrace.trees.devices import devices_of, named_tables, table_devices, table_path
from headrace.trees.expiry import EVERY_PATH, ttl_by_device
from headrace.trees.visibility import visible_devices, visible_paths

EVERYTHING: Final = (PathPattern((ROOT, ANY_LEVELS)),)
TTL_TYPES: Final = {"Device": STRING, "TTL(ms)": STRING}
NODE_KINDS: Final = ("SG INTERNAL", "DATABASE", "INTERNAL", "DEVICE", "TIMESERIES")
PARTITION_MS: Final = 604_800_000
"""IoTDB's time partition, which it shows with each database; it means nothing here."""
REGION_COUNTS: Final = tuple(f"{prefix}{kind}RegionGroupNum" for kind in ("Schema", "Data") for prefix in ("", "Min", "Max"))
"""Columns of SHOW DATABASES DETAILS about IoTDB's regions; a database is one here."""
BUILT_IN_KINDS: Final = ("native", "built-in scalar")
"""The types of functions that come last, in this order."""
SCALARS: Final = frozenset(("cast", "diff", "replace", "round", "substring"))
"""What IoTDB calls scalar functions; it calls other functions of a row or series built-in UDTFs."""


def plan_tree_show(statement: TreeShow, session: PlanningContext) -> list[Stage]:
    if statement.what == "queries":
        return [list_tree_queries(statement.limit, statement.offset)]
    if statement.what not in SHOWS:
        raise NotSupportedError(
            f"SHOW {statement.what.upper()} is not supported", hint=f"supported are {', '.join(sorted(SHOWS))}", span=statement.span
        )
    read = partial(answer, statement, session.context)
    title = f"show {statement.what}"
    if statement.time is not None or statement.what == "latest timeseries":
        # Spark reads the times of points.
        described = f"{title}: read the catalog, and the times of points on Spark"
        return [Stage(on_paths(Privilege.READ_DATA, patterns_of(statement)), lambda: [described], lambda _: read(), is_query=True)]
    return [read_catalog(title, read, SHOWN.get(statement.what, DESCRIBE_CATALOG))]


def answer(statement: TreeShow, context: Context) -> Result:
    """Return the rows of a SHOW, within its limits."""
    rows = SHOWS[statement.what](statement, context)
    first = statement.offset or 0
    last = None if statement.limit is None else first + statement.limit
    return Result(CatalogRows(rows.columns, rows.values[first:last]))


def patterns_of(statement: TreeShow) -> tuple[PathPattern, ...]:
    """Return the patterns of a SHOW; all paths if it has none."""
    return statement.patterns or EVERYTHING


def known_devices(patterns: Sequence[PathPattern], context: Context) -> list[Device]:
    """Return the devices whose path may match one of the patterns or begin one, as far as the user may know of them."""
    return visible_devices(devices_of(patterns, context), context, Privilege.READ_SCHEMA)


def matching_devices(patterns: Sequence[PathPattern], context: Context) -> list[Device]:
    """Return the devices whose path matches, in IoTDB's order."""
    from headrace.compute.iotdb.schema import SeriesTree, concurrent_order

    candidates = known_devices(patterns, context)
    matched = {device.path for device in candidates if any(pattern.matches(device.nodes) for pattern in patterns)}
    return [device for device in SeriesTree(candidates, concurrent_order).walk_devices() if device.path in matched]


def matching_series(patterns: Sequence[PathPattern], context: Context) -> Iterator[SeriesPair]:
    """Yield the series whose path matches, in IoTDB's order."""
    from headrace.compute.iotdb.schema import SeriesTree, concurrent_order

    tree = SeriesTree(known_devices(patterns, context), concurrent_order)
    if len(patterns) == 1:
        return ((ref.device, ref.series) for ref in tree.iterate(patterns[0]))
    matched = {ref.path: (ref.device, ref.series) for pattern in patterns for ref in tree.iterate(pattern)}
    return iter(matched.values())


def databases(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the databases of this language, and tables of databases that the pattern names."""
    patterns = patterns_of(statement)
    present = [*context.catalog.trees.databases(), *(table_path(table) for table in named_tables(patterns, context))]
    names = visible_paths((name for name in present if matches_any(name, patterns)), context)
    types = {
        "Database": STRING,
        "SchemaReplicationFactor": INT,
        "DataReplicationFactor": INT,
        "TimePartitionOrigin": BIGINT,
        "TimePartitionInterval": BIGINT,
    }
    details = dict.fromkeys(REGION_COUNTS, INT) if statement.details else {}
    return CatalogRows(types | details, [(name, 1, 1, 0, PARTITION_MS, *(1 for _ in details)) for name in names])


def matches_any(path: str, patterns: Iterable[PathPattern]) -> bool:
    nodes = split_path(path)
    return any(pattern.matches(nodes) for pattern in patterns)


def count_databases(statement: TreeShow, context: Context) -> CatalogRows:
    return CatalogRows({"count": INT}, [(len(databases(statement, context).values),)])


def devices(statement: TreeShow, context: Context) -> CatalogRows:
    matched = chosen_devices(statement, context)
    ttls = ttl_by_device((device.path for device in matched), context.catalog.trees.ttls())
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
    return CatalogRows({"count(devices)": BIGINT}, [(len(chosen_devices(statement, context)),)])


def chosen_devices(statement: TreeShow, context: Context) -> list[Device]:
    """Return the devices of a SHOW or COUNT that meet its condition."""
    matched = matching_devices(patterns_of(statement), context)
    if statement.where is not None:
        kind, _, sign, value = statement.where
        matched = [device for device in matched if COMPARISONS[sign](device.template if kind == "template" else device.path, value)]
    if statement.time is None:
        return matched
    active = active_devices(matched, statement.time, context)
    return [device for device in matched if device.path in active]


def timeseries(statement: TreeShow, context: Context) -> CatalogRows:
    headers = ("Timeseries", "Alias", "Database", "DataType", "Encoding", "Compression", "Tags", "Attributes")
    types = dict.fromkeys((*headers, "Deadband", "DeadbandParameters", "ViewType"), STRING)
    matched = chosen_series(statement, context)
    # Like IoTDB, which keeps the usual order if there is a condition on time.
    if statement.what.startswith("latest") and statement.time is None:
        matched = iter(latest_first(list(matched), context))
    if statement.limit is not None:
        # `answer` applies the offset.
        matched = islice(matched, min((statement.offset or 0) + statement.limit, sys.maxsize))
    return CatalogRows(types, [series_row(device, series) for device, series in matched])


def latest_first(matched: Sequence[SeriesPair], context: Context) -> list[SeriesPair]:
    """Sort series by the time of their latest point, latest first, and leave those without points in their order at the end."""
    times = latest_times(matched, None, context)
    with_points = [pair for pair in matched if pair_key(*pair) in times]
    without_points = [pair for pair in matched if pair_key(*pair) not in times]
    return [*sorted(with_points, key=lambda pair: times[pair_key(*pair)], reverse=True), *without_points]


def series_row(device: Device, series: Timeseries) -> tuple[Any, ...]:
    labels = device.labels_of(series.measurement)
    return (
        device.series_path(series.measurement),
        labels.alias,
        device.database,
        *storage_of(series),
        as_json(labels.tags),
        as_json(labels.attributes),
        None,
        None,
        "BASE",
    )


def storage_of(series: Timeseries | NewSeries) -> tuple[str, str, str]:
    """Return the type, encoding and compression of a series, as IoTDB names them."""
    return type_name(series.type), series.encoding or default_encoding(series.type), series.compression or DEFAULT_COMPRESSION


def as_json(labels: Mapping[str, str]) -> str | None:
    """Return tags or attributes as IoTDB prints them, in its order; None if there are none."""
    from headrace.compute.iotdb.schema import read_map_order

    ordered = {key: labels[key] for key in read_map_order(list(labels))}
    return json.dumps(ordered, separators=(",", ":"), ensure_ascii=False) if labels else None


def chosen_series(statement: TreeShow, context: Context) -> Iterator[SeriesPair]:
    """Return the series of a SHOW or COUNT that meet its condition, one at a time: there may be millions."""
    matched = matching_series(patterns_of(statement), context)
    if statement.where is not None:
        kind, key, sign, value = statement.where
        matched = (pair for pair in matched if meets(pair, kind, sign, key, value))
    if statement.time is None:
        return matched
    candidates = list(matched)
    times = latest_times(candidates, statement.time, context)
    return (pair for pair in candidates if pair_key(*pair) in times)


def meets(pair: SeriesPair, kind: str, sign: str, key: str, value: str) -> bool:
    device, series = pair
    labels: SeriesLabels = device.labels_of(series.measurement)
    match kind:
        case "timeseries":
            value_of: str | None = device.series_path(series.measurement)
        case "datatype":
            value_of = type_name(series.type)
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
    if statement.level is None:
        return CatalogRows({"count(timeseries)": BIGINT}, [(number_of_series(statement, context),)])
    matched = chosen_series(statement, context)
    level = statement.level
    counts = Counter(
        join_path((*device.nodes, series.measurement)[: level + 1]) for device, series in matched if len(device.nodes) >= level
    )
    return CatalogRows({"Column": STRING, "count(timeseries)": BIGINT}, list(counts.items()))


def number_of_series(statement: TreeShow, context: Context) -> int:
    from headrace.compute.iotdb.schema import SeriesTree

    patterns = patterns_of(statement)
    if statement.where is not None or statement.time is not None or len(patterns) > 1:
        return sum(1 for _ in chosen_series(statement, context))
    return SeriesTree(known_devices(patterns, context)).count(patterns[0])


def all_paths(patterns: Sequence[PathPattern], context: Context) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every node below the databases, and below tables that patterns name, with what it is, in IoTDB's order."""
    from headrace.compute.iotdb.schema import SeriesTree

    trees = context.catalog.trees
    names, externals = (visible_paths(own, context) for own in (trees.databases(), trees.externals()))
    present = [*(device for name in names for device in trees.all(name)), *table_devices(patterns, context)]
    return SeriesTree(visible_devices(present, context, Privilege.READ_SCHEMA)).nodes([*names, *externals])


def child_paths(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the paths one level below a pattern, and what they are."""
    rows = [(join_path(path), kind) for path, kind in children(statement, context)]
    return CatalogRows({"ChildPaths": STRING, "NodeTypes": STRING}, rows)


def child_nodes(statement: TreeShow, context: Context) -> CatalogRows:
    return CatalogRows({"ChildNodes": STRING}, [(path[-1],) for path, _ in children(statement, context)])


def children(statement: TreeShow, context: Context) -> list[tuple[tuple[str, ...], str]]:
    """Return the nodes one level below a pattern, sorted by kind and path as IoTDB does."""
    patterns = statement.patterns or (PathPattern((ROOT,)),)
    matched = [
        (path, kind) for path, kind in all_paths(patterns, context) if any(pattern.matches(path[:-1]) for pattern in patterns)
    ]
    return sorted(matched, key=lambda child: (NODE_KINDS.index(child[1]), join_path(child[0])))


def count_nodes(statement: TreeShow, context: Context) -> CatalogRows:
    level = statement.level or 0
    patterns = patterns_of(statement)
    matched = {
        path[: level + 1]
        for path, _ in all_paths(patterns, context)
        if len(path) > level and any(pattern.matches(path) for pattern in patterns)
    }
    return CatalogRows({"count(nodes)": BIGINT}, [(len(matched),)])


def visible_ttls(context: Context) -> dict[str, str]:
    """Return the times to live by path, of paths that the user may know of; that of the whole tree comes first."""
    ttls = {EVERY_PATH: INFINITE} | context.catalog.trees.ttls()
    return {path: "INF" if ttls[path] == INFINITE else str(ttls[path]) for path in (EVERY_PATH, *visible_paths(ttls, context))}


def ttl(statement: TreeShow, context: Context) -> CatalogRows:
    ttls = visible_ttls(context)
    return CatalogRows(TTL_TYPES, [(path, value) for path, value in ttls.items() if matches_any(path, statement.patterns)])


def all_ttl(_: TreeShow, context: Context) -> CatalogRows:
    return CatalogRows(TTL_TYPES, list(visible_ttls(context).items()))


def device_templates(_: TreeShow, context: Context) -> CatalogRows:
    """Return the names of device templates, in IoTDB's order."""
    from headrace.compute.iotdb.schema import hash_order

    names = hash_order([template.name for template in context.catalog.templates.all()])
    return CatalogRows({"TemplateName": STRING}, [(name,) for name in names])


def template_nodes(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the measurements of a device template, in IoTDB's order."""
    from headrace.compute.iotdb.schema import template_order

    series = {one.measurement: one for one in context.catalog.templates.get(statement.name or "").series}
    rows = [(name, *storage_of(series[name])) for name in template_order(list(series))]
    return CatalogRows(dict.fromkeys(("ChildNodes", "DataType", "Encoding", "Compression"), STRING), rows)


def template_paths(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the paths that a device template is set to. One that does not exist has a status of its own here."""
    try:
        name = context.catalog.templates.get(statement.name or "").name
    except NotFoundError as error:
        message = f"Template {statement.name} does not exist"
        raise NotFoundError(message, hint=error.hint).with_status(TreeStatus.INTERNAL_SERVER_ERROR) from None
    return CatalogRows(
        {"Paths": STRING}, [(path,) for path, template in context.catalog.templates.paths().items() if template == name]
    )


def template_devices(statement: TreeShow, context: Context) -> CatalogRows:
    matched = matching_devices(patterns_of(statement), context)
    return CatalogRows({"Paths": STRING}, [(device.path,) for device in matched if device.template == statement.name])


def version(_: TreeShow, __: Context) -> CatalogRows:
    from headrace import __version__

    return CatalogRows({"Version": STRING, "BuildInfo": STRING}, [(__version__, "Headrace")])


def current_timestamp(_: TreeShow, context: Context) -> CatalogRows:
    return CatalogRows({"CurrentTimestamp": BIGINT}, [(context.clock.now(),)])


def functions(_: TreeShow, context: Context) -> CatalogRows:
    """Return the functions as IoTDB orders them: those of series by name, with registered ones, then aggregates, then scalars."""
    from headrace.compute.language import language

    tree_language = language("iotdb")
    kinds = {name: function_kind(name, aggregate=tree_language.aggregate(name) is not None) for name in tree_language.functions}
    rows = [(name.upper(), kind, "") for name, kind in kinds.items()]
    rows += [(function.name, external_kind(function), function.class_name) for function in context.catalog.functions.all("iotdb")]
    rows.sort(key=lambda row: (BUILT_IN_KINDS.index(row[1]) if row[1] in BUILT_IN_KINDS else -1, row[0]))
    return CatalogRows(dict.fromkeys(("FunctionName", "FunctionType", "ClassName(UDF)"), STRING), rows)


def external_kind(function: RegisteredFunction) -> str:
    """Return the type of a registered function."""
    return f"external {function.kind.value}"


def function_kind(name: str, *, aggregate: bool) -> str:
    return "native" if aggregate else "built-in scalar" if name in SCALARS else "built-in UDTF"


def show_audit_log(_: TreeShow, context: Context) -> CatalogRows:
    """Return what users did and were refused, the newest first."""
    from headrace.service.system_tables import audit_log

    return audit_log(context)


SHOWS: Final[dict[str, Callable[[TreeShow, Context], CatalogRows]]] = {
    "audit log": show_audit_log,
    "continuous queries": show_queries,
    "cq executions": show_executions,
    "databases": databases,
    "devices": devices,
    "timeseries": timeseries,
    "latest timeseries": timeseries,
    "version": version,
    "current_timestamp": current_timestamp,
    "functions": functions,
    "child paths": child_paths,
    "child nodes": child_nodes,
    "device templates": device_templates,
    "nodes in template": template_nodes,
    "paths set template": template_paths,
    "paths using template": template_devices,
    "pipe": show_pipe,
    "pipes": show_pipes,
    "pipeplugins": show_pipe_plugins,
    "triggers": show_triggers,
    "ttl": ttl,
    "all ttl": all_ttl,
    "count databases": count_databases,
    "count devices": count_devices,
    "count timeseries": count_timeseries,
    "count nodes": count_nodes,
}
