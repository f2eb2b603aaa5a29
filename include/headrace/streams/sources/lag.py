"""The age and the rows of the commits that a stream has not handled yet."""

from __future__ import annotations

from dataclasses import replace

from headrace.context import Context
from headrace.errors import Error
from headrace.model.jobs import JobCounters, JobRecord
from headrace.model.positions import Offsets
from headrace.streams.sources.commit_sizes import CommitSizes
from headrace.streams.sources.source_tables import source_tables


def measured_record(context: Context, record: JobRecord) -> JobRecord | None:
    """Return the record of a stream with what it has not handled now; None before it is live, and if a source cannot be read.

    The sources themselves are read, so the answer is right even if the stream is at rest, a micro-batch hangs or no driver runs.
    """
    offsets = record.offsets
    if offsets is None or not offsets.keys() >= set(record.definition.source_ids):
        return None
    try:
        pending_since = find_pending_since(context, record, offsets)
        counters = measure_counters(context, record)
    except Error:
        return None
    return replace(record, progress=replace(record.progress, pending_since=pending_since, counters=counters))


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
