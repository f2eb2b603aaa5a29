"""The division of a state by series, and the joining of what parts with different series come to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa

from headrace.compute.plan import SERIES_KEY
from headrace.compute.windows.segments import base_key_columns
from headrace.model.jobs import JobCounters
from headrace.streams.batches import BatchResult
from headrace.streams.definition.define import StreamPlan
from headrace.streams.notifications.events import join_events
from headrace.streams.state.checkpoints import StreamState, event_times
from headrace.streams.state.tables import StateTable, concat, join_tables
from headrace.streams.windows.accounting import later_of
from headrace.streams.windows.change_batch import Int64s, to_numpy
from headrace.streams.windows.retention import evict_windows, subtable_key

NumberOf = Callable[[pa.ChunkedArray], Int64s]
"""Returns for each series the number of its part."""
StateOf = Callable[[int], StreamState]
"""Returns the state of the series of a part, without counters."""


def divide_state(plan: StreamPlan, state: StreamState, number_of: NumberOf) -> StateOf:
    """Divide the windows and event times of a state by series. What concerns no series belongs to no part.

    Each row of the state is looked at once, however many parts there are.
    """
    key = subtable_key(plan)
    assert key is not None
    times = divide_rows(state.max_event_time_by_subtable.to_table(), SERIES_KEY, number_of)
    windows = divide_rows(None if state.windows is None else state.windows.to_table(), key, number_of)
    deferred = divide_rows(state.deferred, plan.source.series_key, number_of)
    others = replace(state, counters=JobCounters(), messages=(), checkpoint=None)
    return lambda number: with_tables(plan, replace(others, deferred=deferred(number)), times(number), windows(number))


def divide_rows(rows: pa.Table | None, column: str, number_of: NumberOf) -> Callable[[int], pa.Table | None]:
    """Return what returns the rows of a part, in their order; None if it has none."""
    if rows is None:
        return lambda _: None
    numbers = number_of(rows[column])
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]

    def part(number: int) -> pa.Table | None:
        first, last = np.searchsorted(ordered, (number, number + 1))
        return rows.take(pa.array(order[first:last])) if last > first else None

    return part


def number_by_name(first_names: Sequence[str]) -> NumberOf:
    """Return what divides series by the first name of each part, in order. Series before all of them belong to the first part."""
    firsts = np.array(first_names, object)

    def number_of(series: pa.ChunkedArray) -> Int64s:
        names = np.asarray(to_numpy(series.cast(pa.string())), object)
        return np.maximum(np.searchsorted(firsts, names, side="right") - 1, 0).astype(np.int64)

    return number_of


def with_tables(plan: StreamPlan, state: StreamState, times: pa.Table | None, windows: pa.Table | None) -> StreamState:
    own_windows = None if windows is None or windows.num_rows == 0 else StateTable.of(windows, base_key_columns(plan.query))
    return replace(state, max_event_time_by_subtable=event_times(times), windows=own_windows)


def whole_result(plan: StreamPlan, before: StreamState, results: Sequence[BatchResult]) -> BatchResult:
    """Return the result of a commit from the state before it and the results of all series."""
    total = join_results(plan, results)
    counters = before.counters.plus(total.state.counters)
    moved = replace(total.state, counters=replace(counters, batches=before.counters.batches + 1))
    return replace(total, state=evict_windows(plan, moved))


def join_results(plan: StreamPlan, results: Sequence[BatchResult]) -> BatchResult:
    """Return the results of parts with different series as one. Their states have the counters of the commit alone."""
    states = [result.state for result in results]
    state = replace(
        states[0],
        deferred=join_tables([state.deferred for state in states]),
        counters=reduce(JobCounters.plus, (state.counters for state in states)),
        max_event_time=reduce(later_of, (state.max_event_time for state in states)),
        evicted_through=reduce(later_of, (state.evicted_through for state in states)),
    )
    times = join_rows(state.max_event_time_by_subtable.to_table() for state in states)
    windows = join_tables([state.windows.to_table() for state in states if state.windows is not None])
    staged = [result.staged for result in results if result.staged is not None]
    return BatchResult(
        join_rows(result.upserts for result in results),
        join_rows(result.retractions for result in results),
        with_tables(plan, state, times, windows),
        events=join_events([result.events for result in results]),
        staged=reduce(lambda first, second: first.plus(second.files, second.retracted), staged) if staged else None,
    )


def join_rows(tables: Iterable[pa.Table]) -> pa.Table:
    """Return the rows of all tables, of which there is at least one."""
    some = list(tables)
    return concat([rows for rows in some if rows.num_rows] or some[:1])
