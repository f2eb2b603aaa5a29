"""Snodes: their leases, last heartbeat, address and status, and those that share the jobs of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, case, delete, func, not_, or_, select, update

from headrace.catalog.rows.jobs import JOBS
from headrace.catalog.rows.snodes import LEASES, MEMBERS, SNODES, lease_from_row
from headrace.catalog.rules import not_found
from headrace.catalog.store import Repository, insert
from headrace.errors import ExistsError, FencedError, IntegrityError, NotFoundError
from headrace.model.conversion import from_row, to_row
from headrace.model.snodes import MAX_AHEAD_MS, Heartbeat, Lease, Member, member_name

FIRST: Final = 1
"""The dnode of the snode that the settings name."""


class Members(Repository):
    """Snodes by dnode. Without any registered there is one, that of the settings, which shares nothing."""

    def all(self) -> list[Member]:
        """Return the snodes that share the jobs, by dnode."""
        return self._all(Member, select(MEMBERS).order_by(MEMBERS.c.dnode))

    def create(self, dnode: int, first: str) -> Member:
        """Register the snode of a dnode, and with it that of dnode 1, whose name is `first`; `ExistsError` if it is registered."""
        with self._store.write() as connection:
            now = self._store.now(connection)
            for member in (Member(first, FIRST, now), Member(member_name(dnode), dnode, now)):
                new = insert(connection, MEMBERS).values(to_row(member)).on_conflict_do_nothing().returning(MEMBERS.c.name)
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


class Leases(Repository):
    """Leases of snodes: the right to run one. The epoch grows with every acquisition and never falls."""

    def acquire(self, snode: str, holder: str, ttl_ms: int, address: str | None = None) -> Lease | None:
        """Acquire a lease with a new epoch; return None while another holder's has not expired.

        `holder` identifies one process (host, pid, start). It may acquire its own lease again, which gets a new epoch.
        """
        with self._store.write() as connection:
            now = self._store.now(connection)
            # Newer than the epochs of all snodes, since jobs may move between them.
            epoch = select(func.coalesce(func.max(LEASES.c.epoch), 0) + 1).scalar_subquery()
            row = {"snode": snode, "holder": holder, "epoch": epoch, "expires": now + ttl_ms, "address": address}
            is_valid = and_(LEASES.c.expires > now, LEASES.c.expires <= now + MAX_AHEAD_MS)
            free = or_(LEASES.c.holder.is_(None), LEASES.c.holder == holder, not_(is_valid))
            statement = insert(connection, LEASES).values(row)
            # The row may have been changed since the statement began, which the subquery does not see.
            newer = case((LEASES.c.epoch >= epoch, LEASES.c.epoch + 1), else_=epoch)
            new_values = {"holder": holder, "epoch": newer, "expires": now + ttl_ms, "address": address}
            statement = statement.on_conflict_do_update(index_elements=[LEASES.c.snode], set_=new_values, where=free)
            acquired = connection.scalar(statement.returning(LEASES.c.epoch))
        return None if acquired is None else Lease(snode, holder, acquired, now + ttl_ms, address)

    def renew(self, lease: Lease, ttl_ms: int) -> Lease:
        """Extend a lease; raise `FencedError` if it was released or taken by another, even if that one has expired."""
        with self._store.write() as connection:
            renewed = replace(lease, expires=self._store.now(connection) + ttl_ms)
            statement = update(LEASES).where(*_matches(lease)).values(expires=renewed.expires, address=lease.address)
            kept = connection.execute(statement).rowcount == 1
        if not kept:
            raise fenced_error(lease)
        return renewed

    def raise_epoch(self, lease: Lease, epoch: int, ttl_ms: int) -> Lease:
        """Renew a lease with a newer epoch; `FencedError` if it was released or taken by another."""
        with self._store.write() as connection:
            raised = replace(lease, epoch=epoch, expires=self._store.now(connection) + ttl_ms)
            statement = update(LEASES).where(*_matches(lease), LEASES.c.epoch < epoch)
            is_raised = connection.execute(statement.values(epoch=epoch, expires=raised.expires)).rowcount == 1
        if not is_raised:
            raise fenced_error(lease)
        return raised

    def release(self, lease: Lease) -> None:
        """Release a lease, if it was not lost."""
        with self._store.write() as connection:
            released = {"holder": None, "expires": self._store.now(connection), "address": None}
            connection.execute(update(LEASES).where(*_matches(lease)).values(released))

    def get(self, snode: str) -> Lease | None:
        """Return the newest lease, which may have expired; None if it was released."""
        with self._store.read() as connection:
            row = connection.execute(select(LEASES).where(LEASES.c.snode == snode)).mappings().one_or_none()
        return None if row is None else lease_from_row(row)


def _matches(lease: Lease) -> tuple[ColumnElement[bool], ...]:
    return LEASES.c.snode == lease.snode, LEASES.c.holder == lease.holder, LEASES.c.epoch == lease.epoch


def fenced_error(lease: Lease) -> FencedError:
    return FencedError(
        f"the lease of snode {lease.snode}, epoch {lease.epoch}, is no longer held by {lease.holder}",
        hint="another driver has taken over",
    )


class Snodes(Repository):
    """Heartbeats by snode."""

    def beat(self, lease: Lease, *, token: str | None = None, detail: Mapping[str, Any] | None = None) -> Heartbeat:
        """Record a heartbeat of the lease's holder now; raise `FencedError` if a newer lease exists.

        `detail` must be JSON. The address is the lease's.
        """
        with self._store.write() as connection:
            newest = connection.scalar(select(LEASES.c.epoch).where(LEASES.c.snode == lease.snode).with_for_update(read=True))
            if newest is None or newest > lease.epoch:
                raise fenced_error(lease)
            beat = Heartbeat(lease.snode, lease.epoch, self._store.now(connection), lease.address, token, dict(detail or {}))
            row = to_row(beat)
            statement = insert(connection, SNODES).values(row)
            connection.execute(statement.on_conflict_do_update(index_elements=[SNODES.c.snode], set_=row))
        return beat

    def get(self, name: str) -> Heartbeat:
        """Return the last heartbeat; raise `NotFoundError` if the snode never had one."""
        with self._store.read() as connection:
            row = connection.execute(select(SNODES).where(SNODES.c.snode == name)).mappings().one_or_none()
            if row is None:
                raise not_found("snode", name, connection.scalars(select(SNODES.c.snode)))
        return from_row(Heartbeat, row)

    def all(self) -> list[Heartbeat]:
        """Return the last heartbeat of every snode, by name."""
        return self._all(Heartbeat, select(SNODES).order_by(SNODES.c.snode))
