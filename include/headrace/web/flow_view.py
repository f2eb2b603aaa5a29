"""JSON values of the flow of rows through a stream: where the rows that came in a time have gone."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from headrace.model.job_parts import part_ids
from headrace.model.jobs import JobRecord
from headrace.model.stream_metrics import StreamSample

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.catalog.stream_metrics import StreamMetrics

Json = dict[str, Any]
HOUR_MS: Final = 3_600_000
OUTCOMES: Final = ("used", "updated", "filtered", "expired", "quarantined", "dropped", "pending")
"""What becomes of a row, as in `JobCounters`."""
TOTALS: Final = (*(f"rows_{outcome}" for outcome in OUTCOMES if outcome != "pending"), "rows_out", "windows_recalculated")


class FlowRange(StrEnum):
    """The time whose rows are shown."""

    ALL = "all"
    SAMPLE = "sample"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"

    @property
    def length_ms(self) -> int | None:
        """Its length in milliseconds; None if that is not fixed."""
        return {"hour": 1, "day": 24, "week": 168}[self.value] * HOUR_MS if self.value in ("hour", "day", "week") else None


def row_flow(catalog: Catalog, record: JobRecord, over: FlowRange, now: int) -> Json:
    """Return the rows that came into a stream in a time, their outcomes, and the rows of results.

    Outcomes whose rows have become fewer, such as those in quarantine that were replayed, are among what came in: the sums of both
    sides are the same. `since` is when the sample was taken from which rows are counted; None if they are counted from the start.
    """
    start = start_of(catalog, record, over, now)
    counters = record.progress.counters
    changes = {name: getattr(counters, f"rows_{name}") - earlier(start, name) for name in OUTCOMES}
    released = {name: -rows for name, rows in changes.items() if rows < 0}
    return {
        "over": over.value,
        "ranges": [one.value for one in FlowRange],
        "since": None if start is None else start.time,
        "sources": {"in": sum(changes.values()), **released},
        "outcomes": {name: max(0, rows) for name, rows in changes.items()},
        "results": counters.rows_out - (start.rows_out or 0 if start else 0),
        "recalculated": counters.windows_recalculated - (start.windows_recalculated or 0 if start else 0),
    }


def start_of(catalog: Catalog, record: JobRecord, over: FlowRange, now: int) -> StreamSample | None:
    """Return the sample from which rows are counted; None to count all rows of the stream."""
    if over is FlowRange.ALL:
        return None
    parts = [sample for id in part_ids(record.definition) if (sample := start_of_part(catalog.stream_metrics, id, over, now))]
    return reduce(joined, parts) if parts else None


def joined(sample: StreamSample, other: StreamSample) -> StreamSample:
    """Return what two parts of a stream had counted. Both count all rows that wait."""
    totals: dict[str, Any] = {name: (getattr(sample, name) or 0) + (getattr(other, name) or 0) for name in TOTALS}
    return replace(sample, rows_behind=max(sample.rows_behind, other.rows_behind), **totals)


def start_of_part(samples: StreamMetrics, job_id: str, over: FlowRange, now: int) -> StreamSample | None:
    if over.length_ms is not None:
        sample = samples.at(job_id, now - over.length_ms)
    else:
        last = samples.at(job_id, now)
        sample = None if last is None else samples.at(job_id, last.time - 1)
    return sample if sample is not None and sample.rows_used is not None else None


def earlier(start: StreamSample | None, outcome: str) -> int:
    """Return the rows that had an outcome when a sample was taken."""
    if start is None:
        return 0
    return start.rows_behind if outcome == "pending" else getattr(start, f"rows_{outcome}") or 0
