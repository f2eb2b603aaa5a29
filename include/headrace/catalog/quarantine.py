"""The quarantine of streams: rows that they have set aside, as of each micro-batch."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, update

from headrace.catalog.jobs import refuse_older
from headrace.catalog.rows.jobs import JOBS
from headrace.catalog.rows.quarantine import QUARANTINE, from_row, key_to_row, to_row
from headrace.catalog.store import Store
from headrace.model.quarantine import QuarantineChange, QuarantinedRow, RowKey

KEPT_BATCHES = 100
"""Micro-batches for which a released row is kept: a stream never restarts further back."""


class Quarantine:
    """Rows in quarantine by stream.

    A row is in quarantine from the micro-batch that set it aside until that which released it. So a stream that restarts at an
    earlier micro-batch finds what was in quarantine after that one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def rows(self, job_id: str, *, with_released: bool = False) -> list[QuarantinedRow]:
        """Return the rows in quarantine of a stream, oldest first; also those that left it, for as long as they are recorded."""
        query = select(QUARANTINE).where(QUARANTINE.c.job_id == job_id)
        if not with_released:
            query = query.where(QUARANTINE.c.released.is_(None))
        ordered = query.order_by(QUARANTINE.c.batch, QUARANTINE.c.series, QUARANTINE.c.time, QUARANTINE.c.key)
        with self._store.read() as connection:
            return [from_row(row) for row in connection.execute(ordered).mappings()]

    def counts(self) -> dict[str, int]:
        """Return the number of rows in quarantine of each stream that has any."""
        query = select(QUARANTINE.c.job_id, func.count()).where(QUARANTINE.c.released.is_(None)).group_by(QUARANTINE.c.job_id)
        with self._store.read() as connection:
            return {str(row[0]): int(row[1]) for row in connection.execute(query)}

    def commit(self, job_id: str, batch: int, change: QuarantineChange, epoch: int | None = None) -> None:
        """Record what a micro-batch changes. Repeating the micro-batch repeats nothing.

        Raises:
            FencedError: The stream belongs to another driver by now.
        """
        with self._store.write() as connection:
            if epoch is not None:
                refuse_older(connection, job_id, epoch)
            _rewind(connection, job_id, batch - 1)
            _release(connection, job_id, batch, change.released)
            if change.added:
                connection.execute(insert(QUARANTINE), [to_row(job_id, row) for row in change.added])
            is_old = and_(QUARANTINE.c.job_id == job_id, QUARANTINE.c.released < batch - KEPT_BATCHES)
            connection.execute(delete(QUARANTINE).where(is_old))

    def rewind(self, job_id: str, batch: int) -> None:
        """Undo what micro-batches after this one have changed."""
        with self._store.write() as connection:
            _rewind(connection, job_id, batch)

    def request_replay(self, job_id: str, now: int) -> None:
        """Ask the driver of a stream to process its rows in quarantine again."""
        with self._store.write() as connection:
            requested = update(QUARANTINE).where(QUARANTINE.c.job_id == job_id, QUARANTINE.c.released.is_(None))
            connection.execute(requested.values(replay=True))
            connection.execute(update(JOBS).where(JOBS.c.id == job_id).values(replay_requested=now))

    def finish_replay(self, job_id: str, requested: int) -> None:
        """Forget a request that was served, unless there is a newer one."""
        served = (JOBS.c.id == job_id, JOBS.c.replay_requested == requested)
        with self._store.write() as connection:
            connection.execute(update(JOBS).where(*served).values(replay_requested=None))


def _rewind(connection: Connection, job_id: str, batch: int) -> None:
    is_job: ColumnElement[bool] = QUARANTINE.c.job_id == job_id
    connection.execute(delete(QUARANTINE).where(is_job, QUARANTINE.c.batch > batch))
    connection.execute(update(QUARANTINE).where(is_job, QUARANTINE.c.released > batch).values(released=None))


def _release(connection: Connection, job_id: str, batch: int, keys: Iterable[RowKey]) -> None:
    for key in keys:
        columns = key_to_row(key)
        is_row = and_(*(QUARANTINE.c[name] == value for name, value in columns.items()))
        held = update(QUARANTINE).where(QUARANTINE.c.job_id == job_id, QUARANTINE.c.released.is_(None), is_row)
        connection.execute(held.values(released=batch))
