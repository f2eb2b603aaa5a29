"""Samples of streams: what is measured, when, and for how long it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.stream_metrics import StreamSampler
from headrace.streams.runner import state_store
from tests.streams.environment import READINGS, StreamEnvironment, open_environment
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUMS = "create stream {name} trigger at_once into {name}_out as select _wstart, count(*) n from readings interval(10s)"


@pytest.fixture
def env(tmp_path: Path) -> Iterator[StreamEnvironment]:
    def no_spark() -> SparkSession:
        raise AssertionError("nothing here needs Spark")

    with open_environment(tmp_path / "home", no_spark, metrics_keep_s=60) as environment:
        yield environment


def take(env: StreamEnvironment, sampler: StreamSampler) -> None:
    assert env.pollers is not None
    sampler.take(env.pollers, env.catalog.jobs.all())


def test_a_sample_says_what_a_stream_did_since_the_one_before(env: StreamEnvironment) -> None:
    plan, sampler = env.create(SUMS.format(name="s")), StreamSampler(env.context)
    env.insert([("d0", 0, 1, None)])
    env.settle()
    take(env, sampler)
    env.clock.advance(10_000)
    for number in range(3):
        env.insert([("d0", 1000 + number, 1, None), ("d0", 20_000 + number, 1, None)])
        env.settle()
    take(env, sampler)
    first, second = env.catalog.stream_metrics.all(plan.id)
    assert (first.batches, second.batches) == (1, 3)
    assert (second.rows_in_s, second.rows_behind, second.lag_ms) == (0.6, 0, 0)
    assert (second.state_windows, second.event_lag_ms) == (2, 10_000 - 20_002)
    assert second.state_bytes > 0
    parts = [second.read_ms, second.compute_ms, second.checkpoint_ms, second.write_ms, second.record_ms]
    assert all(part is not None and part > 0 for part in parts)
    assert second.batch_ms == pytest.approx(sum(part or 0 for part in parts), abs=0.01)


def test_the_size_of_the_state_falls_with_the_delete_mark(env: StreamEnvironment) -> None:
    statement = SUMS.replace("at_once", "at_once delete_mark 30s").replace("interval", "partition by tbname interval")
    plan, sampler = env.create(statement.format(name="s")), StreamSampler(env.context)
    env.insert([(f"d{number}", second * 1000, 1, None) for number in range(100) for second in range(0, 60, 10)])
    env.settle()
    take(env, sampler)
    env.clock.advance(10_000)
    env.insert([("d0", 300_000, 1, None)])
    env.settle()
    take(env, sampler)
    before, after = env.catalog.stream_metrics.all(plan.id)
    assert (before.state_windows, after.state_windows) == (400, 1)
    assert after.state_bytes * 50 < before.state_bytes
    sizes = [path.stat().st_size for path in sorted(Path(state_store(env.context, plan.id).folder).glob("*.state"))]
    assert sizes[-1] * 5 < sizes[-2]


def test_an_idle_stream_has_no_durations(env: StreamEnvironment) -> None:
    plan, sampler = env.create(SUMS.format(name="s")), StreamSampler(env.context)
    env.insert([("d0", 0, 1, None)])
    for _ in range(2):
        env.settle()
        take(env, sampler)
        env.clock.advance(10_000)
    sample = env.catalog.stream_metrics.all(plan.id)[-1]
    assert (sample.batches, sample.batch_ms, sample.compute_ms, sample.rows_in_s) == (0, None, None, 0)


def test_samples_of_all_streams_are_taken_at_intervals_and_kept_for_a_while(env: StreamEnvironment) -> None:
    plans = [env.create(SUMS.format(name=name)) for name in ("s", "t")]
    sampler = StreamSampler(env.context)
    env.insert([("d0", 0, 1, None)])
    env.settle()
    for _ in range(12):
        take(env, sampler)
        env.clock.advance(5_000)
    samples = env.catalog.stream_metrics.all()
    assert [sample.job_id for sample in samples[:2]] == sorted(plan.id for plan in plans)
    assert len({sample.time for sample in samples}) == 6
    env.clock.advance(60_000)
    take(env, sampler)
    assert len(env.catalog.stream_metrics.all()) == 2


def test_old_samples_are_joined_when_new_ones_are_taken(tmp_path: Path) -> None:
    def no_spark() -> SparkSession:
        raise AssertionError("nothing here needs Spark")

    with open_environment(tmp_path / "kept", no_spark) as env:
        plan, sampler = env.create(SUMS.format(name="s")), StreamSampler(env.context)
        env.insert([("d0", 0, 1, None)])
        env.settle()
        for _ in range(6):
            take(env, sampler)
            env.clock.advance(10_000)
        minutes = {sample.time // 60_000 for sample in env.catalog.stream_metrics.all(plan.id)}
        env.clock.advance(3 * 3_600_000)
        take(env, sampler)
        *joined, newest = env.catalog.stream_metrics.all(plan.id)
        assert [sample.time // 60_000 for sample in joined] == sorted(minutes)
        assert (newest.time - joined[-1].time, joined[-1].rows_used) == (3 * 3_600_000 + 10_000, 1)


def test_a_sample_does_not_wait_for_a_source_that_hangs(env: StreamEnvironment) -> None:
    plan, sampler = env.create(SUMS.format(name="s")), StreamSampler(env.context)
    env.insert([("d0", 0, 1, None)])
    env.settle()
    env.insert([("d0", 1000, 1, None), ("d0", 2000, 1, None)])
    assert env.pollers is not None
    (poller,) = env.pollers._groups
    assert poller.reader.read_after(env.record(plan).offsets or {}, ()) is not None, "as for a micro-batch in flight"
    poller.read(env.pollers.jobs, None)
    env.clock.advance(10 * 365 * 86_400_000)  # the tables' clock is not the test's
    with ThreadPoolExecutor() as pool, env.tables._handles.reader(READINGS)._mutex:  # as if the storage did not answer
        taken = pool.submit(take, env, sampler)
        wait_until(taken.done, "the sample", bound_s=60)
    taken.result()
    (sample,) = env.catalog.stream_metrics.all(plan.id)
    assert sample.lag_ms > 0
    assert sample.rows_behind == 2


def test_without_an_interval_there_are_no_samples(env: StreamEnvironment) -> None:
    env.context = replace(env.context, settings=env.context.settings.replace({"metrics_interval_s": 0}))
    env.create(SUMS.format(name="s"))
    env.insert([("d0", 0, 1, None)])
    env.settle()
    take(env, StreamSampler(env.context))
    assert env.catalog.stream_metrics.all() == []


def test_a_runner_that_takes_over_starts_to_count_anew(env: StreamEnvironment) -> None:
    plan, sampler = env.create(SUMS.format(name="s")), StreamSampler(env.context)
    for number in range(2):
        env.insert([("d0", number, 1, None)])
        env.settle()
        take(env, sampler)
        env.restart()
        env.clock.advance(10_000)
    assert [sample.batches for sample in env.catalog.stream_metrics.all(plan.id)] == [1, 1]


def test_samples_of_two_processes_at_the_same_moment_are_one(env: StreamEnvironment) -> None:
    plan = env.create(SUMS.format(name="s"))
    env.insert([("d0", 0, 1, None)])
    env.settle()
    for _ in range(2):
        take(env, StreamSampler(env.context))
    assert [sample.batches for sample in env.catalog.stream_metrics.all(plan.id)] == [1]
