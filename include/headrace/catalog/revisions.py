"""Reading and changing of revisions. What was read at a revision is up to date as long as the revision is the same."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from sqlalchemy import Connection, Select, select

from headrace.catalog.rows.metadata import REVISIONS
from headrace.catalog.store import insert

NO_REVISION: Final = 0
"""The revision of a kind of which there never was an object."""


class RevisionKind(StrEnum):
    """The kinds of objects that have a revision."""

    ACCESS = "access"
    FUNCTIONS = "functions"
    SCHEMA = "schema"
    """Databases, tables, devices and their templates. `Store.write` counts it up."""
    STATEMENTS = "statements"
    TRIGGERS = "triggers"


def revision_of(kind: RevisionKind) -> Select[int]:
    """Return the query for the revision of a kind, which has no row if there never was an object.

    On PostgreSQL each statement has a snapshot of its own. Read the revision before the objects: then it may be older, never newer.
    """
    return select(REVISIONS.c.value).where(REVISIONS.c.kind == kind)


def count_up(connection: Connection, kind: RevisionKind, by: int = 1) -> int:
    """Change the revision of a kind, in the transaction that changes an object, and return the new one."""
    counted = insert(connection, REVISIONS).values({"kind": kind, "value": NO_REVISION + by})
    following = {"value": REVISIONS.c.value + by}
    changed = counted.on_conflict_do_update(index_elements=[REVISIONS.c.kind], set_=following)
    return int(connection.execute(changed.returning(REVISIONS.c.value)).scalar_one())
