"""Series of trees: create, alter and drop them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from headrace.catalog.templates import nested_path
from headrace.errors import Error, ExistsError, NotFoundError, ProgrammingError
from headrace.model.access import Privilege
from headrace.model.paths import PathPattern, join_path
from headrace.model.tables import Database
from headrace.model.tree_statements import AlterTimeseries, CreateTimeseries, DropTimeseries, TimeseriesChange, TimeseriesSpec
from headrace.model.tree_status import TreeStatus
from headrace.model.tree_types import TREE_ENCODINGS, type_name
from headrace.model.trees import NO_LABELS, Device, DeviceSeries, NewSeries, SeriesLabels, Timeseries
from headrace.service.rights import on_paths
from headrace.service.stage import PlanningContext, Stage
from headrace.service.topics.trees.checks import check_series
from headrace.service.topics.trees.databases import find_or_plan_database, missing_path
from headrace.trees.databases import is_below
from headrace.trees.devices import refuse_tables, tree_devices
from headrace.trees.series import change_device, create_series, remove_series


def plan_create_timeseries(statement: CreateTimeseries, session: PlanningContext) -> list[Stage]:
    database, makers = find_or_plan_database(statement.device, session)
    path = join_path(statement.device.nodes)
    present = session.context.catalog.trees.find(database.name, [path]).get(path)
    check_templates(statement, path, session)
    for spec in statement.series:
        check_encoding(spec)
    check_series(statement, database.name, present, session)
    labels = {spec.measurement: SeriesLabels(spec.alias, dict(spec.tags), dict(spec.attributes)) for spec in statement.series}
    labels = {measurement: own for measurement, own in labels.items() if own != NO_LABELS}
    device = DeviceSeries(database, path, new_series(statement.series), statement.aligned, labels)
    return [
        *makers,
        Stage(
            on_paths(Privilege.WRITE_SCHEMA, [join_path((path, spec.measurement)) for spec in statement.series]),
            lambda: [describe_creation(device, device.series)],
            lambda session: create_series(session.context, [device]),
        ),
    ]


def check_templates(statement: CreateTimeseries, device: str, session: PlanningContext) -> None:
    """Raise `ExistsError` if a template is set above series or below them: such devices have the template's series only."""
    names = [spec.measurement for spec in statement.series]
    series = [join_path((device, name)) for name in names]
    for path, template in session.context.catalog.templates.paths().items():
        if path == device or nested_path(path, series) is not None:
            described = f"{device}[{', '.join(names)}]" if statement.aligned else series[0]
            raise ExistsError(
                f"Cannot create timeseries [{described}] since device template [{template}] already set on path [{path}].",
                hint=f"ALTER DEVICE TEMPLATE {template} ADD the measurement, or use another device",
                span=statement.series[0].span,
            ).with_status(TreeStatus.TEMPLATE_INCOMPATIBLE)


def check_encoding(spec: TimeseriesSpec, status: TreeStatus = TreeStatus.METADATA_ERROR, prefix: str = "") -> None:
    """Raise `ProgrammingError` if the type of a series does not allow its encoding."""
    allowed = TREE_ENCODINGS[spec.type.kind]
    if spec.encoding is not None and spec.encoding not in allowed:
        raise ProgrammingError(
            f"{prefix}encoding {spec.encoding} does not support {type_name(spec.type)}",
            hint=f"use one of {', '.join(sorted(allowed))}, or leave it out",
            span=spec.span,
        ).with_status(status)


def new_series(specs: Sequence[TimeseriesSpec]) -> tuple[NewSeries, ...]:
    return tuple(NewSeries(spec.measurement, spec.type, spec.encoding or "", spec.compression or "") for spec in specs)


def matched_series(patterns: Sequence[PathPattern], session: PlanningContext) -> list[tuple[Device, Timeseries]]:
    """Return the series of trees that match one of the patterns, to change them, each once, by database and order of creation."""
    refuse_tables(patterns, session.context)
    return [
        (device, series)
        for device in tree_devices(patterns, session.context)
        for series in device.series
        if any(pattern.matches((*device.nodes, series.measurement)) for pattern in patterns)
    ]


def plan_drop_timeseries(statement: DropTimeseries, session: PlanningContext) -> list[Stage]:
    """Plan DELETE TIMESERIES: all series that match and are of no template, with their values."""
    by_device: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pattern in statement.patterns:
        matched = [(device, series) for device, series in matched_series([pattern], session) if device.template is None]
        if not matched:
            raise NotFoundError(
                f"Timeseries [{pattern}] does not exist or is represented by device template",
                hint="SHOW TIMESERIES lists what there is; DEACTIVATE DEVICE TEMPLATE deletes the series of a template",
                span=pattern.span,
            ).with_status(TreeStatus.PATH_NOT_EXIST)
        for device, series in matched:
            by_device[device.database, device.path].append(series.measurement)
    databases: dict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for (database, path), names in by_device.items():
        databases[database].append((path, tuple(dict.fromkeys(names))))
    catalog = session.context.catalog
    return [remove_from(catalog.databases.get(name), series) for name, series in databases.items()]


def remove_from(database: Database, series: Sequence[tuple[str, tuple[str, ...]]]) -> Stage:
    """Remove series of devices with their values: measurements by device."""
    return Stage(
        on_paths(Privilege.WRITE_SCHEMA, [join_path((device, name)) for device, names in series for name in names]),
        lambda: [f"delete series of {device} with their values: {', '.join(names)}" for device, names in series],
        lambda session: remove_series(session.context, database, series),
        loses=lambda: [f"the values of {', '.join(names)} of {device}" for device, names in series],
    )


def plan_alter_timeseries(statement: AlterTimeseries, session: PlanningContext) -> list[Stage]:
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

    database, path = session.context.catalog.databases.get(device.database), device.path
    return [
        Stage(
            on_paths(Privilege.WRITE_SCHEMA, (statement.path,)),
            lambda: [f"change alias, tags or attributes of a series of {path}"],
            lambda session: change_device(session.context, database, path, change),
        )
    ]


def missing_series(path: PathPattern, session: PlanningContext) -> Error:
    """Return the error for a path of no series, which may be that of a device or lie above one."""
    hint, name = "SHOW TIMESERIES lists what there is", join_path(path.nodes)
    if any(device.path == name or is_below(device.path, name) for device in tree_devices([path], session.context)):
        error = ProgrammingError(f"MNode [{path}] is not a MeasurementMNode.", hint=hint, span=path.span)
        return error.with_status(TreeStatus.METADATA_ERROR)
    return missing_path(path, hint)


def template_series_altered(path: PathPattern, device: Device, session: PlanningContext) -> Error:
    covering = session.context.catalog.templates.covering([device.path]).get(device.path)
    error = ProgrammingError(
        f"Cannot alter template timeseries [{path}] since device template [{device.template}] already set on path "
        f"[{covering[0] if covering else device.path}].",
        hint="series of a device template have no alias, tags and attributes",
        span=path.span,
    )
    return error.with_status(TreeStatus.TEMPLATE_INCOMPATIBLE)


def relabeled(labels: SeriesLabels, statement: AlterTimeseries) -> SeriesLabels:
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
    for labels in (tags, attributes):
        if key in labels:
            return labels
    raise NotFoundError(
        f"TimeSeries [{path}] does not have tag/attribute [{key}].", hint="use ADD TAGS or ADD ATTRIBUTES"
    ).with_status(TreeStatus.METADATA_ERROR)


def rename(tags: dict[str, str], attributes: dict[str, str], old: str, new: str, path: PathPattern) -> None:
    if new in tags or new in attributes:
        raise ExistsError(f"TimeSeries [{path}] already has a tag/attribute named [{new}].", hint="use another name").with_status(
            TreeStatus.METADATA_ERROR
        )
    labels = owner_of(old, tags, attributes, path)
    labels[new] = labels.pop(old)


def describe_creation(device: DeviceSeries, series: Iterable[NewSeries]) -> str:
    return f"create {'aligned ' if device.aligned else ''}series of {device.path}: {describe_types(series)}"


def describe_types(series: Iterable[NewSeries]) -> str:
    """Return measurements with their types."""
    return ", ".join(f"{one.measurement} {type_name(one.type)}" for one in series)
