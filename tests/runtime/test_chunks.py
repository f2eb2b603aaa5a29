"""Splitting a range of event time into chunks."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.errors import LimitError
from headrace.history.chunks import MAX_CHUNKS, RowProfile, chunk_by_duration, chunk_by_rows
from headrace.model.windows import WindowGrid
from headrace.storage.delta.scans import Extent

MINUTE = WindowGrid(step=60, length=60)

extents_strategy = st.lists(
    st.builds(
        lambda first, length, rows: Extent(first, first + length, rows),
        st.integers(-(10**12), 10**12),
        st.integers(0, 10**9),
        st.integers(0, 10**7),
    ),
    max_size=20,
)
grids = st.builds(
    lambda step, offset, times: WindowGrid(step, offset, step * times),
    st.integers(1, 10**6),
    st.integers(-5, 10**5),
    st.integers(1, 100),
)


@given(extents_strategy, grids, st.integers(1, 10**8))
@example([Extent(0, 0, 131_072), Extent(0, 6_400_005, 1_823), Extent(114_605_961_822, 114_611_204_700, 1)], WindowGrid(), 1)
def test_chunks_cover_every_window_that_can_hold_a_row_once(extents: list[Extent], grid: WindowGrid, rows: int) -> None:
    pieces = chunk_by_rows(extents, grid, rows)
    filled = [extent for extent in extents if extent.rows]
    if not filled:
        assert pieces == []
        return
    first, last = min(extent.first for extent in filled), max(extent.last for extent in filled)
    assert [piece.end for piece in pieces[:-1]] == [piece.start for piece in pieces[1:]]
    # The window starts of the first row lie in (first - length, first], those of the last row end at last.
    earliest = grid.ceiling(first - grid.length + 1)
    assert pieces[0].start <= earliest
    assert pieces[-1].end > grid.floor(last)
    assert all(piece.start < piece.end for piece in pieces)
    assert all(grid.floor(piece.start) == piece.start for piece in pieces)
    assert len(pieces) <= MAX_CHUNKS
    assert sum(piece.rows for piece in pieces) == pytest.approx(sum(extent.rows for extent in filled), abs=1, rel=1e-6)


def test_chunks_of_even_rows_have_the_rows_asked_for() -> None:
    pieces = chunk_by_rows([Extent(0, 599_999, 600_000)], MINUTE, 100_000)
    assert len(pieces) == 6
    assert all(abs(piece.rows - 100_000) <= 60 for piece in pieces)


def test_dense_ranges_have_shorter_chunks_than_sparse_ones() -> None:
    sparse, dense = Extent(0, 99_999, 1_000), Extent(100_000, 199_999, 99_000)
    pieces = chunk_by_rows([sparse, dense], MINUTE, 10_000)
    assert pieces[0].end > 100_000
    assert all(piece.rows == pytest.approx(10_000, rel=0.05) for piece in pieces)


def test_a_gap_of_years_makes_no_chunks() -> None:
    extents = [Extent(0, 999, 1_000), Extent(10**12, 10**12 + 999, 1_000)]
    pieces = chunk_by_rows(extents, WindowGrid(), 1_000)
    assert [piece.rows for piece in pieces] == [1_000, 1_000]


def test_rows_of_one_instant_are_one_chunk() -> None:
    pieces = chunk_by_rows([Extent(120, 120, 1_000_000)], MINUTE, 10)
    assert [(piece.start, piece.end) for piece in pieces] == [(120, 180)]


def test_sliding_windows_that_begin_before_the_first_row_are_covered() -> None:
    pieces = chunk_by_rows([Extent(0, 0, 1)], WindowGrid(step=5, length=10), 1)
    assert pieces[0].start <= -5


@pytest.mark.parametrize(("start", "end"), [(130, 250), (120, 300)])
def test_a_range_is_extended_to_complete_windows(start: int, end: int) -> None:
    pieces = chunk_by_rows([Extent(0, 599, 600)], MINUTE, 60, start=start, end=end)
    assert pieces[0].start == 120
    assert pieces[-1].end == 300


def test_a_range_without_rows_makes_no_chunks() -> None:
    assert chunk_by_rows([Extent(0, 599, 600)], MINUTE, 60, start=6_000) == []
    assert chunk_by_duration([], MINUTE, 60) == []


def test_chunks_of_a_duration_are_rounded_up_to_whole_steps() -> None:
    pieces = chunk_by_duration([Extent(0, 599, 600)], MINUTE, 90, start=0)
    assert [(piece.start, piece.end) for piece in pieces] == [(0, 120), (120, 240), (240, 360), (360, 480), (480, 600)]


def test_too_many_chunks_of_a_duration_are_rejected() -> None:
    with pytest.raises(LimitError, match="60000"):
        chunk_by_duration([Extent(0, 3_599_999, 1)], MINUTE, 60, start=0)


def test_too_many_chunks_by_rows_become_larger() -> None:
    assert len(chunk_by_rows([Extent(0, 10**9, 10**9)], WindowGrid(), 1)) == MAX_CHUNKS


@given(extents_strategy.filter(lambda extents: any(extent.rows for extent in extents)), st.floats(0, 1))
def test_a_profile_inverts_itself(extents: list[Extent], share: float) -> None:
    filled = [extent for extent in extents if extent.rows]
    profile = RowProfile(filled)
    total = sum(extent.rows for extent in filled)
    instant = profile.instant_at(Decimal(total * share))
    densest = sum(extent.rows / (extent.last - extent.first + 1) for extent in filled)
    assert float(profile.rows_before(instant)) == pytest.approx(total * share, abs=densest + total * 1e-6)
