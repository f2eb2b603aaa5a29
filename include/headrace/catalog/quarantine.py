"""The quarantine of streams: rows that they have set aside, as of each micro-batch."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, insert, select, update

from headrace.catalog.jobs import refuse_older
from headrace.catalog.rows.jobs import JOBS
from headrace.catalog.rows.streams import QUARANTINE, from_row, key_to_row, to_row
from headrace.catalog.store import Repository
from headrace.model.quarantine import QuarantineChange, QuarantinedRow, QuarantineRequest, RowKey

KEPT_BATCHES = 100
"""Micro-batches for which a released row is kept at least."""
KEY_PREFIX: Final = "key_of_"
"""How parameters begin that are the columns of a key."""
IN_QUARANTINE = (QUARANTINE.c.released.is_(None), QUARANTINE.c.dropped.is_(None))


class Quarantine(Repository):
    """Rows in quarantine by stream.

    A row is left out from the micro-batch that set it aside until that which released it. So a stream that restarts at an earlier
    micro-batch finds what was left out after that one. The row is in quarantine for as long, or until it was dropped.
    """

    def rows(self, job_id: str, *, with_released: bool = False) -> list[QuarantinedRow]:
        """Return the rows that a stream leaves out, oldest first; also those that it released, for as long as they are recorded."""
        query = select(QUARANTINE).where(QUARANTINE.c.job_id == job_id)
        if not with_released:
            query = query.where(QUARANTINE.c.released.is_(None))
        ordered = query.order_by(QUARANTINE.c.batch, QUARANTINE.c.series, QUARANTINE.c.time, QUARANTINE.c.key)
        return [from_row(row) for row in self._rows(ordered)]

    def counts(self) -> dict[str, int]:
        """Return the number of rows in quarantine of each stream, or part of one, that has any."""
        query = select(QUARANTINE.c.job_id, func.count()).where(*IN_QUARANTINE).group_by(QUARANTINE.c.job_id)
        with self._store.read() as connection:
            return {str(row[0]): int(row[1]) for row in connection.execute(query)}

    def commit(
        self, job_id: str, batch: int, change: QuarantineChange, epoch: int | None = None, *, oldest: int | None = None
    ) -> None:
        """Record what a micro-batch changes. Repeating the micro-batch repeats nothing.

        Args:
            job_id: The stream.
            batch: The number of the micro-batch.
            change: What it changes.
            epoch: That of the driver's lease.
            oldest: The oldest micro-batch at which the stream may restart, or from which it may recompute its state.

        Raises:
            FencedError: The stream belongs to another driver by now.
        """
        kept_from = batch - KEPT_BATCHES if oldest is None else min(oldest, batch - KEPT_BATCHES)
        with self._store.write() as connection:
            if epoch is not None:
                refuse_older(connection, job_id, epoch)
            _rewind(connection, job_id, batch - 1)
            _end(connection, job_id, change.released, released=batch)
            _end(connection, job_id, change.dropped, dropped=batch)
            if change.added:
                connection.execute(insert(QUARANTINE), [to_row(job_id, row) for row in change.added])
            is_old = and_(QUARANTINE.c.job_id == job_id, QUARANTINE.c.released < kept_from)
            connection.execute(delete(QUARANTINE).where(is_old))

    def rewind(self, job_id: str, batch: int, epoch: int | None = None) -> None:
        """Undo what micro-batches after this one have changed; raises what `commit` does."""
        with self._store.write() as connection:
            if epoch is not None:
                refuse_older(connection, job_id, epoch)
            _rewind(connection, job_id, batch)

    def request(self, job_id: str, request: QuarantineRequest, now: int) -> None:
        """Ask the driver of a stream to do something with its rows in quarantine."""
        with self._store.write() as connection:
            rows = update(QUARANTINE).where(QUARANTINE.c.job_id == job_id, *IN_QUARANTINE)
            connection.execute(rows.values(requested=request.value))
            connection.execute(update(JOBS).where(JOBS.c.id == job_id).values(quarantine_requested=now))

    def finish_request(self, job_id: str, requested: int) -> None:
        """Forget a request that was served, unless there is a newer one."""
        served = (JOBS.c.id == job_id, JOBS.c.quarantine_requested == requested)
        with self._store.write() as connection:
            connection.execute(update(JOBS).where(*served).values(quarantine_requested=None))


def _rewind(connection: Connection, job_id: str, batch: int) -> None:
    is_job: ColumnElement[bool] = QUARANTINE.c.job_id == job_id
    connection.execute(delete(QUARANTINE).where(is_job, QUARANTINE.c.batch > batch))
    connection.execute(update(QUARANTINE).where(is_job, QUARANTINE.c.released > batch).values(released=None))
    connection.execute(update(QUARANTINE).where(is_job, QUARANTINE.c.dropped > batch).values(dropped=None))


def _end(connection: Connection, job_id: str, keys: Collection[RowKey], **ended: int) -> None:
    """Record the micro-batch that released or dropped some rows."""
    if not keys:
        return
    rows = [{f"{KEY_PREFIX}{name}": value for name, value in key_to_row(key).items()} for key in keys]
    is_row = and_(*(QUARANTINE.c[name.removeprefix(KEY_PREFIX)] == bindparam(name) for name in rows[0]))
    held = update(QUARANTINE).where(QUARANTINE.c.job_id == job_id, QUARANTINE.c.released.is_(None), is_row)
    connection.execute(held.values(**ended), rows)
