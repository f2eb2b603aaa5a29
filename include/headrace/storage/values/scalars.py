"""Conversion of one value to its stored form.

An invalid value raises `InvalidValueError`, which says what is allowed; the caller adds the table, row and column.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Final

from headrace.model.decimals import to_decimal
from headrace.model.instants import midnight, parse_instant
from headrace.model.statements import Now
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind

MICROSECONDS_PER_MILLISECOND: Final = 1_000
MAX_JSON_BYTES: Final = 4_095
MAX_FLOAT: Final = 3.4028234663852886e38
FLOAT_LIMIT: Final = MAX_FLOAT + 2.0**103
"""Numbers below are rounded to a FLOAT, such as 3.4028235e38, as programs write the greatest one."""
# Spark and Delta hold timestamps of the years 1 to 9999.
FIRST_SECOND: Final = -62_135_596_800
LAST_SECOND: Final = 253_402_300_799
_GEOMETRY: Final = re.compile(
    r"(POINT|LINESTRING|POLYGON|MULTIPOINT|MULTILINESTRING|MULTIPOLYGON|GEOMETRYCOLLECTION)\s*(\(.*\)|EMPTY)",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEX: Final = re.compile(r"\\x((?:[0-9a-f]{2})*+)", re.IGNORECASE)
_TRUTH: Final = {"true": True, "false": False, "t": True, "f": False}


class InvalidValueError(Exception):
    """A value is invalid; the message says what is allowed."""


@dataclass(frozen=True, slots=True)
class TimeContext:
    """The meaning of `now` (epoch ms), of times without a zone (a zone's name), and the database's precision."""

    now: int
    timezone: str
    precision: Precision


Converter = Callable[[object, DataType, TimeContext], object]


def to_stored(value: object, type_: DataType, context: TimeContext) -> object:
    """Convert a value to the stored form of a type; timestamps to integers of their stored unit."""
    return None if value is None else CONVERTERS[type_.kind](value, type_, context)


def _number(value: object) -> Decimal:
    """Convert a value to a number; NaN if it is none."""
    if isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, int | Decimal):
        return Decimal(value)
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return to_decimal(value)
    return Decimal("NaN")


def _integer(value: object, type_: DataType, _: TimeContext) -> int:
    """Whole numbers; fractions are rounded, halves away from zero."""
    low, high = type_.integer_range()
    number = _number(value)
    if number.is_finite() and low - 1 < number < high + 1:
        with localcontext(prec=60):
            rounded = int(number.to_integral_value(ROUND_HALF_UP))
        if low <= rounded <= high:
            return rounded
    raise InvalidValueError(f"a whole number from {low} to {high}")


def _big_unsigned(value: object, type_: DataType, context: TimeContext) -> Decimal:
    return Decimal(_integer(value, type_, context))


def _floating(value: object, type_: DataType, _: TimeContext) -> float:
    number = float(_number(value))
    if not math.isfinite(number):
        raise InvalidValueError("a finite number")
    if type_.kind is TypeKind.FLOAT and abs(number) >= FLOAT_LIMIT:
        raise InvalidValueError(f"a number between -{MAX_FLOAT:.7g} and {MAX_FLOAT:.7g}")
    return number


def _decimal(value: object, type_: DataType, _: TimeContext) -> Decimal:
    """Fractions beyond the scale are rounded, halves away from zero."""
    digits, scale = type_.length or 38, type_.scale or 0
    number = _number(value)
    with localcontext(prec=100):
        if number.is_finite() and abs(number) < Decimal(10) ** (digits - scale):
            rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
            if abs(rounded) < Decimal(10) ** (digits - scale):
                return rounded
    raise InvalidValueError(f"a number with at most {digits - scale} digits before and {scale} after the point")


def _bool(value: object, _: DataType, __: TimeContext) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        truth = _TRUTH.get(value.strip().lower())
        if truth is not None:
            return truth
    number = _number(value)
    if number.is_finite():
        return number != 0
    raise InvalidValueError("true, false or a number")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return str(value)
    raise InvalidValueError("text")


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidValueError("text that can be written as UTF-8") from None


def _varchar(value: object, type_: DataType, _: TimeContext) -> str:
    text = _text(value)
    if len(_encode(text)) > (type_.length or math.inf):
        raise InvalidValueError(f"at most {type_.length} bytes, this has {len(_encode(text))}")
    return text


def _nchar(value: object, type_: DataType, _: TimeContext) -> str:
    text = _text(value)
    _encode(text)
    if len(text) > (type_.length or math.inf):
        raise InvalidValueError(f"at most {type_.length} characters, this has {len(text)}")
    return text


def _varbinary(value: object, type_: DataType, _: TimeContext) -> bytes:
    r"""Bytes as `\x…` in hexadecimal, or the text's own in UTF-8."""
    if not isinstance(value, bytes | str):
        raise InvalidValueError("bytes, or text")
    content = value if isinstance(value, bytes) else to_bytes(value)
    if len(content) > (type_.length or math.inf):
        raise InvalidValueError(f"at most {type_.length} bytes, this has {len(content)}")
    return content


def to_bytes(text: str) -> bytes:
    r"""Return the bytes of a VARBINARY written as `\x…` in hexadecimal or as text, or raise `InvalidValueError`."""
    if not text.lower().startswith("\\x"):
        return _encode(text)
    matched = _HEX.fullmatch(text)
    if matched is None:
        raise InvalidValueError("after \\x an even number of hexadecimal digits")
    return bytes.fromhex(matched[1])


def _geometry(value: object, _: DataType, __: TimeContext) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if _GEOMETRY.fullmatch(text) is None or text.count("(") != text.count(")"):
        raise InvalidValueError("well-known text such as POINT(1.0 2.0)")
    return text


def _json(value: object, _: DataType, __: TimeContext) -> str | None:
    text = json.dumps(value) if isinstance(value, dict) else value
    if not isinstance(text, str) or len(_encode(text)) > MAX_JSON_BYTES:
        raise InvalidValueError(f"the text of a JSON object of at most {MAX_JSON_BYTES} bytes")
    if text.strip() in ("", "null"):
        return None
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise InvalidValueError("the text of a JSON object")
    return text


def to_ticks(value: object, context: TimeContext) -> int:
    """Convert a timestamp to ticks: integers are ticks, text is parsed, `now` is the clock's."""
    match value:
        case Now(offset=offset, today=today):
            start = midnight(context.now, context.timezone) if today else context.now
            return (start * 1_000_000 + offset) // context.precision.nanoseconds
        case bool():
            pass
        case int():
            return value
        case datetime():
            return _ticks_of(value.isoformat(), context)
        case str():
            text = value.strip()
            return int(text) if text.lstrip("-").isdecimal() and text.isascii() else _ticks_of(text, context)
    raise InvalidValueError("a timestamp: 'YYYY-MM-DD HH:MM:SS.fff', an epoch number, or now")


def _ticks_of(text: str, context: TimeContext) -> int:
    ticks = parse_instant(text, context.timezone, context.precision)
    if ticks is None:
        raise InvalidValueError("a timestamp: 'YYYY-MM-DD HH:MM:SS.fff', with or without a zone, an epoch number, or now")
    return ticks


def tick_range(precision: Precision) -> tuple[int, int]:
    """Return the least and greatest tick that can be stored, both inclusive."""
    if precision is Precision.NANOSECOND:
        return -(2**63), 2**63 - 1
    unit = precision.ticks_per_second
    return FIRST_SECOND * unit, LAST_SECOND * unit + unit - 1


def stored_units_per_tick(precision: Precision) -> int:
    """Return how many stored units (microseconds, or nanoseconds if the precision is ns) a tick has."""
    return MICROSECONDS_PER_MILLISECOND if precision is Precision.MILLISECOND else 1


def stored_nanoseconds(precision: Precision) -> int:
    """Return how many nanoseconds a stored unit has."""
    return 1 if precision is Precision.NANOSECOND else 1_000


def _timestamp(value: object, _: DataType, context: TimeContext) -> int:
    ticks = to_ticks(value, context)
    low, high = tick_range(context.precision)
    if not low <= ticks <= high:
        years = "1677 to 2262" if context.precision is Precision.NANOSECOND else "1 to 9999"
        raise InvalidValueError(f"a timestamp of the years {years}; numbers are {context.precision} since 1970")
    return ticks * stored_units_per_tick(context.precision)


def _date(value: object, _: DataType, __: TimeContext) -> date:
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value.strip()) if isinstance(value, str) else date.fromordinal(0)
    except ValueError:
        raise InvalidValueError("a date such as '2024-05-01'") from None


CONVERTERS: Final[dict[TypeKind, Converter]] = {
    TypeKind.BOOL: _bool,
    TypeKind.TINYINT: _integer,
    TypeKind.SMALLINT: _integer,
    TypeKind.INT: _integer,
    TypeKind.BIGINT: _integer,
    TypeKind.UTINYINT: _integer,
    TypeKind.USMALLINT: _integer,
    TypeKind.UINT: _integer,
    TypeKind.UBIGINT: _big_unsigned,
    TypeKind.FLOAT: _floating,
    TypeKind.DOUBLE: _floating,
    TypeKind.DECIMAL: _decimal,
    TypeKind.VARCHAR: _varchar,
    TypeKind.NCHAR: _nchar,
    TypeKind.VARBINARY: _varbinary,
    TypeKind.GEOMETRY: _geometry,
    TypeKind.JSON: _json,
    TypeKind.TIMESTAMP: _timestamp,
    TypeKind.DATE: _date,
}
