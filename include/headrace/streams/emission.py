"""When a window's value goes to the target: a policy over the windows that a step gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import WEND
from headrace.model.streams import TriggerMode
from headrace.streams.frames import ADDED, DIRTY, EMITTED
from headrace.streams.incoming import Bools, array

NOTHING, OLDER, CURRENT = 0, 1, 2
"""What the target has of a window: no row, a row that is not its value any more, its value."""


@dataclass(frozen=True)
class Emission:
    """Windows whose values are to be written, the windows that are to be withdrawn, and all windows as they stand afterwards."""

    upserts: pa.Table
    withdrawn: pa.Table
    windows: pa.Table


def emit(trigger: TriggerMode, windows: pa.Table, vanished: pa.Table | None, before: int | None, frontier: int | None) -> Emission:
    """Decide on the windows of a step.

    `vanished` are windows that were evaluated again and have no rows left; `before` and `frontier` are the frontier before and
    after the batch. AT_ONCE writes what was touched. WINDOW_CLOSE writes a window when it is closed, and again whenever it
    changes after that; what it has written of windows still open (the tail of a history) stands until then.
    """
    vanished = windows.slice(0, 0) if vanished is None else vanished
    touched = flags(pc.or_(pc.greater(windows[ADDED], 0), windows[DIRTY]))
    emitted = array(windows[EMITTED])
    match trigger:
        case TriggerMode.AT_ONCE:
            due = touched
            withdrawn = vanished
        case _:
            closed = flags(is_closed(windows, frontier))
            due = closed & (touched | (emitted != CURRENT))
            withdrawn = vanished.filter(pc.or_(pc.not_equal(vanished[EMITTED], NOTHING), is_closed(vanished, before)))
    standing = np.where(due, CURRENT, np.where(touched & (emitted == CURRENT), OLDER, emitted))
    place = windows.schema.get_field_index(EMITTED)
    marked = windows.set_column(place, EMITTED, pa.array(standing.astype(np.int32)))
    return Emission(windows.filter(pa.array(due)), withdrawn, marked)


def is_closed(windows: pa.Table, frontier: int | None) -> pa.ChunkedArray:
    """Whether each window's last instant lies before the frontier."""
    if frontier is None:
        return pa.chunked_array([pa.repeat(pa.scalar(False), windows.num_rows)])
    return pc.less(windows[WEND], frontier)


def flags(column: pa.ChunkedArray) -> Bools:
    return array(column).astype(np.bool_)
