"""Expressions rendered with Arrow: their values over columns with Spark's semantics, for the types and functions where both agree.

`infer_type` refuses everything else before any row is read. Values that Spark refuses, such as sums out of range, raise
`UnsupportedError` during evaluation: Spark then reports them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.nodes import Column, Node, Operation, PythonCall, UnsupportedError, Value, if_
from headrace.compute.sql_text import unassignable

Values = Any
"""An Arrow array, chunked array, or scalar."""

TYPES: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "void": pa.null(),
}
INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
TIMESTAMP: Final = pa.timestamp("us", "UTC")
LIKE_PATTERN: Final = re.compile(r"\(\?s(i?)\)\\A((?:\.\*?|[A-Za-z0-9]|\\x\{[0-9a-f]+\})*)\\z")
LIKE_LETTER: Final = re.compile(r"\\x\{[0-9a-f]+\}|[A-Za-z]")
ORDERED: Final = ("=", "<>", "<", "<=", ">", ">=")


def infer_type(node: Node, types: Mapping[str, pa.DataType]) -> pa.DataType:
    """Return the type of an expression over columns of these types, or raise `UnsupportedError`."""
    match node:
        case Operation(name="struct" | "array" | "rlike"):
            return compound_type(node, types)
        case Column(name=name):
            if name not in types:
                raise UnsupportedError(name)
            return types[name]
        case Value(type=type_):
            return TYPES[type_]
        case Operation(name="cast" | "try_cast" as name, operands=(operand,), type=type_):
            return cast_type(infer_type(operand, types), type_, is_try=name == "try_cast")
        case Operation(name="case", operands=operands):
            return infer_type(nested(operands), types)
        case Operation(name=name, operands=operands):
            return operation_type(name, [infer_type(operand, types) for operand in operands])
        case PythonCall(operands=operands, type=type_) if type_ in TYPES and operands:
            for operand in operands:
                infer_type(operand, types)
            return TYPES[type_]
    raise UnsupportedError(str(node))


def nested(operands: tuple[Node, ...]) -> Node:
    *branches, result = operands
    for condition, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
        result = if_(condition, value, result)
    return result


def cast_type(source: pa.DataType, name: str, *, is_try: bool) -> pa.DataType:
    """Return the target of a cast that never loses a value, or rounds as Spark does."""
    target = TYPES.get(name)
    if pa.types.is_decimal(source) and name == f"decimal({source.precision},{source.scale})":
        return source
    if target is None:
        raise UnsupportedError(f"cast to {name}")
    widened = pa.types.is_integer(source) and pa.types.is_integer(target) and source.bit_width <= target.bit_width
    converted = is_number(source) and (pa.types.is_floating(target) or (is_try and name in INTEGERS))
    is_text = pa.types.is_integer(source) and name == "string"
    if source == target or pa.types.is_null(source) or widened or converted or is_text:
        return target
    raise UnsupportedError(f"cast of {source} to {name}")


def operation_type(name: str, types: list[pa.DataType]) -> pa.DataType:
    if name in ("and", "or", "not"):
        return require(all(is_condition(type_) for type_ in types), TYPES["boolean"], name)
    if name in ORDERED:
        return require(len(types) == 2 and are_comparable(*types), TYPES["boolean"], name)
    if name == "in":
        return require(len(set(types[1:])) == 1 and are_comparable(types[0], types[1]), TYPES["boolean"], name)
    if name in ("is null", "is not null"):
        return TYPES["boolean"]
    if name in ("+", "-", "*"):
        return require(len(types) == 2 and types[0] == types[1] and types[0] in (pa.float64(), pa.int64()), types[0], name)
    if name in FUNCTIONS:
        return FUNCTIONS[name][0](types)
    raise UnsupportedError(name)


def require(condition: bool, type_: pa.DataType, name: str) -> pa.DataType:
    """Return a type, or raise `UnsupportedError` unless the condition holds."""
    if not condition:
        raise UnsupportedError(f"{name} of these types")
    return type_


def is_condition(type_: pa.DataType) -> bool:
    """Return whether a type is BOOLEAN, or that of NULL."""
    return bool(pa.types.is_boolean(type_) or pa.types.is_null(type_))


def are_comparable(left: pa.DataType, right: pa.DataType) -> bool:
    """Return whether two types compare without a conversion, except of numbers to BIGINT or DOUBLE."""
    if all(pa.types.is_integer(type_) or pa.types.is_floating(type_) for type_ in (left, right)):
        return True
    return bool(left == right and left in (TYPES["string"], TYPES["binary"], TYPES["boolean"], TIMESTAMP))


def common_type(types: list[pa.DataType]) -> pa.DataType:
    """Return the type of values of which all but NULL have the same."""
    present = {type_ for type_ in types if not pa.types.is_null(type_)}
    if len(present) != 1:
        raise UnsupportedError("values of several types")
    return present.pop()


def evaluate(node: Node, columns: Mapping[str, Values]) -> Values:
    """Return the values of an expression whose type can be inferred; a scalar if it reads no column.

    Raise `UnsupportedError` if Spark would refuse a value.
    """
    match node:
        case Operation(name="struct" | "array" | "rlike"):
            return make_compound(node, columns)
        case Column(name=name):
            return columns[name]
        case Value(value=value, type=type_):
            return pa.scalar(value, TYPES[type_])
        case Operation(name="try_cast", operands=(operand,), type="tinyint" | "smallint" | "int" | "bigint" as type_):
            return truncate(evaluate(operand, columns), TYPES[type_])
        case Operation(name="cast" | "try_cast", operands=(operand,), type=type_):
            values = evaluate(operand, columns)
            return values if pa.types.is_decimal(values.type) else pc.cast(values, TYPES[type_], safe=False)
        case Operation(name="case", operands=operands):
            return evaluate(nested(operands), columns)
        case Operation(name=name, operands=operands):
            return apply(name, [evaluate(operand, columns) for operand in operands])
        case PythonCall(operands=operands, apply=code):
            return apply_code(code, [evaluate(operand, columns) for operand in operands])
    raise UnsupportedError(str(node))


def is_number(type_: pa.DataType) -> bool:
    """Return whether a type is of integers or floating-point numbers."""
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def apply_code(code: Callable[..., pa.Array], arguments: list[Values]) -> Values:
    """Return what Python code gives for arrays; a scalar if all arguments are."""
    size = next((len(values) for values in arguments if not isinstance(values, pa.Scalar)), None)
    length = 1 if size is None else size
    arrays = [pa.repeat(values, length) if isinstance(values, pa.Scalar) else values for values in arguments]
    values = code(*(array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array for array in arrays))
    return values[0] if size is None else values


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


def apply(name: str, values: list[Values]) -> Values:
    """Apply an operator or function to the values of its operands."""
    try:
        if name in ORDERED:
            return compare(name, *values)
        return FUNCTIONS[name][1](*values) if name in FUNCTIONS else OPERATORS[name](*values)
    except pa.ArrowInvalid as error:
        raise UnsupportedError(str(error)) from None


def compound_type(node: Operation, types: Mapping[str, pa.DataType]) -> pa.DataType:
    """Return the type of `struct`, of a list of one `named_struct`, or of a comparison with a constant pattern."""
    if node.name == "rlike":
        like_pattern(node.operands[1])
        return require(infer_type(node.operands[0], types) == TYPES["string"], TYPES["boolean"], "rlike")
    type_ = pa.struct([(name, infer_type(part, types)) for name, part in struct_fields(node)])
    return list_of(type_) if node.name == "array" else type_


def make_compound(node: Operation, columns: Mapping[str, Values]) -> Values:
    if node.name == "rlike":
        return pc.match_substring_regex(evaluate(node.operands[0], columns), like_pattern(node.operands[1]))
    fields = struct_fields(node)
    values = pc.make_struct(*(evaluate(part, columns) for _, part in fields), field_names=[name for name, _ in fields])
    if node.name == "struct":
        return values
    if isinstance(values, pa.Scalar):
        return pa.scalar([values], list_of(values.type))
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return pa.ListArray.from_arrays(pa.array(range(len(array) + 1), pa.int32()), array, list_of(array.type))


def list_of(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


def struct_fields(node: Operation) -> list[tuple[str, Node]]:
    """Return name and expression of each field of `struct`, which Spark names, or of a list of one `named_struct`."""
    match node:
        case Operation(name="struct", operands=operands):
            return [(part.name if isinstance(part, Column) else f"col{number}", part) for number, part in enumerate(operands, 1)]
        case Operation(operands=(Operation(name="named_struct", operands=operands),)):
            names = [str(name.value) for name in operands[::2] if isinstance(name, Value)]
            return list(zip(names, operands[1::2], strict=True))
    raise UnsupportedError(str(node))


def is_negative_zero(values: Values) -> Values:
    return pc.and_(pc.equal(values, 0.0), pc.less(pc.atan2(values, -1.0), 0.0))


def check_length(values: Values, limit: pa.Scalar) -> Values:
    """Return texts of at most `limit` bytes; Spark cuts longer ones."""
    lengths = pc.binary_length(values)
    longest = (lengths if isinstance(lengths, pa.Scalar) else pc.max(lengths)).as_py()
    if longest is not None and longest > limit.as_py():
        raise UnsupportedError("a text that is cut")
    return values


def check_assigned(converted: Values, values: Values, message: pa.Scalar) -> Values:
    """Return values as a column holds them.

    Raises:
        DataError: A value could not be converted.
    """
    is_lost = pc.and_(pc.is_null(converted), pc.is_valid(values))
    if (is_lost if isinstance(is_lost, pa.Scalar) else pc.any(is_lost)).as_py():
        lost = values if isinstance(values, pa.Scalar) else values.filter(is_lost)[0]
        raise unassignable(str(lost.as_py())[:60] + message.as_py())
    return converted


def join_halves(high: Values, low: Values) -> Values:
    """Return `high` times 2^32 plus `low`, NULL if out of range."""
    # Carry what exceeds the lower half.
    carried = pc.add(high, pc.shift_right(low, pa.scalar(32, pa.int64())))
    fits = pc.and_(pc.less(carried, 2**31), pc.greater_equal(carried, -(2**31)))
    upper = pc.shift_left(pc.if_else(fits, carried, pa.scalar(None, pa.int64())), pa.scalar(32, pa.int64()))
    return pc.bit_wise_or(upper, pc.bit_wise_and(low, pa.scalar(2**32 - 1, pa.int64())))


def as_common_number(left: Values, right: Values) -> tuple[Values, Values]:
    """Return two numbers of one type: DOUBLE, as in Spark, if one of them is a floating-point number."""
    if left.type != right.type and (pa.types.is_floating(left.type) or pa.types.is_floating(right.type)):
        return pc.cast(left, pa.float64(), safe=False), pc.cast(right, pa.float64(), safe=False)
    return left, right


def compare(sign: str, left: Values, right: Values) -> Values:
    """Compare two operands. NaN equals itself and is greater than any number."""
    left, right = as_common_number(left, right)
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
    if any(not member.is_valid for member in members):
        raise UnsupportedError("IN with NULL")
    listed = pa.array([member.as_py() for member in members], members[0].type)
    values, listed = as_common_number(values, listed)
    if pa.types.is_floating(listed.type):
        # A sum with 0.0 turns -0.0 into 0.0, from which the look-up would tell it apart.
        values, listed = pc.add(values, 0.0), pc.add(listed, 0.0)
    if values.type != listed.type:
        values, listed = pc.cast(values, pa.int64()), pc.cast(listed, pa.int64())
    found = pc.is_in(values, value_set=listed)
    return pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), found)


def choose(condition: Values, first: Values, second: Values) -> Values:
    """Return the first value where a condition is true, and the second where it is false or unknown."""
    type_ = common_type([first.type, second.type])
    return pc.if_else(pc.fill_null(condition, False), typed(first, type_), typed(second, type_))


def typed(values: Values, type_: pa.DataType) -> Values:
    """Return values of which all but NULL have this type."""
    return values if values.type == type_ else pa.scalar(None, type_)


def null_if(value: Values, other: Values) -> Values:
    """Return NULL where a value equals another."""
    return choose(equals(value, other), pa.scalar(None, value.type), value)


def divide(left: Values, right: Values) -> Values:
    """Divide as DOUBLE; Spark refuses to divide by zero."""
    divisor = pc.cast(right, pa.float64())
    is_zero = pc.equal(divisor, 0.0)
    if (is_zero if isinstance(is_zero, pa.Scalar) else pc.any(is_zero)).as_py():
        raise UnsupportedError("division by zero")
    return pc.divide(pc.cast(left, pa.float64()), divisor)


def is_nan(values: Values) -> Values:
    """Return whether values are NaN; NULL is not."""
    return pc.fill_null(pc.is_nan(values), False)


def to_ticks(microseconds: int) -> Callable[[Values], Values]:
    """Return the conversion of timestamps to ticks, rounding down."""

    def convert(values: Values) -> Values:
        units = pc.cast(values, pa.int64())
        if microseconds == 1:
            return units
        # Arrow divides toward zero.
        quotients = pc.divide(units, microseconds)
        is_rounded_up = pc.and_(pc.less(units, 0), pc.not_equal(pc.multiply(quotients, microseconds), units))
        return pc.subtract(quotients, pc.cast(is_rounded_up, pa.int64()))

    return convert


def to_timestamp(microseconds: int) -> Callable[[Values], Values]:
    """Return the conversion of ticks to timestamps."""
    return lambda values: pc.cast(pc.multiply_checked(pc.cast(values, pa.int64()), microseconds), TIMESTAMP)


def same_type(*accepted: pa.DataType) -> Callable[[list[pa.DataType]], pa.DataType]:
    return lambda types: require(len(types) == 1 and types[0] in accepted, types[0], "a function")


def constant_type(result: pa.DataType, *accepted: pa.DataType) -> Callable[[list[pa.DataType]], pa.DataType]:
    return lambda types: require(len(types) == 1 and types[0] in accepted, result, "a function")


def if_type(types: list[pa.DataType]) -> pa.DataType:
    return require(len(types) == 3 and is_condition(types[0]), common_type(types[1:]), "if")


def null_if_type(types: list[pa.DataType]) -> pa.DataType:
    return require(len(types) == 2 and are_comparable(*types), types[0], "nullif")


def quotient_type(types: list[pa.DataType]) -> pa.DataType:
    """Return the type of `/`: DOUBLE for DOUBLE, and for integers and DOUBLE mixed."""
    is_accepted = len(types) == 2 and all(pa.types.is_integer(type_) or type_ == pa.float64() for type_ in types)
    return require(is_accepted, pa.float64(), "/")


def assigned_type(types: list[pa.DataType]) -> pa.DataType:
    return require(not any(pa.types.is_dictionary(type_) for type_ in types), types[0], "a value for a column")


def integer_type(types: list[pa.DataType]) -> pa.DataType:
    return require(len(set(types)) == 1 and pa.types.is_integer(types[0]), types[0], "a function of integers")


def exact_type(name: str, *accepted: pa.DataType) -> Callable[[list[pa.DataType]], pa.DataType]:
    """Return the type rule of a function of arguments of these types, whose result has the type of the first."""
    return lambda types: require(types == list(accepted), accepted[0], name)


def like_pattern(pattern: Node) -> str:
    """Return the regular expression of a constant pattern of LIKE for Arrow, or raise `UnsupportedError` for any other.

    Java ignores the case of ASCII letters only, where Arrow would ignore that of all.
    """
    match = LIKE_PATTERN.fullmatch(pattern.value) if isinstance(pattern, Value) and isinstance(pattern.value, str) else None
    if match is None:
        raise UnsupportedError(str(pattern))
    ignores_case, parts = match.groups()
    if ignores_case:
        parts = LIKE_LETTER.sub(lambda part: f"[{part[0].lower()}{part[0].upper()}]" if len(part[0]) == 1 else part[0], parts)
    return f"(?s)\\A{parts}\\z"


def remainder(left: Values, right: Values) -> Values:
    """Return the remainder of a division, with the sign of the dividend. Spark judges a division by zero."""

    def divide_all(left: pa.Array, right: pa.Array) -> pa.Array:
        if pc.any(pc.equal(right, 0.0)).as_py():
            raise UnsupportedError("a remainder of a division by zero")
        with np.errstate(invalid="ignore"):  # of infinity it is NaN, as in Spark
            values = np.fmod(*(side.fill_null(1.0).to_numpy(zero_copy_only=False) for side in (left, right)))
        is_valid = pc.and_(left.is_valid(), right.is_valid())
        return pc.if_else(is_valid, pa.array(values), None)

    return apply_code(divide_all, [left, right])


def join_texts(*texts: Values) -> Values:
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


def all_texts(types: list[pa.DataType]) -> pa.DataType:
    return require(all(type_ == TYPES["string"] for type_ in types), TYPES["string"], "concat")


FLOATS: Final = (pa.float32(), pa.float64())
OPERATORS: Final[dict[str, Callable[..., Values]]] = {
    "and": lambda *values: reduce(pc.and_kleene, values),
    "or": lambda *values: reduce(pc.or_kleene, values),
    "not": pc.invert,
    "in": is_among,
    "is null": pc.is_null,
    "is not null": pc.is_valid,
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
FUNCTIONS: Final[dict[str, tuple[Callable[[list[pa.DataType]], pa.DataType], Callable[..., Values]]]] = {
    "/": (quotient_type, divide),
    "%": (exact_type("%", pa.float64(), pa.float64()), remainder),
    "concat": (all_texts, join_texts),
    "if": (if_type, choose),
    "coalesce": (common_type, pc.coalesce),
    "nullif": (null_if_type, null_if),
    "greatest": (integer_type, pc.max_element_wise),
    "least": (integer_type, pc.min_element_wise),
    "negative": (same_type(*FLOATS, pa.int64()), pc.negate_checked),
    "&": (integer_type, pc.bit_wise_and),
    "|": (integer_type, pc.bit_wise_or),
    "^": (integer_type, pc.bit_wise_xor),
    "shiftright": (
        exact_type("shiftright", pa.int64(), pa.int32()),
        lambda values, places: pc.shift_right(values, pc.cast(places, values.type)),
    ),
    "abs": (same_type(*FLOATS, pa.int64()), pc.abs),
    "isnan": (constant_type(TYPES["boolean"], *FLOATS), is_nan),
    "sqrt": (same_type(pa.float64()), pc.sqrt),
    "unix_millis": (constant_type(pa.int64(), TIMESTAMP), to_ticks(1000)),
    "unix_micros": (constant_type(pa.int64(), TIMESTAMP), to_ticks(1)),
    "is_negative_zero": (constant_type(TYPES["boolean"], pa.float64()), is_negative_zero),
    "join_halves": (exact_type("halves", pa.int64(), pa.int64()), join_halves),
    "left_bytes": (exact_type("a text with a limit", pa.string(), pa.int32()), check_length),
    "octet_length": (constant_type(pa.int32(), pa.string(), pa.binary()), pc.binary_length),
    "char_length": (constant_type(pa.int32(), pa.string()), pc.utf8_length),
    "assigned": (assigned_type, check_assigned),
    "timestamp_millis": (constant_type(TIMESTAMP, pa.int32(), pa.int64()), to_timestamp(1000)),
    "timestamp_micros": (constant_type(TIMESTAMP, pa.int32(), pa.int64()), to_timestamp(1)),
}
