"""The windows of a fixed length."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.windows import WindowGrid

GRIDS = st.builds(WindowGrid, st.integers(1, 9), st.integers(0, 8), st.integers(1, 30))
INSTANTS = st.integers(-100, 100)


def starts_of(grid: WindowGrid, instant: int) -> list[int]:
    """Return the starts of the windows that contain an instant, latest first."""
    return [s for s in range(instant, instant - grid.length, -1) if (s - grid.offset) % grid.step == 0]


@given(grid=GRIDS, instant=INSTANTS)
def test_floor_and_ceiling_are_the_nearest_starts(grid: WindowGrid, instant: int) -> None:
    floor, ceiling = grid.floor(instant), grid.ceiling(instant)
    assert floor <= instant <= ceiling < floor + 2 * grid.step
    assert {(start - grid.offset) % grid.step for start in (floor, ceiling)} == {0}
    assert ceiling - floor in (0, grid.step)


@given(grid=GRIDS, instants=st.lists(INSTANTS, max_size=20))
def test_instants_are_assigned_to_all_windows_that_contain_them(grid: WindowGrid, instants: list[int]) -> None:
    rows, starts = grid.assign(np.array(instants, np.int64))
    assigned = zip(range(len(instants)) if rows is None else rows.tolist(), starts.tolist(), strict=True)
    expected = [(row, start) for row, instant in enumerate(instants) for start in starts_of(grid, instant)]
    assert sorted(assigned) == sorted(expected)


@given(grid=GRIDS, instant=INSTANTS, count=st.integers(1, 30))
def test_windows_end_one_after_another(grid: WindowGrid, instant: int, count: int) -> None:
    first = grid.first_open(instant - 40)
    assert grid.end(first) > instant - 40 >= grid.end(first - grid.step)
    ended = grid.ended(first, instant, count)
    following = [first]
    while grid.end(following[-1]) <= instant:
        following.append(grid.next_start(following[-1]))
    assert ended.start.tolist() == following[:-1][:count]
    assert (ended.last == ended.start + grid.length - 1).all()


@given(grid=GRIDS, numbers=st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 9)), max_size=5))
def test_windows_between_two_windows_are_those_that_start_there(grid: WindowGrid, numbers: list[tuple[int, int]]) -> None:
    gaps = [(first * grid.step + grid.offset, (first + count) * grid.step + grid.offset) for first, count in numbers]
    starts, ends = (np.array([gap[side] for gap in gaps], np.int64) for side in (0, 1))
    gap, windows = grid.between(starts, ends)
    expected = [(number, s) for number, (low, high) in enumerate(gaps) for s in range(low + grid.step, high, grid.step)]
    assert list(zip(gap.tolist(), windows.start.tolist(), strict=True)) == expected
    assert grid.max_between(starts, ends) == len(expected)
