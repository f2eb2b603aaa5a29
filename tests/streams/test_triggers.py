"""When results come, for each trigger: by event time, by the clock, or by both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.model.failpoints import FailpointError, armed
from headrace.model.jobs import DesiredState, JobState
from headrace.streams import lifecycle
from headrace.streams.runner import state_store
from tests.streams.effort import drawn
from tests.streams.environment import MICRO_BATCH_FAILPOINTS, START, StreamEnvironment

if TYPE_CHECKING:
    from headrace.streams.definition.define import StreamPlan

pytestmark = pytest.mark.spark

DELAYED = "create stream s trigger max_delay 5s {} into out as select _wstart, count(*) n, sum(a) total from readings {}"
CLOSING = (
    "create stream s trigger continuous_window_close recalculate 600s {} into out as "
    "select _wstart, count(*) n, sum(a) total from readings {}"
)
FORCED = "create stream s trigger force_window_close {} into out as select _wstart, count(*) n, sum(a) total from readings {}"
BY_TABLE = "partition by tbname interval(10s)"


def rows(env: StreamEnvironment, plan: StreamPlan, width: int = 3) -> list[tuple[object, ...]]:
    return [row[:width] for row in env.results(plan)]


def wait(env: StreamEnvironment, ms: int) -> None:
    env.clock.advance(ms)
    env.settle()


def put(env: StreamEnvironment, *points: tuple[int, int], subtable: str = "d0") -> None:
    """Write rows of `(ms, a)` and let the streams handle them."""
    env.insert([(subtable, ts, a, None) for ts, a in points])
    env.settle()


# MAX_DELAY


@pytest.mark.parametrize("window", ["interval(10s)", "session(ts, 5s)"])
def test_an_open_window_is_written_when_its_delay_is_up(env: StreamEnvironment, window: str) -> None:
    plan = env.create(DELAYED.format("", window))
    put(env, (0, 1))
    wait(env, 4999)
    assert rows(env, plan) == []
    wait(env, 1)
    assert rows(env, plan) == [(0, 1, 1)]


def test_a_window_that_has_not_changed_is_not_written_again(env: StreamEnvironment) -> None:
    plan = env.create(DELAYED.format("", "interval(10s)"))
    put(env, (0, 1))
    wait(env, 5000)
    version = env.tables.version(plan.target)
    wait(env, 60_000)
    assert env.tables.version(plan.target) == version
    put(env, (10_000, 2))
    assert env.tables.version(plan.target) == version, "the closed window is in the target already as it is"
    wait(env, 5000)
    assert rows(env, plan) == [(0, 1, 1), (10_000, 1, 2)]


def test_the_delay_runs_from_the_first_change(env: StreamEnvironment) -> None:
    plan = env.create(DELAYED.format("", "interval(10s)"))
    put(env, (0, 1))
    wait(env, 3000)
    put(env, (1000, 2))
    wait(env, 2000)
    assert rows(env, plan) == [(0, 2, 3)]


def test_a_closed_window_does_not_wait_for_the_delay(env: StreamEnvironment) -> None:
    plan = env.create(DELAYED.format("", "interval(10s)"))
    put(env, (0, 1))
    put(env, (10_000, 2))
    assert rows(env, plan) == [(0, 1, 1)]


def test_an_event_window_without_its_end_is_never_written(env: StreamEnvironment) -> None:
    plan = env.create(DELAYED.format("", "partition by tbname event_window start with a = 1 end with a = 2"))
    put(env, (0, 1))
    wait(env, 5000)
    assert rows(env, plan) == []
    put(env, (1000, 2))
    wait(env, 5000)
    assert rows(env, plan) == [(0, 2, 3)]


def test_a_delay_that_is_up_while_nothing_runs_is_made_up_for(env: StreamEnvironment) -> None:
    plan = env.create(DELAYED.format("", "interval(10s)"))
    put(env, (0, 1))
    env.restart()
    env.clock.advance(100_000)
    env.settle()
    assert rows(env, plan) == [(0, 1, 1)]


def test_a_paused_stream_writes_what_is_overdue_after_it_is_resumed(env: StreamEnvironment) -> None:
    plan = env.create(DELAYED.format("", "interval(10s)"))
    put(env, (0, 1))
    env.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
    wait(env, 10_000)
    assert rows(env, plan) == []
    env.catalog.jobs.set_desired(plan.id, DesiredState.RUNNING)
    env.settle()
    assert rows(env, plan) == [(0, 1, 1)]


def test_open_windows_of_a_history_are_not_written_again(env: StreamEnvironment) -> None:
    env.insert([("d0", 0, 1, None)])
    plan = env.define(DELAYED.format("fill_history 1", "interval(10s)"))
    lifecycle.create(env.context, plan, plan.definition(created=env.clock.now()))
    boundary = env.record(plan).progress.boundary
    assert boundary is not None
    lifecycle.activate(env.context, plan, boundary)
    env.catalog.jobs.set_state(plan.id, JobState.CREATED)
    env.settle()
    version = env.tables.version(plan.target)
    wait(env, 5000)
    assert env.tables.version(plan.target) == version
    put(env, (1000, 2))
    wait(env, 5000)
    assert rows(env, plan) == [(0, 2, 3)]


# CONTINUOUS_WINDOW_CLOSE


def test_late_rows_updates_and_deletes_wait_for_the_recalculation(env: StreamEnvironment) -> None:
    plan = env.create(CLOSING.format("ignore expired 0 ignore update 0", BY_TABLE))
    put(env, (0, 1), (1000, 2), (20_000, 4), (21_000, 8), (40_000, 0))
    first = [(0, 2, 3), (20_000, 2, 12)]
    assert rows(env, plan) == first
    put(env, (2000, 16))
    put(env, (20_000, 32))
    env.delete("d0", 21_000, 21_000)
    env.settle()
    wait(env, 599_999)
    assert rows(env, plan) == first
    wait(env, 1)
    assert rows(env, plan) == [(0, 3, 19), (20_000, 1, 32)]


def test_a_lagging_subtable_in_order_does_not_wait(env: StreamEnvironment) -> None:
    plan = env.create(CLOSING.format("ignore expired 0 ignore update 0", "interval(10s)"))
    put(env, (0, 1), (10_000, 2))
    put(env, (500, 4), subtable="d1")
    assert rows(env, plan) == [(0, 2, 5)]


def test_expired_rows_do_not_mark_windows(env: StreamEnvironment) -> None:
    plan = env.create(CLOSING.format("", BY_TABLE))
    put(env, (0, 1), (10_000, 2))
    put(env, (500, 4))
    wait(env, 600_000)
    assert rows(env, plan) == [(0, 1, 1)]
    assert env.record(plan).progress.counters.rows_expired == 1


def test_a_window_without_rows_is_removed_at_the_recalculation(env: StreamEnvironment) -> None:
    plan = env.create(CLOSING.format("", BY_TABLE))
    put(env, (0, 1), (10_000, 2))
    env.delete("d0", 0, 0)
    env.settle()
    assert rows(env, plan) == [(0, 1, 1)]
    env.restart()
    wait(env, 600_000)
    assert rows(env, plan) == []


def test_changes_of_open_windows_are_taken_at_once(env: StreamEnvironment) -> None:
    plan = env.create(CLOSING.format("ignore update 0", BY_TABLE))
    put(env, (0, 1), (1000, 2), (2000, 4))
    put(env, (1000, 8))
    env.delete("d0", 2000, 2000)
    put(env, (10_000, 0))
    assert rows(env, plan) == [(0, 2, 9)]


# FORCE_WINDOW_CLOSE


def test_the_clock_closes_each_window_once(env: StreamEnvironment) -> None:
    plan = env.create(FORCED.format("", BY_TABLE))
    put(env, (0, 1), (1000, 2), (12_000, 4))
    wait(env, 9999)
    assert rows(env, plan) == []
    wait(env, 1)
    assert rows(env, plan) == [(0, 2, 3)]
    put(env, (2000, 8), (1000, 16))
    env.delete("d0", 0, 0)
    wait(env, 10_000)
    assert rows(env, plan) == [(0, 2, 3), (10_000, 1, 4)]
    assert env.record(plan).progress.counters.rows_expired == 2


@pytest.mark.parametrize("has_rows_before", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_window_without_rows_is_closed_too(env: StreamEnvironment, has_rows_before: bool, restarts: bool) -> None:
    plan = env.create(FORCED.format("", BY_TABLE))
    if has_rows_before:
        put(env, (0, 1))
    wait(env, 20_000)
    before = rows(env, plan)
    wait(env, 30_000)
    env.insert([("d0", 1000, 1, None), ("d0", 25_000, 2, None), ("d0", 55_000, 4, None)])
    if restarts:
        env.restart()
    wait(env, 10_000)
    assert rows(env, plan) == [*before, (50_000, 1, 4)]
    assert env.record(plan).progress.counters.rows_expired == 2


def test_the_watermark_delays_the_close(env: StreamEnvironment) -> None:
    plan = env.create(FORCED.format("watermark 3s", BY_TABLE))
    put(env, (0, 1))
    wait(env, 12_999)
    assert rows(env, plan) == []
    put(env, (9000, 2))
    wait(env, 1)
    assert rows(env, plan) == [(0, 2, 3)]


def test_the_first_window_is_the_current_one_with_the_rows_before_the_stream(env: StreamEnvironment) -> None:
    env.clock.advance(13_000)
    env.insert([("d0", 9000, 1, None), ("d0", 11_000, 2, None)])
    plan = env.create(FORCED.format("", BY_TABLE))
    env.settle()
    wait(env, 7000)
    assert rows(env, plan) == [(10_000, 1, 2)]


def test_a_window_with_more_rows_than_the_driver_reads_is_computed_by_spark(env: StreamEnvironment) -> None:
    env.context = replace(env.context, settings=env.context.settings.replace({"driver_rows": 2}))
    plan = env.create(FORCED.format("", BY_TABLE))
    for second in range(8):
        env.insert([("d0", second * 3000, 1, None)])
    env.clock.advance(30_000)
    env.settle()
    assert rows(env, plan) == [(0, 4, 4), (10_000, 3, 3), (20_000, 1, 1)]


def test_windows_slide(env: StreamEnvironment) -> None:
    plan = env.create(FORCED.format("", "partition by tbname interval(10s) sliding(5s)"))
    put(env, (1000, 1), (6000, 2))
    wait(env, 20_000)
    assert rows(env, plan) == [(-5000, 1, 1), (0, 2, 3), (5000, 1, 2)]


@pytest.mark.parametrize("batch_rows", [1, 1000])
def test_windows_missed_while_paused_are_computed_from_all_that_arrived(env: StreamEnvironment, batch_rows: int) -> None:
    env.context = replace(env.context, settings=env.context.settings.replace({"batch_rows": batch_rows}))
    plan = env.create(FORCED.format("", BY_TABLE))
    put(env, (0, 1))
    env.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
    env.settle()
    for second in range(1, 25):
        env.insert([("d0", second * 1000, 1, None)])
    env.clock.advance(30_000)
    env.catalog.jobs.set_desired(plan.id, DesiredState.RUNNING)
    env.settle()
    assert rows(env, plan) == [(0, 10, 10), (10_000, 10, 10), (20_000, 5, 5)]


def test_windows_missed_while_nothing_ran_are_computed_afterwards(env: StreamEnvironment) -> None:
    plan = env.create(FORCED.format("", BY_TABLE))
    env.insert([("d0", 1000, 1, None), ("d1", 25_000, 2, None)])
    env.clock.advance(1_000_000)
    env.settle()
    assert rows(env, plan) == [(0, 1, 1), (20_000, 1, 2)]


@pytest.mark.parametrize(
    ("fill", "filled"),
    [("null", (None, None)), ("value, 7, 9", (7, 9)), ("prev", (1, 1))],
)
def test_fill_adds_a_row_for_each_window_of_the_groups_that_were_seen(
    env: StreamEnvironment, fill: str, filled: tuple[int | None, int | None]
) -> None:
    plan = env.create(FORCED.format("", f"{BY_TABLE} fill({fill})"))
    wait(env, 10_000)
    assert rows(env, plan) == []
    put(env, (11_000, 1))
    wait(env, 30_000)
    put(env, (41_000, 2), (42_000, 3))
    env.restart()
    wait(env, 20_000)
    last = (2, 5) if fill == "prev" else filled
    assert rows(env, plan) == [(10_000, 1, 1), (20_000, *filled), (30_000, *filled), (40_000, 2, 5), (50_000, *last)]


def test_a_query_over_one_subtable_has_one_group(env: StreamEnvironment) -> None:
    select = "create stream {} trigger force_window_close into out_{} as select {} from d1 {}"
    sums = env.create(select.format("s", "s", "_wstart, twa(a) mean, elapsed(ts, 1s) lasted", "interval(10s) fill(prev)"))
    levels = env.create(select.format("p", "p", "_irowts, interp(a) level", "every(10s) fill(prev)"))
    env.insert([("d1", 2000, 4, None), ("d1", 12_000, 6, None), ("d0", 1000, 100, None)])
    env.settle()
    wait(env, 30_000)
    computed = env.query("select _wstart, twa(a) mean, elapsed(ts, 1s) lasted from d1 interval(10s)")
    assert rows(env, sums) == [*computed, (20_000, *computed[-1][1:])]
    assert rows(env, levels, 2) == [(10_000, 4), (20_000, 6), (30_000, 6)]


def test_fill_none_adds_nothing(env: StreamEnvironment) -> None:
    plan = env.create(FORCED.format("", f"{BY_TABLE} fill(none)"))
    put(env, (1000, 1))
    wait(env, 30_000)
    assert rows(env, plan) == [(0, 1, 1)]


def test_time_weighted_functions_equal_the_query_over_the_same_rows(env: StreamEnvironment) -> None:
    query = "select _wstart, twa(a) mean, elapsed(ts, 1a) lasted from readings partition by tbname interval(10s)"
    plan = env.create(f"create stream s trigger force_window_close into out as {query}")
    env.insert([("d0", ts, a, None) for ts, a in ((2000, 1), (4000, 5), (13_000, 9), (14_000, 2), (36_000, 4))])
    env.insert([("d1", ts, a, None) for ts, a in ((1000, 3), (25_000, 6))])
    env.settle()
    for _ in range(4):
        wait(env, 10_000)
    assert rows(env, plan) == env.query(query)


@pytest.mark.parametrize(
    ("fill", "values"),
    [("prev", (1, 1, 5, 5)), ("null", (None, None, 5, None)), ("value, 7", (7, 7, 5, 7))],
)
def test_interp_gives_a_point_for_each_instant_of_the_groups_that_were_seen(
    env: StreamEnvironment, fill: str, values: tuple[int | None, ...]
) -> None:
    plan = env.create(
        "create stream s trigger force_window_close into out as select _irowts, interp(a) level, _isfilled made "
        f"from readings partition by tbname every(10s) fill({fill})"
    )
    put(env, (3000, 1), (30_000, 5))
    wait(env, 20_000)
    wait(env, 20_000)
    expected = [(at, value, at != 30_000) for at, value in zip(range(10_000, 50_000, 10_000), values, strict=True)]
    assert rows(env, plan) == expected


def test_interpolated_points_have_tags_and_named_subtables(env: StreamEnvironment) -> None:
    plan = env.create(
        "create stream s trigger force_window_close into out tags (cc varchar(10)) "
        "subtable(concat(concat('tbn-', tbname), '_1')) as select _irowts, interp(a), _isfilled as a1 from readings "
        "partition by tbname, b as cc every(10s) fill(prev)"
    )
    env.insert([("d0", 3000, 1, "x"), ("d0", 4000, 2, "y"), ("d1", 5000, 3, None)])
    env.settle()
    wait(env, 10_000)
    results = env.results(plan, names=True)
    assert [row[:3] for row in results] == [(10_000, value, True) for value in (1, 2, 3)]
    assert [(row[-1], str(row[-2]).split("_out_")[0]) for row in results] == [
        ("x", "tbn-d0_1"),
        ("y", "tbn-d0_1"),
        (None, "tbn-d1_1"),
    ]


def test_constants_and_tags_stay_in_filled_rows(env: StreamEnvironment) -> None:
    plan = env.create(
        "create stream s trigger force_window_close into out as select _wstart, twa(a), elapsed(ts, 1s), now at, timezone() z, g "
        "from readings partition by tbname, g interval(10s) fill(value, 100, 200)"
    )
    put(env, (1000, 1), (3000, 3))
    wait(env, 10_000)
    wait(env, 10_000)
    (_, twa, lasted, *first), (*second,) = rows(env, plan, 6)
    assert (twa, lasted) == (2, 2)
    assert [first[0], second[3]] == [10_000, 20_000]
    assert second[:3] == [10_000, 100, 200]
    assert first[1:] == second[4:]


@pytest.mark.parametrize("driver_rows", [1, 1000])
def test_interp_starts_from_the_rows_before_the_stream(env: StreamEnvironment, driver_rows: int) -> None:
    env.context = replace(env.context, settings=env.context.settings.replace({"driver_rows": driver_rows}))
    env.insert([("d0", -100_000, 4, None), ("d0", -50_000, 6, None)])
    plan = env.create(
        "create stream s trigger force_window_close into out as select _irowts, interp(a) level from readings "
        "partition by tbname every(10s) fill(prev)"
    )
    env.settle()
    wait(env, 10_000)
    assert rows(env, plan, 2) == [(0, 6), (10_000, 6)]


def test_windows_of_days_follow_the_calendar(env: StreamEnvironment) -> None:
    plan = env.create(FORCED.format("", "partition by tbname interval(1n)"))
    put(env, (0, 1), (86_400_000, 2))
    wait(env, 40 * 86_400_000)
    ((start, *values),) = rows(env, plan)
    assert values == [2, 3]
    assert isinstance(start, int)
    assert START + start == 1_698_796_800_000, "2023-11-01"


def test_now_is_the_instant_at_which_a_window_falls_due(env: StreamEnvironment) -> None:
    plan = env.create(
        "create stream s trigger force_window_close watermark 30s into out as select _wstart, cast(now() as timestamp) at, "
        "count(*) n from readings partition by tbname interval(10s)"
    )
    put(env, (0, 1), (10_000, 2))
    wait(env, 60_000)
    assert rows(env, plan) == [(0, 40_000, 1), (10_000, 50_000, 1)]


def test_options_that_the_clock_makes_pointless_are_set_silently(env: StreamEnvironment) -> None:
    options = env.create(FORCED.format("fill_history 1 ignore expired 0 ignore update 0", BY_TABLE)).options
    assert (options.fill_history, options.ignore_expired, options.ignore_update) == (False, True, True)


WOKEN = [DELAYED.format("", BY_TABLE), FORCED.format("", f"{BY_TABLE} fill(prev)"), CLOSING.format("ignore expired 0", BY_TABLE)]


@pytest.mark.parametrize(
    ("point", "sql"), [(point, sql) for point in MICRO_BATCH_FAILPOINTS for sql in drawn(WOKEN, f"wake-ups at {point}")]
)
def test_a_driver_that_dies_at_a_wake_up_is_followed_by_one_that_makes_up_for_it(
    env: StreamEnvironment, point: str, sql: str
) -> None:
    plan = env.create(sql)
    put(env, (0, 1), (1000, 2))
    if "continuous" in sql:
        put(env, (10_000, 0))
        put(env, (2000, 4))
    env.clock.advance(600_000 if "continuous" in sql else 10_000)
    with armed(f"{point}:1:raise"), pytest.raises(FailpointError):
        env.settle()
    env.restart()
    env.settle()
    assert rows(env, plan) == ([(0, 3, 7)] if "continuous" in sql else [(0, 2, 3)])
    version = env.tables.version(plan.target)
    env.restart()
    env.settle()
    assert env.tables.version(plan.target) == version


def test_a_damaged_state_does_not_compute_windows_again(env: StreamEnvironment) -> None:
    plan = env.create(FORCED.format("", BY_TABLE))
    put(env, (0, 1))
    wait(env, 10_000)
    put(env, (500, 2), (11_000, 4))
    state_store(env.context, plan.id).clear()
    env.restart()
    wait(env, 10_000)
    assert rows(env, plan) == [(0, 1, 1), (10_000, 1, 4)]


# DELETE_MARK


# A clock that is wrong for a while

DAY = 86_400_000


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("sql", [DELAYED, FORCED])
def test_results_come_in_time_after_a_day_that_has_not_been(env: StreamEnvironment, sql: str, restarts: bool) -> None:
    plan = env.create(sql.format("", BY_TABLE))
    put(env, (0, 1))
    wait(env, DAY)
    put(env, (12_000, 2))
    if restarts:
        env.restart()
    wait(env, 5000 - DAY)
    put(env, (13_000, 4))
    for _ in range(3):
        wait(env, 5000)
    assert rows(env, plan) == [(0, 1, 1), (10_000, 2, 6)]
