"""Events: what happened, for the page and SHOW."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from sqlalchemy import Connection, delete, insert, select

from headrace.catalog.rows.jobs import EVENTS
from headrace.catalog.store import Repository
from headrace.model.events import Event
from headrace.model.job_parts import whole_id

# A stream that fails once a minute writes half a million events a year, so remove old ones.
KEPT: Final = 100_000


class Events(Repository):
    """The newest events; old ones are removed."""

    def record(self, subject_kind: str, subject: str, kind: str, message: str) -> None:
        """Record an event now. What happens to a part of a stream happens to the stream."""
        with self._store.write() as connection:
            add_event(connection, Event(self._store.now(connection), subject_kind, whole_id(subject), kind, message))

    def all(self, subject_kind: str | None = None, subject: str | None = None, limit: int = 1_000) -> list[Event]:
        """Return events, newest first, optionally of one kind of subject or one subject."""
        query = select(EVENTS).order_by(EVENTS.c.id.desc()).limit(limit)
        if subject_kind is not None:
            query = query.where(EVENTS.c.subject_kind == subject_kind)
        if subject is not None:
            query = query.where(EVENTS.c.subject == whole_id(subject))
        return self._all(Event, query)


def add_event(connection: Connection, event: Event) -> None:
    """Record an event in a transaction."""
    id = connection.scalar(insert(EVENTS).values(asdict(event)).returning(EVENTS.c.id))
    connection.execute(delete(EVENTS).where(EVENTS.c.id <= (id or 0) - KEPT))
