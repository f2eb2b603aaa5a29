"""STATE windows of many rows, by stretches of time: the same windows as row by row."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace.compute import evaluate, runs
from tests.compute.house import METERS, answer, frame, plan

pytestmark = pytest.mark.spark

ROWS = st.lists(st.tuples(st.sampled_from(["d1", "d2"]), st.integers(0, 200), st.none() | st.integers(0, 3)), max_size=80)
QUERIES = (
    "select tbname, _wstart, _wend, a, count(*), sum(b), first(b), last(b), max(d) from meters partition by tbname state_window(a)",
    "select site, tbname, _wstart, count(*), avg(b) from meters where b > 9 partition by tbname, site state_window(s) true_for(2s)",
    "select _wstart, _wend, count(*), spread(b), stddev(b) from d1 state_window(a) order by 1 desc limit 5",
)


def rows_of(given_: list[tuple[str, int, int | None]]) -> list[dict[str, Any]]:
    unique = {(tbname, at): a for tbname, at, a in given_}
    return [
        {"tbname": tbname, "ts": at * 500, "a": a, "b": at, "d": at / 3, "s": None if a is None else "xyz"[a % 3], "site": tbname}
        for (tbname, at), a in unique.items()
    ]


@pytest.mark.parametrize("most", [runs.MOST_MIXED, 2, 0])
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(found=ROWS, spacing=st.sampled_from([1, 30, 200, 1_000, 100_000]))
def test_runs_made_of_stretches_are_those_made_of_rows(
    small: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int, found: list[tuple[str, int, int | None]], spacing: int
) -> None:
    monkeypatch.setattr(runs, "MOST_MIXED", most)
    rows = frame(small, METERS, rows_of(found))
    for query in QUERIES:
        assert answer(query, rows, spacing=lambda _: spacing) == answer(query, rows), query


def test_what_was_cached_is_given_up_with_the_result(small: SparkSession) -> None:
    cached = small.sparkContext._jsc.getPersistentRDDs
    result = evaluate(
        plan(QUERIES[0]), frame(small, METERS, rows_of([("d1", at, at // 7) for at in range(60)])), spacing=lambda _: 500
    )
    assert result.count() == 9
    assert not cached().isEmpty()
    del result
    gc.collect()
    assert cached().isEmpty()
