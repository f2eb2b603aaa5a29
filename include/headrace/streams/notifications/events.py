"""Events of a micro-batch: which windows opened, got a result, or lost it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.compute.plan import STATE, WEND, WSTART
from headrace.compute.windows import key_columns
from headrace.model.notifications import EventType
from headrace.storage.row_matching import anti_join, match_rows, row_ids
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.tables import NO_IDS, ROW_ID, StateTable, concat, join_tables
from headrace.streams.windows.accounting import EvaluatedBatch
from headrace.streams.windows.change_batch import to_numpy
from headrace.streams.windows.emission import Emission, EmitState, notes_ends
from headrace.streams.windows.window_sql import EMITTED

PREVIOUS_STATE: Final = "_previous_state"
NEXT_STATE: Final = "_next_state"


@dataclass(frozen=True)
class WindowEvents:
    """The windows of a micro-batch with an event, by the event's type.

    Columns: group keys `p*`, `_wstart`, `_wend` (ticks, inclusive) and, except for invalidated windows, the select list `o*`. State
    windows also have `_state`, `_previous_state` and `_next_state`, which are NULL if there is no such window in state.
    """

    windows: dict[EventType, pa.Table]
    evicted: pa.Table | None = None
    """Windows that are retracted after they left the state (`p*`, `_wstart`, `_wend`). Only the target knows which had a result."""


def window_events(
    plan: StreamPlan, evaluated: EvaluatedBatch, emission: Emission, in_state: StateTable | None
) -> WindowEvents | None:
    """Return the events to which a stream's notification subscribes; None if it has none.

    A window that has left the state and is computed again opens again. `in_state` has the windows before the micro-batch.
    """
    notification = plan.notification
    if notification is None:
        return None
    key = [*key_columns(plan.query), WSTART]
    before = [windows.select(key) for windows in (evaluated.state_windows, evaluated.unaffected) if windows.num_rows]
    opened = anti_join(evaluated.windows, pa.concat_tables(before), key) if before else evaluated.windows
    closed = emission.ended if notes_ends(plan) else emission.upserts
    if plan.conditions.state:
        neighbors = [evaluated.windows, *unchanged_windows(evaluated, in_state)]
        opened, closed = (add_neighbor_states(windows, neighbors, key) for windows in (opened, closed))
    windows = {
        EventType.WINDOW_INVALIDATION: invalidated_windows(evaluated, emission, key),
        EventType.WINDOW_OPEN: opened,
        EventType.WINDOW_CLOSE: closed,
    }
    return WindowEvents(
        {type_: rows for type_, rows in windows.items() if rows.num_rows and notification.subscribes_to(type_)},
        evicted_windows(plan, evaluated, emission, key) if notification.subscribes_to(EventType.WINDOW_INVALIDATION) else None,
    )


def evicted_windows(plan: StreamPlan, evaluated: EvaluatedBatch, emission: Emission, key: Sequence[str]) -> pa.Table | None:
    """Return the windows that are retracted although they are not in state; None if there are none.

    Only windows of INTERVAL: the end of another one that has lost its rows cannot be determined.
    """
    possibly_emitted = evaluated.possibly_emitted
    if not plan.query.kind.is_fixed or possibly_emitted.num_rows == 0 or emission.retractions.num_rows == 0:
        return None
    windows = distinct(possibly_emitted.select([*key, WEND]), key)
    if evaluated.state_windows.num_rows:
        windows = anti_join(windows, evaluated.state_windows, key)
    evicted = windows.filter(pa.array(match_rows(windows, distinct(emission.retractions, key), key) >= 0))
    return evicted if evicted.num_rows else None


def confirm_evicted(
    events: WindowEvents, had_result: Callable[[pa.Table], npt.NDArray[np.bool_]], key: Sequence[str]
) -> WindowEvents:
    if events.evicted is None:
        return events
    invalidated = events.evicted.filter(pa.array(had_result(events.evicted)))
    if invalidated.num_rows == 0:
        return WindowEvents(events.windows)
    return combined_events(events, WindowEvents({EventType.WINDOW_INVALIDATION: invalidated}), key) or events


def unchanged_windows(evaluated: EvaluatedBatch, in_state: StateTable | None) -> list[pa.Table]:
    if in_state is None or evaluated.windows.num_rows == 0:
        return []
    before = evaluated.state_windows
    changed = before[ROW_ID].to_numpy() if before.num_rows else NO_IDS
    return [in_state.take(np.setdiff1d(in_state.matching(evaluated.windows), changed))]


def invalidated_windows(evaluated: EvaluatedBatch, emission: Emission, key: Sequence[str]) -> pa.Table:
    """Return the windows in state that are gone, such as merged ones, whose result is retracted, or that open again."""
    before = evaluated.state_windows
    windows = before.select([*key, WEND])
    if windows.num_rows == 0:
        return windows
    is_gone = match_rows(windows, evaluated.windows, key) < 0
    if emission.retractions.num_rows:
        had_result = to_numpy(before[EMITTED]) != EmitState.NONE
        is_gone |= had_result & (match_rows(windows, distinct(emission.retractions, key), key) >= 0)
    if emission.reopened.num_rows:
        is_gone |= match_rows(windows, emission.reopened, key) >= 0
    return windows.filter(pa.array(is_gone))


def distinct(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return one row for each combination of values of the columns."""
    (ids,) = row_ids([rows], columns)
    return rows.take(pa.array(np.unique(ids, return_index=True)[1]))


def add_neighbor_states(windows: pa.Table, all_windows: Sequence[pa.Table], key: Sequence[str]) -> pa.Table:
    """Add the states of the windows before and after each window of the same group."""
    columns = [*key, STATE]
    sorted_windows = distinct(concat([part.select(columns) for part in all_windows]).combine_chunks(), key)
    group = row_ids([sorted_windows], key[:-1])[0] if len(key) > 1 else np.zeros(sorted_windows.num_rows, np.int64)
    order = np.lexsort((to_numpy(sorted_windows[WSTART]), group))
    sorted_windows, group = sorted_windows.take(pa.array(order)), group[order]
    index = match_rows(windows, sorted_windows, key)
    states = sorted_windows[STATE].combine_chunks()
    for name, step in ((PREVIOUS_STATE, -1), (NEXT_STATE, 1)):
        windows = windows.append_column(name, states.take(neighbor_index(index, group, step)))
    return windows


def neighbor_index(index: npt.NDArray[np.int64], group: npt.NDArray[np.int64], step: int) -> pa.Array:
    """Return for each index the one a step away in the same group; NULL if there is none."""
    neighbor = np.clip(index + step, 0, max(len(group) - 1, 0))
    has_neighbor = (neighbor == index + step) & (group[neighbor] == group[index])
    return pa.array(neighbor, mask=~has_neighbor)


def written_events(plan: StreamPlan, written: pa.Table, in_state: StateTable) -> WindowEvents | None:
    """Return the events of open windows in state that the clock has written, with results; None if none are sent."""
    notification = plan.notification
    if notification is None or not notification.subscribes_to(EventType.WINDOW_CLOSE) or written.num_rows == 0 or notes_ends(plan):
        return None
    key = [*key_columns(plan.query), WSTART]
    closed = add_neighbor_states(written, [in_state.take(in_state.matching(written))], key) if plan.conditions.state else written
    return WindowEvents({EventType.WINDOW_CLOSE: closed})


def computed_events(plan: StreamPlan, computed: pa.Table) -> WindowEvents | None:
    """Return the events of windows that the clock has opened and closed at once; None if the stream has no notification."""
    notification = plan.notification
    if notification is None or computed.num_rows == 0:
        return None
    types = (EventType.WINDOW_OPEN, EventType.WINDOW_CLOSE)
    return WindowEvents({type_: computed for type_ in types if notification.subscribes_to(type_)})


def combined_events(first: WindowEvents | None, second: WindowEvents | None, key: Sequence[str]) -> WindowEvents | None:
    """Return the events of two steps of one micro-batch. The events of a window in the second step replace those of the first."""
    if first is None or second is None:
        return first or second
    windows = dict(second.windows)
    for type_, rows in first.windows.items():
        later = windows.get(type_)
        windows[type_] = rows if later is None else concat([anti_join(rows, later, key), later])
    return WindowEvents(windows, join_tables([first.evicted, second.evicted]))


def join_events(parts: Sequence[WindowEvents | None]) -> WindowEvents | None:
    """Return the events of groups that were computed one after the other; None if the stream has no notification."""
    some = [events for events in parts if events is not None]
    if not some:
        return None
    types = dict.fromkeys(type_ for events in some for type_ in events.windows)
    windows = {type_: concat([part.windows[type_] for part in some if type_ in part.windows]) for type_ in types}
    return WindowEvents(windows, join_tables([events.evicted for events in some]))
