"""Leases of snodes: one holder per epoch; each step is a single compare-and-set statement."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import ColumnElement, case, func, or_, select, update

from headrace.catalog.rows.leases import LEASES, from_row
from headrace.catalog.store import Store, insert
from headrace.errors import FencedError
from headrace.model.snodes import Lease


class Leases:
    """Leases of snodes: the right to run one. The epoch grows with every acquisition and never falls."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def acquire(self, snode: str, holder: str, ttl_ms: int, address: str | None = None) -> Lease | None:
        """Acquire a lease with a new epoch; return None while another holder's has not expired.

        `holder` identifies one process (host, pid, start). It may acquire its own lease again, which gets a new epoch.
        """
        with self._store.write() as connection:
            now = self._store.now(connection)
            # Newer than the epochs of all snodes, since jobs may move between them.
            epoch = select(func.coalesce(func.max(LEASES.c.epoch), 0) + 1).scalar_subquery()
            row = {"snode": snode, "holder": holder, "epoch": epoch, "expires": now + ttl_ms, "address": address}
            free = or_(LEASES.c.holder.is_(None), LEASES.c.holder == holder, LEASES.c.expires <= now)
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
        return None if row is None else from_row(row)


def _matches(lease: Lease) -> tuple[ColumnElement[bool], ...]:
    return LEASES.c.snode == lease.snode, LEASES.c.holder == lease.holder, LEASES.c.epoch == lease.epoch


def fenced_error(lease: Lease) -> FencedError:
    """Return the error for a lease that another driver has taken over."""
    return FencedError(
        f"the lease of snode {lease.snode}, epoch {lease.epoch}, is no longer held by {lease.holder}",
        hint="another driver has taken over",
    )
