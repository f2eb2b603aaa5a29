"""Notifications of histories: sent once if they are asked for, before those of live windows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.history.backfill import fill_history
from headrace.model.failpoints import FailpointError, armed
from tests.streams.environment import START, Row, StreamEnvironment
from tests.streams.receiving import ReceivingServer
from tests.streams.test_notifications import CLOSE, OPEN, QUERY, brief, notify, server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["server"]

pytestmark = pytest.mark.spark

HISTORY: list[Row] = [("d0", 0, 1, "x"), ("d0", 1_000, 2, None), ("d0", 12_000, 2, "x")]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("window", ["interval(10s)", "state_window(a)", "event_window start with a > 0 end with b = 'x'"])
@pytest.mark.parametrize("fault", ["", "history.commit:1:raise"])
def test_the_history_is_sent_before_live_windows_if_asked_for(
    env: StreamEnvironment, server: ReceivingServer, window: str, fault: str
) -> None:
    query = f"select _wstart, count(*) n from readings partition by tbname {window}"
    env.insert(HISTORY)
    plan = env.create(f"create stream s fill_history 1 into t as {query}" + notify(server, options="notify_history 1"))
    with armed(fault), suppress(FailpointError):
        fill_history(env.context, plan.id)
    fill_history(env.context, plan.id)
    env.insert([("d0", 40_000, 3, None), ("d0", 50_000, 1, "x"), ("d0", 60_000, 1, None)])
    env.settle()
    live = [event for event in server.events() if event["windowStart"] - START >= 40_000]
    history = server.events()[: -len(live)]
    expected = {
        "interval(10s)": [(0, 10_000, 2), (10_000, 20_000, 1)],
        "state_window(a)": [(0, 0, 1), (1_000, 12_000, 2)],
        "event_window start with a > 0 end with b = 'x'": [(0, 0, 1), (1_000, 12_000, 2)],
    }[window]
    briefs = [brief(event) for event in history if event["eventType"] == CLOSE]
    assert [event[1:] for event in briefs[: len(expected)]] == expected
    opened = [event["windowStart"] - START for event in history if event["eventType"] == OPEN]
    assert opened == [start for start, _, _ in expected]
    assert live[0]["eventType"] == OPEN
    assert all("curState" not in event or event["curState"] is not None for event in history)


def test_a_large_history_is_sent_once_however_spark_divides_it(
    env: StreamEnvironment, server: ReceivingServer, spark: SparkSession
) -> None:
    env.context = replace(env.context, settings=env.context.settings.replace({"driver_rows": 2}))
    env.insert([(name, second * 1_000, 1, "x") for name in ("d0", "d1", "d2") for second in range(0, 60, 10)])
    query = "select _wstart, count(*) n from readings partition by tbname interval(10s)"
    plan = env.create(f"create stream s fill_history 1 into t as {query}" + notify(server, options="notify_history 1"))
    with armed("history.commit:1:raise"), shuffled(spark, 2), suppress(FailpointError):
        fill_history(env.context, plan.id)
    with shuffled(spark, 5):
        fill_history(env.context, plan.id)
    env.settle()
    closed = [(event["tableName"], event["windowStart"]) for event in server.events() if event["eventType"] == CLOSE]
    assert len(closed) == len(set(closed)) == 18


@contextmanager
def shuffled(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Have Spark shuffle into this many partitions, and merge none of them."""
    values = {"spark.sql.shuffle.partitions": str(partitions), "spark.sql.adaptive.coalescePartitions.enabled": "false"}
    before = {name: spark.conf.get(name) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, previous in before.items():
            spark.conf.set(name, str(previous))


def test_the_history_is_not_sent_unless_asked_for(env: StreamEnvironment, server: ReceivingServer) -> None:
    env.insert(HISTORY)
    plan = env.create(f"create stream s fill_history 1 into t as {QUERY}" + notify(server))
    fill_history(env.context, plan.id)
    env.settle()
    assert len(env.results(plan)) == 2
    assert server.events() == []
