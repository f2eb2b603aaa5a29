"""Two results are compared, and their first difference is found."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import DataError
from headrace.verify import MaintainedTable, VerificationResult, verify
from headrace.verify.compare import Allowance, ComparisonMode, Mismatch, first_difference, values_equal
from tests.verify.tables import parse_query, small_table

EXACT, AS_TEXT, IN_RANGE = ComparisonMode.EXACT, ComparisonMode.AS_TEXT, ComparisonMode.IN_RANGE
ROWS = small_table(("d1", 1, 1, 0.5, "a"), ("d1", 2, 2, 0.25, "b"), ("d1", 11, 5, None, None), ("d1", 12, 7, 1.0, "c"))
QUERY = "select _wstart, count(*), sum(a), avg(b) from d1 interval(10s)"
CORRECT = [(0, 2, 3, 0.375), (10_000, 2, 12, 1.0)]


def verdict(rows: list[tuple[Any, ...]], sql: str = QUERY, maintained: MaintainedTable | None = None) -> VerificationResult:
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)]
    starts = pa.array([start * 1_000 for start in columns[0]], pa.timestamp("us", tz="UTC"))
    table = pa.table([starts, *columns[1:]], [f"c{number}" for number in range(len(columns))])
    return verify(parse_query(sql), lambda: table, ROWS, maintained=maintained)


def test_a_correct_result_is_equal_in_any_order() -> None:
    assert verdict(CORRECT).equal
    assert verdict(CORRECT[::-1]).equal
    assert verdict(CORRECT).rows == 2


def test_a_wrong_value_is_shown_with_the_rows_of_its_window() -> None:
    result = verdict([CORRECT[0], (10_000, 2, 13, 1.0)])
    assert not result.equal
    assert result.difference is not None
    assert result.difference.columns == ("sum(a)",)
    assert (result.difference.expected, result.difference.actual) == ((10_000, 2, 12, 1.0), (10_000, 2, 13, 1.0))
    assert [row[:2] for row in result.difference.source.rows] == [(11_000, 5), (12_000, 7)]
    assert result.difference.total == 2


def test_missing_extra_and_duplicate_rows_are_differences() -> None:
    missing = verdict(CORRECT[:1]).difference
    assert missing is not None
    assert (missing.expected, missing.actual) == (CORRECT[1], None)
    for rows in ([*CORRECT, (20_000, 1, 1, 1.0)], [*CORRECT, CORRECT[0]]):
        more = verdict(rows).difference
        assert more is not None
        assert (more.expected, more.actual) == (None, rows[-1])


def test_a_wrong_order_under_order_by_is_a_difference() -> None:
    assert verdict(CORRECT[::-1], f"{QUERY} order by _wstart desc").equal
    wrong = verdict(CORRECT, f"{QUERY} order by _wstart desc").difference
    assert wrong is not None
    assert wrong.columns == ("_wstart",)


def test_a_result_with_another_number_of_columns_is_an_error() -> None:
    with pytest.raises(DataError, match="has 4 columns, the result 3"):
        verdict([row[:3] for row in CORRECT])


def test_open_windows_of_a_stream_may_be_missing_or_stale_but_closed_ones_may_not() -> None:
    open_ = MaintainedTable(watermark=12_000)
    older = (10_000, 1, 5, 1.0)
    assert verdict(CORRECT[:1], maintained=open_).equal
    assert verdict([CORRECT[0], older], maintained=open_).equal
    assert not verdict([CORRECT[0], older], maintained=MaintainedTable(watermark=30_000)).equal
    assert not verdict(CORRECT[1:], maintained=open_).equal
    assert not verdict([(0, 2, 4, 0.375)], maintained=open_).equal


def test_untouched_windows_of_a_stream_without_history_may_be_missing_but_not_wrong() -> None:
    assert verdict(CORRECT[1:], maintained=MaintainedTable(partial=True)).equal
    assert not verdict([(10_000, 2, 13, 1.0)], maintained=MaintainedTable(partial=True)).equal


@pytest.mark.parametrize(
    ("expected", "actual", "comparison", "equal"),
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
        ("[1.000000, 2.5]", "[1.000001, 2.5]", AS_TEXT, True),
        ("[1.000000, 2.5]", "[1.001000, 2.5]", AS_TEXT, False),
        ("slope 1.0", "slop 1.0", AS_TEXT, False),
        ([1.0, 3.0], 2, IN_RANGE, True),
        ([1.0, 3.0], 3.1, IN_RANGE, False),
        ([1.0, 3.0], None, IN_RANGE, False),
        (None, None, IN_RANGE, True),
        (None, 2.0, IN_RANGE, False),
    ],
)
def test_values_are_compared_by_mode(expected: Any, actual: Any, comparison: ComparisonMode, equal: bool) -> None:
    assert values_equal(expected, actual, comparison) is equal


def test_rows_are_paired_although_rounding_changes_their_order() -> None:
    expected = [(1.0, "x"), (1.0 + 1e-12, "y")]
    actual = [(1.0 + 1e-12, "x"), (1.0, "y")]
    assert first_difference(expected, actual, [EXACT, EXACT]) is None
    ranges = [([1.0, 2.0],), ([0.0, 5.0],)]
    assert first_difference(ranges, [(4.5,), (1.5,)], [IN_RANGE]) is None


def test_a_missing_row_is_paired_with_the_most_similar_one() -> None:
    mismatch = first_difference([(1, "a", 2.0), (2, "b", 3.0)], [(2, "b", 4.0), (7, "c", 9.0)], [EXACT] * 3)
    assert mismatch == Mismatch((1, "a", 2.0), (2, "b", 4.0), 0, (0, 1, 2))
    assert first_difference([(2, "b", 3.0)], [(7, "c", 9.0), (2, "b", 4.0)], [EXACT] * 3) == Mismatch(
        (2, "b", 3.0), (2, "b", 4.0), 0, (2,)
    )


def test_an_allowed_missing_or_extra_row_is_not_a_difference() -> None:
    expected, actual = [(1,), (2,)], [(2,), (3,)]
    assert (
        first_difference(expected, actual, [EXACT], allowance=Allowance(lambda position: position == 0, lambda row: row == (3,)))
        is None
    )
    assert first_difference(expected, actual, [EXACT], allowance=Allowance(missing=lambda position: position == 0)) is not None


def test_equal_rows_are_paired_with_those_that_may_not_be_missing_first() -> None:
    expected, allowance = [(1, None), (1, None), (1, 2.0)], Allowance(missing=lambda position: position == 0)
    assert first_difference(expected, [(1, None), (1, 2.0)], [EXACT, EXACT], allowance=allowance) is None
    difference = first_difference(expected, [(1, 2.0)], [EXACT, EXACT], allowance=allowance)
    assert difference == Mismatch((1, None), None, 1)
