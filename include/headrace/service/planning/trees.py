"""Databases, series and times to live of trees."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headrace.errors import ExistsError, NotFoundError, ProgrammingError
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
from headrace.model.trees import Device, SeriesLabels, Timeseries
from headrace.service.planning.dispatch import PlanningContext
from headrace.service.stages import RemoveDatabase, Stage
from headrace.service.tree_stages import ChangeDevice, ChangeTtl, MakeSeries, MakeTree, NewSeries, RemoveSeries
from headrace.service.trees import database_of

PATH_NOT_EXIST: Final = 508
DEFAULT_LEVEL: Final = 2
"""Nodes of a database that is created for a device: `root` and one more."""


def create_database(statement: CreateTreeDatabase, session: PlanningContext) -> list[Stage]:
    """Plan CREATE DATABASE; a database cannot be above or below another one."""
    nodes = statement.path.nodes
    if len(nodes) < DEFAULT_LEVEL or nodes[0] != ROOT or statement.path.has_wildcard:
        raise ProgrammingError(
            f"{statement.path} is not a legal path", hint="write a path such as root.plant", span=statement.path.span
        )
    name = join_path(nodes)
    for other in session.context.catalog.trees.databases():
        if other == name:
            raise ExistsError(f"{name} has already been created as database", hint="use another path", span=statement.path.span)
        if is_below(name, other) or is_below(other, name):
            raise ExistsError(
                f"some children of {name} have already been created as database"
                if is_below(other, name)
                else f"{other} has already been created as database",
                hint=f"databases cannot be nested: {other} exists",
                span=statement.path.span,
            )
    return [MakeTree(new_database(name, session), statement.ttl_ms)]


def is_below(path: str, ancestor: str) -> bool:
    """Return whether a path lies below another one."""
    return path.startswith(ancestor + ".")


def new_database(name: str, session: PlanningContext) -> Database:
    """Return the definition of a tree's database."""
    return Database(name, timezone=session.context.settings.timezone)


def drop_databases(statement: DropTreeDatabases, session: PlanningContext) -> list[Stage]:
    """Plan DELETE DATABASE: all databases that match, or none if a pattern matches nothing."""
    catalog = session.context.catalog
    names = catalog.trees.databases()
    stages: dict[str, Stage] = {}
    for pattern in statement.patterns:
        matched = [name for name in names if pattern.matches(split_path(name))]
        if not matched:
            raise NotFoundError(f"Path [{pattern}] does not exist", hint="SHOW DATABASES lists what there is", span=pattern.span)
        for name in matched:
            jobs = tuple(record for record in catalog.jobs.all() if record.definition.database == name)
            stages[name] = RemoveDatabase(name, tuple(catalog.tables.all(name)), jobs)
    return list(stages.values())


def find_or_make_database(device: PathPattern, session: PlanningContext) -> tuple[Database, list[Stage]]:
    """Return the database of a device, and the stage that creates it if it is missing."""
    if device.has_wildcard or device.nodes[0] != ROOT or len(device.nodes) < DEFAULT_LEVEL:
        raise ProgrammingError(f"{device} is not a legal path", hint="write a device such as root.plant.line1", span=device.span)
    name = database_of(join_path(device.nodes), session.context)
    if name is not None:
        return session.context.catalog.databases.get(name), []
    database = new_database(join_path(device.nodes[:DEFAULT_LEVEL]), session)
    return database, [MakeTree(database, if_not_exists=True)]


def create_timeseries(statement: CreateTimeseries, session: PlanningContext) -> list[Stage]:
    """Plan CREATE TIMESERIES and CREATE ALIGNED TIMESERIES."""
    database, makers = find_or_make_database(statement.device, session)
    path = join_path(statement.device.nodes)
    present = session.context.catalog.trees.find(database.name, [path]).get(path)
    for spec in statement.series:
        if present is not None and present.find(spec.measurement) is not None:
            full = join_path((path, spec.measurement))
            raise ExistsError(f"Timeseries [{full}] already exists", hint="use another measurement", span=spec.span)
    series = tuple(new_series(spec) for spec in statement.series)
    return [*makers, MakeSeries(database, path, series, statement.aligned)]


def new_series(spec: TimeseriesSpec) -> NewSeries:
    """Return what is to be created for one series of a statement."""
    labels = SeriesLabels(spec.alias, dict(spec.tags), dict(spec.attributes))
    return NewSeries(spec.measurement, spec.type, spec.encoding or "", spec.compression or "", labels)


def matched_series(patterns: Sequence[PathPattern], session: PlanningContext) -> list[tuple[Device, Timeseries]]:
    """Return the series that match one of the patterns, each once, by database and order of creation."""
    trees = session.context.catalog.trees
    matched = []
    for database in trees.databases():
        if any(may_lie_in(pattern, database) for pattern in patterns):
            for device in trees.matching(database, patterns):
                nodes = device.nodes
                for series in device.series:
                    if any(pattern.matches((*nodes, series.measurement)) for pattern in patterns):
                        matched.append((device, series))
    return matched


def may_lie_in(pattern: PathPattern, database: str) -> bool:
    """Return whether paths of a database may match a pattern."""
    prefix = pattern.literal_prefix
    nodes = split_path(database)
    return all(mine == theirs for mine, theirs in zip(prefix, nodes, strict=False))


def drop_timeseries(statement: DropTimeseries, session: PlanningContext) -> list[Stage]:
    """Plan DELETE TIMESERIES: all series that match, with their values."""
    by_device: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pattern in statement.patterns:
        matched = matched_series([pattern], session)
        if not matched:
            raise NotFoundError(
                f"Timeseries [{pattern}] does not exist or is represented by device template",
                hint="SHOW TIMESERIES lists what there is",
                span=pattern.span,
            ).with_status(PATH_NOT_EXIST)
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
    database = next((name for name in session.context.catalog.trees.databases() if may_lie_in(pattern, name)), None)
    if database is None:
        raise NotFoundError(f"Path [{pattern}] does not exist", hint="SHOW DATABASES lists what there is", span=pattern.span)
    return [ChangeTtl(database, str(pattern), statement.ttl_ms)]


def alter_timeseries(statement: AlterTimeseries, session: PlanningContext) -> list[Stage]:
    """Plan ALTER TIMESERIES: a change of what is attached to one series."""
    matched = matched_series([statement.path], session)
    if not matched:
        raise NotFoundError(
            f"Timeseries [{statement.path}] does not exist", hint="SHOW TIMESERIES lists what there is", span=statement.path.span
        )
    device, series = matched[0]
    relabeled(device.labels_of(series.measurement), statement)

    def change(present: Device) -> Device:
        labels = relabeled(present.labels_of(series.measurement), statement)
        return replace(present, labels={**present.labels, series.measurement: labels})

    return [ChangeDevice(session.context.catalog.databases.get(device.database), device.path, change)]


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
                if key in tags or key in attributes:
                    raise ExistsError(f"TimeSeries [{statement.path}] already has the tag/attribute [{key}]", hint="use SET")
                (tags if statement.change is TimeseriesChange.ADD_TAGS else attributes)[key] = value
        case TimeseriesChange.UPSERT:
            tags |= dict(statement.tags)
            attributes |= dict(statement.attributes)
    return SeriesLabels(statement.alias or labels.alias, tags, attributes)


def owner_of(key: str, tags: dict[str, str], attributes: dict[str, str], path: PathPattern) -> dict[str, str]:
    """Return which of the two has a key."""
    for labels in (tags, attributes):
        if key in labels:
            return labels
    raise NotFoundError(f"TimeSeries [{path}] does not have tag/attribute [{key}]", hint="use ADD TAGS or ADD ATTRIBUTES")


def rename(tags: dict[str, str], attributes: dict[str, str], old: str, new: str, path: PathPattern) -> None:
    """Rename a key in place."""
    if new in tags or new in attributes:
        raise ExistsError(f"TimeSeries [{path}] already has a tag/attribute named [{new}]", hint="use another name")
    labels = owner_of(old, tags, attributes, path)
    labels[new] = labels.pop(old)
