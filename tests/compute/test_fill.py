"""FILL, INTERP and series functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import SparkRuntimeException

from headrace.compute import evaluate
from headrace.compute.nodes import string
from headrace.compute.types import double_to_number
from headrace.errors import LimitError
from headrace.model.instants import parse_instant
from headrace.model.tables import TBNAME
from headrace.model.time import Precision
from headrace.model.types import UBIGINT
from tests.compute.samples import METERS, T0, WIDE, answer, frame, meters, plan, scope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def rows(small: SparkSession) -> DataFrame:
    """Return rows of d1 at seconds 1, 3 (a is NULL) and 6, and of d2 at second 2."""
    found = meters(("d1", 1_000, 10, 1), ("d1", 3_000, None, 2), ("d1", 6_000, 40, 3), ("d2", 2_000, 7, 4))
    return frame(small, METERS, found).cache()


STARTS = ("2023-11", "2024-02", "2024-05", "2024-08", "2024-11")
RANGE = f"ts >= {T0} and ts < {T0 + 8_000}"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("none", {1: 10, 3: None, 6: 40}),
        ("null", {0: None, 1: 10, 2: None, 3: None, 4: None, 5: None, 6: 40, 7: None}),
        ("null_f", {0: None, 1: 10, 2: None, 3: None, 4: None, 5: None, 6: 40, 7: None}),
        ("prev", {0: None, 1: 10, 2: 10, 3: 10, 4: 10, 5: 10, 6: 40, 7: 40}),
        ("next", {0: 10, 1: 10, 2: 40, 3: 40, 4: 40, 5: 40, 6: 40, 7: None}),
        ("linear", {0: None, 1: 10, 2: None, 3: None, 4: None, 5: None, 6: 40, 7: None}),
        ("value, 5", {0: 5, 1: 10, 2: 5, 3: 5, 4: 5, 5: 5, 6: 40, 7: 5}),
        ("value_f, 5.9", {0: 5, 1: 10, 2: 5, 3: 5, 4: 5, 5: 5, 6: 40, 7: 5}),
    ],
)
def test_fill_adds_the_windows_of_the_range_without_rows(rows: DataFrame, mode: str, expected: dict[int, int | None]) -> None:
    found = answer(f"select _wstart, sum(a) from d1 where {RANGE} interval(1s) fill({mode})", rows)
    assert found == [(second * 1_000, value) for second, value in expected.items()]


def test_linear_fill_interpolates_and_truncates_to_whole_numbers(rows: DataFrame) -> None:
    found = answer(f"select _wstart, count(*), sum(b) from d1 where {RANGE} interval(1s) fill(linear)", rows)
    assert [row[2] for row in found] == [None, 1, 1, 2, 2, 2, 3, None]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("2.9", 2), ("6917529027641081856", 3 * 2**61), ("9223372036854775808", 2**63), ("18446744073709549568", 2**64 - 2048)],
)
def test_interpolated_values_of_unsigned_integers_keep_all_digits(small: SparkSession, value: str, expected: int) -> None:
    number = double_to_number(string(str(value)).cast("double"), UBIGINT)
    assert small.sql(f"SELECT {number}").collect()[0][0] == expected


def test_without_a_range_only_gaps_between_windows_are_filled(rows: DataFrame) -> None:
    found = answer("select tbname, _wstart, _wend, sum(b), 7 from meters partition by tbname interval(2s) fill(prev)", rows)
    assert found == [
        ("d1", 0, 2_000, 1, 7),
        ("d1", 2_000, 4_000, 2, 7),
        ("d1", 4_000, 6_000, 2, 7),
        ("d1", 6_000, 8_000, 3, 7),
        ("d2", 2_000, 4_000, 4, 7),
    ]


def test_only_forced_modes_add_windows_without_any_rows(rows: DataFrame) -> None:
    empty = f"select _wstart, count(*), sum(a) from d1 where {RANGE} and a > 100 interval(4s)"
    assert answer(f"{empty} fill(null)", rows) == []
    assert answer(f"{empty} fill(null_f)", rows) == [(0, None, None), (4_000, None, None)]
    assert answer(f"{empty} fill(value_f, 1, 2)", rows) == [(0, 1, 2), (4_000, 1, 2)]
    nothing = f"select _wstart, sum(a) from d1 where ts > {T0 + 5_000} and ts < {T0} interval(4s) fill(null_f)"
    assert answer(nothing, rows) == []


def test_values_match_the_columns_that_depend_on_rows(rows: DataFrame) -> None:
    items = "tbname, max(b), _wstart, max(b) - min(b), site"
    sql = f"select {items} from meters where {RANGE} partition by tbname interval(4s) fill(value, 8, 9)"
    assert answer(sql, rows) == [
        ("d1", 2, 0, 1.0, "x"),
        ("d1", 3, 4_000, 0.0, "x"),
        ("d2", 4, 0, 0.0, "y"),
        ("d2", 8, 4_000, 9.0, "y"),
    ]


def test_windows_of_months_and_of_local_days_are_filled_by_the_calendar(small: SparkSession) -> None:
    hour = 3_600_000
    rows = frame(small, METERS, meters(("d1", 0, 1), ("d1", 100 * 24 * hour, 2)))
    months = answer("select _wstart, _wend, sum(a) from d1 interval(1n) fill(null)", rows)
    assert [(row[1] - row[0]) // (24 * hour) for row in months] == [30, 31, 31, 29]
    where = scope(timezone="America/New_York")
    spring = frame(small, METERS, meters(("d1", 115 * 24 * hour, 1), ("d1", 119 * 24 * hour, 2)))
    days = answer("select _wstart, _wduration, sum(a) from d1 interval(1d) fill(prev)", spring, where=where)
    assert [row[1] // hour for row in days] == [24, 24, 23, 24, 24]
    assert [row[2] for row in days] == [1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    "sql",
    [
        "select _wstart, sum(a) from d1 interval(1s) fill(prev)",
        "select _wstart, sum(a) from d1 where ts >= 0 interval(1s) fill(null)",
        "select interp(a) from d1 every(1s) fill(prev)",
        "select interp(a) from d1 range(0, now) every(1s) fill(prev)",
    ],
)
def test_too_many_windows_or_points_in_a_gap_fail_only_the_query(small: SparkSession, sql: str) -> None:
    years = frame(small, METERS, meters(("d1", -T0, 1), ("d1", 0, 2)))
    with pytest.raises(SparkRuntimeException, match=r"would make 1[0-9]{9} (windows|points)") as refused:
        answer(sql, years)
    assert refused.value.getCondition() == "USER_RAISED_EXCEPTION"
    assert answer("select count(*) from d1", years) == [(2,)]


@pytest.mark.parametrize("mode", ["null", "prev", "next", "linear", "value, 7"])
def test_a_null_in_a_single_window_is_filled_only_by_a_constant(small: SparkSession, mode: str) -> None:
    one = frame(small, METERS, meters(("d1", 0, 4), ("d2", 0, None)))
    found = answer(f"select tbname, _wstart, sum(a) from meters partition by tbname interval(1s) fill({mode})", one)
    assert found == [("d1", 0, 4), ("d2", 0, 7 if mode.startswith("value") else None)]


@pytest.mark.parametrize("mode", ["none", "prev", "next", "near", "linear", "null", "value, 7"])
def test_interp_of_no_rows_and_of_one_row(small: SparkSession, mode: str) -> None:
    sql = f"select _irowts, interp(a) from meters range({T0 - 1000}, {T0 + 1000}) every(1s) fill({mode})"
    assert answer(sql, frame(small, METERS, [])) == []
    made = {"none": [0], "prev": [0, 1000], "next": [-1000, 0], "linear": [0]}.get(mode, [-1000, 0, 1000])
    assert [row[0] for row in answer(sql, frame(small, METERS, meters(("d1", 0, 4))))] == made


def test_a_range_of_too_many_windows_is_refused(rows: DataFrame) -> None:
    with pytest.raises(LimitError, match="FILL would make"):
        answer("select _wstart, sum(a) from d1 where ts >= 0 and ts < '2030-01-01' interval(1s) fill(null)", rows)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("none", [(1, 1, False), (3, 2, False), (6, 3, False)]),
        ("prev", [(1, 1, False), (2, 1, True), (3, 2, False), (4, 2, True), (5, 2, True), (6, 3, False), (7, 3, True)]),
        ("next", [(0, 1, True), (1, 1, False), (2, 2, True), (3, 2, False), (4, 3, True), (5, 3, True), (6, 3, False)]),
        ("linear", [(1, 1, False), (2, 1, True), (3, 2, False), (4, 2, True), (5, 2, True), (6, 3, False)]),
        (
            "near",
            [(0, 1, True), (1, 1, False), (2, 1, True), (3, 2, False), (4, 2, True), (5, 3, True), (6, 3, False), (7, 3, True)],
        ),
        (
            "null",
            [
                (0, None, True),
                (1, 1, False),
                (2, None, True),
                (3, 2, False),
                (4, None, True),
                (5, None, True),
                (6, 3, False),
                (7, None, True),
            ],
        ),
        (
            "value, 9",
            [(0, 9, True), (1, 1, False), (2, 9, True), (3, 2, False), (4, 9, True), (5, 9, True), (6, 3, False), (7, 9, True)],
        ),
    ],
)
def test_interp_returns_the_points_that_its_mode_can_compute(rows: DataFrame, mode: str, expected: list[tuple[Any, ...]]) -> None:
    sql = f"select _irowts, interp(b), _isfilled from d1 range({T0}, {T0 + 7_000}) every(1s) fill({mode})"
    assert answer(sql, rows) == [(second * 1_000, *rest) for second, *rest in expected]


def test_interp_uses_null_unless_option_1_skips_it(rows: DataFrame) -> None:
    at = f"range({T0 + 4_000}) fill(prev)"
    assert answer(f"select interp(a) from d1 {at}", rows) == [(None,)]
    assert answer(f"select interp(a, 1), _irowts from d1 {at}", rows) == [(10, 4_000)]


def test_interp_of_partitions_names_each_and_ends_with_the_data_by_default(rows: DataFrame) -> None:
    found = answer("select tbname, site, _irowts, interp(b) * 2 from meters partition by tbname every(2s) fill(prev)", rows)
    assert found == [
        ("d1", "x", 1_000, 2.0),
        ("d1", "x", 3_000, 4.0),
        ("d1", "x", 5_000, 4.0),
        ("d2", "y", 3_000, 8.0),
        ("d2", "y", 5_000, 8.0),
    ]


def test_linear_fill_of_unsigned_numbers_is_truncated(small: SparkSession) -> None:
    rows = frame(small, WIDE, [{"ts": T0, "u64": 1, "u8": 1}, {"ts": T0 + 3_000, "u64": 2, "u8": 2}])
    found = answer("select _wstart, max(u64), max(u8) from wide interval(1s) fill(linear)", rows)
    assert found == [(0, 1, 1), (1_000, 1, 1), (2_000, 1, 1), (3_000, 2, 2)]
    points = answer(f"select interp(u64), interp(u8) from wide range({T0}, {T0 + 2_000}) every(1s) fill(linear)", rows)
    assert points == [(1, 1)] * 3


def test_months_of_a_zone_are_filled_in_a_database_of_nanoseconds(small: SparkSession) -> None:
    """Calendar expressions are columns: nested in one another they took megabytes, and all of the driver's memory."""
    place = scope(timezone="America/New_York", precision=Precision.NANOSECOND)
    found = [{TBNAME: "d1", "ts": at * 10**9, "a": number} for number, at in enumerate((1_704_200_000, 1_725_300_000))]
    rows = frame(small, METERS, found, precision=Precision.NANOSECOND)
    sql = "select _wstart, sum(a) from d1 where ts >= '2023-11-15' and ts < '2025-01-01' interval(3n, 1n) fill(prev)"
    starts = [parse_instant(f"{day}-01", "America/New_York", Precision.NANOSECOND) for day in STARTS]
    assert [tuple(row) for row in evaluate(plan(sql, where=place), rows).collect()] == list(
        zip(starts, [0, 0, 0, 1, 1], strict=True)
    )


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("diff(a)", [(1, -4), (2, None), (3, 6), (4, 0), (5, 3)]),
        ("diff(a, 1)", [(2, None), (3, 6), (4, 0), (5, 3)]),
        ("diff(a, 2)", [(1, -4), (3, 6), (4, 0), (5, 3)]),
        ("diff(d)", [(n, None) for n in range(1, 6)]),
        ("derivative(a, 2s, 0)", [(1, -8.0), (3, 6.0), (4, 0.0), (5, 6.0)]),
        ("derivative(a, 1s, 1)", [(3, 3.0), (4, 0.0), (5, 3.0)]),
        ("csum(a)", [(0, 5), (1, 6), (3, 13), (4, 20), (5, 30)]),
        ("mavg(a, 3)", [(3, 13 / 3), (4, 5.0), (5, 8.0)]),
        ("statecount(a, 'ge', 5)", [(0, 1), (1, -1), (2, None), (3, 1), (4, 2), (5, 3)]),
        ("stateduration(a, 'GE', 5, 1s)", [(0, 0), (1, -1), (2, None), (3, 0), (4, 1), (5, 2)]),
        ("top(a, 2)", [(3, 7), (5, 10)]),
        ("bottom(a, 2)", [(0, 5), (1, 1)]),
        ("tail(a, 2)", [(5, 10), (4, 7)]),
        ("tail(a, 2, 3)", [(2, None), (1, 1)]),
        ("unique(a)", [(0, 5), (1, 1), (2, None), (3, 7), (5, 10)]),
    ],
)
def test_series_functions_return_a_value_for_each_row_that_has_one(
    small: SparkSession, call: str, expected: list[tuple[int, Any]]
) -> None:
    values = [5, 1, None, 7, 7, 10]
    rows = frame(small, METERS, meters(*(("d1", n * 1_000, value) for n, value in enumerate(values))))
    assert answer(f"select ts, {call} from d1", rows) == [(n * 1_000, value) for n, value in expected]


def test_sums_and_differences_are_null_only_out_of_the_range_of_bigint(small: SparkSession) -> None:
    most = 2**63 - 1
    rows = frame(small, METERS, meters(*(("d1", n * 1_000, 0, value) for n, value in enumerate([most, 2, -5, -most]))))
    assert answer("select ts, csum(b) from d1", rows) == [(0, most), (1_000, None), (2_000, most - 3), (3_000, -3)]
    assert answer("select ts, diff(b) from d1", rows) == [(1_000, 2 - most), (2_000, -7), (3_000, 5 - most)]
    far = frame(small, METERS, meters(("d1", 0, 0, -most), ("d1", 1_000, 0, most)))
    assert answer("select diff(b) from d1", far) == [(None,)]


def test_series_functions_work_by_partition_and_inside_expressions(rows: DataFrame) -> None:
    assert answer("select tbname, diff(b) * 10 + b from meters partition by tbname", rows) == [("d1", 12.0), ("d1", 13.0)]
    assert answer("select tbname, ts, top(b, 1) from meters partition by tbname", rows) == [("d1", 6_000, 3), ("d2", 2_000, 4)]
    sampled = answer("select sample(b, 2) from meters", rows)
    assert len(sampled) == 2
    assert sampled == answer("select sample(b, 2) from meters", rows)
    assert answer("select count(*) from (select diff(b) from d1)", rows) == [(2,)]
