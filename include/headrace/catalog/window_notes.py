"""What late and changed rows did to windows of streams: the latest windows of each stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import delete, insert, select

from headrace.catalog.rows.jobs import JOBS
from headrace.catalog.rows.streams import WINDOW_NOTES
from headrace.catalog.store import Repository
from headrace.model.window_notes import WindowNote


class WindowNotes(Repository):
    """The notes of all streams. The driver of a stream keeps their number small."""

    def put(self, job_id: str, notes: Sequence[WindowNote]) -> None:
        """Replace the notes of a stream; does nothing if it was dropped."""
        with self._store.write() as connection:
            connection.execute(delete(WINDOW_NOTES).where(WINDOW_NOTES.c.job_id == job_id))
            if notes and connection.scalar(select(JOBS.c.id).where(JOBS.c.id == job_id)) is not None:
                connection.execute(insert(WINDOW_NOTES), [asdict(note) | {"job_id": job_id} for note in notes])

    def all(self, job_id: str) -> list[WindowNote]:
        """Return the notes of a stream, of the oldest event first."""
        query = select(WINDOW_NOTES).where(WINDOW_NOTES.c.job_id == job_id)
        return self._all(WindowNote, query.order_by(WINDOW_NOTES.c.time, WINDOW_NOTES.c.start, WINDOW_NOTES.c.series))
