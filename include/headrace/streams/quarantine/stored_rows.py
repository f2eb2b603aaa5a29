"""Stored rows in quarantine: those that a stream sets aside before its history is computed, and reading without them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from headrace.context import Context
from headrace.model.job_parts import part_id
from headrace.model.positions import Offsets
from headrace.model.quarantine import QuarantineChange, QuarantineCode, QuarantinedRow
from headrace.storage import Bounds
from headrace.storage.set_aside import SetAside
from headrace.streams.clocked.rows import stored_source_rows
from headrace.streams.definition.define import StreamPlan
from headrace.streams.definition.series_parts import numbers_of
from headrace.streams.quarantine.changed_rows import json_values, row_keys
from headrace.streams.quarantine.limits import ahead_message, latest_allowed
from headrace.streams.quarantine.quarantine import QuarantineFullError, added_message
from headrace.streams.sources.stored import max_stored_time, scan_source

HISTORY_BATCH = 0
"""The number of the micro-batch that the history counts as."""


def set_aside_history(context: Context, plan: StreamPlan, offsets: Offsets) -> None:
    """Put the rows of a history into quarantine that are too far ahead of the clock now. Repeating it decides again.

    Raises:
        QuarantineFullError: The quarantine has no room for them.
    """
    rows = rows_ahead(context, plan, offsets)
    ids = [part_id(plan.id, number) for number in range(plan.options.partitions)]
    if rows.num_rows == 0 and not any(context.catalog.quarantine.rows(id) for id in ids):
        return
    version, message = max(offsets.values()), ahead_message(plan, context.settings)
    content = json_values(rows, plan.source)
    added = tuple(
        QuarantinedRow(key, version, QuarantineCode.FUTURE, message, values, HISTORY_BATCH, context.clock.now())
        for key, values in zip(row_keys(rows, plan.source, plan.query.precision), content, strict=True)
    )
    numbers: list[int] = numbers_of(rows[plan.source.series_key], len(ids)).tolist() if added else []
    for number, id in enumerate(ids):
        own = tuple(row for row, part in zip(added, numbers, strict=True) if part == number)
        context.catalog.quarantine.commit(id, HISTORY_BATCH, QuarantineChange(own))
    if added:
        context.catalog.events.record("job", plan.id, "QUARANTINED", added_message(added))


def without_quarantine(context: Context, *job_ids: str) -> Context:
    """Return an environment whose reads leave out the rows in quarantine of jobs; the same one if there are none."""
    rows = [row for id in job_ids for row in context.catalog.quarantine.rows(id)]
    if not rows:
        return context
    set_aside = SetAside()
    set_aside.set(row.key for row in rows)
    return replace(context, set_aside=set_aside)


def rows_ahead(context: Context, plan: StreamPlan, offsets: Offsets) -> pa.Table:
    """Return the stored rows that are too far ahead of the clock, with all columns. Mostly, statistics say that there are none."""
    latest, high = latest_allowed(plan, context.settings, context.clock.now()), max_stored_time(context, plan)
    if latest is None or high is None or high <= latest:
        return pa.table({})
    bounds = Bounds.of_ticks(latest + 1, None, plan.query.precision)
    keys = scan_source(context, plan, offsets, list(plan.source.primary_key), series=plan.source_series, bounds=bounds)
    most = context.settings.quarantine_rows
    if keys.num_rows > most:
        raise QuarantineFullError(
            f"the quarantine of {plan.name} has room for {most} rows: {keys.num_rows} stored ones are too far ahead of the clock",
            hint="correct or delete these rows, allow them with a longer MAX_AHEAD, or set HEADRACE_QUARANTINE_ROWS to a larger "
            "number",
        )
    if keys.num_rows == 0:
        return pa.table({})
    return stored_source_rows(context, plan, latest + 1, None, offsets)
