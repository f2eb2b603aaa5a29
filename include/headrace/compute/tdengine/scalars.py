"""TDengine's mathematical functions, and the table of all single-row functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headrace.compute.functions.scalars import Build, ScalarArguments, ScalarFunction, finite, number
from headrace.compute.nodes import NULL, Node, call, double, either, if_, integer
from headrace.compute.tdengine.operators import arithmetic, common_type, convert
from headrace.compute.tdengine.scalars_text import TEXT_TABLE
from headrace.compute.tdengine.scalars_time import TIME_TABLE
from headrace.compute.terms import Term
from headrace.compute.types import is_text, spark_type
from headrace.model.types import BIGINT, DOUBLE, FLOATS, TypeKind


def real_function(function: str) -> Build:
    """Return a function of one number with a DOUBLE result, NULL outside its domain."""
    return lambda arguments: Term(finite(call(function, number(arguments.terms[0]))), DOUBLE)


def same_type_function(function: str) -> Build:
    """Return a function of one number whose result has the type of its argument."""

    def build(arguments: ScalarArguments) -> Term:
        term = arguments.terms[0]
        number(term)
        type_ = term.type or DOUBLE
        wide = "bigint" if type_.is_integer and type_.kind is not TypeKind.UBIGINT else spark_type(type_)
        return Term(call(function, term.node.cast(wide)).cast(spark_type(type_)), type_)

    return build


def integral_function(apply: Callable[[Node], Node]) -> Build:
    """Return a function that rounds fractions: integers do not change, FLOAT and DOUBLE keep their type."""

    def build(arguments: ScalarArguments) -> Term:
        term = arguments.terms[0]
        if term.type is not None and term.type.kind not in (*FLOATS, TypeKind.DECIMAL):
            number(term)
            return Term(term.node, term.type)
        type_ = term.type or DOUBLE
        return Term(apply(number(term)).cast(spark_type(type_)), type_)

    return build


def round_number(arguments: ScalarArguments) -> Term:
    """Build `round(x[, digits])`, halves away from zero."""
    digits = arguments.integer(1) if len(arguments.terms) > 1 else 0
    return integral_function(lambda x: call("round", x, integer(digits)))(arguments)


def truncate_number(arguments: ScalarArguments) -> Term:
    """Build `truncate(x, digits)`, toward zero."""
    scale = double(10.0 ** arguments.integer(1))

    def cut(x: Node) -> Node:
        scaled = x * scale
        return if_(scaled < integer(0), call("ceil", scaled), call("floor", scaled)) / scale

    return integral_function(cut)(arguments)


def logarithm(arguments: ScalarArguments) -> Term:
    """Build `log(x)`, which is natural, or `log(x, base)`."""
    values = [call("ln", number(term)) for term in arguments.terms]
    return Term(finite(values[0] if len(values) == 1 else values[0] / values[1]), DOUBLE)


def power(arguments: ScalarArguments) -> Term:
    """Build `power(x, y)`."""
    return Term(finite(call("power", *map(number, arguments.terms))), DOUBLE)


def extreme_function(function: str) -> Build:
    """Return a function that picks the greatest or least argument, NULL if one is NULL."""

    def build(arguments: ScalarArguments) -> Term:
        type_ = common_type([term.type for term in arguments.terms]) or DOUBLE
        values = [convert(term, type_) for term in arguments.terms]
        return Term(if_(either(*(value.is_null() for value in values)), NULL, call(function, *values)), type_)

    return build


def random(arguments: ScalarArguments) -> Term:
    """Build `rand([seed])`."""
    return Term(call("rand", *([integer(arguments.integer(0))] if arguments.terms else [])), DOUBLE)


def checksum(arguments: ScalarArguments) -> Term:
    """Build `crc32(x)`."""
    term = arguments.terms[0]
    return Term(call("crc32", term.node.cast("string" if term.type and not is_text(term.type) else "binary")), BIGINT)


MATH_TABLE: Final = (
    ScalarFunction("abs", 1, 1, same_type_function("abs"), "absolute value"),
    ScalarFunction("acos", 1, 1, real_function("acos"), "arc cosine, in radians"),
    ScalarFunction("asin", 1, 1, real_function("asin"), "arc sine, in radians"),
    ScalarFunction("atan", 1, 1, real_function("atan"), "arc tangent, in radians"),
    ScalarFunction("ceil", 1, 1, integral_function(lambda x: call("ceil", x)), "smallest integer that is at least x"),
    ScalarFunction("cos", 1, 1, real_function("cos"), "cosine of x in radians"),
    ScalarFunction("crc32", 1, 1, checksum, "CRC-32 checksum"),
    ScalarFunction("degrees", 1, 1, real_function("degrees"), "radians converted to degrees"),
    ScalarFunction("exp", 1, 1, real_function("exp"), "e raised to the power x"),
    ScalarFunction("floor", 1, 1, integral_function(lambda x: call("floor", x)), "largest integer that is at most x"),
    ScalarFunction(
        "greatest",
        2,
        None,
        extreme_function("greatest"),
        "largest argument; NULL if any argument is NULL; compared as text if any argument is text",
    ),
    ScalarFunction(
        "least",
        2,
        None,
        extreme_function("least"),
        "smallest argument; NULL if any argument is NULL; compared as text if any argument is text",
    ),
    ScalarFunction("ln", 1, 1, logarithm, "natural logarithm"),
    ScalarFunction("log", 1, 2, logarithm, "natural logarithm, or logarithm to base y"),
    ScalarFunction(
        "mod", 2, 2, lambda arguments: arithmetic("%", *arguments.terms), "remainder of x divided by y, with the sign of x"
    ),
    ScalarFunction("pi", 0, 0, lambda _: Term(call("pi"), DOUBLE), "the number π"),
    ScalarFunction("pow", 2, 2, power, "x raised to the power y"),
    ScalarFunction("power", 2, 2, power, "x raised to the power y"),
    ScalarFunction("radians", 1, 1, real_function("radians"), "degrees converted to radians"),
    ScalarFunction("rand", 0, 1, random, "random number from 0 to 1 for each row; x is a seed"),
    ScalarFunction("round", 1, 2, round_number, "x rounded to y decimal digits (default: 0), halves away from zero"),
    ScalarFunction("sign", 1, 1, same_type_function("sign"), "sign of x: -1, 0 or 1"),
    ScalarFunction("sin", 1, 1, real_function("sin"), "sine of x in radians"),
    ScalarFunction("sqrt", 1, 1, real_function("sqrt"), "square root"),
    ScalarFunction("tan", 1, 1, real_function("tan"), "tangent of x in radians"),
    ScalarFunction("trunc", 2, 2, truncate_number, "x truncated to y decimal digits"),
    ScalarFunction("truncate", 2, 2, truncate_number, "x truncated to y decimal digits"),
)

SCALARS: Final[Mapping[str, ScalarFunction]] = {function.name: function for function in (*MATH_TABLE, *TEXT_TABLE, *TIME_TABLE)}
