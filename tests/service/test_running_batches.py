"""What SHOW STREAMS reports of a running micro-batch."""

from __future__ import annotations

from typing import Any

import pytest

import headrace
from headrace.jobs.hosts import JobActivity
from headrace.model.snodes import Lease
from headrace.runtime.metrics import slow_batches
from headrace.runtime.snode import busy_jobs
from headrace.streams.kind import STREAM

QUERY = "select batch_ms, message from information_schema.ins_stream_progress"


@pytest.fixture
def stream(readings: headrace.Connection) -> str:
    """Return the id of a stream that no driver runs yet."""
    readings.execute("create stream s trigger at_once into out1 as select _wstart, count(*) n from readings interval(10s)")
    return readings.session.context.catalog.jobs.get("d", "s", STREAM).definition.id


def take_lease(connection: headrace.Connection) -> Lease:
    lease = connection.session.context.catalog.leases.acquire("default", "elsewhere:1:1", 60_000)
    assert lease is not None
    return lease


def beat(connection: headrace.Connection, lease: Lease, stream: str, in_flight_ms: int) -> None:
    """Record a heartbeat as the snode does, with a bound of two minutes."""
    catalog = connection.session.context.catalog
    activity = {stream: JobActivity(in_flight_ms, 0, catalog.now())}
    catalog.snodes.beat(lease, detail={"jobs": busy_jobs(activity, catalog.now()), "slow_batches": slow_batches(activity, 120_000)})


def reported_batch(connection: headrace.Connection) -> tuple[Any, ...]:
    (row,) = connection.execute(QUERY).fetchall()
    return tuple(row)


def test_without_a_driver_no_micro_batch_is_running(readings: headrace.Connection, stream: str) -> None:
    assert stream
    assert reported_batch(readings) == (None, None)


def test_a_running_micro_batch_shows_its_age(readings: headrace.Connection, stream: str) -> None:
    beat(readings, take_lease(readings), stream, 700)
    assert reported_batch(readings) == (700, None)


def test_a_stream_that_only_waits_has_no_running_micro_batch(readings: headrace.Connection, stream: str) -> None:
    beat(readings, take_lease(readings), stream, 0)
    assert reported_batch(readings) == (None, None)


def test_a_slow_micro_batch_is_named_in_the_message(readings: headrace.Connection, stream: str) -> None:
    beat(readings, take_lease(readings), stream, 180_000)
    batch_ms, message = reported_batch(readings)
    assert batch_ms == 180_000
    assert message.startswith("[SLOW_BATCH] the micro-batch has been running for 3 minutes (")


def test_show_streams_has_the_same(readings: headrace.Connection, stream: str) -> None:
    beat(readings, take_lease(readings), stream, 180_000)
    result = readings.execute("show streams")
    assert result.description is not None
    (row,) = result.fetchall()
    values = dict(zip([column[0] for column in result.description], row, strict=True))
    assert (values["batch_ms"], values["message"]) == reported_batch(readings)


def test_the_heartbeat_of_a_driver_that_ended_says_nothing(readings: headrace.Connection, stream: str) -> None:
    lease = take_lease(readings)
    beat(readings, lease, stream, 180_000)
    readings.session.context.catalog.leases.release(lease)
    assert reported_batch(readings) == (None, None)


def test_the_heartbeat_of_an_older_epoch_says_nothing(readings: headrace.Connection, stream: str) -> None:
    lease = take_lease(readings)
    beat(readings, lease, stream, 180_000)
    readings.session.context.catalog.leases.release(lease)
    assert take_lease(readings).epoch > lease.epoch
    assert reported_batch(readings) == (None, None)
