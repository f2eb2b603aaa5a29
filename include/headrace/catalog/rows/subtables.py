"""Subtables: which table holds the rows of a name."""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Named,
    RowMapping,
    Table,
    TypedColumns,
    UniqueConstraint,
)

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model.tables import Subtable


class SubtableColumns(TypedColumns):
    """Columns of `subtables`."""

    database: Named[str] = Column(NAME, primary_key=True)
    name: Named[str] = Column(NAME, primary_key=True)
    table: Named[str] = Column(NAME)
    uid: Named[int] = Column(BigInteger)


SUBTABLES = Table(
    "subtables",
    METADATA,
    SubtableColumns,
    UniqueConstraint("uid"),
    Index(None, "database", "table"),
    ForeignKeyConstraint(["database", "table"], ["tables.database", "tables.name"], ondelete="CASCADE"),
)


def to_row(subtable: Subtable) -> dict[str, Any]:
    """Convert a subtable to its catalog row."""
    return {"database": subtable.database, "name": subtable.name, "table": subtable.table, "uid": subtable.uid}


def from_row(row: RowMapping) -> Subtable:
    """Convert a catalog row to a subtable."""
    return Subtable(row["database"], row["name"], row["table"], row["uid"])


def uid_of(database: str, name: str, attempt: int = 0) -> int:
    """Return a positive 63-bit id derived from the name, so that a recreated subtable keeps its group; it differs by `attempt`."""
    digest = hashlib.blake2b(repr((database, name, attempt)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1 or 1
