"""Windows that depend on the order of rows are maintained as INTERVAL ones are: the stream equals the query."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.streams.house import House, house
from tests.streams.test_maintained import ACTIONS, FAR, play

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NUMBERS = itertools.count()
SELECT = "select _wstart ws, last(ts) newest, count(*) n, sum(a) total, max(b) top from readings"
WINDOWS = {
    "session": ["session(ts, 2s)", "partition by tbname session(ts, 1500a)", "partition by g session(ts, 1s)"],
    "state": ["partition by tbname state_window(a)", "where a > 2 partition by tbname state_window(b)"],
    "event": [
        "partition by tbname event_window start with a > 5 end with a < 3",
        "partition by tbname event_window start with b = 'x' end with a > 6",
    ],
    "count": ["partition by tbname count_window(3)", "partition by tbname count_window(4, 2)"],
}


def statement(name: str, trigger: str, clause: str) -> str:
    options = "watermark 100s" if "count_window" in clause else "watermark 3s ignore expired 0"
    return f"create stream {name} trigger {trigger} {options} ignore update 0 into out_{name} as {SELECT} {clause}"


@pytest.mark.parametrize("kind", WINDOWS)
@settings(max_examples=3, deadline=None, derandomize=False, suppress_health_check=list(HealthCheck))
@given(actions=ACTIONS)
def test_a_stream_of_any_window_equals_the_query(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, kind: str, actions: list[tuple[str, Any]]
) -> None:
    home: Path = tmp_path_factory.mktemp(f"{kind}{next(NUMBERS)}")
    with house(home, lambda: spark) as built:
        sources = list(itertools.product(WINDOWS[kind], ("at_once", "window_close")))
        plans = [built.create(statement(f"s{number}", trigger, clause)) for number, (clause, trigger) in enumerate(sources)]
        play(built, [], actions)
        check(
            built, [(plan, clause) for plan, (clause, trigger) in zip(plans, sources, strict=True) if trigger == "at_once"], FAR * 2
        )
        closing = [(name, FAR + place, 9, "x") for name in ("d0", "d1", "d2") for place in (0, 200_000)]
        play(built, [], [("insert", closing)])
        check(built, [(plan, clause) for plan, (clause, _) in zip(plans, sources, strict=True)], FAR - 10_000)


def check(built: House, streams: list[tuple[Any, str]], before: int) -> None:
    """The windows that ended before an instant: the rows that close others may be in windows that began long ago."""
    for plan, clause in streams:
        assert built.record(plan).reason is None
        got = [row[:5] for row in built.results(plan) if row[1] < before]
        assert got == [row for row in built.query(f"{SELECT} {clause}") if row[1] < before], clause
