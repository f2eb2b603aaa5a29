"""Device templates: create, extend and drop them, set them to paths, and use them for devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from headrace.catalog.templates import already_set, duplicate_name, nested_path, still_set
from headrace.errors import ExistsError, IntegrityError, NotFoundError, ProgrammingError
from headrace.model.access import Privilege
from headrace.model.paths import PathPattern, join_path
from headrace.model.tables import Database
from headrace.model.tree_statements import (
    ActivateTemplate,
    AlterTemplate,
    CreateTemplate,
    DeactivateTemplate,
    DropTemplate,
    SetTemplate,
    TimeseriesSpec,
)
from headrace.model.tree_status import TreeStatus
from headrace.model.trees import Device, DeviceTemplate, NewSeries
from headrace.service.rights import ADMINISTER, globally, on_paths
from headrace.service.stage import PlanningContext, Stage
from headrace.service.topics.trees.series import check_encoding, describe_types, new_series
from headrace.trees import schema_statements
from headrace.trees.databases import database_of
from headrace.trees.devices import may_lie_in, refuse_tables, tree_devices
from headrace.trees.schema_statements import logged
from headrace.trees.templates import (
    activate_devices,
    assign_template,
    deactivate_devices,
    devices_below,
    extend_template,
    refuse_series_below,
)


def describe_extension(template: str, series: Sequence[NewSeries]) -> str:
    return f"extend device template {template} and its devices: {describe_types(series)}"


def describe_activation(template: str, device: str) -> str:
    return f"activate device template {template} on {device}"


def plan_create_template(statement: CreateTemplate, session: PlanningContext) -> list[Stage]:
    for spec in statement.series:
        check_encoding(spec, TreeStatus.CREATE_TEMPLATE_ERROR, "create template error -")
    duplicate = find_duplicate(statement.series)
    if duplicate is not None:
        raise ProgrammingError(
            f"Path duplicated: {duplicate.measurement} is not a legal path", hint="name each measurement once", span=duplicate.span
        ).with_status(TreeStatus.ILLEGAL_PATH)
    if any(template.name == statement.name for template in session.context.catalog.templates.all()):
        raise duplicate_name(statement.name)
    template = DeviceTemplate(statement.name, new_series(statement.series), statement.aligned)
    kind = "aligned device template" if template.aligned else "device template"
    return [
        Stage(
            ADMINISTER,
            lambda: [f"create {kind} {template.name}: {describe_types(template.series)}"],
            lambda session: session.context.catalog.templates.create(
                template, [logged(session.context, schema_statements.create_template(template))]
            ),
        )
    ]


def find_duplicate(series: Sequence[TimeseriesSpec]) -> TimeseriesSpec | None:
    """Return the first series whose measurement an earlier one has."""
    names = [spec.measurement for spec in series]
    return next((spec for at, spec in enumerate(series) if spec.measurement in names[:at]), None)


def plan_drop_template(statement: DropTemplate, session: PlanningContext) -> list[Stage]:
    templates = session.context.catalog.templates
    templates.get(statement.name)
    if statement.name in templates.paths().values():
        raise still_set(statement.name)
    name = statement.name
    return [
        Stage(
            ADMINISTER,
            lambda: [f"drop device template {name}"],
            lambda session: session.context.catalog.templates.drop(
                name, [logged(session.context, schema_statements.drop_template(name))]
            ),
        )
    ]


def plan_alter_template(statement: AlterTemplate, session: PlanningContext) -> list[Stage]:
    template = session.context.catalog.templates.get(statement.name)
    duplicate = find_duplicate(statement.series)
    if duplicate is not None:
        raise ProgrammingError(
            f"Duplicated measurement [{duplicate.measurement}] in device template alter request",
            hint="name each measurement once",
            span=duplicate.span,
        ).with_status(TreeStatus.METADATA_ERROR)
    for spec in statement.series:
        check_encoding(spec)
        if template.find(spec.measurement) is not None:
            raise ExistsError(
                f"Measurement [{spec.measurement}] already exist in schemaengine template {template.name}",
                hint=f"SHOW NODES IN DEVICE TEMPLATE {template.name} lists its measurements",
                span=spec.span,
            ).with_status(TreeStatus.MEASUREMENT_ALREADY_EXISTS_IN_TEMPLATE)
    series = new_series(statement.series)
    return [
        Stage(
            globally(Privilege.EXTEND_TEMPLATE),
            lambda: [describe_extension(template.name, series)],
            lambda session: extend_template(session.context, template.name, series),
        )
    ]


def plan_set_template(statement: SetTemplate, session: PlanningContext) -> list[Stage]:
    catalog = session.context.catalog
    path, name = require_plain(statement.path), catalog.templates.get(statement.name).name
    refuse_tables([statement.path], session.context)
    if statement.unset:
        return unset_template(path, name, statement.path, session)
    other = nested_path(path, list(catalog.templates.paths()))
    if other is not None:
        raise already_set(other)
    database = database_of(path, session.context)
    if database is None:
        raise NotFoundError(
            f"Database is not set for current seriesPath: [{path}]", hint="CREATE DATABASE first", span=statement.path.span
        ).with_status(TreeStatus.DATABASE_NOT_EXIST)
    refuse_series_below(path, database, name, session.context)
    return [assign(catalog.databases.get(database), path, name)]


def assign(database: Database, path: str, name: str | None) -> Stage:
    """Set a device template to a path, or remove it from there if `name` is None."""
    return Stage(
        ADMINISTER,
        lambda: [f"unset device template from {path}" if name is None else f"set device template {name} to {path}"],
        lambda session: assign_template(session.context, database, path, name),
    )


def unset_template(path: str, name: str, pattern: PathPattern, session: PlanningContext) -> list[Stage]:
    catalog = session.context.catalog
    if catalog.templates.paths().get(path) != name:
        raise NotFoundError(
            f"No template on {path}", hint=f"SHOW PATHS SET DEVICE TEMPLATE {name} lists its paths", span=pattern.span
        ).with_status(TreeStatus.TEMPLATE_NOT_SET)
    database = find_database(path, session)
    if any(device.template for device in devices_below(path, database.name, session.context)):
        raise IntegrityError(
            f"Template is in use on {path}",
            hint=f"DEACTIVATE DEVICE TEMPLATE {name} FROM {path}, {path}.** first",
            span=pattern.span,
        ).with_status(TreeStatus.TEMPLATE_IS_IN_USE)
    return [assign(database, path, None)]


def require_plain(pattern: PathPattern) -> str:
    """Return a path without wildcards; `ProgrammingError` if it has one."""
    if pattern.has_wildcard:
        node = pattern.nodes[len(pattern.literal_prefix)]
        raise ProgrammingError(
            f"{pattern} is not a legal path, because {node} is an illegal name.", hint="name one path", span=pattern.span
        ).with_status(TreeStatus.ILLEGAL_PATH)
    return join_path(pattern.nodes)


def plan_activate_template(statement: ActivateTemplate, session: PlanningContext) -> list[Stage]:
    path, catalog = require_plain(statement.path), session.context.catalog
    refuse_tables([statement.path], session.context)
    covering = catalog.templates.covering([path]).get(path)
    if covering is None:
        raise NotFoundError(
            f"Path [{path}] has not been set any template.",
            hint="SET DEVICE TEMPLATE to this path or to one above it",
            span=statement.path.span,
        ).with_status(TreeStatus.METADATA_ERROR)
    database = find_database(path, session)
    if path in catalog.trees.find(database.name, [path]):
        raise ExistsError(
            f"Template is in use on {path}", hint="its series exist already; SHOW TIMESERIES lists them", span=statement.path.span
        ).with_status(TreeStatus.TEMPLATE_IS_IN_USE)
    template = covering[1].name
    return [
        Stage(
            on_paths(Privilege.WRITE_SCHEMA, (path,)),
            lambda: [describe_activation(template, path)],
            lambda session: activate_devices(session.context, database, [path], template),
        )
    ]


def find_database(path: str, session: PlanningContext) -> Database:
    """Return the database of a path that has a template set to it or above it."""
    name = database_of(path, session.context)
    assert name is not None
    return session.context.catalog.databases.get(name)


def plan_deactivate_template(statement: DeactivateTemplate, session: PlanningContext) -> list[Stage]:
    """Plan DEACTIVATE DEVICE TEMPLATE: of all devices that match."""
    catalog = session.context.catalog
    refuse_tables(statement.patterns, session.context)
    for pattern in statement.patterns:
        require_set(pattern, statement.name, session)
    devices = matching_users(statement.patterns, statement.name, session)
    if not devices:
        raise NotFoundError(
            "Target Device Template is not activated on any path matched by given path pattern",
            hint="SHOW PATHS USING DEVICE TEMPLATE lists the devices that use a template",
            span=statement.patterns[0].span,
        ).with_status(TreeStatus.TEMPLATE_NOT_ACTIVATED)
    by_database: dict[str, list[str]] = defaultdict(list)
    for device in devices:
        by_database[device.database].append(device.path)
    return [deactivate(catalog.databases.get(name), paths) for name, paths in by_database.items()]


def deactivate(database: Database, devices: Sequence[str]) -> Stage:
    """Remove devices that use a template, with their values."""
    return Stage(
        on_paths(Privilege.WRITE_SCHEMA, devices),
        lambda: [f"delete the series of {device} with their values" for device in devices],
        lambda session: deactivate_devices(session.context, database, devices),
    )


def require_set(pattern: PathPattern, name: str | None, session: PlanningContext) -> None:
    """Raise `NotFoundError` unless a template is set where paths that match a pattern may lie."""
    paths = session.context.catalog.templates.paths()
    if not any(may_lie_in(pattern, path) for path, template in paths.items() if name in (None, template)):
        raise NotFoundError(
            f"Device Template {name or '*'} is not set on any prefix path of [{pattern}]",
            hint="SHOW PATHS SET DEVICE TEMPLATE lists the paths of a template",
            span=pattern.span,
        ).with_status(TreeStatus.TEMPLATE_NOT_SET)


def matching_users(patterns: Sequence[PathPattern], name: str | None, session: PlanningContext) -> list[Device]:
    """Return the devices that match one of the patterns and use a template, or any if `name` is None."""
    return [
        device
        for device in tree_devices(patterns, session.context)
        if device.template is not None and name in (None, device.template)
        if any(pattern.matches(device.nodes) for pattern in patterns)
    ]
