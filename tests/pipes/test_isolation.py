"""A receiver that hangs: the other pipes and streams of its driver go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import headrace
from headrace.pipes import events
from headrace.pipes.kind import PIPE
from headrace.runtime.driver import Driver
from headrace.runtime.metrics import Histogram
from headrace.settings import load
from tests.pipes.recording import RECORDERS, recording_sinks
from tests.support.waiting import wait_until

HUNG = 20
OTHERS = ("one", "two", "three")
ROUNDS = 5


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    with recording_sinks(), headrace.connect(dialect="iotdb", settings=load(home=tmp_path / "home")) as opened:
        yield opened


@pytest.fixture
def tables(connection: headrace.Connection) -> Iterator[headrace.Connection]:
    with headrace.connect(dialect="tdengine", settings=connection.session.context.settings) as opened:
        for sql in (
            "CREATE DATABASE power",
            "CREATE TABLE power.readings (ts TIMESTAMP, v DOUBLE)",
            "CREATE STREAM power.counts TRIGGER AT_ONCE INTO power.counted "
            "AS SELECT _wstart, count(*) n FROM power.readings INTERVAL(1s)",
        ):
            opened.execute(sql)
        yield opened


def test_a_sink_that_hangs_holds_up_nothing_else(connection: headrace.Connection, tables: headrace.Connection) -> None:
    connection.execute("insert into root.plant.d(time, a) values (0, 0)")
    pipes = {f"hung{number}": "hung" for number in range(HUNG)} | {name: name for name in OTHERS}
    for pipe, name in pipes.items():
        connection.execute(
            f"create pipe {pipe} with source ('path'='root.plant.**') with sink ('sink'='recording-sink', 'name'='{name}')"
        )
    hung = RECORDERS["hung"]
    hung.continues.clear()
    context = replace(connection.session.context, epoch=0)
    driver = Driver(context, context.settings.snode, fills=True, batches=Histogram(), ended=lambda: None)
    driver.start()
    try:
        wait_until(hung.hangs.is_set, "the sink to hang")
        for number in range(1, ROUNDS + 1):
            connection.execute(f"insert into root.plant.d(time, a) values ({number}, {number})")
            tables.execute(f"insert into power.readings values ({number * 1000}, 1)")
            wait_until(lambda: all(rows_of(name) == number + 1 for name in OTHERS), "the other pipes")  # noqa: B023
            wait_until(lambda: windows(tables) == number, "the stream")  # noqa: B023
        assert rows_of("hung") == 0
        hung_ids = {context.catalog.jobs.get("", name, PIPE).definition.id for name in pipes if pipes[name] == "hung"}
        assert any(activity.in_flight_ms > 0 for id, activity in driver.activity().items() if id in hung_ids)
        hung.continues.set()
        wait_until(lambda: rows_of("hung") == HUNG * (ROUNDS + 1), "the rows that waited")
    finally:
        hung.continues.set()
        assert driver.stop(600)
    assert driver.failure is None


def rows_of(name: str) -> int:
    """Return how many rows the pipes of a sink have delivered."""
    deliveries = list(RECORDERS[name].deliveries)
    return sum(map(events.rows_of, (event for delivery in deliveries for event in delivery.events)))


def windows(connection: headrace.Connection) -> int:
    """Return how many windows the stream has written."""
    context = connection.session.context
    return context.tables.rows(context.catalog.tables.get("power", "counted"))
