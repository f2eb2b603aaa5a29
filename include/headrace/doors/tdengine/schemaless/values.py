"""Values of fields: texts whose suffixes and quotes say their types, as TDengine reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.types import FLOATS, DataType, TypeKind
from headrace.pipes.formats.line_protocol import BOOLEANS, TRUE
from headrace.pipes.formats.scalars import cast_or_none, only, scalar_sql

SUFFIXES: Final = {
    "f64": TypeKind.DOUBLE,
    "f32": TypeKind.FLOAT,
    "i": TypeKind.BIGINT,
    "i64": TypeKind.BIGINT,
    "i32": TypeKind.INT,
    "i16": TypeKind.SMALLINT,
    "i8": TypeKind.TINYINT,
    "u": TypeKind.UBIGINT,
    "u64": TypeKind.UBIGINT,
    "u32": TypeKind.UINT,
    "u16": TypeKind.USMALLINT,
    "u8": TypeKind.UTINYINT,
}
PREFIXES: Final = {'"': TypeKind.VARCHAR, 'L"': TypeKind.NCHAR, 'B"': TypeKind.VARBINARY, 'G"': TypeKind.GEOMETRY}
INTEGER: Final = r"[+-]?\d+"
NUMBER: Final = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
PLAIN: Final = re.compile(NUMBER)
FIRST_SUFFIX: Final = re.compile(rf"{NUMBER}({'|'.join(sorted(SUFFIXES, key=len, reverse=True))})")
TEXTS: Final = (TypeKind.VARCHAR, TypeKind.NCHAR, TypeKind.GEOMETRY)


@dataclass(frozen=True, slots=True)
class TypedValues:
    """The values of one type among those of a column; the others are NULL. `mask` is true for them, None if it is all."""

    kind: TypeKind
    values: pa.Array
    mask: pa.Array | None = None

    @property
    def type(self) -> DataType:
        """The type that holds them, with the length of the longest text."""
        if self.kind is TypeKind.VARBINARY or self.kind in TEXTS:
            lengths = pc.utf8_length(self.values) if self.kind is TypeKind.NCHAR else pc.binary_length(self.values)
            return DataType(self.kind, max(pc.max(lengths).as_py() or 1, 1))
        return DataType(self.kind)


def typed_values(texts: pa.Array) -> Iterator[TypedValues]:
    """Yield the values of texts by type. Those that no element has in its mask are invalid."""
    # A cast that fails costs far more than one that does not.
    numbers = cast_or_none(texts, pa.float64()) if PLAIN.fullmatch(texts[0].as_py()) else None
    if numbers is not None and pc.all(pc.is_finite(numbers)).as_py():
        yield TypedValues(TypeKind.DOUBLE, numbers)
        return
    alike = of_one_suffix(texts)
    if alike is not None:
        yield alike
        return
    yield from mixed_values(texts)


def of_one_suffix(texts: pa.Array) -> TypedValues | None:
    """Return numbers that all have the suffix of the first; None if they have not, or one is no number of that type."""
    match = FIRST_SUFFIX.fullmatch(texts[0].as_py())
    if match is None or not pc.all(pc.ends_with(texts, match[1])).as_py():
        return None
    values = converted(pc.utf8_slice_codeunits(texts, 0, -len(match[1])), SUFFIXES[match[1]])
    return None if values is None else TypedValues(SUFFIXES[match[1]], values)


def mixed_values(texts: pa.Array) -> Iterator[TypedValues]:
    masks = {TypeKind.DOUBLE: pc.match_substring_regex(texts, rf"^{NUMBER}(?:f64)?$")}
    for suffix, kind in SUFFIXES.items():
        number = INTEGER if suffix[0] in "iu" else NUMBER
        mask = pc.match_substring_regex(texts, rf"^{number}{suffix}$")
        masks[kind] = pc.or_(masks[kind], mask) if kind in masks else mask
    for kind, mask in masks.items():
        if pc.any(mask).as_py():
            plain = pc.replace_substring_regex(only(texts, mask), r"[iuf](?:8|16|32|64)?$", "")
            yield in_range(plain, kind, mask)
    is_bool = pc.is_in(texts, BOOLEANS)
    if pc.any(is_bool).as_py():
        yield TypedValues(TypeKind.BOOL, pc.is_in(only(texts, is_bool), TRUE), is_bool)
    for prefix, kind in PREFIXES.items():
        mask = pc.and_(pc.match_substring_regex(texts, f"^(?i:{prefix})"), pc.ends_with(texts, '"'))
        mask = pc.and_(mask, pc.greater_equal(pc.utf8_length(texts), len(prefix) + 1))
        if pc.any(mask).as_py():
            yield TypedValues(kind, quoted_values(only(texts, mask), len(prefix), kind), mask)


def in_range(texts: pa.Array, kind: TypeKind, mask: pa.Array) -> TypedValues:
    """Return numbers as values of a type, without those beyond its range."""
    values = converted(texts, kind)
    if values is not None:
        return TypedValues(kind, values, mask)
    if kind in FLOATS:
        fits = scalar_sql("isfinite(TRY_CAST(v AS DOUBLE))", texts)
    else:
        low, high = DataType(kind).integer_range()
        fits = scalar_sql(f"TRY_CAST(v AS HUGEINT) BETWEEN {low} AND {high}", texts)
    fits = pc.and_(mask, pc.fill_null(fits, False))
    values = converted(only(texts, fits), kind)
    assert values is not None
    return TypedValues(kind, values, fits)


def converted(texts: pa.Array, kind: TypeKind) -> pa.Array | None:
    """Return texts as stored values of a type; None if one is none, or out of its range."""
    if kind in FLOATS:
        values = cast_or_none(texts, pa.float64())
        if values is None or not pc.all(pc.is_finite(values), min_count=0).as_py():
            return None
        return pc.cast(values, pa.float32()) if kind is TypeKind.FLOAT else values
    if kind is TypeKind.UBIGINT:
        values = cast_or_none(texts, pa.uint64())
        return None if values is None else pc.cast(values, pa.decimal128(20, 0))
    values = cast_or_none(texts, pa.int64())
    if values is None:
        return None
    low, high = DataType(kind).integer_range()
    is_outside = pc.or_(pc.less(values, low), pc.greater(values, high))
    return None if pc.any(is_outside).as_py() else values


def quoted_values(texts: pa.Array, prefix: int, kind: TypeKind) -> pa.Array:
    """Return what is between quotes: text, or bytes, which may be in hexadecimal."""
    inner = pc.utf8_slice_codeunits(texts, prefix, -1)
    if kind is TypeKind.VARBINARY:
        is_hex = r"regexp_full_match(v, '\\x(?:[0-9a-fA-F]{2})*')"
        return scalar_sql(f"CASE WHEN {is_hex} THEN unhex(v[3:]) ELSE encode(v) END", inner)
    return pc.replace_substring_regex(inner, r'\\(["\\])', r"\1")
