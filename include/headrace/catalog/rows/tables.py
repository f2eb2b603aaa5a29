"""Databases with their tables: supertables, plain and virtual tables, subtables and their expirations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, ForeignKeyConstraint, Index, Named, RowMapping, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model import conversion
from headrace.model.tables import ColumnReference, Subtable, TableId


class _DatabaseColumns(TypedColumns):
    name: Named[str] = Column(NAME, primary_key=True)
    precision: Named[str]
    timezone: Named[str]
    options: Named[list[list[str]]] = Column(JSON)
    created: Named[int] = Column(BigInteger)


DATABASES = Table("databases", METADATA, _DatabaseColumns)


class _TableColumns(TypedColumns):
    database: Named[str] = Column(NAME, primary_key=True)
    name: Named[str] = Column(NAME, primary_key=True)
    kind: Named[str]
    columns: Named[list[dict[str, Any]]] = Column(JSON)
    tags: Named[list[dict[str, Any]]] = Column(JSON)
    is_virtual: Named[bool] = Column(Boolean)
    comment: Named[str | None]
    subtable_drops: Named[int] = Column(BigInteger, server_default="0")
    created: Named[int] = Column(BigInteger)
    external: Named[dict[str, Any] | None] = Column(JSON(none_as_null=True), nullable=True)


TABLES = Table("tables", METADATA, _TableColumns, ForeignKeyConstraint(["database"], ["databases.name"], ondelete="CASCADE"))


class _SubtableColumns(TypedColumns):
    database: Named[str] = Column(NAME, primary_key=True)
    name: Named[str] = Column(NAME, primary_key=True)
    table: Named[str] = Column(NAME)


SUBTABLES = Table(
    "subtables",
    METADATA,
    _SubtableColumns,
    Index(None, "database", "table"),
    ForeignKeyConstraint(["database", "table"], ["tables.database", "tables.name"], ondelete="CASCADE"),
    sqlite_with_rowid=False,
)


def to_subtable(row: Sequence[Any]) -> Subtable:
    return Subtable(row[0], row[1], row[2])


class ExpirationColumns(TypedColumns):
    """Columns of `expirations`; `expires` is in epoch milliseconds."""

    database: Named[str] = Column(NAME, primary_key=True)
    name: Named[str] = Column(NAME, primary_key=True)
    days: Named[int]
    expires: Named[int] = Column(BigInteger)


EXPIRATIONS = Table(
    "expirations",
    METADATA,
    ExpirationColumns,
    ForeignKeyConstraint(["database", "name"], ["subtables.database", "subtables.name"], ondelete="CASCADE"),
)


class _ReferenceColumns(TypedColumns):
    database: Named[str] = Column(NAME, primary_key=True)
    series: Named[str] = Column(NAME, primary_key=True)
    column: Named[str] = Column(NAME, primary_key=True)
    origin_database: Named[str] = Column(NAME)
    origin_table: Named[str] = Column(NAME)
    origin_series: Named[str] = Column(NAME)
    origin_column: Named[str] = Column(NAME)


COLUMN_REFERENCES = Table(
    "column_references",
    METADATA,
    _ReferenceColumns,
    Index(None, "origin_database", "origin_table"),
    ForeignKeyConstraint(["database", "series"], ["subtables.database", "subtables.name"], ondelete="CASCADE"),
)


def reference_to_row(database: str, reference: ColumnReference) -> dict[str, Any]:
    origin = {"origin_database": reference.origin.database, "origin_table": reference.origin.name}
    return {"database": database, **conversion.to_row(reference, "origin"), **origin}


def reference_from_row(row: RowMapping) -> ColumnReference:
    origin = TableId(row["origin_database"], row["origin_table"])
    return conversion.from_row(ColumnReference, {**row, "origin": origin})
