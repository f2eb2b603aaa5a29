"""Running queries over trees whose results are more than rows: the latest points, and INTO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import TypeMismatchError
from headrace.model.paths import join_path, split_path
from headrace.model.tables import Database
from headrace.model.tree_types import type_name
from headrace.model.trees import TIME_COLUMN, Device
from headrace.model.types import TypeKind
from headrace.service.local_reads import LocalReader
from headrace.service.results import INT, STRING, CatalogRows, Result
from headrace.service.spark_queries import read_scan, run_query, translated
from headrace.service.tree_stages import FindLast, MakeSeries, MakeTree, NewSeries, WriteInto, WriteSeries
from headrace.service.trees import database_of, make_series, make_tree, write_series
from headrace.storage.types import arrow_type

if TYPE_CHECKING:
    from headrace.compute.iotdb.into import IntoColumn
    from headrace.compute.iotdb.select import TreePlan
    from headrace.runtime.context import Context

WIDER: Final = {
    TypeKind.INT: (TypeKind.BIGINT, TypeKind.FLOAT, TypeKind.DOUBLE),
    TypeKind.BIGINT: (TypeKind.DOUBLE,),
    TypeKind.FLOAT: (TypeKind.DOUBLE,),
}
"""Types of targets that a column may be written to, beside its own."""


def find_last(stage: FindLast, context: Context) -> Result:
    """Return the latest point of each series."""
    from headrace.compute.iotdb.last import last_points
    from headrace.compute.iotdb.last_local import last_points_locally

    points = last_points_locally(stage.plan, LocalReader(context), context.settings.local_rows)
    if points is not None:
        return Result(points)
    context.spark()
    with translated():
        return Result(last_points(stage.plan, lambda scan: read_scan(scan, context)).toArrow())


def write_into(stage: WriteInto, context: Context) -> Result:
    """Run the query and write its columns; missing series are created if there is something to write."""
    if stage.plan is None:
        return report([], by_device=False)
    devices = find_devices({target.device for target in stage.targets}, context)
    for target in stage.targets:
        check_type(target, devices.get(target.device))
    table = run_query(stage.plan.plan, context).table
    assert table is not None
    parts = points_by_target(stage.plan, stage.targets, table)
    write_points(stage.targets, parts, context)
    counts = [(target, part.num_rows) for target, part in zip(stage.targets, parts, strict=True)]
    # Without any value nothing was written, and IoTDB lists no target.
    rows = counts if table.num_rows else []
    return report(rows, by_device=stage.plan.query.by_device)


def report(rows: Sequence[tuple[IntoColumn, int]], *, by_device: bool) -> Result:
    """Return how many values were written to each target."""
    columns = {"SourceColumn": STRING, "TargetTimeseries": STRING, "Written": INT}
    values = [(target.source, target.path, count) for target, count in rows]
    if not by_device:
        return Result(CatalogRows(columns, values))
    with_device = [(target.source_device, *value) for (target, _), value in zip(rows, values, strict=True)]
    return Result(CatalogRows({"SourceDevice": STRING, **columns}, with_device))


def find_devices(paths: set[str], context: Context) -> dict[str, Device]:
    """Return those of the paths that are devices."""
    by_database: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        if (name := database_of(path, context)) is not None:
            by_database[name].append(path)
    return {path: device for name, own in by_database.items() for path, device in context.catalog.trees.find(name, own).items()}


def check_type(target: IntoColumn, device: Device | None) -> None:
    """Refuse a target that exists with a type that the column's values cannot have."""
    series = device.find(target.measurement) if device is not None else None
    if series is not None and series.type.kind not in (target.type.kind, *WIDER.get(target.type.kind, ())):
        raise TypeMismatchError(
            f"The data type of target path ({target.path}[{type_name(series.type)}]) is not compatible with the data type of "
            f"source column ({target.source}[{type_name(target.type)}]).",
            hint="write to a series of the column's type, or cast the column",
        )


def points_by_target(plan: TreePlan, targets: Sequence[IntoColumn], table: pa.Table) -> list[pa.Table]:
    """Return the points of each target: time as stored, and the values that are not NULL."""
    timed = plan.plan.outputs[0].name == "Time"
    first = int(timed) + bool(plan.devices)
    # An aggregate over all rows has no time; IoTDB stores it at the epoch.
    times = table.column(0) if timed else pa.nulls(table.num_rows, pa.int64()).fill_null(0).cast(pa.timestamp("us", "UTC"))
    devices = table.column(int(timed)) if plan.devices else None
    parts = []
    for target in targets:
        points = pa.table({TIME_COLUMN: times, "value": table.column(first + target.column)})
        chosen = pc.is_valid(points["value"])
        if devices is not None:
            chosen = pc.and_(chosen, pc.equal(devices, target.source_device))
        parts.append(points.filter(chosen))
    return parts


def write_points(targets: Sequence[IntoColumn], parts: Sequence[pa.Table], context: Context) -> None:
    """Write the points of all targets, in one commit for each database."""
    by_device: dict[str, list[tuple[IntoColumn, pa.Table]]] = defaultdict(list)
    for target, part in zip(targets, parts, strict=True):
        if part.num_rows:
            by_device[target.device].append((target, part))
    writes: dict[str, list[tuple[str, pa.Table]]] = defaultdict(list)
    databases: dict[str, Database] = {}
    for path, columns in by_device.items():
        database, device = ensure_device(path, [target for target, _ in columns], context)
        databases[database.name] = database
        writes[database.name] += [(path, typed_points(target, part, device, database)) for target, part in columns]
    for name, rows in writes.items():
        write_series(WriteSeries(databases[name], tuple(rows)), context)


def ensure_device(path: str, targets: Sequence[IntoColumn], context: Context) -> tuple[Database, Device]:
    """Return the database and device of targets, with all their series; what is missing is created."""
    name = database_of(path, context)
    if name is None:
        name = join_path(split_path(path)[:2])
        make_tree(MakeTree(Database(name, timezone=context.settings.timezone), if_not_exists=True), context)
    database = context.catalog.databases.get(name)
    new = tuple(NewSeries(target.measurement, target.type) for target in targets)
    make_series(MakeSeries(database, path, new, targets[0].aligned, if_not_exists=True), context)
    return database, context.catalog.trees.find(name, [path])[path]


def typed_points(target: IntoColumn, part: pa.Table, device: Device, database: Database) -> pa.Table:
    """Return points under their measurement, in the type of the series."""
    series = device.find(target.measurement)
    assert series is not None
    values = part["value"]
    stored = arrow_type(series.type, database.precision)
    time = part[TIME_COLUMN]
    return pa.table({TIME_COLUMN: time, series.measurement: values if values.type == stored else values.cast(stored, safe=False)})
