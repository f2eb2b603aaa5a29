"""Databases."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Named, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME


class DatabaseColumns(TypedColumns):
    """Columns of `databases`."""

    name: Named[str] = Column(NAME, primary_key=True)
    precision: Named[str]
    timezone: Named[str]
    options: Named[list[list[str]]] = Column(JSON)
    created: Named[int] = Column(BigInteger)


DATABASES = Table("databases", METADATA, DatabaseColumns)
