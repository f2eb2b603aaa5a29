"""Functions that users have registered."""

from __future__ import annotations

from sqlalchemy import Column, Named, RowMapping, String, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model.functions import RegisteredFunction


class FunctionColumns(TypedColumns):
    """Columns of `functions`, which belong to no database."""

    name: Named[str] = Column(NAME, primary_key=True)
    class_name: Named[str] = Column(String)


FUNCTIONS = Table("functions", METADATA, FunctionColumns)


def function_from_row(row: RowMapping) -> RegisteredFunction:
    """Return the function that a row describes."""
    return RegisteredFunction(row["name"], row["class_name"])
