"""Conversion of columns of files to the types of series, by the rules of INSERT."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DataError
from headrace.model.tables import Column
from headrace.model.time import Precision
from headrace.model.tree_types import type_name
from headrace.model.types import DataType, TypeKind
from headrace.storage.types import arrow_type
from headrace.storage.values.columns import InvalidValues, convert_vectorized, to_stored_column
from headrace.storage.values.scalars import TimeContext, stored_units_per_tick, tick_range
from headrace.storage.values.tree_scalars import CONVERTERS, to_date, to_integer, to_text

MAX_SHOWN_CHARACTERS: Final = 60
SeriesOf = Callable[[int], str]
_WHOLE: Final = re.compile(r"\s*[+-]?[0-9]+\s*")
_HEX: Final = re.compile(r"(?:0x|\\x|X')((?:[0-9a-f]{2})*+)'?", re.IGNORECASE)


def to_stored_times(ticks: Sequence[int | None], precision: Precision) -> pa.Array:
    """Return instants as stored, or raise `DataError` for one that cannot be."""
    low, high = tick_range(precision)
    outside = [tick for tick in ticks if tick is not None and not low <= tick <= high]
    if outside:
        raise DataError(f"timestamp {outside[0]} is out of range", hint=f"it has to lie between {low} and {high}")
    unit = stored_units_per_tick(precision)
    stored = pa.array([None if tick is None else tick * unit for tick in ticks], pa.int64())
    return stored.cast(arrow_type(DataType(TypeKind.TIMESTAMP), precision))


def to_series_values(
    values: pa.Array | list[object], column: Column, series_of: SeriesOf, context: TimeContext, invalid_values: InvalidValues
) -> pa.Array:
    """Convert values of a file to the stored type of series; invalid ones become NULL and are added to `invalid_values`.

    There is a value for each row of the file's split. `series_of` returns the path of the series of a row, for messages.
    """
    type_ = column.type
    if type_.kind is TypeKind.TIMESTAMP:
        chunked = values if isinstance(values, list) else pa.chunked_array([values])
        return to_stored_column(chunked, column, context, invalid_values, is_key=False, is_time=False)
    if not isinstance(values, list):
        booleans = _texts_to_booleans(values) if type_.kind is TypeKind.BOOL else None
        stored = booleans if booleans is not None else convert_vectorized(values, column, context)
        if stored is not None:
            return stored
    python_values = values if isinstance(values, list) else values.to_pylist()
    return _convert_each(python_values, type_, series_of, context, invalid_values)


def _texts_to_booleans(values: pa.Array) -> pa.Array | None:
    """Convert texts `true`, `false`, `0` and `1`; None if there are other values."""
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return None
    lower = pc.utf8_lower(values)
    is_true = pc.is_in(lower, pa.array(["true", "1"], lower.type))
    is_valid = pc.or_(pc.is_null(values), pc.or_(is_true, pc.is_in(lower, pa.array(["false", "0"], lower.type))))
    if not pc.all(is_valid, min_count=0).as_py():
        return None
    return pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), is_true)


def _convert_each(
    values: list[object], type_: DataType, series_of: SeriesOf, context: TimeContext, invalid_values: InvalidValues
) -> pa.Array:
    converted: list[object] = []
    convert = FILE_CONVERTERS[type_.kind]
    for row, value in enumerate(values):
        try:
            converted.append(None if value is None else convert(value))
        except (ValueError, OverflowError, ArithmeticError):
            converted.append(None)
            shown = repr(value)[:MAX_SHOWN_CHARACTERS]
            invalid_values.add_text(row, f"{series_of(row)}, which is {type_name(type_)}", shown, ALLOWED[type_.kind])
    return pa.array(converted, arrow_type(type_, context.precision))


def _to_whole(bits: int) -> Callable[[object], int]:
    """Return the reader of a signed integer; numbers with a zero fraction, as programs write columns with NULL, are whole."""
    read = to_integer(bits)

    def convert(value: object) -> int:
        if isinstance(value, float) and value.is_integer():
            return read(int(value))
        if isinstance(value, str) and not _WHOLE.fullmatch(value):
            raise ValueError(value)
        return read(value)

    return convert


def _to_text(value: object) -> str:
    if isinstance(value, dict | list):
        raise ValueError(value)
    text = to_text(value)
    text.encode()
    return text


def _to_bytes(value: object) -> bytes:
    r"""Read a BLOB: bytes, or text such as `0x00ff`, which IoTDB exports, or `\x00ff`, which Headrace prints."""
    if isinstance(value, bytes):
        return value
    matched = _HEX.fullmatch(value) if isinstance(value, str) else None
    if matched is None:
        raise ValueError(value)
    return bytes.fromhex(matched[1])


def _to_date(value: object) -> date:
    return to_date(value.strip() if isinstance(value, str) else value)


FILE_CONVERTERS: Final[dict[TypeKind, Callable[[object], object]]] = {
    **CONVERTERS,
    TypeKind.INT: _to_whole(32),
    TypeKind.BIGINT: _to_whole(64),
    TypeKind.VARCHAR: _to_text,
    TypeKind.NCHAR: _to_text,
    TypeKind.VARBINARY: _to_bytes,
    TypeKind.DATE: _to_date,
}

ALLOWED: Final[dict[TypeKind, str]] = {
    TypeKind.BOOL: "true or false",
    TypeKind.INT: f"a whole number from {-(2**31)} to {2**31 - 1}",
    TypeKind.BIGINT: f"a whole number from {-(2**63)} to {2**63 - 1}",
    TypeKind.FLOAT: "a number",
    TypeKind.DOUBLE: "a number",
    TypeKind.VARCHAR: "text",
    TypeKind.NCHAR: "text",
    TypeKind.VARBINARY: "bytes such as 0x00ff",
    TypeKind.DATE: "a date such as 2024-05-01",
}
