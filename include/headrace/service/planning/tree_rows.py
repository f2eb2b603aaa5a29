"""INSERT and DELETE of trees."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Final

import pyarrow as pa

from headrace.errors import DataError, NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.expressions import Call, Cast, ColumnRef, DurationLiteral, Expression, Literal
from headrace.model.instants import parse_instant
from headrace.model.paths import join_path
from headrace.model.statements import Now, RowValue
from headrace.model.tables import Database
from headrace.model.tree_statements import TreeDelete, TreeInsert
from headrace.model.tree_types import type_name
from headrace.model.trees import TIME_COLUMN, Device
from headrace.model.types import BOOL, DOUBLE, VARCHAR, DataType, TypeKind
from headrace.service.planning.dispatch import PlanningContext
from headrace.service.planning.trees import find_or_make_database, matched_series
from headrace.service.stages import Stage
from headrace.service.tree_stages import ClearSeries, MakeSeries, NewSeries, WriteSeries
from headrace.sql.iotdb.status import SEMANTIC_ERROR
from headrace.storage.types import MICROSECONDS, arrow_type
from headrace.storage.values.scalars import stored_units_per_tick, tick_range

MAX_TICKS: Final = 2**63 - 1
WRITE_ERROR: Final = 507
ALIGNMENT_ERROR: Final = 609
BLOB: Final = DataType(TypeKind.VARBINARY)


def insert(statement: TreeInsert, session: PlanningContext) -> list[Stage]:
    """Plan INSERT: missing series are created, of the type that their first value suggests; then one commit."""
    check_names(statement)
    database, makers = find_or_make_database(statement.device, session)
    path = join_path(statement.device.nodes)
    present = session.context.catalog.trees.find(database.name, [path]).get(path)
    types, missing = types_of(statement, present)
    times = [instant(time, database, session) for time in statement.times]
    rows = rows_table(statement, database, times, types)
    if missing and present is not None:
        check_alignment(statement, present)
    if missing:
        makers.append(MakeSeries(database, path, missing, statement.aligned, if_not_exists=True))
    return [*makers, WriteSeries(database, ((path, rows),))] if rows.num_rows else makers


def check_names(statement: TreeInsert) -> None:
    """Raise `ProgrammingError` for a measurement that is named twice."""
    names = statement.measurements
    duplicate = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if duplicate is not None:
        raise ProgrammingError(
            f"Insertion contains duplicated measurement: {duplicate}", hint="name it once", span=statement.span
        ).with_status(SEMANTIC_ERROR)


def check_alignment(statement: TreeInsert, device: Device) -> None:
    """Raise `ProgrammingError` if INSERT would create series in a device that is aligned, or not, unlike the statement."""
    if device.aligned != statement.aligned:
        state = "aligned" if device.aligned else "not aligned"
        raise ProgrammingError(
            f"Timeseries under this device is {state}, please use createTimeseries or change device. (Path: {device.path})",
            hint="write INSERT … ALIGNED VALUES" if device.aligned else "leave out ALIGNED",
            span=statement.span,
        ).with_status(ALIGNMENT_ERROR)


def types_of(statement: TreeInsert, present: Device | None) -> tuple[list[DataType | None], tuple[NewSeries, ...]]:
    """Return the type of each measurement, None if only NULLs are written to one that does not exist, and the series to create."""
    types: list[DataType | None] = []
    missing: dict[str, NewSeries] = {}
    for place, name in enumerate(statement.measurements):
        series = present.find(name) if present is not None else None
        type_ = series.type if series is not None else inferred_type(row[place] for row in statement.rows)
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
    now = session.context.clock.now() * database.precision.ticks_per_second // 1000
    match time:
        case None:
            return now
        case Now(offset=offset):
            return now + offset // database.precision.nanoseconds
        case str():
            parsed = parse_instant(time, session.context.settings.timezone, database.precision)
            if parsed is None:
                raise DataError(
                    f"Input time format {time} error",
                    hint="write 2024-05-01T12:30:00, 2024-05-01 12:30:00+02:00, or a whole number",
                )
            return parsed
        case _:
            return time


def rows_table(statement: TreeInsert, database: Database, times: Sequence[int], types: Sequence[DataType | None]) -> pa.Table:
    """Return the rows as they are stored under the measurements' names, without those that have no value."""
    low, high = tick_range(database.precision)
    for time in times:
        if not low <= time <= high:
            raise DataError(f"timestamp {time} is out of range", hint=f"it has to lie between {low} and {high}")
    kept = [number for number, row in enumerate(statement.rows) if any(value is not None for value in row)]
    columns: dict[str, pa.Array] = {TIME_COLUMN: stored_times([times[number] for number in kept], database)}
    for place, (name, type_) in enumerate(zip(statement.measurements, types, strict=True)):
        if type_ is not None:
            values = [converted(statement, number, place, type_, times[number]) for number in kept]
            columns[name] = stored_values(values, type_, database)
    return pa.table(columns)


def stored_values(values: Sequence[object], type_: DataType, database: Database) -> pa.Array:
    """Return values of a type as stored."""
    if type_.kind is TypeKind.TIMESTAMP:
        return stored_times([None if value is None else int(str(value)) for value in values], database)
    return pa.array(values, arrow_type(type_, database.precision))


def stored_times(ticks: Sequence[int | None], database: Database) -> pa.Array:
    """Return instants as stored."""
    type_ = arrow_type(DataType(TypeKind.TIMESTAMP), database.precision)
    if type_ != MICROSECONDS:
        return pa.array(ticks, type_)
    unit = stored_units_per_tick(database.precision)
    return pa.array([None if tick is None else tick * unit for tick in ticks], pa.int64()).cast(type_)


def converted(statement: TreeInsert, number: int, place: int, type_: DataType, time: int) -> object:
    """Return one value in the type of its series."""
    value = statement.rows[number][place]
    if value is None:
        return None
    try:
        return CONVERTERS[type_.kind](value)
    except (ValueError, OverflowError, ArithmeticError):
        path = join_path((*statement.device.nodes, statement.measurements[place]))
        written = type_name(inferred_type((value,)) or VARCHAR)
        raise TypeMismatchError(
            f"data type of {path} is not consistent, registered type {type_name(type_)}, inserting type {written}, "
            f"timestamp {time}, value {value!r}",
            hint=f"row {number + 1}: write a value of type {type_name(type_)}",
            span=statement.span,
        ).with_status(WRITE_ERROR) from None


def to_bool(value: object) -> bool:
    """Read a BOOLEAN: true, false, 0 or 1."""
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in ("true", "1"):
        return True
    if text in ("false", "0"):
        return False
    raise ValueError(value)


def to_integer(bits: int) -> Callable[[object], int]:
    """Return the reader of a signed integer with this many bits."""

    def read(value: object) -> int:
        if isinstance(value, bool | float | bytes):
            raise ValueError(value)
        number = int(str(value))
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise OverflowError(value)
        return number

    return read


def to_float(value: object) -> float:
    """Read a FLOAT or DOUBLE."""
    if isinstance(value, bool | bytes):
        raise ValueError(value)
    return float(str(value))


def to_text(value: object) -> str:
    """Read a TEXT or STRING."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return str(value)


def to_bytes(value: object) -> bytes:
    """Read a BLOB."""
    if isinstance(value, bytes):
        return value
    raise ValueError(value)


def to_date(value: object) -> date:
    """Read a DATE, written as text or as a number such as 20240501."""
    text = str(value)
    return date.fromisoformat(text) if "-" in text else date.fromisoformat(f"{text[:4]}-{text[4:6]}-{text[6:]}")


CONVERTERS: Final[dict[TypeKind, Callable[[object], object]]] = {
    TypeKind.BOOL: to_bool,
    TypeKind.INT: to_integer(32),
    TypeKind.BIGINT: to_integer(64),
    TypeKind.FLOAT: to_float,
    TypeKind.DOUBLE: to_float,
    TypeKind.VARCHAR: to_text,
    TypeKind.NCHAR: to_text,
    TypeKind.VARBINARY: to_bytes,
    TypeKind.DATE: to_date,
    TypeKind.TIMESTAMP: to_integer(64),
}


def delete(statement: TreeDelete, session: PlanningContext) -> list[Stage]:
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
            stages.append(ClearSeries(database, cleared, ((low, high),)))
    return stages


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
            ticks = constant_ticks(bound, database, session)
            if sign in (">", ">=", "="):
                low = ticks + (sign == ">")
            if sign in ("<", "<=", "="):
                high = ticks - (sign == "<")
            return low, high
        case Call(function="between", arguments=(ColumnRef(name="time"), first_bound, last_bound)):
            return constant_ticks(first_bound, database, session), constant_ticks(last_bound, database, session)
    raise ProgrammingError(
        "For delete statement, where clause can only contain atomic expressions like : time > XXX, time <= XXX, "
        "or two atomic expressions connected by 'AND'",
        hint="give a range of time; conditions on values are not possible in DELETE",
        span=where.span,
    )


def constant_ticks(node: Expression, database: Database, session: PlanningContext) -> int:
    """Return a constant instant in ticks."""
    match node:
        case Literal(value=int(ticks)) if not isinstance(ticks, bool):
            return ticks
        case Literal(value=str(text)) | Cast(operand=Literal(value=str(text))):
            return instant(text, database, session)
        case Call(function="now", arguments=()):
            return instant(None, database, session)
        case Call(function="+" | "-" as sign, arguments=(left, DurationLiteral(value=duration))):
            shift = duration.ticks(database.precision)
            return constant_ticks(left, database, session) + (shift if sign == "+" else -shift)
    raise NotSupportedError("an instant has to be a constant", hint="write a time, a whole number, or now() - 1h", span=node.span)
