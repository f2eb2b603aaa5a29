"""Rows that are set aside before the history of a stream is computed, and ranges that are recomputed without such rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.history.backfill import fill_history, recompute
from headrace.model.quarantine import QuarantineCode
from headrace.streams.quarantine.quarantine import QuarantineFullError
from tests.streams.environment import START, StreamEnvironment
from tests.streams.set_aside import BAD, HOUR, LENGTHS, SUMS, counters, held, replay, windows


@pytest.mark.spark
def test_a_history_leaves_out_rows_too_far_ahead_of_the_clock(env: StreamEnvironment) -> None:
    env.insert([("d0", 0, 1, None), ("d1", 5 * HOUR, 9, None), ("d1", 10_000, 2, None)])
    plan = env.create(f"create stream s max_ahead 1h fill_history 1 {SUMS}")
    fill_history(env.context, plan.id)
    env.insert([("d0", 21_000, 4, None)])
    env.settle()
    assert env.record(plan).progress.watermark == START + 21_000
    (row,) = held(env, plan)
    assert (row.code, row.key.series, row.values["a"]) == (QuarantineCode.FUTURE, "d1", 9)
    assert windows(env, plan) == [(0, 1, 1), (10_000, 1, 2)]
    assert (counters(env, plan).rows_in, counters(env, plan).rows_used, counters(env, plan).rows_quarantined) == (2, 1, 1)
    env.clock.advance(5 * HOUR)
    replay(env, plan)
    env.insert([("d0", 6 * HOUR, 4, None)])
    env.settle()
    assert windows(env, plan)[-1] == (5 * HOUR, 1, 9)
    assert (counters(env, plan).rows_in, counters(env, plan).rows_used, counters(env, plan).rows_quarantined) == (3, 3, 0)


@pytest.mark.spark
def test_a_history_with_too_many_rows_ahead_of_the_clock_fails(env: StreamEnvironment) -> None:
    env.context = replace(env.context, settings=env.context.settings.replace({"quarantine_rows": 1}))
    env.insert([("d0", 5 * HOUR, 1, None), ("d1", 5 * HOUR, 9, None)])
    plan = env.create(f"create stream s max_ahead 1h fill_history 1 {SUMS}")
    with pytest.raises(QuarantineFullError, match="2 stored ones are too far ahead"):
        fill_history(env.context, plan.id)


@pytest.mark.spark
def test_a_range_that_is_recomputed_does_not_have_the_rows_in_quarantine(env: StreamEnvironment) -> None:
    plan = env.create(f"create stream s {LENGTHS} interval(10s)")
    env.insert([("d0", 0, 1, "1"), ("d1", 1000, 2, BAD), ("d0", 60_000, 3, "1")])
    env.settle()
    env.tables.writer.delete(plan.target, plan.target_database, tbnames=None, ranges=None)
    assert windows(env, plan) == []
    recompute(env.context, plan.id, "again", None, None)
    assert windows(env, plan) == [(0, 1, 1)]
