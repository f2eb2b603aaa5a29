"""The stages that write tablets: missing databases, devices and series are created, then all rows are one commit a database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.context import Context
from headrace.doors.iotdb.tablets import Tablet, TabletColumn
from headrace.errors import DataError, Error, TypeMismatchError
from headrace.model.access import Privilege
from headrace.model.paths import PathPattern, join_path
from headrace.model.tables import Database
from headrace.model.time import Precision
from headrace.model.tree_statements import TreeInsert
from headrace.model.tree_status import TreeStatus
from headrace.model.tree_types import WIDER_KINDS, type_name
from headrace.model.trees import TIME_COLUMN, Device, DeviceSeries, DeviceTemplate, NewSeries, Timeseries
from headrace.model.types import DataType, TypeKind
from headrace.service.results import Result
from headrace.service.rights import Right, globally, on_paths
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.trees.checks import check_aligned, check_existing_aligned, check_nodes
from headrace.service.topics.trees.databases import find_or_plan_database
from headrace.storage.types import MICROSECONDS, arrow_type
from headrace.storage.values.scalars import stored_units_per_tick, tick_range
from headrace.trees.points import DeviceRows, write_points

TEXT_KINDS: Final = frozenset({TypeKind.VARCHAR, TypeKind.NCHAR})


class MissingSeriesError(Exception):
    """Series that do not exist would have to be created."""


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


def plan_tablets(tablets: Sequence[Tablet], session: PlanningContext, *, creates: bool = True) -> list[Stage]:
    """Plan the writing of tablets, all or none. With `creates`, series that are missing are created.

    Raises:
        Error: Values cannot be stored in their series, or series cannot be created; nothing is planned.
        MissingSeriesError: Series are missing that must not be created.
    """
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
    if not creates and (schema.makers or any(missing.values())):
        raise MissingSeriesError
    if not rows:
        return schema.makers
    return [*schema.makers, write_rows(rows, (*write_rights(tablets), *missing_rights(missing, schema)))]


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
    known = dict.fromkeys(session.context.catalog.trees.databases())
    resolved: dict[str, Database] = {}
    schema = _Schema({}, [])
    for tablet in tablets:
        if tablet.path in schema.databases:
            continue
        prefixes = [".".join(tablet.device[:length]) for length in range(2, len(tablet.device) + 1)]
        name = next((prefix for prefix in prefixes if prefix in known or prefix in resolved), None)
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


def write_rows(rows: Sequence[DeviceRows], rights: tuple[Right, ...]) -> Stage:
    """Write rows of devices, after creating the series that are missing."""

    def describe() -> list[str]:
        return [f"write {part.rows.num_rows} rows of {part.series[0].path}" for part in rows]

    def apply(session: SessionState) -> Result:
        write_batch(session.context, rows)
        return Result(affected=sum(part.rows.num_rows for part in rows))

    return Stage(rights, describe, apply)


def write_batch(context: Context, rows: Sequence[DeviceRows]) -> None:
    """Write rows, and return once they are durable."""
    write_points(context, rows)


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


def with_values(table: pa.Table) -> pa.Table:
    """Return the rows that have a value in a column beside time."""
    values = table.columns[1:]
    if any(column.null_count == 0 for column in values):
        return table
    if not values:
        return table.slice(0, 0)
    present = np.logical_or.reduce([pc.is_valid(column).to_numpy() for column in values])
    return table.filter(pa.array(present))


def check_times(times: np.ndarray, precision: Precision) -> None:
    """Raise `DataError` for an instant that cannot be stored."""
    low, high = tick_range(precision)
    least, most = int(times.min()), int(times.max())
    if least < low or most > high:
        wrong = least if least < low else most
        raise DataError(f"timestamp {wrong} is out of range", hint=f"it has to lie between {low} and {high}")


def stored_times(ticks: pa.Array, precision: Precision) -> pa.Array:
    """Return instants as stored."""
    type_ = arrow_type(DataType(TypeKind.TIMESTAMP), precision)
    if type_ != MICROSECONDS:
        return ticks
    unit = stored_units_per_tick(precision)
    return (ticks if unit == 1 else pc.multiply(ticks, unit)).cast(type_)


def stored_values(tablet: Tablet, name: str, type_: DataType, precision: Precision) -> pa.Array:
    """Return the values of a measurement in the type of its series."""
    column = tablet.columns[name]
    if not is_compatible(column.type, type_):
        raise mismatch(tablet, name, type_)
    if type_.kind is TypeKind.TIMESTAMP:
        ticks = column.values
        if ticks.null_count < len(ticks):
            check_times(ticks.drop_null().to_numpy(), precision)
        return stored_times(ticks, precision)
    wanted = arrow_type(type_, precision)
    return column.values if column.values.type == wanted else column.values.cast(wanted, safe=False)


def is_compatible(sent: DataType, series: DataType) -> bool:
    """Return whether a series may have values that a client sends in another type."""
    if sent.kind is series.kind or series.kind in WIDER_KINDS.get(sent.kind, ()):
        return True
    return sent.kind in TEXT_KINDS and series.kind in TEXT_KINDS


def mismatch(tablet: Tablet, name: str, type_: DataType) -> Error:
    """Return the error of values in a type that their series cannot have."""
    column: TabletColumn = tablet.columns[name]
    row = int(np.argmax(column.values.is_valid().to_numpy(zero_copy_only=False)))
    error = TypeMismatchError(
        f"data type of {tablet.path}.{name} is not consistent, registered type {type_name(type_)}, inserting type "
        f"{type_name(column.type)}, timestamp {tablet.times[row]}, value {column.values[row].as_py()!r}",
        hint=f"write values of type {type_name(type_)}",
    )
    return error.with_status(TreeStatus.METADATA_ERROR)
