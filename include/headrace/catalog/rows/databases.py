"""Databases."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Named, RowMapping, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model.tables import Database
from headrace.model.time import Precision


class DatabaseColumns(TypedColumns):
    """Columns of `databases`."""

    name: Named[str] = Column(NAME, primary_key=True)
    precision: Named[str]
    timezone: Named[str]
    options: Named[list[list[str]]] = Column(JSON)
    created: Named[int] = Column(BigInteger)


DATABASES = Table("databases", METADATA, DatabaseColumns)


def to_row(database: Database) -> dict[str, Any]:
    """Convert a database to its catalog row."""
    return {
        "name": database.name,
        "precision": database.precision.value,
        "timezone": database.timezone,
        "options": [list(option) for option in database.options],
    }


def from_row(row: RowMapping) -> Database:
    """Convert a catalog row to a database."""
    options = tuple((key, value) for key, value in row["options"])
    return Database(row["name"], Precision(row["precision"]), row["timezone"], options)
