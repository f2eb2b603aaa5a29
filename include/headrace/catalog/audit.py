"""The log of what users did, and of what they were refused."""

from __future__ import annotations

from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, not_, select

from headrace.catalog.rows.access import AUDIT_LOG
from headrace.catalog.store import Repository
from headrace.model.access import AuditEntry

LOGIN: Final = "LOGIN"
"""The action of those who were not let in."""
MAX_ENTRIES: Final = 100_000
"""Entries that are kept, the newest: of changes, and of what users were refused."""
MAX_LOGINS: Final = 10_000
"""Entries of logins that are kept beside these: those who were not let in cannot make the others go."""
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
                prune(connection)

    def entries(self, limit: int | None = None) -> list[AuditEntry]:
        """Return the entries, the newest first."""
        return self._all(AuditEntry, select(AUDIT_LOG).order_by(AUDIT_LOG.c.number.desc()).limit(limit))


def prune(connection: Connection) -> None:
    """Remove the oldest entries of each kind beyond those that are kept."""
    is_login, is_allowed = AUDIT_LOG.c.action == LOGIN, AUDIT_LOG.c.is_allowed
    kinds: list[tuple[ColumnElement[bool], int]] = [
        (is_login, MAX_LOGINS),
        (and_(not_(is_login), is_allowed), MAX_ENTRIES),
        (and_(not_(is_login), not_(is_allowed)), MAX_ENTRIES),
    ]
    for kind, kept in kinds:
        newest = select(AUDIT_LOG.c.number).where(kind).order_by(AUDIT_LOG.c.number.desc())
        last = connection.scalar(newest.offset(kept).limit(1))
        if last is not None:
            connection.execute(delete(AUDIT_LOG).where(kind, AUDIT_LOG.c.number <= last))
