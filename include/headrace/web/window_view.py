"""JSON values of the timeline of a stream's windows. Instants are epoch milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from headrace.jobs.registry import is_known, kind_of
from headrace.model.jobs import JobRecord
from headrace.model.ledger import HISTORY, ChunkState
from headrace.web.stream_view import find_precision, to_millis

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.context import Context
    from headrace.streams.timeline import TimelineChoice

Json = dict[str, Any]
MAX_WINDOWS: Final = 200
"""Windows that are returned at a time."""


def has_windows(record: JobRecord) -> bool:
    """Return whether a job may have windows: a stream that has a target."""
    return is_known(record.definition.kind) and kind_of(record.definition).counts_rows_in and record.definition.target is not None


def window_timeline(context: Context, record: JobRecord, choice: TimelineChoice, now: int) -> Json:
    """Return the last windows of a subtable of a stream's target, or of all if these are few.

    Raises:
        Error: The stream has no windows, or they cannot be read.
    """
    from headrace.streams.timeline import read_timeline

    timeline = read_timeline(context, record, choice, MAX_WINDOWS)
    ranges = recomputed_ranges(context.catalog, record)
    windows = [asdict(window) | {"recomputed": run_of(ranges, window.start)} for window in timeline.windows]
    return asdict(timeline) | {"windows": windows, "as_of": now}


def recomputed_ranges(catalog: Catalog, record: JobRecord) -> list[tuple[int, int, str]]:
    """Return the ranges (ms) that runs have recomputed for all subtables, with the names of the runs."""
    precision = find_precision(catalog, record.definition.source.database)
    return [
        (to_millis(chunk.start, precision) or 0, to_millis(chunk.end, precision) or 0, chunk.run)
        for chunk in catalog.ledger.chunks(record.definition.id)
        if chunk.run != HISTORY and chunk.state is ChunkState.DONE and chunk.first_series is None and chunk.end_series is None
    ]


def run_of(ranges: Sequence[tuple[int, int, str]], start: int) -> str | None:
    """Return a run that has recomputed the window that starts at an instant; None if none has."""
    return next((run for first, end, run in reversed(ranges) if first <= start < end), None)
