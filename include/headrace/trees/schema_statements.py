"""The statements of the IoTDB language that make a change of the schema, for the log of such changes.

They are idempotent where the language allows it: a change of labels is an UPSERT of what they have become, not what the user wrote.
Series that INSERT creates have no statement: a receiver of the rows creates them with the same types and alignment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.catalog.trees import DeviceLog
from headrace.context import Context
from headrace.errors import NotFoundError
from headrace.model.paths import PathPattern, split_path
from headrace.model.schema_log import SchemaStatement
from headrace.model.tree_statements import (
    ActivateTemplate,
    AlterTemplate,
    AlterTimeseries,
    CreateTemplate,
    CreateTimeseries,
    CreateTreeDatabase,
    DeactivateTemplate,
    DropTemplate,
    DropTimeseries,
    DropTreeDatabases,
    SetTemplate,
    SetTTL,
    TimeseriesChange,
    TimeseriesSpec,
    TreeStatement,
)
from headrace.model.tree_types import DEFAULT_COMPRESSION, default_encoding
from headrace.model.trees import NO_LABELS, Device, DeviceTemplate, NewSeries, SeriesLabels, Timeseries, tree_table
from headrace.sql import to_sql

MAX_PATHS: Final = 1_000
"""Paths of a statement. A change of more series is several statements."""
CREATE_DATABASE: Final = "schema.database.create"
DROP_DATABASE: Final = "schema.database.drop"
CREATE_SERIES: Final = "schema.timeseries.ordinary.create"
ALTER_SERIES: Final = "schema.timeseries.ordinary.alter"
DROP_SERIES: Final = "schema.timeseries.ordinary.drop"
CREATE_TEMPLATE: Final = "schema.timeseries.template.create"
ALTER_TEMPLATE: Final = "schema.timeseries.template.alter"
DROP_TEMPLATE: Final = "schema.timeseries.template.drop"
SET_TEMPLATE: Final = "schema.timeseries.template.set"
UNSET_TEMPLATE: Final = "schema.timeseries.template.unset"
ACTIVATE_TEMPLATE: Final = "schema.timeseries.template.activate"
DEACTIVATE_TEMPLATE: Final = "schema.timeseries.template.deactivate"
TTL: Final = "schema.ttl"
Change = tuple[str, TreeStatement]
"""A category and its statement."""


def logged(context: Context, change: Change, database: str = "", version: int | None = None) -> SchemaStatement:
    """Return a change for the log; without `version`, what the tree's table has now precedes it."""
    category, statement = change
    if version is None:
        version = table_version(context, database) if database else 0
    return SchemaStatement(category, to_sql(statement, "iotdb"), database, version, context.user)


def table_version(context: Context, database: str) -> int:
    """Return the version of a tree's table; 0 if its creation was interrupted."""
    try:
        return context.tables.version(tree_table(database))
    except NotFoundError:
        return 0


def path_of(path: str) -> PathPattern:
    """Return a path as a pattern that matches it alone."""
    return PathPattern(split_path(path))


def create_database(name: str) -> Change:
    """Return the creation of a database."""
    return CREATE_DATABASE, CreateTreeDatabase(path_of(name))


def drop_database(name: str) -> Change:
    """Return the removal of a database."""
    return DROP_DATABASE, DropTreeDatabases((path_of(name),))


def set_ttl(path: str, ttl_ms: int | None) -> Change:
    """Return the change of a time to live; None is no limit."""
    return TTL, SetTTL(path_of(path), ttl_ms)


def create_template(template: DeviceTemplate) -> Change:
    """Return the creation of a template."""
    return CREATE_TEMPLATE, CreateTemplate(template.name, tuple(map(spec_of, template.series)), template.aligned)


def alter_template(name: str, series: Sequence[NewSeries]) -> Change:
    """Return the addition of measurements to a template."""
    return ALTER_TEMPLATE, AlterTemplate(name, tuple(map(spec_of, series)))


def drop_template(name: str) -> Change:
    """Return the removal of a template."""
    return DROP_TEMPLATE, DropTemplate(name)


def set_template(name: str, path: str) -> Change:
    """Return the setting of a template to a path."""
    return SET_TEMPLATE, SetTemplate(name, path_of(path))


def unset_template(name: str, path: str) -> Change:
    """Return the removal of a template from a path."""
    return UNSET_TEMPLATE, SetTemplate(name, path_of(path), unset=True)


def spec_of(series: NewSeries | Timeseries, labels: SeriesLabels = NO_LABELS) -> TimeseriesSpec:
    """Return a series as CREATE TIMESERIES has it, with the encoding and compression that are its default."""
    return TimeseriesSpec(
        series.measurement,
        series.type,
        series.encoding or default_encoding(series.type),
        series.compression or DEFAULT_COMPRESSION,
        labels.alias,
        tuple(labels.tags.items()),
        tuple(labels.attributes.items()),
    )


def device_log(context: Context, database: str) -> DeviceLog:
    """Return the log of a change of devices, which is made now."""
    version = table_version(context, database)

    def log(present: Mapping[str, Device], changed: Sequence[Device]) -> list[SchemaStatement]:
        pairs = [(present.get(device.path), device) for device in changed]
        return [logged(context, change, database, version) for change in (*removals(pairs), *additions(pairs))]

    return log


def database_log(context: Context, name: str) -> list[SchemaStatement]:
    """Return the log of the removal of a database. Its templates are unset first: a pipe may transfer only a part of it."""
    templates = context.catalog.templates.paths()
    paths = [path for path in templates if f"{path}.".startswith(f"{name}.")]
    users = [device for device in context.catalog.trees.all(name) if device.template is not None] if paths else []
    version = table_version(context, name)
    changes = [
        *removals((device, replace(device, series=(), template=None)) for device in users),
        *(unset_template(templates[path], path) for path in paths),
        drop_database(name),
    ]
    return [logged(context, change, name, version) for change in changes]


def removals(pairs: Iterable[tuple[Device | None, Device]]) -> Iterator[Change]:
    """Yield what removes the series that devices had before and lack after a change."""
    series: list[PathPattern] = []
    devices: dict[str, list[PathPattern]] = defaultdict(list)
    for before, after in pairs:
        if before is None:
            continue
        if before.template is not None and after.template is None:
            devices[before.template].append(path_of(before.path))
            continue
        kept = {one.measurement for one in after.series}
        series += [PathPattern((*before.nodes, one.measurement)) for one in before.series if one.measurement not in kept]
    for paths in parts_of(series):
        yield DROP_SERIES, DropTimeseries(paths)
    for template, own in devices.items():
        for paths in parts_of(own):
            yield DEACTIVATE_TEMPLATE, DeactivateTemplate(paths, template)


def parts_of(paths: Sequence[PathPattern]) -> Iterator[tuple[PathPattern, ...]]:
    """Yield paths in parts of the size of a statement."""
    for first in range(0, len(paths), MAX_PATHS):
        yield tuple(paths[first : first + MAX_PATHS])


def additions(pairs: Iterable[tuple[Device | None, Device]]) -> Iterator[Change]:
    """Yield what creates the series that devices lacked before a change, and what changes the labels of others."""
    for before, after in pairs:
        if after.template is not None:
            if before is None:
                yield ACTIVATE_TEMPLATE, ActivateTemplate(path_of(after.path))
            continue
        present = set() if before is None else {one.measurement for one in before.series}
        yield from creations(after, [one for one in after.series if one.measurement not in present])
        for series in after.series if before is not None else ():
            if before is not None and series.measurement in present:
                labels = before.labels_of(series.measurement), after.labels_of(series.measurement)
                yield from relabelings(PathPattern((*after.nodes, series.measurement)), *labels)


def creations(device: Device, series: Sequence[Timeseries]) -> Iterator[Change]:
    """Yield what creates series of a device."""
    specs = tuple(spec_of(one, device.labels_of(one.measurement)) for one in series)
    if device.aligned and specs:
        yield CREATE_SERIES, CreateTimeseries(path_of(device.path), specs, aligned=True)
        return
    for spec in specs:
        yield CREATE_SERIES, CreateTimeseries(path_of(device.path), (spec,))


def relabelings(path: PathPattern, before: SeriesLabels, after: SeriesLabels) -> Iterator[Change]:
    """Yield what changes the labels of a series. A tag may have the name of an attribute: DROP removes both."""
    dropped = {*(before.tags.keys() - after.tags.keys()), *(before.attributes.keys() - after.attributes.keys())}
    if dropped:
        yield ALTER_SERIES, AlterTimeseries(path, TimeseriesChange.DROP, tuple(sorted(dropped)))
    tags = tuple((key, value) for key, value in after.tags.items() if key in dropped or before.tags.get(key) != value)
    attributes = tuple(
        (key, value) for key, value in after.attributes.items() if key in dropped or before.attributes.get(key) != value
    )
    if tags or attributes:
        yield ALTER_SERIES, AlterTimeseries(path, TimeseriesChange.UPSERT, (), tags, attributes)
    if after.alias != before.alias:
        # Alone: it fails if it is run again, and should not prevent anything else.
        yield ALTER_SERIES, AlterTimeseries(path, TimeseriesChange.UPSERT, alias=after.alias)
