"""Measurements of streams at regular intervals; old ones are removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from sqlalchemy import BigInteger, cast, delete, func, insert, select

from headrace.catalog.rows.jobs import JOBS
from headrace.catalog.rows.streams import STREAM_METRICS
from headrace.catalog.store import Repository
from headrace.model.stream_metrics import Rate, StreamPoint, StreamSample

MEANS: Final = ("rows_in_s", "rows_out_s", "bytes_out_s")
MAXIMA: Final = ("lag_ms", "event_lag_ms", "rows_behind", "state_windows", "state_bytes", "quarantined")
BATCH_PARTS: Final = ("read_ms", "compute_ms", "checkpoint_ms", "write_ms", "record_ms")


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

    def all(self, job_id: str | None = None, *, since: int = 0) -> list[StreamSample]:
        """Return the samples of all streams, or of one, from an instant on (epoch ms), oldest first."""
        query = (
            select(STREAM_METRICS).where(STREAM_METRICS.c.time >= since).order_by(STREAM_METRICS.c.time, STREAM_METRICS.c.job_id)
        )
        if job_id is not None:
            query = query.where(STREAM_METRICS.c.job_id == job_id)
        return self._all(StreamSample, query)

    def points(self, job_id: str, *, since: int, width_ms: int) -> list[StreamPoint]:
        """Return what was measured of a stream from an instant on (epoch ms), in order: parts of `width_ms` that have samples."""
        columns = STREAM_METRICS.c
        point = ((columns.time - since) // width_ms).label("point")
        means = [func.avg(columns[name]).label(name) for name in MEANS]
        maxima = [func.max(columns[name]).label(name) for name in MAXIMA]
        totals = [func.sum(columns[name] * columns.batches).label(name) for name in BATCH_PARTS]
        batches = cast(func.sum(columns.batches), BigInteger).label("batches")
        query = select(point, *means, *maxima, batches, *totals).where(columns.job_id == job_id, columns.time >= since)
        return self._all(StreamPoint, query.group_by(point).order_by(point))

    def rates(self, *, since: int) -> dict[str, list[Rate]]:
        """Return the rates of each stream from an instant on (epoch ms), oldest first."""
        columns = STREAM_METRICS.c
        selected = (columns.job_id, columns.time, columns.rows_in_s, columns.rows_out_s, columns.bytes_out_s)
        query = select(*selected).where(columns.time >= since)
        rates: dict[str, list[Rate]] = {}
        with self._store.read() as connection:
            for row in connection.execute(query.order_by(columns.time)):
                rates.setdefault(row.job_id, []).append(Rate(row.time, row.rows_in_s, row.rows_out_s, row.bytes_out_s))
        return rates
