"""TDengine's single-row functions of text."""

from __future__ import annotations

from typing import Final

from headrace.compute.functions.scalars import Build, ScalarArguments, ScalarFunction
from headrace.compute.nodes import NULL, call, if_, integer, spark_sql, string
from headrace.compute.tdengine.operators import to_whole
from headrace.compute.terms import Term
from headrace.model.types import BIGINT, VARCHAR, DataType, TypeKind


def result_type(arguments: ScalarArguments) -> DataType:
    """Return NCHAR if an argument is NCHAR, else VARCHAR."""
    wide = any(term.type is not None and term.type.kind is TypeKind.NCHAR for term in arguments.terms)
    return DataType(TypeKind.NCHAR) if wide else VARCHAR


def text_function(template: str) -> Build:
    """Return a function of texts with a text result. The template names its arguments x, y, z."""

    def build(arguments: ScalarArguments) -> Term:
        names = {letter: arguments.text(index) for index, letter in zip(range(len(arguments.terms)), "xyz", strict=False)}
        return Term(spark_sql(template, **names), result_type(arguments))

    return build


def integer_function(template: str) -> Build:
    """Return a function of texts with a whole-number result. The template names its arguments x, y, z."""

    def build(arguments: ScalarArguments) -> Term:
        names = {letter: arguments.text(index) for index, letter in zip(range(len(arguments.terms)), "xyz", strict=False)}
        return Term(spark_sql(template, **names).cast("bigint"), BIGINT)

    return build


def length(arguments: ScalarArguments) -> Term:
    """Build `length(x)`: the bytes of text or binary data."""
    term = arguments.terms[0]
    if term.type is not None and term.type.kind is not TypeKind.VARBINARY:
        arguments.text(0)
    return Term(call("octet_length", term.node).cast("bigint"), BIGINT)


def joining_function(function: str) -> Build:
    """Return a function that takes any number of texts."""

    def build(arguments: ScalarArguments) -> Term:
        values = [arguments.text(index) for index in range(len(arguments.terms))]
        return Term(call(function, *values), result_type(arguments))

    return build


def concat_ws(arguments: ScalarArguments) -> Term:
    separator, *values = (arguments.text(index) for index in range(len(arguments.terms)))
    joined = call("concat_ws", separator, *values)
    return Term(if_(call("coalesce", *values).is_null(), NULL, joined), result_type(arguments))


def substring(arguments: ScalarArguments) -> Term:
    """Build `substr(text, position[, length])`. Positions count from 1, negative ones from the end; at 0 the result is empty."""
    value, position = arguments.text(0), to_whole(arguments.terms[1])
    parts = [value, position.cast("int")]
    if len(arguments.terms) > 2:
        parts.append(to_whole(arguments.terms[2]).cast("int"))
    return Term(if_(position.equals(integer(0)), string(""), call("substring", *parts)), result_type(arguments))


def trim(arguments: ScalarArguments) -> Term:
    """Build `trim(text)`, or `trim(text, characters[, side])`."""
    value = arguments.text(0)
    if len(arguments.terms) == 1:
        return Term(spark_sql("trim(BOTH ' ' FROM {})", value), result_type(arguments))
    side = arguments.string(2).upper() if len(arguments.terms) > 2 else "BOTH"
    return Term(spark_sql("trim({} {} FROM {})", side, arguments.text(1), value), result_type(arguments))


def repeat(arguments: ScalarArguments) -> Term:
    """Build `repeat(text, count)`."""
    return Term(spark_sql("repeat({}, CAST({} AS INT))", arguments.text(0), to_whole(arguments.terms[1])), result_type(arguments))


def substring_index(arguments: ScalarArguments) -> Term:
    """Build `substring_index(text, delimiter, count)`."""
    return Term(
        spark_sql("substring_index({}, {}, CAST({} AS INT))", arguments.text(0), arguments.text(1), to_whole(arguments.terms[2])),
        result_type(arguments),
    )


def characters(arguments: ScalarArguments) -> Term:
    """Build `char(code, …)`. A code is one to four bytes of UTF-8, highest byte first. NULL codes are ignored."""
    codes = [spark_sql("coalesce(unhex(hex({} & 4294967295L)), X'')", to_whole(term)) for term in arguments.terms]
    return Term(call("make_valid_utf8", call("concat", *codes).cast("string")), VARCHAR)


def find_in_set(arguments: ScalarArguments) -> Term:
    """Build `find_in_set(text, list[, separator])`: the position in a list, 0 if it is missing."""
    separator = arguments.text(2) if len(arguments.terms) > 2 else string(",")
    return Term(
        spark_sql(
            "CAST(array_position(split({}, concat('\\\\Q', {}, '\\\\E')), {}) AS BIGINT)",
            arguments.text(1),
            separator,
            arguments.text(0),
        ),
        BIGINT,
    )


def to_json(arguments: ScalarArguments) -> Term:
    """Build `to_json(text)`."""
    return Term(arguments.text(0), DataType(TypeKind.JSON))


def first_byte(arguments: ScalarArguments) -> Term:
    """Build `ascii(text)`: the first byte in UTF-8, 0 for empty text."""
    value = arguments.text(0)
    byte = spark_sql("conv(hex(substring(CAST({} AS BINARY), 1, 1)), 16, 10)", value)
    return Term(spark_sql("if({} = '', 0L, CAST({} AS BIGINT))", value, byte), BIGINT)


TEXT_TABLE: Final = (
    ScalarFunction("ascii", 1, 1, first_byte, "first byte of the text in UTF-8; 0 for empty text"),
    ScalarFunction("char", 1, None, characters, "text of the codes, each of one to four bytes in UTF-8; ignores NULL"),
    ScalarFunction("char_length", 1, 1, integer_function("char_length({x})"), "number of characters"),
    ScalarFunction("concat", 2, None, joining_function("concat"), "concatenation of the arguments; NULL if any argument is NULL"),
    ScalarFunction(
        "concat_ws", 3, None, concat_ws, "y, z, … joined with the separator x; ignores NULL, and is NULL if all of them are NULL"
    ),
    ScalarFunction(
        "find_in_set",
        2,
        3,
        find_in_set,
        "position of x in the list y, or 0 if it is not in the list; z is the separator (default: a comma)",
    ),
    ScalarFunction("length", 1, 1, length, "number of bytes in UTF-8"),
    ScalarFunction("lower", 1, 1, text_function("lower({x})"), "x in lower case"),
    ScalarFunction("ltrim", 1, 1, text_function("ltrim({x})"), "x without leading spaces"),
    ScalarFunction("position", 2, 2, integer_function("locate({x}, {y})"), "position of x in y, or 0 if y does not contain x"),
    ScalarFunction("repeat", 2, 2, repeat, "x repeated y times"),
    ScalarFunction("replace", 3, 3, text_function("replace({x}, {y}, {z})"), "x with every y replaced by z"),
    ScalarFunction("rtrim", 1, 1, text_function("rtrim({x})"), "x without trailing spaces"),
    ScalarFunction(
        "substr",
        2,
        3,
        substring,
        "z characters (default: all) from position y; a negative position counts from the end; empty if y is 0",
    ),
    ScalarFunction(
        "substring",
        2,
        3,
        substring,
        "z characters (default: all) from position y; a negative position counts from the end; empty if y is 0",
    ),
    ScalarFunction(
        "substring_index",
        3,
        3,
        substring_index,
        "part of x before the z-th occurrence of y; if z is negative, the part after it, counted from the end",
    ),
    ScalarFunction("to_json", 1, 1, to_json, "text converted to JSON"),
    ScalarFunction("trim", 1, 3, trim, "x without spaces, or without the specified characters, at both ends or at one end"),
    ScalarFunction("upper", 1, 1, text_function("upper({x})"), "x in upper case"),
)
