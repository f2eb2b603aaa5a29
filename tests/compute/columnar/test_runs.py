"""Numbers of groups, and the order of rows by group and time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.compute.columnar.runs import Runs, combined, order_of, segment_order, stable_order

LIMITS = np.iinfo(np.int64)
NUMBER = st.one_of(st.integers(-3, 3), st.sampled_from([LIMITS.min, LIMITS.min + 1, LIMITS.max - 1, LIMITS.max]))
ROWS = st.lists(st.tuples(NUMBER, NUMBER, NUMBER), min_size=1, max_size=30)
GROUPED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=30)


@given(rows=ROWS, width=st.integers(1, 3))
def test_rows_have_the_same_number_if_all_columns_are_equal(rows: list[tuple[int, int, int]], width: int) -> None:
    keys = [row[:width] for row in rows]
    numbers = combined([np.array(column, np.int64) for column in zip(*keys, strict=True)], len(rows))
    rank = {key: number for number, key in enumerate(sorted(set(keys)))}
    assert np.unique(numbers, return_inverse=True)[1].tolist() == [rank[key] for key in keys]


@given(rows=st.lists(st.tuples(st.booleans(), st.sampled_from([0, 1, 2**63, 2**64 - 1])), min_size=1, max_size=20))
def test_flags_and_unsigned_numbers_are_combined(rows: list[tuple[bool, int]]) -> None:
    flags, numbers = zip(*rows, strict=True)
    result = combined([np.array(flags, np.bool_), np.array(numbers, np.uint64)], len(rows))
    assert (result[:, None] == result).tolist() == [[one == other for other in rows] for one in rows]


def test_numbers_are_added_up_one_after_the_other_from_zero() -> None:
    runs = Runs.of(np.array([True, *[False] * 9, True]))
    sums = runs.fold(np.add, np.array([2.0**63, -(2.0**63), 1, 0, 4, 4, 6, 1, 1, 1, -0.0]))
    assert sums.tolist() == [18, 0]
    assert not np.signbit(sums[1])


def test_no_columns_have_one_number() -> None:
    assert combined([], 3).tolist() == [0, 0, 0]
    assert combined([np.array([], np.int64)], 0).tolist() == []


@given(rows=GROUPED, by_group=st.booleans(), with_ties=st.booleans())
def test_rows_are_ordered_by_group_and_time(rows: list[tuple[int, int]], by_group: bool, with_ties: bool) -> None:
    if by_group:
        rows = sorted(rows)
    groups, instants = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    ties = [-np.arange(len(rows))] if with_ties else []
    order = order_of([groups], instants, ties)
    found = list(range(len(rows))) if order is None else order.tolist()
    pieces = [group for number, group in enumerate(groups[found]) if number == 0 or group != groups[found[number - 1]]]
    assert len(pieces) == len(set(groups.tolist()))
    for group in set(groups.tolist()):
        own = [row for row in found if groups[row] == group]
        assert own == sorted(own, key=lambda row: (instants[row], -row if with_ties else row))


@given(numbers=st.lists(NUMBER | st.integers(0, 2**33), min_size=40, max_size=60))
def test_equal_numbers_stay_in_their_order(numbers: list[int]) -> None:
    assert stable_order(np.array(numbers, np.int64)).tolist() == sorted(range(len(numbers)), key=numbers.__getitem__)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 2)), min_size=1), st.booleans())
def test_segments_are_ordered_by_group_start_and_end(segments: list[tuple[int, int, int]], in_time: bool) -> None:
    rows = sorted(segments, key=lambda row: row[1]) if in_time else segments
    groups, starts, lengths = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    ends = starts + lengths
    assert segment_order(groups, starts, ends).tolist() == np.lexsort((ends, starts, groups)).tolist()
