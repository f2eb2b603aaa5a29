"""The stored columns that fill the columns of virtual tables."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ForeignKeyConstraint, Index, Named, RowMapping, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model import conversion
from headrace.model.tables import ColumnReference, TableId


class ReferenceColumns(TypedColumns):
    """Columns of `column_references`."""

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
    ReferenceColumns,
    Index(None, "origin_database", "origin_table"),
    ForeignKeyConstraint(["database", "series"], ["subtables.database", "subtables.name"], ondelete="CASCADE"),
)


def to_row(database: str, reference: ColumnReference) -> dict[str, Any]:
    origin = {"origin_database": reference.origin.database, "origin_table": reference.origin.name}
    return {"database": database, **conversion.to_row(reference, "origin"), **origin}


def from_row(row: RowMapping) -> ColumnReference:
    origin = TableId(row["origin_database"], row["origin_table"])
    return conversion.from_row(ColumnReference, {**row, "origin": origin})
