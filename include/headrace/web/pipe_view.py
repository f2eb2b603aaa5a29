"""JSON values that the page shows of pipes, built from the catalog. Instants are epoch milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.model.jobs import JobDefinition, JobRecord
from headrace.model.ledger import HISTORY, Chunk
from headrace.model.pipes import PipeStage
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.lookup import plugin_name, shown_attributes
from headrace.web.stream_view import (
    backfill_progress,
    chunk_row,
    find_precision,
    select_chunks,
)

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.context import Context
    from headrace.web.view import Overview

Json = dict[str, Any]
DATABASE_END: Final = "|"
"""What follows the database in the ends of chunks."""
ENDS: Final[Mapping[PipeStage, tuple[tuple[str, ...], ...]]] = {
    PipeStage.SOURCE: (("path", "pattern"), ("database", "table"), ("topic", "topics"), ("node-urls",), ("ip", "host")),
    PipeStage.SINK: (("node-urls",), ("ip", "host", "thrift.host"), ("bootstrap.servers",), ("topic",), ("uri", "url")),
}
"""Keys whose values tell which source or receiver it is; of each group the first that there is."""


class PipePage:
    """What the page shows of pipes."""

    layout = "pipe"

    def fields(self, record: JobRecord, overview: Overview) -> Json:
        """Return the fields of a row: both ends, and what remains to be delivered."""
        definition, progress, rate = record.definition, record.progress, overview.rate(record)
        remaining = None if progress.updated is None else progress.counters.rows_pending
        run = overview.runs.get(definition.id)
        return {
            "source": end_of(definition, PipeStage.SOURCE),
            "target": end_of(definition, PipeStage.SINK),
            "remaining": remaining,
            "remaining_ms": remaining_ms(remaining, None if rate is None else rate.rows_out),
            "backfill": None if run is None or not run.chunks else backfill_progress(run, overview.state.now),
        }

    def detail(self, catalog: Catalog, record: JobRecord, now: int) -> Json:
        """Return the stages with their attributes, and the transfers in chunks."""
        definition = record.definition
        chunks = catalog.ledger.chunks(definition.id)
        runs = sorted({chunk.run for chunk in chunks}, key=lambda run: (run != HISTORY, run))
        return {
            "runs": [backfill_progress(catalog.ledger.summary(definition.id, run), now) for run in runs],
            "chunks": [transfer_row(catalog, chunk) for chunk in select_chunks(chunks)],
            "total_chunks": len(chunks),
            "started": definition.stages.started,
            "stages": [stage_row(definition, stage) for stage in PipeStage],
        }

    def plan(self, context: Context, definition: JobDefinition) -> Sequence[str]:  # noqa: ARG002
        """Return the stages, one line for each."""
        lines = []
        for row in (stage_row(definition, stage) for stage in PipeStage):
            attributes = ", ".join(f"{key}={value}" for key, value in row["attributes"])
            lines.append(f"{row['stage']} {row['plugin']}" + (f": {attributes}" if attributes else ""))
        return lines


PAGE: Final = PipePage()


def transfer_row(catalog: Catalog, chunk: Chunk) -> Json:
    """Return a chunk, whose series begin with their database, without it; its times are in the unit of that database."""
    database = (chunk.first_series or "").partition(DATABASE_END)[0]
    series = {name: (getattr(chunk, name) or "").partition(DATABASE_END)[2] or None for name in ("first_series", "end_series")}
    return chunk_row(chunk, find_precision(catalog, database)) | series


def remaining_ms(rows: int | None, rate: float | None) -> int | None:
    """Return how long a pipe will take for some rows at a rate in rows per second; None if that is unknown."""
    if not rows:
        return rows
    return round(rows / rate * 1000) if rate else None


def stage_row(definition: JobDefinition, stage: PipeStage) -> Json:
    """Return the plugin of a stage, and its attributes without passwords, in the order of their keys."""
    attributes = definition.stages.stage(stage)
    return {
        "stage": stage.value,
        "plugin": plugin_name(stage, attributes).lower(),
        "attributes": sorted(shown_attributes(stage, attributes).items()),
    }


def end_of(definition: JobDefinition, stage: PipeStage) -> str:
    """Return the plugin at an end of a pipe, and where that end is as far as common attributes tell."""
    attributes = definition.stages.stage(stage)
    typed = PipeAttributes(shown_attributes(stage, attributes))
    texts = filter(None, (typed.first(*keys) for keys in ENDS[stage]))
    return " ".join((plugin_name(stage, attributes).lower(), *texts))
