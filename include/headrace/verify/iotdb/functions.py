"""Functions of one row in the IoTDB language, in a table by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from headrace.model.tree_types import TREE_TYPES
from headrace.model.types import BOOL, DOUBLE, VARCHAR, DataType, TypeKind
from headrace.verify.expressions import Arguments, Rule
from headrace.verify.iotdb.conversions import double
from headrace.verify.iotdb.series import series_calls
from headrace.verify.values import Value, duck_type, quoted, unsupported

NAN: Final = "CAST('NaN' AS DOUBLE)"
INFINITY: Final = "CAST('Infinity' AS DOUBLE)"
INT32: Final = DataType(TypeKind.INT)


def _of_double(template: str) -> Rule:
    return lambda use: Value(template.format(x=double(use.values[0]), nan=NAN, inf=INFINITY), DOUBLE)


def _of_text(template: str, type_: DataType, *names: str) -> Rule:
    def rule(use: Arguments) -> Value:
        if not use.values[0].is_text:
            raise unsupported(f"a function of text with {use.values[0].type}")
        texts = {name: quoted(use.attributes.get(name, "")) for name in names}
        return Value(template.format(x=use.values[0].sql, **texts), type_)

    return rule


def _round(use: Arguments) -> Value:
    """Round half to even, to a number of places."""
    x = double(use.values[0])
    if len(use.values) == 1:
        return Value(f"round_even({x}, 0)", DOUBLE)
    factor = f"CAST('{math.pow(10, use.whole_number(1))!r}' AS DOUBLE)"
    return Value(f"(round_even({x} * {factor}, 0) / {factor})", DOUBLE)


def _number_test(template: str) -> Rule:
    """Return the rule of a test of one number that is not NaN, by attributes that are numbers."""

    def rule(use: Arguments) -> Value:
        x, names = double(use.values[0]), ("lower", "upper", "threshold")
        numbers = {name: f"CAST({quoted(use.attributes.get(name, ''))} AS DOUBLE)" for name in names}
        return Value(f"({template.format(x=x, **numbers)} AND NOT isnan({x}))", BOOL)

    return rule


def _where_present(arguments: Sequence[Value], sql: str, type_: DataType) -> Value:
    present = " OR ".join(f"{value.sql} IS NOT NULL" for value in arguments)
    return Value(f"(CASE WHEN {present} THEN {sql} END)", type_)


def _number(value: float) -> Rule:
    return lambda use: _where_present(use.values, f"CAST('{value!r}' AS DOUBLE)", DOUBLE)


def _typed_constant(use: Arguments) -> Value:
    type_ = TREE_TYPES[use.attributes["type"].upper()]
    return _where_present(use.values, f"CAST({quoted(use.attributes['value'])} AS {duck_type(type_)})", type_)


def _texts(use: Arguments) -> tuple[Value, ...]:
    if not all(value.is_text for value in use.values):
        raise unsupported("a function of text with other types")
    return use.values


def _concat(use: Arguments) -> Value:
    """Join the inputs and the attributes `target…`, these first with `series_behind`. NULL is empty unless all are of points."""
    inputs = [f"coalesce({value.sql}, '')" for value in _texts(use)]
    targets = [quoted(value) for name, value in use.attributes.items() if name.startswith("target")]
    is_behind = use.attributes.get("series_behind", "false").lower() == "true"
    joined = " || ".join(targets + inputs if is_behind else inputs + targets)
    if all(any(series_calls([node])) for node in use.call.arguments):
        return _where_present(use.values, joined, VARCHAR)
    return Value(f"({joined})", VARCHAR)


def _locate(use: Arguments) -> Value:
    """Return where a text begins in another, from 0."""
    (value,) = _texts(use)
    if use.attributes.get("reverse", "false").lower() == "true":
        raise unsupported("locate from the end")
    return Value(f"(CAST(instr({value.sql}, {quoted(use.attributes['target'])}) AS INTEGER) - 1)", INT32)


def _replace(use: Arguments) -> Value:
    """Replace a text that is not empty by another one."""
    value, old, new = _texts(use)
    if not old.constant:
        raise unsupported("replace of an empty text")
    return Value(f"replace({value.sql}, {old.sql}, {new.sql})", VARCHAR)


def _substring(use: Arguments) -> Value:
    """Return the characters from a position on, counted from 1; those before the first are empty."""
    if not use.values[0].is_text:
        raise unsupported("a function of text with other types")
    begin, *length = (use.whole_number(position) for position in range(1, len(use.values)))
    first = max(begin, 1)
    characters = f", {max(begin + length[0] - first, 0)}" if length else ""
    return Value(f"substring({use.values[0].sql}, {first}{characters})", VARCHAR)


FUNCTIONS: Final[dict[str, Rule]] = {
    **{
        name: _of_double(f"{name}({{x}})")
        for name in ("sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "degrees", "radians", "ceil", "floor", "exp")
    },
    **{name: _of_double(f"CASE WHEN abs({{x}}) > 1 THEN {{nan}} ELSE {name}({{x}}) END") for name in ("asin", "acos")},
    **{
        name: _of_double(f"CASE WHEN {{x}} > 0 THEN {name}({{x}}) WHEN {{x}} = 0 THEN -{{inf}} WHEN {{x}} < 0 THEN {{nan}} END")
        for name in ("ln", "log10")
    },
    "sqrt": _of_double("CASE WHEN {x} < 0 THEN {nan} ELSE sqrt({x}) END"),
    "sign": _of_double("CAST(sign({x}) AS DOUBLE)"),
    "abs": lambda use: Value(f"abs({use.values[0].sql})", use.values[0].type),
    "round": _round,
    "in_range": _number_test("{x} BETWEEN {lower} AND {upper}"),
    "on_off": _number_test("{x} >= {threshold}"),
    "length": _of_text("length({x})", INT32),
    "upper": _of_text("upper({x})", VARCHAR),
    "lower": _of_text("lower({x})", VARCHAR),
    "startswith": _of_text("starts_with({x}, {target})", BOOL, "target"),
    "endswith": _of_text("ends_with({x}, {target})", BOOL, "target"),
    "pi": _number(math.pi),
    "e": _number(math.e),
    "const": _typed_constant,
    "concat": _concat,
    "locate": _locate,
    "replace": _replace,
    "substring": _substring,
    "trim": _of_text("regexp_replace({x}, '^[\\x00-\\x20]+|[\\x00-\\x20]+$', '', 'g')", VARCHAR),
    "string_matches": _of_text("regexp_full_match({x}, {regex})", BOOL, "regex"),
    "string_contains": _of_text("contains({x}, {s})", BOOL, "s"),
}
