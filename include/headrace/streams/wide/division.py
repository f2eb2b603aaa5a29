"""The division of a state by series: each row of the state is looked at once, however many parts there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import SERIES_KEY
from headrace.model.jobs import JobCounters
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState, event_times
from headrace.streams.state.tables import StateTable, join_tables
from headrace.streams.windows.change_batch import Int64s, to_numpy
from headrace.streams.windows.retention import subtable_key

NumberOf = Callable[[pa.ChunkedArray], Int64s]
"""Returns for each series the number of its part."""


@dataclass(frozen=True)
class DividedRows:
    """Rows in the order of their parts."""

    rows: pa.Table
    order: Int64s
    numbers: Int64s

    @classmethod
    def of(cls, rows: pa.Table, numbers: Int64s) -> DividedRows:
        """Divide rows by the number of each row's part."""
        order = np.argsort(numbers, kind="stable")
        return cls(rows, order, numbers[order])

    def part(self, number: int) -> pa.Table:
        """Return the rows of a part, in their order."""
        first, last = np.searchsorted(self.numbers, (number, number + 1))
        return self.rows.take(pa.array(self.order[first:last]))


@dataclass(frozen=True)
class DividedState:
    """A state whose windows and event times are divided by series. What concerns no series belongs to no part."""

    state: StreamState
    times: DividedRows
    windows: DividedRows | None
    deferred: DividedRows | None
    keys: Sequence[str]

    @classmethod
    def of(cls, plan: StreamPlan, state: StreamState, number_of: NumberOf) -> DividedState:
        key, windows = subtable_key(plan), state.windows
        assert key is not None

        def divide(rows: pa.Table | None, column: str) -> DividedRows | None:
            return None if rows is None else DividedRows.of(rows, number_of(rows[column]))

        times = state.max_event_time_by_subtable.to_table()
        return cls(
            replace(state, counters=JobCounters(), messages=(), checkpoint=None),
            DividedRows.of(times, number_of(times[SERIES_KEY])),
            divide(None if windows is None else windows.to_table(), key),
            divide(state.deferred, plan.source.series_key),
            () if windows is None else windows.keys,
        )

    def part(self, number: int) -> StreamState:
        """Return the state of the series of a part, without counters."""
        deferred = None if self.deferred is None else self.deferred.part(number)
        state = replace(self.state, deferred=deferred if deferred is not None and deferred.num_rows else None)
        windows = None if self.windows is None else self.windows.part(number)
        return with_tables(state, self.times.part(number), windows, self.keys)


def number_by_name(first_names: Sequence[str]) -> NumberOf:
    """Return what divides series by the first name of each part, in order. Series before all of them belong to the first part."""
    firsts = np.array(first_names, object)

    def number_of(series: pa.ChunkedArray) -> Int64s:
        names = np.asarray(to_numpy(series.cast(pa.string())), object)
        return np.maximum(np.searchsorted(firsts, names, side="right") - 1, 0).astype(np.int64)

    return number_of


class OrderedState:
    """The state of some series, taken in the order of their names."""

    def __init__(self, plan: StreamPlan, state: StreamState) -> None:
        key, times = subtable_key(plan), state.max_event_time_by_subtable.to_table()
        assert key is not None
        self._state, self._key = state, key
        self._times = times.sort_by(SERIES_KEY)
        self._windows = None if state.windows is None else state.windows.to_table().sort_by(key)
        self._keys = () if state.windows is None else state.windows.keys

    def take_through(self, name: str | None) -> StreamState:
        """Return the state of the next series up to a name, inclusive; None for all that are left."""
        self._times, times = cut_after(self._times, SERIES_KEY, name)
        if self._windows is None:
            return with_tables(self._state, times, None, ())
        self._windows, windows = cut_after(self._windows, self._key, name)
        return with_tables(self._state, times, windows, self._keys)


def cut_after(rows: pa.Table, key: str, name: str | None) -> tuple[pa.Table, pa.Table]:
    """Cut rows in the order of a key: return those after a name, and those up to it."""
    count = rows.num_rows if name is None else int(pc.sum(pc.less_equal(rows[key], name)).as_py() or 0)
    return rows.slice(count), rows.slice(0, count)


def join_series(state: StreamState, others: Sequence[StreamState]) -> StreamState:
    states = [state, *others]
    tables = [part.windows for part in states if part.windows is not None and part.windows.num_rows]
    windows = join_tables([table.to_table() for table in tables])
    times = pa.concat_tables([part.max_event_time_by_subtable.to_table() for part in states])
    joined = replace(state, deferred=join_tables([part.deferred for part in states]))
    return with_tables(joined, times, windows, tables[0].keys if tables else ())


def with_tables(state: StreamState, times: pa.Table, windows: pa.Table | None, keys: Sequence[str]) -> StreamState:
    own_windows = None if windows is None or windows.num_rows == 0 else StateTable.of(windows, keys)
    return replace(state, max_event_time_by_subtable=event_times(times), windows=own_windows)
