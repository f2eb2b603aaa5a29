"""Micro-batches by number and by the clock: several at one source version, wake-ups, and restarts between any two steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.model.clock import ManualClock, SystemClock
from headrace.model.failpoints import FailpointError, armed
from headrace.model.positions import Position, latest, source_id
from headrace.streams.runner import state_store
from headrace.streams.sources.poller import SourcePollers
from headrace.streams.state.checkpoints import StreamState
from tests.streams.house import MICRO_BATCH_FAILPOINTS, House
from tests.streams.ticking import SQL, ticking
from tests.support.waiting import wait_until

Ticks = list[tuple[int, int]]


def ticks(built: House, name: str = "s") -> Ticks:
    """Instants after the start, and counts."""
    table = built.catalog.tables.get("db", f"out_{name}")
    return [row[:2] for row in built.plain(built.tables.scan(table, built.database).drop_columns("tbname"))]


@pytest.fixture
def clock(empty: House) -> ManualClock:
    assert isinstance(empty.context.clock, ManualClock)
    empty.runner = ticking()
    return empty.context.clock


def test_source_ids_of_odd_names_differ() -> None:
    assert source_id("a", "b") == "a.b"
    assert len({source_id("a.b", "c"), source_id("a", "b.c"), source_id("a\\", ".b.c"), source_id("a\\.b", "c")}) == 4


def test_the_latest_position_is_that_of_the_largest_number() -> None:
    older, newer = Position(3, {"a": 9}), Position(4, {"a": 9})
    assert latest(newer, None, older) is newer
    assert latest(None) is None


def test_a_job_is_woken_at_its_instant_without_changes(empty: House, clock: ManualClock) -> None:
    plan = empty.create(SQL.format(name="s"))
    empty.insert([("d0", 0, 1, None)])
    empty.settle()
    assert ticks(empty) == []
    first = empty.record(plan).progress.position
    clock.advance(9_999)
    empty.settle()
    assert empty.record(plan).progress.position == first
    clock.advance(1)
    empty.settle()
    second = empty.record(plan).progress.position
    assert first is not None
    assert second == Position(first.batch + 1, first.offsets)
    assert ticks(empty) == [(10_000, 1)]


def test_everything_that_is_due_runs_in_order(empty: House, clock: ManualClock) -> None:
    empty.create(SQL.format(name="s"))
    empty.insert([("d0", 0, 1, None)])
    empty.settle()
    clock.advance(35_000)
    empty.settle()
    empty.insert([("d0", 1, 1, None)])
    clock.advance(5_000)
    empty.settle()
    assert ticks(empty) == [(10_000, 1), (20_000, 1), (30_000, 1), (40_000, 2)]


def test_wake_ups_that_were_missed_while_nothing_ran_are_made_up_for(empty: House, clock: ManualClock) -> None:
    empty.create(SQL.format(name="s"))
    empty.insert([("d0", 0, 1, None)])
    empty.settle()
    empty.restart()
    clock.advance(25_000)
    empty.settle()
    assert ticks(empty) == [(10_000, 1), (20_000, 1)]


def test_the_clock_of_the_machine_wakes_as_well(empty: House) -> None:
    empty.runner = ticking(every_ms=100)
    empty.context = replace(empty.context, clock=SystemClock())
    plan = empty.create(SQL.format(name="s"))
    empty.insert([("d0", 0, 1, None)])
    empty.pollers = pollers = SourcePollers(empty.context, runner=empty.runner)
    pollers.reconcile(empty.catalog.jobs.all())
    wait_until(lambda: pollers.poll(0.05) and empty.tables.scan(plan.target, empty.database).num_rows >= 3, "three ticks")
    assert {row[1] for row in ticks(empty)} == {1}


@pytest.mark.parametrize("point", MICRO_BATCH_FAILPOINTS)
@pytest.mark.parametrize("passage", [1, 2])
def test_a_driver_that_dies_between_micro_batches_of_one_source_version_is_followed_by_one_that_goes_on(
    empty: House, clock: ManualClock, point: str, passage: int
) -> None:
    plan = empty.create(SQL.format(name="s"))
    empty.insert([("d0", 0, 1, None)])
    empty.settle()
    clock.advance(20_000)
    with armed(f"{point}:{passage}:raise"), pytest.raises(FailpointError):
        empty.settle()
    empty.restart()
    empty.settle()
    assert ticks(empty) == [(10_000, 1), (20_000, 1)]
    position = empty.record(plan).progress.position
    assert position == Position(3, {plan.source_id: empty.tables.version(plan.source)})
    assert empty.tables.committed_position(plan.target, plan.id, [plan.source_id]) == position


def test_a_driver_restarts_where_the_target_says_though_the_catalog_is_behind(empty: House, clock: ManualClock) -> None:
    plan = empty.create(SQL.format(name="s"))
    empty.insert([("d0", 0, 1, None)])
    empty.settle()
    behind = empty.record(plan).progress
    clock.advance(10_000)
    empty.settle()
    max_event_time = empty.record(plan).progress.position
    empty.catalog.jobs.set_progress(plan.id, behind)
    empty.restart()
    version = empty.tables.version(plan.target)
    empty.settle()
    assert empty.record(plan).progress.position == max_event_time
    assert empty.tables.version(plan.target) == version


@pytest.mark.parametrize("damage", ["missing", "damaged", "of other offsets"])
def test_a_checkpoint_that_only_the_target_knows_of_is_made_again(empty: House, clock: ManualClock, damage: str) -> None:
    plan = empty.create(SQL.format(name="s"))
    empty.insert([("d0", 0, 1, None)])
    empty.settle()
    behind = empty.record(plan).progress
    clock.advance(10_000)
    empty.insert([("d0", 1, 1, None), ("d0", 2, 1, None)])
    empty.settle()
    empty.catalog.jobs.set_progress(plan.id, behind)
    store = state_store(empty.context, plan.id)
    (max_event_time,) = Path(store.folder).glob(f"{store.batches()[-1]:020d}-*.state")
    match damage:
        case "missing":
            max_event_time.unlink()
        case "damaged":
            max_event_time.write_bytes(max_event_time.read_bytes()[:-3])
        case _:
            store.write(StreamState(Position(store.batches()[-1], {plan.source_id: 0})), 0)
    empty.restart()
    clock.advance(10_000)
    empty.settle()
    assert ticks(empty) == [(10_000, 3), (20_000, 3)]
    (event,) = (event for event in empty.catalog.events.all("job", plan.id) if event.kind == "STATE_RESTORED")
    assert "changes since" in event.message
