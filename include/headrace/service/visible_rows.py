"""Rows of system tables, without those about what the user may not know of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from headrace.context import Context
from headrace.jobs.registry import is_known, kind_of
from headrace.model.access import Permissions, Privilege
from headrace.model.jobs import JobDefinition, JobRecord
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
    if names[0] == "name":  # of databases
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


def sees_job(permissions: Permissions, job: JobDefinition) -> bool:
    """Return whether a user may know of a job: it is theirs, they may change it, or they may know of all tables that it names."""
    if permissions.is_administrator or job.owner == permissions.user:
        return True
    if not job.database:
        privilege = kind_of(job).privilege if is_known(job.kind) else None
        return privilege is not None and permissions.allows(privilege)
    if permissions.allows_table(Privilege.WRITE_TABLE, job.database, "*"):
        return True
    return all(sees_table(permissions, table.database, table.name) for table in job.tables)


def visible_jobs(context: Context, records: Iterable[JobRecord]) -> list[JobRecord]:
    """Return the jobs that the user of a context may know of."""
    permissions = context.permissions()
    return [record for record in records if sees_job(permissions, record.definition)]
