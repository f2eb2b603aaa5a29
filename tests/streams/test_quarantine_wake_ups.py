"""Rows that a stream sets aside at the end of RECALCULATE, when windows are recalculated from stored rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.streams.runner import state_store
from tests.streams.effort import drawn
from tests.streams.environment import START, StreamEnvironment
from tests.streams.set_aside import FAR, HOUR, POSITIONS, counters, crash, held, windows
from tests.streams.state_files import remove_state

if TYPE_CHECKING:
    from headrace.streams.definition.define import StreamPlan

pytestmark = pytest.mark.spark


CREATE = f"create stream s trigger continuous_window_close ignore expired 0 {{}} into positions {POSITIONS} d0 interval(10s)"


@pytest.fixture
def marked(env: StreamEnvironment) -> StreamPlan:
    """A stream with a closed window to recalculate, which one of its late rows makes fail."""
    return create(env)


def create(env: StreamEnvironment, options: str = "") -> StreamPlan:
    plan = env.create(CREATE.format(options))
    env.insert([("d0", 1000, FAR, None), ("d0", 20_000, 1, None)])
    env.settle()
    env.insert([("d0", 2000, FAR, None), ("d0", 3000, 1, None)])
    env.settle()
    assert (windows(env, plan), held(env, plan), env.record(plan).reason) == ([(0, 1, 0)], [], None)
    env.clock.advance(2 * HOUR)
    return plan


def set_aside_times(env: StreamEnvironment, plan: StreamPlan) -> list[int]:
    return [row.key.time - START for row in held(env, plan)]


def test_recalculated_windows_leave_out_rows_that_fail(env: StreamEnvironment, marked: StreamPlan) -> None:
    env.settle()
    counts = counters(env, marked)
    assert env.record(marked).reason is None
    assert (windows(env, marked), set_aside_times(env, marked)) == ([(0, 2, 0)], [2000])
    assert (counts.rows_in, counts.rows_used, counts.rows_quarantined) == (4, 3, 1)


def test_changes_that_arrive_when_windows_are_recalculated_are_handled_alone(env: StreamEnvironment, marked: StreamPlan) -> None:
    env.insert([("d0", 40_000, 1, None)])
    env.settle()
    counts = counters(env, marked)
    assert (windows(env, marked), set_aside_times(env, marked)) == ([(0, 2, 0), (20_000, 1, 10)], [2000])
    assert (counts.rows_in, counts.rows_used, counts.rows_quarantined) == (5, 4, 1)


def test_a_row_that_was_set_aside_can_be_corrected(env: StreamEnvironment, marked: StreamPlan) -> None:
    env.settle()
    env.insert([("d0", 2000, 5, None)])
    env.settle()
    env.clock.advance(2 * HOUR)
    env.settle()
    counts = counters(env, marked)
    assert (windows(env, marked), held(env, marked)) == ([(0, 3, 0)], [])
    assert (counts.rows_in, counts.rows_used, counts.rows_updated) == (5, 4, 1)


POINTS = ("streams.state.written", "streams.quarantine.committed", "streams.target.committed")


@pytest.mark.parametrize("point", drawn(POINTS, "wake-ups that set rows aside"))
def test_a_wake_up_that_sets_rows_aside_is_done_once(env: StreamEnvironment, marked: StreamPlan, point: str) -> None:
    crash(env, point)
    env.settle()
    counts = counters(env, marked)
    assert (windows(env, marked), set_aside_times(env, marked)) == ([(0, 2, 0)], [2000])
    assert (counts.rows_in, counts.rows_used, counts.rows_quarantined) == (4, 3, 1)


def test_a_state_is_recovered_without_the_rows_that_a_wake_up_has_set_aside(env: StreamEnvironment, marked: StreamPlan) -> None:
    env.settle()
    store = state_store(env.context, marked.id)
    remove_state(store, f"{max(store.batches()):020d}-*")
    env.restart()
    env.insert([("d0", 4000, 1, None)])
    env.settle()
    env.clock.advance(2 * HOUR)
    env.settle()
    counts = counters(env, marked)
    assert (windows(env, marked), set_aside_times(env, marked)) == ([(0, 3, 0)], [2000])
    assert (counts.rows_in, counts.rows_used, counts.rows_quarantined) == (5, 4, 1)


def test_on_error_stop_stops_a_stream_whose_recalculated_windows_fail(env: StreamEnvironment) -> None:
    plan = create(env, "on_error stop")
    env.settle()
    reason = env.record(plan).reason
    assert reason is not None
    assert (reason.code, held(env, plan)) == ("DATA", [])
