"""The log of statements that change the schema of trees, or rights."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Named, String, Table, Text, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME


class SchemaStatementColumns(TypedColumns):
    """Columns of `schema_statements`. A database may have been dropped since, so there is no foreign key."""

    id: Named[int] = Column(BigInteger, primary_key=True, autoincrement=False)
    time: Named[int] = Column(BigInteger)
    category: Named[str] = Column(String)
    sql: Named[str] = Column(Text)
    database: Named[str] = Column(NAME)
    version: Named[int] = Column(BigInteger)
    owner: Named[str] = Column(NAME)


SCHEMA_STATEMENTS = Table("schema_statements", METADATA, SchemaStatementColumns)
