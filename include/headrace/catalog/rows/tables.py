"""Supertables and plain tables; their columns and tags are JSON."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, ForeignKeyConstraint, Named, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME


class TableColumns(TypedColumns):
    """Columns of `tables`."""

    database: Named[str] = Column(NAME, primary_key=True)
    name: Named[str] = Column(NAME, primary_key=True)
    kind: Named[str]
    columns: Named[list[dict[str, Any]]] = Column(JSON)
    tags: Named[list[dict[str, Any]]] = Column(JSON)
    is_virtual: Named[bool] = Column(Boolean)
    comment: Named[str | None]
    subtable_drops: Named[int] = Column(BigInteger, server_default="0")
    created: Named[int] = Column(BigInteger)


TABLES = Table("tables", METADATA, TableColumns, ForeignKeyConstraint(["database"], ["databases.name"], ondelete="CASCADE"))
