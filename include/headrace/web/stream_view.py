"""JSON values that the page shows of streams, built from the catalog. Instants are epoch milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import NotFoundError
from headrace.model.conversion import to_row
from headrace.model.jobs import JobDefinition, JobRecord, JobState
from headrace.model.ledger import Chunk, ChunkState, RunSummary
from headrace.model.stream_metrics import StreamSample
from headrace.model.time import Precision
from headrace.runtime.activity import NO_ACTIVITY, SLOW_BATCH_HINT

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.context import Context
    from headrace.web.view import Overview

Json = dict[str, Any]
HISTORY: Final = "history"
BATCH_PARTS: Final = ("read", "compute", "checkpoint", "write", "record")
MAX_CHUNKS: Final = 200
MAX_POINTS: Final = 120
"""Points of a drawn history. Each has the mean of the samples in its part of the time, of lags the maximum."""
CHART_MS: Final = 3_600_000
"""How far back histories are drawn."""


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
        """Return the offsets, the backfills, and the histories that are drawn."""
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
            "metrics": stream_charts(catalog.stream_metrics.all(definition.id, since=now - CHART_MS), now),
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


def stream_charts(samples: Sequence[StreamSample], now: int) -> Json:
    """Return the histories that are drawn of a stream, oldest first; None if nothing was measured at a point."""
    points = chart_points(samples, now)
    return {
        "from": now - CHART_MS,
        "to": now,
        "lag_ms": [max((sample.lag_ms for sample in part), default=None) for part in points],
        "batch_ms": [mean([sample.batch_ms for sample in part]) for part in points],
        "rows_in_s": [mean([sample.rows_in_s for sample in part]) for part in points],
        "state_bytes": [max((sample.state_bytes for sample in part), default=None) for part in points],
        "parts_ms": batch_parts(samples),
    }


def chart_points(samples: Sequence[StreamSample], now: int) -> list[list[StreamSample]]:
    """Return the samples of the last `CHART_MS` by the points at which they are drawn, oldest first."""
    points: list[list[StreamSample]] = [[] for _ in range(MAX_POINTS)]
    for sample in samples:
        points[min(MAX_POINTS - 1, max(0, (sample.time - now + CHART_MS) * MAX_POINTS // CHART_MS))].append(sample)
    return points


def batch_parts(samples: Sequence[StreamSample]) -> Json | None:
    """Return the mean milliseconds of the parts of a micro-batch; None without micro-batches."""
    batches = sum(sample.batches for sample in samples)
    if not batches:
        return None
    totals = {part: sum((getattr(sample, f"{part}_ms") or 0) * sample.batches for sample in samples) for part in BATCH_PARTS}
    return {part: round(total / batches, 1) for part, total in totals.items()}


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not None; None without any."""
    measured = [value for value in values if value is not None]
    return round(sum(measured) / len(measured), 2) if measured else None


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
