"""Databases, series and times to live of trees."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from headrace.catalog.templates import nested_path
from headrace.errors import Error, ExistsError, NotFoundError, ProgrammingError
from headrace.model.paths import ROOT, PathPattern, join_path, split_path
from headrace.model.tables import Database
from headrace.model.tree_statements import (
    AlterTimeseries,
    CreateTimeseries,
    CreateTreeDatabase,
    DropTimeseries,
    DropTreeDatabases,
    SetTTL,
    TimeseriesChange,
    TimeseriesSpec,
)
from headrace.model.tree_status import TreeStatus
from headrace.model.tree_types import TREE_ENCODINGS, type_name
from headrace.model.trees import Device, NewSeries, SeriesLabels, Timeseries
from headrace.service.database_stages import RemoveDatabase
from headrace.service.planning.dispatch import PlanningContext
from headrace.service.planning.tree_checks import check_series
from headrace.service.stages import Stage
from headrace.service.tree_stages import ChangeDevice, ChangeTtl, MakeSeries, MakeTree, RemoveSeries
from headrace.trees.databases import DEFAULT_LEVEL, database_of, new_database
from headrace.trees.devices import may_lie_in, refuse_tables, tree_devices


def create_database(statement: CreateTreeDatabase, session: PlanningContext) -> list[Stage]:
    """Plan CREATE DATABASE; a database cannot be above or below another one."""
    nodes = statement.path.nodes
    if len(nodes) < DEFAULT_LEVEL or nodes[0] != ROOT or statement.path.has_wildcard:
        raise illegal_path(statement.path, "write a path such as root.plant")
    refuse_tables([statement.path], session.context)
    name = join_path(nodes)
    for other in session.context.catalog.trees.databases():
        if other == name:
            error = ExistsError(f"{name} has already been created as database", hint="use another path", span=statement.path.span)
            raise error.with_status(TreeStatus.DATABASE_ALREADY_EXISTS)
        if is_below(name, other) or is_below(other, name):
            error = ExistsError(
                f"some children of {name} have already been created as database"
                if is_below(other, name)
                else f"{other} has already been created as database",
                hint=f"databases cannot be nested: {other} exists",
                span=statement.path.span,
            )
            raise error.with_status(TreeStatus.DATABASE_ALREADY_EXISTS)
    return [MakeTree(Database(name, timezone=session.context.settings.timezone), statement.ttl_ms)]


def illegal_path(path: PathPattern, hint: str) -> Error:
    """Return the error for a path that is not allowed."""
    return ProgrammingError(f"{path} is not a legal path", hint=hint, span=path.span).with_status(TreeStatus.ILLEGAL_PATH)


def missing_path(path: PathPattern, hint: str) -> Error:
    """Return the error for a path that does not exist."""
    return NotFoundError(f"Path [{path}] does not exist", hint=hint, span=path.span).with_status(TreeStatus.PATH_NOT_EXIST)


def is_below(path: str, ancestor: str) -> bool:
    """Return whether a path lies below another one."""
    return path.startswith(ancestor + ".")


def drop_databases(statement: DropTreeDatabases, session: PlanningContext) -> list[Stage]:
    """Plan DELETE DATABASE: all databases that match, or none if a pattern matches nothing."""
    catalog = session.context.catalog
    names = catalog.trees.databases()
    stages: dict[str, Stage] = {}
    refuse_tables(statement.patterns, session.context)
    for pattern in statement.patterns:
        matched = [name for name in names if pattern.matches(split_path(name))]
        if not matched:
            raise missing_path(pattern, "SHOW DATABASES lists what there is")
        for name in matched:
            jobs = tuple(record for record in catalog.jobs.all() if record.definition.database == name)
            stages[name] = RemoveDatabase(name, tuple(catalog.tables.all(name)), jobs)
    return list(stages.values())


def plan_database(device: PathPattern, session: PlanningContext) -> tuple[Database, list[Stage]]:
    """Return the database of a device, and a stage that creates it if it is missing."""
    if device.has_wildcard or device.nodes[0] != ROOT or len(device.nodes) < DEFAULT_LEVEL:
        raise illegal_path(device, "write a device such as root.plant.line1")
    name = database_of(join_path(device.nodes), session.context)
    if name is not None:
        return session.context.catalog.databases.get(name), []
    refuse_tables([device], session.context)
    database = new_database(join_path(device.nodes), session.context)
    return database, [MakeTree(database, if_not_exists=True)]


def create_timeseries(statement: CreateTimeseries, session: PlanningContext) -> list[Stage]:
    """Plan CREATE TIMESERIES and CREATE ALIGNED TIMESERIES."""
    database, makers = plan_database(statement.device, session)
    path = join_path(statement.device.nodes)
    present = session.context.catalog.trees.find(database.name, [path]).get(path)
    check_templates(statement, path, session)
    for spec in statement.series:
        check_encoding(spec)
    check_series(statement, database.name, present, session)
    series = tuple(new_series(spec) for spec in statement.series)
    return [*makers, MakeSeries(database, path, series, statement.aligned)]


def check_templates(statement: CreateTimeseries, device: str, session: PlanningContext) -> None:
    """Raise `ExistsError` if a template is set above series or below them: such devices have the template's series only."""
    names = [spec.measurement for spec in statement.series]
    series = [join_path((device, name)) for name in names]
    for path, template in session.context.catalog.templates.paths().items():
        if path == device or nested_path(path, series) is not None:
            described = f"{device}[{', '.join(names)}]" if statement.aligned else series[0]
            error = ExistsError(
                f"Cannot create timeseries [{described}] since device template [{template}] already set on path [{path}].",
                hint=f"ALTER DEVICE TEMPLATE {template} ADD the measurement, or use another device",
                span=statement.series[0].span,
            )
            raise error.with_status(TreeStatus.TEMPLATE_INCOMPATIBLE)


def check_encoding(spec: TimeseriesSpec, status: TreeStatus = TreeStatus.METADATA_ERROR, prefix: str = "") -> None:
    """Raise `ProgrammingError` if the type of a series does not allow its encoding."""
    allowed = TREE_ENCODINGS[spec.type.kind]
    if spec.encoding is not None and spec.encoding not in allowed:
        error = ProgrammingError(
            f"{prefix}encoding {spec.encoding} does not support {type_name(spec.type)}",
            hint=f"use one of {', '.join(sorted(allowed))}, or leave it out",
            span=spec.span,
        )
        raise error.with_status(status)


def new_series(spec: TimeseriesSpec) -> NewSeries:
    """Return the series that one element of a statement declares."""
    labels = SeriesLabels(spec.alias, dict(spec.tags), dict(spec.attributes))
    return NewSeries(spec.measurement, spec.type, spec.encoding or "", spec.compression or "", labels)


def matched_series(patterns: Sequence[PathPattern], session: PlanningContext) -> list[tuple[Device, Timeseries]]:
    """Return the series of trees that match one of the patterns, to change them, each once, by database and order of creation."""
    refuse_tables(patterns, session.context)
    return [
        (device, series)
        for device in tree_devices(patterns, session.context)
        for series in device.series
        if any(pattern.matches((*device.nodes, series.measurement)) for pattern in patterns)
    ]


def drop_timeseries(statement: DropTimeseries, session: PlanningContext) -> list[Stage]:
    """Plan DELETE TIMESERIES: all series that match and are of no template, with their values."""
    by_device: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pattern in statement.patterns:
        matched = [(device, series) for device, series in matched_series([pattern], session) if device.template is None]
        if not matched:
            error = NotFoundError(
                f"Timeseries [{pattern}] does not exist or is represented by device template",
                hint="SHOW TIMESERIES lists what there is; DEACTIVATE DEVICE TEMPLATE deletes the series of a template",
                span=pattern.span,
            )
            raise error.with_status(TreeStatus.PATH_NOT_EXIST)
        for device, series in matched:
            by_device[device.database, device.path].append(series.measurement)
    databases: dict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for (database, path), names in by_device.items():
        databases[database].append((path, tuple(dict.fromkeys(names))))
    catalog = session.context.catalog
    return [RemoveSeries(catalog.databases.get(name), tuple(series)) for name, series in databases.items()]


def set_ttl(statement: SetTTL, session: PlanningContext) -> list[Stage]:
    """Plan SET TTL and UNSET TTL."""
    pattern = statement.path
    refuse_tables([pattern], session.context)
    database = next((name for name in session.context.catalog.trees.databases() if may_lie_in(pattern, name)), None)
    if database is None:
        raise missing_path(pattern, "SHOW DATABASES lists what there is")
    return [ChangeTtl(database, str(pattern), statement.ttl_ms)]


def alter_timeseries(statement: AlterTimeseries, session: PlanningContext) -> list[Stage]:
    """Plan ALTER TIMESERIES: a change of the labels of one series."""
    matched = matched_series([statement.path], session)
    if not matched:
        raise missing_series(statement.path, session)
    device, series = matched[0]
    if device.template is not None:
        raise template_series_altered(statement.path, device, session)
    relabeled(device.labels_of(series.measurement), statement)
    check_new_alias(device, statement)

    def change(present: Device) -> Device:
        labels = relabeled(present.labels_of(series.measurement), statement)
        return replace(present, labels={**present.labels, series.measurement: labels})

    return [ChangeDevice(session.context.catalog.databases.get(device.database), device.path, change)]


def missing_series(path: PathPattern, session: PlanningContext) -> Error:
    """Return the error for a path of no series, which may be that of a device or lie above one."""
    hint, name = "SHOW TIMESERIES lists what there is", join_path(path.nodes)
    if any(device.path == name or is_below(device.path, name) for device in tree_devices([path], session.context)):
        error = ProgrammingError(f"MNode [{path}] is not a MeasurementMNode.", hint=hint, span=path.span)
        return error.with_status(TreeStatus.METADATA_ERROR)
    return missing_path(path, hint)


def template_series_altered(path: PathPattern, device: Device, session: PlanningContext) -> Error:
    """Return the error for altering a series of a template, which has no labels of its own."""
    covering = session.context.catalog.templates.covering(device.path)
    error = ProgrammingError(
        f"Cannot alter template timeseries [{path}] since device template [{device.template}] already set on path "
        f"[{covering[0] if covering else device.path}].",
        hint="series of a device template have no alias, tags and attributes",
        span=path.span,
    )
    return error.with_status(TreeStatus.TEMPLATE_INCOMPATIBLE)


def relabeled(labels: SeriesLabels, statement: AlterTimeseries) -> SeriesLabels:
    """Return labels as a statement changes them."""
    tags, attributes = dict(labels.tags), dict(labels.attributes)
    match statement.change:
        case TimeseriesChange.RENAME:
            old, new = statement.names
            rename(tags, attributes, old, new, statement.path)
        case TimeseriesChange.SET:
            for key, value in (*statement.tags, *statement.attributes):
                owner_of(key, tags, attributes, statement.path)[key] = value
        case TimeseriesChange.DROP:
            for key in statement.names:
                tags.pop(key, None)
                attributes.pop(key, None)
        case TimeseriesChange.ADD_TAGS | TimeseriesChange.ADD_ATTRIBUTES:
            for key, value in (*statement.tags, *statement.attributes):
                add_label(key, value, tags, attributes, statement)
        case TimeseriesChange.UPSERT:
            tags |= dict(statement.tags)
            attributes |= dict(statement.attributes)
    return SeriesLabels(statement.alias or labels.alias, tags, attributes)


def check_new_alias(device: Device, statement: AlterTimeseries) -> None:
    """Raise `ExistsError` if the new alias is the name or the alias of a series of the device."""
    alias = statement.alias
    if alias is not None and device.find(alias) is not None:
        message = "The alias is duplicated with the name or alias of other measurement."
        raise ExistsError(message, hint="use another alias", span=statement.path.span).with_status(TreeStatus.METADATA_ERROR)


def add_label(key: str, value: str, tags: dict[str, str], attributes: dict[str, str], statement: AlterTimeseries) -> None:
    """Add a tag or an attribute. A tag may have the name of an attribute."""
    is_tag = statement.change is TimeseriesChange.ADD_TAGS
    labels = tags if is_tag else attributes
    if key in labels:
        message = f"TimeSeries [{statement.path}] already has the {'tag' if is_tag else 'attribute'} [{key}]."
        raise ExistsError(message, hint="use SET").with_status(TreeStatus.METADATA_ERROR)
    labels[key] = value


def owner_of(key: str, tags: dict[str, str], attributes: dict[str, str], path: PathPattern) -> dict[str, str]:
    """Return which of the two has a key."""
    for labels in (tags, attributes):
        if key in labels:
            return labels
    error = NotFoundError(f"TimeSeries [{path}] does not have tag/attribute [{key}].", hint="use ADD TAGS or ADD ATTRIBUTES")
    raise error.with_status(TreeStatus.METADATA_ERROR)


def rename(tags: dict[str, str], attributes: dict[str, str], old: str, new: str, path: PathPattern) -> None:
    """Rename a key in place."""
    if new in tags or new in attributes:
        error = ExistsError(f"TimeSeries [{path}] already has a tag/attribute named [{new}].", hint="use another name")
        raise error.with_status(TreeStatus.METADATA_ERROR)
    labels = owner_of(old, tags, attributes, path)
    labels[new] = labels.pop(old)
