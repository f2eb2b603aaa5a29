"""Casts of Arrow arrays with the values that Spark's have; `UnsupportedError` for values that Spark refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import IN_BULK, Values, apply_code, arrow_type, by_row, refuse
from headrace.compute.nodes import UnsupportedError
from headrace.model.decimals import to_decimal

WHOLE: Final = re.compile(r"[+-]?[0-9]+")
REAL: Final = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[dDfF]?")
SPECIAL: Final = {"inf": np.inf, "+inf": np.inf, "infinity": np.inf, "+infinity": np.inf, "-inf": -np.inf, "-infinity": -np.inf}
TRUTHS: Final = dict.fromkeys(("t", "true", "y", "yes", "1"), True) | dict.fromkeys(("f", "false", "n", "no", "0"), False)
BLANKS: Final = "".join(map(chr, range(33)))
MIN_PLAIN: Final = 1e-3
MAX_PLAIN: Final = 1e7
"""From the one to the other, Java writes numbers without an exponent."""
MIN_EXACT: Final = 1e-12
MAX_EXACT: Final = 1e15
"""Of numbers beyond these, Java before version 19 may write more digits than needed."""
ALL_DIGITS: Final = Context(prec=80)
FLOAT_DIGITS: Final = 6
"""It may also do so of FLOAT with an exponent or more digits."""


def cast(values: Values, name: str, *, is_try: bool) -> Values:
    """Return values cast to a type of Spark; with `is_try`, those that cannot be are NULL."""
    source = values.type
    if pa.types.is_decimal(source) and name == f"decimal({source.precision},{source.scale})":
        return values
    target = arrow_type(name)
    if source == target or pa.types.is_null(source):
        return values if source == target else nulls_like(values, target)
    converted = conversion(source, target)(values)
    if not is_try:
        refuse(pc.and_(pc.is_null(converted), pc.is_valid(values)), f"a value that is no {name}")
    return converted


def nulls_like(values: Values, type_: pa.DataType) -> Values:
    return pa.scalar(None, type_) if isinstance(values, pa.Scalar) else pa.nulls(len(values), type_)


def conversion(source: pa.DataType, target: pa.DataType) -> Callable[[Values], Values]:
    """Return the function that converts values to a type, NULL if they cannot be; raise `UnsupportedError` if there is none."""
    types, kinds = pa.types, {kind for kind in KINDS if KINDS[kind](source)}
    if types.is_string(target):
        return next((function for kind, function in TO_TEXT.items() if kind in kinds), unsupported(source, target))
    if kinds & {"integer", "real"} and types.is_boolean(target):
        return lambda values: pc.not_equal(values, pa.scalar(0, source))
    if types.is_integer(target) and kinds & {"integer", "real", "boolean"}:
        return lambda values: truncate(values, target)
    if types.is_floating(target) and kinds & {"integer", "real", "boolean"}:
        return lambda values: pc.cast(pc.cast(values, pa.int8()) if "boolean" in kinds else values, target, safe=False)
    if types.is_decimal(target) and kinds & {"decimal", "integer", "real"}:
        return conversion_to_decimal(source, target)
    if "decimal" in kinds and types.is_floating(target):
        return by_row(float, target) if target == pa.float64() else unsupported(source, target)
    if "decimal" in kinds and types.is_integer(target):
        return by_row(lambda value: in_range(int(value), target), target)
    if "text" in kinds and types.is_binary(target):
        return lambda values: pc.cast(values, target)
    read = next((read for fits, read in FROM_TEXT if fits(target)), None)
    if "text" not in kinds or read is None:
        return unsupported(source, target)
    return by_row(lambda text: read(text, target), target)


def conversion_to_decimal(source: pa.DataType, target: pa.DataType) -> Callable[[Values], Values]:
    """Return the conversion of numbers to a DECIMAL."""
    if pa.types.is_floating(source):
        return by_row(lambda number: rounded(number, target), target)
    if pa.types.is_decimal(source):
        return (lambda values: pc.cast(values, target)) if is_wider(target, source) else by_row(lambda v: fitted(v, target), target)
    if target.precision - target.scale >= INTEGER_DIGITS:
        return lambda values: pc.cast(values, target)
    return by_row(lambda value: fitted(Decimal(value), target), target)


def is_wider(target: pa.DataType, source: pa.DataType) -> bool:
    """Return whether a DECIMAL has all values of another one."""
    has_fraction, has_whole = target.scale >= source.scale, target.precision - target.scale >= source.precision - source.scale
    return bool(has_fraction and has_whole)


def unsupported(source: pa.DataType, target: pa.DataType) -> Callable[[Values], Values]:
    def refuse_all(_: Values) -> Values:
        raise UnsupportedError(f"a cast of {source} to {target}")

    return refuse_all


def truncate(values: Values, target: pa.DataType) -> Values:
    """Return numbers as integers without their fraction, NULL if they are out of range or NaN."""
    bits = target.bit_width - 1
    if pa.types.is_integer(values.type):
        fits = pc.and_(pc.less_equal(values, 2**bits - 1), pc.greater_equal(values, -(2**bits)))
        return pc.cast(pc.if_else(fits, values, pa.scalar(None, values.type)), target)
    if not pa.types.is_floating(values.type):
        return pc.cast(values, target)
    whole = pc.trunc(pc.cast(values, pa.float64()))
    fits = pc.and_(pc.less(whole, 2.0**bits), pc.greater_equal(whole, -(2.0**bits)))
    truncated = pc.cast(pc.if_else(fits, whole, pa.scalar(None, pa.float64())), target)
    # Spark compares BIGINT with its greatest value as DOUBLE, which is 2^63.
    is_limit = pc.and_(pc.equal(whole, 2.0**bits), pa.scalar(bits == 63))
    return pc.if_else(pc.fill_null(is_limit, False), pa.scalar(2**bits - 1, target), truncated)


def in_range(value: int, type_: pa.DataType) -> int | None:
    limit = 2 ** (type_.bit_width - 1)
    return value if -limit <= value < limit else None


def fitted(value: Decimal, type_: pa.DataType) -> Decimal | None:
    """Return a number that needs no rounding as a DECIMAL, None if it is out of range."""
    if value.adjusted() >= type_.precision - type_.scale:
        return None
    _, digits, exponent = value.as_tuple()
    surplus = -int(exponent) - type_.scale
    refuse(surplus > 0 and any(digits[-surplus:]), "a DECIMAL that is rounded")
    return value


def rounded(number: float, type_: pa.DataType) -> Decimal | None:
    """Return a number as a DECIMAL, rounded as its text is; None if it is out of range."""
    value = to_decimal(java_text(number))
    if not value.is_finite():
        return None
    value = value.quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP, ALL_DIGITS)
    return value if value.adjusted() < type_.precision - type_.scale else None


def read_whole(text: str, type_: pa.DataType) -> int | None:
    return in_range(int(bare), type_) if WHOLE.fullmatch(bare := trimmed(text)) else None


def read_real(text: str, type_: pa.DataType) -> float | None:
    bare = trimmed(text)
    if REAL.fullmatch(bare):
        number = float(bare.rstrip("dDfF"))
        refuse(type_ == pa.float32() and np.float64(number).view(np.int64) & 0x1FFFFFFF == 0x10000000, "a number between two FLOAT")
        return number
    refuse("x" in bare.lower(), "hexadecimal digits")
    return float("nan") if bare.lower() == "nan" or bare in ("+NaN", "-NaN") else SPECIAL.get(bare.lower())


def read_decimal(text: str, type_: pa.DataType) -> Decimal | None:
    bare = trimmed(text)
    if not REAL.fullmatch(bare) or bare[-1] in "dDfF":
        return None
    number = to_decimal(bare)
    return fitted(number, type_) if number.is_finite() else None


def trimmed(text: str) -> str:
    refuse(not text.isascii(), "a text that is no number")
    return text.strip(BLANKS)


def real_text(values: Values) -> Values:
    """Return numbers as Java writes them."""

    def write_all(array: pa.Array) -> pa.Array:
        refuse(IN_BULK.get(), "a function of each row")
        numbers = array.fill_null(0.0).to_numpy(zero_copy_only=False)
        texts = [java_text(number) for number in numbers]
        return pc.if_else(array.is_valid(), pa.array(texts, pa.string()), pa.scalar(None, pa.string()))

    return apply_code(write_all, [values])


def java_text(number: Any) -> str:
    """Return a number as Java writes it. Raise `UnsupportedError` if Java may write more digits than needed."""
    if number == 0 or not np.isfinite(number):
        return str(number).replace("inf", "Infinity").replace("nan", "NaN")
    sign, (mantissa, exponent) = "-" * bool(number < 0), np.format_float_scientific(abs(number), unique=True).split("e")
    digits, power = mantissa.replace(".", "").rstrip("0") or "0", int(exponent)
    low, high = (MIN_PLAIN, MAX_PLAIN) if isinstance(number, np.float32) else (MIN_EXACT, MAX_EXACT)
    is_long = isinstance(number, np.float32) and len(digits) > FLOAT_DIGITS
    refuse(is_long or not low <= abs(number) <= high, "a number that Java may write in several ways")
    if not MIN_PLAIN <= abs(number) < MAX_PLAIN:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    return f"{sign}{digits[: power + 1].ljust(power + 1, '0')}.{digits[power + 1 :] or '0'}"


INTEGER_DIGITS: Final = 19
KINDS: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "boolean": pa.types.is_boolean,
    "integer": pa.types.is_integer,
    "real": pa.types.is_floating,
    "decimal": pa.types.is_decimal,
    "text": pa.types.is_string,
    "date": pa.types.is_date32,
    "bytes": pa.types.is_binary,
}
TO_TEXT: Final[dict[str, Callable[[Values], Values]]] = {
    **dict.fromkeys(("boolean", "integer"), lambda values: pc.cast(values, pa.string())),
    "real": real_text,
    "decimal": by_row(lambda value: format(value, "f"), pa.string()),
    "date": by_row(lambda value: value.isoformat(), pa.string()),
    "bytes": lambda values: pc.cast(values, pa.string()),
}
FROM_TEXT: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[str, pa.DataType], Any]], ...]] = (
    (pa.types.is_integer, read_whole),
    (pa.types.is_floating, read_real),
    (pa.types.is_decimal, read_decimal),
    (pa.types.is_boolean, lambda text, _: TRUTHS.get(trimmed(text).lower())),
)
