"""Notes of windows that were computed again, or for which rows came too late, in the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.model.window_notes import WindowNote
from headrace.runtime.stream_metrics import StreamSampler
from headrace.streams.windows.notes import MAX_NOTES
from tests.streams.environment import START, StreamEnvironment, open_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = (
    "create stream s trigger window_close {options} into out as select _wstart, count(*) n from readings "
    "partition by tbname {window}"
)


@pytest.fixture
def env(tmp_path: Path) -> Iterator[StreamEnvironment]:
    def no_spark() -> SparkSession:
        raise AssertionError("nothing here needs Spark")

    with open_environment(tmp_path / "home", no_spark) as environment:
        yield environment


def noted(env: StreamEnvironment, sampler: StreamSampler, job_id: str) -> list[tuple[int, int, int, int]]:
    """Return start and end of noted windows in ms after `START`, how often they were computed again, and their late rows."""
    env.settle()
    assert env.pollers is not None
    env.clock.advance(10_000)
    sampler.take(env.pollers, env.catalog.jobs.all())
    notes = env.catalog.window_notes.all(job_id)
    return [(note.start - START, note.end - START, note.recalculated, note.late_rows) for note in notes]


def test_windows_are_noted_that_late_rows_change_or_miss(env: StreamEnvironment) -> None:
    plan = env.create(COUNTS.format(options="ignore expired 0", window="interval(10s)"))
    sampler = StreamSampler(env.context)
    env.insert([("d0", 1_000, 1, None), ("d0", 30_000, 1, None)])
    assert noted(env, sampler, plan.id) == []
    env.insert([("d0", 2_000, 1, None)])
    assert noted(env, sampler, plan.id) == [(0, 9_999, 1, 0)]
    env.insert([("d0", 3_000, 1, None), ("d0", 11_000, 1, None)])
    assert sorted(noted(env, sampler, plan.id)) == [(0, 9_999, 2, 0), (10_000, 19_999, 1, 0)]


def test_expired_rows_are_counted_by_window(env: StreamEnvironment) -> None:
    plan = env.create(COUNTS.format(options="ignore expired 1", window="interval(10s)"))
    sampler = StreamSampler(env.context)
    env.insert([("d0", 1_000, 1, None), ("d0", 30_000, 1, None)])
    env.insert([("d0", 2_000, 1, None), ("d0", 3_000, 1, None), ("d0", 12_000, 1, None)])
    assert sorted(noted(env, sampler, plan.id)) == [(0, 9_999, 0, 2), (10_000, 19_999, 0, 1)]
    assert env.record(plan).progress.counters.rows_expired == 3


def test_rows_that_are_too_late_for_a_session_are_noted_at_their_time(env: StreamEnvironment) -> None:
    plan = env.create(COUNTS.format(options="ignore expired 1", window="session(ts, 5s)"))
    sampler = StreamSampler(env.context)
    env.insert([("d0", 1_000, 1, None), ("d0", 30_000, 1, None)])
    env.insert([("d0", 2_000, 1, None)])
    assert noted(env, sampler, plan.id) == [(2_000, 2_000, 0, 1)]


def test_the_notes_of_a_stream_stay_few_and_outlive_its_runner(env: StreamEnvironment) -> None:
    plan = env.create(COUNTS.format(options="ignore expired 0", window="interval(10s)"))
    sampler = StreamSampler(env.context)
    env.insert([("d0", 4_000_000, 1, None)])
    env.settle()
    for first in range(0, 120 * 10_000, 100_000):
        env.insert([("d0", first + offset, 1, None) for offset in range(0, 100_000, 10_000)])
        env.settle()
    assert len(noted(env, sampler, plan.id)) == MAX_NOTES
    last = env.catalog.window_notes.all(plan.id)[-1]
    env.restart()
    env.insert([("d0", last.start - START + 1, 1, None)])
    sampler = StreamSampler(env.context)
    notes = noted(env, sampler, plan.id)
    assert len(notes) == MAX_NOTES
    assert notes[-1] == (last.start - START, last.end - START, 2, 0)
    assert isinstance(last, WindowNote)
