"""The log of what users did, and of what they were refused."""

from __future__ import annotations

from typing import Final

from sqlalchemy import delete, insert, select

from headrace.catalog.rows.access import AUDIT_LOG
from headrace.catalog.store import Repository
from headrace.model.access import AuditEntry

MAX_ENTRIES: Final = 100_000
"""Entries that are kept, the newest."""
PRUNE_EVERY: Final = 1_000


class AuditLog(Repository):
    """Entries in the order in which they were recorded."""

    def record(self, user: str, address: str, action: str, statement: str, *, is_allowed: bool, reason: str = "") -> None:
        """Record what a user did or tried; the statement has no secrets any more."""
        with self._store.write() as connection:
            values = {"time": self._store.now(connection), "user": user, "address": address, "action": action}
            values |= {"statement": statement, "is_allowed": is_allowed, "reason": reason}
            number = connection.scalar(insert(AUDIT_LOG).values(values).returning(AUDIT_LOG.c.number)) or 0
            if number % PRUNE_EVERY == 0:
                connection.execute(delete(AUDIT_LOG).where(AUDIT_LOG.c.number <= number - MAX_ENTRIES))

    def entries(self, limit: int | None = None) -> list[AuditEntry]:
        """Return the entries, the newest first."""
        return self._all(AuditEntry, select(AUDIT_LOG).order_by(AUDIT_LOG.c.number.desc()).limit(limit))
