"""JSON values that the page shows of streams, built from the catalog. Instants are epoch milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import NotFoundError
from headrace.model.conversion import to_row
from headrace.model.jobs import JobDefinition, JobRecord, JobState
from headrace.model.ledger import HISTORY, Chunk, ChunkState, RunSummary
from headrace.model.time import Precision
from headrace.runtime.activity import NO_ACTIVITY, SLOW_BATCH_HINT

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.context import Context
    from headrace.web.view import Overview

Json = dict[str, Any]
MAX_CHUNKS: Final = 200


class StreamPage:
    """What the page shows of streams."""

    layout = "stream"

    def fields(self, record: JobRecord, overview: Overview) -> Json:
        """Return the fields of a row: the micro-batch in flight, and the backfill of the history."""
        definition = record.definition
        activity = overview.activity.get(definition.id, NO_ACTIVITY)
        run = overview.runs.get(definition.id) if record.state is JobState.FILLING else None
        return {
            "source": ", ".join(map(str, definition.sources)),
            "target": None if definition.target is None else str(definition.target),
            "batch_ms": activity.batch_ms,
            "slow_batch": None if activity.slow_batch is None else f"{activity.slow_batch}: {SLOW_BATCH_HINT}",
            "backfill": None if run is None else backfill_progress(run, overview.state.now),
        }

    def detail(self, catalog: Catalog, record: JobRecord, now: int) -> Json:
        """Return the offsets and the backfills."""
        definition, progress = record.definition, record.progress
        precision = find_precision(catalog, definition.source.database)
        chunks = catalog.ledger.chunks(definition.id)
        runs = sorted({chunk.run for chunk in chunks}, key=lambda run: (run != HISTORY, run))
        return {
            "offsets": dict(record.offsets or {}),
            "boundaries": dict(progress.boundary or {}),
            "watermark": to_millis(progress.watermark, precision),
            "runs": [backfill_progress(catalog.ledger.summary(definition.id, run), now) for run in runs],
            "chunks": [chunk_row(chunk, precision) for chunk in select_chunks(chunks)],
            "total_chunks": len(chunks),
        }

    def plan(self, context: Context, definition: JobDefinition) -> Sequence[str]:
        """Return the plan of the query."""
        from headrace.compute import explain
        from headrace.streams.definition.define import plan_recorded_stream

        return explain(plan_recorded_stream(definition, context.catalog, context.settings).query)


PAGE: Final = StreamPage()


def backfill_progress(run: RunSummary, now: int) -> Json:
    row = to_row(run, "job_id", "rows_planned_done")
    return row | {"fraction": run.fraction if run.chunks else 0.0, "eta_ms": run.eta_ms(now)}


def select_chunks(chunks: list[Chunk]) -> list[Chunk]:
    """Return the chunks to list: at most `MAX_CHUNKS`, preferring those that are not done."""
    if len(chunks) <= MAX_CHUNKS:
        return chunks
    return sorted(chunks, key=lambda chunk: (chunk.state is ChunkState.DONE, chunk.run, chunk.number))[:MAX_CHUNKS]


def chunk_row(chunk: Chunk, precision: Precision) -> Json:
    return to_row(chunk, "job_id") | {"start": to_millis(chunk.start, precision), "end": to_millis(chunk.end, precision)}


def find_precision(catalog: Catalog, database: str) -> Precision:
    """Return a database's precision; milliseconds if the database was dropped."""
    try:
        return catalog.databases.get(database).precision
    except NotFoundError:
        return Precision.MILLISECOND


def to_millis(ticks: int | None, precision: Precision) -> int | None:
    """Convert ticks to epoch milliseconds, rounding down."""
    return None if ticks is None else ticks * 1_000 // precision.ticks_per_second
