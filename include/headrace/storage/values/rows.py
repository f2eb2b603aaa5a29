"""Conversion of the rows of statements (Python scalars, text, `now`) to typed Arrow tables, with validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DataError, NotFoundError, ProgrammingError
from headrace.model.spans import Span
from headrace.model.statements import RowValue, TagValue
from headrace.model.tables import Column, Database, Table
from headrace.model.types import FLOATS, INTEGERS, TypeKind
from headrace.storage.types import assemble, rows_schema, tags_schema
from headrace.storage.values.columns import InvalidValues, any_negative, convert_each, convert_vectorized, stored_array
from headrace.storage.values.scalars import InvalidValueError, TimeContext, to_stored

MAX_SHOWN_CHARACTERS: Final = 60


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

    Timestamps without a zone are in the database's time zone; `now` is in epoch milliseconds. `tbnames` has the subtable of each
    row, unless a column `tbname` names it; `spans`, each row's position in the statement.

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
    return assemble(arrays, rows_schema(table, database), len(rows))


def tags_to_arrow(table: Table, database: Database, tbname: str, values: Mapping[str, TagValue], *, now: int) -> pa.Table:
    """Convert one row of a table's tags: `tbname` and one column per tag; tags that are missing are NULL.

    Raises:
        DataError: A value is invalid for its tag; has the value's span.
    """
    context = TimeContext(now, database.timezone, database.precision)
    schema = tags_schema(table, database)
    row: dict[str, object] = {table.series_key: tbname}
    row |= {tag.name: _tag(tbname, tag, values[tag.name], context) for tag in table.tags if tag.name in values}
    return assemble({name: stored_array([value], schema.field(name).type) for name, value in row.items()}, schema, 1)


def _tag(tbname: str, tag: Column, value: TagValue, context: TimeContext) -> object:
    try:
        return to_stored(value.value, tag.type, context)
    except InvalidValueError as unfit:
        raise DataError(
            f"tag {tag.name} of {tbname} is {tag.type}, {_shown(value.value)} is invalid", hint=f"give it {unfit}", span=value.span
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
    """Validate names of subtables in a column."""
    for number, value in enumerate(values):
        if not isinstance(value, str) or not value:
            raise context.refusal(
                number, f"{context.table.series_key} is {_shown(value)}", "give each row the name of its subtable"
            )
    return pa.array(values, pa.string())


def _column(context: _RowContext, column: Column, values: Sequence[RowValue]) -> pa.Array:
    """Convert a column: vectorized if all values have the plain type, else one by one."""
    stored, invalid = _convert_vectorized(column, values, context), InvalidValues()
    if stored is None:
        stored = convert_each(values, column, context.context, invalid, is_time=column is context.table.timestamp)
    for first in invalid.first()[:1]:
        problem = f"{_shown(values[first.row])} is not valid for {column.name}, which is {column.type}"
        raise context.refusal(first.row, problem, f"give it {first.allowed}")
    if column.name in context.table.primary_key and stored.null_count:
        number = pc.index(stored.is_null(), True).as_py()
        raise context.refusal(number, f"{column.name} is NULL", f"{column.name} is part of the key of a row and never NULL")
    return stored


def _convert_vectorized(column: Column, values: Sequence[RowValue], context: _RowContext) -> pa.Array | None:
    """Convert the whole column by Arrow; None if a value has another type or is invalid."""
    types, arrow = _PLAIN.get(column.type.kind, (frozenset(), pa.null()))
    if not types.issuperset(map(type, values)):
        return None
    try:
        plain = pa.array(values, arrow)
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None
    is_early = column is context.table.timestamp and any_negative(plain)
    return None if is_early else convert_vectorized(plain, column, context.context)


_PLAIN: Final[dict[TypeKind, tuple[frozenset[type], pa.DataType]]] = {
    **dict.fromkeys((*INTEGERS, TypeKind.TIMESTAMP), (frozenset((int, type(None))), pa.int64())),
    **dict.fromkeys(FLOATS, (frozenset((int, float, type(None))), pa.float64())),
    **dict.fromkeys((TypeKind.VARCHAR, TypeKind.NCHAR), (frozenset((str, type(None))), pa.string())),
    TypeKind.BOOL: (frozenset((bool, type(None))), pa.bool_()),
}
"""The Python types of values that Arrow converts, and the type that it reads them as."""


def _shown(value: object) -> str:
    text = "NULL" if value is None else repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: MAX_SHOWN_CHARACTERS - 1]}…"
