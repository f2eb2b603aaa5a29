"""Source pollers: a source, a stream or a micro-batch in trouble is nobody else's, and what the user asks for always wins."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.model.clock import ManualClock
from headrace.model.jobs import DesiredState, JobState
from headrace.model.positions import Position
from headrace.model.tables import Table
from headrace.streams.definition.define import StreamPlan
from headrace.streams.lifecycle import skip
from headrace.streams.sources import sizes
from headrace.streams.sources.lag import lag_ms
from headrace.streams.sources.poller import SourcePollers
from headrace.streams.sources.reader import ChangeReader
from headrace.streams.windows.changes import Changes
from tests.streams.house import READINGS, House
from tests.streams.ticking import SQL, ticking

OTHERS = Table("db", "others", READINGS.columns, READINGS.tags)


class Gate:
    """Holds micro-batches while it is shut."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.open.set()

    def __call__(self, changes: Changes) -> None:
        del changes
        self.entered.set()
        assert self.open.wait(60)

    @contextmanager
    def shut(self) -> Iterator[None]:
        """Hold the next micro-batches for the length of a `with` block."""
        self.entered.clear()
        self.open.clear()
        try:
            yield
        finally:
            self.open.set()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def ticked(empty: House, gate: Gate) -> House:
    """A house whose streams need no Spark."""
    empty.runner = ticking(gate)
    empty.tables.create(OTHERS, empty.database)
    empty.catalog.tables.create(OTHERS)
    return empty


@pytest.fixture
def clock(ticked: House) -> ManualClock:
    assert isinstance(ticked.context.clock, ManualClock)
    return ticked.context.clock


def pollers(house: House) -> SourcePollers:
    assert house.pollers is not None
    return house.pollers


def handled(house: House, plan: StreamPlan) -> int:
    return house.record(plan).progress.counters.rows_in


def log_of(house: House, table: Table) -> Path:
    return Path(house.tables.uri) / table.database / table.name / "rows" / "_delta_log"


def create_both(house: House) -> tuple[StreamPlan, StreamPlan]:
    """A stream on each of two sources."""
    return house.create(SQL.format(name="s")), house.create(SQL.format(name="o").replace("from readings", "from others"))


def count(house: House, plan: StreamPlan) -> list[int]:
    """What the stream's ticks counted."""
    return [row["n"] for row in house.tables.scan(plan.target, plan.target_database).sort_by("_wstart").to_pylist()]


def test_a_source_that_is_gone_stops_its_streams_and_no_others(ticked: House, clock: ManualClock) -> None:
    sound, broken = create_both(ticked)
    ticked.settle()
    shutil.rmtree(log_of(ticked, OTHERS).parent)
    ticked.insert([("d0", 0, 1, None)])
    ticked.settle()
    clock.advance(10_000)
    ticked.settle()
    assert count(ticked, sound) == [1]
    record = ticked.record(broken)
    assert record.state is JobState.STOPPED
    assert record.reason is not None
    assert "db.others" in record.reason.message
    assert not record.reason.transient
    assert ticked.record(sound).state is JobState.RUNNING


def test_a_source_that_fails_again_and_again_stops_its_streams_until_they_are_retried(ticked: House, clock: ManualClock) -> None:
    sound, broken = create_both(ticked)
    ticked.settle()
    damage = log_of(ticked, OTHERS) / f"{1:020}.json"
    damage.write_text("damage")
    ticked.insert([("d0", 0, 1, None)])
    ticked.settle()
    clock.advance(10_000)
    ticked.settle()
    assert count(ticked, sound) == [1]
    record = ticked.record(broken)
    assert record.state is JobState.STOPPED
    assert record.reason is not None
    assert record.reason.transient
    damage.unlink()
    ticked.catalog.jobs.set_state(broken.id, JobState.RUNNING)
    ticked.settle()
    assert ticked.record(broken).state is JobState.RUNNING


def test_a_source_that_fails_for_a_moment_stops_nothing(ticked: House) -> None:
    _, broken = create_both(ticked)
    ticked.settle()
    damage = log_of(ticked, OTHERS) / f"{1:020}.json"
    damage.write_text("damage")
    assert pollers(ticked).poll(0)
    damage.unlink()
    ticked.settle()
    assert ticked.record(broken).state is JobState.RUNNING


def test_a_source_that_hangs_holds_up_no_other(ticked: House, clock: ManualClock) -> None:
    sound, hanging = create_both(ticked)
    ticked.settle()
    with ticked.tables._handles.reader(OTHERS)._mutex:  # as if the storage did not answer
        ticked.insert([("d0", 0, 1, None)])
        while not handled(ticked, sound):
            pollers(ticked).poll(0.05)
        clock.advance(10_000)
        while not count(ticked, sound):
            pollers(ticked).poll(0.05)
        assert count(ticked, sound) == [1]
        assert pollers(ticked).activity().keys() == {sound.id, hanging.id}
    ticked.settle()
    assert ticked.record(hanging).state is JobState.RUNNING


def test_a_stream_whose_source_left_the_catalog_keeps_no_other_from_running(ticked: House) -> None:
    sound, broken = create_both(ticked)
    records = ticked.catalog.jobs.all()
    ticked.pollers = SourcePollers(ticked.context, runner=ticked.runner)
    gone = [record for record in records if record.definition.id == broken.id]
    ticked.catalog.jobs.drop(broken.id)
    ticked.catalog.tables.drop("db", "others")
    pollers(ticked).reconcile([record for record in records if record not in gone] + gone)
    assert pollers(ticked).streams == {sound.id}


def test_a_pause_does_not_wait_for_the_micro_batch(ticked: House, gate: Gate) -> None:
    plan, other = create_both(ticked)
    ticked.settle()
    ticked.insert([("d0", 0, 1, None)])
    with gate.shut():
        assert pollers(ticked).poll(0)
        assert gate.entered.wait(60)
        ticked.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
        pollers(ticked).reconcile(ticked.catalog.jobs.all())
        assert ticked.record(plan).state is JobState.RUNNING, "its micro-batch is still in flight"
        assert pollers(ticked).streams == {plan.id, other.id}
    ticked.settle()
    assert ticked.record(plan).state is JobState.PAUSED
    assert pollers(ticked).streams == {other.id}
    assert handled(ticked, plan) == 1


def test_a_stream_resumed_before_it_has_left_runs_again(ticked: House, gate: Gate) -> None:
    plan = ticked.create(SQL.format(name="s"))
    ticked.settle()
    ticked.insert([("d0", 0, 1, None)])
    with gate.shut():
        assert pollers(ticked).poll(0)
        ticked.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
        pollers(ticked).reconcile(ticked.catalog.jobs.all())
        ticked.catalog.jobs.set_desired(plan.id, DesiredState.RUNNING)
        pollers(ticked).reconcile(ticked.catalog.jobs.all())
        ticked.insert([("d0", 1, 1, None)])
    ticked.settle()
    assert ticked.record(plan).state is JobState.RUNNING
    assert handled(ticked, plan) == 2


def test_what_was_written_after_a_pause_is_not_handled_though_the_driver_has_not_looked(ticked: House) -> None:
    plan = ticked.create(SQL.format(name="s"))
    ticked.settle()
    ticked.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
    ticked.insert([("d0", 0, 1, None)])
    while pollers(ticked).poll():
        pass
    assert handled(ticked, plan) == 0
    assert pollers(ticked).streams == frozenset()


def test_skipping_wins_over_a_stream_that_has_not_left(ticked: House, clock: ManualClock) -> None:
    plan = ticked.create(SQL.format(name="s"))
    ticked.insert([("d0", 0, 1, None)])
    ticked.settle()
    ticked.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
    ticked.insert([("d0", 1, 1, None), ("d0", 2, 1, None)])
    skip(ticked.context, plan)
    ticked.catalog.jobs.set_desired(plan.id, DesiredState.RUNNING)
    ticked.insert([("d0", 3, 1, None)])
    ticked.settle()
    clock.advance(10_000)
    ticked.settle()
    assert count(ticked, plan) == [2]
    assert ticked.record(plan).source_version == ticked.tables.version(READINGS)


def test_skipping_wins_over_a_micro_batch_in_flight_and_loses_nothing_of_it(ticked: House, gate: Gate, clock: ManualClock) -> None:
    plan = ticked.create(SQL.format(name="s"))
    ticked.settle()
    ticked.insert([("d0", 0, 1, None)])
    with gate.shut():
        assert pollers(ticked).poll(0)
        assert gate.entered.wait(60)
        ticked.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
        ticked.insert([("d0", 1, 1, None), ("d0", 2, 1, None)])
        skip(ticked.context, plan)
        ticked.catalog.jobs.set_desired(plan.id, DesiredState.RUNNING)
    ticked.settle()
    clock.advance(10_000)
    ticked.settle()
    assert count(ticked, plan) == [1]


def test_skipping_while_nothing_runs_waits_for_the_next_driver(ticked: House, clock: ManualClock) -> None:
    plan = ticked.create(SQL.format(name="s"))
    ticked.insert([("d0", 0, 1, None)])
    skip(ticked.context, plan)
    ticked.insert([("d0", 1, 1, None)])
    ticked.settle()
    skip(ticked.context, plan)
    ticked.restart()
    clock.advance(10_000)
    ticked.settle()
    assert count(ticked, plan) == [1]
    newest = ticked.tables.version(READINGS)
    assert ticked.record(plan).progress.position == Position(3, {plan.source_id: newest})


def test_skipping_gets_a_stream_over_changes_that_are_gone(ticked: House) -> None:
    plan = ticked.create(SQL.format(name="s"))
    ticked.settle()
    ticked.insert([("d0", 0, 1, None)])
    (data,) = log_of(ticked, READINGS).parent.glob("*.parquet")
    data.unlink()
    ticked.settle()
    reason = ticked.record(plan).reason
    assert reason is not None
    assert reason.code == "HISTORY_GONE"
    skip(ticked.context, plan)
    ticked.catalog.jobs.set_state(plan.id, JobState.RUNNING)
    ticked.settle()
    assert ticked.record(plan).state is JobState.RUNNING
    assert ticked.record(plan).source_version == ticked.tables.version(READINGS)


def test_a_micro_batch_that_hangs_and_its_lag_are_seen(ticked: House, gate: Gate, clock: ManualClock) -> None:
    plan = ticked.create(SQL.format(name="s"))
    ticked.settle()
    assert pollers(ticked).activity()[plan.id].in_flight_ms == 0
    ticked.insert([("d0", 0, 1, None)])
    committed = ticked.tables.committed_at(READINGS, ticked.tables.version(READINGS))
    assert committed is not None
    clock.set(committed + 5_000)
    with gate.shut():
        assert pollers(ticked).poll(0)
        assert gate.entered.wait(60)
        activity = pollers(ticked).activity()[plan.id]
        assert activity.in_flight_ms > 0
        assert activity.lag_ms(clock.now()) == 5_000
        assert lag_ms(ticked.context, ticked.record(plan)) == 5_000
    ticked.settle()
    activity = pollers(ticked).activity()[plan.id]
    assert (activity.in_flight_ms, activity.lag_ms(clock.now())) == (0, 0)
    assert lag_ms(ticked.context, ticked.record(plan)) == 0


def test_a_stream_without_position_has_no_lag(ticked: House) -> None:
    plan = ticked.define(SQL.format(name="s"))
    ticked.catalog.jobs.create(plan.definition(created=0), target=plan.target)
    assert lag_ms(ticked.context, ticked.record(plan)) is None


def test_pending_rows_are_counted_while_others_read(ticked: House) -> None:
    reader = ChangeReader(ticked.context, READINGS, ticked.database)
    before = reader.newest()
    ticked.insert([("d0", 0, 1, None), ("d1", 0, 1, None)])
    ticked.insert([("d0", 1, 1, None)])
    with ThreadPoolExecutor(1) as pool, reader._mutex:
        rows, since = pool.submit(reader.pending, before).result(60)
    assert rows == 3
    assert since == ticked.tables.committed_at(READINGS, before + 1)


def test_a_long_backlog_is_counted_in_bounded_steps(ticked: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "MAX_LOG_READS", 2)
    reader = ChangeReader(ticked.context, READINGS, ticked.database)
    before = reader.newest()
    for place in range(5):
        ticked.insert([("d0", place, 1, None)])
    assert [reader.pending(before)[0] for _ in range(4)] == [2, 4, 5, 5]
