"""Look up what names in statements mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from headrace.errors import Error, NoDatabaseError, NotFoundError, NotSupportedError, ProgrammingError
from headrace.model.spans import Span
from headrace.model.tables import Database, Name, Table, TableKind
from headrace.service.rights import denied_table
from headrace.service.stage import PlanningContext
from headrace.streams.kind import STREAM

if TYPE_CHECKING:
    from headrace.model.jobs import JobRecord

MAX_NAME_BYTES: Final = 192


def parse_name(text: str) -> Name:
    database, dot, name = text.rpartition(".")
    return Name(database.strip("`") if dot else None, name.strip("`"), Span(0, len(text)))


def database_of(name: Name, session: PlanningContext) -> str:
    """Return the database of a name: its own, else the current one."""
    database = name.database or session.database
    if database is None:
        raise NoDatabaseError(
            f"no database for {name.name}", hint="name it (database.table), or choose one with USE database", span=name.span
        )
    return database


def current_timezone(session: PlanningContext) -> str:
    """Return the time zone for values of no table: that of the current database, else that of the settings."""
    context, database = session.context, session.database
    return context.catalog.databases.get(database).timezone if database else context.settings.timezone


def find_table(name: Name, session: PlanningContext) -> tuple[Table, Database]:
    """Return the supertable or plain table of a name, with its database.

    Raises:
        PermissionDeniedError: The user may not know of it, whether there is one or not.
        NotFoundError: There is none.
    """
    require_known(name, session)
    catalog = session.context.catalog
    with with_span(name.span):
        database = catalog.databases.get(database_of(name, session))
        return catalog.tables.get(database.name, name.name), database


def require_known(name: Name, session: PlanningContext) -> None:
    """Raise `PermissionDeniedError` unless a user may know of a table, before anything of it is looked at."""
    from headrace.service.concealment import knows

    permissions = session.context.permissions()
    if not permissions.is_administrator and not knows(name, permissions, session):
        raise denied_table()


def refuse_unwritable(table: Table, name: Name) -> None:
    """Raise `ProgrammingError` if a table is virtual or external: it stores no rows."""
    if table.external is not None:
        raise ProgrammingError(
            f"{name.name} is an external table, which is only read",
            hint=f"write to {table.external.location} by its own writer",
            span=name.span,
        )
    if table.is_virtual:
        raise ProgrammingError(
            f"{name.name} is a virtual table, whose rows are those of other tables",
            hint="write to the tables that its columns come from; SHOW CREATE VTABLE names them",
            span=name.span,
        )


def find_writable_table(name: Name, session: PlanningContext) -> tuple[Table, Database]:
    """Return the supertable or plain table of a name, with its database.

    Raises:
        ProgrammingError: It is virtual or external.
        NotSupportedError: It is a tree, whose series only its language changes.
    """
    table, database = find_table(name, session)
    refuse_unwritable(table, name)
    if table.kind is TableKind.TREE:
        raise NotSupportedError(
            f"{table.name} is the table of the tree {database.name}, which this dialect only reads",
            hint="write to the tree with the iotdb dialect",
            span=name.span,
        )
    return table, database


def find_stream(name: Name, session: PlanningContext, missing_ok: bool) -> JobRecord | None:
    """Return the stream of a name, or None if it is missing and `missing_ok`.

    Without any database, the name says enough if only one stream has it.
    """
    if name.database is None and session.database is None:
        return find_only_stream(name, session, missing_ok)
    jobs, database = session.context.catalog.jobs, database_of(name, session)
    if missing_ok:
        return jobs.find(database, name.name, STREAM)
    with with_span(name.span):
        return jobs.get(database, name.name, STREAM)


def find_only_stream(name: Name, session: PlanningContext, missing_ok: bool) -> JobRecord | None:
    found = streams_named(name.name, session)
    if len(found) > 1:
        names = ", ".join(str(record.definition) for record in found)
        raise ProgrammingError(f"several streams are called {name.name}: {names}", hint="name the database", span=name.span)
    if not found and not missing_ok:
        raise NotFoundError(f"stream {name.name} does not exist", hint="SHOW STREAMS lists what there is", span=name.span)
    return found[0] if found else None


def streams_named(name: str, session: PlanningContext) -> list[JobRecord]:
    """Return the streams of a name in all databases that the user may know of."""
    from headrace.service.visible_rows import visible_jobs

    named = [record for record in session.context.catalog.jobs.all(kind=STREAM) if record.definition.name == name]
    return visible_jobs(session.context, named)


def check_name(name: Name) -> None:
    """Refuse a name that cannot be a folder's."""
    if (
        not name.name
        or len(name.name.encode()) > MAX_NAME_BYTES
        or "/" in name.name
        or "\0" in name.name
        or name.name.startswith(".")
    ):
        raise ProgrammingError(
            f"{name.name!r} is not a valid name",
            hint=f"use 1 to {MAX_NAME_BYTES} bytes, without '/' and not beginning with '.'",
            span=name.span,
        )


@contextmanager
def with_span(span: Span | None) -> Iterator[None]:
    try:
        yield
    except Error as error:
        error.span = error.span or span
        raise
