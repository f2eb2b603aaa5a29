"""Streams that are divided into parts by the hash of their subtables: each part is a job of its own, and users see one stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from headrace.model.jobs import JobCounters, JobDefinition, JobProgress, JobRecord, JobState

PART: Final = "_part"
"""Follows the id of a stream in the ids of its parts. The first part has the stream's id."""
BEST_FIRST: Final = (JobState.PAUSED, JobState.RUNNING, JobState.CREATED, JobState.FILLING, JobState.STOPPED)


def part_id(stream_id: str, number: int) -> str:
    """Return the id of a part of a stream, counted from 0."""
    return stream_id if number == 0 else f"{stream_id}{PART}{number}"


def whole_id(job_id: str) -> str:
    """Return the id of the stream that a job is a part of; for other jobs, their own."""
    stream_id, _, number = job_id.rpartition(PART)
    return stream_id if number.isdecimal() and stream_id else job_id


def part_number(job_id: str) -> int:
    """Return the number of a part; 0 for jobs that are not divided."""
    return int(job_id.removeprefix(whole_id(job_id)).removeprefix(PART) or 0)


def part_ids(definition: JobDefinition) -> tuple[str, ...]:
    """Return the ids of all parts of a stream; for other jobs, their own."""
    return tuple(part_id(whole_id(definition.id), number) for number in range(definition.parts))


def part_of(definition: JobDefinition, number: int, snode: str) -> JobDefinition:
    """Return the definition of a part, which an snode runs at first."""
    return replace(definition, id=part_id(whole_id(definition.id), number), snode=snode)


@dataclass(frozen=True, slots=True)
class DividedRecord(JobRecord):
    """A stream as users see it, with the records of its parts in order."""

    parts: tuple[JobRecord, ...] = ()


def parts_of(record: JobRecord) -> tuple[JobRecord, ...]:
    """Return the records of the parts of a stream; of another job its own."""
    return record.parts if isinstance(record, DividedRecord) else (record,)


def snodes_of(record: JobRecord) -> str:
    """Return the snodes that run a job, or its parts."""
    return ", ".join(sorted({part.definition.snode for part in parts_of(record)}))


def wholes(records: Sequence[JobRecord]) -> list[JobRecord]:
    """Return each job once, in order: streams that are divided with what their parts come to."""
    if all(record.definition.parts == 1 for record in records):
        return list(records)
    parts: dict[str, list[JobRecord]] = {}
    for record in records:
        parts.setdefault(whole_id(record.definition.id), []).append(record)
    return [one[0] if one[0].definition.parts == 1 else whole(one) for one in parts.values()]


def whole(parts: Iterable[JobRecord]) -> DividedRecord:
    """Return a stream from parts of it: in the worst state of one, and as far as all of them have come."""
    ordered = tuple(sorted(parts, key=lambda part: part_number(part.definition.id)))
    first, worst = ordered[0], max(ordered, key=badness)
    return DividedRecord(
        first.definition,
        first.desired,
        worst.state,
        joined_progress([part.progress for part in ordered]),
        worst.reason,
        first.skip_to,
        next((part.quarantine_requested for part in ordered if part.quarantine_requested is not None), None),
        ordered,
    )


def badness(record: JobRecord) -> tuple[int, bool]:
    return BEST_FIRST.index(record.state), record.reason is not None and not record.reason.transient


def joined_progress(parts: Sequence[JobProgress]) -> JobProgress:
    """Return the progress that all parts have made: the least position and watermark, and the rows of all."""
    positions = [part.position for part in parts if part.position is not None]
    return JobProgress(
        position=min(positions, key=lambda one: sum(one.offsets.values())) if len(positions) == len(parts) else None,
        boundary=parts[0].boundary,
        watermark=min((part.watermark for part in parts if part.watermark is not None), default=None),
        updated=max((part.updated for part in parts if part.updated is not None), default=None),
        pending_since=min((part.pending_since for part in parts if part.pending_since is not None), default=None),
        counters=joined_counters([part.counters for part in parts]),
    )


def joined_counters(parts: Sequence[JobCounters]) -> JobCounters:
    """Return the sums of counters. Each part counts all rows that wait, its own and others, so those of one wait in all."""
    total, pending = reduce(JobCounters.plus, parts), max(part.rows_pending for part in parts)
    return replace(total, rows_in=total.rows_handled + pending, rows_pending=pending)
