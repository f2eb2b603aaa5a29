"""Errors of statements that name tables which the user may not know of: the same as if these did not exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Final

from headrace.errors import IntegrityError, NotFoundError, PermissionDeniedError
from headrace.model.access import Privilege
from headrace.model.paths import ROOT
from headrace.model.statements import Statement
from headrace.model.tables import Name
from headrace.service.rights import denied_table
from headrace.service.stage import PlanningContext, Stage, required_rights
from headrace.service.visible_rows import VisibleParts, sees_table

if TYPE_CHECKING:
    from headrace.model.access import Permissions

SYSTEM_SCHEMA: Final = "information_schema"
TREE_DIALECT: Final = "iotdb"
"""Its statements need no concealment: paths that may not be known are not found, and other names have been denied."""


Named = Statement | tuple[Name, ...]
"""What names tables and streams: a statement, or the names in what a client asks for without one."""


def concealed(error: Exception, named: Named, session: PlanningContext) -> Exception:
    """Return the error with which something could not be planned, in a form that reveals no name to the user.

    What was not found is denied, as it would be if it was found. What is wrong with a table is said to who may know of it, also if
    the error is none of ours.
    """
    if isinstance(error, PermissionDeniedError) or reveals_nothing(named, session):
        return error
    if isinstance(error, IntegrityError) and not writes_names(named, session):
        return denied_table()  # it names jobs that use a table
    # The names in a statement may be those of databases too.
    is_missing = isinstance(error, NotFoundError) and isinstance(named, Statement)
    return error if not is_missing and knows_names(named, session) else denied_table()


def check_effects(stages: Sequence[Stage], statement: Statement, session: PlanningContext) -> None:
    """Raise `PermissionDeniedError` for a statement with nothing to do or describe, because of names that the user may not know of.

    `IF EXISTS` and `IF NOT EXISTS` would tell else whether there is such a table.
    """
    if not required_rights(stages) and not reveals_nothing(statement, session) and not knows_names(statement, session):
        raise denied_table()


def reveals_nothing(named: Named, session: PlanningContext) -> bool:
    """Return whether the user may know all names, or the language conceals them on its own."""
    if isinstance(named, Statement) and session.dialect == TREE_DIALECT:
        return True
    return session.context.permissions().is_administrator


def writes_names(named: Named, session: PlanningContext) -> bool:
    """Return whether a user may write to all tables that are named, perhaps to a part of them."""
    permissions = session.context.permissions()
    return all(
        permissions.allows_part(Privilege.WRITE_TABLE, database, table)
        for database, table in (stored_name(name, session) for name in names_in(named))
    )


def stored_name(name: Name, session: PlanningContext) -> tuple[str, str]:
    """Return the database and the table of a name, of a subtable those of its supertable."""
    database = name.database or session.database or ""
    subtable = session.context.catalog.subtables.find(database, [name.name]).get(name.name)
    return database, name.name if subtable is None else subtable.table


def knows_names(named: Named, session: PlanningContext) -> bool:
    """Return whether a user may know of all tables that are named."""
    permissions = session.context.permissions()
    return all(knows(name, permissions, session) for name in names_in(named))


def knows(name: Name, permissions: Permissions, session: PlanningContext) -> bool:
    """Return whether a user may know of a table, or of the supertable of a subtable."""
    database = name.database or session.database
    if database is None or database == SYSTEM_SCHEMA:
        return True
    if sees_table(permissions, database, name.name):
        return True
    if database.startswith(f"{ROOT}."):
        return False
    subtable = session.context.catalog.subtables.find(database, [name.name]).get(name.name)
    return subtable is not None and VisibleParts(permissions, session.context).includes(database, name.name, subtable.table)


def names_in(part: object) -> Iterator[Name]:
    """Yield the names of tables and streams in a part of a statement. Values of rows are no parts."""
    if isinstance(part, Name):
        yield part
    elif is_dataclass(part):
        for field in fields(part):
            yield from names_in(getattr(part, field.name))
    elif isinstance(part, tuple) and has_parts(part):
        for one in part:
            yield from names_in(one)


def has_parts(values: tuple[object, ...]) -> bool:
    """Return whether the first element of a tuple is a part of a statement, or a pair that has one."""
    first = values[0] if values else None
    return is_dataclass(first) or (isinstance(first, tuple) and any(is_dataclass(one) for one in first))
