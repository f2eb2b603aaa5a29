"""The metadata of the catalog's tables, and the naming of constraints."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, MetaData, Named, String, Table, TypedColumns

# On PostgreSQL the tables have their own schema, so that the catalog may share a database (with Airflow, say).
SCHEMA: Final = "headrace"
VERSION_TABLE: Final = "catalog_version"
WHERE: Final = "where"
"""The key in `info` of a partial index whose value is the condition of its rows."""

# Order names by code point everywhere, whatever the locale of a PostgreSQL server.
NAME: Final = String().with_variant(String(collation="C"), "postgresql")

METADATA: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class RevisionColumns(TypedColumns):
    """Columns of `revisions`: one row for each kind of objects, once there was one."""

    kind: Named[str] = Column(String, primary_key=True)
    value: Named[int] = Column(BigInteger)


REVISIONS = Table("revisions", METADATA, RevisionColumns)
