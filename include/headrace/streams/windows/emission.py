"""Emission: which windows of a micro-batch are written to the target, and when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Plan
from headrace.compute.plan import WEND, WSTART
from headrace.compute.windows import key_columns, window_columns
from headrace.model.notifications import ClosePolicy
from headrace.model.streams import TriggerMode
from headrace.storage.row_matching import anti_join, match_rows
from headrace.streams.definition.define import StreamPlan
from headrace.streams.windows.change_batch import Bools, Int64s, to_numpy
from headrace.streams.windows.window_sql import ADDED, EMITTED, IS_RESULT, RECALCULATED


class EmitState(IntEnum):
    """What the target has of a window."""

    NONE = 0
    """No row."""
    STALE = 1
    """A row with an outdated value."""
    CURRENT = 2
    """A row with the present value."""
    ENDED = 3
    """The same, and the event was sent that the window has ended, if the stream's notification has such events."""


@dataclass(frozen=True)
class Emission:
    """Windows to write, windows to retract (`p*`, `_wstart`), and all windows with their new `EmitState`.

    `rewritten` is the number of windows to write that the target has already. `ended` are windows with a result that are closed,
    and were not before, or have changed since, and `reopened` (`p*`, `_wstart`) those that are open again; none unless
    a notification asks for them.
    """

    upserts: pa.Table
    retractions: pa.Table
    windows: pa.Table
    rewritten: int
    ended: pa.Table
    reopened: pa.Table


def notes_ends(plan: StreamPlan) -> bool:
    """Return whether a stream sends an event when event time has passed the end of a window, whenever its results are written."""
    return plan.notification is not None and plan.notification.on_close is ClosePolicy.END


def follows_closing(plan: StreamPlan) -> bool:
    """Return whether a window that closes may need to be written, or noted as ended, although no row touches it."""
    return plan.options.trigger is not TriggerMode.AT_ONCE or notes_ends(plan)


def emit(
    plan: Plan,
    trigger: TriggerMode,
    windows: pa.Table,
    state_windows: pa.Table,
    possibly_emitted: pa.Table,
    previous_watermark: int | None,
    watermark: int | None,
    *,
    notes_ends: bool = False,
) -> Emission:
    """Decide which windows of a micro-batch to write and which to retract.

    AT_ONCE writes touched windows. The others write a window when it closes, and again whenever it changes after that; rows of open
    windows that a backfill has written remain until then. A window that no longer exists is retracted, and so is one that is open
    again, unless MAX_DELAY will write it soon.

    `state_windows` were merged into the windows. The target may have those in `possibly_emitted` although they are not in state.
    The watermarks are those before and after the micro-batch, in ticks. With `notes_ends`, windows remember that they have ended.
    """
    key = [*key_columns(plan), WSTART]
    state_row = match_rows(windows, state_windows, key)
    emit_state = lookup(state_windows[EMITTED], state_row, EmitState.NONE).astype(np.int64)
    was_closed = lookup(is_closed(state_windows, previous_watermark), state_row, False).astype(np.bool_)
    touched, is_result = flags(pc.or_(pc.greater(windows[ADDED], 0), windows[RECALCULATED])), flags(windows[IS_RESULT])
    has_ended = is_result & flags(is_closed(windows, watermark))
    ready = is_result if trigger is TriggerMode.AT_ONCE else has_ended
    is_upserted = ready & (touched if trigger is TriggerMode.AT_ONCE else touched | (emit_state < EmitState.CURRENT))
    is_retracted = (emit_state != EmitState.NONE) & (~is_result | (~ready & was_closed & (trigger is not TriggerMode.MAX_DELAY)))
    unless_written = np.where(touched & (emit_state >= EmitState.CURRENT), EmitState.STALE, emit_state)
    new_emit_state = np.where(is_upserted, EmitState.CURRENT, np.where(is_retracted, EmitState.NONE, unless_written))
    newly_ended = has_ended & (touched | (emit_state != EmitState.ENDED)) & notes_ends
    new_emit_state = np.where(newly_ended & (new_emit_state >= EmitState.CURRENT), EmitState.ENDED, new_emit_state)
    new_windows = windows.select(list(window_columns(plan))).append_column(EMITTED, pa.array(new_emit_state.astype(np.int32)))
    emitted = state_windows.filter(pc.not_equal(state_windows[EMITTED], EmitState.NONE)).select(key)
    missing = [anti_join(emitted, windows, key), anti_join(possibly_emitted.select(key), windows.filter(pa.array(ready)), key)]
    retractions = pa.concat_tables([*missing, windows.select(key).filter(pa.array(is_retracted))], promote_options="permissive")
    rewritten = int(np.count_nonzero(is_upserted & (emit_state != EmitState.NONE)))
    reopened = windows.select(key).filter(pa.array((emit_state == EmitState.ENDED) & ~has_ended))
    upserts, ended = (windows.filter(pa.array(mask)) for mask in (is_upserted, newly_ended))
    return Emission(upserts, retractions, new_windows, rewritten, ended, reopened)


def lookup(column: pa.ChunkedArray, index: Int64s, default: int) -> npt.NDArray[np.generic]:
    """Return the values at these indexes, and the default for each index of -1."""
    return np.append(to_numpy(column), default)[index] if len(column) else np.full(len(index), default)


def is_closed(windows: pa.Table, watermark: int | None) -> pa.ChunkedArray:
    if watermark is None:
        return pa.chunked_array([pa.repeat(pa.scalar(False), windows.num_rows)])
    return pc.less(windows[WEND], watermark)


def flags(column: pa.ChunkedArray) -> Bools:
    return to_numpy(column).astype(np.bool_)
