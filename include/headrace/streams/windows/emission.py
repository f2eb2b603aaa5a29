"""When a window's value goes to the target: a policy over the windows that a step gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Plan
from headrace.compute.plan import WEND, WSTART
from headrace.compute.windows import key_columns
from headrace.model.streams import TriggerMode
from headrace.streams.windows.changes import Bools, to_numpy
from headrace.streams.windows.row_matching import matches, without
from headrace.streams.windows.window_sql import ADDED, DIRTY, EMITTED, WHOLE, window_columns

NOTHING, OLDER, CURRENT = 0, 1, 2
"""What the target has of a window: no row, a row that is not its value any more, its value."""


@dataclass(frozen=True)
class Emission:
    """Windows whose values are to be written, places (`p*`, `_wstart`) to retract, and all windows afterwards."""

    upserts: pa.Table
    retractions: pa.Table
    windows: pa.Table


def emit(
    plan: Plan,
    trigger: TriggerMode,
    windows: pa.Table,
    held: pa.Table,
    possibly_emitted: pa.Table,
    before: int | None,
    watermark: int | None,
) -> Emission:
    """Decide which windows of a micro-batch to write and which to retract.

    AT_ONCE writes touched windows. WINDOW_CLOSE writes a window when it closes, and again whenever it changes after that; what it
    has written of windows that are still open (the tail of a history) remains until then. A window that no longer exists, or is
    open again, is retracted.

    Args:
        windows: The windows after the micro-batch.
        held: Windows of the state that went into them.
        possibly_emitted: Recalculated windows that the target may have without the state knowing.
        before: The watermark before the micro-batch.
        watermark: The watermark after it.
    """
    place = [*key_columns(plan), WSTART]
    match_ = matches(windows, held, place)
    standing = np.append(to_numpy(held[EMITTED]), NOTHING)[match_] if held.num_rows else np.full(windows.num_rows, NOTHING)
    was_closed = np.append(flags(is_closed(held, before)), False)[match_] if held.num_rows else np.zeros(windows.num_rows, np.bool_)
    touched, shown = flags(pc.or_(pc.greater(windows[ADDED], 0), windows[DIRTY])), flags(windows[WHOLE])
    ready = shown if trigger is TriggerMode.AT_ONCE else shown & flags(is_closed(windows, watermark))
    due = ready & (touched if trigger is TriggerMode.AT_ONCE else touched | (standing != CURRENT))
    gone = (standing != NOTHING) & (~shown | (~ready & was_closed))
    stale = np.where(touched & (standing == CURRENT), OLDER, standing)
    after = np.where(due, CURRENT, np.where(gone, NOTHING, stale))
    kept = windows.select(list(window_columns(plan))).append_column(EMITTED, pa.array(after.astype(np.int32)))
    known = held.filter(pc.not_equal(held[EMITTED], NOTHING)).select(place)
    missing = [without(known, windows, place), without(possibly_emitted.select(place), windows.filter(pa.array(ready)), place)]
    retractions = pa.concat_tables([*missing, windows.select(place).filter(pa.array(gone))], promote_options="permissive")
    return Emission(windows.filter(pa.array(due)), retractions, kept)


def is_closed(windows: pa.Table, watermark: int | None) -> pa.ChunkedArray:
    """Whether each window's last instant lies before the watermark."""
    if watermark is None:
        return pa.chunked_array([pa.repeat(pa.scalar(False), windows.num_rows)])
    return pc.less(windows[WEND], watermark)


def flags(column: pa.ChunkedArray) -> Bools:
    return to_numpy(column).astype(np.bool_)
