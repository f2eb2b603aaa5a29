"""An snode that replaces its driver in the same process, or gives its lease up because the driver hangs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.context import Context
from headrace.errors import FencedError
from headrace.model.snodes import Lease
from headrace.runtime import snode as snodes
from headrace.runtime.driver import Driver
from headrace.runtime.lease import LeaseKeeper
from headrace.runtime.snode import Exit, Snode
from headrace.storage import Tables
from tests.runtime.meters import Meters, readings
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TTL_MS = 600_000


@pytest.fixture
def meters(context: Context) -> Meters:
    made = Meters.create(context)
    made.write(readings(5))
    return made


@pytest.fixture
def keeper(context: Context) -> LeaseKeeper:
    """The keeper of the snode's lease, whose thread does not run."""
    return LeaseKeeper(context.catalog, lease_of(context, TTL_MS), TTL_MS)


@pytest.fixture
def snode(context: Context, keeper: LeaseKeeper) -> Iterator[Snode]:
    """An snode with a driver that runs."""
    made = Snode(context, "default", lambda *_: None, (), fill_histories=False)  # type: ignore[arg-type]
    made._driver = made._create_driver(keeper.epoch)
    made._driver.start()
    yield made
    made._driver.stop(10)


def lease_of(context: Context, ttl_ms: int) -> Lease:
    lease = context.catalog.leases.acquire("default", "a", ttl_ms)
    assert lease is not None
    return lease


def fence(meters: Meters, driver: Driver, stream: str, epoch: int) -> None:
    """Have a driver that runs a stream fenced by a newer epoch in its target."""
    context = meters.context
    wait_until(lambda: driver.host.samples().keys() == {stream}, "the stream to run")
    context.tables.writer.fence(context.catalog.tables.get("db", "out"), stream, epoch)
    meters.write(readings(5, seed=1))
    wait_until(lambda: driver.failure is not None, "the driver to be fenced")
    assert isinstance(driver.failure, FencedError)


@pytest.mark.parametrize(("newer", "is_member"), [(7, False), (1, True)])
def test_a_fenced_driver_is_replaced_under_a_newer_epoch_and_leaves_nothing(
    meters: Meters, snode: Snode, keeper: LeaseKeeper, newer: int, is_member: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either by its own targets after a restore, or because of one job that has just moved to another snode."""
    stream = meters.create_stream("TRIGGER AT_ONCE")
    old = snode._driver
    if is_member:
        snode._is_member = True
        wait_until(lambda: old.host.samples().keys() == {stream}, "the stream to run")
        monkeypatch.setattr(old.host, "poll", fenced)
        wait_until(lambda: old.failure is not None, "the driver to be fenced")
    else:
        fence(meters, old, stream, newer)
    assert snode._try_restart(keeper)
    assert keeper.epoch == newer + 1
    assert snode._driver._context.epoch == keeper.epoch
    wait_until(lambda: old.host._read_pool._shutdown, "the threads of the old driver to end")
    assert old.host.running == frozenset()
    meters.write(readings(5, seed=2))
    wait_until(lambda: meters.results() == meters.expected(), "the new driver to compute")


def fenced(*_: object) -> bool:
    raise FencedError("a job has moved")


@pytest.mark.spark
def test_a_driver_that_is_fenced_at_any_moment_is_replaced(
    meters: Meters, snode: Snode, keeper: LeaseKeeper, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    snode._is_member = True
    meters.create_stream("TRIGGER AT_ONCE")
    old = snode._driver
    is_jvm_alive = snodes.is_jvm_alive

    def fence_meanwhile(session: SparkSession) -> bool:
        if snode._driver is old:
            monkeypatch.setattr(old.host, "poll", fenced)
            wait_until(lambda: old.failure is not None, "the driver to be fenced")
        return is_jvm_alive(session)

    monkeypatch.setattr(snodes, "is_jvm_alive", fence_meanwhile)
    with ThreadPoolExecutor() as pool:
        watched = pool.submit(snode._watch, keeper, spark)
        wait_until(lambda: watched.done() or snode._driver is not old, "the driver to be replaced")
        snode._stop_requested.set()
        snode._wake.set()
    assert watched.result() is Exit.OK


def test_a_lease_is_renewed_while_the_epochs_of_targets_are_read(meters: Meters, snode: Snode, context: Context) -> None:
    stream = meters.create_stream("TRIGGER AT_ONCE")
    context.tables.writer.fence(context.catalog.tables.get("db", "out"), stream, 7)
    tables, read = context.tables, threading.Event()

    def open_slowly() -> Tables:
        assert read.wait(60)
        return tables

    snode._context = replace(context, open_tables=open_slowly)
    lease = context.catalog.leases.get("default")
    assert lease is not None
    keeper = LeaseKeeper(context.catalog, lease, TTL_MS)
    with ThreadPoolExecutor() as pool:
        restarted = pool.submit(snode._try_restart, keeper)
        try:
            with keeper._renewing:
                keeper._renew(keeper.lease)
        finally:
            read.set()
        assert restarted.result()
    assert keeper.epoch == 8


@pytest.mark.spark
def test_an_snode_whose_driver_hangs_ends(
    snode: Snode, keeper: LeaseKeeper, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def hang(*_: Any) -> bool:
        return released.wait(60)

    monkeypatch.setattr(snode._driver.host, "poll", hang)
    monkeypatch.setattr(snodes, "MAX_OVERDUE_S", 1.0)
    with ThreadPoolExecutor() as pool:
        watched = pool.submit(snode._watch, keeper, spark)
        wait_until(watched.done, "the snode to end", bound_s=30)
        released.set()
        snode._stop_requested.set()
        snode._wake.set()
    assert watched.result() is Exit.FAILED
    assert "has not polled" in snodes.reason_text(Exit.FAILED, snode._driver)
