"""Crashes: no result is lost or counted twice, at whatever point a driver dies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.errors import FencedError
from headrace.jobs.hosts import Driving
from headrace.model.failpoints import FailpointError, armed, calling
from headrace.model.jobs import JobState
from headrace.runtime.job_host import JobHost
from tests.streams.environment import MICRO_BATCH_FAILPOINTS, Row, StreamEnvironment
from tests.streams.oracle import Options, Oracle

pytestmark = pytest.mark.spark

# This stream counts every write that is not late, so a write that is handled twice shows in the result.
OPTIONS = Options(partition="tbname", ignore_expired=True, ignore_update=True, trigger="window_close", watermark=2000)
WRITES: list[list[Row]] = [
    [("d0", 0, 1, "x"), ("d1", 500, 2, None)],
    [("d0", 0, 3, "x"), ("d0", 11_000, 4, "y")],
    [("d0", 1000, 5, "x"), ("d1", 14_000, 6, None)],
    [("d0", 25_000, 7, None), ("d1", 9_000, 1, None)],
]


@pytest.mark.parametrize("point", MICRO_BATCH_FAILPOINTS)
def test_a_driver_that_dies_anywhere_is_followed_by_one_that_continues(env: StreamEnvironment, point: str) -> None:
    plan, oracle = env.create(OPTIONS.sql("s")), Oracle(OPTIONS)
    for number, write in enumerate(WRITES):
        env.insert(write)
        oracle.insert(write)
        with armed(f"{point}:1:raise" if number else ""):
            try:
                env.settle()
            except FailpointError:
                env.restart()
            else:
                assert number == 0 or point.startswith("storage")
        env.settle()
        assert [row[:6] for row in env.results(plan)] == oracle.results()
    counters = env.record(plan).progress.counters
    assert (counters.rows_used, counters.rows_expired) == (oracle.used, oracle.expired)
    assert oracle.expired > 0


def test_a_driver_that_was_taken_over_cannot_commit(env: StreamEnvironment) -> None:
    plan, oracle = env.create(OPTIONS.sql("s")), Oracle(OPTIONS)
    env.restart(epoch=1)
    for write in WRITES[:2]:
        env.insert(write)
        oracle.insert(write)
        env.settle()
    newer = JobHost(Driving(replace(env.context, epoch=2)))
    newer.reconcile(env.catalog.jobs.all())
    while newer.poll():
        pass
    for write in WRITES[2:]:
        env.insert(write)
        oracle.insert(write)
    with pytest.raises(FencedError):
        env.settle()
    while newer.poll():
        pass
    newer.close()
    assert [row[:6] for row in env.results(plan)] == oracle.results()
    assert env.record(plan).state is JobState.RUNNING


def test_a_driver_that_is_taken_over_in_the_middle_of_a_batch_doubles_nothing(env: StreamEnvironment) -> None:
    plan, oracle = env.create(OPTIONS.sql("s")), Oracle(OPTIONS)
    env.restart(epoch=1)
    for write in WRITES:
        env.insert(write)
        oracle.insert(write)
    newer = JobHost(Driving(replace(env.context, epoch=2)))

    def take_over() -> None:
        newer.reconcile(env.catalog.jobs.all())
        while newer.poll():
            pass

    with calling("streams.state.written", take_over), pytest.raises(FencedError):
        env.settle()
    newer.close()
    assert [row[:6] for row in env.results(plan)] == oracle.results()
    version = env.tables.version(plan.target)
    env.restart(epoch=3)
    env.settle()
    assert [row[:6] for row in env.results(plan)] == oracle.results()
    assert env.tables.version(plan.target) == version + 1, "the fence, and no result a second time"
