"""Functions that users have registered."""

from __future__ import annotations

from sqlalchemy import Column, Named, String, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME


class FunctionColumns(TypedColumns):
    """Columns of `functions`, which belong to no database."""

    name: Named[str] = Column(NAME, primary_key=True)
    class_name: Named[str] = Column(String)


FUNCTIONS = Table("functions", METADATA, FunctionColumns)
