"""Subtables: which table holds the rows of a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ForeignKeyConstraint,
    Index,
    Named,
    Table,
    TypedColumns,
)

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model.tables import Subtable


class SubtableColumns(TypedColumns):
    """Columns of `subtables`."""

    database: Named[str] = Column(NAME, primary_key=True)
    name: Named[str] = Column(NAME, primary_key=True)
    table: Named[str] = Column(NAME)


SUBTABLES = Table(
    "subtables",
    METADATA,
    SubtableColumns,
    Index(None, "database", "table"),
    ForeignKeyConstraint(["database", "table"], ["tables.database", "tables.name"], ondelete="CASCADE"),
    sqlite_with_rowid=False,
)


def from_values(row: Sequence[Any]) -> Subtable:
    """Convert all columns of a catalog row, in order, to a subtable."""
    return Subtable(row[0], row[1], row[2])
