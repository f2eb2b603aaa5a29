"""The snode: the resident application that computes the streams assigned to it, with one driver at a time."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import psutil

from headrace.context import Context
from headrace.errors import Error, FencedError, TransientError
from headrace.jobs.hosts import JobActivity
from headrace.jobs.registry import kinds
from headrace.model.clock import SystemClock
from headrace.model.execution_history import ExecutionHistory
from headrace.model.jobs import JobRecord, JobState
from headrace.model.snodes import Lease
from headrace.runtime.activity import measured_records
from headrace.runtime.asset_events import AssetEvents
from headrace.runtime.authentication import authenticator
from headrace.runtime.context import is_under_spark_submit
from headrace.runtime.credentials import Identity
from headrace.runtime.door import Door
from headrace.runtime.driver import Driver
from headrace.runtime.epochs import newest_target_epoch, record_raised
from headrace.runtime.http import Guard, Health, SqlService, create_app
from headrace.runtime.http_server import Endpoint
from headrace.runtime.lease import LeaseKeeper, acquire, holder_name
from headrace.runtime.listening import check_endpoint, endpoint_context
from headrace.runtime.metrics import Histogram, SnodeMetrics, render_metrics, slow_batches
from headrace.runtime.openlineage.job_runs import JobRuns
from headrace.runtime.reconciliation import INTERVAL_S, Reconciler
from headrace.runtime.regular_work import RegularWork
from headrace.runtime.sharing import port_of, read_shared_jobs
from headrace.runtime.signals import stop_signals
from headrace.runtime.snode_client import SnodeEndpoint, write_endpoint
from headrace.runtime.supervision import duration_text
from headrace.runtime.trigger_calls import trigger_runner
from headrace.runtime.trigger_metrics import CountedTriggers, counted_triggers
from headrace.runtime.usage import Usage
from headrace.trees.trigger_drops import complete_interrupted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

# When the snode is asked to stop, a micro-batch in flight may take this long. After that it is abandoned, which is always safe.
GRACE_S: Final = 8.0
# Polling takes less than a second. A driver whose next poll is this late hangs, and the snode ends.
MAX_OVERDUE_S: Final = 120.0
COMPLETION_INTERVAL_S: Final = 60.0
"""How often statements of triggers are completed that a dead process has left half done."""


class Exit(IntEnum):
    """How an snode ended. Airflow retries all but OK."""

    OK = 0
    FAILED = 1
    LEASE_HELD = 3
    """Another driver held the lease for the whole wait."""
    LEASE_LOST = 4
    """Another driver has taken over, so this one stopped at once."""
    SPARK_DIED = 5
    """The JVM has died."""


def run_snode(
    context: Context,
    name: str,
    run_sql: SqlService,
    doors: Sequence[Door] = (),
    *,
    fill_histories: bool = True,
    wait_s: float | None = None,
) -> Exit:
    """Run an snode in this thread until SIGTERM or SIGINT, the loss of its lease, or the death of its JVM.

    It opens `doors` once it has its lease.
    With `fill_histories` it backfills all streams itself. If Airflow does, it fills only small histories. It waits for a lease that
    another driver holds for at most `wait_s`; None for as long as it takes, 0 to fail at once.

    Raises:
        ConfigurationError: Its endpoint would be open to other machines.
    """
    check_endpoint(context.settings)
    return Snode(context, name, run_sql, doors, fill_histories=fill_histories).run(wait_s)


class Snode:
    """One driver's life: takes the lease, starts Spark, endpoint and streams, and stops them."""

    def __init__(self, context: Context, name: str, run_sql: SqlService, doors: Sequence[Door], *, fill_histories: bool) -> None:
        self._context = context
        self._name = name
        self._run_sql = run_sql
        self._doors = doors
        self._fill_histories = fill_histories
        self._wake = threading.Event()
        self._stop_requested = threading.Event()
        self._token = context.settings.http_token.reveal() or secrets.token_urlsafe(32)
        self._batch_durations = Histogram()
        self._started = context.clock.now()
        self._is_member = False
        self._distrusts_clock = False
        self._published: SnodeEndpoint | None = None
        self._process = psutil.Process()
        self._usage = Usage(self._process)
        self._runs = JobRuns(context.reports, name, context.settings.openlineage_running_s, context.clock.now)

    def run(self, wait_s: float | None) -> Exit:
        """Run until the end; see `run_snode`."""
        with stop_signals(self._request_stop):
            lease = self._take_lease(wait_s)
            if lease is None:
                return Exit.OK if self._stop_requested.is_set() else Exit.LEASE_HELD
            keeper = LeaseKeeper(self._context.catalog, lease, self._context.settings.lease_ms, self._wake.set)
            keeper.start()
            try:
                return self._run_with_lease(keeper)
            finally:
                keeper.release()

    def _take_lease(self, wait_s: float | None) -> Lease | None:
        def warn(other: Lease | None) -> None:
            owner = "another driver" if other is None else f"{other.holder}, epoch {other.epoch}, at {other.address}"
            outcome = "exiting" if wait_s == 0 else "waiting until its lease ends"
            logger.warning("snode %s is run by %s: %s", self._name, owner, outcome)

        ttl = self._context.settings.lease_ms
        return acquire(
            self._context.catalog, self._name, holder_name(), ttl, wait_s=wait_s, stopped=self._stop_requested, waiting=warn
        )

    def _run_with_lease(self, keeper: LeaseKeeper) -> Exit:
        self._record("STARTED", f"epoch {keeper.epoch} by {keeper.lease.holder}")
        self._driver = self._create_driver(keeper.epoch)
        try:
            endpoint = self._start_endpoint(keeper)
            spark = self._context.spark()
            self._open_doors()
        except Error as error:
            logger.error("the snode could not start: %s", error)
            self._record("FAILED", error.message)
            return Exit.LEASE_LOST if isinstance(error, FencedError) else Exit.FAILED
        self._driver.start()
        logger.info("running snode %s, epoch %d, at %s", self._name, keeper.epoch, endpoint.address)
        regular = self._regular_works()
        for work in regular:
            work.start()
        exit_code = self._watch(keeper, spark)
        for work in regular:
            work.stop()
        self._runs.end()
        return self._end(exit_code, endpoint, spark)

    def _regular_works(self) -> list[RegularWork]:
        """Return what is to be repeated; without Airflow this snode fills histories itself, and has nothing to do for it."""
        # In a thread of its own, since `on_drop` of a trigger may take long.
        works = [RegularWork("completion of triggers", COMPLETION_INTERVAL_S, partial(complete_interrupted, self._context))]
        if self._fill_histories:
            return works
        works.append(RegularWork("reconciliation of supervision", INTERVAL_S, Reconciler(self._context, self._name).reconcile))
        if interval_s := self._context.settings.asset_event_s:
            works.append(RegularWork("events of assets", interval_s, AssetEvents(self._context, self._name).post))
        return works

    def _create_driver(self, epoch: int) -> Driver:
        """Create a driver that commits under an epoch, without starting it."""
        context = replace(self._context, epoch=epoch)
        batches, ended = self._batch_durations, self._wake.set
        return Driver(context, self._name, fills=self._fill_histories, batches=batches, ended=ended, observed=self._runs.look)

    def _try_restart(self, keeper: LeaseKeeper) -> bool:
        """Replace a driver that was fenced although it holds the lease, as after a catalog was restored from a backup.

        The new driver has a newer epoch than the targets and than the old driver, whose micro-batches in flight cannot commit then.
        """
        try:
            lease, newest = keeper.lease, newest_target_epoch(self._context, self._name)
            # An snode that shares jobs can also be fenced by one that a job has just moved to.
            if newest <= lease.epoch and not self._is_member:
                return False
            keeper.outrun(max(newest, lease.epoch))
            if newest > lease.epoch:
                record_raised(self._context, lease, newest)
        except (FencedError, TransientError) as error:
            logger.error("not restarting the fenced driver: %s", error.message)
            return False
        self._restart_driver(keeper, 0)
        return True

    def _start_endpoint(self, keeper: LeaseKeeper) -> Endpoint:
        settings = self._context.settings
        guard = Guard(self._token, settings.http_read_token.reveal(), lambda: identity_of(keeper.lease))
        app = create_app(
            guard,
            self._run_sql,
            lambda: self._health(keeper),
            lambda: self._metrics(keeper),
            trigger_runner(self._context),
            authenticator(self._context),
            self._run_sql.cancel,
            self._run_sql.vouch,
            self._run_sql.abandon,
        )
        port = port_of(self._name, self._context.catalog.members.all(), settings.http_port)
        tls, proxies = endpoint_context(settings), settings.trusted_proxies
        endpoint = Endpoint(app, port, settings.http_host, settings.http_advertise, tls=tls, trusted_proxies=proxies)
        endpoint.start()
        keeper.publish(endpoint.address)
        self._publish_endpoint(keeper.lease)
        return endpoint

    def _open_doors(self) -> None:
        for door in self._doors:
            door.start()
            logger.info("door %s is open at %s", door.name, door.address)

    def _publish_endpoint(self, lease: Lease) -> None:
        """Write the address to a file of the home, from which the command line reads it faster than from the catalog."""
        settings = self._context.settings
        endpoint = SnodeEndpoint(self._name, lease.epoch, lease.address or "", self._token, settings.tls_certificate)
        if endpoint == self._published:
            return
        try:
            write_endpoint(settings.home_path, settings.catalog, endpoint)
            self._published = endpoint
        except OSError as error:
            logger.warning("the command line will read the address of this snode from the catalog: %s", error)

    def _watch(self, keeper: LeaseKeeper, spark: SparkSession) -> Exit:
        """Send heartbeats until there is a reason to end, and return it."""
        while True:
            if keeper.lost.is_set():
                return Exit.LEASE_LOST
            if isinstance(self._driver.failure, FencedError) and not self._try_restart(keeper):
                return Exit.LEASE_LOST
            if not is_jvm_alive(spark):
                # A signal to the process group also ends a JVM that this process started.
                return Exit.OK if self._stop_requested.is_set() and not is_under_spark_submit() else Exit.SPARK_DIED
            failure = self._driver.failure
            # One that was fenced since it was looked at above is replaced in the next round.
            if not isinstance(failure, FencedError | None) or self._driver.overdue_s > MAX_OVERDUE_S:
                return Exit.FAILED
            if self._stop_requested.is_set():
                return Exit.OK
            keeper.report_alive()
            if not self._share_jobs(keeper):
                return Exit.OK
            self._send_heartbeat(keeper)
            self._wake.wait(self._context.settings.heartbeat_ms / 1000)
            self._wake.clear()

    def _share_jobs(self, keeper: LeaseKeeper) -> bool:
        """Give and take jobs so that all snodes of the catalog have equal numbers; return False if this one was dropped."""
        try:
            shared = read_shared_jobs(self._context.catalog)
            if shared is not None:
                self._is_member |= self._name in shared.members
                moves = shared.moves(self._name)
                self._driver.give(moves.give)
                self._take_jobs(keeper, moves.take, shared.newest_epoch(moves.take))
            members = () if shared is None else shared.members
            return not self._is_member or self._name == self._context.settings.snode or self._name in members
        except FencedError:
            keeper.lost.set()
        except TransientError as error:
            logger.warning("not sharing jobs with other snodes: %s", error.message)
        return True

    def _take_jobs(self, keeper: LeaseKeeper, jobs: Mapping[str, str], epoch: int) -> None:
        """Take jobs of snodes that are dead, under an epoch newer than theirs."""
        if jobs and keeper.outrun(epoch):
            self._restart_driver(keeper, GRACE_S)
        for job_id, owner in jobs.items():
            if self._context.catalog.jobs.move(job_id, owner, self._name):
                message = f"from snode {owner}, which is dead, to snode {self._name}"
                self._context.catalog.events.record("job", job_id, "MOVED", message)

    def _restart_driver(self, keeper: LeaseKeeper, grace_s: float) -> None:
        self._driver.stop(grace_s)
        self._driver = self._create_driver(keeper.epoch)
        self._driver.start()

    def _send_heartbeat(self, keeper: LeaseKeeper) -> None:
        try:
            shown = time.time_ns() // 1_000_000
            shown = time.time_ns() // 1_000_000
            beat = self._context.catalog.snodes.beat(keeper.lease, token=self._token, detail=self._detail())
            self._check_clock(shown, beat.at)
            self._publish_endpoint(keeper.lease)
        except FencedError:
            keeper.lost.set()
            self._wake.set()
        except TransientError as error:
            logger.warning("skipping a heartbeat: %s", error.message)

    def _check_clock(self, shown: int, catalog: int) -> None:
        """Record when the machine's clock is not believed any more, and when it is again."""
        clock = self._context.clock
        if isinstance(clock, SystemClock):
            clock.compare(shown, catalog)
            ahead = clock.distrusted_ms()
            if ahead and not self._distrusts_clock:
                self._record("CLOCK_AHEAD", f"the clock is suddenly {duration_text(ahead)} ahead, which is ignored for now")
            self._distrusts_clock = bool(ahead)

    def _end(self, exit_code: Exit, endpoint: Endpoint, spark: SparkSession) -> Exit:
        """Stop all parts, in as orderly a way as the reason allows, and return the exit code."""
        driver = self._driver
        logger.info("stopping snode %s: %s", self._name, exit_code.name)
        has_stopped = driver.stop(GRACE_S if exit_code is Exit.OK else 0.0)
        if not has_stopped and exit_code is Exit.OK:
            logger.warning("abandoning the micro-batch in flight")
            cancel_jobs(spark)
            driver.stop(2.0)
        if exit_code is Exit.OK and isinstance(driver.failure, FencedError):
            exit_code = Exit.LEASE_LOST
        for door in self._doors:
            door.stop()
        endpoint.stop()
        self._record("ENDED", reason_text(exit_code, driver))
        return exit_code

    def _record(self, kind: str, message: str) -> None:
        try:
            self._context.catalog.events.record("snode", self._name, kind, message)
        except TransientError as error:
            logger.warning("skipping an event (%s: %s): %s", kind, message, error.message)

    def _detail(self) -> dict[str, Any]:
        driver = self._driver
        now, activity = self._context.clock.now(), driver.activity()
        return {
            "pid": self._process.pid,
            "started": self._started,
            "fills_histories": self._fill_histories,
            **count_jobs(driver.records),
            "lag_ms": max((job.lag_ms(now) for job in activity.values()), default=0),
            "jobs": busy_jobs(activity, now),
            "loop_age_ms": round(driver.loop_age_s * 1000),
            "catalog_away_ms": round(driver.catalog_away_s * 1000),
            "slow_batches": slow_batches(activity, self._context.settings.slow_batch_ms),
            "memory_bytes": self._usage.memory_bytes(),
            "cores": round(self._usage.cores(), 3),
            "lineage_events": self._context.reports.counts(),
        }

    def _health(self, keeper: LeaseKeeper) -> Health:
        driver = self._driver
        hangs = driver.overdue_s > MAX_OVERDUE_S
        healthy = not (keeper.lost.is_set() or driver.failure or hangs)
        stopped = [record for record in driver.records if record.state is JobState.STOPPED]
        details = self._detail() | {
            "snode": self._name,
            "epoch": keeper.epoch,
            "stopped": {str(record.definition): record.reason.message if record.reason else "" for record in stopped},
        }
        return Health(healthy, details, is_slow=bool(details["slow_batches"]))

    def _metrics(self, keeper: LeaseKeeper) -> str:
        driver = self._driver
        reading = SnodeMetrics(
            self._name,
            keeper.epoch,
            self._measured_records(),
            self._batch_durations,
            self._usage.memory_bytes(),
            driver.loop_age_s,
            self._context.clock.now(),
            driver.activity(),
            driver.catalog_away_s,
            self._context.settings.slow_batch_ms,
            self._histories(),
            self._triggers(),
        )
        return render_metrics(reading)

    def _measured_records(self) -> Sequence[JobRecord]:
        """Return the jobs with what they have not handled now; as their driver sees them while the catalog cannot be read."""
        try:
            return measured_records(self._context, self._driver.records)
        except TransientError as error:
            logger.warning("leaving what waits for streams out of the metrics: %s", error.message)
            return self._driver.records

    def _histories(self) -> dict[str, ExecutionHistory] | None:
        """Return the newest executions of continuous queries; None while the catalog cannot be read."""
        try:
            return self._context.catalog.executions.histories()
        except TransientError as error:
            logger.warning("leaving the lag of continuous queries out of the metrics: %s", error.message)
            return None

    def _triggers(self) -> CountedTriggers:
        """Return the triggers with what has been counted of them; none while the catalog cannot be read."""
        try:
            return counted_triggers(self._context.catalog)
        except TransientError as error:
            logger.warning("leaving triggers out of the metrics: %s", error.message)
            return ()

    def _request_stop(self) -> None:
        self._stop_requested.set()
        self._wake.set()


def identity_of(lease: Lease) -> Identity:
    return Identity(lease.epoch, lease.address or "")


def count_jobs(records: Sequence[JobRecord]) -> dict[str, dict[str, int]]:
    of_kind = {kind.key: [record for record in records if record.definition.kind == kind.name] for kind in kinds()}
    return {key: dict(Counter(record.state.value for record in records)) for key, records in of_kind.items()}


def busy_jobs(activity: Mapping[str, JobActivity], now: int) -> dict[str, dict[str, int]]:
    return {
        job_id: {"in_flight_ms": job.in_flight_ms, "lag_ms": job.lag_ms(now), "failures": job.failures}
        for job_id, job in activity.items()
        if job.in_flight_ms or job.pending_since is not None or job.failures
    }


def is_jvm_alive(spark: SparkSession) -> bool:
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except Exception:  # a JVM that has died, or is dying, causes any error of py4j or of the socket
        return False


def cancel_jobs(spark: SparkSession) -> None:
    """Cancel the running Spark jobs. Has no effect if Spark does not answer."""
    try:
        spark.sparkContext.cancelAllJobs()
    except Exception as error:
        logger.warning("not canceling Spark jobs: %s", error)


def reason_text(exit_code: Exit, driver: Driver) -> str:
    hang = f"the driver has not polled its sources for {driver.loop_age_s:.0f} s"
    texts = {
        Exit.OK: "asked to stop",
        Exit.LEASE_LOST: "another driver has taken over",
        Exit.SPARK_DIED: "Spark's JVM has died",
        Exit.FAILED: hang if driver.failure is None else f"{type(driver.failure).__name__}: {driver.failure}",
    }
    return texts[exit_code]
