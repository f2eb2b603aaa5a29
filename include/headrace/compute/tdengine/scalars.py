"""Single-row functions in one table: what they take, what they give, and their Spark SQL. Mathematics here, the rest beside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.compute.functions.scalars import Arguments, Build, ScalarFunction, finite, number
from headrace.compute.tdengine.operators import arithmetic, common, converted
from headrace.compute.tdengine.scalars_text import TEXT_TABLE
from headrace.compute.tdengine.scalars_time import TIME_TABLE
from headrace.compute.terms import Term
from headrace.compute.types import is_text, spark_type
from headrace.model.types import BIGINT, DOUBLE, FLOATS, TypeKind


def mathematical(sql: str) -> Build:
    """A function of one number that gives DOUBLE; NULL outside its domain."""
    return lambda given: Term(finite(sql.format(x=number(given.terms[0]))), DOUBLE)


def keeping(sql: str) -> Build:
    """A function of one number whose result has its type."""

    def build(given: Arguments) -> Term:
        term = given.terms[0]
        number(term)
        type_ = term.type or DOUBLE
        wide = "bigint" if type_.is_integer and type_.kind is not TypeKind.UBIGINT else spark_type(type_)
        return Term(f"CAST({sql.format(x=f'CAST({term.sql} AS {wide})')} AS {spark_type(type_)})", type_)

    return build


def integral(sql: str) -> Build:
    """A function that makes fractions whole: integers stay as they are, FLOAT and DOUBLE keep their type."""

    def build(given: Arguments) -> Term:
        term = given.terms[0]
        if term.type is not None and term.type.kind not in (*FLOATS, TypeKind.DECIMAL):
            number(term)
            return Term(term.sql, term.type)
        type_ = term.type or DOUBLE
        return Term(f"CAST({sql.format(x=number(term))} AS {spark_type(type_)})", type_)

    return build


def rounded(given: Arguments) -> Term:
    """`round(x[, digits])`, halves away from zero."""
    digits = given.integer(1) if len(given.terms) > 1 else 0
    return integral(f"round({{x}}, {digits})")(given)


def truncated(given: Arguments) -> Term:
    """`truncate(x, digits)`, towards zero."""
    scale = f"{10.0 ** given.integer(1)!r}D"
    cut = f"{{x}} * {scale}"
    return integral(f"(if({cut} < 0, ceil({cut}), floor({cut})) / {scale})")(given)


def logarithm(given: Arguments) -> Term:
    """`log(x)` is natural; `log(x, base)`."""
    value = number(given.terms[0])
    return Term(finite(f"ln({value})" if len(given.terms) == 1 else f"ln({value}) / ln({number(given.terms[1])})"), DOUBLE)


def power(given: Arguments) -> Term:
    return Term(finite(f"power({number(given.terms[0])}, {number(given.terms[1])})"), DOUBLE)


def extreme(function: str) -> Build:
    """`greatest` and `least`: NULL where an argument is NULL."""

    def build(given: Arguments) -> Term:
        type_ = common([term.type for term in given.terms]) or DOUBLE
        values = [converted(term, type_) for term in given.terms]
        missing = " OR ".join(f"{value} IS NULL" for value in values)
        return Term(f"if({missing}, NULL, {function}({', '.join(values)}))", type_)

    return build


def random(given: Arguments) -> Term:
    return Term(f"rand({given.integer(0)})" if given.terms else "rand()", DOUBLE)


def checksum(given: Arguments) -> Term:
    term = given.terms[0]
    return Term(f"crc32(CAST({term.sql} AS {'STRING' if term.type and not is_text(term.type) else 'BINARY'}))", BIGINT)


MATH_TABLE: Final = (
    ScalarFunction("abs", 1, 1, keeping("abs({x})"), "absolute value"),
    ScalarFunction("acos", 1, 1, mathematical("acos({x})"), "arc cosine, in radians"),
    ScalarFunction("asin", 1, 1, mathematical("asin({x})"), "arc sine, in radians"),
    ScalarFunction("atan", 1, 1, mathematical("atan({x})"), "arc tangent, in radians"),
    ScalarFunction("ceil", 1, 1, integral("ceil({x})"), "least whole number not below"),
    ScalarFunction("cos", 1, 1, mathematical("cos({x})"), "cosine of radians"),
    ScalarFunction("crc32", 1, 1, checksum, "CRC-32 checksum"),
    ScalarFunction("degrees", 1, 1, mathematical("degrees({x})"), "radians as degrees"),
    ScalarFunction("exp", 1, 1, mathematical("exp({x})"), "e to the power x"),
    ScalarFunction("floor", 1, 1, integral("floor({x})"), "greatest whole number not above"),
    ScalarFunction(
        "greatest",
        2,
        None,
        extreme("greatest"),
        "greatest argument; NULL where one is NULL; with text among them they are compared as text",
    ),
    ScalarFunction(
        "least", 2, None, extreme("least"), "least argument; NULL where one is NULL; with text among them they are compared as text"
    ),
    ScalarFunction("ln", 1, 1, logarithm, "natural logarithm"),
    ScalarFunction("log", 1, 2, logarithm, "natural logarithm, or to the base y"),
    ScalarFunction("mod", 2, 2, lambda given: arithmetic("%", *given.terms), "remainder of a division, with the sign of x"),
    ScalarFunction("pi", 0, 0, lambda _: Term("pi()", DOUBLE), "the number π"),
    ScalarFunction("pow", 2, 2, power, "x to the power y"),
    ScalarFunction("power", 2, 2, power, "x to the power y"),
    ScalarFunction("radians", 1, 1, mathematical("radians({x})"), "degrees as radians"),
    ScalarFunction("rand", 0, 1, random, "a random number from 0 to 1, another in each row; x makes it the same each time"),
    ScalarFunction("round", 1, 2, rounded, "rounded to y decimal digits (0), halves away from zero"),
    ScalarFunction("sign", 1, 1, keeping("sign({x})"), "-1, 0 or 1"),
    ScalarFunction("sin", 1, 1, mathematical("sin({x})"), "sine of radians"),
    ScalarFunction("sqrt", 1, 1, mathematical("sqrt({x})"), "square root"),
    ScalarFunction("tan", 1, 1, mathematical("tan({x})"), "tangent of radians"),
    ScalarFunction("trunc", 2, 2, truncated, "cut to y decimal digits"),
    ScalarFunction("truncate", 2, 2, truncated, "cut to y decimal digits"),
)

SCALARS: Final[Mapping[str, ScalarFunction]] = {function.name: function for function in (*MATH_TABLE, *TEXT_TABLE, *TIME_TABLE)}
