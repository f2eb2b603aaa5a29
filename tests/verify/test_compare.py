"""Two results are told apart by the first thing in which they differ."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import DataError
from headrace.verify import MaintainedTable, VerificationResult, verify
from headrace.verify.aggregates import Likeness
from headrace.verify.compare import Allowance, Mismatch, first_difference, same
from tests.verify.house import query_of, small

EXACT, WRITTEN, WITHIN = Likeness.EXACT, Likeness.WRITTEN, Likeness.WITHIN
ROWS = small(("d1", 1, 1, 0.5, "a"), ("d1", 2, 2, 0.25, "b"), ("d1", 11, 5, None, None), ("d1", 12, 7, 1.0, "c"))
ASKED = "select _wstart, count(*), sum(a), avg(b) from d1 interval(10s)"
RIGHT = [(0, 2, 3, 0.375), (10_000, 2, 12, 1.0)]


def verdict(rows: list[tuple[Any, ...]], sql: str = ASKED, maintained: MaintainedTable | None = None) -> VerificationResult:
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)]
    starts = pa.array([start * 1_000 for start in columns[0]], pa.timestamp("us", tz="UTC"))
    table = pa.table([starts, *columns[1:]], [f"c{number}" for number in range(len(columns))])
    return verify(query_of(sql), lambda: table, ROWS, maintained=maintained)


def test_a_right_result_is_equal_whatever_the_order_of_its_rows() -> None:
    assert verdict(RIGHT).equal
    assert verdict(RIGHT[::-1]).equal
    assert verdict(RIGHT).rows == 2


def test_a_wrong_value_is_shown_with_the_rows_of_its_window() -> None:
    found = verdict([RIGHT[0], (10_000, 2, 13, 1.0)])
    assert not found.equal
    assert found.difference is not None
    assert found.difference.columns == ("sum(a)",)
    assert (found.difference.expected, found.difference.found) == ((10_000, 2, 12, 1.0), (10_000, 2, 13, 1.0))
    assert [row[:2] for row in found.difference.source.rows] == [(11_000, 5), (12_000, 7)]
    assert found.difference.total == 2


def test_a_missing_row_a_row_too_much_and_a_doubled_row_are_differences() -> None:
    missing = verdict(RIGHT[:1]).difference
    assert missing is not None
    assert (missing.expected, missing.found) == (RIGHT[1], None)
    for rows in ([*RIGHT, (20_000, 1, 1, 1.0)], [*RIGHT, RIGHT[0]]):
        more = verdict(rows).difference
        assert more is not None
        assert (more.expected, more.found) == (None, rows[-1])


def test_rows_that_do_not_come_as_order_by_says_are_a_difference() -> None:
    assert verdict(RIGHT[::-1], f"{ASKED} order by _wstart desc").equal
    wrong = verdict(RIGHT, f"{ASKED} order by _wstart desc").difference
    assert wrong is not None
    assert wrong.columns == ("_wstart",)


def test_a_result_of_other_columns_is_none_of_that_query() -> None:
    with pytest.raises(DataError, match="has 4 columns, the result 3"):
        verdict([row[:3] for row in RIGHT])


def test_of_a_stream_open_windows_may_lack_or_be_older_but_closed_ones_may_not() -> None:
    open_ = MaintainedTable(watermark=12_000)
    older = (10_000, 1, 5, 1.0)
    assert verdict(RIGHT[:1], maintained=open_).equal
    assert verdict([RIGHT[0], older], maintained=open_).equal
    assert not verdict([RIGHT[0], older], maintained=MaintainedTable(watermark=30_000)).equal
    assert not verdict(RIGHT[1:], maintained=open_).equal
    assert not verdict([(0, 2, 4, 0.375)], maintained=open_).equal


def test_of_a_stream_without_history_untouched_windows_may_lack_but_none_may_be_wrong() -> None:
    assert verdict(RIGHT[1:], maintained=MaintainedTable(partial=True)).equal
    assert not verdict([(10_000, 2, 13, 1.0)], maintained=MaintainedTable(partial=True)).equal


@pytest.mark.parametrize(
    ("expected", "found", "likeness", "equal"),
    [
        (1, 1, EXACT, True),
        (2**62, 2**62 + 1, EXACT, False),
        (1, 1.0, EXACT, True),
        (0.1 + 0.2, 0.3, EXACT, True),
        (1.0, 1.000001, EXACT, False),
        (0.0, 1e-13, EXACT, True),
        (0.0, 1e-9, EXACT, False),
        (float("nan"), float("nan"), EXACT, True),
        (float("nan"), 1.0, EXACT, False),
        (Decimal("1.5"), 1.5, EXACT, True),
        (True, 1, EXACT, False),
        (None, None, EXACT, True),
        (None, 0, EXACT, False),
        ("a", "a", EXACT, True),
        ("a", "A", EXACT, False),
        ("1", 1, EXACT, False),
        (b"a", b"a", EXACT, True),
        ("[1.000000, 2.5]", "[1.000001, 2.5]", WRITTEN, True),
        ("[1.000000, 2.5]", "[1.001000, 2.5]", WRITTEN, False),
        ("slope 1.0", "slop 1.0", WRITTEN, False),
        ([1.0, 3.0], 2, WITHIN, True),
        ([1.0, 3.0], 3.1, WITHIN, False),
        ([1.0, 3.0], None, WITHIN, False),
        (None, None, WITHIN, True),
        (None, 2.0, WITHIN, False),
    ],
)
def test_values_are_compared_each_in_its_way(expected: Any, found: Any, likeness: Likeness, equal: bool) -> None:
    assert same(expected, found, likeness) is equal


def test_rows_are_paired_where_rounding_sorts_them_otherwise() -> None:
    expected = [(1.0, "x"), (1.0 + 1e-12, "y")]
    found = [(1.0 + 1e-12, "x"), (1.0, "y")]
    assert first_difference(expected, found, [EXACT, EXACT]) is None
    ranges = [([1.0, 2.0],), ([0.0, 5.0],)]
    assert first_difference(ranges, [(4.5,), (1.5,)], [WITHIN]) is None


def test_the_row_most_like_the_missing_one_is_shown_beside_it() -> None:
    found = first_difference([(1, "a", 2.0), (2, "b", 3.0)], [(2, "b", 4.0), (7, "c", 9.0)], [EXACT] * 3)
    assert found == Mismatch((1, "a", 2.0), (2, "b", 4.0), 0, (0, 1, 2))
    assert first_difference([(2, "b", 3.0)], [(7, "c", 9.0), (2, "b", 4.0)], [EXACT] * 3) == Mismatch(
        (2, "b", 3.0), (2, "b", 4.0), 0, (2,)
    )


def test_what_may_be_missing_or_besides_is_no_difference() -> None:
    expected, found = [(1,), (2,)], [(2,), (3,)]
    assert first_difference(expected, found, [EXACT], leave=Allowance(lambda place: place == 0, lambda row: row == (3,))) is None
    assert first_difference(expected, found, [EXACT], leave=Allowance(missing=lambda place: place == 0)) is not None
