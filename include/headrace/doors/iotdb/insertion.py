"""The stages that write tablets: missing databases, devices and series are created, then all rows are one commit a database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.doors.iotdb.storing import MissingSeriesError, check_times, stored_times, stored_values, with_values
from headrace.doors.iotdb.tablet_blocks import BlockRows, build_blocks
from headrace.doors.iotdb.tablets import AnyTablet, EncodedTablet, Tablet, first_prefix
from headrace.model.access import Privilege
from headrace.model.paths import PathPattern, join_path
from headrace.model.tables import Database
from headrace.model.tree_statements import TreeInsert
from headrace.model.tree_status import TreeStatus
from headrace.model.trees import TIME_COLUMN, Device, DeviceSeries, DeviceTemplate, NewSeries, Timeseries
from headrace.service.results import Result
from headrace.service.rights import Right, globally, on_paths
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.trees.checks import check_aligned, check_existing_aligned, check_nodes
from headrace.service.topics.trees.databases import find_or_plan_database
from headrace.trees.points import DeviceRows, write_points


@dataclass(slots=True)
class _Schema:
    """What there is of the devices that tablets are of.

    Attributes:
        databases: By device.
        makers: The stages that create databases.
        devices: Those that exist, by path.
        templates: The templates that cover devices with missing series, by device.
    """

    databases: dict[str, Database]
    makers: list[Stage]
    devices: dict[str, Device] = field(default_factory=dict)
    templates: dict[str, DeviceTemplate] = field(default_factory=dict)

    def find(self, path: str, measurement: str) -> Timeseries | NewSeries | None:
        """Return a series that exists, or that the template of its device has."""
        device, template = self.devices.get(path), self.templates.get(path)
        series = None if device is None else device.find(measurement)
        return series or (None if template is None else template.find(measurement))


def plan_calls(tablets: Sequence[AnyTablet], session: PlanningContext) -> list[Stage]:
    """Plan the writing of tablets of several calls, all or none, in one commit for each database.

    Raises:
        Error: Values cannot be stored in their series; nothing is planned.
        MissingSeriesError: Series are missing.
    """
    blocks, rest = build_blocks([tablet for tablet in tablets if isinstance(tablet, EncodedTablet)], session)
    others = [tablet for tablet in tablets if isinstance(tablet, Tablet)]
    rows, rights = plan_rows([*(tablet.decode() for tablet in rest), *others], session)
    return [write_rows([*blocks, *rows], (*(right for block in blocks for right in block.rights), *rights))]


def plan_rows(tablets: Sequence[Tablet], session: PlanningContext) -> tuple[list[DeviceRows], tuple[Right, ...]]:
    """Return the rows of tablets, and the rights to write them. Raises `MissingSeriesError` if series are missing."""
    if not tablets:
        return [], ()
    schema, rows, missing = read_rows(tablets, session)
    if schema.makers or any(missing.values()):
        raise MissingSeriesError
    return rows, (*write_rights(tablets), *missing_rights(missing, schema))


def plan_tablets(tablets: Sequence[Tablet], session: PlanningContext) -> list[Stage]:
    """Plan the writing of tablets, all or none. Series that are missing are created.

    Raises:
        Error: Values cannot be stored in their series, or series cannot be created; nothing is planned.
    """
    schema, rows, missing = read_rows(tablets, session)
    if not rows:
        return schema.makers
    return [*schema.makers, write_rows(rows, (*write_rights(tablets), *missing_rights(missing, schema)))]


def read_rows(
    tablets: Sequence[Tablet], session: PlanningContext
) -> tuple[_Schema, list[DeviceRows], dict[str, tuple[NewSeries, ...]]]:
    """Return what there is of the devices of tablets, their rows, and the series that are missing."""
    tablets = [tablet for tablet in tablets if len(tablet.times) and tablet.columns]
    schema = read_schema(tablets, session)
    missing: dict[str, tuple[NewSeries, ...]] = defaultdict(tuple)
    rows: list[DeviceRows] = []
    for tablet in tablets:
        new = new_series(tablet, schema)
        check_new(tablet, new, schema, session)
        missing[tablet.path] += new
        table = stored_rows(tablet, schema)
        if table.num_rows:
            rows.append(DeviceRows((device_series(tablet, schema),), table))
    return schema, rows, missing


def read_schema(tablets: Sequence[Tablet], session: PlanningContext) -> _Schema:
    """Look up all devices at once."""
    schema, catalog = find_databases(tablets, session), session.context.catalog
    by_database: dict[str, list[str]] = defaultdict(list)
    for path, database in schema.databases.items():
        by_database[database.name].append(path)
    for name, paths in by_database.items():
        schema.devices |= catalog.trees.find(name, paths)
    incomplete = {tablet.path for tablet in tablets if any(schema.find(tablet.path, name) is None for name in tablet.columns)}
    if incomplete:
        schema.templates = {path: template for path, (_, template) in catalog.templates.covering(list(incomplete)).items()}
    return schema


def find_databases(tablets: Sequence[Tablet], session: PlanningContext) -> _Schema:
    """Return the databases of devices, and the stages that create those that are missing."""
    existing = set(session.context.catalog.trees.databases())
    resolved: dict[str, Database] = {}
    schema = _Schema({}, [])
    for tablet in tablets:
        if tablet.path in schema.databases:
            continue
        name = first_prefix(tablet.device, existing | resolved.keys())
        if name is None or name not in resolved:
            database, makers = find_or_plan_database(PathPattern(tablet.device), session)
            resolved[database.name] = database
            schema.makers += makers
            name = database.name
        schema.databases[tablet.path] = resolved[name]
    return schema


def new_series(tablet: Tablet, schema: _Schema) -> tuple[NewSeries, ...]:
    """Return the series that a tablet has values of and that do not exist."""
    return tuple(
        NewSeries(name, column.type)
        for name, column in tablet.columns.items()
        if schema.find(tablet.path, name) is None and column.values.null_count < len(column.values)
    )


def check_new(tablet: Tablet, new: Sequence[NewSeries], schema: _Schema, session: PlanningContext) -> None:
    """Raise an error if series cannot be created."""
    path, present = tablet.path, schema.devices.get(tablet.path)
    if path in schema.templates:
        return
    if present is not None and present.aligned != tablet.aligned:
        statement = TreeInsert(PathPattern(tablet.device), tuple(tablet.columns), (), (), tablet.aligned)
        check_existing_aligned(present, statement)
    if new:
        names = [one.measurement for one in new]
        check_nodes(schema.databases[path].name, path, names, session, None, TreeStatus.METADATA_ERROR)
        check_aligned(present, tablet.aligned, None, TreeStatus.METADATA_ERROR)


def device_series(tablet: Tablet, schema: _Schema) -> DeviceSeries:
    """Return the series that a tablet is of."""
    own = []
    for name, column in tablet.columns.items():
        series = schema.find(tablet.path, name)
        if series is not None or column.values.null_count < len(column.values):
            own.append(NewSeries(name, column.type if series is None else series.type))
    return DeviceSeries(schema.databases[tablet.path], tablet.path, tuple(own), tablet.aligned)


def write_rights(tablets: Sequence[Tablet]) -> tuple[Right, ...]:
    """Return the rights to write the series of tablets, whether they exist or not."""
    return on_paths(Privilege.WRITE_DATA, [join_path((tablet.path, name)) for tablet in tablets for name in tablet.columns])


def missing_rights(missing: dict[str, tuple[NewSeries, ...]], schema: _Schema) -> tuple[Right, ...]:
    """Return the rights to create series, or to extend the templates of their devices."""
    rights: list[Right] = []
    for path in schema.databases:
        if path in schema.templates:
            rights += globally(Privilege.EXTEND_TEMPLATE) if missing[path] else ()
            rights += on_paths(Privilege.WRITE_SCHEMA, (path,)) if path not in schema.devices else ()
        else:
            rights += on_paths(Privilege.WRITE_SCHEMA, [join_path((path, new.measurement)) for new in missing[path]])
    return tuple(dict.fromkeys(rights))


def write_rows(rows: Sequence[DeviceRows | BlockRows], rights: tuple[Right, ...]) -> Stage:
    """Write rows of devices, after creating the series that are missing."""
    count = sum(part.rows.num_rows for part in rows)

    def describe() -> list[str]:
        return [f"write {part.rows.num_rows} rows of {', '.join(one.path for one in part.series)}" for part in rows]

    def apply(session: SessionState) -> Result:
        write_points(session.context, rows)
        return Result(affected=count)

    return Stage(rights, describe, apply)


def stored_rows(tablet: Tablet, schema: _Schema) -> pa.Table:
    """Return the rows of a tablet as stored: `time` and a column for each series, without rows that have no value."""
    precision = schema.databases[tablet.path].precision
    check_times(tablet.times, precision)
    columns: dict[str, pa.Array] = {TIME_COLUMN: stored_times(pa.array(tablet.times), precision)}
    for name, column in tablet.columns.items():
        series = schema.find(tablet.path, name)
        if series is not None or column.values.null_count < len(column.values):
            columns[name] = stored_values(tablet, name, column.type if series is None else series.type, precision)
    return with_values(pa.table(columns))
