"""Expirations: when subtables and plain tables are dropped that have a TTL."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Named, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME


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
