"""Subtables: which table holds the rows of a name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
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


def from_row(row: RowMapping) -> Subtable:
    """Convert a catalog row to a subtable."""
    return Subtable(row["database"], row["name"], row["table"], row["uid"])


def from_values(row: Sequence[Any]) -> Subtable:
    """Convert all columns of a catalog row, in order, to a subtable; faster than by name."""
    return Subtable(row[0], row[1], row[2], row[3])


def uids_of(database: str, names: Sequence[str], attempt: int = 0) -> list[int]:
    """Return positive 63-bit ids derived from the names, so that a recreated subtable keeps its group; they differ by `attempt`."""
    prefix = hashlib.blake2b(repr((database, attempt)).encode(), digest_size=8)
    return [_uid(prefix.copy(), name) for name in names]


def _uid(digest: hashlib.blake2b, name: str) -> int:
    digest.update(name.encode())
    return int.from_bytes(digest.digest(), "big") >> 1 or 1
