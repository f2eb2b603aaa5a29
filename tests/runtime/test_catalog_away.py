"""A catalog that is away for longer than a lease lasts: a real PostgreSQL server, stopped or frozen for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest

from headrace.catalog import postgresql
from headrace.context import Context
from headrace.errors import TransientError
from headrace.model.jobs import JobState
from headrace.model.snodes import Lease
from headrace.runtime.context import open_context
from headrace.runtime.driver import Driver
from headrace.runtime.lease import Contender, LeaseKeeper
from headrace.runtime.metrics import Histogram
from headrace.runtime.supervision import SupervisionStatus, Supervisor, read_snapshot
from headrace.settings import Settings
from tests.runtime.meters import METERS, START, Meters, readings
from tests.support.postgres import MISSING, Server, find_programs
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]

TTL_MS = 1_500
Outage = Callable[[Server], AbstractContextManager[None]]


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the test's own, which may be stopped."""
    programs = find_programs()
    if programs is None:
        pytest.skip(MISSING)
    server = Server.start(programs)
    yield server
    server.stop()


@pytest.fixture
def context(server: Server, settings: Settings) -> Iterator[Context]:
    with server.database() as database:
        url = f"{database}&connect_timeout=2"
        opened = open_context(settings.replace({"catalog_url": url, "heartbeat_ms": 200, "lease_ms": TTL_MS}))
        yield opened
        opened.tables.close()
        opened.catalog.close()


@pytest.fixture
def keeper(context: Context) -> Iterator[LeaseKeeper]:
    lease = context.catalog.leases.acquire("default", "elsewhere:1:a", TTL_MS)
    assert lease is not None
    keeper = LeaseKeeper(context.catalog, lease, TTL_MS)
    keeper.start()
    yield keeper
    keeper.release()


@pytest.mark.spark
@pytest.mark.parametrize("outage", [Server.halted, Server.frozen])
def test_streams_continue_with_their_driver(
    outage: Outage, server: Server, context: Context, keeper: LeaseKeeper, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "STATEMENT_SECONDS", 2)
    meters = Meters.create(context)
    stream = meters.create_stream("TRIGGER AT_ONCE IGNORE EXPIRED 0")
    target = context.catalog.tables.get("db", "out")

    def has_all() -> bool:
        return bool(pc.sum(context.tables.scan(target)["n"]).as_py() == len(meters.stored))

    driving = replace(context, epoch=keeper.epoch, spark=lambda: spark)
    driver = Driver(driving, "default", fills=False, batches=Histogram(), ended=lambda: None)
    driver.start()
    try:
        meters.write(readings(20))
        wait_until(has_all, "the stream's first results")
        with outage(server):
            for number in (1, 2):
                meters.write(readings(20, seed=number, start=START + number * 1_000_000))
                wait_until(has_all, "results without the catalog")
                wait_until(lambda: not is_valid(keeper) and driver.catalog_away_s > 0, "the driver to notice the outage")
        newest = context.tables.version(METERS)
        wait_until(lambda: progress(context, stream) == newest, "progress once the catalog is back")
        wait_until(lambda: is_valid(keeper) and driver.catalog_away_s == 0, "the lease to be renewed")
    finally:
        driver.stop(30)
    assert driver.failure is None
    lease = context.catalog.leases.get("default")
    assert lease is not None
    assert lease.epoch == keeper.epoch
    assert context.catalog.jobs.by_id(stream).state is JobState.RUNNING
    assert not [event for event in context.catalog.events.all("job", stream) if event.kind == "STOPPED"]


def is_valid(keeper: LeaseKeeper) -> bool:
    return keeper.lease.is_valid(time.time_ns() // 1_000_000)


def progress(context: Context, stream: str) -> int | None:
    try:
        return context.catalog.jobs.by_id(stream).source_version
    except TransientError:
        return None


def test_no_lease_is_taken_over_or_reported_lost_as_soon_as_the_catalog_is_back(
    server: Server, context: Context, keeper: LeaseKeeper
) -> None:
    stream = Meters.create(context).create_stream("TRIGGER AT_ONCE")
    context.catalog.jobs.set_state(stream, JobState.RUNNING)
    supervisor = Supervisor(stream, heartbeat_ms=200, lease_ms=TTL_MS)
    rival = Contender(context.catalog, "default", "elsewhere:2:b", TTL_MS, None)
    assert supervisor.check(read_snapshot(context.catalog, context.catalog.now())).status is SupervisionStatus.WATCH
    assert rival.acquire() is None
    keeper._released.set()  # its holder is slow to come back: it does not renew by itself
    keeper.publish("http://127.0.0.1:1")
    with server.halted():
        assert rival.acquire() is None
        wait_until(lambda: not is_valid(keeper), "the lease to end")
    judged = supervisor.check(read_snapshot(context.catalog, context.catalog.now()))
    assert context.catalog.now() > expired(context).expires
    assert judged.status is SupervisionStatus.WATCH
    assert rival.acquire() is None
    keeper.publish("http://127.0.0.1:2")
    assert is_valid(keeper)


def expired(context: Context) -> Lease:
    lease = context.catalog.leases.get("default")
    assert lease is not None
    return lease
