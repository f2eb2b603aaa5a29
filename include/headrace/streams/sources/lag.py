"""The age of the commits that a stream has not handled yet."""

from __future__ import annotations

from headrace.errors import Error
from headrace.model.jobs import JobRecord
from headrace.model.positions import Offsets
from headrace.streams.context import Context
from headrace.streams.sources.stored import source_tables


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
        context.tables.committed_at(table, offsets[source] + 1)
        for source, table in source_tables(context, record.definition.sources).items()
        if offsets[source] < context.tables.version(table)
    )
    return min((instant for instant in instants if instant is not None), default=None)
