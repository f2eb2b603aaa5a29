"""Which rows a stream sets aside before it computes anything: those too far ahead of the clock."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.settings import Settings
from headrace.storage.values.scalars import stored_units_per_tick
from headrace.streams.definition.define import StreamPlan
from headrace.streams.quarantine.changed_rows import is_written
from headrace.streams.windows.change_batch import Bools, Changes, to_numpy, to_ticks


def max_ahead_ms(plan: StreamPlan, settings: Settings) -> int | None:
    """Return how far rows may be ahead of the clock, in milliseconds; None if there is no limit."""
    option = plan.options.max_ahead
    limit = settings.max_ahead_s * 1000 if option is None else option.nanoseconds // 1_000_000
    return limit if limit > 0 else None


def latest_allowed(plan: StreamPlan, settings: Settings, now: int) -> int | None:
    """Return the latest timestamp that a row may have at an instant of the clock, in ticks; None if there is no limit."""
    limit = max_ahead_ms(plan, settings)
    return None if limit is None else (now + limit) * plan.query.precision.ticks_per_second // 1000


def ahead_message(plan: StreamPlan, settings: Settings) -> str:
    return f"its timestamp is more than {(max_ahead_ms(plan, settings) or 0) / 1000:g} s ahead of the clock"


def has_later_rows(plan: StreamPlan, changes: Changes, latest: int) -> bool:
    """Return whether changes may have rows after an instant, in ticks. Of new rows in a large commit, statistics say so."""
    unit, large = stored_units_per_tick(plan.query.precision), changes.large
    if large is not None and large.inserted is not None:
        return bool(large.inserted.times.high // unit > latest)
    pieces = (piece[plan.source.timestamp.name].cast(pa.int64()) for piece in changes.pieces() if piece.num_rows)
    return any(pc.max(times).as_py() // unit > latest for times in pieces)


def later_rows(plan: StreamPlan, rows: pa.Table, latest: int) -> Bools:
    """Return a mask of the written rows of a stream that are after an instant, in ticks."""
    return np.asarray(own_rows(plan, rows) & (to_ticks(rows[plan.source.timestamp.name], plan.query.precision) > latest))


def own_rows(plan: StreamPlan, rows: pa.Table) -> Bools:
    """Return a mask of the written rows that a stream reads."""
    written = is_written(rows)
    if plan.part is not None:
        written = written & plan.part.mask(rows[plan.source.series_key])
    if plan.source_subtable is None:
        return written
    is_own = pc.equal(rows[plan.source.series_key].cast(pa.string()), plan.source_subtable)
    return np.asarray(written & to_numpy(is_own).astype(np.bool_))
