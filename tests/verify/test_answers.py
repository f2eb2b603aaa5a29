"""DuckDB's results alone, compared with rows worked out by hand."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from headrace.errors import NotSupportedError
from tests.verify.comparing import rows_equal
from tests.verify.tables import query_rows, small_table

FIXTURES = Path(__file__).parent / "fixtures"
POINTS = ((11, 1), (12, 2), (13, 9), (14, 1), (15, None), (16, 1), (26, 3), (36.001, 3))
BERLIN = 1_711_753_200_000
"""2024-03-30 00:00 in Berlin; the clock goes forward in the following night."""
HOUR = 3_600_000


def pairs(name: str) -> list[tuple[str, str]]:
    lines = [line for line in (FIXTURES / name).read_text().splitlines() if line and not line.startswith("#")]
    return [(query, expected) for query, _, expected in (line.rpartition(" -- ") for line in lines)]


@pytest.mark.parametrize(("sql", "expected"), [*pairs("windows.sql"), *pairs("functions.sql")])
def test_a_query_has_the_rows_worked_out_by_hand(sql: str, expected: str) -> None:
    rows = small_table(
        *(("d1", seconds, a, None if a is None else a * 1.5, None if a is None else str(a)) for seconds, a in POINTS)
    )
    actual = query_rows(sql, rows)
    assert rows_equal(ast.literal_eval(expected), actual), actual


def test_days_are_those_of_the_wall_clock() -> None:
    rows = small_table(
        *(("d1", BERLIN / 1000 + hours * 3_600, a) for hours, a in ((0, 1), (24, 2), (47, 3))), timezone="Europe/Berlin"
    )
    windows = query_rows("select _wstart, _wend, sum(a) from d1 interval(1d)", rows)
    assert windows == [
        (BERLIN, BERLIN + 24 * HOUR, 1),
        (BERLIN + 24 * HOUR, BERLIN + 47 * HOUR, 2),
        (BERLIN + 47 * HOUR, BERLIN + 71 * HOUR, 3),
    ]
    slid = query_rows("select _wstart, count(*) from d1 interval(2d) sliding(1d)", rows)
    assert slid == [(BERLIN - 24 * HOUR, 1), (BERLIN, 2), (BERLIN + 24 * HOUR, 2), (BERLIN + 47 * HOUR, 1)]


def test_a_start_that_the_clock_skips_moves_later() -> None:
    """02:30 is 03:30 that night, so rows before it belong to the previous day."""
    night = BERLIN / 1000 + 86_400 + 2 * 3_600
    rows = small_table(("d1", night + 60, 1), ("d1", night + 1_800, 2), timezone="Europe/Berlin")
    windows = query_rows("select _wstart, sum(a) from d1 interval(1d, 150m)", rows)
    assert windows == [(BERLIN + 5 * HOUR // 2, 1), (BERLIN + 53 * HOUR // 2, 2)]


def test_a_midnight_that_a_clock_repeats_begins_a_day_once() -> None:
    """The clock shows 00:00 at `night`, and is put back to 23:01 a minute later."""
    night, day = 1_162_090_800, 86_400
    rows = small_table(("d1", night - 1_800, 1), ("d1", night + 1_800, 2), ("d1", night + 7_200, 3), timezone="America/Moncton")
    windows = query_rows("select _wstart, _wend, sum(a) from d1 interval(1d)", rows)
    edges = [1_000 * second for second in (night - day, night, night + day + 3_600)]
    assert windows == [(edges[0], edges[1], 1), (edges[1], edges[2], 5)]


def test_a_day_that_a_clock_skips_is_filled_once() -> None:
    day, skipped = 86_400, 1_325_239_200
    rows = small_table(("d1", skipped - day, 1), ("d1", skipped + day + 60, 2), timezone="Pacific/Apia")
    windows = query_rows("select _wstart, _wend, sum(a) from d1 interval(1d) fill(prev)", rows)
    starts = [1_000 * (skipped + number * day) for number in range(-1, 3)]
    assert windows == list(zip(starts[:-1], starts[1:], (1, 1, 2), strict=True))


def test_windows_are_filled_on_the_grid_of_the_wall_clock() -> None:
    night = BERLIN / 1000 + 86_400 + 2 * 3_600
    rows = small_table(("d1", night + 1_800, 1), ("d1", night + 3 * 86_400, 2), timezone="Europe/Berlin")
    windows = query_rows("select _wstart, _wend, sum(a) from d1 interval(1d, 150m) fill(prev)", rows)
    starts = [BERLIN + hours * HOUR // 2 for hours in (53, 99, 147, 195, 243)]
    assert windows == list(zip(starts[:-1], starts[1:], (1, 1, 1, 2), strict=True))


def test_rows_of_one_instant_are_ordered_by_their_subtable() -> None:
    rows = small_table(("d2", 1, 20), ("d1", 1, 10), ("d1", 2, None), ("d2", 3, 30))
    assert query_rows("select first(a), last(a), count(*) from small count_window(2)", rows) == [(10, 20, 2), (30, 30, 2)]
    assert query_rows("select tbname, _wstart, sum(a) from small partition by tbname interval(2s)", rows) == [
        ("d1", 0, 10),
        ("d1", 2000, None),
        ("d2", 0, 20),
        ("d2", 2000, 30),
    ]


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("select now() from d1", "the current time"),
        ("select histogram(a, 'user_input', '[1,2]', 0) from d1", "the aggregate histogram"),
        ("select twa(a) from small", "twa over rows that may have the same instant"),
        ("select apercentile(a, 50) + 1 from d1", "an estimate inside an expression"),
        ("select sample(a, 2) from d1", "the function sample"),
        ("select to_char(ts, 'yyyy') from d1", "the function to_char"),
        ("select diff(a), csum(a) from d1", "more than one function of adjacent rows"),
        ("select rand() from d1", "the function rand"),
    ],
)
def test_an_unsupported_feature_is_refused_by_name(sql: str, named: str) -> None:
    with pytest.raises(NotSupportedError, match="verify does not support") as error:
        query_rows(sql, small_table(("d1", 1, 1)))
    assert named in error.value.message
