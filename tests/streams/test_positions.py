"""Micro-batches by number and by the clock: several at one source version, wake-ups, and restarts between any two steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.jobs.hosts import Driving
from headrace.model.clock import ManualClock, SystemClock
from headrace.model.failpoints import FailpointError, armed
from headrace.model.positions import Position, latest, source_id
from headrace.runtime.job_host import JobHost
from headrace.streams.runner import state_store
from headrace.streams.state.checkpoints import StreamState
from tests.streams.environment import MICRO_BATCH_FAILPOINTS, StreamEnvironment
from tests.streams.ticking import SQL, ticker_factory
from tests.support.waiting import wait_until

Ticks = list[tuple[int, int]]


def ticks(env: StreamEnvironment, name: str = "s") -> Ticks:
    """Instants after the start, and counts."""
    table = env.catalog.tables.get("db", f"out_{name}")
    return [row[:2] for row in env.plain(env.tables.scan(table).drop_columns("tbname"))]


@pytest.fixture
def clock(offline_env: StreamEnvironment) -> ManualClock:
    assert isinstance(offline_env.context.clock, ManualClock)
    offline_env.runner = ticker_factory()
    return offline_env.context.clock


def test_source_ids_of_odd_names_differ() -> None:
    assert source_id("a", "b") == "a.b"
    assert len({source_id("a.b", "c"), source_id("a", "b.c"), source_id("a\\", ".b.c"), source_id("a\\.b", "c")}) == 4


def test_the_latest_position_is_that_of_the_largest_number() -> None:
    older, newer = Position(3, {"a": 9}), Position(4, {"a": 9})
    assert latest(newer, None, older) is newer
    assert latest(None) is None


def test_a_job_is_woken_at_its_instant_without_changes(offline_env: StreamEnvironment, clock: ManualClock) -> None:
    plan = offline_env.create(SQL.format(name="s"))
    offline_env.insert([("d0", 0, 1, None)])
    offline_env.settle()
    assert ticks(offline_env) == []
    first = offline_env.record(plan).progress.position
    clock.advance(9_999)
    offline_env.settle()
    assert offline_env.record(plan).progress.position == first
    clock.advance(1)
    offline_env.settle()
    second = offline_env.record(plan).progress.position
    assert first is not None
    assert second == Position(first.batch + 1, first.offsets)
    assert ticks(offline_env) == [(10_000, 1)]


def test_everything_that_is_due_runs_in_order(offline_env: StreamEnvironment, clock: ManualClock) -> None:
    offline_env.create(SQL.format(name="s"))
    offline_env.insert([("d0", 0, 1, None)])
    offline_env.settle()
    clock.advance(35_000)
    offline_env.settle()
    offline_env.insert([("d0", 1, 1, None)])
    clock.advance(5_000)
    offline_env.settle()
    assert ticks(offline_env) == [(10_000, 1), (20_000, 1), (30_000, 1), (40_000, 2)]


def test_wake_ups_missed_while_nothing_ran_are_caught_up(offline_env: StreamEnvironment, clock: ManualClock) -> None:
    offline_env.create(SQL.format(name="s"))
    offline_env.insert([("d0", 0, 1, None)])
    offline_env.settle()
    offline_env.restart()
    clock.advance(25_000)
    offline_env.settle()
    assert ticks(offline_env) == [(10_000, 1), (20_000, 1)]


def test_the_clock_of_the_machine_wakes_as_well(offline_env: StreamEnvironment) -> None:
    offline_env.runner = ticker_factory(every_ms=100)
    offline_env.context = replace(offline_env.context, clock=SystemClock())
    plan = offline_env.create(SQL.format(name="s"))
    offline_env.insert([("d0", 0, 1, None)])
    offline_env.pollers = pollers = JobHost(Driving(offline_env.context), offline_env.runner)
    pollers.reconcile(offline_env.catalog.jobs.all())
    wait_until(lambda: pollers.poll(0.05) and offline_env.tables.scan(plan.target).num_rows >= 3, "three ticks")
    assert {row[1] for row in ticks(offline_env)} == {1}


@pytest.mark.parametrize("point", MICRO_BATCH_FAILPOINTS)
@pytest.mark.parametrize("passage", [1, 2])
def test_a_driver_that_dies_between_micro_batches_of_one_source_version_is_followed_by_one_that_continues(
    offline_env: StreamEnvironment, clock: ManualClock, point: str, passage: int
) -> None:
    plan = offline_env.create(SQL.format(name="s"))
    offline_env.insert([("d0", 0, 1, None)])
    offline_env.settle()
    clock.advance(20_000)
    with armed(f"{point}:{passage}:raise"), pytest.raises(FailpointError):
        offline_env.settle()
    offline_env.restart()
    offline_env.settle()
    assert ticks(offline_env) == [(10_000, 1), (20_000, 1)]
    position = offline_env.record(plan).progress.position
    assert position == Position(3, {plan.source_ids[0]: offline_env.tables.version(plan.source)})
    assert offline_env.tables.committed_position(plan.target, plan.id, plan.source_ids) == position


def test_a_driver_restarts_where_the_target_says_though_the_catalog_is_behind(
    offline_env: StreamEnvironment, clock: ManualClock
) -> None:
    plan = offline_env.create(SQL.format(name="s"))
    offline_env.insert([("d0", 0, 1, None)])
    offline_env.settle()
    behind = offline_env.record(plan).progress
    clock.advance(10_000)
    offline_env.settle()
    max_event_time = offline_env.record(plan).progress.position
    offline_env.catalog.jobs.set_progress(plan.id, behind)
    offline_env.restart()
    version = offline_env.tables.version(plan.target)
    offline_env.settle()
    assert offline_env.record(plan).progress.position == max_event_time
    assert offline_env.tables.version(plan.target) == version


@pytest.mark.parametrize("damage", ["missing", "damaged", "of other offsets"])
def test_a_checkpoint_that_only_the_target_records_is_recomputed(
    offline_env: StreamEnvironment, clock: ManualClock, damage: str
) -> None:
    plan = offline_env.create(SQL.format(name="s"))
    offline_env.insert([("d0", 0, 1, None)])
    offline_env.settle()
    behind = offline_env.record(plan).progress
    clock.advance(10_000)
    offline_env.insert([("d0", 1, 1, None), ("d0", 2, 1, None)])
    offline_env.settle()
    offline_env.catalog.jobs.set_progress(plan.id, behind)
    store = state_store(offline_env.context, plan.id)
    (max_event_time,) = Path(store.folder).glob(f"{store.batches()[-1]:020d}-*.state")
    match damage:
        case "missing":
            max_event_time.unlink()
        case "damaged":
            max_event_time.write_bytes(max_event_time.read_bytes()[:-3])
        case _:
            store.write(StreamState(Position(store.batches()[-1], {plan.source_ids[0]: 0})), 0)
    offline_env.restart()
    clock.advance(10_000)
    offline_env.settle()
    assert ticks(offline_env) == [(10_000, 3), (20_000, 3)]
    (event,) = (event for event in offline_env.catalog.events.all("job", plan.id) if event.kind == "STATE_RESTORED")
    assert "changes since" in event.message
