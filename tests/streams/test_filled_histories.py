"""FILL in histories and recomputations: gaps are filled across chunks and at the border to the live stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.history import backfill
from headrace.model.failpoints import FailpointError, armed, calling
from headrace.streams.definition.define import StreamPlan
from tests.streams.effort import drawn
from tests.streams.environment import Row, StreamEnvironment, open_environment
from tests.streams.filled import MODES, FillOptions, filled_results
from tests.streams.oracle import Oracle

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STORED: list[Row] = [("d0", 0, 1, "x"), ("d0", 4000, 5, "y"), ("d1", 2000, 3, None), ("d1", 2500, 4, "x"), ("d1", 7000, 9, "y")]
LIVE: list[list[Row]] = [[("d0", 9000, 7, "x")], [("d1", 11_000, 2, "x"), ("d0", 2000, 8, "x")], [("d2", 1000, 1, None)]]

EXPIRED: list[Row] = [("d0", 6000, 3, "z"), ("d0", 1000, 2, "z"), ("d1", 4000, 1, "x")]


FILLS = [
    *drawn([("driver", mode) for mode in MODES], "fills of the driver", 4),
    *drawn([("executors", "linear"), ("executors", "next")], "fills of executors"),
]
SUBTABLE_CHUNKS = drawn([("driver", "linear"), ("executors", "next")], "chunks of subtables")
TIME_CHUNKS = drawn([("driver", "next"), ("executors", "linear")], "chunks of time")
CRASHES = [
    (home, point)
    for point in ("history.evaluate", "history.commit", "history.committed")
    for home in drawn(["driver", "executors"], f"crashes at {point}")
]
RECOMPUTATIONS = [
    *drawn([("driver", "prev"), ("driver", "linear")], "recomputations of the driver"),
    *drawn([("executors", "next"), ("executors", "null")], "recomputations of executors"),
]


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Iterator[StreamEnvironment]:
    """An environment whose histories pass through the driver, or stay with Spark's executors."""
    settings: dict[str, Any] = {} if request.param == "driver" else {"driver_rows": 2}
    with open_environment(tmp_path / "home", lambda: spark, **settings) as env:
        yield env


def create(env: StreamEnvironment, options: FillOptions, history: int = 1) -> StreamPlan:
    return env.create(options.sql("s").replace(" into ", f" fill_history {history} into ", 1))


def play(env: StreamEnvironment, oracle: Oracle, rows: list[Row]) -> None:
    env.insert(rows)
    oracle.insert(rows)


def results(env: StreamEnvironment, plan: StreamPlan) -> list[tuple[object, ...]]:
    assert env.record(plan).reason is None
    return [row[:6] for row in env.results(plan)]


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("home", "mode"), FILLS, indirect=["home"])
def test_a_history_and_the_stream_after_it_are_filled_as_one(home: StreamEnvironment, mode: str) -> None:
    options = FillOptions(fill=mode, length=1000, partition="tbname")
    oracle = Oracle(options)
    play(home, oracle, STORED)
    plan = create(home, options)
    backfill.fill_history(home.context, plan.id)
    assert results(home, plan) == filled_results(oracle, options)
    for rows in LIVE:
        play(home, oracle, rows)
        home.settle()
        assert results(home, plan) == filled_results(oracle, options)
    for cut in ("d0", 4000), ("d1", 2000):
        home.delete(*cut, cut[1] + 999)
        oracle.delete(*cut, cut[1] + 999)
        home.settle()
        assert results(home, plan) == filled_results(oracle, options)


@pytest.mark.parametrize(("home", "mode"), SUBTABLE_CHUNKS, indirect=["home"])
def test_a_history_of_subtables_is_filled_in_chunks(home: StreamEnvironment, mode: str) -> None:
    options = FillOptions(fill=mode, length=1000, partition="tbname")
    oracle = Oracle(options)
    for row in sorted(STORED):
        play(home, oracle, [row])
    play(home, oracle, [("d2", 0, 1, "x"), ("d2", 5000, 2, "y")])
    plan = create(home, options)
    chunks = backfill.plan_chunks(home.context, plan.id, rows=2)
    backfill.fill_history(home.context, plan.id)
    assert [(chunk.first_series, chunk.end_series) for chunk in chunks] == [(None, "d1"), ("d1", "d2"), ("d2", None)]
    assert results(home, plan) == filled_results(oracle, options)
    for rows in LIVE:
        play(home, oracle, rows)
        home.settle()
        assert results(home, plan) == filled_results(oracle, options)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("home", "mode"), TIME_CHUNKS, indirect=["home"])
def test_a_history_of_one_group_is_filled_in_chunks_of_time(home: StreamEnvironment, mode: str) -> None:
    options = FillOptions(fill=mode, length=2000, sliding=1000, where=2)
    oracle = Oracle(options)
    play(home, oracle, STORED)
    play(home, oracle, [("d0", 9000, 1, "x"), ("d1", 20_000, 1, "y")])
    play(home, oracle, [("d1", 22_500, 6, "x"), ("d0", 60_000, 7, "z")])
    plan = create(home, options)
    chunks = backfill.plan_chunks(home.context, plan.id, rows=2)
    backfill.fill_history(home.context, plan.id)
    assert len(chunks) > 3
    assert results(home, plan) == filled_results(oracle, options)
    play(home, oracle, [("d1", 64_000, 2, "x"), ("d0", 15_000, 9, "x")])
    home.settle()
    assert results(home, plan) == filled_results(oracle, options)


@pytest.mark.parametrize(("home", "point"), CRASHES, indirect=["home"])
def test_a_history_is_filled_once_if_its_process_dies(home: StreamEnvironment, point: str) -> None:
    options = FillOptions(fill="linear", length=1000)
    oracle = Oracle(options)
    play(home, oracle, STORED)
    plan = create(home, options)
    with armed(f"{point}:1:raise"), pytest.raises(FailpointError):
        backfill.fill_history(home.context, plan.id)
    backfill.fill_history(home.context, plan.id)
    assert results(home, plan) == filled_results(oracle, options)


def recomputed_stream(env: StreamEnvironment, mode: str) -> tuple[StreamPlan, Oracle, FillOptions]:
    """Return a stream that has ignored expired rows, and what it has once they are included."""
    options = FillOptions(fill=mode, length=1000, partition="tbname", ignore_expired=True)
    whole = Oracle(replace(options, ignore_expired=False))
    plan = create(env, options, history=0)
    for rows in (STORED, *LIVE, EXPIRED):
        play(env, whole, rows)
        env.settle()
    assert results(env, plan) != filled_results(whole, options)
    return plan, whole, options


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("home", "mode"), RECOMPUTATIONS, indirect=["home"])
def test_a_recomputation_in_chunks_fills_the_gaps_between_them(home: StreamEnvironment, mode: str) -> None:
    plan, whole, options = recomputed_stream(home, mode)
    chunks = backfill.recompute(home.context, plan.id, "manual", None, None, rows=2)
    assert len(chunks) > 2
    assert results(home, plan) == filled_results(whole, options)
    play(home, whole, [("d0", 14_000, 1, "x"), ("d1", 15_000, 1, "x")])
    home.settle()
    assert results(home, plan) == filled_results(whole, options)


def test_a_recomputation_fills_gaps_again_if_the_live_stream_commits_first(env: StreamEnvironment) -> None:
    plan, whole, options = recomputed_stream(env, "next")
    late: list[list[Row]] = [[("d0", 20_000, 1, "x")], [("d1", 20_000, 1, "x")]]

    def interfere() -> None:
        """Let the live stream extend the gap behind the chunk between its evaluation and its commit."""
        if late:
            play(env, whole, late.pop())
            env.settle()

    with calling("history.commit", interfere):
        backfill.recompute(env.context, plan.id, "manual", None, None)
    play(env, whole, late.pop() if late else [("d2", 20_000, 1, "x")])
    env.settle()
    assert results(env, plan) == filled_results(whole, options)
