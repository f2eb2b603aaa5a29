"""Every kind of window over random rows equals its definition, evaluated at once and step by step."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.compute import Plan, evaluate, finish, merge, prepare, to_segments
from tests.compute import oracle
from tests.compute.oracle import Row, Window
from tests.compute.samples import METERS, T0, answer, collect_rows, frame, meters, select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SELECTED = "select tbname, _wstart, _wend, count(*), sum(a), first(a), last(a) from meters partition by tbname"
WINDOWS = {
    "interval(10s)": oracle.interval(10_000, 10_000),
    "interval(10s, 3s)": oracle.interval(10_000, 10_000, 3_000),
    "interval(20s) sliding(5s)": oracle.interval(20_000, 5_000),
    "interval(20s, 2s) sliding(6s)": oracle.interval(20_000, 6_000, 2_000),
    "session(ts, 4s)": oracle.session(4_000),
    "state_window(a)": oracle.state,
    "event_window start with a > 2 end with a < 2": oracle.event(lambda a: a > 2, lambda a: a < 2),
    "event_window start with a > 0 end with a > 2": oracle.event(lambda a: a > 0, lambda a: a > 2),
    "count_window(3)": oracle.count(3, 3),
    "count_window(5, 2)": oracle.count(5, 2),
    "count_window(4, 1)": oracle.count(4, 1),
}
ANY_ORDER = [window for window in WINDOWS if window.startswith(("interval", "session"))]


def rows_of(seed: int, subtables: int = 12) -> list[Row]:
    """Return rows of several subtables, some with one row or none, some values NULL, with unique instants in each."""
    dice = random.Random(seed)
    found = []
    for number in range(subtables):
        instants = dice.sample(range(0, 120_000, 500), dice.choice([0, 1, 2, 10, 40]))
        found += [Row(f"t{number}", T0 + at, dice.choice([None, 0, 1, 2, 3, 3])) for at in instants]
    return dice.sample(found, len(found))


def windows_of(found: list[tuple[Any, ...]]) -> list[Window]:
    return sorted(Window(tbname, start + T0, end + T0, *values) for tbname, start, end, *values in found)


@pytest.mark.parametrize("window", WINDOWS)
def test_a_window_over_random_rows_is_what_its_definition_says(small: SparkSession, window: str) -> None:
    rows = rows_of(len(window))
    found = answer(f"{SELECTED} {window}", frame(small, METERS, oracle.to_dicts(rows)))
    assert windows_of(found) == sorted(oracle.windows(rows, WINDOWS[window]))


def evaluate_in_batches(plan: Plan, batches: list[DataFrame], *, by_row: bool) -> list[Window]:
    """Return windows after consecutive batches, each merged with the carried segments. A final merge changes nothing."""
    carried = None
    for batch in batches:
        found = to_segments(plan, prepare(plan, batch), by_row=by_row)
        carried = merge(plan, found if carried is None else carried.unionByName(found).coalesce(1))
    assert carried is not None
    finished = finish(plan, merge(plan, carried)).select([output.column for output in plan.outputs])
    return windows_of(collect_rows(finished))


cuts = st.tuples(st.integers(0, 10_000), st.integers(2, 3), st.booleans())


@pytest.mark.parametrize("window", ANY_ORDER)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(cut=cuts)
def test_any_split_of_the_rows_in_any_order_merges_to_the_same_windows(
    small: SparkSession, window: str, cut: tuple[int, int, bool]
) -> None:
    seed, count, by_row = cut
    rows, dice = rows_of(seed, subtables=30), random.Random(seed)
    parts: list[list[Row]] = [[] for _ in range(count)]
    for row in rows:
        dice.choice(parts).append(row)
    batches = [frame(small, METERS, oracle.to_dicts(part)) for part in parts]
    assert evaluate_in_batches(select(f"{SELECTED} {window}"), batches, by_row=by_row) == sorted(
        oracle.windows(rows, WINDOWS[window])
    )


@pytest.mark.parametrize("window", [window for window in WINDOWS if window not in ANY_ORDER])
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(cut=cuts)
def test_ordered_rows_split_anywhere_merge_to_the_same_windows(
    small: SparkSession, window: str, cut: tuple[int, int, bool]
) -> None:
    seed, count, _ = cut
    rows, dice = sorted(rows_of(seed, subtables=30), key=lambda row: row.ts), random.Random(seed)
    places = sorted(dice.sample(range(len(rows) + 1), count - 1))
    parts = [rows[begin:end] for begin, end in zip([0, *places], [*places, len(rows)], strict=True)]
    batches = [frame(small, METERS, oracle.to_dicts(part)) for part in parts]
    assert evaluate_in_batches(select(f"{SELECTED} {window}"), batches, by_row=True) == sorted(
        oracle.windows(rows, WINDOWS[window])
    )


FACTS = meters(
    *(
        ("d1", at, a)
        for at, a in ((11_000, 1), (12_000, 2), (13_000, 9), (14_000, 1), (15_000, None), (16_000, 1), (26_000, 3), (36_001, 3))
    )
)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("event_window start with a = 1 end with a = 9", [(11_000, 13_000, 3, 12)]),
        (
            "state_window(a)",
            [
                (11_000, 11_000, 1, 1),
                (12_000, 12_000, 1, 2),
                (13_000, 13_000, 1, 9),
                (14_000, 16_000, 2, 2),
                (26_000, 36_001, 2, 6),
            ],
        ),
        ("state_window(a) true_for(2s)", [(14_000, 16_000, 2, 2), (26_000, 36_001, 2, 6)]),
        ("event_window start with a = 1 end with a = 9 true_for(2001a)", []),
        ("count_window(3)", [(11_000, 13_000, 3, 12), (14_000, 16_000, 3, 2), (26_000, 36_001, 2, 6)]),
        ("count_window(4,2)", [(11_000, 14_000, 4, 13), (13_000, 16_000, 4, 11), (15_000, 36_001, 4, 7), (26_000, 36_001, 2, 6)]),
        ("session(ts, 10s)", [(11_000, 26_000, 7, 17), (36_001, 36_001, 1, 3)]),
        ("interval(10s, 2s)", [(2_000, 12_000, 1, 1), (12_000, 22_000, 5, 13), (22_000, 32_000, 1, 3), (32_000, 42_000, 1, 3)]),
    ],
)
def test_the_edges_of_windows_are_where_the_language_puts_them(
    small: SparkSession, window: str, expected: list[tuple[int, ...]]
) -> None:
    rows = frame(small, METERS, FACTS)
    assert answer(f"select _wstart, _wend, count(*), sum(a) from d1 {window}", rows) == expected


def test_the_end_of_a_session_in_a_stream_is_the_gap_after_its_last_row(small: SparkSession) -> None:
    plan = select("select _wend, _wduration, count(*) from d1 session(ts, 10s)", stream=True)
    assert collect_rows(evaluate(plan, frame(small, METERS, FACTS))) == [(36_000, 25_000, 7), (46_001, 10_000, 1)]


def test_aggregates_of_a_state_window_skip_rows_without_a_state(small: SparkSession) -> None:
    rows = meters(
        ("d1", 11, 1, 1), ("d1", 12, None, 10), ("d1", 13, 1, 100), ("d1", 14, 2, 1000), ("d1", 15, None, 1), ("d1", 17, 2, 10**6)
    )
    found = answer("select a, _wstart, _wend, count(*), sum(b), last(b) from d1 state_window(a)", frame(small, METERS, rows))
    assert found == [(1, 11, 13, 2, 101, 100), (2, 14, 17, 2, 1_001_000, 10**6)]


def test_rows_of_several_subtables_share_a_window_without_partition(small: SparkSession) -> None:
    rows = meters(("d1", 0, 1), ("d2", 0, 2), ("d1", 5_000, 3), ("d2", 20_000, 4))
    found = answer("select _wstart, count(*), first(a), last(a) from meters session(ts, 5s)", frame(small, METERS, rows))
    assert found == [(0, 3, 1, 3), (20_000, 1, 4, 4)]


@pytest.mark.parametrize("window", WINDOWS)
def test_one_row_is_in_every_window_that_it_opens_and_a_row_of_nulls_has_no_state_and_is_no_event(
    small: SparkSession, window: str
) -> None:
    for value in (1, None):
        rows = [Row("t1", T0, value)]
        found = answer(f"{SELECTED} {window}", frame(small, METERS, oracle.to_dicts(rows)))
        assert windows_of(found) == sorted(oracle.windows(rows, WINDOWS[window]))


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("interval(1s)", [(0, 3, 1, 3), (7_000, 2, 4, 5)]),
        ("session(ts, 1s)", [(0, 3, 1, 3), (7_000, 2, 4, 5)]),
        ("state_window(e)", [(0, 1, 1, 1), (0, 1, 2, 2), (0, 2, 3, 4), (7_000, 1, 5, 5)]),
        ("event_window start with a = 2 end with a = 4", [(0, 3, 2, 4)]),
        ("count_window(2)", [(0, 2, 1, 2), (0, 2, 3, 4), (7_000, 1, 5, 5)]),
        ("count_window(2, 1)", [(0, 2, 1, 2), (0, 2, 2, 3), (0, 2, 3, 4), (7_000, 2, 4, 5), (7_000, 1, 5, 5)]),
    ],
)
def test_rows_of_one_instant_come_in_the_order_of_their_subtables(
    small: SparkSession, window: str, expected: list[tuple[int, ...]]
) -> None:
    places = [("d1", 0, 1, True), ("d2", 0, 2, False), ("d3", 0, 3, True), ("d1", 7_000, 4, True), ("d2", 7_000, 5, False)]
    rows = [{"tbname": name, "ts": T0 + at, "a": a, "e": e} for name, at, a, e in random.Random(1).sample(places, len(places))]
    found = answer(f"select _wstart, count(*), first(a), last(a) from meters {window}", frame(small, METERS, rows))
    assert found == expected


@pytest.mark.parametrize("window", ["session(ts, 1s)", "state_window(a)", "count_window(2)", "interval(1000y)", "interval(1d)"])
def test_long_gaps_between_rows_are_cheap(small: SparkSession, window: str) -> None:
    rows = frame(small, METERS, meters(("d1", -T0, 1), ("d1", 0, 1)))
    total = {"interval(1000y)": 1, "state_window(a)": 1, "count_window(2)": 1}.get(window, 2)
    assert len(answer(f"select _wstart, count(*) from d1 {window}", rows)) == total


@pytest.mark.parametrize("window", WINDOWS)
def test_ten_thousand_subtables_have_windows_of_their_own(small: SparkSession, window: str) -> None:
    rows = [Row(f"t{number}", T0 + number % 7 * 1_000 + at, at % 4) for number in range(10_000) for at in (0, 3_001)]
    found = answer(f"{SELECTED} {window}", frame(small, METERS, oracle.to_dicts(rows)))
    assert windows_of(found) == sorted(oracle.windows(rows, WINDOWS[window]))


def test_no_rows_give_no_windows(small: SparkSession) -> None:
    rows = frame(small, METERS, [])
    for window in WINDOWS:
        assert answer(f"{SELECTED} {window}", rows) == []


@pytest.mark.parametrize("window", ["interval(10s)", "interval(20s) sliding(5s)", "session(ts, 4s)", "state_window(a)"])
def test_keys_derived_from_the_subtable_split_no_group_and_have_values(small: SparkSession, window: str) -> None:
    rows = rows_of(7)
    text = f"select tbname, _wstart, _wend, count(*), sum(a), first(a), last(a), u from meters {{}} {window}"
    found = answer(text.format("partition by tbname, concat('<', upper(tbname)) u"), frame(small, METERS, oracle.to_dicts(rows)))
    assert all(row[-1] == f"<{row[0].upper()}" for row in found)
    assert windows_of([row[:-1] for row in found]) == sorted(oracle.windows(rows, WINDOWS[window]))
