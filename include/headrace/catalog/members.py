"""Snodes that share the jobs of the catalog, as CREATE SNODE registers them."""

from __future__ import annotations

from typing import Final

from sqlalchemy import delete, select, update

from headrace.catalog.rows.jobs import JOBS
from headrace.catalog.rows.members import MEMBERS
from headrace.catalog.store import Store, insert
from headrace.errors import ExistsError, IntegrityError, NotFoundError
from headrace.model.conversion import from_row
from headrace.model.snodes import Member, member_name

FIRST: Final = 1
"""The dnode of the snode that the settings name."""


class Members:
    """Snodes by dnode. Without any registered there is one, that of the settings, which shares nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self) -> list[Member]:
        """Return the snodes that share the jobs, by dnode."""
        with self._store.read() as connection:
            rows = connection.execute(select(MEMBERS).order_by(MEMBERS.c.dnode)).mappings()
            return [from_row(Member, row) for row in rows]

    def create(self, dnode: int, first: str) -> Member:
        """Register the snode of a dnode, and with it that of dnode 1, whose name is `first`; `ExistsError` if it is registered."""
        with self._store.write() as connection:
            now = self._store.now(connection)
            for member in (Member(first, FIRST, now), Member(member_name(dnode), dnode, now)):
                row = {"name": member.name, "dnode": member.dnode, "created": now}
                new = insert(connection, MEMBERS).values(row).on_conflict_do_nothing().returning(MEMBERS.c.name)
                is_new = connection.scalar(new) is not None
            if dnode == FIRST or not is_new:
                raise ExistsError(f"dnode {dnode} has an snode already", hint="SHOW SNODES lists what there is")
        return member

    def drop(self, dnode: int) -> str:
        """Remove the snode of a dnode and return its name. Its jobs move to that of dnode 1.

        Raises:
            NotFoundError: The dnode has no snode.
            IntegrityError: It is dnode 1.
        """
        with self._store.write() as connection:
            if dnode == FIRST:
                raise IntegrityError("the snode of dnode 1 cannot be dropped", hint="streams need an snode")
            name = connection.scalar(delete(MEMBERS).where(MEMBERS.c.dnode == dnode).returning(MEMBERS.c.name))
            first = connection.scalar(select(MEMBERS.c.name).where(MEMBERS.c.dnode == FIRST))
            if name is None or first is None:
                raise NotFoundError(f"dnode {dnode} has no snode", hint="SHOW SNODES lists what there is")
            connection.execute(update(JOBS).where(JOBS.c.snode == name).values(snode=first))
        return str(name)
