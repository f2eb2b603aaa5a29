"""The arithmetic of schedules, beside a direct reading of IoTDB's rules."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.continuous_queries import Schedule, first_execution
from headrace.model.tree_statements import TimeoutPolicy

EVERY = st.integers(1, 50)
INSTANT = st.integers(-300, 300)


def schedule(every: int, boundary: int = 0, *, policy: TimeoutPolicy = TimeoutPolicy.BLOCKED, now: int = 0) -> Schedule:
    return Schedule(every, boundary, every, 0, policy, first_execution(every, boundary, now))


@pytest.mark.parametrize(
    ("every", "boundary", "now", "first"),
    [
        (30, 0, 100, 120),
        (30, 110, 100, 110),
        (30, 100, 100, 100),
        (30, 0, 91, 120),
        (30, 0, 90, 90),
        (30, 10, 100, 100),
        (30, -50, 100, 100),
        (30, -51, 100, 129),
    ],
)
def test_the_first_execution_is_the_boundary_or_the_next_instant_of_the_grid(
    every: int, boundary: int, now: int, first: int
) -> None:
    assert first_execution(every, boundary, now) == first


def truncated_first(every: int, boundary: int, now: int) -> int:
    """Return the first execution as IoTDB computes it, with division that truncates toward zero."""
    return boundary if now <= boundary else (int((now - boundary - 1) / every) + 1) * every + boundary


@given(EVERY, INSTANT, INSTANT)
def test_the_first_execution_is_iotdbs(every: int, boundary: int, now: int) -> None:
    assert first_execution(every, boundary, now) == truncated_first(every, boundary, now)


@given(EVERY, INSTANT, INSTANT, st.lists(st.integers(0, 120), max_size=10))
def test_blocked_runs_every_interval_in_order(every: int, boundary: int, created: int, waits: list[int]) -> None:
    grid = schedule(every, boundary, now=created)
    now, last, runs = created, None, []
    for wait in waits:
        now += wait
        for instant in grid.due(last, now):
            last = instant
            runs.append(instant)
    assert runs == list(range(grid.first, now + 1, every)) if waits else runs == []


@given(EVERY, INSTANT, INSTANT, st.lists(st.integers(0, 120), max_size=10))
def test_discard_runs_the_latest_interval(every: int, boundary: int, created: int, waits: list[int]) -> None:
    grid = schedule(every, boundary, policy=TimeoutPolicy.DISCARD, now=created)
    now, last = created, None
    for wait in waits:
        now += wait
        due = list(grid.due(last, now))
        on_grid = [instant for instant in range(grid.first, now + 1, every) if last is None or instant > last]
        assert due == on_grid[-1:]
        last = due[-1] if due else last


@given(EVERY, INSTANT, INSTANT, st.integers(1, 90), st.integers(0, 89), INSTANT, st.integers(1, 90))
def test_the_instants_of_a_range_are_those_whose_ranges_overlap_it(
    every: int, boundary: int, now: int, start_offset: int, end_offset: int, start: int, length: int
) -> None:
    if end_offset >= start_offset:
        return
    grid = Schedule(every, boundary, start_offset, end_offset, TimeoutPolicy.BLOCKED, first_execution(every, boundary, now))
    end = start + length
    near = range(grid.at_or_before(start - 500), end + 500, every)
    overlapping = [at for at in near if grid.range_at(at)[0] < end and start < grid.range_at(at)[1]]
    assert list(grid.overlapping(start, end)) == overlapping


def test_a_long_outage_is_not_listed_in_memory() -> None:
    assert list(islice(schedule(1).due(None, 10**15), 2)) == [0, 1]
