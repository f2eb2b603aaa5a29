"""The age of the commits that a stream has not handled yet."""

from __future__ import annotations

from headrace.errors import Error
from headrace.model.jobs import JobRecord
from headrace.streams.context import Context


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
