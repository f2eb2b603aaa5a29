"""An snode's driver: which streams of the catalog it runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from headrace.context import Context
from headrace.errors import FencedError, NotFoundError
from headrace.history import backfill
from headrace.jobs.hosts import Driving, JobActivity
from headrace.model.clock import ManualClock
from headrace.model.jobs import DesiredState, JobDefinition, JobProgress, JobState, StopReason
from headrace.model.ledger import ChunkState
from headrace.model.positions import Position
from headrace.model.tables import TableId
from headrace.runtime.context import open_context
from headrace.runtime.driver import MAX_CODE_RETRIES, Driver, idle_pause_s
from headrace.runtime.job_host import JobHost
from headrace.runtime.metrics import Histogram
from headrace.runtime.roles import MAX_RETRY_MS
from headrace.runtime.snode import busy_jobs
from headrace.settings import Settings
from headrace.streams.kind import STREAM
from tests.runtime.meters import Meters, readings
from tests.support.waiting import MAX_WAIT_S, wait_until


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000_000)


@pytest.fixture
def context(settings: Settings, clock: ManualClock) -> Iterator[Context]:
    opened = open_context(settings, clock)
    yield replace(opened, epoch=1)
    opened.tables.close()
    opened.catalog.close()


@pytest.fixture
def meters(context: Context) -> Meters:
    made = Meters.create(context)
    made.write(readings(5))
    return made


@pytest.fixture
def driver(context: Context) -> Iterator[Driver]:
    """A driver that leaves histories of more than four rows to Airflow."""
    patient = replace(context, settings=context.settings.replace({"resident_history_rows": 4}))
    made = Driver(patient, "default", fills=False, batches=Histogram(), ended=lambda: None)
    yield made
    made.stop(0)


def state_of(meters: Meters, stream: str) -> JobState:
    return meters.context.catalog.jobs.by_id(stream).state


def stop(meters: Meters, stream: str, *, transient: bool) -> None:
    now = meters.context.clock.now()
    reason = StopReason("OPERATIONAL", "the disk was full", "make room", now, transient)
    meters.context.catalog.jobs.set_state(stream, JobState.STOPPED, reason)


def test_a_new_stream_runs_and_a_paused_one_does_not(meters: Meters, driver: Driver) -> None:
    stream = meters.create_stream("TRIGGER AT_ONCE")
    driver.reconcile()
    assert state_of(meters, stream) is JobState.RUNNING
    meters.context.catalog.jobs.set_desired(stream, DesiredState.PAUSED)
    driver.reconcile()
    assert state_of(meters, stream) is JobState.PAUSED
    meters.context.catalog.jobs.set_desired(stream, DesiredState.RUNNING)
    driver.reconcile()
    assert state_of(meters, stream) is JobState.RUNNING


def test_a_stream_that_stopped_for_a_transient_reason_is_retried_less_and_less_often(
    meters: Meters, driver: Driver, clock: ManualClock
) -> None:
    stream = meters.create_stream("TRIGGER AT_ONCE")
    stop(meters, stream, transient=True)
    driver.reconcile()
    assert state_of(meters, stream) is JobState.RUNNING
    stop(meters, stream, transient=True)
    driver.reconcile()
    assert state_of(meters, stream) is JobState.STOPPED
    clock.advance(1_000)
    driver.reconcile()
    assert state_of(meters, stream) is JobState.RUNNING
    stop(meters, stream, transient=True)
    clock.advance(1_000)
    driver.reconcile()
    assert state_of(meters, stream) is JobState.STOPPED


def test_a_stream_whose_function_loses_its_process_every_time_stays_stopped(
    meters: Meters, driver: Driver, clock: ManualClock
) -> None:
    jobs = meters.context.catalog.jobs
    stream = meters.create_stream("TRIGGER AT_ONCE")
    for attempt in range(MAX_CODE_RETRIES + 1):
        reason = StopReason("USER_CODE", "calib failed: its code host was killed", "correct the function", clock.now(), True)
        jobs.set_state(stream, JobState.STOPPED, reason)
        clock.advance(60_000)
        driver.reconcile()
        assert (jobs.by_id(stream).state is JobState.STOPPED) is (attempt == MAX_CODE_RETRIES)
    final = jobs.by_id(stream).reason
    assert final is not None
    assert not final.transient
    assert final.message == "calib failed: its code host was killed, and so did 3 retries"
    clock.advance(MAX_RETRY_MS)
    driver.reconcile()
    assert jobs.by_id(stream).state is JobState.STOPPED


def test_a_clock_that_was_set_back_delays_no_retry(meters: Meters, driver: Driver, clock: ManualClock) -> None:
    stream = meters.create_stream("TRIGGER AT_ONCE")
    for _ in range(2):
        stop(meters, stream, transient=True)
        driver.reconcile()
    assert state_of(meters, stream) is JobState.STOPPED, "its second retry is after a pause"
    clock._now -= 3_600_000
    driver.reconcile()
    assert state_of(meters, stream) is JobState.RUNNING


def test_a_stream_that_stopped_permanently_stays_stopped(meters: Meters, driver: Driver) -> None:
    stream = meters.create_stream("TRIGGER AT_ONCE")
    stop(meters, stream, transient=False)
    driver.reconcile()
    assert state_of(meters, stream) is JobState.STOPPED


def test_a_stream_that_stopped_during_its_backfill_continues_it(meters: Meters, driver: Driver) -> None:
    stream = meters.create_stream("FILL_HISTORY 1")
    stop(meters, stream, transient=True)
    driver.reconcile()
    assert state_of(meters, stream) is JobState.FILLING


@pytest.mark.spark
def test_a_small_history_is_filled_by_the_driver_although_airflow_fills_others(
    meters: Meters, driver: Driver, spark: SparkSession
) -> None:
    stream = meters.create_stream("FILL_HISTORY 1")
    driver.reconcile()
    assert meters.context.catalog.ledger.chunks(stream, backfill.HISTORY) == [], "five rows are too many"
    resident = Driver(replace(meters.context, spark=lambda: spark), "default", fills=False, batches=Histogram(), ended=lambda: None)
    try:
        resident.reconcile()
        wait_until(lambda: meters.context.catalog.jobs.by_id(stream).is_live, "the history to be filled")
        resident.reconcile()
    finally:
        resident.stop(10)
    assert state_of(meters, stream) is JobState.RUNNING
    assert [chunk.state for chunk in meters.context.catalog.ledger.chunks(stream, backfill.HISTORY)] == [ChunkState.DONE]


@pytest.mark.spark
def test_a_history_that_another_process_computes_delays_no_other(meters: Meters, spark: SparkSession) -> None:
    first, second = (meters.create_stream("FILL_HISTORY 1", target=f"{name}_out", name=name) for name in ("a", "b"))
    streams = meters.context.catalog.jobs
    driver = Driver(replace(meters.context, spark=lambda: spark), "default", fills=True, batches=Histogram(), ended=lambda: None)

    def is_live(stream: str) -> bool:
        driver.reconcile()
        return streams.by_id(stream).is_live

    try:
        with meters.context.catalog.lock(f"chunk.{first}.{backfill.HISTORY}.0"):
            wait_until(lambda: is_live(second), "the history of the other stream to be filled", bound_s=120)
            assert state_of(meters, first) is JobState.FILLING
        wait_until(lambda: is_live(first), "its history to be filled")
    finally:
        driver.stop(10)


def test_a_dropped_stream_is_removed(meters: Meters, driver: Driver) -> None:
    stream = meters.create_stream("TRIGGER AT_ONCE")
    driver.reconcile()
    meters.context.catalog.jobs.set_desired(stream, DesiredState.DROPPED)
    driver.reconcile()
    with pytest.raises(NotFoundError):
        meters.context.catalog.jobs.by_id(stream)


def test_a_stream_that_cannot_be_parsed_is_stopped_and_the_others_run(meters: Meters, driver: Driver) -> None:
    good = meters.create_stream("TRIGGER AT_ONCE")
    definition = meters.context.catalog.jobs.by_id(good).definition
    bad = replace(definition, id="bad", name="bad", sql="CREATE STREAM bad INTO", target=TableId("db", "bad"), schema=None)
    meters.context.catalog.jobs.create(bad, progress=JobProgress(Position(0, {bad.source_ids[0]: 0})))
    driver.reconcile()
    while driver.host.poll():
        pass
    driver.reconcile()
    record = meters.context.catalog.jobs.by_id("bad")
    assert record.state is JobState.STOPPED
    assert record.reason is not None
    assert (record.reason.code, record.reason.transient) == ("SYNTAX", False)
    assert state_of(meters, good) is JobState.RUNNING


def test_a_heartbeat_names_the_streams_that_have_something_to_do(meters: Meters, driver: Driver) -> None:
    stream = meters.create_stream("TRIGGER AT_ONCE")
    driver.reconcile()
    assert driver.activity() == {stream: JobActivity(0, 0, None)}
    assert busy_jobs(driver.activity(), 5_000) == {}
    busy = {stream: JobActivity(700, 1, 4_000), "idle": JobActivity(0, 0, None)}
    assert busy_jobs(busy, 5_000) == {stream: {"in_flight_ms": 700, "lag_ms": 1_000, "failures": 1}}


def test_a_driver_that_does_not_backfill_waits_for_one_that_does(meters: Meters, driver: Driver) -> None:
    stream = meters.create_stream("FILL_HISTORY 1")
    backfill.plan_chunks(meters.context, stream)
    driver.reconcile()
    record = meters.context.catalog.jobs.by_id(stream)
    assert (record.state, record.source_version) == (JobState.FILLING, None)


def test_a_driver_that_was_overtaken_while_frozen_writes_no_state(meters: Meters, context: Context) -> None:
    """Its successor's streams are paused, running or stopped by the successor alone."""
    streams = context.catalog.jobs
    fresh, resting, broken = (create(meters, name) for name in ("fresh", "resting", "broken"))
    streams.set_state(resting, JobState.RUNNING)
    streams.set_state(broken, JobState.RUNNING)
    pollers = JobHost(Driving(context))
    pollers.reconcile([streams.by_id(broken)])
    for holder in ("frozen", "successor"):
        context.catalog.leases.acquire("default", holder, 0)
    streams.set_desired(resting, DesiredState.PAUSED)
    for stream in (fresh, resting):
        with pytest.raises(FencedError):
            pollers.reconcile([streams.by_id(broken), streams.by_id(stream)])
    with pytest.raises(FencedError):
        settle(pollers)
    states = {stream: streams.by_id(stream).state for stream in (fresh, resting, broken)}
    assert states == {fresh: JobState.CREATED, resting: JobState.RUNNING, broken: JobState.RUNNING}
    pollers.close()


def settle(pollers: JobHost) -> None:
    while pollers.poll():
        pass


def create(meters: Meters, name: str) -> str:
    """Record a stream whose text no driver can parse."""
    definition = JobDefinition(
        id=name,
        kind=STREAM,
        database="db",
        name=name,
        sql="CREATE STREAM x INTO",
        dialect="tdengine",
        sources=(TableId("db", "meters"),),
        target=TableId("db", name),
        created=0,
    )
    meters.context.catalog.jobs.create(definition)
    meters.context.catalog.jobs.set_progress(name, JobProgress(Position(1, {definition.source_ids[0]: 1})))
    return name


def test_rare_polls_delay_nothing_but_themselves(meters: Meters, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = context.settings.replace({"poll_ms": 3_600_000, "heartbeat_ms": 100})
    driver = Driver(replace(context, settings=settings), "default", fills=False, batches=Histogram(), ended=lambda: None)
    polls: list[float] = []

    def poll(timeout_s: float) -> bool:
        polls.append(timeout_s)
        return False

    monkeypatch.setattr(driver.host, "poll", poll)
    driver.start()
    try:
        wait_until(lambda: polls, "the first poll")
        stream = meters.create_stream("TRIGGER AT_ONCE")
        wait_until(lambda: state_of(meters, stream) is JobState.RUNNING, "the driver to reconcile")
        assert len(polls) == 1
        wait_until(lambda: driver.overdue_s == 0, "the pause until the next poll")
    finally:
        driver.stop(0)


def test_sources_are_polled_while_the_catalog_hangs(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(context, "default", fills=False, batches=Histogram(), ended=lambda: None)
    answer, polls = threading.Event(), threading.Semaphore(0)
    monkeypatch.setattr(driver, "reconcile", answer.wait)
    monkeypatch.setattr(driver.host, "poll", lambda _: polls.release())
    driver.start()
    try:
        for _ in range(3):
            assert polls.acquire(timeout=MAX_WAIT_S)
    finally:
        answer.set()
        driver.stop(10)


@pytest.mark.parametrize(
    ("least_s", "poll_s", "pause_s"), [(0.05, 0.002, 0.05), (0.05, 0.04, 0.36), (0.05, 3.0, 0.5), (1.0, 0.04, 1.0)]
)
def test_polls_of_many_idle_sources_are_further_apart(least_s: float, poll_s: float, pause_s: float) -> None:
    assert idle_pause_s(least_s, poll_s) == pytest.approx(pause_s)
