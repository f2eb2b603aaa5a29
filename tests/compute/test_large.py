"""Strategies for large tables return the same rows."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace.compute import Scan, TableStatistics, evaluate
from headrace.compute.evaluation import surrogate_keys
from headrace.compute.windows import states
from tests.compute.samples import METERS, answer, frame, plan

pytestmark = pytest.mark.spark

ROWS = st.lists(
    st.tuples(st.sampled_from(["d1", "d2"]), st.integers(0, 200), st.none() | st.integers(0, 3)), min_size=10, max_size=80
)
STATES = (
    "select tbname, _wstart, _wend, a, count(*), sum(b), first(b), last(b), max(d) from meters partition by tbname state_window(a)",
    "select site, tbname, _wstart, count(*), avg(b) from meters where b > 9 partition by tbname, site state_window(s) true_for(2s)",
    "select _wstart, _wend, count(*), spread(b), max(b) from d1 state_window(a) order by 1 desc limit 5",
)
SELECTED = "select tbname, concat(tbname, '!'), site, _wstart, count(*) n, sum(b), last(b), percentile(b, 50) from meters"
WINDOWS = (
    "interval(10s)",
    "interval(10s) sliding(5s)",
    "interval(10s) fill(prev)",
    "session(ts, 2s)",
    "state_window(a)",
    "event_window start with a > 1 end with a < 2",
    "count_window(3)",
    "count_window(5, 2)",
)


@dataclass(frozen=True)
class Statistics:
    """Facts about `meters` with rows so far apart."""

    spacing: int

    def size(self, scan: Scan) -> TableStatistics:
        assert scan.table is METERS
        return TableStatistics(self.spacing, self.subtables(scan).select(["tbname"]))

    def subtables(self, scan: Scan) -> pa.Table:
        assert scan.table is METERS
        return pa.table({"tbname": ["d1", "d2"], "site": ["d1", "d2"]})


def rows_of(readings: Sequence[tuple[str, int, int | None]]) -> list[dict[str, Any]]:
    unique = {(tbname, at): a for tbname, at, a in readings}
    return [
        {"tbname": tbname, "ts": at * 500, "a": a, "b": at, "d": at / 3, "s": None if a is None else "xyz"[a % 3], "site": tbname}
        for (tbname, at), a in unique.items()
    ]


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    readings=ROWS,
    spacing=st.sampled_from([1, 30, 200, 1_000, 100_000]),
    max_buckets=st.sampled_from([2, 0, states.MAX_MIXED_BUCKETS]),
)
def test_runs_merged_from_time_buckets_equal_runs_of_rows(
    small: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    readings: list[tuple[str, int, int | None]],
    spacing: int,
    max_buckets: int,
) -> None:
    monkeypatch.setattr(states, "MAX_MIXED_BUCKETS", max_buckets)
    rows = frame(small, METERS, rows_of(readings))
    for query in STATES:
        assert answer(query, rows, statistics=Statistics(spacing)) == answer(query, rows), query


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(readings=ROWS)
def test_surrogate_keys_give_the_same_windows_as_names(small: SparkSession, readings: list[tuple[str, int, int | None]]) -> None:
    rows = frame(small, METERS, rows_of(readings))
    queries = [f"{SELECTED} partition by tbname, site {window}" for window in WINDOWS]
    queries += [
        "select tbname, count(*), max(b) from meters group by tbname having count(*) > 1 order by tbname desc",
        "select site, count(*) from (select site, count(*) from meters partition by tbname, site interval(3s)) group by site",
    ]
    for query in queries:
        assert answer(query, rows, statistics=Statistics(500)) == answer(query, rows), query


def test_names_are_used_if_two_share_a_surrogate_key(small: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surrogate_keys, "HASH", "length")
    rows = frame(small, METERS, rows_of([("d1", at, at // 7) for at in range(20)] + [("d2", at, 1) for at in range(20)]))
    query = "select tbname, sum(b) from meters partition by tbname interval(1d)"
    assert answer(query, rows, statistics=Statistics(500)) == answer(query, rows) == [("d1", 190), ("d2", 190)]


def test_cached_frames_are_freed_with_the_result(small: SparkSession) -> None:
    cached = small.sparkContext._jsc.getPersistentRDDs
    gc.collect()
    before = cached().size()
    rows = frame(small, METERS, rows_of([("d1", at, at // 7) for at in range(60)]))
    result = evaluate(plan(STATES[0]), rows, statistics=Statistics(500))
    assert result.count() == 9
    assert cached().size() > before
    del result
    gc.collect()
    assert cached().size() == before
