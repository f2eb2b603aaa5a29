"""When a window's value goes to the target: a policy over the windows that a step gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Plan
from headrace.compute.plan import WEND, WSTART
from headrace.compute.windows import key_columns
from headrace.model.jobs import TriggerMode
from headrace.streams.frames import ADDED, DIRTY, EMITTED, WHOLE, window_columns
from headrace.streams.identity import matches, without
from headrace.streams.incoming import Bools, array

NOTHING, OLDER, CURRENT = 0, 1, 2
"""What the target has of a window: no row, a row that is not its value any more, its value."""


@dataclass(frozen=True)
class Emission:
    """Windows whose values are to be written, places (`p*`, `_wstart`) that are to be withdrawn, and all windows afterwards."""

    upserts: pa.Table
    withdrawn: pa.Table
    windows: pa.Table


def emit(
    plan: Plan,
    trigger: TriggerMode,
    windows: pa.Table,
    held: pa.Table,
    doubtful: pa.Table,
    before: int | None,
    frontier: int | None,
) -> Emission:
    """Decide on the windows of a step.

    `held` are the windows that went into it from the state, `doubtful` places of windows evaluated again that the target may have
    without the state knowing; `before` and `frontier` are the frontier before and after the batch. AT_ONCE writes what was touched.
    WINDOW_CLOSE writes a window when it is closed, and again whenever it changes after that; what it has written of windows still
    open (the tail of a history) stands until then. A window that is there no more, or is open again, is withdrawn.
    """
    place = [*key_columns(plan), WSTART]
    match_ = matches(windows, held, place)
    standing = np.append(array(held[EMITTED]), NOTHING)[match_] if held.num_rows else np.full(windows.num_rows, NOTHING)
    was_closed = np.append(flags(is_closed(held, before)), False)[match_] if held.num_rows else np.zeros(windows.num_rows, np.bool_)
    touched, shown = flags(pc.or_(pc.greater(windows[ADDED], 0), windows[DIRTY])), flags(windows[WHOLE])
    ready = shown if trigger is TriggerMode.AT_ONCE else shown & flags(is_closed(windows, frontier))
    due = ready & (touched if trigger is TriggerMode.AT_ONCE else touched | (standing != CURRENT))
    gone = (standing != NOTHING) & (~shown | (~ready & was_closed))
    stale = np.where(touched & (standing == CURRENT), OLDER, standing)
    after = np.where(due, CURRENT, np.where(gone, NOTHING, stale))
    kept = windows.select(list(window_columns(plan))).append_column(EMITTED, pa.array(after.astype(np.int32)))
    known = held.filter(pc.not_equal(held[EMITTED], NOTHING)).select(place)
    missing = [without(known, windows, place), without(doubtful.select(place), windows.filter(pa.array(ready)), place)]
    withdrawn = pa.concat_tables([*missing, windows.select(place).filter(pa.array(gone))], promote_options="permissive")
    return Emission(windows.filter(pa.array(due)), withdrawn, kept)


def is_closed(windows: pa.Table, frontier: int | None) -> pa.ChunkedArray:
    """Whether each window's last instant lies before the frontier."""
    if frontier is None:
        return pa.chunked_array([pa.repeat(pa.scalar(False), windows.num_rows)])
    return pc.less(windows[WEND], frontier)


def flags(column: pa.ChunkedArray) -> Bools:
    return array(column).astype(np.bool_)
