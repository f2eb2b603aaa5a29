"""IoTDB's scalar functions of numbers, constants, conditions and text."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.compute.functions.scalars import ScalarArguments, ScalarFunction
from headrace.compute.iotdb.operators import check_regexp
from headrace.compute.iotdb.types import (
    BOOLEAN,
    EVERY,
    EXECUTION_ERROR,
    FLOATING,
    INT32,
    INT64,
    NUMERIC,
    TEXT,
    TEXTUAL,
    Attributes,
    check_inputs,
    type_error,
    type_name,
)
from headrace.compute.nodes import (
    FALSE,
    NULL,
    TRUE,
    Node,
    Value,
    bigint,
    both,
    call,
    case,
    columns_of,
    double,
    either,
    if_,
    integer,
    negated,
    string,
)
from headrace.compute.terms import Term, literal, to_double, to_string
from headrace.compute.types import spark_type
from headrace.model.tree_types import TREE_TYPES
from headrace.model.types import DOUBLE, DataType, TypeKind

ANY_KIND: Final = tuple(kind for kind in TypeKind if kind in EVERY)
CONSTANT_TYPES: Final = ("INT32", "INT64", "FLOAT", "DOUBLE", "BOOLEAN", "TEXT", "STRING", "DATE", "TIMESTAMP")
NAN: Final = double(math.nan)
MAX_CHARACTERS: Final = 2**31 - 1
MAX_PLACES: Final = 308
"""Powers of 10 beyond it are no DOUBLE."""
WHOLE_DOUBLES: Final = float(2**52)
"""From here on, DOUBLE has no fractions."""


@dataclass(frozen=True, slots=True)
class RowFunction(ScalarFunction):
    """A time-series function with one point per row; `accepts` lists the types of its inputs."""

    accepts: tuple[TypeKind, ...] = field(default=NUMERIC, kw_only=True)

    def term(self, arguments: ScalarArguments) -> Term:
        """Return the function applied. Raise `TypeMismatchError` if number or types of inputs do not fit."""
        check_inputs(self.name, [term.type for term in arguments.terms], self.accepts, self.min_arguments, self.max_arguments)
        return self.build(arguments)


def number_function(build: Callable[[Node], Node]) -> Callable[[ScalarArguments], Term]:
    return lambda arguments: Term(build(to_double(arguments.terms[0])), DOUBLE)


def rounding_function(direction: str) -> Callable[[ScalarArguments], Term]:
    """Return the builder that rounds to a DOUBLE without fraction. What is rounded up to zero is -0.0."""

    def build(x: Node) -> Node:
        rounded = -call("floor", -x).cast("double") if direction == "ceil" else call("floor", x).cast("double")
        return if_(both(call("abs", x) < double(WHOLE_DOUBLES), call("<>", x, double(0))), rounded, x)

    return number_function(build)


def logarithm(function: str) -> Callable[[ScalarArguments], Term]:
    zero = double(0)

    def build(x: Node) -> Node:
        below = if_(x.equals(zero), double(-math.inf), NAN)
        return case([(x > zero, call(function, x)), (x <= zero, below)])

    return number_function(build)


def absolute(arguments: ScalarArguments) -> Term:
    """Return the absolute value in the same type, NULL out of its range."""
    (term,) = arguments.terms
    if term.type is None or term.type.kind in FLOATING:
        return Term(call("abs", to_double(term) if term.type is None else term.node), term.type or DOUBLE)
    zero = bigint(0) if term.type == INT64 else integer(0)
    return Term(if_(term.node < integer(0), call("try_subtract", zero, term.node), term.node), term.type)


def constant_where_present(terms: Sequence[Term], value: Term) -> Term:
    return Term(if_(either(*(term.node.is_not_null() for term in terms)), value.node, NULL), value.type)


def constant(arguments: ScalarArguments) -> Term:
    """Return `CONST`: the attribute `value` converted to the attribute `type`."""
    attributes = Attributes(arguments.attributes)
    value, name = attributes.text("value"), attributes.text("type")
    if name not in CONSTANT_TYPES:
        raise type_error("the given value type is not supported.", hint=f"use one of {', '.join(CONSTANT_TYPES)}")
    return constant_where_present(arguments.terms, Term(constant_sql(attributes, value, TREE_TYPES[name]), TREE_TYPES[name]))


def constant_sql(attributes: Attributes, value: str, type_: DataType) -> Node:
    if type_.kind in TEXTUAL:
        return literal(value).node
    if type_.kind is TypeKind.DATE:
        return Value(read_date(value), "date")
    if type_ == BOOLEAN:
        return TRUE if value.lower() == "true" else FALSE
    if type_.kind in FLOATING:
        return double(attributes.real("value")).cast(spark_type(type_))
    number = attributes.integer("value")
    minimum, maximum = (INT64 if type_.kind is TypeKind.TIMESTAMP else type_).integer_range()
    if not minimum <= number <= maximum:
        raise type_error(f'For input string: "{value}"', hint=f"{value} is out of range; use a wider type")
    return bigint(number).cast("bigint" if type_.kind is TypeKind.TIMESTAMP else spark_type(type_))


def read_date(value: str) -> dt.date:
    """Read a DATE. Raise `TypeMismatchError` unless it is written as YYYY-MM-DD."""
    try:
        return dt.datetime.strptime(value, "%Y-%m-%d").date()
    except ValueError:
        raise type_error("Invalid date format. Please use YYYY-MM-DD format.", hint="write it as 2024-01-31") from None


def number_constant(value: float) -> Callable[[ScalarArguments], Term]:
    return lambda arguments: constant_where_present(arguments.terms, Term(double(value), DOUBLE))


def in_range(arguments: ScalarArguments) -> Term:
    """Return `IN_RANGE`: whether a number is from `lower` to `upper`; NaN is not."""
    attributes = Attributes(arguments.attributes)
    lower, upper = attributes.real("lower"), attributes.real("upper")
    if upper < lower:
        raise type_error("Upper can not be smaller than lower.", hint="exchange them")
    x = to_double(arguments.terms[0])
    return Term(both(x >= double(lower), x <= double(upper), negated(call("isnan", x))), BOOLEAN)


def on_off(arguments: ScalarArguments) -> Term:
    """Return `ON_OFF`: whether a number is at least `threshold`; NaN is not."""
    x, threshold = to_double(arguments.terms[0]), Attributes(arguments.attributes).real("threshold")
    return Term(both(x >= double(threshold), negated(call("isnan", x))), BOOLEAN)


def round_to(arguments: ScalarArguments) -> Term:
    """Return `ROUND(x[, places])`: halves to the even neighbor, as Java's `rint`."""
    term = arguments.terms[0]
    if term.type is not None and term.type.kind not in NUMERIC:
        message = "Input series of Scalar function [ROUND] only supports numeric data types [INT32, INT64, FLOAT, DOUBLE]"
        raise type_error(message, hint="cast it, as in ROUND(CAST(x AS DOUBLE))")
    x = to_double(term)
    if len(arguments.terms) == 1:
        return Term(call("rint", x), DOUBLE)
    places = arguments.integer(1)
    if abs(places) > MAX_PLACES:
        # 10 to this power is 0 or infinite, so Java's quotient is not a number.
        return Term(if_(x.is_null(), NULL, double(math.nan)), DOUBLE)
    factor = double(math.pow(10, places))
    return Term(call("rint", x * factor) / factor, DOUBLE)


def math_function(name: str, summary: str, build: Callable[[ScalarArguments], Term] | None = None) -> RowFunction:
    """Return a function of one number; without `build` it is Spark's of that name."""
    return RowFunction(name, 1, 1, build or number_function(lambda x: call(name, x)), summary)


MATH_TABLE: Final = (
    *(math_function(name, f"{summary} of radians") for name, summary in (("sin", "sine"), ("cos", "cosine"), ("tan", "tangent"))),
    math_function("asin", "arc sine in radians, NaN outside of -1 to 1"),
    math_function("acos", "arc cosine in radians, NaN outside of -1 to 1"),
    math_function("atan", "arc tangent in radians"),
    math_function("sinh", "hyperbolic sine"),
    math_function("cosh", "hyperbolic cosine"),
    math_function("tanh", "hyperbolic tangent"),
    math_function("degrees", "radians as degrees"),
    math_function("radians", "degrees as radians"),
    math_function("abs", "number without its sign, of the same type", absolute),
    math_function("sign", "1, 0 or -1", number_function(lambda x: call("signum", x))),
    math_function("ceil", "least whole number not below x, as DOUBLE", rounding_function("ceil")),
    math_function("floor", "greatest whole number not above x, as DOUBLE", rounding_function("floor")),
    math_function("exp", "e to the power of x"),
    math_function("ln", "natural logarithm; of 0 minus infinity, below NaN", logarithm("ln")),
    math_function("log10", "logarithm to base 10; of 0 minus infinity, below NaN", logarithm("log10")),
    math_function("sqrt", "square root, NaN below 0"),
    RowFunction(
        "const", 1, None, constant, "the attribute `value`, of the type `type`, where an input has a value", accepts=ANY_KIND
    ),
    RowFunction("pi", 1, None, number_constant(math.pi), "π where an input has a value", accepts=ANY_KIND),
    RowFunction("e", 1, None, number_constant(math.e), "e where an input has a value", accepts=ANY_KIND),
    RowFunction("in_range", 1, 1, in_range, "whether x is from `lower` to `upper`"),
    RowFunction("on_off", 1, 1, on_off, "whether x is at least `threshold`"),
    ScalarFunction("round", 1, 2, round_to, "x rounded to y decimal places, halves to the even neighbor"),
)

TEXT_ONLY: Final = (TypeKind.VARCHAR,)
POINT_COLUMN: Final = re.compile(r"__[sw]\d+")
"""A column of the points that a time-series function returns."""
JAVA_BLANKS: Final = string(r"^[\x00-\x20]+|[\x00-\x20]+$")


def contains(arguments: ScalarArguments) -> Term:
    """Return `STRING_CONTAINS`: whether the text contains the attribute `s`."""
    part = string(Attributes(arguments.attributes).text("s"))
    return Term(call("contains", to_string(arguments.terms[0]), part), BOOLEAN)


def matches(arguments: ScalarArguments) -> Term:
    """Return whether the whole text matches a regular expression."""
    pattern = Attributes(arguments.attributes).text("regex")
    check_regexp(pattern)
    anchored = string(r"\A(?:" + pattern + r")\z")
    return Term(call("matches", to_string(arguments.terms[0]), anchored), BOOLEAN)


def locate(arguments: ScalarArguments) -> Term:
    """Return where the target first occurs, or last with `reverse`, from 0; -1 if it does not."""
    attributes, x = Attributes(arguments.attributes), to_string(arguments.terms[0])
    target = attributes.text("target")
    if not attributes.flag("reverse", False):
        return Term(call("instr", x, string(target)) - integer(1), INT32)
    position = call("instr", call("reverse", x), string(target[::-1]))
    first = call("char_length", x) - position + integer(1) - integer(len(target))
    return Term(if_(position.equals(integer(0)), integer(-1), first), INT32)


def affix_function(function: str) -> Callable[[ScalarArguments], Term]:
    def build(arguments: ScalarArguments) -> Term:
        target = string(Attributes(arguments.attributes).text("target"))
        return Term(call(function, to_string(arguments.terms[0]), target), BOOLEAN)

    return build


def concat(arguments: ScalarArguments) -> Term:
    """Return the inputs followed by the attributes `target…`; with `series_behind` these come first. NULL is empty text.

    Of time-series functions alone, there is a result only where one has a point, as there are no other rows.
    """
    inputs = [call("coalesce", to_string(term), string("")) for term in arguments.terms]
    targets = [string(value) for name, value in arguments.attributes if name.startswith("target")]
    inputs_last = Attributes(arguments.attributes).flag("series_behind", False)
    text = call("concat", *(targets + inputs if inputs_last else inputs + targets))
    if not all(any(map(POINT_COLUMN.fullmatch, columns_of(term.node))) for term in arguments.terms):
        return Term(text, TEXT)
    return Term(if_(either(*(term.node.is_not_null() for term in arguments.terms)), text, NULL), TEXT)


def strcmp(arguments: ScalarArguments) -> Term:
    """Return the difference of the first pair of different characters, else of the lengths."""
    return Term(call("strcmp", *map(to_string, arguments.terms)), INT32)


def text_function(function: str, *constants: Node, type_: DataType = TEXT) -> Callable[[ScalarArguments], Term]:
    return lambda arguments: Term(call(function, to_string(arguments.terms[0]), *constants), type_)


def scalar_text(arguments: ScalarArguments) -> Node:
    """Return the first argument of REPLACE and SUBSTRING, which must be text."""
    term = arguments.terms[0]
    if term.type is not None and term.type.kind not in TEXTUAL:
        message = f"Unsupported data type {type_name(term.type)} for function {arguments.function.upper()}."
        raise type_error(message, hint=f"cast it, as in {arguments.function}(CAST(x AS TEXT), …)")
    return to_string(term)


def replace_text(arguments: ScalarArguments) -> Term:
    """Return `REPLACE(x, from, to)`; an empty `from` matches before, between and after all characters."""
    x = scalar_text(arguments)
    if arguments.terms[1].type is None:
        raise type_error(
            "Function REPLACE must specify from and to component.", hint="write REPLACE(x, 'from', 'to')", status=EXECUTION_ERROR
        )
    old, new = arguments.string(1), arguments.string(2)
    return Term(call("replace", x, string(old), string(new)) if old else call("surround", x, string(new)), TEXT)


def substring(arguments: ScalarArguments) -> Term:
    """Return `SUBSTRING(x, begin[, length])`, counted from 1; what lies before the text counts as empty."""
    x, begin = scalar_text(arguments), arguments.integer(1)
    length = arguments.integer(2) if len(arguments.terms) > 2 else None
    if begin < 0 or (length is not None and length < 0):
        message = "Argument exception,the scalar function [SUBSTRING] beginPosition and length must be greater than 0"
        raise type_error(message, hint="count positions from 1", status=EXECUTION_ERROR)
    first = min(max(begin, 1), MAX_CHARACTERS)
    if length is None:
        return Term(call("substr", x, integer(first)), TEXT)
    return Term(call("substr", x, integer(first), integer(min(max(begin + length - first, 0), MAX_CHARACTERS))), TEXT)


def text_row_function(
    name: str, build: Callable[[ScalarArguments], Term], summary: str, accepts: tuple[TypeKind, ...] = TEXTUAL
) -> RowFunction:
    return RowFunction(name, 1, 1, build, summary, accepts=accepts)


TEXT_TABLE: Final = (
    text_row_function("string_contains", contains, "whether the text contains the attribute `s`", TEXT_ONLY),
    text_row_function("string_matches", matches, "whether the whole text matches the regular expression `regex`", TEXT_ONLY),
    text_row_function("length", text_function("char_length", type_=INT32), "characters"),
    text_row_function(
        "locate", locate, "where `target` begins, counted from 0, with `reverse=true` the last time; -1 if it does not occur"
    ),
    text_row_function("startswith", affix_function("startswith"), "whether the text begins with `target`"),
    text_row_function("endswith", affix_function("endswith"), "whether the text ends with `target`"),
    RowFunction(
        "concat",
        1,
        None,
        concat,
        "inputs, NULL as empty text, then the attributes `target1`, …; with `series_behind=true` these come first",
        accepts=TEXTUAL,
    ),
    text_row_function("upper", text_function("upper"), "text in capitals"),
    text_row_function("lower", text_function("lower"), "text in small letters"),
    text_row_function("trim", text_function("regexp_replace", JAVA_BLANKS, string("")), "text without blanks around it"),
    RowFunction("strcmp", 2, 2, strcmp, "0 of equal texts, negative if the first comes first", accepts=TEXTUAL),
    ScalarFunction("replace", 3, 3, replace_text, "text x with every y replaced by z"),
    ScalarFunction("substring", 2, 3, substring, "text x from character y on, of z characters"),
)
