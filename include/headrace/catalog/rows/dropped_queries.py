"""How many continuous queries of each name were dropped, which distinguishes their runs in Airflow."""

from __future__ import annotations

from sqlalchemy import Column, Integer, Named, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME


class DroppedQueryColumns(TypedColumns):
    """Columns of `dropped_queries`."""

    name: Named[str] = Column(NAME, primary_key=True)
    number: Named[int] = Column(Integer)


DROPPED_QUERIES = Table("dropped_queries", METADATA, DroppedQueryColumns)
