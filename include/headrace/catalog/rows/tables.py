"""Supertables and plain tables; their columns and tags are JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, ForeignKeyConstraint, Named, RowMapping, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model import tables as model
from headrace.model.types import DataType, TypeKind


class TableColumns(TypedColumns):
    """Columns of `tables`."""

    database: Named[str] = Column(NAME, primary_key=True)
    name: Named[str] = Column(NAME, primary_key=True)
    kind: Named[str]
    columns: Named[list[dict[str, Any]]] = Column(JSON)
    tags: Named[list[dict[str, Any]]] = Column(JSON)
    virtual: Named[bool] = Column(Boolean)
    comment: Named[str | None]
    subtable_drops: Named[int] = Column(BigInteger, server_default="0")
    created: Named[int] = Column(BigInteger)


TABLES = Table("tables", METADATA, TableColumns, ForeignKeyConstraint(["database"], ["databases.name"], ondelete="CASCADE"))


def to_row(table: model.Table) -> dict[str, Any]:
    """Convert a table to its catalog row."""
    return {
        "database": table.database,
        "name": table.name,
        "kind": table.kind.value,
        "columns": [column_to_json(column) for column in table.columns],
        "tags": [column_to_json(tag) for tag in table.tags],
        "virtual": table.is_virtual,
        "comment": table.comment,
    }


def from_row(row: RowMapping) -> model.Table:
    """Convert a catalog row to a table."""
    columns = tuple(column_from_json(column) for column in row["columns"])
    tags = tuple(column_from_json(tag) for tag in row["tags"])
    kind = model.TableKind(row["kind"])
    return model.Table(row["database"], row["name"], columns, tags, kind, row["virtual"], row["comment"])


def column_to_json(column: model.Column) -> dict[str, Any]:
    """Return a column as JSON, without defaults."""
    optional = {
        "length": column.type.length,
        "scale": column.type.scale,
        "is_key": column.is_key or None,
        "comment": column.comment,
    }
    non_default = {key: value for key, value in optional.items() if value is not None}
    return {"name": column.name, "kind": column.type.kind.value, **non_default}


def column_from_json(value: Mapping[str, Any]) -> model.Column:
    """Read a column from the JSON object of `column_to_json`."""
    kind = DataType(TypeKind(value["kind"]), value.get("length"), value.get("scale"))
    return model.Column(value["name"], kind, value.get("is_key", False), value.get("comment"))
