"""Pipes in the driver of an snode: `settle` waits for them, and what a user asks for happens there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

import headrace
from headrace.model.jobs import JobState
from headrace.pipes.kind import PIPE
from headrace.runtime.driver import Driver
from headrace.runtime.metrics import Histogram
from headrace.settings import load
from tests.support.waiting import wait_until

GRACE_S = 30.0


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    """A connection to a home whose snode has a driver in this process."""
    settings = load(home=tmp_path / "home", heartbeat_ms=100)
    with headrace.connect(dialect="iotdb", settings=settings) as opened:
        context = opened.session.context
        lease = context.catalog.leases.acquire(settings.snode, "test", 600_000)
        assert lease is not None
        driver = Driver(replace(context, epoch=lease.epoch), settings.snode, fills=True, batches=Histogram(), ended=lambda: None)
        driver.start()
        yield opened
        assert driver.stop(GRACE_S)
        assert driver.failure is None
        context.catalog.leases.release(lease)


def rows_of(folder: Path) -> int:
    return int(DeltaTable(str(folder)).to_pyarrow_table().num_rows)


def test_a_driver_transfers_what_is_written_until_the_pipe_is_stopped(connection: headrace.Connection, tmp_path: Path) -> None:
    table, jobs = tmp_path / "table", connection.session.context.catalog.jobs
    connection.execute("insert into root.a.d(time, s) values (1, 1)")
    sink = f"'sink'='delta-sink', 'uri'='{table}'"
    connection.execute(f"create pipe p with source ('path'='root.a.**') with sink ({sink})")
    connection.settle()
    assert rows_of(table) == 1
    connection.execute("insert into root.a.d(time, s) values (2, 2), (3, 3)")
    connection.settle()
    assert rows_of(table) == 3
    connection.execute("stop pipe p")
    wait_until(lambda: jobs.get("", "p", PIPE).state is JobState.PAUSED, "the pipe is stopped")
    connection.execute("insert into root.a.d(time, s) values (4, 4)")
    connection.settle()
    assert rows_of(table) == 3
    connection.execute("start pipe p")
    connection.settle()
    assert rows_of(table) == 4
    connection.execute("drop pipe p")
    wait_until(lambda: jobs.find("", "p", PIPE) is None, "the pipe is removed")


def test_a_snapshot_is_removed_by_the_driver(connection: headrace.Connection, tmp_path: Path) -> None:
    jobs = connection.session.context.catalog.jobs
    connection.execute("insert into root.a.d(time, s) values (1, 1)")
    sink = f"'sink'='delta-sink', 'uri'='{tmp_path / 'table'}'"
    connection.execute(f"create pipe p with source ('path'='root.a.**', 'mode'='snapshot') with sink ({sink})")
    wait_until(lambda: jobs.find("", "p", PIPE) is None, "the pipe is removed")
    assert rows_of(tmp_path / "table") == 1
