"""Source pollers: a failing or slow source, stream or micro-batch does not affect others, and the user's wishes take precedence."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.jobs.hosts import Driving, HostedJob, Source
from headrace.model.clock import ManualClock
from headrace.model.jobs import DesiredState, JobState
from headrace.model.positions import Offsets, Position
from headrace.model.tables import Table
from headrace.runtime.job_host import JobHost
from headrace.storage import Tables
from headrace.streams.definition.define import StreamPlan
from headrace.streams.lifecycle import skip
from headrace.streams.runner import StreamRunner
from headrace.streams.sources import commit_sizes
from headrace.streams.sources.reader import ChangeReader
from headrace.streams.windows.change_batch import Changes
from tests.streams.environment import READINGS, StreamEnvironment
from tests.streams.ticking import SQL, ticker_factory

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
def ticking_env(offline_env: StreamEnvironment, gate: Gate) -> StreamEnvironment:
    """An environment whose streams need no Spark."""
    offline_env.runner = ticker_factory(gate)
    offline_env.tables.create(OTHERS, offline_env.database)
    offline_env.catalog.tables.create(OTHERS)
    return offline_env


@pytest.fixture
def clock(ticking_env: StreamEnvironment) -> ManualClock:
    assert isinstance(ticking_env.context.clock, ManualClock)
    return ticking_env.context.clock


def pollers(env: StreamEnvironment) -> JobHost:
    assert env.pollers is not None
    return env.pollers


def handled(env: StreamEnvironment, plan: StreamPlan) -> int:
    return env.record(plan).progress.counters.rows_in


def log_of(env: StreamEnvironment, table: Table) -> Path:
    return Path(env.tables.uri) / table.database / table.name / "rows" / "_delta_log"


def create_both(env: StreamEnvironment) -> tuple[StreamPlan, StreamPlan]:
    """A stream on each of two sources."""
    return env.create(SQL.format(name="s")), env.create(SQL.format(name="o").replace("from readings", "from others"))


def count(env: StreamEnvironment, plan: StreamPlan) -> list[int]:
    """What the stream's ticks counted."""
    return [row["n"] for row in env.tables.scan(plan.target).sort_by("_wstart").to_pylist()]


def test_a_source_that_has_lost_versions_stops_the_streams_that_have_read_them(
    ticking_env: StreamEnvironment, clock: ManualClock
) -> None:
    sound, ahead = create_both(ticking_env)
    ticking_env.insert([("d0", 0, 1, None)])
    ticking_env.tables.writer.write(OTHERS, ticking_env.database, ticking_env.stored([("d0", 0, 1, None)]))
    ticking_env.settle()
    sorted(log_of(ticking_env, OTHERS).glob("*.json"))[-1].unlink()
    ticking_env.restart()
    tables = Tables(ticking_env.tables.uri, ticking_env.catalog.lock, 0)
    ticking_env.context = replace(ticking_env.context, open_tables=lambda: tables)
    clock.advance(10_000)
    ticking_env.settle()
    assert ticking_env.record(sound).state is not JobState.STOPPED
    reason = ticking_env.record(ahead).reason
    assert reason is not None
    assert reason.code == "OFFSET_AHEAD"


def test_a_missing_source_stops_only_its_own_streams(ticking_env: StreamEnvironment, clock: ManualClock) -> None:
    sound, broken = create_both(ticking_env)
    ticking_env.settle()
    shutil.rmtree(log_of(ticking_env, OTHERS).parent)
    ticking_env.insert([("d0", 0, 1, None)])
    ticking_env.settle()
    clock.advance(10_000)
    ticking_env.settle()
    assert count(ticking_env, sound) == [1]
    record = ticking_env.record(broken)
    assert record.state is JobState.STOPPED
    assert record.reason is not None
    assert "db.others" in record.reason.message
    assert not record.reason.transient
    assert ticking_env.record(sound).state is JobState.RUNNING


def test_a_source_that_fails_again_and_again_stops_its_streams_until_they_are_retried(
    ticking_env: StreamEnvironment, clock: ManualClock
) -> None:
    sound, broken = create_both(ticking_env)
    ticking_env.settle()
    damage = log_of(ticking_env, OTHERS) / f"{1:020}.json"
    damage.write_text("damage")
    ticking_env.insert([("d0", 0, 1, None)])
    ticking_env.settle()
    clock.advance(10_000)
    ticking_env.settle()
    assert count(ticking_env, sound) == [1]
    record = ticking_env.record(broken)
    assert record.state is JobState.STOPPED
    assert record.reason is not None
    assert record.reason.transient
    damage.unlink()
    ticking_env.catalog.jobs.set_state(broken.id, JobState.RUNNING)
    ticking_env.settle()
    assert ticking_env.record(broken).state is JobState.RUNNING


def test_a_source_that_fails_briefly_stops_nothing(ticking_env: StreamEnvironment) -> None:
    _, broken = create_both(ticking_env)
    ticking_env.settle()
    damage = log_of(ticking_env, OTHERS) / f"{1:020}.json"
    damage.write_text("damage")
    assert pollers(ticking_env).poll(0)
    damage.unlink()
    ticking_env.settle()
    assert ticking_env.record(broken).state is JobState.RUNNING


def test_a_source_that_hangs_does_not_delay_others(ticking_env: StreamEnvironment, clock: ManualClock) -> None:
    sound, hanging = create_both(ticking_env)
    ticking_env.settle()
    with ticking_env.tables._handles.reader(OTHERS)._mutex:  # as if the storage did not answer
        ticking_env.insert([("d0", 0, 1, None)])
        while not handled(ticking_env, sound):
            pollers(ticking_env).poll(0.05)
        clock.advance(10_000)
        while not count(ticking_env, sound):
            pollers(ticking_env).poll(0.05)
        assert count(ticking_env, sound) == [1]
        assert pollers(ticking_env).activity().keys() == {sound.id, hanging.id}
    ticking_env.settle()
    assert ticking_env.record(hanging).state is JobState.RUNNING


def test_a_stream_whose_source_left_the_catalog_keeps_no_other_from_running(ticking_env: StreamEnvironment) -> None:
    sound, broken = create_both(ticking_env)
    records = ticking_env.catalog.jobs.all()
    ticking_env.pollers = JobHost(Driving(ticking_env.context), ticking_env.runner)
    gone = [record for record in records if record.definition.id == broken.id]
    ticking_env.catalog.jobs.drop(broken.id)
    ticking_env.catalog.tables.drop("db", "others")
    pollers(ticking_env).reconcile([record for record in records if record not in gone] + gone)
    assert pollers(ticking_env).running == {sound.id}


def test_a_pause_does_not_wait_for_the_micro_batch(ticking_env: StreamEnvironment, gate: Gate) -> None:
    plan, other = create_both(ticking_env)
    ticking_env.settle()
    ticking_env.insert([("d0", 0, 1, None)])
    with gate.shut():
        assert pollers(ticking_env).poll(0)
        assert gate.entered.wait(60)
        ticking_env.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
        pollers(ticking_env).reconcile(ticking_env.catalog.jobs.all())
        assert ticking_env.record(plan).state is JobState.RUNNING, "its micro-batch is still in flight"
        assert pollers(ticking_env).running == {plan.id, other.id}
    ticking_env.settle()
    assert ticking_env.record(plan).state is JobState.PAUSED
    assert pollers(ticking_env).running == {other.id}
    assert handled(ticking_env, plan) == 1


def test_a_stream_resumed_before_it_has_left_runs_again(ticking_env: StreamEnvironment, gate: Gate) -> None:
    plan = ticking_env.create(SQL.format(name="s"))
    ticking_env.settle()
    ticking_env.insert([("d0", 0, 1, None)])
    with gate.shut():
        assert pollers(ticking_env).poll(0)
        ticking_env.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
        pollers(ticking_env).reconcile(ticking_env.catalog.jobs.all())
        ticking_env.catalog.jobs.set_desired(plan.id, DesiredState.RUNNING)
        pollers(ticking_env).reconcile(ticking_env.catalog.jobs.all())
        ticking_env.insert([("d0", 1, 1, None)])
    ticking_env.settle()
    assert ticking_env.record(plan).state is JobState.RUNNING
    assert handled(ticking_env, plan) == 2


def test_what_was_written_after_a_pause_is_not_handled_before_the_driver_reconciles(ticking_env: StreamEnvironment) -> None:
    plan = ticking_env.create(SQL.format(name="s"))
    ticking_env.settle()
    ticking_env.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
    ticking_env.insert([("d0", 0, 1, None)])
    while pollers(ticking_env).poll():
        pass
    assert handled(ticking_env, plan) == 0
    assert pollers(ticking_env).running == frozenset()


def test_skipping_wins_over_a_stream_that_has_not_left(ticking_env: StreamEnvironment, clock: ManualClock) -> None:
    plan = ticking_env.create(SQL.format(name="s"))
    ticking_env.insert([("d0", 0, 1, None)])
    ticking_env.settle()
    ticking_env.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
    ticking_env.insert([("d0", 1, 1, None), ("d0", 2, 1, None)])
    skip(ticking_env.context, plan)
    ticking_env.catalog.jobs.set_desired(plan.id, DesiredState.RUNNING)
    ticking_env.insert([("d0", 3, 1, None)])
    ticking_env.settle()
    clock.advance(10_000)
    ticking_env.settle()
    assert count(ticking_env, plan) == [2]
    assert ticking_env.record(plan).source_version == ticking_env.tables.version(READINGS)


def test_skipping_wins_over_a_micro_batch_in_flight_and_loses_nothing_of_it(
    ticking_env: StreamEnvironment, gate: Gate, clock: ManualClock
) -> None:
    plan = ticking_env.create(SQL.format(name="s"))
    ticking_env.settle()
    ticking_env.insert([("d0", 0, 1, None)])
    with gate.shut():
        assert pollers(ticking_env).poll(0)
        assert gate.entered.wait(60)
        ticking_env.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
        ticking_env.insert([("d0", 1, 1, None), ("d0", 2, 1, None)])
        skip(ticking_env.context, plan)
        ticking_env.catalog.jobs.set_desired(plan.id, DesiredState.RUNNING)
    ticking_env.settle()
    clock.advance(10_000)
    ticking_env.settle()
    assert count(ticking_env, plan) == [1]


def test_skipping_while_nothing_runs_waits_for_the_next_driver(ticking_env: StreamEnvironment, clock: ManualClock) -> None:
    plan = ticking_env.create(SQL.format(name="s"))
    ticking_env.insert([("d0", 0, 1, None)])
    skip(ticking_env.context, plan)
    ticking_env.insert([("d0", 1, 1, None)])
    ticking_env.settle()
    skip(ticking_env.context, plan)
    ticking_env.restart()
    clock.advance(10_000)
    ticking_env.settle()
    assert count(ticking_env, plan) == [1]
    newest = ticking_env.tables.version(READINGS)
    assert ticking_env.record(plan).progress.position == Position(3, {plan.source_ids[0]: newest})


def test_skipping_lets_a_stream_continue_after_its_changes_were_vacuumed(ticking_env: StreamEnvironment) -> None:
    plan = ticking_env.create(SQL.format(name="s"))
    ticking_env.settle()
    ticking_env.insert([("d0", 0, 1, None)])
    (data,) = log_of(ticking_env, READINGS).parent.glob("*.parquet")
    data.unlink()
    ticking_env.settle()
    reason = ticking_env.record(plan).reason
    assert reason is not None
    assert reason.code == "HISTORY_GONE"
    skip(ticking_env.context, plan)
    ticking_env.catalog.jobs.set_state(plan.id, JobState.RUNNING)
    ticking_env.settle()
    assert ticking_env.record(plan).state is JobState.RUNNING
    assert ticking_env.record(plan).source_version == ticking_env.tables.version(READINGS)


def test_a_hanging_micro_batch_and_its_lag_are_reported(ticking_env: StreamEnvironment, gate: Gate, clock: ManualClock) -> None:
    plan = ticking_env.create(SQL.format(name="s"))
    ticking_env.settle()
    assert pollers(ticking_env).activity()[plan.id].in_flight_ms == 0
    ticking_env.insert([("d0", 0, 1, None)])
    committed = ticking_env.tables.changes.committed_at(READINGS, ticking_env.tables.version(READINGS))
    assert committed is not None
    clock.set(committed + 5_000)
    with gate.shut():
        assert pollers(ticking_env).poll(0)
        assert gate.entered.wait(60)
        activity = pollers(ticking_env).activity()[plan.id]
        assert activity.in_flight_ms > 0
        assert activity.lag_ms(clock.now()) == 5_000
        assert ticking_env.lag_ms(plan) == 5_000
    ticking_env.settle()
    activity = pollers(ticking_env).activity()[plan.id]
    assert (activity.in_flight_ms, activity.lag_ms(clock.now())) == (0, 0)
    assert ticking_env.lag_ms(plan) == 0


def test_a_stream_without_position_has_no_lag(ticking_env: StreamEnvironment) -> None:
    plan = ticking_env.define(SQL.format(name="s"))
    ticking_env.catalog.jobs.create(plan.definition(created=0), target=plan.target)
    assert ticking_env.lag_ms(plan) is None


def test_pending_rows_are_counted_while_others_read(ticking_env: StreamEnvironment) -> None:
    reader = ChangeReader(ticking_env.context, READINGS, ticking_env.database)
    before = reader.latest()
    ticking_env.insert([("d0", 0, 1, None), ("d1", 0, 1, None)])
    ticking_env.insert([("d0", 1, 1, None)])
    with ThreadPoolExecutor(1) as pool, reader._mutex:
        rows, since = pool.submit(reader.pending, before).result(60)
    assert rows == 3
    assert since == ticking_env.tables.changes.committed_at(READINGS, before[reader.id] + 1)


def test_a_long_backlog_is_counted_in_bounded_steps(ticking_env: StreamEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_sizes, "MAX_LOG_READS", 2)
    reader = ChangeReader(ticking_env.context, READINGS, ticking_env.database)
    before = reader.latest()
    for place in range(5):
        ticking_env.insert([("d0", place, 1, None)])
    assert [reader.pending(before)[0] for _ in range(4)] == [2, 4, 5, 5]


def test_an_idle_poll_takes_no_time_for_each_stream(
    ticking_env: StreamEnvironment, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, _ = create_both(ticking_env)
    ticking_env.insert([("d0", 0, 1, None)])
    ticking_env.settle()
    pollers(ticking_env).poll()
    asked: list[str] = []
    has_work = HostedJob.has_work

    def counted(job: HostedJob, source: Source, latest: Offsets) -> bool:
        asked.append(job.record.definition.name)
        return has_work(job, source, latest)

    monkeypatch.setattr(HostedJob, "has_work", counted)
    for _ in range(3):
        assert not pollers(ticking_env).poll()
    assert asked == []

    ticking_env.insert([("d0", 1, 1, None)])
    assert pollers(ticking_env).poll()
    assert asked == ["s"]
    while pollers(ticking_env).poll():
        pass
    asked.clear()
    clock.advance(10_000)
    while pollers(ticking_env).poll():
        pass
    assert set(asked) == {"s"}
    assert count(ticking_env, sound) == [2]


def test_a_commit_to_a_source_wakes_the_poller(ticking_env: StreamEnvironment) -> None:
    plan = ticking_env.create(SQL.format(name="s"))
    ticking_env.settle()
    host = pollers(ticking_env)
    host.poll(0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(host.wait, 60)
        ticking_env.tables.writer.write(OTHERS, ticking_env.database, ticking_env.stored([("d0", 0, 1, None)]))
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        ticking_env.insert([("d0", 0, 1, None)])
        waiting.result(5)
    ticking_env.settle()
    assert handled(ticking_env, plan) == 1


def test_a_job_that_cannot_say_whether_it_is_due_keeps_no_other_from_running(
    ticking_env: StreamEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, broken = create_both(ticking_env)
    ticking_env.settle()
    is_due = StreamRunner.is_due

    def failing(runner: StreamRunner) -> bool:
        if runner.plan.id == broken.id:
            raise RuntimeError("a bug")
        return is_due(runner)

    monkeypatch.setattr(StreamRunner, "is_due", failing)
    ticking_env.insert([("d0", 0, 1, None)])
    ticking_env.settle()
    assert handled(ticking_env, sound) == 1
