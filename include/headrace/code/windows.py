"""Windows of rows by access strategies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import singledispatch
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.udf import (
    AccessStrategy,
    ParameterError,
    RowWindow,
    SessionTimeWindowAccessStrategy,
    SlidingSizeWindowAccessStrategy,
    SlidingTimeWindowAccessStrategy,
    StateWindowAccessStrategy,
    Type,
)
from headrace.udf.strategies import AccessStrategyError
from headrace.udf.types import NUMERIC

MAX_TIME_WINDOWS: Final = 10_000_000
"""Windows of a fixed time in one series. Calling a function for each takes some ten seconds."""
Ticks = np.ndarray[tuple[int], np.dtype[np.int64]]


@singledispatch
def windows(strategy: AccessStrategy, rows: pa.RecordBatch, types: Sequence[Type]) -> Iterator[RowWindow]:
    """Yield the windows of rows, which are all of a series in order of time: `time` in ticks, then `x0`, `x1`, …."""
    raise NotImplementedError(type(strategy).__name__)


def times_of(rows: pa.RecordBatch) -> Ticks:
    """Return the times of rows."""
    times: Ticks = rows["time"].to_numpy(zero_copy_only=False)
    return times


@windows.register
def size_windows(strategy: SlidingSizeWindowAccessStrategy, rows: pa.RecordBatch, types: Sequence[Type]) -> Iterator[RowWindow]:
    """Yield windows of a fixed number of rows; those at the end are shorter."""
    times = times_of(rows)
    for first in range(0, len(times), strategy.step):
        last = min(first + strategy.window_size, len(times)) - 1
        yield RowWindow(rows.slice(first, last - first + 1), types, int(times[first]), int(times[last]))


@windows.register
def time_windows(strategy: SlidingTimeWindowAccessStrategy, rows: pa.RecordBatch, types: Sequence[Type]) -> Iterator[RowWindow]:
    """Yield windows of a fixed time, also those without rows, until no row follows.

    A window that has no row ends one tick later than one that has some, unless the last row is then, as in IoTDB.

    Raises:
        AccessStrategyError: There are too many windows.
    """
    times = times_of(rows)
    begin, end = strategy.display_window_begin, strategy.display_window_end
    if not len(times):
        return
    start = int(times[0]) if begin is None else begin
    if strategy.skips_empty:
        start = first_window_of(int(times[0]), start, strategy)
    else:
        check_count(start, int(times[-1]) + 1 if end is None else min(end, int(times[-1]) + 1), strategy.step)
    while start <= times[-1] and (end is None or start < end):
        stop = start + strategy.time_interval if end is None else min(start + strategy.time_interval, end)
        first, after = np.searchsorted(times, [start, stop])
        shown_end = stop if after == first and stop < times[-1] else start + strategy.time_interval - 1
        if after > first or not strategy.skips_empty:
            yield RowWindow(rows.slice(first, after - first), types, start, shown_end)
        start += strategy.step
        following = int(np.searchsorted(times, start))
        if strategy.skips_empty and following < len(times):
            start = first_window_of(int(times[following]), start, strategy)


def first_window_of(time: int, start: int, strategy: SlidingTimeWindowAccessStrategy) -> int:
    """Return the start of the first window from `start` on that ends after a time."""
    return start + strategy.step * max(0, -((start + strategy.time_interval - 1 - time) // strategy.step))


def check_count(start: int, end: int, step: int) -> None:
    """Raise `AccessStrategyError` if there are too many windows from a time to before another one."""
    count = -((start - end) // step)
    if count > MAX_TIME_WINDOWS:
        raise AccessStrategyError(
            f"SlidingTimeWindowAccessStrategy makes {count} windows, at most {MAX_TIME_WINDOWS} are possible; "
            "make the sliding step longer, set the display window, or skip empty windows"
        )


@windows.register
def session_windows(strategy: SessionTimeWindowAccessStrategy, rows: pa.RecordBatch, types: Sequence[Type]) -> Iterator[RowWindow]:
    """Yield runs of rows that are at most the gap apart."""
    shown = shown_rows(strategy, rows)
    breaks = np.flatnonzero(np.diff(times_of(shown)) > strategy.session_time_gap) + 1
    yield from cut(strategy, rows, shown, breaks, types)


@windows.register
def state_windows(strategy: StateWindowAccessStrategy, rows: pa.RecordBatch, types: Sequence[Type]) -> Iterator[RowWindow]:
    """Yield runs of rows whose values are near the first one of the run."""
    if types[0] in {Type.BLOB, Type.DATE, Type.TIMESTAMP}:
        raise ParameterError("The data type of the state window strategy is not valid.")
    shown = shown_rows(strategy, rows)
    breaks = state_breaks(shown["x0"], strategy.delta, is_numeric=types[0] in NUMERIC)
    yield from cut(strategy, rows, shown, breaks, types)


def shown_rows(strategy: SessionTimeWindowAccessStrategy | StateWindowAccessStrategy, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows within the display window."""
    times = times_of(rows)
    begin, end = strategy.display_window_begin, strategy.display_window_end
    first = 0 if begin is None else int(np.searchsorted(times, begin))
    after = len(times) if end is None else int(np.searchsorted(times, end))
    return rows.slice(first, max(after - first, 0))


def state_breaks(values: pa.Array, delta: float, *, is_numeric: bool) -> list[int]:
    """Return the indices of the rows that begin a window, without the first."""
    breaks: list[int] = []
    states = values.to_pylist()
    if not states:
        return breaks
    state = states[0]
    for index, value in enumerate(states):
        if abs(value - state) > delta if is_numeric else value != state:
            breaks.append(index)
            state = value
    return breaks


def cut(
    strategy: SessionTimeWindowAccessStrategy | StateWindowAccessStrategy,
    rows: pa.RecordBatch,
    shown: pa.RecordBatch,
    breaks: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.intp]],
    types: Sequence[Type],
) -> Iterator[RowWindow]:
    """Yield the windows that begin at some rows.

    The first window begins with the display window if the series has begun before it.
    """
    if not shown.num_rows:
        return
    times = times_of(shown)
    bounds = [0, *(int(index) for index in breaks), shown.num_rows]
    for first, after in pairwise(bounds):
        start = int(times[first])
        if first == 0 and strategy.display_window_begin is not None:
            start = max(strategy.display_window_begin, int(times_of(rows)[0]))
        yield RowWindow(shown.slice(first, after - first), types, start, int(times[after - 1]))
