"""A stream is a maintained query, for any order of writes and any cut into batches."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.streams.house import House, house
from tests.streams.oracle import Options, Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FAR = 10_000_000
NUMBERS = itertools.count()

INSTANTS = st.integers(0, 60).map(lambda half: half * 500)
ROWS = st.tuples(st.sampled_from(["d0", "d1", "d2"]), INSTANTS, st.none() | st.integers(0, 9), st.none() | st.sampled_from("xy"))
INSERTS = st.lists(ROWS, min_size=1, max_size=8).map(lambda rows: ("insert", rows))
DELETES = st.tuples(st.sampled_from(["d0", "d1", "d2"]), INSTANTS, st.integers(0, 8000)).map(lambda cut: ("delete", cut))
ACTIONS = st.lists(st.one_of(INSERTS, INSERTS, INSERTS, DELETES, st.just(("poll", None))), min_size=3, max_size=14)
OPTIONS = st.builds(
    Options,
    trigger=st.sampled_from(["at_once", "window_close"]),
    watermark=st.sampled_from([0, 3000, 15_000]),
    ignore_expired=st.booleans(),
    ignore_update=st.booleans(),
    partition=st.sampled_from(["", "tbname", "g", "b", "g, b"]),
    where=st.sampled_from([None, None, 3]),
    sliding=st.sampled_from([None, None, 5000, 3000]),
)


def play(built: House, oracles: list[Oracle], actions: list[tuple[str, Any]]) -> None:
    for verb, what in actions:
        match verb:
            case "insert":
                built.insert(what)
                for oracle in oracles:
                    oracle.insert(what)
            case "delete":
                subtable, first, length = what
                built.delete(subtable, first, first + length)
                for oracle in oracles:
                    oracle.delete(subtable, first, first + length)
            case _:
                built.settle()
    built.settle()


@settings(max_examples=15, deadline=None, derandomize=False, suppress_health_check=list(HealthCheck))
@given(options=st.lists(OPTIONS, min_size=2, max_size=3), actions=ACTIONS)
def test_a_stream_holds_what_its_definition_says_whatever_the_order_and_the_cut(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, options: list[Options], actions: list[tuple[str, Any]]
) -> None:
    home: Path = tmp_path_factory.mktemp(f"maintained{next(NUMBERS)}")
    with house(home, lambda: spark) as built:
        plans = [built.create(one.sql(f"s{number}")) for number, one in enumerate(options)]
        oracles = [Oracle(one) for one in options]
        play(built, oracles, actions)
        for plan, oracle in zip(plans, oracles, strict=True):
            record = built.record(plan)
            assert record.reason is None
            assert [row[:6] for row in built.results(plan)] == oracle.results(), oracle.options
            counters = record.progress.counters
            assert (counters.rows_used, counters.rows_expired, counters.rows_filtered) == (
                oracle.used,
                oracle.expired,
                oracle.filtered,
            ), oracle.options
            assert counters.rows_in == oracle.used + oracle.expired + oracle.filtered


@settings(max_examples=8, deadline=None, derandomize=False, suppress_health_check=list(HealthCheck))
@given(options=st.lists(OPTIONS, min_size=2, max_size=3), actions=ACTIONS)
def test_a_stream_equals_the_query_once_its_windows_are_closed(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, options: list[Options], actions: list[tuple[str, Any]]
) -> None:
    home: Path = tmp_path_factory.mktemp(f"query{next(NUMBERS)}")
    exact = [Options(**{**vars(one), "ignore_expired": False, "ignore_update": False}) for one in options]
    with house(home, lambda: spark) as built:
        plans = [built.create(one.sql(f"s{number}")) for number, one in enumerate(exact)]
        play(built, [], [*actions, ("insert", [("d0", FAR, 9, "x")])])
        for plan, one in zip(plans, exact, strict=True):
            got = [row[:6] for row in built.results(plan) if row[0] < FAR - 60_000]
            assert got == [row for row in built.query(one.query()) if row[0] < FAR - 60_000], one
