"""Rows of system tables, without those about what the user may not know of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headrace.context import Context
from headrace.errors import PermissionDeniedError
from headrace.jobs.needs import needs_of
from headrace.jobs.registry import is_known, kind_of
from headrace.model.access import TOKEN_WORD, Permissions, Privilege
from headrace.model.job_parts import DividedRecord
from headrace.model.jobs import JobDefinition, JobRecord
from headrace.model.triggers import RegisteredTrigger, TriggerActivity
from headrace.service.results import CatalogRows

if TYPE_CHECKING:
    from headrace.catalog import Catalog

DATABASE_COLUMNS: Final = ("db_name", "source_db")
TABLE_COLUMNS: Final = ("table_name", "stable_name")
HIDDEN_MESSAGE: Final = "the message is for who may read what the job reads"
HIDDEN_ERROR: Final = "the message is for who may read what the trigger gets"
ON_TABLES: Final = (Privilege.READ_TABLE, Privilege.WRITE_TABLE)


def visible(read: Callable[[Context], CatalogRows]) -> Callable[[Context], CatalogRows]:
    """Return a function that reads a system table and leaves out what the user may not know of."""

    def filtered(context: Context) -> CatalogRows:
        permissions = context.permissions()
        return read(context) if permissions.is_administrator else visible_rows(read(context), permissions, context)

    return filtered


def visible_rows(rows: CatalogRows, permissions: Permissions, context: Context) -> CatalogRows:
    """Return the rows of databases and tables on which a user has a privilege; none if rows do not name a database.

    Of supertables on a part of which the user has a privilege, the subtables are those of that part.
    """
    names = list(rows.columns)
    if names[0] == "name":  # of databases
        return CatalogRows(rows.columns, [row for row in rows.values if permissions.sees_database(row[0])])
    database = next((names.index(name) for name in DATABASE_COLUMNS if name in names), None)
    if database is None:
        return CatalogRows(rows.columns, [])
    tables = [names.index(name) for name in TABLE_COLUMNS if name in names]
    parts = VisibleParts(permissions, context)
    seen = [
        row
        for row in rows.values
        if permissions.sees_database(row[database] or "")
        and (not tables or parts.includes(row[database], *(row[table] for table in tables)))
    ]
    return CatalogRows(rows.columns, seen)


@dataclass(slots=True)
class VisibleParts:
    """The subtables that a user may know of, of supertables on a part of which the user has a privilege. Looked up once each."""

    permissions: Permissions
    context: Context
    _names: dict[tuple[str, str], frozenset[str] | None] = field(default_factory=dict)

    def includes(self, database: str, table: str, supertable: str | None = None) -> bool:
        """Return whether a user may know of a table, or of a subtable of a supertable."""
        if supertable is None:
            return sees_table(self.permissions, database, table)
        if (database, supertable) not in self._names:
            self._names[database, supertable] = self._subtables(database, supertable)
        names = self._names[database, supertable]
        is_known = sees_table(self.permissions, database, supertable) if names is None else table in names
        return is_known or sees_table(self.permissions, database, table)

    def _subtables(self, database: str, supertable: str) -> frozenset[str] | None:
        """Return the names of the subtables of a part; None if the user may know of all or none."""
        from headrace.service.subtable_conditions import permitted_subtables

        if any(self.permissions.allows_table(privilege, database, supertable) for privilege in ON_TABLES):
            return None
        conditions = [text for privilege in ON_TABLES for text in self.permissions.conditions(privilege, database, supertable)]
        if not conditions:
            return None
        return permitted_subtables(self.context.catalog.tables.get(database, supertable), conditions, self.context)


def sees_table(permissions: Permissions, database: str, table: str | None) -> bool:
    """Return whether a user has a privilege on a table, or a part of it."""
    return table is not None and any(permissions.allows_part(privilege, database, table) for privilege in ON_TABLES)


def sees_job(permissions: Permissions, job: JobDefinition) -> bool:
    """Return whether a user may know of a job: it is theirs, they may change it, or have a privilege on all its tables.

    A privilege on a part of a supertable is not enough: a job's counters and quarantine are about all of it.
    """
    if is_own(permissions, job.owner):
        return True
    if not job.database:
        privilege = kind_of(job).privilege if is_known(job.kind) else None
        return privilege is not None and permissions.allows(privilege)
    if permissions.allows_table(Privilege.WRITE_TABLE, job.database, "*"):
        return True
    return all(any(permissions.allows_table(one, table.database, table.name) for one in ON_TABLES) for table in job.tables)


def is_own(permissions: Permissions, owner: str) -> bool:
    """Return whether something of an owner, perhaps a program with a token, is a user's own, as all is the administrator's."""
    return permissions.is_administrator or owner.partition(TOKEN_WORD)[0] == permissions.user


def reads_source(permissions: Permissions, job: JobDefinition) -> bool:
    """Return whether a user may read all rows of the source of a stream, as it shows them in quarantine."""
    return permissions.allows_table(Privilege.READ_TABLE, job.source.database, job.source.name)


def reads_values(permissions: Permissions, job: JobDefinition, catalog: Catalog) -> bool:
    """Return whether a user may read all that a job reads, and so the values that its errors quote."""
    return permissions.is_administrator or (is_known(job.kind) and needs_of(catalog, job).are_readable(permissions))


def as_seen(permissions: Permissions, record: JobRecord, catalog: Catalog) -> JobRecord:
    """Return a record as a user sees it: errors that may quote values are for who may read these."""
    if isinstance(record, DividedRecord):
        record = replace(record, parts=tuple(as_seen(permissions, part, catalog) for part in record.parts))
    reason = record.reason
    if reason is None or reason.code == PermissionDeniedError.code or reads_values(permissions, record.definition, catalog):
        return record
    return replace(record, reason=replace(reason, message=HIDDEN_MESSAGE, hint=""))


def trigger_as_seen(
    permissions: Permissions, trigger: RegisteredTrigger, activity: TriggerActivity
) -> tuple[RegisteredTrigger, TriggerActivity]:
    """Return a trigger and what was counted of it as a user sees them: errors may quote values that it has got."""
    error = activity.last_error
    if not error or permissions.allows(Privilege.READ_DATA, trigger.path_pattern):
        return trigger, activity
    reason = trigger.reason.replace(error, HIDDEN_ERROR)
    return replace(trigger, reason=reason), replace(activity, last_error=HIDDEN_ERROR)


def visible_jobs(context: Context, records: Iterable[JobRecord]) -> list[JobRecord]:
    """Return the jobs that the user of a context may know of, as that user sees them."""
    permissions = context.permissions()
    seen = [record for record in records if sees_job(permissions, record.definition)]
    return [as_seen(permissions, record, context.catalog) for record in seen]
