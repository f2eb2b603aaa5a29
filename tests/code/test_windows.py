"""Windows of access strategies: those that IoTDB's functions see."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.code.series_calls import configure
from headrace.code.windows import windows
from headrace.udf import (
    UDTF,
    AccessStrategy,
    ParameterError,
    Parameters,
    SessionTimeWindowAccessStrategy,
    SlidingSizeWindowAccessStrategy,
    SlidingTimeWindowAccessStrategy,
    StateWindowAccessStrategy,
    Type,
    UDTFConfigurations,
)
from headrace.udf.strategies import AccessStrategyError

TIMES = st.lists(st.integers(0, 60), unique=True, max_size=20).map(sorted)


def cut(strategy: AccessStrategy, times: Sequence[int], values: Sequence[object] | None = None) -> list[tuple[int, int, list[int]]]:
    """Return start, end and times of each window."""
    rows = pa.record_batch({"time": pa.array(times, pa.int64()), "x0": pa.array(times if values is None else values)})
    type_ = Type.INT64 if values is None or not values or isinstance(values[0], int | float) else Type.TEXT
    return [
        (window.window_start_time(), window.window_end_time(), [row.get_time() for row in window])
        for window in windows(strategy, rows, [type_])
    ]


def test_windows_of_a_size() -> None:
    assert cut(SlidingSizeWindowAccessStrategy(2), [1, 5, 7]) == [(1, 5, [1, 5]), (7, 7, [7])]
    assert cut(SlidingSizeWindowAccessStrategy(4, 2), range(5)) == [(0, 3, [0, 1, 2, 3]), (2, 4, [2, 3, 4]), (4, 4, [4])]


def test_windows_of_a_time_that_have_no_row_end_a_tick_later() -> None:
    windows_ = [(1, 10, [1, 2]), (11, 21, []), (21, 30, [25])]
    assert cut(SlidingTimeWindowAccessStrategy(10), [1, 2, 25]) == windows_
    assert cut(SlidingTimeWindowAccessStrategy(10), [1, 21]) == [(1, 10, [1]), (11, 20, []), (21, 30, [21])]
    displayed = SlidingTimeWindowAccessStrategy(10, 5, -10, 8)
    assert cut(displayed, [1, 2, 25]) == [(-10, 0, []), (-5, 4, [1, 2]), (0, 9, [1, 2]), (5, 8, [])]


def test_sessions_begin_with_the_display_window_if_the_series_began_before() -> None:
    times = [0, 1, 2, 3, 8, 9]
    assert cut(SessionTimeWindowAccessStrategy(2), times) == [(0, 3, [0, 1, 2, 3]), (8, 9, [8, 9])]
    assert cut(SessionTimeWindowAccessStrategy(1, 9, 2), times) == [(1, 3, [1, 2, 3]), (8, 8, [8])]
    assert cut(SessionTimeWindowAccessStrategy(-5, 2, 2), times) == [(0, 1, [0, 1])]
    assert cut(SessionTimeWindowAccessStrategy(0), [4, 5]) == [(4, 4, [4]), (5, 5, [5])]
    assert cut(SessionTimeWindowAccessStrategy(20, 30, 2), times) == []


def test_states_are_compared_with_the_first_value_of_their_window() -> None:
    values = [0, 2, 4, 4, 1]
    assert cut(StateWindowAccessStrategy(2.0), range(5), values) == [(0, 1, [0, 1]), (2, 3, [2, 3]), (4, 4, [4])]
    assert cut(StateWindowAccessStrategy(), range(3), ["a", "a", "b"]) == [(0, 1, [0, 1]), (2, 2, [2])]
    with pytest.raises(ParameterError, match="data type of the state window"):
        list(windows(StateWindowAccessStrategy(), pa.record_batch({"time": [1], "x0": [b"x"]}), [Type.BLOB]))


@given(TIMES, st.integers(1, 5), st.integers(1, 5))
def test_a_row_is_in_each_window_whose_range_contains_it(times: list[int], interval: int, step: int) -> None:
    for start, _, rows in cut(SlidingTimeWindowAccessStrategy(interval, step), times):
        assert rows == [time for time in times if start <= time < start + interval]


@given(TIMES, st.integers(0, 5))
def test_sessions_divide_the_rows_at_long_gaps(times: list[int], gap: int) -> None:
    sessions = cut(SessionTimeWindowAccessStrategy(gap), times)
    assert [time for _, _, rows in sessions for time in rows] == times
    assert all(later - earlier <= gap for _, _, rows in sessions for earlier, later in itertools.pairwise(rows))
    assert all(after[0] - before[1] > gap for before, after in itertools.pairwise(sessions))


def test_empty_windows_of_years_are_skipped_or_refused() -> None:
    far = [0, 5, 10**15, 10**15 + 1]
    skipping = SlidingTimeWindowAccessStrategy(10, skips_empty=True)
    assert [(start, rows) for start, _, rows in cut(skipping, far)] == [(0, [0, 5]), (10**15, [10**15, 10**15 + 1])]
    begun = SlidingTimeWindowAccessStrategy(10, 40, -(10**15), 10**16, skips_empty=True)
    assert [(start, rows) for start, _, rows in cut(begun, [*far, 10**15 + 30])] == [(0, [0, 5]), (10**15, [10**15, 10**15 + 1])]
    with pytest.raises(AccessStrategyError, match="makes 100000000000001 windows, at most 10000000 are possible"):
        cut(SlidingTimeWindowAccessStrategy(10), far)


@given(st.lists(st.integers(-50, 50), min_size=1, unique=True), st.integers(1, 20), st.integers(1, 20), st.integers(-60, 20))
def test_windows_that_skip_empty_ones_are_the_others(times: list[int], interval: int, step: int, begin: int) -> None:
    every, others = (
        cut(SlidingTimeWindowAccessStrategy(interval, step, begin, skips_empty=skips), sorted(times)) for skips in (False, True)
    )
    assert others == [window for window in every if window[2]]


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (SlidingSizeWindowAccessStrategy(0), r"Parameter windowSize\(0\) should be positive\."),
        (SlidingTimeWindowAccessStrategy(5, -1), r"Parameter slidingStep\(-1\) should be positive\."),
        (SlidingTimeWindowAccessStrategy(5, 5, 3, 2), r"displayWindowEnd\(2\) < displayWindowBegin\(3\)"),
        (SessionTimeWindowAccessStrategy(-1), r"sessionTimeGap\(-1\) should be equal to or greater than zero\."),
        (StateWindowAccessStrategy(-0.5), r"Parameter delta\(-0\.500000\) should be positive or equal to 0\."),
    ],
)
def test_invalid_strategies_are_refused(strategy: AccessStrategy, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        strategy.check()


class States(UDTF):
    """Reads windows of one state."""

    def before_start(self, _: Parameters, configurations: UDTFConfigurations) -> None:
        configurations.set_output_data_type(Type.INT64).set_access_strategy(StateWindowAccessStrategy(0.5))


def test_windows_of_a_state_have_one_input() -> None:
    assert configure(States(), Parameters([Type.INT32])).output_data_type is Type.INT64
    with pytest.raises(AccessStrategyError, match=r"StateWindowAccessStrategy only support one input series for now\."):
        configure(States(), Parameters([Type.INT32, Type.INT32]))
