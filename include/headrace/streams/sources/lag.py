"""The age and the rows of the commits that a stream has not handled yet."""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import Error
from headrace.model.jobs import JobCounters, JobRecord
from headrace.streams.context import Context
from headrace.streams.sources.commit_sizes import CommitSizes


def measure_lag_ms(context: Context, record: JobRecord) -> int | None:
    """Return the age of the oldest commit that a stream has not handled, 0 if all are handled; None before the stream is live.

    The source itself is read, so the answer is right even if a micro-batch hangs or no driver runs. If the source cannot be read,
    the answer is what was recorded after the last micro-batch.
    """
    offset, now = record.source_version, context.clock.now()
    if offset is None:
        return None
    try:
        table = context.catalog.tables.get(record.definition.source.database, record.definition.source.name)
        committed_at = context.tables.committed_at(table, offset + 1) if offset < context.tables.version(table) else None
    except Error:
        return record.progress.lag_ms(now)
    return 0 if committed_at is None else max(0, now - committed_at)


def measure_counters(context: Context, record: JobRecord) -> JobCounters:
    """Return the counters of a stream with the rows that are pending now, read from the source like the lag.

    A long backlog is counted only as far as `CommitSizes.count_written` looks ahead.
    """
    offset, counters = record.source_version, record.progress.counters
    if offset is None:
        return counters
    try:
        table = context.catalog.tables.get(record.definition.source.database, record.definition.source.name)
        pending = CommitSizes(context.tables, table).count_written(offset + 1, context.tables.version(table))
    except Error:
        return counters
    return replace(counters, rows_in=counters.rows_handled + pending, rows_pending=pending)
