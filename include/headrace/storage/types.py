"""How declared types are stored: one table, from which the documentation is generated too.

Every type is stored exactly or refused; nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headrace.errors import LimitError
from headrace.model.tables import Column, Database, Table
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind

TYPE_METADATA: Final = b"headrace.type"
MICROSECONDS: Final = pa.timestamp("us", tz="UTC")
DECIMAL_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class StorageType:
    """How one type is stored: its Arrow type, its Delta name, and a note on the choice."""

    arrow: Callable[[DataType, Precision], pa.DataType]
    delta: str
    note: str = ""


def _fixed_type(arrow: pa.DataType) -> Callable[[DataType, Precision], pa.DataType]:
    return lambda _type, _precision: arrow


def _timestamp(_: DataType, precision: Precision) -> pa.DataType:
    return pa.int64() if precision is Precision.NANOSECOND else MICROSECONDS


def _decimal(type_: DataType, _: Precision) -> pa.DataType:
    digits, scale = type_.length or DECIMAL_DIGITS, type_.scale or 0
    if not (1 <= digits <= DECIMAL_DIGITS and 0 <= scale <= digits):
        raise LimitError(
            f"{type_} cannot be stored", hint=f"a DECIMAL has 1 to {DECIMAL_DIGITS} digits, of which the scale takes 0 to all"
        )
    return pa.decimal128(digits, scale)


STORAGE_TYPES: Final[dict[TypeKind, StorageType]] = {
    TypeKind.BOOL: StorageType(_fixed_type(pa.bool_()), "boolean"),
    TypeKind.TINYINT: StorageType(_fixed_type(pa.int8()), "byte"),
    TypeKind.SMALLINT: StorageType(_fixed_type(pa.int16()), "short"),
    TypeKind.INT: StorageType(_fixed_type(pa.int32()), "integer"),
    TypeKind.BIGINT: StorageType(_fixed_type(pa.int64()), "long"),
    TypeKind.UTINYINT: StorageType(
        _fixed_type(pa.int16()), "short", "the next wider signed type, because Delta has no unsigned types"
    ),
    TypeKind.USMALLINT: StorageType(_fixed_type(pa.int32()), "integer", "the next wider signed type"),
    TypeKind.UINT: StorageType(_fixed_type(pa.int64()), "long", "the next wider signed type"),
    TypeKind.UBIGINT: StorageType(
        _fixed_type(pa.decimal128(20, 0)), "decimal(20,0)", "no signed integer type holds all 64-bit unsigned values"
    ),
    TypeKind.FLOAT: StorageType(_fixed_type(pa.float32()), "float"),
    TypeKind.DOUBLE: StorageType(_fixed_type(pa.float64()), "double"),
    TypeKind.DECIMAL: StorageType(_decimal, "decimal(p,s)", "up to 38 digits"),
    TypeKind.VARCHAR: StorageType(
        _fixed_type(pa.string()), "string", "the length is checked in bytes of UTF-8 when a row is written"
    ),
    TypeKind.NCHAR: StorageType(_fixed_type(pa.string()), "string", "the length is checked in characters when a row is written"),
    TypeKind.VARBINARY: StorageType(_fixed_type(pa.binary()), "binary"),
    TypeKind.GEOMETRY: StorageType(_fixed_type(pa.string()), "string", "well-known text"),
    TypeKind.JSON: StorageType(_fixed_type(pa.string()), "string", "as written"),
    TypeKind.TIMESTAMP: StorageType(
        _timestamp,
        "timestamp, or long",
        "microseconds in UTC if the precision is `ms` or `us`; nanoseconds as a long if it is `ns`",
    ),
    TypeKind.DATE: StorageType(_fixed_type(pa.date32()), "date"),
}


def arrow_type(type_: DataType, precision: Precision) -> pa.DataType:
    """Return the Arrow type in which a declared type is stored; raise `LimitError` if it cannot be."""
    return STORAGE_TYPES[type_.kind].arrow(type_, precision)


def field(column: Column, precision: Precision) -> pa.Field:
    """Return the stored field of a column or tag; its metadata has the declared type."""
    return pa.field(column.name, arrow_type(column.type, precision), metadata={TYPE_METADATA: str(column.type).encode()})


def declared_type(field: pa.Field) -> DataType:
    """Return the declared type of a stored field, which its metadata has."""
    name, _, numbers = (field.metadata or {})[TYPE_METADATA].decode().partition("(")
    return DataType(TypeKind(name), *(int(number) for number in numbers.rstrip(")").split(",") if number))


def rows_schema(table: Table, database: Database) -> pa.Schema:
    """Stored columns of a table's rows: the declared ones in order, the tags of an external table, then `tbname`."""
    columns = table.columns if table.external is None else (*table.columns, *table.tags)
    return pa.schema([*(field(column, database.precision) for column in columns), pa.field(table.series_key, pa.string())])


def row_types(table: Table, precision: Precision) -> dict[str, pa.DataType]:
    """Return the stored types of a table's columns, tags and series key."""
    types = {column.name: arrow_type(column.type, precision) for column in (*table.columns, *table.tags)}
    return {table.series_key: pa.string()} | types


def tags_schema(table: Table, database: Database) -> pa.Schema:
    """Stored columns of a table's tags: `tbname`, then a column a tag."""
    return pa.schema([pa.field(table.series_key, pa.string()), *(field(tag, database.precision) for tag in table.tags)])


def with_all_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with all columns of a schema in order, NULL in those that the rows lack."""
    return assemble(dict(zip(rows.column_names, rows.columns, strict=True)), schema, rows.num_rows)


def assemble(columns: Mapping[str, pa.Array | pa.ChunkedArray], schema: pa.Schema, rows: int) -> pa.Table:
    """Return columns as a table of a schema, NULL in those that are missing."""
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
