"""Values as texts, and the types of texts: kernels that the formats share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.types import BIGINT, BOOL, DOUBLE, VARCHAR, DataType
from headrace.storage.sandbox import open_database

MAX_EXACT: Final = float(2**53)
"""DOUBLE has all whole numbers below this one."""
TO_ESCAPE: Final = r'["\\\x00-\x1f]'
NON_FINITE: Final = {'"NaN"': "nan", '"Infinity"': "inf", '"-Infinity"': "-inf"}
TYPES: Final[dict[pa.DataType, DataType]] = {pa.bool_(): BOOL, pa.int64(): BIGINT, pa.float64(): DOUBLE, pa.string(): VARCHAR}


def as_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return values in one piece."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def scalar_sql(expression: str, values: pa.Array) -> pa.Array:
    """Return what DuckDB makes of each value `v`."""
    with open_database() as connection:
        connection.register("input", pa.table({"v": values}))
        return as_array(connection.sql(f"SELECT {expression} AS v FROM input").to_arrow_table()["v"])


def json_strings(texts: pa.Array) -> pa.Array:
    """Return texts as strings of JSON, in quotes."""
    if pc.any(pc.match_substring_regex(texts, TO_ESCAPE)).as_py():
        return pc.cast(scalar_sql("to_json(v)", texts), pa.string())
    return pc.binary_join_element_wise('"', texts, '"', "")


def plain_texts(values: pa.Array) -> pa.Array:
    """Return values as texts: numbers, `true` and `false`, dates, bytes as `0x…`, and texts as they are."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return scalar_sql("'0x' || lower(hex(v))", values)
    return pc.cast(values, pa.string())


def is_quoted(kind: pa.DataType) -> bool:
    """Return whether JSON has values of a type in quotes."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def json_values(values: pa.Array) -> pa.Array:
    """Return values as JSON; NULL stays NULL. Numbers that JSON lacks are the strings `NaN`, `Infinity` and `-Infinity`."""
    texts = plain_texts(values)
    if is_quoted(values.type):
        return json_strings(texts)
    if pa.types.is_floating(values.type) and not pc.all(pc.is_finite(values)).as_py():
        for written, text in NON_FINITE.items():
            texts = pc.if_else(pc.equal(texts, text), written, texts)
    return texts


def from_json_values(texts: pa.Array, *, keeps_integers: bool) -> Iterator[pa.Array]:
    """Yield the values of JSON scalars, an array for each of their types, in which the others are NULL.

    Numbers become DOUBLE; whole numbers become INT64 if that is asked for, or if DOUBLE cannot hold them all.
    """
    texts = replaced(texts, "null", None)
    numbers = cast_or_none(texts, pa.float64())
    if numbers is not None:
        yield as_numbers(texts, numbers, keeps_integers=keeps_integers)
        return
    yield from mixed_values(texts, keeps_integers=keeps_integers)


def mixed_values(texts: pa.Array, *, keeps_integers: bool) -> Iterator[pa.Array]:
    for written, text in NON_FINITE.items():
        texts = replaced(texts, written, text)
    is_text = pc.starts_with(texts, '"')
    is_bool = pc.is_in(texts, pa.array(["true", "false"]))
    is_number = pc.invert(pc.or_(is_text, is_bool))
    if pc.any(is_number).as_py():
        numbers = only(texts, is_number)
        yield as_numbers(numbers, pc.cast(numbers, pa.float64()), keeps_integers=keeps_integers)
    if pc.any(is_bool).as_py():
        yield pc.equal(only(texts, is_bool), "true")
    if pc.any(is_text).as_py():
        yield unescaped(only(texts, is_text))


def as_numbers(texts: pa.Array, numbers: pa.Array, *, keeps_integers: bool) -> pa.Array:
    """Return numbers as INT64 if they are whole and have to be; otherwise as they are."""
    largest = pc.max(pc.abs(numbers)).as_py() or 0.0
    if keeps_integers or largest >= MAX_EXACT:
        integers = cast_or_none(texts, pa.int64())
        return numbers if integers is None else integers
    return numbers


def unescaped(strings: pa.Array) -> pa.Array:
    """Return what strings of JSON, in quotes, say."""
    if pc.any(pc.match_substring(strings, "\\")).as_py():
        return scalar_sql("json_extract_string(v, '$')", strings)
    return pc.utf8_slice_codeunits(strings, 1, -1)


def from_plain_texts(texts: pa.Array, *, keeps_integers: bool) -> pa.Array:
    """Return texts as the first of numbers, BOOLEAN and TEXT that all of them are."""
    numbers = cast_or_none(texts, pa.float64())
    if numbers is not None:
        return as_numbers(texts, numbers, keeps_integers=keeps_integers)
    if pc.all(pc.is_in(pc.drop_null(texts), pa.array(["true", "false"]))).as_py():
        return pc.equal(texts, "true")
    return texts


def cast_or_none(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return values in another type; None if that is not possible for all of them."""
    try:
        return pc.cast(values, kind)
    except pa.ArrowInvalid:
        return None


def replaced(texts: pa.Array, old: str, new: str | None) -> pa.Array:
    """Return texts with another one in place of a certain one."""
    is_old = pc.equal(texts, old)
    return pc.if_else(is_old, pa.scalar(new, pa.string()), texts) if pc.any(is_old).as_py() else texts


def only(values: pa.Array, mask: pa.Array) -> pa.Array:
    """Return values with NULL where a mask is not true."""
    return pc.if_else(mask, values, pa.scalar(None, values.type))
