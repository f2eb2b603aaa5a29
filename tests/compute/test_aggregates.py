"""Aggregates equal their definition, however the rows are split into segments."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from headrace.compute import finish, merge, prepare, to_segments
from headrace.compute.functions.aggregates import AggregateFunction, StreamUse
from headrace.compute.tdengine import TDENGINE
from headrace.model.tables import TBNAME
from tests.compute.samples import METERS, T0, WIDE, answer, collect_rows, frame, meters, select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def percentile(values: list[float], share: float) -> float:
    place = share * (len(values) - 1)
    low, high = sorted(values)[math.floor(place)], sorted(values)[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def value_at_rank(values: list[float], share: float) -> float:
    """Return the value at rank p·n, counted from 1, interpolated between two ranks."""
    ordered, place = sorted(values), share * len(values)
    low = ordered[max(math.floor(place), 1) - 1]
    high = ordered[min(max(math.floor(place) + 1, 1), len(values)) - 1]
    return low + (high - low) * (place - math.floor(place))


def time_weighted(points: list[tuple[int, float]]) -> float:
    if len(points) == 1:
        return points[0][1]
    area = sum((v + w) / 2 * (u - t) for (t, v), (u, w) in pairwise(points))
    return area / (points[-1][0] - points[0][0])


def rate(points: list[tuple[int, float]]) -> float | None:
    if len(points) < 2:
        return None
    (t, v), (u, w) = points[-2:]
    return (w - v if w >= v else w) / ((u - t) / 1000)


def increase(points: list[tuple[int, float]]) -> float:
    return math.fsum(w - v if w >= v else w for (_, v), (_, w) in pairwise(points))


def mean_rate(points: list[tuple[int, float]]) -> float | None:
    return increase(points) / ((points[-1][0] - points[0][0]) / 1000) if len(points) > 1 else None


def line(points: Sequence[tuple[int, float]]) -> str:
    slope, intercept = statistics.linear_regression([1 + 2 * n for n, _ in enumerate(points)], [v for _, v in points])
    return f"{{slop:{slope:.6f}, intercept:{intercept:.6f}}}"


Rule = Callable[[list[dict[str, Any]], list[tuple[int, float]]], Any]
CALLS: dict[str, Rule] = {
    "count(*)": lambda rows, _: len(rows),
    "count(d)": lambda _, points: len(points),
    "sum(d)": lambda _, points: math.fsum(v for _, v in points),
    "avg(d)": lambda _, points: statistics.fmean(v for _, v in points),
    "min(d)": lambda _, points: min(v for _, v in points),
    "max(d)": lambda _, points: max(v for _, v in points),
    "spread(d)": lambda _, points: max(v for _, v in points) - min(v for _, v in points),
    "first(d)": lambda _, points: points[0][1],
    "last(d)": lambda _, points: points[-1][1],
    "last_row(d)": lambda rows, _: rows[-1]["d"],
    "_group_key(d)": lambda rows, _: rows[0]["d"],
    "stddev(d)": lambda _, points: statistics.pstdev([v for _, v in points]),
    "stddev_samp(d)": lambda _, points: statistics.stdev([v for _, v in points]) if len(points) > 1 else None,
    "variance(d)": lambda _, points: statistics.pvariance([v for _, v in points]),
    "var_samp(d)": lambda _, points: statistics.variance([v for _, v in points]) if len(points) > 1 else None,
    "hyperloglog(d)": lambda _, points: len({v for _, v in points}),
    "apercentile(d, 30)": lambda _, points: value_at_rank([v for _, v in points], 0.3),
    "percentile(d, 30)": lambda _, points: percentile([v for _, v in points], 0.3),
    "mode(d)": lambda _, points: min(statistics.multimode([v for _, v in points])),
    "twa(d)": lambda _, points: time_weighted(points),
    "irate(d)": lambda _, points: rate(points),
    "increase(d)": lambda _, points: increase(points),
    "rate(d)": lambda _, points: mean_rate(points),
    "elapsed(ts, 1s)": lambda rows, _: (rows[-1]["ts"] - rows[0]["ts"]) / 1000,
    "max(d) + min(d) * 2": lambda _, points: max(v for _, v in points) + min(v for _, v in points) * 2,
}


def readings(seed: int) -> list[dict[str, Any]]:
    """Return groups of 1 to 60 rows in random order, a fifth of the values NULL, with means far from 0 to expose cancellation."""
    dice, found = random.Random(seed), []
    for number in range(8):
        base = dice.choice([0.0, 1e9])
        for at in dice.sample(range(0, 100_000, 10), dice.choice([1, 2, 7, 60])):
            value = None if dice.random() < 0.2 else base + dice.randrange(40) / 4
            found.append({TBNAME: f"t{number}", "ts": T0 + at, "d": value})
        found.append({TBNAME: f"t{number}", "ts": T0 + 100_000, "d": base})
    return dice.sample(found, len(found))


def expected(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["ts"]):
        groups.setdefault(row[TBNAME], []).append(row)
    points = {name: [(row["ts"], row["d"]) for row in group if row["d"] is not None] for name, group in groups.items()}
    return [(name, *(rule(groups[name], points[name]) for rule in CALLS.values())) for name in sorted(groups)]


def assert_same(found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]]) -> None:
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        for call, one, other in zip(["tbname", *CALLS], got, want, strict=True):
            near = isinstance(one, float) and other is not None and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
            assert near or one == other, f"{call} of {want[0]} is {one}, not {other}"


QUERY = f"select tbname, {', '.join(CALLS)} from meters partition by tbname"


def test_aggregates_of_random_groups_are_what_their_definition_says(small: SparkSession) -> None:
    rows = readings(1)
    assert_same(answer(QUERY, frame(small, METERS, rows)), expected(rows))


@pytest.mark.parametrize("by_row", [True, False])
def test_aggregates_do_not_depend_on_how_rows_were_cut_into_segments(small: SparkSession, by_row: bool) -> None:
    rows, plan = readings(2), select(QUERY)
    parts = [rows[number::3] for number in range(3)]
    found = [to_segments(plan, prepare(plan, frame(small, METERS, part)), by_row=by_row) for part in parts]
    both = merge(plan, found[0].unionByName(found[1]).coalesce(1))
    merged = merge(plan, both.unionByName(found[2]).coalesce(1))
    finished = finish(plan, merged).orderBy("p0").select([output.column for output in plan.outputs])
    assert_same(collect_rows(finished), expected(rows))


def test_only_a_few_functions_make_a_stream_keep_the_rows_of_a_window() -> None:
    uses = (StreamUse.ANY, StreamUse.ONE_SERIES)
    functions = TDENGINE.functions_of_type(AggregateFunction)
    keeping = sorted(function.name for function in functions if function.streams in uses and not function.bounded)
    assert keeping == ["increase", "irate", "leastsquares", "mode", "percentile", "rate"]


def test_only_null_values_give_null_and_a_count_of_0(small: SparkSession) -> None:
    rows = frame(small, METERS, meters(("d1", 0), ("d1", 1)))
    calls = ", ".join(call for call in CALLS if call not in ("count(*)", "elapsed(ts, 1s)"))
    assert set(answer(f"select {calls} from d1", rows)[0]) == {None, 0}


def test_no_rows_give_a_row_only_if_something_is_counted(small: SparkSession) -> None:
    rows = frame(small, METERS, [])
    assert answer("select sum(a), max(a) from meters", rows) == []
    assert answer("select sum(a), count(a) from meters", rows) == [(None, 0)]
    assert answer("select count(*) from meters group by a", rows) == []


def test_sums_are_exact_within_bigint_and_null_beyond(small: SparkSession) -> None:
    most = 2**63 - 1
    rows = meters(("d1", 0, None, most), ("d1", 1, None, 1), ("d2", 0, None, most), ("d2", 1, None, -1), ("d2", 2, None, 1))
    assert answer("select tbname, sum(b) from meters partition by tbname", frame(small, METERS, rows)) == [
        ("d1", None),
        ("d2", most),
    ]


def test_integers_sum_to_bigint_and_unsigned_ones_to_unsigned(small: SparkSession) -> None:
    rows = [{"ts": T0 + n, "u8": 255, "u64": 2**63, "m": 7, "at": T0 - n} for n in range(2)]
    found = answer("select sum(u8), sum(u64), max(u64), sum(m), spread(at), first(at) from wide", frame(small, WIDE, rows))
    assert found == [(510, None, 2**63, 14, 1.0, 0)]


def test_plain_columns_come_from_the_row_of_the_selection_function(small: SparkSession) -> None:
    rows = meters(("d1", 0, 1, 10, None, None, None, "p"), ("d2", 1_000, 7, 20, None, None, None, "q"), ("d1", 2_000, 7, 30))
    found = frame(small, METERS, rows)
    assert answer("select max(a), ts, tbname, b, s from meters", found) == [(7, 1_000, "d2", 20, "q")]
    assert answer("select min(a), b from meters partition by site", found) == [(1, 10), (7, 20)]
    assert answer("select last(s), b, ts from meters", found) == [("q", 20, 1_000)]
    assert answer("select last_row(s), b from meters", found) == [(None, 30)]


def test_ties_in_time_are_broken_by_subtable(small: SparkSession) -> None:
    rows = meters(("d2", 0, 2), ("d1", 0, 1))
    for order in (rows, rows[::-1]):
        found = frame(small, METERS, order)
        assert answer("select first(a), last(a) from meters", found) == [(1, 2)]


def test_estimates_of_many_values_are_close(small: SparkSession) -> None:
    numbers = random.Random(3).sample(range(20_000), 20_000)
    rows = [{TBNAME: "d1", "ts": T0 + at, "d": float(value)} for at, value in enumerate(numbers)]
    distinct, median = answer("select hyperloglog(d), apercentile(d, 50) from d1", frame(small, METERS, rows))[0]
    assert distinct == pytest.approx(20_000, rel=0.03)
    assert median == pytest.approx(10_000, rel=0.03)


def test_a_line_is_fitted_and_a_histogram_has_a_row_for_each_bin(small: SparkSession) -> None:
    rows = frame(small, METERS, meters(*(("d1", at, a) for at, a in enumerate([1, 3, 5, None, 8]))))
    points = [(at, a) for at, a in enumerate([1, 3, 5, 8])]
    assert answer("select leastsquares(a, 1, 2) from d1", rows) == [(line(points),)]
    bins = answer(
        """select histogram(a, 'linear_bin', '{"start": 1, "width": 3, "count": 2, "infinity": true}', 0) from d1""", rows
    )
    assert [row[0] for row in bins] == [
        '{"lower_bin":-inf, "upper_bin":1, "count":1}',
        '{"lower_bin":1, "upper_bin":4, "count":1}',
        '{"lower_bin":4, "upper_bin":7, "count":1}',
        '{"lower_bin":7, "upper_bin":inf, "count":1}',
    ]
    assert answer("select histogram(a, 'user_input', '[0, 4]', 1) from d1", rows) == [
        ('{"lower_bin":0, "upper_bin":4, "count":0.500000}',)
    ]
    assert answer("select percentile(a, 0, 100) from d1", rows) == [("[1.000000, 8.000000]",)]


def test_numbers_in_texts_are_written_as_c_does(small: SparkSession) -> None:
    def values(*numbers: float) -> DataFrame:
        return frame(small, METERS, meters(*(("d1", at, None, None, None, number) for at, number in enumerate(numbers))))

    assert answer("select percentile(d, 0, 100) from d1", values(0.0078125, 1e12 + 0.1)) == [("[0.007812, 1000000000000.099976]",)]
    line = "{slop:2.0000000000000000e+20, intercept:-1.0000000000000000e+20}"
    assert answer("select leastsquares(d, 1, 1) from d1", values(1e20, 3e20)) == [(line,)]
    assert answer("select leastsquares(d, 1, 1) from d1", values(-1.7e308, 5e-324, 0.1)) == [("{slop:inf, intercept:-inf}",)]


def test_time_weighted_mean_extends_to_interval_borders_with_rows_beyond(small: SparkSession) -> None:
    points = [(1_000, 0.0), (4_000, 30.0), (12_000, 110.0), (12_500, None), (13_000, 100.0), (26_000, 100.0)]
    rows = frame(small, METERS, meters(*(("d1", at, None, None, None, value) for at, value in points)))
    found = answer("select _wstart, elapsed(ts, 1s), twa(d) from d1 interval(10s)", rows)
    assert [row[:2] for row in found] == [(0, 9.0), (10_000, 10.0), (20_000, 6.0)]
    # The line runs through (1, 0), (12, 110), (13, 100) and on at 100; a window ends a tick before the next one.
    area = (90 + 110) / 2 * 2_000 + (110 + 100) / 2 * 1_000 + 100 * 6_999
    assert found[0][2] == pytest.approx(89.99 / 2, rel=1e-6)
    assert found[1][2] == pytest.approx(area / 9_999, rel=1e-6)
    assert found[2][2] == pytest.approx(100)
    (alone,) = answer("select elapsed(ts, 1s), twa(d) from d1 where ts < 1700000003000 interval(10s)", rows)
    assert alone == (0.0, 0.0)


def test_a_sample_of_no_values_has_no_deviation_and_no_line_goes_through_one_point(spark: SparkSession) -> None:
    rows = frame(spark, METERS, meters(("d1", 0, 1, 2), ("d1", 1000, None, 3)))
    asked = "select stddev_samp(a), var_samp(c), leastsquares(a, 1, 2) from d1"
    assert answer(asked, rows) == [(None, None, None)]
