"""Functions of numbers, and comparisons, over Arrow arrays or scalars, with the values that Spark's have."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import Numbers, Values, by_array, by_row, refuse
from headrace.compute.columnar.casts import cast, nulls_like

ORDERED: Final = ("=", "<>", "<", "<=", ">", ">=")
MAX_DIGITS: Final = 400
"""More digits leave any DOUBLE as it is."""
MAX_INTEGER_DIGITS: Final = 19
MAX_PRECISION: Final = 38


def typed(values: Values, type_: pa.DataType) -> Values:
    """Return values in their common type."""
    if pa.types.is_null(values.type):
        return pa.scalar(None, type_)
    return values if values.type == type_ else pc.cast(values, type_, safe=False)


def common_type(types: list[pa.DataType]) -> pa.DataType:
    """Return the type of values of which all but NULL have the same, or of numbers: as in Spark, the wider one."""
    present = list(dict.fromkeys(type_ for type_ in types if not pa.types.is_null(type_)))
    if len(present) < 2:
        return present[0] if present else pa.null()
    refuse(not all(map(is_number, present)), "values of several types")
    is_real = any(map(pa.types.is_floating, present))
    return pa.float64() if is_real else max(present, key=lambda type_: int(type_.bit_width))


def is_number(type_: pa.DataType) -> bool:
    """Return whether a type is of integers or floating-point numbers."""
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def is_negative_zero(values: Values) -> Values:
    return pc.and_(pc.equal(values, 0.0), pc.less(pc.atan2(values, -1.0), 0.0))


def join_halves(high: Values, low: Values) -> Values:
    """Return `high` times 2^32 plus `low`, NULL if out of range."""
    # Carry what exceeds the lower half.
    carried = pc.add(high, pc.shift_right(low, pa.scalar(32, pa.int64())))
    fits = pc.and_(pc.less(carried, 2**31), pc.greater_equal(carried, -(2**31)))
    upper = pc.shift_left(pc.if_else(fits, carried, pa.scalar(None, pa.int64())), pa.scalar(32, pa.int64()))
    return pc.bit_wise_or(upper, pc.bit_wise_and(low, pa.scalar(2**32 - 1, pa.int64())))


def as_common_number(left: Values, right: Values) -> tuple[Values, Values]:
    """Return two numbers of one type, and other operands as they are."""
    if pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type):
        return as_common_decimal(left, right)
    if left.type == right.type or not (is_number(left.type) and is_number(right.type)):
        return left, right
    target = common_type([left.type, right.type])
    return typed(left, target), typed(right, target)


def as_common_decimal(left: Values, right: Values) -> tuple[Values, Values]:
    """Return two DECIMAL, or one and an integer, as DECIMAL of one type; other operands as they are."""
    sizes = []
    for type_ in (left.type, right.type):
        if pa.types.is_integer(type_):
            sizes.append((MAX_INTEGER_DIGITS, 0))
        elif pa.types.is_decimal(type_):
            sizes.append((type_.precision - type_.scale, type_.scale))
    if len(sizes) < 2:
        return left, right
    whole, scale = (max(size[part] for size in sizes) for part in (0, 1))
    refuse(whole + scale > MAX_PRECISION, "a DECIMAL of too many digits")
    target = pa.decimal128(whole + scale, scale)
    return pc.cast(left, target), pc.cast(right, target)


def as_double(values: Values) -> Values:
    """Return DECIMAL as DOUBLE, and other numbers as they are."""
    return cast(values, "double", is_try=False) if pa.types.is_decimal(values.type) else values


def number_operator(kernel: Callable[[Values, Values], Values]) -> Callable[[Values, Values], Values]:
    """Return an operator of two numbers. Of two DECIMAL, Arrow gives the result the type that Spark does."""

    def apply_to(left: Values, right: Values) -> Values:
        decimals = [values for values in (left, right) if pa.types.is_decimal(values.type)]
        if len(decimals) == 2:
            return kernel(left, right)
        refuse(bool(decimals) and not any(pa.types.is_floating(values.type) for values in (left, right)), "DECIMAL and integers")
        return kernel(*(as_common_number(*(as_double(values) for values in (left, right)))))

    return apply_to


def comparison(sign: str) -> Callable[[Values, Values], Values]:
    """Return a comparison of two operands of one type. NaN equals itself and is greater than any number."""

    def compare(left: Values, right: Values) -> Values:
        left, right = as_common_number(left, right)
        type_ = common_type([left.type, right.type])
        type_ = pa.bool_() if pa.types.is_null(type_) else type_
        left, right = (values if values.type == type_ else nulls_like(values, type_) for values in (left, right))
        refuse(pa.types.is_nested(type_) or pa.types.is_dictionary(type_), "a comparison of such values")
        match sign:
            case "<":
                return greater(right, left)
            case "<=":
                return pc.invert(greater(left, right))
            case ">=":
                return pc.invert(greater(right, left))
            case ">":
                return greater(left, right)
        equal = equals(left, right)
        return equal if sign == "=" else pc.invert(equal)

    return compare


def may_be_nan(values: Values) -> bool:
    """Return whether values are floating-point numbers that may include NaN."""
    if not pa.types.is_floating(values.type):
        return False
    return not isinstance(values, pa.Scalar) or (values.is_valid and values.as_py() != values.as_py())


def equals(left: Values, right: Values) -> Values:
    """Return whether operands are equal; two NaN are."""
    equal = pc.equal(left, right)
    if may_be_nan(left) and may_be_nan(right):
        return pc.or_kleene(equal, pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))
    return equal


def greater(left: Values, right: Values) -> Values:
    """Return whether the left operand is greater."""
    result = pc.greater(left, right)
    if not may_be_nan(left):
        return result
    only_left = pc.is_nan(left)
    if pa.types.is_floating(right.type):
        only_left = pc.and_kleene(only_left, pc.invert(pc.is_nan(right)))
    return pc.or_kleene(result, only_left)


def is_among(values: Values, *members: Values) -> Values:
    """Return whether values are in a list; NULL is unknown."""
    refuse(any(not isinstance(member, pa.Scalar) or not member.is_valid for member in members), "IN with NULL")
    member_type = common_type([member.type for member in members])
    listed = pa.array([member.as_py() for member in members], member_type)
    values, listed = as_common_number(values, listed)
    common_type([values.type, listed.type])
    if pa.types.is_floating(listed.type):
        # A sum with 0.0 turns -0.0 into 0.0, from which the look-up would tell it apart.
        values, listed = pc.add(values, 0.0), pc.add(listed, 0.0)
    found = pc.is_in(values, value_set=listed)
    return pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), found)


def null_if(value: Values, other: Values) -> Values:
    """Return NULL where a value equals another."""
    return pc.if_else(pc.fill_null(comparison("=")(value, other), False), pa.scalar(None, value.type), value)


def extreme(sign: str) -> Callable[..., Values]:
    """Return `greatest` or `least`, which pass over NULL."""
    is_better = comparison(sign)

    def better(best: Values, value: Values) -> Values:
        best, value = as_common_number(best, value)
        is_taken = pc.or_(pc.is_null(best), pc.fill_null(is_better(value, best), False))
        return pc.if_else(is_taken, value, best)

    return lambda *values: reduce(better, values)


def divide(left: Values, right: Values) -> Values:
    """Divide as DOUBLE; Spark refuses to divide by zero."""
    divisor = pc.cast(right, pa.float64())
    refuse(pc.equal(divisor, 0.0), "division by zero")
    return pc.divide(pc.cast(left, pa.float64()), divisor)


def divide_whole(left: Values, right: Values) -> Values:
    return pc.divide_checked(pc.cast(left, pa.int64()), pc.cast(right, pa.int64()))


def remainder(*, is_positive: bool) -> Callable[[Values, Values], Values]:
    """Return the remainder of a division: with the sign of the dividend, or of the divisor. Spark judges a division by zero."""

    def divide_all(left: Numbers, right: Numbers) -> Numbers:
        if right.dtype.kind == "i":
            right = np.where(right == -1, 1, right)  # of the least number by -1 there is no quotient
        rest = np.fmod(left, right)
        return np.where(rest < 0, np.fmod(rest + right, right), rest) if is_positive else rest

    def apply_to(left: Values, right: Values) -> Values:
        left, right = as_common_number(left, right)
        refuse(pc.equal(right, pa.scalar(0, right.type)), "a remainder of a division by zero")
        return by_array(divide_all, right.type)(left, right)

    return apply_to


def is_nan(values: Values) -> Values:
    """Return whether values are NaN; NULL is not."""
    return pc.fill_null(pc.is_nan(values), False)


def to_whole(rounded: Callable[[Values], Values]) -> Callable[[Values], Values]:
    """Return `floor` or `ceil`: a BIGINT, the last of its range if it is beyond, and 0 for NaN."""

    def convert(numbers: Numbers) -> Numbers:
        if numbers.dtype.kind == "i":
            return numbers.astype(np.int64)
        whole = np.nan_to_num(rounded(numbers.astype(np.float64)), nan=0.0, posinf=2.0**63, neginf=-(2.0**63))
        limits = np.where(whole >= 2.0**63, 2**63 - 1, -(2**63))
        return np.where(np.abs(whole) >= 2.0**63, limits, np.where(np.abs(whole) >= 2.0**63, 0.0, whole).astype(np.int64))

    return by_array(convert, pa.int64())


def round_to(values: Values, digits: pa.Scalar) -> Values:
    """Round a DOUBLE or an integer to decimal digits, halves away from zero."""
    kind = pa.int64() if pa.types.is_integer(values.type) else pa.float64()
    unit = Decimal(1).scaleb(-max(min(digits.as_py(), MAX_DIGITS), -MAX_DIGITS))

    def round_one(value: Any) -> Any:
        if kind == pa.float64() and not np.isfinite(value):
            return value
        rounded = (Decimal(repr(value)) / unit).to_integral_value(ROUND_HALF_UP) * unit
        return int(rounded) if kind == pa.int64() else float(rounded) + 0.0  # Java's decimals know no -0.0

    return pc.cast(by_row(round_one, kind)(values), values.type)


def to_even(numbers: Numbers) -> Numbers:
    return np.asarray(np.rint(numbers))


def sign_of(numbers: Numbers) -> Numbers:
    return np.asarray(np.where(numbers == 0, numbers, np.sign(numbers)))


def signum(values: Values) -> Values:
    return by_array(sign_of, pa.float64())(pc.cast(values, pa.float64()))


def try_checked(kernel: Callable[[int, int], int]) -> Callable[[Values, Values], Values]:
    """Return an operator of integers that is NULL out of range."""

    def apply_to(left: Values, right: Values) -> Values:
        left, right = as_common_number(left, right)
        limit = 2 ** (left.type.bit_width - 1)

        def checked(one: int, other: int) -> int | None:
            return value if -limit <= (value := kernel(one, other)) < limit else None

        return by_row(checked, left.type)(left, right)

    return apply_to


NUMBER_FUNCTIONS: Final[dict[str, tuple[str, Callable[..., Values]]]] = {
    **{sign: ("*", comparison(sign)) for sign in ORDERED},
    "in": ("*", is_among),
    "between": ("*", lambda value, low, high: pc.and_kleene(comparison(">=")(value, low), comparison("<=")(value, high))),
    "nullif": ("*", null_if),
    "greatest": ("*", extreme(">")),
    "least": ("*", extreme("<")),
    "+": ("m", number_operator(pc.add_checked)),
    "-": ("m", number_operator(pc.subtract_checked)),
    "*": ("m", number_operator(pc.multiply_checked)),
    "/": ("n", divide),
    "div": ("l", divide_whole),
    "%": ("n", remainder(is_positive=False)),
    "pmod": ("n", remainder(is_positive=True)),
    "try_add": ("l", try_checked(int.__add__)),
    "try_subtract": ("l", try_checked(int.__sub__)),
    "try_multiply": ("l", try_checked(int.__mul__)),
    "negative": ("n", pc.negate_checked),
    "abs": ("n", pc.abs_checked),
    "sign": ("n", signum),
    "signum": ("n", signum),
    "floor": ("n", to_whole(np.floor)),
    "ceil": ("n", to_whole(np.ceil)),
    "round": ("ni", round_to),
    "rint": ("r", by_array(to_even, pa.float64())),
    "pi": ("r", lambda: pa.scalar(math.pi)),
    "degrees": ("r", by_array(lambda angles: angles * (180 / math.pi), pa.float64())),
    "radians": ("r", by_array(lambda angles: angles * (math.pi / 180), pa.float64())),
    "sqrt": ("r", pc.sqrt),
    "isnan": ("r", is_nan),
    "is_negative_zero": ("r", is_negative_zero),
    "&": ("l", number_operator(pc.bit_wise_and)),
    "|": ("l", number_operator(pc.bit_wise_or)),
    "^": ("l", number_operator(pc.bit_wise_xor)),
    "shiftright": ("li", lambda values, places: pc.shift_right(values, pc.cast(places, values.type))),
    "join_halves": ("l", join_halves),
}
"""As `expressions.FUNCTIONS`."""
