"""Conversion of columns of files to stored types: vectorized by Arrow if the values are plain, else one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Column
from headrace.model.time import Precision
from headrace.model.types import FLOATS, INTEGERS, TypeKind
from headrace.storage.types import MICROSECONDS, arrow_type
from headrace.storage.values.scalars import InvalidValueError, TimeContext, stored_units_per_tick, tick_range, to_stored

Values: TypeAlias = "pa.ChunkedArray | list[object]"

# Keep this many invalid values as examples; only count the others.
MAX_EXAMPLES: Final = 5
MAX_SHOWN_CHARACTERS: Final = 60
LAST_YEAR_WITH_ZONE_RULES: Final = 2037
_ZONE: Final = re.compile(r":\d+(\.\d+)?(Z|[+-]\d{2}:?\d{2})$")
_UTC: Final = ("UTC", "Z", "GMT", "Etc/UTC")


@dataclass(frozen=True, slots=True)
class InvalidValue:
    """An invalid value: its row counted from 0, its column, the value, and what is allowed."""

    row: int
    column: str
    value: str
    allowed: str


@dataclass(slots=True)
class InvalidValues:
    """The number of invalid values, and the first of each column as examples."""

    count: int = 0
    examples: list[InvalidValue] = field(default_factory=list)
    _of_column: dict[str, int] = field(default_factory=dict)

    def add(self, row: int, column: Column, value: object, allowed: str) -> None:
        """Count an invalid value of a column."""
        text = "NULL" if value is None else repr(value)[:MAX_SHOWN_CHARACTERS]
        self.add_text(row, f"{column.name}, which is {column.type}", text, allowed)

    def add_text(self, row: int, column: str, value: str, allowed: str) -> None:
        self.count += 1
        self._of_column[column] = self._of_column.get(column, 0) + 1
        if self._of_column[column] <= MAX_EXAMPLES:
            self.examples.append(InvalidValue(row, column, value, allowed))

    def first(self) -> list[InvalidValue]:
        """Return the first examples in order of rows."""
        return sorted(self.examples, key=lambda invalid_value: invalid_value.row)[:MAX_EXAMPLES]


def to_stored_column(
    values: Values, column: Column, context: TimeContext, invalid_values: InvalidValues, *, is_key: bool, is_time: bool
) -> pa.Array:
    """Convert values of a file to a column's stored type; invalid ones become NULL and are added to `invalid_values`."""
    source = to_array(values)
    stored = None if isinstance(source, list) else convert_vectorized(source, column, context)
    if stored is None or (is_time and any_negative(stored)):
        python_values = source if isinstance(source, list) else source.to_pylist()
        stored = convert_each(python_values, column, context, invalid_values, is_time=is_time)
    if is_key:
        nulls = pc.is_null(source) if not isinstance(source, list) else pa.array([value is None for value in source], pa.bool_())
        for row in pc.indices_nonzero(nulls).to_pylist():
            invalid_values.add(row, column, None, "a value: it is part of the key of a row")
    return stored


def to_array(values: Values) -> pa.Array | list[object]:
    if isinstance(values, list):
        try:
            return pa.array(values)
        except (pa.ArrowException, OverflowError, UnicodeError):
            return values
    combined = values.combine_chunks()
    array = combined if isinstance(combined, pa.Array) else combined.chunk(0)
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


def any_negative(values: pa.Array) -> bool:
    return bool(pc.any(pc.less(values.cast(pa.int64()), 0), min_count=0).as_py())


def convert_each(
    values: Sequence[object], column: Column, context: TimeContext, invalid_values: InvalidValues, *, is_time: bool
) -> pa.Array:
    converted_values: list[object] = []
    for row, value in enumerate(values):
        converted: object = None
        try:
            converted = to_stored(value, column.type, context)
            if is_time and isinstance(converted, int) and converted < 0:
                raise InvalidValueError("a timestamp not before 1970-01-01")
        except InvalidValueError as error:
            converted = None
            invalid_values.add(row, column, value, str(error))
        converted_values.append(converted)
    return stored_array(converted_values, arrow_type(column.type, context.precision))


def stored_array(values: Sequence[object], type_: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64()).cast(type_) if type_ == MICROSECONDS else pa.array(values, type_)


def convert_vectorized(values: pa.Array, column: Column, context: TimeContext) -> pa.Array | None:
    """Convert the column by Arrow; None if it must be converted value by value."""
    type_ = arrow_type(column.type, context.precision)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), type_)
    convert = _CONVERSIONS.get(column.type.kind)
    try:
        return None if convert is None else convert(values, column, context, type_)
    except (pa.ArrowException, OverflowError):
        return None


def _integers(values: pa.Array, column: Column, _: TimeContext, type_: pa.DataType) -> pa.Array | None:
    if not (pa.types.is_integer(values.type) or _is_text(values.type)):
        return None
    integers = values.cast(pa.int64())
    low, high = column.type.integer_range()
    return integers.cast(type_) if _within(integers, low, high) else None


def _floats(values: pa.Array, _: Column, __: TimeContext, type_: pa.DataType) -> pa.Array | None:
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or _is_text(values.type)):
        return None
    floats = values.cast(pa.float64()).cast(type_, safe=False)
    return floats if pc.all(pc.is_finite(floats), min_count=0).as_py() else None


def _texts(values: pa.Array, column: Column, _: TimeContext, type_: pa.DataType) -> pa.Array | None:
    if not _is_text(values.type):
        return None
    texts = values.cast(type_)
    lengths = pc.binary_length(texts) if column.type.kind is TypeKind.VARCHAR else pc.utf8_length(texts)
    return texts if column.type.length is None or _within(lengths, 0, column.type.length) else None


def _bools(values: pa.Array, _: Column, __: TimeContext, ___: pa.DataType) -> pa.Array | None:
    return values if pa.types.is_boolean(values.type) else None


def _times(values: pa.Array, _: Column, context: TimeContext, type_: pa.DataType) -> pa.Array | None:
    """Convert times: numbers and digits are ticks, other text is parsed; fractions of a tick are truncated."""
    if pa.types.is_integer(values.type):
        return _ticks_stored(values.cast(pa.int64()), context.precision, type_)
    if _is_text(values.type):
        if len(values) and values[0].is_valid and values[0].as_py().strip().isdigit():
            return _ticks_stored(values.cast(pa.int64()), context.precision, type_)
        return _parse(values, context, type_)
    if pa.types.is_timestamp(values.type):
        aware = values if values.type.tz else _localize(values, context.timezone)
        return None if aware is None else _truncate(aware.cast(pa.timestamp(values.type.unit, "UTC")), context.precision, type_)
    return None


def _parse(values: pa.Array, context: TimeContext, type_: pa.DataType) -> pa.Array | None:
    """Parse `YYYY-MM-DD hh:mm:ss[.f]`, all without a zone or all with one."""
    if len(values) and values[0].is_valid and _ZONE.search(values[0].as_py()):
        return _truncate(values.cast(pa.timestamp("ns", "UTC")), context.precision, type_)
    local = values.cast(pa.timestamp("ns"))
    if context.timezone in _UTC:
        return _truncate(local.cast(pa.timestamp("ns", "UTC")), context.precision, type_)
    aware = _localize(local, context.timezone)
    return None if aware is None else _truncate(aware.cast(pa.timestamp("ns", "UTC")), context.precision, type_)


def _localize(times: pa.Array, timezone: str) -> pa.Array | None:
    """Convert local times to instants; None beyond 2037, where Arrow lacks the zone's rules."""
    latest = pc.max(pc.year(times)).as_py()
    if latest is not None and latest >= LAST_YEAR_WITH_ZONE_RULES:
        return None
    return pc.assume_timezone(times, timezone, ambiguous="earliest", nonexistent="raise")


def _truncate(instants: pa.Array, precision: Precision, type_: pa.DataType) -> pa.Array | None:
    """Convert instants to ticks, truncating fractions; None if they overflow 64 bits."""
    least = pc.min(instants.cast(pa.int64())).as_py()
    if least is not None and least < 0:  # a cast rounds towards zero
        unit = {"ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}[precision.value]
        instants = pc.floor_temporal(instants, 1, unit=unit)
    options = pc.CastOptions(pa.timestamp(precision.value, "UTC"), allow_time_truncate=True)
    return _ticks_stored(instants.cast(options=options).cast(pa.int64()), precision, type_)


def _ticks_stored(ticks: pa.Array, precision: Precision, type_: pa.DataType) -> pa.Array | None:
    low, high = tick_range(precision)
    return pc.multiply(ticks, stored_units_per_tick(precision)).cast(type_) if _within(ticks, low, high) else None


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _within(values: pa.Array, low: int, high: int) -> bool:
    ends = pc.min_max(values)
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    return least is None or (low <= least and greatest <= high)


_Conversion = Callable[[pa.Array, Column, TimeContext, pa.DataType], pa.Array | None]
_CONVERSIONS: Final[dict[TypeKind, _Conversion]] = {
    **dict.fromkeys((kind for kind in INTEGERS if kind is not TypeKind.UBIGINT), _integers),
    **dict.fromkeys(FLOATS, _floats),
    TypeKind.VARCHAR: _texts,
    TypeKind.NCHAR: _texts,
    TypeKind.TIMESTAMP: _times,
    TypeKind.BOOL: _bools,
}
