"""Single-row functions of text."""

from __future__ import annotations

from typing import Final

from headrace.compute.functions.scalars import Arguments, Build, ScalarFunction
from headrace.compute.tdengine.operators import whole
from headrace.compute.terms import Term
from headrace.model.types import BIGINT, VARCHAR, DataType, TypeKind


def result_type(given: Arguments) -> DataType:
    """NCHAR where an argument is NCHAR, else VARCHAR."""
    wide = any(term.type is not None and term.type.kind is TypeKind.NCHAR for term in given.terms)
    return DataType(TypeKind.NCHAR) if wide else VARCHAR


def textual(sql: str) -> Build:
    """A function of texts that gives text."""

    def build(given: Arguments) -> Term:
        names = {letter: given.text(place) for place, letter in zip(range(len(given.terms)), "xyz", strict=False)}
        return Term(sql.format(**names), result_type(given))

    return build


def measured(sql: str) -> Build:
    """A function of texts that gives a whole number."""

    def build(given: Arguments) -> Term:
        names = {letter: given.text(place) for place, letter in zip(range(len(given.terms)), "xyz", strict=False)}
        return Term(f"CAST({sql.format(**names)} AS BIGINT)", BIGINT)

    return build


def length(given: Arguments) -> Term:
    """Bytes of text or binary."""
    term = given.terms[0]
    if term.type is not None and term.type.kind is not TypeKind.VARBINARY:
        given.text(0)
    return Term(f"CAST(octet_length({term.sql}) AS BIGINT)", BIGINT)


def joined(function: str) -> Build:
    def build(given: Arguments) -> Term:
        values = [given.text(place) for place in range(len(given.terms))]
        return Term(f"{function}({', '.join(values)})", result_type(given))

    return build


def joined_with(given: Arguments) -> Term:
    """`concat_ws(mark, text, …)`."""
    mark, *values = (given.text(place) for place in range(len(given.terms)))
    return Term(f"if(coalesce({', '.join(values)}) IS NULL, NULL, concat_ws({mark}, {', '.join(values)}))", result_type(given))


def part(given: Arguments) -> Term:
    """`substr(text, position[, length])`: positions count from 1, negative ones from the end, at 0 there is nothing."""
    value, position = given.text(0), whole(given.terms[1])
    arguments = [value, f"CAST({position} AS INT)"]
    if len(given.terms) > 2:
        arguments.append(f"CAST({whole(given.terms[2])} AS INT)")
    return Term(f"if({position} = 0, '', substring({', '.join(arguments)}))", result_type(given))


def trimmed(given: Arguments) -> Term:
    """`trim(text)`, or with characters and side."""
    value = given.text(0)
    if len(given.terms) == 1:
        return Term(f"trim(BOTH ' ' FROM {value})", result_type(given))
    side = given.words(2).upper() if len(given.terms) > 2 else "BOTH"
    return Term(f"trim({side} {given.text(1)} FROM {value})", result_type(given))


def repeated(given: Arguments) -> Term:
    return Term(f"repeat({given.text(0)}, CAST({whole(given.terms[1])} AS INT))", result_type(given))


def between_marks(given: Arguments) -> Term:
    """`substring_index(text, mark, count)`."""
    return Term(f"substring_index({given.text(0)}, {given.text(1)}, CAST({whole(given.terms[2])} AS INT))", result_type(given))


def characters(given: Arguments) -> Term:
    """`char(code, …)`: a code is one to four bytes of UTF-8, its highest byte first; NULL ones are left out."""
    codes = [f"coalesce(unhex(hex({whole(term)} & 4294967295L)), X'')" for term in given.terms]
    return Term(f"make_valid_utf8(CAST(concat({', '.join(codes)}) AS STRING))", VARCHAR)


def in_list(given: Arguments) -> Term:
    """`find_in_set(text, list[, mark])`: its place in a list, 0 where it is not in it."""
    mark = given.text(2) if len(given.terms) > 2 else "','"
    return Term(
        f"CAST(array_position(split({given.text(1)}, concat('\\\\Q', {mark}, '\\\\E')), {given.text(0)}) AS BIGINT)", BIGINT
    )


def json(given: Arguments) -> Term:
    """`to_json(text)`."""
    return Term(given.text(0), DataType(TypeKind.JSON))


def first_byte(given: Arguments) -> Term:
    """`ascii(text)`: the first byte in UTF-8, 0 if there is none."""
    value = given.text(0)
    byte = f"conv(hex(substring(CAST({value} AS BINARY), 1, 1)), 16, 10)"
    return Term(f"if({value} = '', 0L, CAST({byte} AS BIGINT))", BIGINT)


TEXT_TABLE: Final = (
    ScalarFunction("ascii", 1, 1, first_byte, "first byte of the text in UTF-8, 0 of empty text"),
    ScalarFunction("char", 1, None, characters, "text of these codes, each of one to four bytes of UTF-8; NULL is left out"),
    ScalarFunction("char_length", 1, 1, measured("char_length({x})"), "number of characters"),
    ScalarFunction("concat", 2, None, joined("concat"), "texts one after another; NULL where one is NULL"),
    ScalarFunction("concat_ws", 3, None, joined_with, "texts joined by the first, NULL ones left out; NULL where all are"),
    ScalarFunction(
        "find_in_set", 2, 3, in_list, "place of x in the list y, 0 where it is not in it; z (a comma) separates the list"
    ),
    ScalarFunction("length", 1, 1, length, "number of bytes, in UTF-8"),
    ScalarFunction("lower", 1, 1, textual("lower({x})"), "lower case"),
    ScalarFunction("ltrim", 1, 1, textual("ltrim({x})"), "without leading spaces"),
    ScalarFunction("position", 2, 2, measured("locate({x}, {y})"), "place of x in y, 0 where it is not in it"),
    ScalarFunction("repeat", 2, 2, repeated, "x so many times"),
    ScalarFunction("replace", 3, 3, textual("replace({x}, {y}, {z})"), "x with z for every y"),
    ScalarFunction("rtrim", 1, 1, textual("rtrim({x})"), "without trailing spaces"),
    ScalarFunction(
        "substr",
        2,
        3,
        part,
        "z characters from place y on; without z all; a negative place counts from the end, at 0 there is nothing",
    ),
    ScalarFunction(
        "substring",
        2,
        3,
        part,
        "z characters from place y on; without z all; a negative place counts from the end, at 0 there is nothing",
    ),
    ScalarFunction(
        "substring_index", 3, 3, between_marks, "what is before the zth y; with a negative z what is after it, counted from the end"
    ),
    ScalarFunction("to_json", 1, 1, json, "text as JSON"),
    ScalarFunction("trim", 1, 3, trimmed, "without spaces, or the characters given, at both ends or one"),
    ScalarFunction("upper", 1, 1, textual("upper({x})"), "upper case"),
)
