"""IoTDB's functions of one row in DuckDB's SQL."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headrace.model.tree_types import TREE_TYPES
from headrace.model.types import BOOL, DOUBLE, VARCHAR, DataType, TypeKind
from headrace.verify.values import Value, duck_type, quoted, unsupported

NAN: Final = "CAST('NaN' AS DOUBLE)"
INFINITY: Final = "CAST('Infinity' AS DOUBLE)"
POINT_COLUMN: Final = re.compile(r"(?<![\"\w])p\d+\b")
"""A column of the points that a time-series function computes."""
INT32: Final = DataType(TypeKind.INT)
NUMBERS: Final = (TypeKind.INT, TypeKind.BIGINT, TypeKind.FLOAT, TypeKind.DOUBLE)
FLOATS: Final = (TypeKind.FLOAT, TypeKind.DOUBLE)

Attributes = Mapping[str, str]
Scalar = Callable[[Sequence[Value], Attributes], Value]


def double(value: Value) -> str:
    """Return a number as DOUBLE."""
    if value.type is not None and value.type.kind not in (*NUMBERS, TypeKind.TIMESTAMP):
        raise unsupported(f"arithmetic with {value.type}")
    return f"CAST({value.sql} AS DOUBLE)"


def of_double(template: str) -> Scalar:
    """Return a function of one number, DOUBLE."""
    return lambda arguments, _: Value(template.format(x=double(arguments[0]), nan=NAN, inf=INFINITY), DOUBLE)


def of_text(template: str, type_: DataType, *names: str) -> Scalar:
    """Return a function of one text, and of attributes."""

    def build(arguments: Sequence[Value], attributes: Attributes) -> Value:
        if not arguments[0].is_text:
            raise unsupported(f"a function of text with {arguments[0].type}")
        texts = {name: quoted(attributes.get(name, "")) for name in names}
        return Value(template.format(x=arguments[0].sql, **texts), type_)

    return build


def absolute(arguments: Sequence[Value], _: Attributes) -> Value:
    """Return a number without its sign."""
    (value,) = arguments
    return Value(f"abs({value.sql})", value.type)


def rounded(arguments: Sequence[Value], _: Attributes) -> Value:
    """Round half to even, to a number of places."""
    x = double(arguments[0])
    if len(arguments) == 1:
        return Value(f"round_even({x}, 0)", DOUBLE)
    places = arguments[1].constant
    if not isinstance(places, int):
        raise unsupported("round to a number of places that is not a constant")
    factor = f"CAST('{math.pow(10, places)!r}' AS DOUBLE)"
    return Value(f"(round_even({x} * {factor}, 0) / {factor})", DOUBLE)


def number(attributes: Attributes, name: str) -> str:
    """Return an attribute as DOUBLE."""
    return f"CAST({quoted(attributes.get(name, ''))} AS DOUBLE)"


def in_range(arguments: Sequence[Value], attributes: Attributes) -> Value:
    """Return whether a number lies between two others."""
    x = double(arguments[0])
    low, high = number(attributes, "lower"), number(attributes, "upper")
    return Value(f"({x} BETWEEN {low} AND {high} AND NOT isnan({x}))", BOOL)


def on_off(arguments: Sequence[Value], attributes: Attributes) -> Value:
    """Return whether a number reaches a threshold."""
    x = double(arguments[0])
    return Value(f"({x} >= {number(attributes, 'threshold')} AND NOT isnan({x}))", BOOL)


def where_present(arguments: Sequence[Value], sql: str, type_: DataType) -> Value:
    """Return a value in the rows in which an argument has one."""
    present = " OR ".join(f"{value.sql} IS NOT NULL" for value in arguments)
    return Value(f"(CASE WHEN {present} THEN {sql} END)", type_)


def number_constant(value: float) -> Scalar:
    """Return a function that is a constant, DOUBLE."""
    return lambda arguments, _: where_present(arguments, f"CAST('{value!r}' AS DOUBLE)", DOUBLE)


def typed_constant(arguments: Sequence[Value], attributes: Attributes) -> Value:
    """Return the attribute `value` with the type `type`."""
    type_ = TREE_TYPES[attributes["type"].upper()]
    return where_present(arguments, f"CAST({quoted(attributes['value'])} AS {duck_type(type_)})", type_)


def concatenated(arguments: Sequence[Value], attributes: Attributes) -> Value:
    """Join the inputs and the attributes `target…`, these first with `series_behind`. NULL is empty unless all are of points."""
    inputs = [f"coalesce({value.sql}, '')" for value in texts(arguments)]
    targets = [quoted(value) for name, value in attributes.items() if name.startswith("target")]
    is_behind = attributes.get("series_behind", "false").lower() == "true"
    joined = " || ".join(targets + inputs if is_behind else inputs + targets)
    if all(POINT_COLUMN.search(value.sql) for value in arguments):
        return where_present(arguments, joined, VARCHAR)
    return Value(f"({joined})", VARCHAR)


def located(arguments: Sequence[Value], attributes: Attributes) -> Value:
    """Return where a text begins in another, from 0."""
    (value,) = texts(arguments)
    if attributes.get("reverse", "false").lower() == "true":
        raise unsupported("locate from the end")
    return Value(f"(CAST(instr({value.sql}, {quoted(attributes['target'])}) AS INTEGER) - 1)", INT32)


def replaced(arguments: Sequence[Value], _: Attributes) -> Value:
    """Replace a text that is not empty by another one."""
    value, old, new = texts(arguments)
    if not old.constant:
        raise unsupported("replace of an empty text")
    return Value(f"replace({value.sql}, {old.sql}, {new.sql})", VARCHAR)


def part_of(arguments: Sequence[Value], _: Attributes) -> Value:
    """Return the characters from a position on, counted from 1; those before the first are empty."""
    (value,) = texts(arguments[:1])
    begin, *length = (argument.constant for argument in arguments[1:])
    if not isinstance(begin, int) or not all(isinstance(number, int) for number in length):
        raise unsupported("substring at a position that is not a constant")
    first = max(begin, 1)
    characters = "" if not length else f", {max(begin + int(str(length[0])) - first, 0)}"
    return Value(f"substring({value.sql}, {first}{characters})", VARCHAR)


def texts(arguments: Sequence[Value]) -> Sequence[Value]:
    """Return arguments, which have to be text."""
    if not all(value.is_text for value in arguments):
        raise unsupported("a function of text with other types")
    return arguments


SCALARS: Final[dict[str, Scalar]] = {
    **{
        name: of_double(f"{name}({{x}})")
        for name in ("sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "degrees", "radians", "ceil", "floor", "exp")
    },
    **{name: of_double(f"CASE WHEN abs({{x}}) > 1 THEN {{nan}} ELSE {name}({{x}}) END") for name in ("asin", "acos")},
    **{
        name: of_double(f"CASE WHEN {{x}} > 0 THEN {name}({{x}}) WHEN {{x}} = 0 THEN -{{inf}} WHEN {{x}} < 0 THEN {{nan}} END")
        for name in ("ln", "log10")
    },
    "sqrt": of_double("CASE WHEN {x} < 0 THEN {nan} ELSE sqrt({x}) END"),
    "sign": of_double("CAST(sign({x}) AS DOUBLE)"),
    "abs": absolute,
    "round": rounded,
    "in_range": in_range,
    "on_off": on_off,
    "length": of_text("length({x})", INT32),
    "upper": of_text("upper({x})", VARCHAR),
    "lower": of_text("lower({x})", VARCHAR),
    "startswith": of_text("starts_with({x}, {target})", BOOL, "target"),
    "endswith": of_text("ends_with({x}, {target})", BOOL, "target"),
    "pi": number_constant(math.pi),
    "e": number_constant(math.e),
    "const": typed_constant,
    "concat": concatenated,
    "locate": located,
    "replace": replaced,
    "substring": part_of,
    "trim": of_text("regexp_replace({x}, '^[\\x00-\\x20]+|[\\x00-\\x20]+$', '', 'g')", VARCHAR),
    "string_matches": of_text("regexp_full_match({x}, {regex})", BOOL, "regex"),
    "string_contains": of_text("contains({x}, {s})", BOOL, "s"),
}


def cast_to(value: Value, type_: DataType) -> Value:
    """Return CAST, of the conversions that cannot fail for a row."""
    source, target = value.type.kind if value.type else None, type_.kind
    if source is None or source is target:
        return Value(f"CAST({value.sql} AS {type_.kind.value})" if source is None else value.sql, type_)
    if source in (*NUMBERS, TypeKind.TIMESTAMP) and target is TypeKind.BOOL:
        return Value(f"({value.sql} <> 0)", BOOL)
    if source is TypeKind.DATE and target is TypeKind.BOOL:
        # No date has the number 0.
        return Value(f"(CASE WHEN {value.sql} IS NOT NULL THEN true END)", BOOL)
    if source in (*NUMBERS, TypeKind.BOOL) and target in FLOATS:
        return Value(f"CAST({value.sql} AS {target.value})", type_)
    if source in (TypeKind.BOOL, TypeKind.INT) and target in (TypeKind.INT, TypeKind.BIGINT):
        return Value(f"CAST({value.sql} AS {'INTEGER' if target is TypeKind.INT else 'BIGINT'})", type_)
    if source in FLOATS and target in (TypeKind.INT, TypeKind.BIGINT):
        whole = f"CASE WHEN isnan({value.sql}) THEN 0 ELSE floor({double(value)} + 0.5) END"
        return Value(f"CAST({whole} AS {'INTEGER' if target is TypeKind.INT else 'BIGINT'})", type_)
    if source in (TypeKind.BOOL, TypeKind.INT, TypeKind.BIGINT) and target in (TypeKind.VARCHAR, TypeKind.NCHAR):
        return Value(f"CAST({value.sql} AS VARCHAR)", type_)
    raise unsupported(f"CAST of {value.type} to {type_}")
