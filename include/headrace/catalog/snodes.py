"""Snodes: their last heartbeat, address and status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from headrace.catalog.leases import fenced_error
from headrace.catalog.rows.leases import LEASES
from headrace.catalog.rows.snodes import SNODES
from headrace.catalog.rules import not_found
from headrace.catalog.store import Store, insert
from headrace.model.conversion import from_row, to_row
from headrace.model.snodes import Heartbeat, Lease


class Snodes:
    """Heartbeats by snode."""

    def __init__(self, store: Store) -> None:
        self._store = store

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
        with self._store.read() as connection:
            return [from_row(Heartbeat, row) for row in connection.execute(select(SNODES).order_by(SNODES.c.snode)).mappings()]
