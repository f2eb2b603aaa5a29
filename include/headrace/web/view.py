"""What the page shows, as plain JSON values made from the catalog. Instants are epoch milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import NotFoundError
from headrace.model.jobs import JobRecord, JobState
from headrace.model.ledger import Chunk, ChunkState, RunSummary
from headrace.model.time import Precision
from headrace.runtime.activity import NO_ACTIVITY, SLOW_BATCH_HINT, ReportedActivity, lag_ms, reported_activity
from headrace.runtime.dag_ids import job_dag_id, snode_dag_id
from headrace.runtime.supervision import Snapshot, driver_problem
from headrace.web.rates import Rates

if TYPE_CHECKING:
    from headrace.catalog import Catalog

Json = dict[str, Any]
HISTORY: Final = "history"
EVENTS: Final = 100
# More chunks than this are not listed one by one.
CHUNKS: Final = 200


def overview(state: Snapshot, runs: Mapping[str, RunSummary], rates: Rates, stale_ms: int) -> Json:
    """All streams, the snodes that run them, and four numbers about their health."""
    activity = reported_activity(state, stale_ms)
    streams = [
        stream_row(record, runs.get(job_id), rates, activity.get(job_id, NO_ACTIVITY), state.now)
        for job_id, record in state.jobs.items()
    ]
    return {"as_of": state.now, "health": health(state, activity, rates), "snodes": snodes(state, stale_ms), "streams": streams}


def health(state: Snapshot, activity: Mapping[str, ReportedActivity], rates: Rates) -> Json:
    """Streams by state, the worst lag, rows a second, and rows that came too late."""
    records = list(state.jobs.values())
    states = {state.value: sum(record.state is state for record in records) for state in JobState}
    lags = [(lag_ms(record, activity.get(job_id), state.now), qualified(record)) for job_id, record in state.jobs.items()]
    worst = max(((lag, name) for lag, name in lags if lag is not None), default=None)
    known = [rate for record in records if (rate := rates.of(record.definition.id)) is not None]
    return {
        "states": states,
        "worst_lag": None if worst is None else {"ms": worst[0], "stream": worst[1]},
        "rows_in_s": sum(rate.rows_in for rate in known) if known else None,
        "rows_out_s": sum(rate.rows_out for rate in known) if known else None,
        "rows_expired": sum(record.progress.counters.rows_expired for record in records),
    }


def snodes(state: Snapshot, stale_ms: int) -> list[Json]:
    """The snodes that streams belong to or that have been alive, with what is wrong with each, if anything is."""
    names = sorted({*state.beats, *state.leases, *(record.definition.snode for record in state.jobs.values())})
    return [snode(name, state, stale_ms) for name in names]


def snode(name: str, state: Snapshot, stale_ms: int) -> Json:
    lease, beat = state.leases.get(name), state.beats.get(name)
    return {
        "name": name,
        "trouble": driver_problem(lease, beat, state.now, stale_ms),
        "holder": lease.holder if lease else None,
        "epoch": lease.epoch if lease else None,
        "heartbeat": beat.at if beat else None,
        "dag_id": snode_dag_id(name),
    }


def qualified(record: JobRecord) -> str:
    return f"{record.definition.database}.{record.definition.name}"


def dag_of(record: JobRecord) -> str:
    return job_dag_id(record.definition.kind, record.definition.database, record.definition.name)


def stream_row(record: JobRecord, run: RunSummary | None, rates: Rates, activity: ReportedActivity, now: int) -> Json:
    """One line of the list."""
    definition, progress = record.definition, record.progress
    rate = rates.of(definition.id)
    return {
        "id": definition.id,
        "database": definition.database,
        "name": definition.name,
        "kind": definition.kind.value,
        "source": ", ".join(map(str, definition.sources)),
        "target": None if definition.target is None else str(definition.target),
        "snode": definition.snode,
        "dag_id": dag_of(record),
        "created": definition.created,
        "state": record.state.value,
        "desired": record.desired.value,
        "reason": None if record.reason is None else asdict(record.reason),
        "lag_ms": lag_ms(record, activity, now),
        "batch_ms": activity.batch_ms,
        "slow_batch": None if activity.slow_batch is None else f"{activity.slow_batch}: {SLOW_BATCH_HINT}",
        "updated": progress.updated,
        "counters": asdict(progress.counters),
        "rate": None if rate is None else asdict(rate),
        "history": rates.series(definition.id),
        "backfill": None if run is None or record.state is not JobState.FILLING else run_view(run, now),
    }


def run_view(run: RunSummary, now: int) -> Json:
    """How far a backfill has come."""
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


def detail(catalog: Catalog, record: JobRecord, now: int) -> Json:
    """What the list does not tell of a stream: its text, position, backfills and events."""
    definition, progress = record.definition, record.progress
    precision = precision_of(catalog, definition.source.database)
    chunks = catalog.ledger.chunks(definition.id)
    runs = sorted({chunk.run for chunk in chunks}, key=lambda run: (run != HISTORY, run))
    events = catalog.events.all("job", definition.id, limit=EVENTS)
    return {
        "as_of": now,
        "sql": definition.sql,
        "dialect": definition.dialect,
        "source_version": record.source_version,
        "boundary": record.boundary_version,
        "watermark": millis(progress.watermark, precision),
        "runs": [run_view(catalog.ledger.summary(definition.id, run), now) for run in runs],
        "chunks": [chunk_view(chunk, precision) for chunk in shown(chunks)],
        "chunks_in_all": len(chunks),
        "events": [{"time": event.time, "kind": event.kind, "message": event.message} for event in events],
    }


def shown(chunks: list[Chunk]) -> list[Chunk]:
    """The chunks worth a line each: where there are many, those that are not done first."""
    if len(chunks) <= CHUNKS:
        return chunks
    return sorted(chunks, key=lambda chunk: (chunk.state is ChunkState.DONE, chunk.run, chunk.number))[:CHUNKS]


def chunk_view(chunk: Chunk, precision: Precision) -> Json:
    return {
        "run": chunk.run,
        "number": chunk.number,
        "start": millis(chunk.start, precision),
        "end": millis(chunk.end, precision),
        "rows": chunk.rows,
        "state": chunk.state.value,
        "message": chunk.message,
    }


def precision_of(catalog: Catalog, database: str) -> Precision:
    try:
        return catalog.databases.get(database).precision
    except NotFoundError:
        return Precision.MILLISECOND


def millis(ticks: int | None, precision: Precision) -> int | None:
    """Ticks as epoch milliseconds, rounded down."""
    return None if ticks is None else ticks * 1_000 // precision.ticks_per_second
