"""Conversion of columns of files to stored types: vectorized by Arrow if the values are plain, else one by one."""

from __future__ import annotations

from collections.abc import Callable
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
        shown = "NULL" if value is None else repr(value)[:MAX_SHOWN_CHARACTERS]
        self.add_text(row, f"{column.name}, which is {column.type}", shown, allowed)

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
    plain = _plain(values)
    found = None if isinstance(plain, list) else _at_once(plain, column, context)
    if found is None or (is_time and _any_negative(found)):
        listed = plain if isinstance(plain, list) else plain.to_pylist()
        found = _one_by_one(listed, column, context, invalid_values, is_time=is_time)
    if is_key:
        nulls = pc.is_null(plain) if not isinstance(plain, list) else pa.array([value is None for value in plain], pa.bool_())
        for row in pc.indices_nonzero(nulls).to_pylist():
            invalid_values.add(row, column, None, "a value: it is part of the key of a row")
    return found


def _plain(values: Values) -> pa.Array | list[object]:
    """Return values as one array, or as a list if they have several types."""
    if isinstance(values, list):
        try:
            return pa.array(values)
        except (pa.ArrowException, OverflowError, UnicodeError):
            return values
    combined = values.combine_chunks()
    found = combined if isinstance(combined, pa.Array) else combined.chunk(0)
    return found.cast(found.type.value_type) if pa.types.is_dictionary(found.type) else found


def _any_negative(found: pa.Array) -> bool:
    return bool(pc.any(pc.less(found.cast(pa.int64()), 0), min_count=0).as_py())


def _one_by_one(
    values: list[object], column: Column, context: TimeContext, invalid_values: InvalidValues, *, is_time: bool
) -> pa.Array:
    found: list[object] = []
    for row, value in enumerate(values):
        converted: object = None
        try:
            converted = to_stored(value, column.type, context)
            if is_time and isinstance(converted, int) and converted < 0:
                raise InvalidValueError("a timestamp not before 1970-01-01")
        except InvalidValueError as unfit:
            converted = None
            invalid_values.add(row, column, value, str(unfit))
        found.append(converted)
    type_ = arrow_type(column.type, context.precision)
    return pa.array(found, pa.int64()).cast(type_) if type_ == MICROSECONDS else pa.array(found, type_)


def _at_once(values: pa.Array, column: Column, context: TimeContext) -> pa.Array | None:
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
    found = values.cast(pa.int64())
    low, high = column.type.integer_range()
    return found.cast(type_) if _within(found, low, high) else None


def _floats(values: pa.Array, _: Column, __: TimeContext, type_: pa.DataType) -> pa.Array | None:
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or _is_text(values.type)):
        return None
    found = values.cast(pa.float64()).cast(type_, safe=False)
    return found if pc.all(pc.is_finite(found), min_count=0).as_py() else None


def _texts(values: pa.Array, column: Column, _: TimeContext, type_: pa.DataType) -> pa.Array | None:
    if not _is_text(values.type):
        return None
    found = values.cast(type_)
    lengths = pc.binary_length(found) if column.type.kind is TypeKind.VARCHAR else pc.utf8_length(found)
    return found if column.type.length is None or _within(lengths, 0, column.type.length) else None


def _bools(values: pa.Array, _: Column, __: TimeContext, ___: pa.DataType) -> pa.Array | None:
    return values if pa.types.is_boolean(values.type) else None


def _times(values: pa.Array, _: Column, context: TimeContext, type_: pa.DataType) -> pa.Array | None:
    """Convert times: numbers and digits are ticks, other text is parsed; fractions of a tick are truncated."""
    if pa.types.is_integer(values.type):
        return _ticks_stored(values.cast(pa.int64()), context.precision, type_)
    if _is_text(values.type):
        if len(values) and values[0].is_valid and values[0].as_py().strip().isdigit():
            return _ticks_stored(values.cast(pa.int64()), context.precision, type_)
        return _parsed(values, context, type_)
    if pa.types.is_timestamp(values.type):
        aware = values if values.type.tz else _localized(values, context.timezone)
        return None if aware is None else _cut(aware.cast(pa.timestamp(values.type.unit, "UTC")), context.precision, type_)
    return None


def _parsed(values: pa.Array, context: TimeContext, type_: pa.DataType) -> pa.Array | None:
    """Parse `YYYY-MM-DD hh:mm:ss[.f]`, all without a zone or all in UTC."""
    zoned = bool(values[0].as_py().endswith("Z")) if len(values) and values[0].is_valid else False
    if zoned:
        return _cut(values.cast(pa.timestamp("ns", "UTC")), context.precision, type_)
    found = values.cast(pa.timestamp("ns"))
    if context.timezone in _UTC:
        return _cut(found.cast(pa.timestamp("ns", "UTC")), context.precision, type_)
    aware = _localized(found, context.timezone)
    return None if aware is None else _cut(aware.cast(pa.timestamp("ns", "UTC")), context.precision, type_)


def _localized(times: pa.Array, timezone: str) -> pa.Array | None:
    """Convert local times to instants; None beyond 2037, where Arrow lacks the zone's rules."""
    latest = pc.max(pc.year(times)).as_py()
    if latest is not None and latest >= LAST_YEAR_WITH_ZONE_RULES:
        return None
    return pc.assume_timezone(times, timezone, ambiguous="earliest", nonexistent="raise")


def _cut(instants: pa.Array, precision: Precision, type_: pa.DataType) -> pa.Array | None:
    """Convert instants to ticks, truncating fractions; None if they overflow 64 bits."""
    unit = pa.timestamp(precision.value, "UTC")
    found = pc.floor_temporal(instants, 1, unit={"ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}[precision.value])
    return _ticks_stored(found.cast(unit).cast(pa.int64()), precision, type_)


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
