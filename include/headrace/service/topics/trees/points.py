"""INSERT and DELETE of trees."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import partial
from typing import Final

import pyarrow as pa

from headrace.errors import ProgrammingError, TypeMismatchError
from headrace.model.access import Privilege
from headrace.model.expressions import Call, ColumnRef, Expression
from headrace.model.paths import join_path
from headrace.model.statements import Now, RowValue
from headrace.model.tables import Database
from headrace.model.tree_statements import TreeDelete, TreeInsert
from headrace.model.tree_status import TreeStatus
from headrace.model.tree_types import type_name
from headrace.model.trees import TIME_COLUMN, Device, DeviceSeries, DeviceTemplate, NewSeries
from headrace.model.triggers import RegisteredTrigger, TriggerEvent
from headrace.model.types import BOOL, DOUBLE, VARCHAR, DataType, TypeKind
from headrace.queries.instants import constant_ticks, present_ticks, text_ticks
from headrace.service.results import Result
from headrace.service.rights import globally, on_paths
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.trees.checks import check_aligned, check_existing_aligned, check_nodes
from headrace.service.topics.trees.databases import find_or_plan_database
from headrace.service.topics.trees.series import describe_creation, matched_series
from headrace.service.topics.trees.templates import describe_activation, describe_extension
from headrace.sql.iotdb.status import SEMANTIC_ERROR
from headrace.storage.types import arrow_type
from headrace.storage.values.tree_columns import to_stored_times
from headrace.storage.values.tree_scalars import CONVERTERS
from headrace.trees.columns import clear_series
from headrace.trees.expiry import limits_of
from headrace.trees.points import DEVICE, DeviceRows, write_points

MAX_TICKS: Final = 2**63 - 1
BLOB: Final = DataType(TypeKind.VARBINARY)


def plan_tree_insert(statement: TreeInsert, session: PlanningContext) -> list[Stage]:
    """Plan INSERT: missing series are created, of the type that their first value suggests, then all rows are one commit.

    Below a device template, missing series extend the template, and a missing device is created from it.
    """
    check_names(statement)
    database, makers = find_or_plan_database(statement.device, session)
    path = join_path(statement.device.nodes)
    present = session.context.catalog.trees.find(database.name, [path]).get(path)
    complete = present is not None and all(present.find(name) for name in statement.measurements)
    covering = None if complete else session.context.catalog.templates.covering([path]).get(path)
    template = covering and covering[1]
    types, missing = types_of(statement, present, template)
    times = [instant(time, database, session) for time in statement.times]
    rows = rows_table(statement, database, times, types)
    if present is not None and template is None:
        check_existing_aligned(present, statement)
    if template is None and missing:
        names = [new.measurement for new in missing]
        check_nodes(database.name, path, names, session, statement.span, TreeStatus.METADATA_ERROR)
        check_aligned(present, statement.aligned, statement.span, TreeStatus.METADATA_ERROR)
    is_new = template is not None and present is None
    if not rows.num_rows and not is_new:
        return makers
    own = tuple(NewSeries(name, type_) for name, type_ in zip(statement.measurements, types, strict=True) if type_ is not None)
    device = DeviceSeries(database, path, own, statement.aligned)
    if limits := limits_of(session.context, {path: database}).get(database.name):
        limits.check(rows.append_column(DEVICE, pa.repeat(pa.scalar(path), rows.num_rows)))
    triggers = partial(called_triggers, session, statement.device.nodes, rows)
    return [*makers, write_series(device, rows, missing, None if template is None else template.name, triggers, is_new=is_new)]


def called_triggers(session: PlanningContext, nodes: Sequence[str], rows: pa.Table) -> list[RegisteredTrigger]:
    """Return the triggers that a write of rows to a device calls, in their order within each event."""
    written = [(*nodes, name) for name in rows.column_names[1:] if rows[name].null_count < rows.num_rows]
    active = session.context.catalog.triggers.active()
    return [trigger for trigger in active if any(map(trigger.path_pattern.matches, written))]


def describe_calls(triggers: Iterable[RegisteredTrigger], event: TriggerEvent) -> list[str]:
    """Return the lines of EXPLAIN about the triggers of an event."""
    moment = event.value.partition("_")[0].lower()
    return [
        f"call {one.type.lower()} trigger {one.name} {moment} the write; if it fails: {one.failure_strategy}"
        for one in triggers
        if one.event is event
    ]


def write_series(
    device: DeviceSeries,
    rows: pa.Table,
    missing: Sequence[NewSeries],
    template: str | None,
    triggers: Callable[[], Sequence[RegisteredTrigger]],
    *,
    is_new: bool,
) -> Stage:
    """Write rows of one device in one commit, after creating the series that are missing, from its template if it has one.

    `rows`, maybe none, have `time` as stored and a column for each measurement, in the type of its series. A device that `is_new`
    is created from the template too. `triggers` returns the triggers that the write calls.
    """
    database = device.database.name
    created = [join_path((device.path, new.measurement)) for new in missing]
    extends = (globally(Privilege.EXTEND_TEMPLATE) if template else on_paths(Privilege.WRITE_SCHEMA, created)) if missing else ()
    activates = on_paths(Privilege.WRITE_SCHEMA, (device.path,)) if is_new else ()
    written = [join_path((device.path, name)) for name in rows.column_names[1:]]
    writes = on_paths(Privilege.WRITE_DATA, written) if rows.num_rows else ()

    def describe() -> list[str]:
        lines = []
        if missing and template:
            lines.append(describe_extension(template, missing))
        elif missing:
            lines.append(f"{describe_creation(device, missing)}, if missing")
        if is_new and template:
            lines.append(describe_activation(template, device.path))
        if rows.num_rows:
            names, called = ", ".join(rows.column_names[1:]), triggers()
            lines += describe_calls(called, TriggerEvent.BEFORE_INSERT)
            lines.append(f"write {rows.num_rows} rows of {device.path} ({names}) in one commit of {database}")
            lines += describe_calls(called, TriggerEvent.AFTER_INSERT)
        return lines

    def apply(session: SessionState) -> Result | None:
        write_points(session.context, [DeviceRows((device,), rows)])
        return Result(affected=rows.num_rows) if rows.num_rows else None

    return Stage((*writes, *activates, *extends), describe, apply)


def check_names(statement: TreeInsert) -> None:
    """Raise `ProgrammingError` for a measurement that is named twice."""
    names = statement.measurements
    duplicate = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if duplicate is not None:
        raise ProgrammingError(
            f"Insertion contains duplicated measurement: {duplicate}", hint="name it once", span=statement.span
        ).with_status(SEMANTIC_ERROR)


def types_of(
    statement: TreeInsert, present: Device | None, template: DeviceTemplate | None
) -> tuple[list[DataType | None], tuple[NewSeries, ...]]:
    """Return the type of each measurement, None if only NULLs are written to one that does not exist, and the series to create."""
    types: list[DataType | None] = []
    missing: dict[str, NewSeries] = {}
    for index, name in enumerate(statement.measurements):
        series = present.find(name) if present is not None else template.find(name) if template is not None else None
        type_ = series.type if series is not None else inferred_type(row[index] for row in statement.rows)
        if series is None and type_ is not None:
            missing[name] = NewSeries(name, type_)
        types.append(type_)
    return types, tuple(missing.values())


def inferred_type(values: Iterable[RowValue]) -> DataType | None:
    """Return the type that a new series gets from its first value that is not NULL."""
    for value in values:
        match value:
            case None:
                continue
            case bool():
                return BOOL
            case int() | float() | Decimal():
                return DOUBLE
            case bytes():
                return BLOB
            case _:
                return VARCHAR
    return None


def instant(time: int | str | Now | None, database: Database, session: PlanningContext) -> int:
    """Return a row's instant in ticks."""
    match time:
        case None:
            return present_ticks(session.context, database.precision)
        case Now(offset=offset):
            return present_ticks(session.context, database.precision) + offset // database.precision.nanoseconds
        case str():
            return text_ticks(time, session.context, database.precision)
        case _:
            return time


def rows_table(statement: TreeInsert, database: Database, times: Sequence[int], types: Sequence[DataType | None]) -> pa.Table:
    """Return the rows to store, with a column for each measurement, without rows that have no value."""
    to_stored_times(times, database.precision)
    row_numbers = [number for number, row in enumerate(statement.rows) if any(value is not None for value in row)]
    columns: dict[str, pa.Array] = {TIME_COLUMN: to_stored_times([times[number] for number in row_numbers], database.precision)}
    for index, (name, type_) in enumerate(zip(statement.measurements, types, strict=True)):
        if type_ is not None:
            values = [converted(statement, number, index, type_, times[number]) for number in row_numbers]
            columns[name] = stored_values(values, type_, database)
    return pa.table(columns)


def stored_values(values: Sequence[object], type_: DataType, database: Database) -> pa.Array:
    if type_.kind is TypeKind.TIMESTAMP:
        return to_stored_times([None if value is None else int(str(value)) for value in values], database.precision)
    return pa.array(values, arrow_type(type_, database.precision))


def converted(statement: TreeInsert, number: int, index: int, type_: DataType, time: int) -> object:
    """Return one value in the type of its series."""
    value = statement.rows[number][index]
    if value is None:
        return None
    try:
        return CONVERTERS[type_.kind](value)
    except (ValueError, OverflowError, ArithmeticError):
        path = join_path((*statement.device.nodes, statement.measurements[index]))
        written = type_name(inferred_type((value,)) or VARCHAR)
        raise TypeMismatchError(
            f"data type of {path} is not consistent, registered type {type_name(type_)}, inserting type {written}, "
            f"timestamp {time}, value {value!r}",
            hint=f"row {number + 1}: write a value of type {type_name(type_)}",
            span=statement.span,
        ).with_status(TreeStatus.METADATA_ERROR) from None


def plan_tree_delete(statement: TreeDelete, session: PlanningContext) -> list[Stage]:
    """Plan DELETE FROM: a range of time of all series that match."""
    catalog = session.context.catalog
    columns: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for device, series in matched_series(statement.patterns, session):
        columns[device.database][device.path].append(series.column)
    stages: list[Stage] = []
    for name, devices in columns.items():
        database = catalog.databases.get(name)
        low, high = time_range(statement.where, database, session)
        if low <= high:
            cleared = tuple((path, tuple(names)) for path, names in devices.items())
            stages.append(clear(database, cleared, (low, high)))
    return stages


def clear(database: Database, columns: Sequence[tuple[str, tuple[str, ...]]], times: tuple[int, int]) -> Stage:
    """Delete values within a range of ticks, both ends inclusive: columns by device."""
    return Stage(
        on_paths(Privilege.WRITE_DATA, [join_path((path, name)) for path, names in columns for name in names]),
        lambda: [f"delete values of {device} ({', '.join(names)}), 1 time range" for device, names in columns],
        lambda session: Result(affected=clear_series(session.context, database, columns, (times,))),
    )


def time_range(where: Expression | None, database: Database, session: PlanningContext) -> tuple[int, int]:
    """Return the least and greatest instant that a condition on time allows, in ticks."""
    low, high = -MAX_TICKS, MAX_TICKS
    match where:
        case None:
            return low, high
        case Call(function="and", arguments=(left, right)):
            first, second = (time_range(part, database, session) for part in (left, right))
            return max(first[0], second[0]), min(first[1], second[1])
        case Call(function=sign, arguments=(ColumnRef(name="time"), bound)) if sign in ("<", "<=", ">", ">=", "="):
            ticks = constant_ticks(bound, session.context, database.precision)
            if sign in (">", ">=", "="):
                low = ticks + (sign == ">")
            if sign in ("<", "<=", "="):
                high = ticks - (sign == "<")
            return low, high
        case Call(function="between", arguments=(ColumnRef(name="time"), first_bound, last_bound)):
            first_tick, last_tick = (constant_ticks(end, session.context, database.precision) for end in (first_bound, last_bound))
            return first_tick, last_tick
    raise ProgrammingError(
        "For delete statement, where clause can only contain atomic expressions like : time > XXX, time <= XXX, "
        "or two atomic expressions connected by 'AND'",
        hint="give a range of time; conditions on values are not possible in DELETE",
        span=where.span,
    )
