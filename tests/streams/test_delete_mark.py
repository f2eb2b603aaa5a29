"""State behind DELETE_MARK."""

from __future__ import annotations

import pytest

from headrace.streams.runner import state_store
from tests.streams.environment import StreamEnvironment

pytestmark = pytest.mark.spark


def test_state_behind_the_delete_mark_is_dropped_for_good(env: StreamEnvironment) -> None:
    sql = (
        "create stream s trigger at_once delete_mark 30s into out as select _wstart, count(*) n, sum(a) x from readings "
        "partition by tbname interval(10s)"
    )
    plan = env.create(sql)
    env.insert([(name, second * 1000, 1, None) for name in ("d0", "d1", "d2") for second in range(0, 60, 10)])
    env.settle()
    before = state_store(env.context, plan.id).read(1)
    env.insert([("d0", 200_000, 1, None)])
    env.settle()
    after = state_store(env.context, plan.id).read(2)
    assert before is not None
    assert before.windows is not None
    assert after is not None
    assert after.windows is not None
    assert (before.windows.num_rows, before.max_event_time_by_subtable.num_rows) == (12, 3)
    assert (after.windows.num_rows, after.max_event_time_by_subtable.num_rows) == (1, 1)
    env.insert([("d1", 61_000, 1, None)])
    env.settle()
    assert env.record(plan).progress.counters.rows_expired == 1
    assert (60_000, 1, 1) not in [row[:3] for row in env.results(plan)]


def test_rows_behind_the_delete_mark_are_read_again_if_none_expire(env: StreamEnvironment) -> None:
    sql = (
        "create stream s trigger at_once ignore expired 0 delete_mark 10s into out as "
        "select _wstart, count(*) n, sum(a) total from readings interval(10s)"
    )
    plan = env.create(sql)
    for points in ([(1000, 1), (2000, 2)], [(100_000, 4)], [(3000, 8)]):
        env.insert([("d0", ts, a, None) for ts, a in points])
        env.settle()
    assert [row[:3] for row in env.results(plan)] == [(0, 3, 11), (100_000, 1, 4)]
