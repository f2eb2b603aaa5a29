"""Conversion of the rows of statements (Python scalars, text, `now`) to typed Arrow tables, with validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DataError, Error, NotFoundError, ProgrammingError
from headrace.model.spans import Span
from headrace.model.statements import RowValue, TagValue
from headrace.model.tables import Column, Database, Table
from headrace.model.types import FLOATS, INTEGERS, TypeKind
from headrace.storage.types import arrow_type, rows_schema, tags_schema
from headrace.storage.values.scalars import InvalidValueError, TimeContext, stored_units_per_tick, tick_range, to_stored

MAX_SHOWN_CHARACTERS: Final = 60
_INTEGER: Final = {int, type(None)}
_NUMBER: Final = {int, float, type(None)}
_TEXT: Final = {str, type(None)}


@dataclass(frozen=True, slots=True)
class _RowContext:
    """The table of the rows, and what error messages need."""

    table: Table
    context: TimeContext
    tbnames: Sequence[str] | None
    spans: Sequence[Span]

    def refusal(self, number: int, problem: str, hint: str) -> DataError:
        """Return the error for a row, counted from 0."""
        name = self.table.name if self.tbnames is None else self.tbnames[number]
        return DataError(
            f"{name}, row {number + 1}: {problem}", hint=hint, span=self.spans[number] if number < len(self.spans) else None
        )


def rows_to_arrow(
    table: Table,
    database: Database,
    columns: Sequence[str],
    rows: Sequence[Sequence[RowValue]],
    *,
    tbnames: Sequence[str] | None,
    now: int,
    spans: Sequence[Span] = (),
) -> pa.Table:
    """Convert rows to the stored columns of a table and `tbname`; columns that are not named are NULL.

    Timestamps without a zone are in the database's time zone.

    Args:
        table: The table.
        database: Its database.
        columns: Names of the values of a row, in order.
        rows: The values of each row.
        tbnames: Subtable of each row; None if a column `tbname` names it.
        now: Epoch milliseconds.
        spans: Position of each row in the statement.

    Raises:
        NotFoundError: A column does not exist.
        ProgrammingError: A column is named twice, the timestamp (or key) is missing, or a row has too few or too many values.
        DataError: A value is invalid: names the row, the column, and what is allowed.
    """
    context = _RowContext(table, TimeContext(now, database.timezone, database.precision), tbnames, spans)
    _check_columns(table, columns, tbnames)
    _check_lengths(context, columns, rows)
    values = dict(zip(columns, zip(*rows, strict=True) if rows else [()] * len(columns), strict=True))
    arrays = {column.name: _column(context, column, values[column.name]) for column in table.columns if column.name in values}
    arrays[table.series_key] = pa.array(tbnames, pa.string()) if tbnames is not None else _names(context, values[table.series_key])
    schema = rows_schema(table, database)
    stored = [arrays[field.name] if field.name in arrays else pa.nulls(len(rows), field.type) for field in schema]
    return pa.Table.from_arrays(stored, schema=schema)


def tags_to_arrow(table: Table, database: Database, tbname: str, values: Mapping[str, TagValue], *, now: int) -> pa.Table:
    """Convert one row of a table's tags: `tbname` and one column per tag; tags that are not given are NULL.

    Raises:
        DataError: A value is invalid for its tag; has the value's span.
    """
    context = TimeContext(now, database.timezone, database.precision)
    row: dict[str, object] = {table.series_key: tbname}
    for tag in table.tags:
        row[tag.name] = _tag(tbname, tag, values[tag.name], context) if tag.name in values else None
    schema = tags_schema(table, database)
    return pa.Table.from_arrays([_array([row[field.name]], field.type) for field in schema], schema=schema)


def _tag(tbname: str, tag: Column, value: TagValue, context: TimeContext) -> object:
    try:
        return to_stored(value.value, tag.type, context)
    except InvalidValueError as unfit:
        raise DataError(
            f"tag {tag.name} of {tbname} is {tag.type}, {_shown(value.value)} is invalid",
            hint=f"give it {unfit}",
            span=value.span,
        ) from None


def _check_columns(table: Table, columns: Sequence[str], tbnames: Sequence[str] | None) -> None:
    columns_of_table = {column.name for column in table.columns} | ({table.series_key} if tbnames is None else set())
    for name in columns:
        if name not in columns_of_table:
            kind = "a tag, not a column" if table.is_tag(name) else "no column"
            raise NotFoundError(
                f"{name} is {kind} of {table.name}", hint=f"its columns are {', '.join(column.name for column in table.columns)}"
            )
    if len(set(columns)) != len(columns):
        twice = next(name for name in columns if list(columns).count(name) > 1)
        raise ProgrammingError(f"column {twice} is named twice", hint="name each column once")
    for name in table.primary_key:
        if name not in columns and not (name == table.series_key and tbnames is not None):
            raise ProgrammingError(f"{name} is missing among the columns", hint=f"{name} is part of the key of every row")


def _check_lengths(context: _RowContext, columns: Sequence[str], rows: Sequence[Sequence[RowValue]]) -> None:
    if set(map(len, rows)) <= {len(columns)}:
        return
    number = next(number for number, row in enumerate(rows) if len(row) != len(columns))
    raise ProgrammingError(
        f"row {number + 1} has {len(rows[number])} values for {len(columns)} columns",
        hint=f"the columns are {', '.join(columns)}",
        span=context.spans[number] if number < len(context.spans) else None,
    )


def _names(context: _RowContext, values: Sequence[RowValue]) -> pa.Array:
    """Validate names of subtables given as a column."""
    for number, value in enumerate(values):
        if not isinstance(value, str) or not value:
            raise context.refusal(
                number, f"{context.table.series_key} is {_shown(value)}", "give each row the name of its subtable"
            )
    return pa.array(values, pa.string())


def _column(context: _RowContext, column: Column, values: Sequence[RowValue]) -> pa.Array:
    """Convert a column: vectorized if all values have the plain type, else one by one."""
    fast = _convert_vectorized(column, values, context)
    stored = fast if fast is not None else _convert_each(context, column, values)
    if column.name in context.table.primary_key and stored.null_count:
        number = pc.index(stored.is_null(), True).as_py()
        raise context.refusal(number, f"{column.name} is NULL", f"{column.name} is part of the key of a row and never NULL")
    return stored


def _convert_vectorized(column: Column, values: Sequence[RowValue], context: _RowContext) -> pa.Array | None:
    """Convert the whole column by Arrow; None if a value has another type or is invalid."""
    kinds = set(map(type, values))
    convert = _FAST.get(column.type.kind)
    if convert is None:
        return None
    try:
        return convert(column, values, kinds, context)
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None


def _fast_integers(column: Column, values: Sequence[RowValue], kinds: set[type], context: _RowContext) -> pa.Array | None:
    if not kinds <= _INTEGER:
        return None
    integers = pa.array(values, pa.int64())
    low, high = column.type.integer_range()
    return integers.cast(arrow_type(column.type, context.context.precision)) if _all_within(integers, low, high) else None


def _fast_floats(column: Column, values: Sequence[RowValue], kinds: set[type], context: _RowContext) -> pa.Array | None:
    if not kinds <= _NUMBER:
        return None
    floats = pa.array(values, pa.float64()).cast(arrow_type(column.type, context.context.precision), safe=False)
    return floats if pc.all(pc.is_finite(floats), min_count=0).as_py() else None


def _fast_text(column: Column, values: Sequence[RowValue], kinds: set[type], _: _RowContext) -> pa.Array | None:
    if not kinds <= _TEXT:
        return None
    texts = pa.array(values, pa.string())
    lengths = pc.binary_length(texts) if column.type.kind is TypeKind.VARCHAR else pc.utf8_length(texts)
    return texts if column.type.length is None or _all_within(lengths, 0, column.type.length) else None


def _fast_times(column: Column, values: Sequence[RowValue], kinds: set[type], context: _RowContext) -> pa.Array | None:
    if not kinds <= _INTEGER:
        return None
    ticks = pa.array(values, pa.int64())
    precision = context.context.precision
    low, high = tick_range(precision)
    if not _all_within(ticks, 0 if column is context.table.timestamp else low, high):
        return None
    return pc.multiply(ticks, stored_units_per_tick(precision)).cast(arrow_type(column.type, precision))


def _fast_bools(_: Column, values: Sequence[RowValue], kinds: set[type], __: _RowContext) -> pa.Array | None:
    return pa.array(values, pa.bool_()) if kinds <= {bool, type(None)} else None


_Fast = Callable[[Column, Sequence[RowValue], set[type], _RowContext], pa.Array | None]
_FAST: Final[dict[TypeKind, _Fast]] = {
    **dict.fromkeys((kind for kind in INTEGERS if kind is not TypeKind.UBIGINT), _fast_integers),
    **dict.fromkeys(FLOATS, _fast_floats),
    TypeKind.VARCHAR: _fast_text,
    TypeKind.NCHAR: _fast_text,
    TypeKind.TIMESTAMP: _fast_times,
    TypeKind.BOOL: _fast_bools,
}


def _all_within(values: pa.Array, low: int, high: int) -> bool:
    ends = pc.min_max(values)
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    return least is None or (low <= least and greatest <= high)


def _convert_each(context: _RowContext, column: Column, values: Sequence[RowValue]) -> pa.Array:
    primary = column is context.table.timestamp
    converted_values: list[object] = []
    for number, value in enumerate(values):
        try:
            converted = to_stored(value, column.type, context.context)
        except InvalidValueError as error:
            raise _invalid_value(context, number, column, value, str(error)) from None
        if primary and isinstance(converted, int) and converted < 0:
            raise _invalid_value(context, number, column, value, "a timestamp not before 1970-01-01")
        converted_values.append(converted)
    return _array(converted_values, arrow_type(column.type, context.context.precision))


def _array(values: Sequence[object], type_: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64()).cast(type_) if pa.types.is_timestamp(type_) else pa.array(values, type_)


def _invalid_value(context: _RowContext, number: int, column: Column, value: object, allowed: str) -> Error:
    return context.refusal(number, f"{_shown(value)} is not valid for {column.name}, which is {column.type}", f"give it {allowed}")


def _shown(value: object) -> str:
    text = "NULL" if value is None else repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: MAX_SHOWN_CHARACTERS - 1]}…"
