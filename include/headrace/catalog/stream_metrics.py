"""Measurements of streams at regular intervals, and notes of what late rows did to their windows; old ones are removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Update, bindparam, cast, delete, distinct, func, insert, select, update

from headrace.catalog.rows.jobs import JOBS
from headrace.catalog.rows.streams import STREAM_METRICS, WINDOW_NOTES
from headrace.catalog.store import Repository
from headrace.model.job_parts import whole_id
from headrace.model.stream_metrics import Rate, StreamSample
from headrace.model.window_notes import WindowNote

MEANS: Final = ("rows_in_s", "rows_out_s", "bytes_out_s")
MAXIMA: Final = ("lag_ms", "event_lag_ms", "rows_behind", "state_windows", "state_bytes", "quarantined")
BATCH_PARTS: Final = ("read_ms", "compute_ms", "checkpoint_ms", "write_ms", "record_ms")
HOUR_MS: Final = 3_600_000
THINNING: Final = ((2 * HOUR_MS, 60_000), (24 * HOUR_MS, 600_000))
"""Age from which samples are joined, and the time of which there is one sample then, in ms. With a sample each 10 s, a stream has
at most 2,904 samples of a week."""


class StreamMetrics(Repository):
    """The samples of all streams, for as long as they are kept."""

    def add(self, samples: Sequence[StreamSample], *, keep_ms: int) -> None:
        """Record samples that were taken at one moment, and remove those that are too old. Dropped streams are left out.

        They replace samples of the same moment, which another process may have taken.
        """
        if not samples:
            return
        with self._store.write() as connection:
            now, ids = samples[0].time, [sample.job_id for sample in samples]
            existing = set(connection.scalars(select(JOBS.c.id).where(JOBS.c.id.in_(ids))))
            is_replaced = (STREAM_METRICS.c.time == now) & STREAM_METRICS.c.job_id.in_(ids)
            connection.execute(delete(STREAM_METRICS).where(is_replaced | (STREAM_METRICS.c.time < now - keep_ms)))
            rows = [asdict(sample) for sample in samples if sample.job_id in existing]
            if rows:
                connection.execute(insert(STREAM_METRICS), rows)

    def thin(self, age_ms: int, width_ms: int, *, since: int = 0) -> int:
        """Join the samples of each `width_ms` that are older than `age_ms`, from an instant on (epoch ms).

        What remains is the last sample of each time, with means of rates and maxima of what is at a moment. Returns the instant up
        to which samples are joined. Other processes may do so too.
        """
        with self._store.read() as connection:
            end = (self._store.now(connection) - age_ms) // width_ms * width_ms
        begin = self._first(since)
        while begin is not None and begin < end:
            begin = begin // width_ms * width_ms
            self._join(begin, min(begin + HOUR_MS, end), width_ms)
            begin = self._first(begin + HOUR_MS)
        return max(since, end)

    def _first(self, since: int) -> int | None:
        """Return when the first sample from an instant on was taken; None if there is none."""
        return self._scalar(select(func.min(STREAM_METRICS.c.time)).where(STREAM_METRICS.c.time >= since))

    def _join(self, begin: int, end: int, width_ms: int) -> None:
        """Join the samples of each `width_ms` of a range."""
        columns, other = STREAM_METRICS.c, STREAM_METRICS.alias()
        is_in_range = (columns.time >= begin) & (columns.time < end)
        joined = select(columns.job_id, func.max(columns.time).label("time"), *joined_values()).where(is_in_range)
        joined = joined.group_by(columns.job_id, columns.time // width_ms).having(func.count() > 1)
        follows = (other.c.time > columns.time) & (other.c.time < (columns.time // width_ms + 1) * width_ms)
        has_later = select(other.c.time).where((other.c.job_id == columns.job_id) & follows).exists()
        with self._store.write() as connection:
            rows = connection.execute(joined).mappings().all()
            if rows:
                connection.execute(delete(STREAM_METRICS).where(is_in_range & has_later))
                connection.execute(update_last(), [{f"of_{name}": value for name, value in row.items()} for row in rows])

    def all(self, job_id: str | None = None, *, since: int = 0) -> list[StreamSample]:
        """Return the samples of all streams, or of one, from an instant on (epoch ms), oldest first."""
        query = (
            select(STREAM_METRICS).where(STREAM_METRICS.c.time >= since).order_by(STREAM_METRICS.c.time, STREAM_METRICS.c.job_id)
        )
        if job_id is not None:
            query = query.where(STREAM_METRICS.c.job_id == job_id)
        return self._all(StreamSample, query)

    def at(self, job_id: str, instant: int) -> StreamSample | None:
        """Return the last sample of a stream up to an instant (epoch ms), or else its first one; None if it has none."""
        of_job = select(STREAM_METRICS).where(STREAM_METRICS.c.job_id == job_id).limit(1)
        before = of_job.where(STREAM_METRICS.c.time <= instant).order_by(STREAM_METRICS.c.time.desc())
        samples = self._all(StreamSample, before) or self._all(StreamSample, of_job.order_by(STREAM_METRICS.c.time))
        return samples[0] if samples else None

    def points(self, job_ids: Sequence[str], *, since: int, width_ms: int) -> dict[int, dict[str, Any]]:
        """Return what was measured of a stream from an instant on (epoch ms), by the numbers of parts of `width_ms` with samples.

        Each has means of rates, those of several jobs together, maxima of what is at a moment, the number of micro-batches, and
        what they took together, in ms.
        """
        columns = STREAM_METRICS.c
        point = ((columns.time - since) // width_ms).label("point")
        jobs = func.count(distinct(columns.job_id))
        means = [(func.avg(columns[name]) * jobs).label(name) for name in MEANS]
        maxima = [func.max(columns[name]).label(name) for name in MAXIMA]
        totals = [func.sum(columns[name] * columns.batches).label(name) for name in BATCH_PARTS]
        batches = cast(func.sum(columns.batches), BigInteger).label("batches")
        query = select(point, *means, *maxima, batches, *totals).where(columns.job_id.in_(job_ids), columns.time >= since)
        with self._store.read() as connection:
            return {row.point: row._asdict() for row in connection.execute(query.group_by(point).order_by(point))}

    def rates(self, *, since: int) -> dict[str, list[Rate]]:
        """Return the rates of each stream from an instant on (epoch ms), oldest first, of all of its parts together."""
        columns = STREAM_METRICS.c
        selected = (columns.job_id, columns.time, columns.rows_in_s, columns.rows_out_s, columns.bytes_out_s)
        query = select(*selected).where(columns.time >= since)
        rates: dict[str, list[Rate]] = {}
        with self._store.read() as connection:
            for row in connection.execute(query.order_by(columns.time)):
                rates.setdefault(row.job_id, []).append(Rate(row.time, row.rows_in_s, row.rows_out_s, row.bytes_out_s))
        for part in [id for id in rates if whole_id(id) != id]:
            rates[whole_id(part)] = joined_rates(rates.get(whole_id(part), []), rates.pop(part))
        return rates


def joined_rates(rates: Sequence[Rate], others: Sequence[Rate]) -> list[Rate]:
    """Return the sums of the rates of two parts of a stream, whose last samples are of about the same time."""
    joined = [
        Rate(one.time, one.rows_in + other.rows_in, one.rows_out + other.rows_out, one.bytes_out + other.bytes_out)
        for one, other in zip(reversed(rates), reversed(others), strict=False)
    ]
    longer = rates if len(rates) > len(others) else others
    return [*longer[: len(longer) - len(joined)], *reversed(joined)]


def joined_values() -> list[ColumnElement[Any]]:
    """Return what a sample of a longer time has of the samples that it replaces; its totals are those of the last one."""
    columns = STREAM_METRICS.c
    batches = func.nullif(func.sum(columns.batches), 0)
    means = [(func.sum(columns[name] * columns.batches) / batches).label(name) for name in ("batch_ms", *BATCH_PARTS)]
    return [
        *(func.avg(columns[name]).label(name) for name in MEANS),
        *(func.max(columns[name]).label(name) for name in MAXIMA),
        cast(func.sum(columns.batches), BigInteger).label("batches"),
        *means,
    ]


def update_last() -> Update:
    """Return the statement that gives a sample the values of those that it replaces, as `joined_values` names them."""
    columns, names = STREAM_METRICS.c, (*MEANS, *MAXIMA, "batches", "batch_ms", *BATCH_PARTS)
    of_last = (columns.job_id == bindparam("of_job_id")) & (columns.time == bindparam("of_time"))
    return update(STREAM_METRICS).where(of_last).values({name: bindparam(f"of_{name}") for name in names})


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
