"""The snode: the resident application that computes the streams of its name, one driver at a time."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import psutil

from headrace.errors import Error, FencedError, TransientError
from headrace.model.jobs import JobState
from headrace.model.snodes import Lease
from headrace.runtime.context import Context
from headrace.runtime.credentials import Identity
from headrace.runtime.driver import Driver
from headrace.runtime.http import Endpoint, Guard, Health, RunSql, create_app
from headrace.runtime.lease import LeaseKeeper, acquire, holder_name
from headrace.runtime.metrics import Histogram, Reading, render, slow_batches
from headrace.streams.sources.poller import JobActivity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

# A batch under way when the snode is asked to stop may take so long; then it is abandoned, which is safe at any point.
GRACE_S: Final = 8.0
# A batch that catches up takes seconds. A driver that has not polled its sources for this long is said to hang.
HANGING_S: Final = 120.0


class Exit(IntEnum):
    """How an snode ended. Airflow retries all but OK."""

    OK = 0
    FAILED = 1
    LEASE_HELD = 3
    """Another driver held the lease all the time it was waited for."""
    LEASE_LOST = 4
    """Another driver has taken over: this one stopped at once."""
    SPARK_DIED = 5
    """The JVM is gone."""


def run_snode(
    context: Context,
    name: str,
    run_sql: RunSql,
    *,
    fill_histories: bool = True,
    wait_s: float | None = None,
) -> Exit:
    """Run an snode in this thread until SIGTERM or SIGINT, the loss of its lease, or the end of its JVM.

    Args:
        run_sql: how `POST /sql` runs a statement.
        fill_histories: whether it fills the history of streams itself; where Airflow does, it waits for FILLING streams.
        wait_s: how long to wait for a lease that another holds; None: until it is free. 0: refuse at once.
    """
    return Snode(context, name, run_sql, fill_histories=fill_histories).run(wait_s)


class Snode:
    """One driver's life: lease, Spark, endpoint, streams, and the end of each."""

    def __init__(self, context: Context, name: str, run_sql: RunSql, *, fill_histories: bool) -> None:
        self._context = context
        self._name = name
        self._run_sql = run_sql
        self._fills = fill_histories
        self._wake = threading.Event()
        self._asked = threading.Event()
        self._token = context.settings.http_token.get_secret_value() or secrets.token_urlsafe(32)
        self._batches = Histogram()
        self._started = context.clock.now()
        self._process = psutil.Process()

    def run(self, wait_s: float | None) -> Exit:
        """The whole life; see `run_snode`."""
        with self._signals():
            lease = self._take_lease(wait_s)
            if lease is None:
                return Exit.OK if self._asked.is_set() else Exit.LEASE_HELD
            keeper = LeaseKeeper(self._context.catalog, lease, self._context.settings.lease_ms, self._wake.set)
            keeper.start()
            try:
                return self._hold(keeper)
            finally:
                keeper.release()

    def _take_lease(self, wait_s: float | None) -> Lease | None:
        def waiting(held: Lease | None) -> None:
            by = "another driver" if held is None else f"{held.holder}, epoch {held.epoch}, at {held.address}"
            then = "refused" if wait_s == 0 else "waiting until its lease ends"
            logger.warning("snode %s is run by %s: %s", self._name, by, then)

        ttl = self._context.settings.lease_ms
        return acquire(self._context.catalog, self._name, holder_name(), ttl, wait_s=wait_s, stopped=self._asked, waiting=waiting)

    def _hold(self, keeper: LeaseKeeper) -> Exit:
        """What is done while the lease is held."""
        self._record("STARTED", f"epoch {keeper.epoch} by {keeper.lease.holder}")
        self._driver = self._driver_of(keeper.epoch)
        try:
            endpoint = self._endpoint(keeper)
            spark = self._context.spark()
        except Error as error:
            logger.error("the snode did not start: %s", error)
            self._record("FAILED", error.message)
            return Exit.LEASE_LOST if isinstance(error, FencedError) else Exit.FAILED
        self._driver.start()
        logger.info("snode %s runs, epoch %d, at %s", self._name, keeper.epoch, endpoint.address)
        ending = self._watch(keeper, spark)
        return self._end(ending, endpoint, spark)

    def _driver_of(self, epoch: int) -> Driver:
        """A driver that commits under an epoch; not started."""
        context = replace(self._context, epoch=epoch)
        return Driver(context, self._name, fills=self._fills, batches=self._batches, ended=self._wake.set)

    def _has_restarted(self, keeper: LeaseKeeper) -> bool:
        """Replace a driver that was fenced although the lease is its own, as after a catalog was restored from a backup."""
        try:
            if not keeper.raise_epoch(self._context):
                return False
        except (FencedError, TransientError) as error:
            logger.error("the driver was fenced: %s", error.message)
            return False
        self._driver.stop(0)
        self._driver = self._driver_of(keeper.epoch)
        self._driver.start()
        return True

    def _endpoint(self, keeper: LeaseKeeper) -> Endpoint:
        settings = self._context.settings
        guard = Guard(self._token, settings.http_read_token.get_secret_value(), lambda: identity_of(keeper.lease))
        app = create_app(guard, self._run_sql, lambda: self._health(keeper), lambda: self._metrics(keeper))
        endpoint = Endpoint(app, settings.http_port, settings.http_host, settings.http_advertise)
        endpoint.start()
        keeper.publish(endpoint.address)
        return endpoint

    def _watch(self, keeper: LeaseKeeper, spark: SparkSession) -> Exit:
        """Beat until there is a reason to end, and say which."""
        while True:
            if keeper.lost.is_set():
                return Exit.LEASE_LOST
            if isinstance(self._driver.failure, FencedError) and not self._has_restarted(keeper):
                return Exit.LEASE_LOST
            if not jvm_answers(spark):
                # A signal to the whole process group ends a JVM that this process started, too.
                return Exit.OK if self._asked.is_set() and not under_spark_submit() else Exit.SPARK_DIED
            if self._driver.failure is not None:
                return Exit.FAILED
            if self._asked.is_set():
                return Exit.OK
            keeper.alive()
            self._beat(keeper)
            self._wake.wait(self._context.settings.heartbeat_ms / 1000)
            self._wake.clear()

    def _beat(self, keeper: LeaseKeeper) -> None:
        try:
            self._context.catalog.snodes.beat(keeper.lease, token=self._token, detail=self._detail())
        except FencedError:
            keeper.lost.set()
            self._wake.set()
        except TransientError as error:
            logger.warning("a heartbeat could not be recorded: %s", error.message)

    def _end(self, ending: Exit, endpoint: Endpoint, spark: SparkSession) -> Exit:
        """Stop everything in as much order as the reason allows."""
        driver = self._driver
        logger.info("snode %s ends: %s", self._name, ending.name)
        ended = driver.stop(GRACE_S if ending is Exit.OK else 0.0)
        if not ended and ending is Exit.OK:
            logger.warning("the batch under way is abandoned")
            cancel_jobs(spark)
            driver.stop(2.0)
        if ending is Exit.OK and isinstance(driver.failure, FencedError):
            ending = Exit.LEASE_LOST
        endpoint.stop()
        self._record("ENDED", reason_text(ending, driver))
        return ending

    def _record(self, kind: str, message: str) -> None:
        try:
            self._context.catalog.events.record("snode", self._name, kind, message)
        except TransientError as error:
            logger.warning("an event could not be recorded (%s: %s): %s", kind, message, error.message)

    def _detail(self) -> dict[str, Any]:
        """What a heartbeat tells beside the time: JSON."""
        driver = self._driver
        now, activity = self._context.clock.now(), driver.activity()
        return {
            "pid": self._process.pid,
            "started": self._started,
            "fills_histories": self._fills,
            "streams": dict(Counter(record.state.value for record in driver.records)),
            "lag_ms": max((job.lag_ms(now) for job in activity.values()), default=0),
            "jobs": busy_jobs(activity, now),
            "loop_age_ms": round(driver.loop_age_s * 1000),
            "catalog_away_ms": round(driver.catalog_away_s * 1000),
            "slow_batches": slow_batches(activity, self._context.settings.slow_batch_ms),
            "memory_bytes": self._memory(),
        }

    def _memory(self) -> int:
        """Resident memory of this process and its JVM, whichever of the two started the other."""
        family = [self._process, *self._process.children()]
        parent = self._process.parent()
        family += [parent] if parent is not None and parent.name() == "java" else []
        total = 0
        for process in family:
            try:
                total += process.memory_info().rss
            except psutil.Error:
                continue
        return total

    def _health(self, keeper: LeaseKeeper) -> Health:
        driver = self._driver
        hangs = driver.loop_age_s > HANGING_S
        healthy = not (keeper.lost.is_set() or driver.failure or hangs)
        stopped = [record for record in driver.records if record.state is JobState.STOPPED]
        details = self._detail() | {
            "snode": self._name,
            "epoch": keeper.epoch,
            "stopped": {
                f"{record.definition.database}.{record.definition.name}": record.reason.message if record.reason else ""
                for record in stopped
            },
        }
        return Health(healthy, details, is_slow=bool(details["slow_batches"]))

    def _metrics(self, keeper: LeaseKeeper) -> str:
        driver = self._driver
        reading = Reading(
            self._name,
            keeper.epoch,
            driver.records,
            self._batches,
            self._memory(),
            driver.loop_age_s,
            self._context.clock.now(),
            driver.activity(),
            driver.catalog_away_s,
            self._context.settings.slow_batch_ms,
        )
        return render(reading)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT ask the snode to end, where it runs in the main thread."""

        def asked(*_: object) -> None:
            self._asked.set()
            self._wake.set()

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, asked) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def identity_of(lease: Lease) -> Identity:
    """The identity that clients read from the catalog."""
    return Identity(lease.epoch, lease.address or "")


def busy_jobs(activity: Mapping[str, JobActivity], now: int) -> dict[str, dict[str, int]]:
    """Describe the jobs that have something to do, by id, for a heartbeat."""
    return {
        job_id: {"in_flight_ms": job.in_flight_ms, "lag_ms": job.lag_ms(now), "failures": job.failures}
        for job_id, job in activity.items()
        if job.in_flight_ms or job.pending_since is not None or job.failures
    }


def under_spark_submit() -> bool:
    """Whether spark-submit's JVM is the parent of this process; else the JVM is its child."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def jvm_answers(spark: SparkSession) -> bool:
    """Whether the driver's JVM lives and its Spark context has not been stopped."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except Exception:  # a JVM that has died, or is dying, answers with any error of py4j's or of the socket's
        return False


def cancel_jobs(spark: SparkSession) -> None:
    """Give up the jobs under way; nothing happens where Spark no longer answers."""
    try:
        spark.sparkContext.cancelAllJobs()
    except Exception as error:
        logger.warning("jobs could not be cancelled: %s", error)


def reason_text(ending: Exit, driver: Driver) -> str:
    """One line on why an snode ended."""
    texts = {
        Exit.OK: "asked to stop",
        Exit.LEASE_LOST: "another driver has taken over",
        Exit.SPARK_DIED: "Spark's JVM is gone",
        Exit.FAILED: f"{type(driver.failure).__name__}: {driver.failure}",
    }
    return texts[ending]
