"""Rows that a stream sets aside: those too far ahead of the clock, and those with which its results cannot be computed."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.catalog import quarantine
from headrace.model.jobs import JobState
from headrace.model.quarantine import QuarantineCode, QuarantineRequest
from headrace.storage.delta import changes
from headrace.streams.runner import state_store
from tests.streams.environment import START, StreamEnvironment
from tests.streams.scenarios import scale
from tests.streams.set_aside import BAD, FAR, HOUR, LENGTHS, POSITIONS, SUMS, counters, crash, drop, held, replay, windows
from tests.streams.state_files import remove_state
from tests.support.drawing import SEED

if TYPE_CHECKING:
    from headrace.streams.definition.define import StreamPlan


def test_rows_ahead_of_the_clock_move_the_watermark_by_default(offline_env: StreamEnvironment) -> None:
    env = offline_env
    plan = env.create(f"create stream s {SUMS}")
    env.insert([("d0", 0, 1, None), ("d1", 5 * HOUR, 9, None)])
    env.settle()
    env.insert([("d1", 1000, 2, None)])
    env.settle()
    assert windows(env, plan) == [(0, 1, 1)]
    assert (counters(env, plan).rows_expired, held(env, plan)) == (1, [])


def test_a_row_too_far_ahead_is_set_aside_and_does_not_move_the_watermark(offline_env: StreamEnvironment) -> None:
    env = offline_env
    plan = env.create(f"create stream s max_ahead 1h {SUMS}")
    env.insert([("d0", 0, 1, None), ("d1", 5 * HOUR, 9, None), ("d0", HOUR - 10_000, 3, None)])
    env.settle()
    assert env.record(plan).progress.watermark == START + HOUR - 10_000
    (row,) = held(env, plan)
    assert (row.code, row.key.series, row.key.time) == (QuarantineCode.FUTURE, "d1", START + 5 * HOUR)
    assert row.values == {"ts": "2023-11-15 03:13:20+00:00", "a": 9, "b": None}
    assert (counters(env, plan).rows_in, counters(env, plan).rows_used, counters(env, plan).rows_quarantined) == (3, 2, 1)
    assert windows(env, plan) == [(0, 1, 1)]
    (event,) = env.catalog.events.all("job", plan.id)
    message = "1 row set aside, the first because [FUTURE] its timestamp is more than 3600 s ahead of the clock"
    assert (event.kind, event.message) == ("QUARANTINED", message)


def test_the_setting_applies_to_streams_without_the_option(offline_env: StreamEnvironment) -> None:
    env = offline_env
    env.context = replace(env.context, settings=env.context.settings.replace({"max_ahead_s": 60}))
    guarded, free = (
        env.create(f"create stream s {SUMS}"),
        env.create(f"create stream f max_ahead 0s {SUMS.replace('sums', 'free')}"),
    )
    env.insert([("d1", 61_000, 9, None)])
    env.settle()
    assert (len(held(env, guarded)), len(held(env, free))) == (1, 0)


def test_a_row_that_is_replayed_once_its_time_has_come_is_in_the_results(offline_env: StreamEnvironment) -> None:
    env = offline_env
    plan = env.create(f"create stream s trigger at_once max_ahead 1h {SUMS}")
    env.insert([("d0", 0, 1, None), ("d1", 5 * HOUR, 9, None)])
    env.settle()
    replay(env, plan)
    assert (windows(env, plan), len(held(env, plan))) == ([(0, 1, 1)], 1)
    env.clock.advance(6 * HOUR)
    env.insert([("d0", 6 * HOUR, 4, None)])
    env.settle()
    replay(env, plan)
    assert windows(env, plan) == [(0, 1, 1), (5 * HOUR, 1, 9), (6 * HOUR, 1, 4)]
    assert held(env, plan) == []
    assert (counters(env, plan).rows_in, counters(env, plan).rows_used, counters(env, plan).rows_quarantined) == (3, 3, 0)
    assert env.record(plan).quarantine_requested is None


@pytest.mark.spark
@pytest.mark.parametrize("correction", ["update", "delete"])
def test_a_row_that_is_corrected_in_the_source_leaves_the_quarantine(env: StreamEnvironment, correction: str) -> None:
    plan = env.create(f"create stream s trigger at_once ignore update 0 {LENGTHS} interval(10s)")
    env.insert([("d0", 0, 1, "1"), ("d1", 1000, 2, BAD)])
    env.settle()
    assert (windows(env, plan), len(held(env, plan))) == ([(0, 1, 1)], 1)
    if correction == "update":
        env.insert([("d1", 1000, 2, "12")])
    else:
        env.delete("d1", 1000, 1000)
    env.settle()
    assert windows(env, plan) == ([(0, 2, 1)] if correction == "update" else [(0, 1, 1)])
    assert held(env, plan) == []
    counts = counters(env, plan)
    expected = (3, 2, 1, 0) if correction == "update" else (2, 2, 0, 0)
    assert (counts.rows_in, counts.rows_used, counts.rows_updated, counts.rows_quarantined) == expected


@pytest.mark.spark
def test_an_update_that_fails_removes_the_row_that_it_replaces(env: StreamEnvironment) -> None:
    plan = env.create(f"create stream s trigger at_once ignore update 0 {LENGTHS} interval(10s)")
    env.insert([("d0", 0, 1, "1"), ("d1", 1000, 2, "1")])
    env.settle()
    env.insert([("d1", 1000, 3, BAD)])
    env.settle()
    assert windows(env, plan) == [(0, 1, 1)]
    assert [row.values["a"] for row in held(env, plan)] == [3]


@pytest.mark.spark
def test_a_window_fails_with_its_own_row_not_with_the_row_that_closes_it(env: StreamEnvironment) -> None:
    plan = env.create(f"create stream s trigger window_close into positions {POSITIONS} d0 session(ts, 5s)")
    for row in ((1000, FAR), (2000, FAR), (40_000, 1)):
        env.insert([("d0", *row, None)])
        env.settle()
        assert [row.key.time - START for row in held(env, plan)] == ([2000] if row[0] > 1000 else [])
    assert windows(env, plan) == [(1000, 1, 0)]


@pytest.mark.spark
def test_only_the_rows_that_fail_are_set_aside(env: StreamEnvironment) -> None:
    plan = env.create(f"create stream s trigger at_once {LENGTHS} interval(10s)")
    rows = [("d0", 100 * number, number, BAD if number in (3, 17, 40) else "1") for number in range(64)]
    env.insert(rows)
    env.settle()
    assert windows(env, plan) == [(0, 61, 1)]
    assert [row.values["a"] for row in held(env, plan)] == [3, 17, 40]
    assert {row.code for row in held(env, plan)} == {QuarantineCode.DATA}
    assert "CAST_OVERFLOW" in held(env, plan)[0].message
    assert counters(env, plan).rows_quarantined == 3


@pytest.mark.spark
@pytest.mark.parametrize(
    "window", ["session(ts, 10s)", "event_window start with a = 1 end with a = 2", "state_window(a)", "interval(10s) sliding(5s)"]
)
def test_recalculated_windows_do_not_have_the_rows_in_quarantine(env: StreamEnvironment, window: str) -> None:
    partition = "" if window.startswith("interval") else "partition by tbname "
    plan = env.create(f"create stream s trigger at_once ignore expired 0 {LENGTHS} {partition}{window}")
    env.insert([("d0", 0, 1, "1"), ("d0", 1000, 1, BAD), ("d0", 2000, 1, "1"), ("d0", 90_000, 1, "1"), ("d0", 91_000, 1, "1")])
    env.settle()
    assert len(held(env, plan)) == 1
    env.insert([("d0", 1500, 1, "1")])
    env.settle()
    without = f"select _wstart, count(*), 1 from readings where b != '{BAD}' {partition}{window}"
    assert windows(env, plan) == [row[:3] for row in env.query(without)]
    assert len(held(env, plan)) == 1


@pytest.mark.spark
def test_a_stream_with_on_error_stop_stops(env: StreamEnvironment) -> None:
    plan = env.create(f"create stream s on_error stop {LENGTHS} interval(10s)")
    env.insert([("d0", 0, 1, "1"), ("d1", 1000, 2, BAD)])
    env.settle()
    record = env.record(plan)
    assert record.state is JobState.STOPPED
    assert record.reason is not None
    assert record.reason.code == "DATA"
    assert held(env, plan) == []


def test_a_stream_stops_when_its_quarantine_is_full(offline_env: StreamEnvironment) -> None:
    env = offline_env
    env.context = replace(env.context, settings=env.context.settings.replace({"quarantine_rows": 2}))
    plan = env.create(f"create stream s trigger at_once max_ahead 1h {SUMS}")
    env.insert([("d0", 0, 1, None), ("d0", 5 * HOUR, 2, None), ("d0", 6 * HOUR, 3, None)])
    env.settle()
    env.insert([("d0", 1000, 1, None), ("d0", 7 * HOUR, 4, None)])
    env.settle()
    record = env.record(plan)
    assert record.state is JobState.STOPPED
    assert record.reason is not None
    assert record.reason.code == "QUARANTINE_FULL"
    assert len(held(env, plan)) == 2
    env.clock.advance(7 * HOUR)
    env.catalog.jobs.set_state(plan.id, JobState.RUNNING)
    replay(env, plan)
    assert [total for _, _, total in windows(env, plan)] == [2, 2, 3, 4]
    assert held(env, plan) == []


def test_a_replayed_row_that_is_late_is_in_its_window(offline_env: StreamEnvironment) -> None:
    env = offline_env
    plan = env.create(f"create stream s max_ahead 1h {SUMS}")
    env.insert([("d0", 0, 1, None), ("d0", 2 * HOUR, 2, None)])
    env.settle()
    env.clock.advance(5 * HOUR)
    env.insert([("d0", 2 * HOUR + 1000, 4, None), ("d0", 4 * HOUR, 8, None), ("d0", 5 * HOUR, 16, None)])
    env.settle()
    assert windows(env, plan) == [(0, 1, 1), (2 * HOUR, 1, 4), (4 * HOUR, 1, 8)]
    replay(env, plan)
    assert windows(env, plan) == [(0, 1, 1), (2 * HOUR, 2, 6), (4 * HOUR, 1, 8)]
    assert counters(env, plan).rows_expired == 0


@pytest.mark.spark
def test_a_row_that_still_fails_stays_in_quarantine(env: StreamEnvironment) -> None:
    plan = env.create(f"create stream s trigger at_once {LENGTHS} interval(10s)")
    env.insert([("d0", 0, 1, "1"), ("d0", 1000, 2, BAD)])
    env.settle()
    replay(env, plan)
    assert (windows(env, plan), [row.requested for row in held(env, plan)]) == ([(0, 1, 1)], [None])
    assert (counters(env, plan).rows_in, counters(env, plan).rows_quarantined) == (2, 1)


@pytest.mark.spark
def test_a_state_that_is_rebuilt_does_not_have_the_rows_in_quarantine(env: StreamEnvironment) -> None:
    plan = env.create(f"create stream s trigger at_once max_ahead 1h {SUMS}")
    env.insert([("d0", 0, 1, None), ("d1", 5 * HOUR, 9, None)])
    env.settle()
    state_store(env.context, plan.id).clear()
    env.restart()
    env.insert([("d0", 20_000, 2, None)])
    env.settle()
    assert env.record(plan).progress.watermark == START + 20_000
    assert windows(env, plan) == [(0, 1, 1), (20_000, 1, 2)]


def test_a_state_that_is_recomputed_from_an_older_one_sets_the_same_rows_aside(offline_env: StreamEnvironment) -> None:
    env = offline_env
    plan = env.create(f"create stream s max_ahead 1h {SUMS}")
    env.insert([("d0", 0, 1, None)])
    env.settle()
    env.insert([("d1", 5 * HOUR, 9, None), ("d0", 1000, 2, None)])
    env.settle()
    store = state_store(env.context, plan.id)
    last = max(store.batches())
    remove_state(store, f"{last:020d}-*")
    env.clock.advance(6 * HOUR)
    env.restart()
    env.insert([("d0", 20_000, 4, None)])
    env.settle()
    assert env.record(plan).progress.watermark == START + 20_000
    assert (windows(env, plan), len(held(env, plan))) == ([(0, 2, 3)], 1)


@pytest.mark.parametrize(
    "point",
    ["streams.evaluated", "streams.state.written", "streams.quarantine.committed", "storage.committed", "streams.target.committed"],
)
def test_rows_are_set_aside_and_replayed_exactly_once(offline_env: StreamEnvironment, point: str) -> None:
    env = offline_env
    plan = env.create(f"create stream s trigger at_once max_ahead 1h {SUMS}")
    env.insert([("d0", 0, 1, None), ("d1", 5 * HOUR, 9, None)])
    crash(env, point)
    env.settle()
    assert (windows(env, plan), len(held(env, plan)), counters(env, plan).rows_quarantined) == ([(0, 1, 1)], 1, 1)
    env.clock.advance(5 * HOUR)
    env.catalog.quarantine.request(plan.id, QuarantineRequest.REPLAY, env.clock.now())
    crash(env, point)
    env.settle()
    assert windows(env, plan) == [(0, 1, 1), (5 * HOUR, 1, 9)]
    assert (held(env, plan), counters(env, plan).rows_used, counters(env, plan).rows_quarantined) == ([], 2, 0)


@pytest.mark.parametrize("point", ["streams.state.written", "streams.quarantine.committed", "streams.target.committed"])
def test_rows_are_dropped_exactly_once(offline_env: StreamEnvironment, point: str) -> None:
    env = offline_env
    plan = env.create(f"create stream s trigger at_once max_ahead 1h {SUMS}")
    env.insert([("d0", 0, 1, None), ("d1", 5 * HOUR, 9, None)])
    env.settle()
    env.catalog.quarantine.request(plan.id, QuarantineRequest.DROP, env.clock.now())
    crash(env, point)
    env.settle()
    env.insert([("d1", 6 * HOUR, 9, None)])
    env.settle()
    assert (windows(env, plan), [row.key.time - START for row in held(env, plan)]) == ([(0, 1, 1)], [6 * HOUR])
    counts = counters(env, plan)
    assert (counts.rows_in, counts.rows_used, counts.rows_quarantined, counts.rows_dropped) == (3, 1, 1, 1)


def test_a_dropped_row_is_left_out_until_it_is_written_again(offline_env: StreamEnvironment) -> None:
    env = offline_env
    plan = env.create(f"create stream s trigger at_once max_ahead 1h ignore expired 0 ignore update 0 {SUMS}")
    env.insert([("d0", 5 * HOUR, 1, None), ("d1", 5 * HOUR, 2, None), ("d0", 0, 7, None)])
    env.settle()
    drop(env, plan)
    env.clock.advance(5 * HOUR)
    env.restart()
    env.insert([("d0", 5 * HOUR + 1000, 4, None), ("d0", 1000, 1, None)])
    env.delete("d0", 0, 0)
    replay(env, plan)
    assert windows(env, plan) == [(0, 1, 1), (5 * HOUR, 1, 4)]
    env.insert([("d0", 5 * HOUR, 8, None)])
    env.delete("d1", 5 * HOUR, 5 * HOUR)
    env.settle()
    counts = counters(env, plan)
    assert windows(env, plan) == [(0, 1, 1), (5 * HOUR, 2, 12)]
    assert (counts.rows_in, counts.rows_used, counts.rows_updated, counts.rows_dropped) == (6, 5, 1, 0)


def test_a_state_that_is_computed_again_counts_what_was_dropped(offline_env: StreamEnvironment) -> None:
    env = offline_env
    plan = env.create(f"create stream s trigger at_once max_ahead 1h {SUMS}")
    env.insert([("d0", 0, 1, None)])
    env.settle()
    env.insert([("d1", 5 * HOUR, 9, None), ("d0", 1000, 2, None)])
    env.settle()
    drop(env, plan)
    store = state_store(env.context, plan.id)
    for batch in store.batches()[1:]:
        remove_state(store, f"{batch:020d}-*")
    env.restart()
    env.insert([("d0", 20_000, 4, None)])
    env.settle()
    counts = counters(env, plan)
    assert (counts.rows_in, counts.rows_used, counts.rows_quarantined, counts.rows_dropped) == (4, 3, 0, 1)


def test_a_state_is_computed_again_without_a_row_that_left_the_quarantine_long_ago(
    offline_env: StreamEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "KEPT_BATCHES", 1)
    env = offline_env
    env.context = replace(env.context, settings=env.context.settings.replace({"batch_rows": 1}))
    plan = env.create(f"create stream s trigger at_once max_ahead 1h {SUMS}")
    env.insert([("d0", 0, 1, None), ("d1", 5 * HOUR, 9, None)])
    env.settle()
    env.delete("d1", 5 * HOUR, 5 * HOUR)
    for second in range(1, 6):
        env.insert([("d1", second * 1000, 2, None), ("d2", second * 5 * HOUR, 9, None)])
        env.settle()
    store = state_store(env.context, plan.id)
    assert store.batches()[0] == 0
    for batch in store.batches()[1:]:
        remove_state(store, f"{batch:020d}-*")
    env.restart()
    env.insert([("d0", 6000, 2, None)])
    env.settle()
    assert (windows(env, plan), counters(env, plan).rows_expired) == ([(0, 7, 13)], 0)


def test_a_full_quarantine_that_is_dropped_has_room_again(offline_env: StreamEnvironment) -> None:
    env = offline_env
    env.context = replace(env.context, settings=env.context.settings.replace({"quarantine_rows": 1}))
    plan = env.create(f"create stream s trigger at_once max_ahead 1h {SUMS}")
    for number in (5, 6):
        env.insert([("d0", number * HOUR, 1, None)])
        env.settle()
    assert env.record(plan).state is JobState.STOPPED
    env.catalog.quarantine.request(plan.id, QuarantineRequest.DROP, env.clock.now())
    env.catalog.jobs.set_state(plan.id, JobState.RUNNING)
    env.settle()
    assert env.record(plan).state is JobState.RUNNING
    assert [row.key.time - START for row in held(env, plan)] == [6 * HOUR]


@pytest.mark.spark
@pytest.mark.parametrize("source", ["readings partition by tbname", "d0"])
def test_windows_closed_by_the_clock_leave_out_rows_that_fail(env: StreamEnvironment, source: str) -> None:
    query = LENGTHS.replace("readings", source)
    plan = env.create(f"create stream s trigger force_window_close {query} interval(10s)")
    env.insert([("d0", 0, 1, "1"), ("d0", 1000, 2, BAD), ("d0", 2000, 3, "1")])
    env.settle()
    env.clock.advance(5000)
    env.insert([("d0", 3000, 3, "1"), ("d0", 4000, 9, BAD)])
    env.clock.advance(5000)
    env.settle()
    assert env.record(plan).state is JobState.RUNNING
    assert (windows(env, plan), [row.values["a"] for row in held(env, plan)]) == ([(0, 3, 1)], [2, 9])
    env.restart()
    env.insert([("d0", 11_000, 3, "1")])
    env.clock.advance(10_000)
    env.settle()
    counts = counters(env, plan)
    assert windows(env, plan) == [(0, 3, 1), (10_000, 1, 1)]
    assert (counts.rows_in, counts.rows_used, counts.rows_quarantined) == (6, 4, 2)


@pytest.mark.spark
def test_interpolation_by_the_clock_leaves_out_rows_that_fail(env: StreamEnvironment) -> None:
    create = (
        "create stream s trigger force_window_close into points as select _irowts, interp(length(substr(b, cast(b as bigint))))"
    )
    plan = env.create(f"{create} x from readings partition by tbname every(10s) fill(prev)")
    env.insert([("d0", 1000, 1, "1"), ("d0", 2000, 2, BAD)])
    env.clock.advance(10_000)
    env.settle()
    assert ([row[1] for row in env.results(plan)][-1:], len(held(env, plan))) == ([1], 1)


@pytest.mark.spark
def test_on_error_stop_also_stops_windows_closed_by_the_clock(env: StreamEnvironment) -> None:
    plan = env.create(f"create stream s trigger force_window_close on_error stop {LENGTHS} partition by tbname interval(10s)")
    env.insert([("d0", 1000, 2, BAD)])
    env.clock.advance(10_000)
    env.settle()
    reason = env.record(plan).reason
    assert reason is not None
    assert (reason.code, held(env, plan)) == ("DATA", [])


def test_a_row_that_is_too_far_ahead_can_be_corrected_again_and_again(offline_env: StreamEnvironment) -> None:
    env = offline_env
    plan = env.create(f"create stream s trigger at_once max_ahead 1h ignore update 0 {SUMS}")
    env.insert([("d0", 5 * HOUR, 1, None)])
    env.settle()
    env.insert([("d0", 5 * HOUR, 2, None), ("d0", 0, 7, None)])
    env.settle()
    assert [row.values["a"] for row in held(env, plan)] == [2]
    counts = counters(env, plan)
    assert (counts.rows_in, counts.rows_used, counts.rows_updated, counts.rows_quarantined) == (3, 1, 1, 1)
    env.clock.advance(5 * HOUR)
    env.insert([("d0", 5 * HOUR, 3, None)])
    env.settle()
    assert (windows(env, plan), held(env, plan)) == ([(0, 1, 7), (5 * HOUR, 1, 3)], [])
    env.delete("d0", 5 * HOUR, 5 * HOUR)
    env.settle()
    assert windows(env, plan) == [(0, 1, 7)]


def test_a_row_in_quarantine_that_is_deleted_counts_like_any_other(offline_env: StreamEnvironment) -> None:
    env = offline_env
    plan = env.create(f"create stream s trigger at_once max_ahead 1h {SUMS}")
    env.insert([("d0", 5 * HOUR, 1, None), ("d0", 0, 7, None)])
    env.settle()
    env.delete("d0", 5 * HOUR, 5 * HOUR)
    env.settle()
    counts = counters(env, plan)
    assert (held(env, plan), counts.rows_used, counts.rows_quarantined) == ([], 2, 0)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("window", ["interval(10s)", "session(ts, 5s)"])
@pytest.mark.parametrize("seed", range(SEED, SEED + scale(2)))
@pytest.mark.parametrize("in_pieces", [False, True], ids=["batches", "pieces"])
def test_a_stream_equals_its_query_over_the_rows_that_are_not_in_quarantine(
    offline_env: StreamEnvironment, seed: int, window: str, in_pieces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, random = offline_env, Random(seed)
    if in_pieces:
        monkeypatch.setattr(changes, "PIECE_ROWS", 3)
        settings = {"kernels": "always", "driver_rows": 0, "batch_rows": 1}
        env.context = replace(env.context, settings=env.context.settings.replace(settings))
    plan = env.create(
        "create stream s trigger at_once max_ahead 30s ignore expired 0 ignore update 0 into sums "
        f"as select _wstart, count(*) n, sum(a) total from readings {window}"
    )
    for _ in range(25):
        now = env.clock.now() - START
        match random.choice(["insert", "insert", "insert", "delete", "advance", "replay", "drop", "restart"]):
            case "insert":
                subtables = [random.choice(["d0", "d1"]) for _ in range(random.randint(1, 4))]
                times = {(name, max(0, now + random.randrange(-40, 60) * 1000)) for name in subtables}
                env.insert([(name, time, random.randint(1, 9), None) for name, time in sorted(times)])
            case "delete":
                first = max(0, now + random.randrange(-40, 60) * 1000)
                env.delete(random.choice(["d0", "d1"]), first, first + 20_000)
            case "advance":
                env.clock.advance(20_000)
            case "replay" | "drop" as request:
                env.catalog.quarantine.request(plan.id, QuarantineRequest(request.upper()), env.clock.now())
            case _:
                env.restart()
        if random.random() < 0.7:
            env.settle()
            assert windows(env, plan) == expected_windows(env, plan, window)
            assert counters(env, plan).rows_quarantined == len(held(env, plan))
            assert counters(env, plan).rows_dropped == len(env.catalog.quarantine.rows(plan.id)) - len(held(env, plan))


def expected_windows(env: StreamEnvironment, plan: StreamPlan, window: str) -> list[tuple[object, ...]]:
    """Return the windows of the rows that are stored and not left out."""
    set_aside = {(row.key.series, row.key.time) for row in env.catalog.quarantine.rows(plan.id)}
    stored = env.tables.scan(env.table).to_pylist()
    rows = sorted((round(row["ts"].timestamp() * 1000), row["tbname"], row["a"]) for row in stored)
    starts: dict[int, list[int]] = {}
    last, start = None, 0
    for time, name, value in rows:
        if (name, time) in set_aside:
            continue
        if window.startswith("interval"):
            start = time - time % 10_000
        elif last is None or time - last > 5_000:
            start = time
        last = time
        starts.setdefault(start, []).append(value)
    return [(start - START, len(values), sum(values)) for start, values in sorted(starts.items())]
