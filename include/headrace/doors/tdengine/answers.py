"""Results as TDengine's REST interface sends them: JSON, written column by column, and sent in parts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.instants import find_zone
from headrace.model.time import Precision
from headrace.model.types import BIGINT, BOOL, DOUBLE, TIMESTAMP, UBIGINT, DataType, TypeKind
from headrace.pipes.formats.scalars import as_array, json_strings, scalar_sql

if TYPE_CHECKING:
    from headrace.compute import AnyPlan
    from headrace.service.results import Result

BATCH_ROWS: Final = 16_384
"""Rows that are written at a time."""
SIZES: Final = {
    TypeKind.BOOL: 1,
    TypeKind.TINYINT: 1,
    TypeKind.SMALLINT: 2,
    TypeKind.INT: 4,
    TypeKind.BIGINT: 8,
    TypeKind.UTINYINT: 1,
    TypeKind.USMALLINT: 2,
    TypeKind.UINT: 4,
    TypeKind.UBIGINT: 8,
    TypeKind.FLOAT: 4,
    TypeKind.DOUBLE: 8,
    TypeKind.TIMESTAMP: 8,
    TypeKind.JSON: 4095,
}
ARROW_KINDS: Final = {
    pa.bool_(): BOOL,
    pa.int8(): DataType(TypeKind.TINYINT),
    pa.int16(): DataType(TypeKind.SMALLINT),
    pa.int32(): DataType(TypeKind.INT),
    pa.int64(): BIGINT,
    pa.float32(): DataType(TypeKind.FLOAT),
    pa.float64(): DOUBLE,
    pa.decimal128(20, 0): UBIGINT,
    pa.binary(): DataType(TypeKind.VARBINARY),
}
UNITS: Final = {Precision.MILLISECOND: "ms", Precision.MICROSECOND: "us", Precision.NANOSECOND: "ns"}
OFFSET: Final = re.compile(r"(UTC|GMT)?([+ -])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)
AFFECTED: Final = [["affected_rows", "INT", 4]]


@dataclass(frozen=True, slots=True)
class Format:
    """How rows are written: times in a zone, and with the names of columns if `has_names`."""

    timezone: str = "UTC"
    has_names: bool = False


def answer(result: Result, plan: AnyPlan | None, format: Format) -> Iterator[str]:
    """Yield the parts of an answer. `plan` is that of a query, which knows the declared types of its columns."""
    rows = result.table
    if rows is None:
        affected = max(result.affected, 0)
        data = {"affected_rows": affected} if format.has_names else [affected]
        yield to_json({"code": 0, "column_meta": AFFECTED, "data": [data], "rows": 1})
        return
    types = column_types(rows, plan)
    precision = Precision.MILLISECOND if plan is None else plan.precision
    columns = zip(rows.column_names, types, rows.columns, strict=True)
    meta = [[name, type_name(type_), length_of(type_, values)] for name, type_, values in columns]
    yield f'{{"code":0,"column_meta":{to_json(meta)},"data":['
    separator = ""
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        if batch.num_rows:
            yield separator + rows_text(batch, types, precision, format)
            separator = ","
    yield f'],"rows":{rows.num_rows}}}'


def column_types(rows: pa.Table, plan: AnyPlan | None) -> list[DataType]:
    """Return the types of columns: the declared ones of a query, else those that their storage suggests."""
    if plan is not None and len(plan.outputs) == rows.num_columns:
        return [output.type for output in plan.outputs]
    return [suggested_type(field.type) for field in rows.schema]


def suggested_type(kind: pa.DataType) -> DataType:
    if pa.types.is_timestamp(kind):
        return TIMESTAMP
    if pa.types.is_decimal(kind) and kind not in ARROW_KINDS:
        return DataType(TypeKind.DECIMAL, kind.precision, kind.scale)
    return ARROW_KINDS.get(kind, DataType(TypeKind.VARCHAR))


def type_name(type_: DataType) -> str:
    if type_.kind is TypeKind.DECIMAL:
        return f"DECIMAL({type_.length or 38}, {type_.scale or 0})"
    return TypeKind.VARCHAR if type_.kind is TypeKind.DATE else type_.kind


def length_of(type_: DataType, values: pa.ChunkedArray) -> int:
    """Return the length of a type as TDengine reports it; of texts without one, that of the longest value."""
    if type_.kind in SIZES:
        return SIZES[type_.kind]
    if type_.kind is TypeKind.DECIMAL:
        return 8 if (type_.length or 38) <= 18 else 16
    if type_.length is not None:
        return type_.length
    if not pa.types.is_string(values.type) and not pa.types.is_binary(values.type):
        return 10
    return pc.max(pc.binary_length(values)).as_py() or 0


def rows_text(batch: pa.RecordBatch, types: Sequence[DataType], precision: Precision, format: Format) -> str:
    """Return rows as JSON, separated by commas."""
    columns = [json_texts(column, type_, precision, format.timezone) for column, type_ in zip(batch.columns, types, strict=True)]
    if format.has_names:
        named = [f"{to_json(name)}:" for name in batch.schema.names]
        columns = [pc.binary_join_element_wise(name, column, "") for name, column in zip(named, columns, strict=True)]
    texts = pc.binary_join_element_wise(*columns, ",")
    opening, closing = "{}" if format.has_names else "[]"
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), f"{closing},{opening}")
    return f"{opening}{joined[0].as_py()}{closing}"


def json_texts(values: pa.Array, type_: DataType, precision: Precision, timezone: str) -> pa.Array:
    """Return values as JSON, `null` for NULL."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if type_.kind is TypeKind.TIMESTAMP:
        texts = quoted(instant_texts(values, precision, timezone))
    elif type_.kind is TypeKind.VARBINARY:
        texts = quoted(scalar_sql("lower(hex(v))", values))
    elif type_.kind is TypeKind.JSON and not type_.is_member:
        texts = scalar_sql("CASE WHEN starts_with(v, '{') AND json_valid(v) THEN v ELSE CAST(to_json(v) AS VARCHAR) END", values)
    elif type_.kind is TypeKind.DECIMAL:
        texts = quoted(pc.cast(values, pa.string()))
    elif pa.types.is_floating(values.type):
        texts = pc.if_else(pc.is_finite(values), pc.cast(values, pa.string()), pa.scalar(None, pa.string()))
    elif pa.types.is_boolean(values.type) or pa.types.is_integer(values.type) or pa.types.is_decimal(values.type):
        texts = pc.cast(values, pa.string())
    else:
        texts = json_strings(pc.cast(values, pa.string()))
    return pc.fill_null(as_array(texts), "null")


def quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def zone_name(written: str) -> str | None:
    """Return the zone that `tz` means as Arrow names it: an IANA name, `+08:00`, or `UTC-8`, which is 8 hours east in TDengine.

    A `+` that a client leaves unescaped in a URL arrives as a blank. None if there is no such zone.
    """
    if matched := OFFSET.fullmatch(written):
        prefix, sign, hours, minutes = matched.groups()
        is_east = (sign != "-") != bool(prefix)
        name = f"{'+' if is_east else '-'}{int(hours):02}:{minutes or '00'}"
    else:
        name = "UTC" if written.upper() in ("UTC", "Z", "GMT") else written
    return name if find_zone(name) is not None else None


def instant_texts(values: pa.Array, precision: Precision, timezone: str) -> pa.Array:
    """Return instants as RFC 3339 with the digits of a precision."""
    if pa.types.is_integer(values.type):
        values = values.cast(pa.timestamp(UNITS[precision]))
    local = values.cast(pa.timestamp(UNITS[precision]), safe=False).cast(pa.timestamp(UNITS[precision], timezone))
    texts = pc.strftime(local, format="%Y-%m-%dT%H:%M:%S%z")
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"\+0000$", "Z"), r"([+-]\d\d)(\d\d)$", r"\1:\2")


to_json = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
