"""JSON values that the page shows, built from the catalog. Instants are epoch milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import NotFoundError
from headrace.model.jobs import JobRecord, JobState
from headrace.model.ledger import Chunk, ChunkState, RunSummary
from headrace.model.time import Precision
from headrace.runtime.activity import NO_ACTIVITY, SLOW_BATCH_HINT, ReportedActivity, current_lag_ms, reported_activity
from headrace.runtime.dag_ids import job_dag_id, snode_dag_id
from headrace.runtime.supervision import Snapshot, driver_problem
from headrace.web.rates import RateSampler

if TYPE_CHECKING:
    from headrace.catalog import Catalog

Json = dict[str, Any]
HISTORY: Final = "history"
MAX_EVENTS: Final = 100
MAX_CHUNKS: Final = 200


def stream_overview(state: Snapshot, runs: Mapping[str, RunSummary], rates: RateSampler, stale_ms: int) -> Json:
    """Return all streams, the snodes that run them, and a summary of their health."""
    activity = reported_activity(state, stale_ms)
    streams = [
        stream_row(record, runs.get(job_id), rates, activity.get(job_id, NO_ACTIVITY), state.now)
        for job_id, record in state.jobs.items()
    ]
    return {
        "as_of": state.now,
        "health": health_summary(state, activity, rates),
        "snodes": snode_rows(state, stale_ms),
        "streams": streams,
    }


def health_summary(state: Snapshot, activity: Mapping[str, ReportedActivity], rates: RateSampler) -> Json:
    """Return the number of streams by state, the worst lag, total rates in rows per second, and expired rows."""
    records = list(state.jobs.values())
    states = {state.value: sum(record.state is state for record in records) for state in JobState}
    lags = [
        (current_lag_ms(record, activity.get(job_id), state.now), qualified_name(record)) for job_id, record in state.jobs.items()
    ]
    worst = max(((lag, name) for lag, name in lags if lag is not None), default=None)
    current = [rate for record in records if (rate := rates.current_rate(record.definition.id)) is not None]
    return {
        "states": states,
        "worst_lag": None if worst is None else {"ms": worst[0], "stream": worst[1]},
        "rows_in_s": sum(rate.rows_in for rate in current) if current else None,
        "rows_out_s": sum(rate.rows_out for rate in current) if current else None,
        "rows_expired": sum(record.progress.counters.rows_expired for record in records),
    }


def snode_rows(state: Snapshot, stale_ms: int) -> list[Json]:
    """Return the snodes that streams belong to or that have ever run, with the problem of each, if any."""
    names = sorted({*state.beats, *state.leases, *(record.definition.snode for record in state.jobs.values())})
    return [snode_row(name, state, stale_ms) for name in names]


def snode_row(name: str, state: Snapshot, stale_ms: int) -> Json:
    """Return a snode's lease, its last heartbeat and its driver's problem, if any."""
    lease, beat = state.leases.get(name), state.beats.get(name)
    return {
        "name": name,
        "problem": driver_problem(lease, beat, state.now, stale_ms),
        "holder": lease.holder if lease else None,
        "epoch": lease.epoch if lease else None,
        "heartbeat": beat.at if beat else None,
        "dag_id": snode_dag_id(name),
    }


def qualified_name(record: JobRecord) -> str:
    """Return `database.name` of a stream."""
    return f"{record.definition.database}.{record.definition.name}"


def record_dag_id(record: JobRecord) -> str:
    """Return the id of a stream's DAG."""
    return job_dag_id(record.definition.kind, record.definition.database, record.definition.name)


def stream_row(record: JobRecord, run: RunSummary | None, rates: RateSampler, activity: ReportedActivity, now: int) -> Json:
    """Return a stream's row of the list."""
    definition, progress = record.definition, record.progress
    rate = rates.current_rate(definition.id)
    return {
        "id": definition.id,
        "database": definition.database,
        "name": definition.name,
        "kind": definition.kind.value,
        "source": ", ".join(map(str, definition.sources)),
        "target": None if definition.target is None else str(definition.target),
        "snode": definition.snode,
        "dag_id": record_dag_id(record),
        "created": definition.created,
        "state": record.state.value,
        "desired": record.desired.value,
        "reason": None if record.reason is None else asdict(record.reason),
        "lag_ms": current_lag_ms(record, activity, now),
        "batch_ms": activity.batch_ms,
        "slow_batch": None if activity.slow_batch is None else f"{activity.slow_batch}: {SLOW_BATCH_HINT}",
        "updated": progress.updated,
        "counters": asdict(progress.counters),
        "rate": None if rate is None else asdict(rate),
        "history": rates.series(definition.id),
        "backfill": None if run is None or record.state is not JobState.FILLING else backfill_progress(run, now),
    }


def backfill_progress(run: RunSummary, now: int) -> Json:
    """Return the progress of a backfill run."""
    return {
        "run": run.run,
        "chunks": run.chunks,
        "done": run.done,
        "running": run.running,
        "failed": run.failed,
        "rows": run.rows,
        "rows_done": run.rows_done,
        "fraction": run.fraction if run.chunks else 0.0,
        "eta_ms": run.eta_ms(now),
        "started": run.started,
        "updated": run.updated,
    }


def stream_detail(catalog: Catalog, record: JobRecord, now: int) -> Json:
    """Return what the list does not show of a stream: its statement, offsets, backfills and events."""
    definition, progress = record.definition, record.progress
    precision = find_precision(catalog, definition.source.database)
    chunks = catalog.ledger.chunks(definition.id)
    runs = sorted({chunk.run for chunk in chunks}, key=lambda run: (run != HISTORY, run))
    events = catalog.events.all("job", definition.id, limit=MAX_EVENTS)
    return {
        "as_of": now,
        "sql": definition.sql,
        "dialect": definition.dialect,
        "source_version": record.source_version,
        "boundary": record.boundary_version,
        "watermark": to_millis(progress.watermark, precision),
        "runs": [backfill_progress(catalog.ledger.summary(definition.id, run), now) for run in runs],
        "chunks": [chunk_row(chunk, precision) for chunk in select_chunks(chunks)],
        "total_chunks": len(chunks),
        "events": [{"time": event.time, "kind": event.kind, "message": event.message} for event in events],
    }


def select_chunks(chunks: list[Chunk]) -> list[Chunk]:
    """Return the chunks to list: at most `MAX_CHUNKS`, preferring those that are not done."""
    if len(chunks) <= MAX_CHUNKS:
        return chunks
    return sorted(chunks, key=lambda chunk: (chunk.state is ChunkState.DONE, chunk.run, chunk.number))[:MAX_CHUNKS]


def chunk_row(chunk: Chunk, precision: Precision) -> Json:
    """Return a chunk's event-time range, size and state."""
    return {
        "run": chunk.run,
        "number": chunk.number,
        "start": to_millis(chunk.start, precision),
        "end": to_millis(chunk.end, precision),
        "rows": chunk.rows,
        "state": chunk.state.value,
        "message": chunk.message,
    }


def find_precision(catalog: Catalog, database: str) -> Precision:
    """Return a database's precision; milliseconds if the database was dropped."""
    try:
        return catalog.databases.get(database).precision
    except NotFoundError:
        return Precision.MILLISECOND


def to_millis(ticks: int | None, precision: Precision) -> int | None:
    """Convert ticks to epoch milliseconds, rounding down."""
    return None if ticks is None else ticks * 1_000 // precision.ticks_per_second
