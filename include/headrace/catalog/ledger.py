"""The ledger of backfills: each chunk is planned, claimed and finished exactly once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    cast,
    delete,
    func,
    or_,
    select,
    true,
    update,
)

from headrace.catalog.processes import has_ended, process_identity
from headrace.catalog.rows.jobs import CHUNKS, JOBS
from headrace.catalog.store import Repository, insert
from headrace.errors import FencedError, NotFoundError, TransientError
from headrace.model.clock import MAX_STEP_MS
from headrace.model.conversion import from_row, to_row
from headrace.model.ledger import EARLIER, HISTORY, Chunk, ChunkState, RunSummary, joined

# A chunk takes minutes at most, so the holder of a claim older than this has died.
ABANDONED_MS: Final = 3_600_000


class Ledger(Repository):
    """Chunks by stream, run and number. A run is one backfill, planned once."""

    def plan(self, job_id: str, run: str, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Plan a run unless it is planned already, and return its chunks by number.

        Raises:
            NotFoundError: The stream was dropped.
        """
        planned = [replace(chunk, job_id=job_id, run=run, state=ChunkState.PENDING, message=None) for chunk in chunks]
        with self._store.write() as connection:
            if connection.scalar(select(JOBS.c.id).where(JOBS.c.id == job_id).with_for_update()) is None:
                raise NotFoundError(f"no job has the id {job_id}", hint="it was dropped")
            present = connection.execute(_chunks(job_id, run)).mappings().all()
            if not present and planned:
                connection.execute(insert(connection, CHUNKS), [to_row(chunk) for chunk in planned])
                present = connection.execute(_chunks(job_id, run)).mappings().all()
        return [from_row(Chunk, row) for row in present]

    def claim(self, job_id: str, run: str, number: int, holder: str | None = None, *, abandoned_ms: int = ABANDONED_MS) -> Chunk:
        """Claim a chunk; it is then RUNNING for this holder (default: this process), or DONE if it needs no work.

        PENDING and FAILED chunks can be claimed, and RUNNING ones by the same holder, if the process of their holder has ended, or
        if claimed at least `abandoned_ms` ago.

        Raises:
            TransientError: Another holder has claimed it.
            NotFoundError: The chunk does not exist.
        """
        holder = holder or process_identity()
        with self._store.write() as connection:
            now = self._store.now(connection)
            values = {"state": ChunkState.RUNNING.value, "holder": holder, "claimed": now, "message": None, "finished": None}
            present = _get(connection, job_id, run, number)["holder"] or holder
            free = _is_claimable(present if has_ended(present) else holder, now, abandoned_ms)
            connection.execute(update(CHUNKS).where(*_matches(job_id, run, number), free).values(values))
            row = _get(connection, job_id, run, number)
        if row["state"] == ChunkState.RUNNING.value and row["holder"] != holder:
            age = (now - row["claimed"]) // 1000
            message = f"chunk {number} of run {run} is being worked on by {row['holder']}, since {age} s"
            raise TransientError(message, hint="wait for it, or try again when its claim is old enough to count as abandoned")
        return from_row(Chunk, row)

    def finish(self, job_id: str, run: str, number: int, rows: int | None = None, holder: str | None = None) -> None:
        """Mark a claimed chunk DONE, with the rows it read. Idempotent. Raise `FencedError` if another has claimed it since."""
        self._close(job_id, run, number, holder, {"state": ChunkState.DONE.value, "rows_done": rows, "message": None})

    def fail(self, job_id: str, run: str, number: int, message: str, holder: str | None = None) -> None:
        """Mark a claimed chunk FAILED, so that it may be claimed again. Raise `FencedError` if another has claimed it since."""
        self._close(job_id, run, number, holder, {"state": ChunkState.FAILED.value, "message": message})

    def chunks(self, job_id: str, run: str | None = None) -> list[Chunk]:
        """Return the chunks of a run by number, or those of all runs of the job."""
        return self._all(Chunk, _chunks(job_id, run))

    def rows_per_second(self) -> int | None:
        """Return the rate at which chunks of all jobs were computed; None before the first one."""
        done = (CHUNKS.c.state == ChunkState.DONE.value, CHUNKS.c.rows_done.is_not(None), CHUNKS.c.finished > CHUNKS.c.claimed)
        query = select(func.sum(CHUNKS.c.rows_done), func.sum(CHUNKS.c.finished - CHUNKS.c.claimed)).where(*done)
        with self._store.read() as connection:
            rows, milliseconds = connection.execute(query).one()
        return max(1, int(rows) * 1000 // int(milliseconds)) if rows and milliseconds else None

    def summary(self, job_id: str, run: str) -> RunSummary:
        """Return the progress of a run; all zero if nothing is planned."""
        return RunSummary(job_id, run, **self._rows(_summary(job_id, run))[0])

    def forget(self, before: int) -> int:
        """Forget the runs that have ended before an instant (epoch ms), but no history of a job; return their number of chunks.

        The ranges that they have computed stay, joined as the chunks of `EARLIER`.
        """
        is_open = CHUNKS.c.state.in_([ChunkState.PENDING.value, ChunkState.RUNNING.value])
        runs = select(CHUNKS.c.job_id, CHUNKS.c.run).where(CHUNKS.c.run != HISTORY).group_by(CHUNKS.c.job_id, CHUNKS.c.run)
        ended = runs.having(func.count().filter(is_open) == 0, func.max(CHUNKS.c.finished) < before)
        forgotten = 0
        with self._store.write() as connection:
            names = defaultdict(list)
            for job_id, run in connection.execute(ended):
                names[job_id].append(run)
            for job_id, of_job in names.items():
                removal = delete(CHUNKS).where(CHUNKS.c.job_id == job_id, CHUNKS.c.run.in_([*of_job, EARLIER]))
                rows = connection.execute(removal.returning(CHUNKS.c.run, CHUNKS.c.state, CHUNKS.c.start, CHUNKS.c.end)).all()
                forgotten += sum(run != EARLIER for run, *_ in rows)
                ranges = joined((start, end - 1) for _, state, start, end in rows if state == ChunkState.DONE.value)
                kept = [Chunk(job_id, EARLIER, at, low, high + 1, 0, ChunkState.DONE) for at, (low, high) in enumerate(ranges)]
                if kept:
                    connection.execute(insert(connection, CHUNKS), [to_row(chunk) for chunk in kept])
        return forgotten

    def _close(self, job_id: str, run: str, number: int, holder: str | None, values: Mapping[str, Any]) -> None:
        holder = holder or process_identity()
        is_claimed = and_(CHUNKS.c.holder == holder, CHUNKS.c.state == ChunkState.RUNNING.value)
        with self._store.write() as connection:
            finished = {**values, "finished": self._store.now(connection)}
            change = update(CHUNKS).where(*_matches(job_id, run, number), is_claimed).values(finished)
            if connection.execute(change).rowcount == 1:
                return
            row = _get(connection, job_id, run, number)
        if (row["state"], row["holder"]) != (values["state"], holder):
            raise FencedError(f"chunk {number} of run {run} is {row['state']} by {row['holder']}, not claimed by {holder}")


def _matches(job_id: str, run: str, number: int) -> tuple[ColumnElement[bool], ...]:
    return CHUNKS.c.job_id == job_id, CHUNKS.c.run == run, CHUNKS.c.number == number


def _is_claimable(holder: str, now: int, abandoned_ms: int) -> ColumnElement[bool]:
    """Return the condition of chunks that a holder may claim: unclaimed, its own, or claimed at least `abandoned_ms` ago."""
    is_ahead = CHUNKS.c.claimed > now + MAX_STEP_MS  # of a clock that was set back
    abandoned = or_(CHUNKS.c.holder == holder, CHUNKS.c.claimed <= now - abandoned_ms, is_ahead)
    unclaimed = CHUNKS.c.state.in_([ChunkState.PENDING.value, ChunkState.FAILED.value])
    return or_(unclaimed, and_(CHUNKS.c.state == ChunkState.RUNNING.value, abandoned))


def _get(connection: Connection, job_id: str, run: str, number: int) -> RowMapping:
    row = connection.execute(select(CHUNKS).where(*_matches(job_id, run, number))).mappings().one_or_none()
    if row is None:
        raise NotFoundError(f"run {run} of stream {job_id} has no chunk {number}", hint="plan the run first")
    return row


def _chunks(job_id: str, run: str | None) -> Select[*tuple[Any, ...]]:
    query = select(CHUNKS).where(CHUNKS.c.job_id == job_id).order_by(CHUNKS.c.run, CHUNKS.c.number)
    return query if run is None else query.where(CHUNKS.c.run == run)


def _summary(job_id: str, run: str) -> Select[*tuple[Any, ...]]:
    def in_state(state: ChunkState) -> ColumnElement[bool]:
        return CHUNKS.c.state == state.value

    def total(column: Column[Any], where: ColumnElement[bool]) -> ColumnElement[int]:
        # PostgreSQL sums BIGINT to decimals, hence the cast.
        return cast(func.coalesce(func.sum(column).filter(where), 0), BigInteger)

    done = in_state(ChunkState.DONE)
    return select(
        func.count().label("chunks"),
        func.count().filter(done).label("done"),
        func.count().filter(in_state(ChunkState.RUNNING)).label("running"),
        func.count().filter(in_state(ChunkState.FAILED)).label("failed"),
        total(CHUNKS.c.rows, true()).label("rows"),
        total(CHUNKS.c.rows, done).label("rows_planned_done"),
        total(CHUNKS.c.rows_done, done).label("rows_done"),
        func.min(CHUNKS.c.claimed).label("started"),
        func.max(func.coalesce(CHUNKS.c.finished, CHUNKS.c.claimed)).label("updated"),
    ).where(CHUNKS.c.job_id == job_id, CHUNKS.c.run == run)
