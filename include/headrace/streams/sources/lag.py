"""The age and the rows of the commits that a stream has not handled yet."""

from __future__ import annotations

from dataclasses import replace

from headrace.context import Context
from headrace.errors import Error
from headrace.model.jobs import JobCounters, JobRecord
from headrace.model.positions import Offsets
from headrace.streams.sources.commit_sizes import CommitSizes
from headrace.streams.sources.source_tables import source_tables


def measure_lag_ms(context: Context, record: JobRecord) -> int | None:
    """Return the age of the oldest commit that a stream has not handled, 0 if all are handled; None before the stream is live.

    The sources themselves are read, so the answer is right even if a micro-batch hangs or no driver runs. If one cannot be read,
    the answer is what was recorded after the last micro-batch.
    """
    offsets, now = record.offsets, context.clock.now()
    if offsets is None:
        return None
    try:
        pending_since = find_pending_since(context, record, offsets)
    except Error:
        return record.progress.lag_ms(now)
    return 0 if pending_since is None else max(0, now - pending_since)


def find_pending_since(context: Context, record: JobRecord, offsets: Offsets) -> int | None:
    """Return when the oldest commit after offsets was made, in epoch ms; None if there is none."""
    instants = (
        context.tables.changes.committed_at(table, offsets[source] + 1)
        for source, table in source_tables(context, record.definition.sources).items()
        if offsets[source] < context.tables.version(table)
    )
    return min((instant for instant in instants if instant is not None), default=None)


def measure_counters(context: Context, record: JobRecord) -> JobCounters:
    """Return the counters of a stream with the rows that are pending now, read from the sources like the lag.

    A long backlog is counted only as far as `CommitSizes.count_written` looks ahead.
    """
    offsets, counters = record.offsets, record.progress.counters
    if offsets is None:
        return counters
    try:
        pending = sum(
            CommitSizes(context.tables, table).count_written(offsets[source] + 1, context.tables.version(table))
            for source, table in source_tables(context, record.definition.sources).items()
        )
    except Error:
        return counters
    return replace(counters, rows_in=counters.rows_handled + pending, rows_pending=pending)
