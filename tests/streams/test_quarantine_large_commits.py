"""Rows of large commits that a stream sets aside without reading the commit as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.streams.runner import state_store
from tests.streams.environment import START, StreamEnvironment, open_profile
from tests.streams.set_aside import BAD, HOUR, LENGTHS, SUMS, counters, crash, held, windows
from tests.streams.state_files import remove_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WAYS = {
    "mixed": "interval(10s)",
    "by series": "partition by tbname interval(10s)",
    "in order": "partition by tbname count_window(2)",
}


@pytest.fixture
def large(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Iterator[StreamEnvironment]:
    """An environment in which each commit is large: it is read in pieces of three rows, and never as a whole."""
    with open_profile(getattr(request, "param", "pieces"), tmp_path / "home", spark) as env:
        yield env


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("large", "way"), [*(("pieces", way) for way in WAYS), ("wide", "by series")], indirect=["large"])
def test_rows_of_a_large_commit_that_are_too_far_ahead_are_set_aside_in_pieces(large: StreamEnvironment, way: str) -> None:
    env = large
    count = f"into sums as select _wstart, count(*) n, sum(a) total from readings {WAYS[way]}"
    plan = env.create(f"create stream s trigger at_once watermark 1d max_ahead 1h {count}")
    env.insert([(f"d{number % 3}", 1000 * number, 1, None) for number in range(20)] + [("d1", 5 * HOUR, 9, None)])
    env.settle()
    assert (env.record(plan).reason, env.record(plan).progress.watermark) == (None, START + 19_000 - 24 * HOUR)
    assert [row.key.time for row in held(env, plan)] == [START + 5 * HOUR]
    assert sum(count for _, count, _ in windows(env, plan)) == 20
    counts = counters(env, plan)
    assert (counts.rows_in, counts.rows_used, counts.rows_quarantined) == (21, 20, 1)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("way", WAYS)
def test_only_the_rows_of_a_large_commit_that_fail_are_set_aside(large: StreamEnvironment, way: str) -> None:
    env = large
    env.context = replace(env.context, settings=env.context.settings.replace({"kernels": "auto"}))
    plan = env.create(f"create stream s trigger at_once watermark 1d {LENGTHS} {WAYS[way]}")
    env.insert([(f"d{number % 3}", 1000 * number, number, BAD if number in (4, 11) else "1") for number in range(14)])
    env.settle()
    assert env.record(plan).reason is None
    assert {row.values["a"] for row in held(env, plan)} == {4, 11}
    assert sum(count for _, count, _ in windows(env, plan)) == 12


@pytest.mark.parametrize("point", ["streams.quarantine.committed", "storage.committed"])
def test_rows_of_a_large_commit_are_set_aside_exactly_once(large: StreamEnvironment, point: str) -> None:
    env = large
    plan = env.create(f"create stream s trigger at_once max_ahead 1h {SUMS.replace('interval', 'partition by tbname interval')}")
    env.insert([("d0", 0, 1, None), ("d0", 1000, 1, None), ("d1", 5 * HOUR, 9, None), ("d1", 0, 4, None)])
    crash(env, point)
    env.settle()
    assert sorted(total for _, _, total in windows(env, plan)) == [2, 4]
    assert (len(held(env, plan)), counters(env, plan).rows_quarantined) == (1, 1)
    remove_state(state_store(env.context, plan.id), "*1-*.state")
    env.restart()
    env.insert([("d0", 2000, 1, None)])
    env.settle()
    assert (sorted(total for _, _, total in windows(env, plan)), len(held(env, plan))) == ([3, 4], 1)
