"""Rows of system tables, without those about what the user may not know of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.context import Context
from headrace.model.access import Permissions, Privilege
from headrace.service.results import CatalogRows

DATABASE_COLUMNS: Final = ("db_name", "source_db")
TABLE_COLUMNS: Final = ("table_name", "stable_name")
ON_TABLES: Final = (Privilege.READ_TABLE, Privilege.WRITE_TABLE)


def visible(read: Callable[[Context], CatalogRows]) -> Callable[[Context], CatalogRows]:
    """Return a function that reads a system table and leaves out what the user may not know of."""

    def filtered(context: Context) -> CatalogRows:
        permissions = context.permissions()
        return read(context) if permissions.is_administrator else visible_rows(read(context), permissions)

    return filtered


def visible_rows(rows: CatalogRows, permissions: Permissions) -> CatalogRows:
    """Return the rows of databases and tables on which a user has a privilege; none if rows do not name a database."""
    names = list(rows.columns)
    if names[0] == "name":
        return CatalogRows(rows.columns, [row for row in rows.values if permissions.sees_database(row[0])])
    database = next((names.index(name) for name in DATABASE_COLUMNS if name in names), None)
    if database is None:
        return CatalogRows(rows.columns, [])
    tables = [names.index(name) for name in TABLE_COLUMNS if name in names]
    seen = [
        row
        for row in rows.values
        if permissions.sees_database(row[database] or "")
        and (not tables or any(sees_table(permissions, row[database], row[table]) for table in tables))
    ]
    return CatalogRows(rows.columns, seen)


def sees_table(permissions: Permissions, database: str, table: str | None) -> bool:
    """Return whether a user has a privilege on a table."""
    return table is not None and any(permissions.allows_table(privilege, database, table) for privilege in ON_TABLES)
