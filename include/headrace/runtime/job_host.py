"""The loop that runs jobs of all kinds: it starts what is due, each job by its runner, and none waits for another one."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from headrace.errors import Error, FencedError, NotFoundError, TerminalError, TransientError
from headrace.jobs.hosts import (
    Driving,
    History,
    HistoryFactory,
    HostedJob,
    JobActivity,
    Retry,
    Source,
    Sources,
    SourcesFactory,
)
from headrace.jobs.registry import kind_of
from headrace.jobs.runners import Advance, RunnerFactory
from headrace.model.clock import is_set_back
from headrace.model.failpoints import FailpointError
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.model.positions import source_id
from headrace.model.tables import Table
from headrace.streams.failures import stop_job, to_error
from headrace.streams.metering import RunnerSample

logger = logging.getLogger(__name__)

FULL_SINK_PAUSE_S: Final = 0.05
DELIVERY_CHECK_S: Final = 0.01
CLOSE_GRACE_S: Final = 5.0
READ_THREADS: Final = 32
MAX_READ_S: Final = 0.5
"""A source that takes longer to say what is new is read in the background, so that it does not delay the others."""
NOT_READ: Final = object()
Outcomes = Mapping[str, Advance]
"""The outcome of each job, by its id."""


@dataclass(slots=True)
class PollRound:
    """What a poll can wait for: micro-batches, attempts at anything else (monotonic clock), slow reads."""

    in_flight: list[Future[Outcomes]] = field(default_factory=list)
    attempts: list[float] = field(default_factory=list)
    reads: list[Future[Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Idle:
    """No job of a source has anything to do until something else is newest, or the clock shows `wake_at` (epoch ms).

    It may be set back to before `since`, when that was found out.
    """

    latest: Any
    wake_at: int | None
    since: int


class JobGroup:
    """The jobs that share a source, each at its own position. One that fails is marked STOPPED in the catalog and removed.

    If the source cannot be read, all of its jobs are.
    """

    def __init__(self, source: Source, driving: Driving, submit: Callable[[Callable[[], Outcomes]], Future[Outcomes]]) -> None:
        """Group jobs; `submit` has work done in the background."""
        self.source = source
        self.jobs: dict[str, HostedJob] = {}
        self.idle: Idle | None = None
        self._context = driving.context
        self._observe = driving.observe
        self._submit = submit
        self._retry = Retry()
        self._stopping = threading.Lock()
        self._read: Future[Any] | None = None

    def add(self, job: HostedJob) -> None:
        self.jobs.setdefault(job.id, job)
        self.idle = None

    def refresh(self, runnable: Mapping[str, JobRecord], keep_ms: Mapping[str, int | None]) -> list[HostedJob]:
        """Have jobs take over what users have asked for, and remove those that should not run as they do.

        Those with a micro-batch in flight leave when that has ended. The others are returned: their runners are still open.
        """
        self.idle = None
        for job in self.jobs.values():
            record, runner = runnable.get(job.id), job.runner
            if record is None or record.definition != job.record.definition or (runner and runner.is_outdated(keep_ms)):
                job.is_removed = True
            elif runner is not None:
                runner.refresh(record)
        removed = [job for job in self.jobs.values() if job.is_removed and job.in_flight is None]
        for job in removed:
            del self.jobs[job.id]
        return removed

    def start_read(self, pool: ThreadPoolExecutor) -> Future[Any] | None:
        """Start to read what is newest; None if a read is in progress, or it is too early to retry."""
        if self._read is not None or not self.jobs or self._retry.is_waiting():
            return None
        self._read = pool.submit(self.source.read, list(self.jobs.values()), None if self.idle is None else self.idle.latest)
        return self._read

    def _take_read(self) -> Any:
        """Return what is newest if a read has ended; NOT_READ otherwise, and if it has failed."""
        if self._read is None or not self._read.done():
            return NOT_READ
        read, self._read = self._read, None
        error = read.exception()
        if error is None:
            self._retry.record_success()
            return read.result()
        if isinstance(error, FailpointError) or not isinstance(error, Exception):
            raise error
        cause = to_error(error)
        if not self._retry.record_failure(cause):
            for job in self.jobs.values():
                if job.in_flight is None:
                    self._start([job], lambda jobs: [self._stop(job, cause) for job in jobs])
            self.idle = None
            self._retry.pause()
        return NOT_READ

    def start(self, round_: PollRound) -> None:
        """Start the next micro-batch of every job that has one, and add what to wait for. Does not wait itself."""
        latest = self._take_read()
        if not self._is_idle(latest):
            self._start_due(latest)
            in_flight = [job.in_flight for job in self.jobs.values() if job.in_flight is not None]
            attempts = [at for job in self.jobs.values() if job.in_flight is None and (at := next_attempt(job)) is not None]
            self.idle = None if in_flight or attempts else self._idle_after(latest)
            round_.in_flight.extend(in_flight)
            round_.attempts.extend(attempts)
        if self._retry.is_waiting() and self.jobs:
            round_.attempts.append(self._retry.retry_at)
        if self._read is not None:
            round_.reads.append(self._read)

    def _start_due(self, latest: Any) -> None:
        rests = [job for job in self.jobs.values() if job.in_flight is None]
        for job in rests:
            if job.is_removed:
                self._start([job], leave)
        if latest is not NOT_READ:
            due = [job for job in rests if not job.is_removed and not job.retry.is_waiting() and self._has_work(job, latest)]
            busy = [job for job in self.jobs.values() if job.in_flight is not None]
            for batch in self.source.batches(sorted(due, key=lambda job: job.started_at), busy):
                self._start(batch, self._advance)

    def _has_work(self, job: HostedJob, latest: Any) -> bool:
        try:
            return job.has_work(self.source, latest)
        except Exception:  # its micro-batch says what is wrong
            logger.exception("%s %s cannot say whether it is due", job.record.definition.kind, job.record.definition.name)
            return True

    def _start(self, jobs: Sequence[HostedJob], work: Callable[[Sequence[HostedJob]], Sequence[Advance]]) -> None:
        """Have work for jobs done in the background: this thread waits neither for tables nor for the catalog."""
        for job in jobs:
            job.started_at = time.monotonic()
        future = self._submit(partial(self._run, jobs, work))
        for job in jobs:
            job.in_flight = future

    def _run(self, jobs: Sequence[HostedJob], work: Callable[[Sequence[HostedJob]], Sequence[Advance]]) -> Outcomes:
        try:
            outcomes = work(jobs)
        except FencedError:
            if not all(self._has_left(job) for job in jobs):
                raise
            outcomes = leave(jobs)
        for job, outcome in zip(jobs, outcomes, strict=True):
            if job.is_removed or outcome is Advance.UNWANTED:
                job.close()
        return {job.id: outcome for job, outcome in zip(jobs, outcomes, strict=True)}

    def _advance(self, jobs: Sequence[HostedJob]) -> Sequence[Advance]:
        """Handle the next micro-batch of jobs; one that fails is tried again, or stopped."""
        try:
            is_new = [job.open(self._context, self.source) for job in jobs]
            if self.source.needs_runners and any(is_new):
                return [Advance.HANDLED] * len(jobs)
            outcomes = self.source.advance(jobs)
        except (FailpointError, FencedError):
            raise
        except Exception as error:
            cause = to_error(error)
            return [Advance.FAILED if job.retry.record_failure(cause) else self._stop(job, cause) for job in jobs]
        for job, outcome in zip(jobs, outcomes, strict=True):
            if outcome is Advance.HANDLED and not job.is_scheduled:
                self._observe(time.monotonic() - job.started_at)
        return outcomes

    def _stop(self, job: HostedJob, error: Error) -> Advance:
        """Mark a job STOPPED, and others that stop with it, unless the catalog cannot be reached."""
        try:
            with self._stopping:  # jobs that stop with another one may fail at the same time
                if not job.is_removed:
                    stop_job(self._context, job.id, error)
                    for other in [self.jobs[id] for id in self.source.stopped_with(job, error) if id in self.jobs]:
                        stop_job(self._context, other.id, error)
                        other.is_removed = True
        except TransientError:
            return Advance.UNSTOPPED
        return Advance.UNWANTED

    def _has_left(self, job: HostedJob) -> bool:
        """Return True if a job was replaced or dropped, or has another snode: this driver's lease has not passed to another."""
        definition = job.record.definition
        try:
            record = self._context.catalog.jobs.by_id(definition.id)
            return record.desired is DesiredState.DROPPED or record.definition.snode != definition.snode
        except NotFoundError:
            return True
        except TransientError:
            return False

    def _is_idle(self, latest: Any) -> bool:
        """Return True if no job has anything to do, as when that was last looked for. Takes no time for each job."""
        idle = self.idle
        if idle is None or latest is NOT_READ:
            return idle is not None
        now = self._context.clock.now()
        return bool(latest == idle.latest) and (idle.wake_at is None or (now < idle.wake_at and not is_set_back(idle.since, now)))

    def _idle_after(self, latest: Any) -> Idle | None:
        """Return until when no job has anything to do; None if one may have for another reason than news and time."""
        runners = [job.runner for job in self.jobs.values()]
        if latest is NOT_READ or not all(runner is not None and runner.is_recorded for runner in runners):
            return None
        wake_ups = [runner.wake_at for runner in runners if runner is not None and runner.wake_at is not None]
        return Idle(latest, min(wake_ups, default=None), self._context.clock.now())

    def collect(self) -> bool:
        """Handle the micro-batches that have ended, and return whether one of them was not empty.

        Raises:
            FencedError: This driver's lease has passed to another one.
        """
        ended = [job for job in self.jobs.values() if job.in_flight is not None and job.in_flight.done()]
        return any(list(map(self._finish, ended)))

    def _finish(self, job: HostedJob) -> bool:
        future, job.in_flight = job.in_flight, None
        assert future is not None
        advance = future.result()[job.id]
        job.is_removed |= advance is Advance.UNWANTED
        if job.is_removed and job.runner is None:
            del self.jobs[job.id]
        elif advance is Advance.UNSTOPPED:
            job.retry.pause()
        elif advance is not Advance.FAILED:
            job.retry.record_success()
        if advance is Advance.FULL:
            job.retry.pause(FULL_SINK_PAUSE_S)
        return advance is not Advance.IDLE


def next_attempt(job: HostedJob) -> float | None:
    """Return when to look at a job that has nothing in flight again; None if nothing but news and time matters."""
    if job.retry.is_waiting():
        return job.retry.retry_at
    return time.monotonic() + DELIVERY_CHECK_S if job.runner is not None and job.runner.is_delivering() else None


def leave(jobs: Sequence[HostedJob]) -> Sequence[Advance]:
    """Let jobs go."""
    return [Advance.UNWANTED] * len(jobs)


class JobHost:
    """Runs the jobs of a driver, or of a connection.

    One thread may reconcile while another polls: only the former waits for the catalog. The latter is woken when a micro-batch
    ends, and when this process commits to a table that jobs read.
    """

    def __init__(self, driving: Driving, runner: RunnerFactory | None = None) -> None:
        """Host jobs; `runner` creates the runner of a job, by default that of its kind."""
        self._context = driving.context
        self._driving = driving
        self._runner = runner
        self._read_pool = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="version")
        self._lock = threading.RLock()
        self._sources: dict[SourcesFactory, tuple[Sources, ThreadPoolExecutor]] = {}
        self._histories: dict[HistoryFactory, History] = {}
        self._groups: dict[Source, JobGroup] = {}
        self._woken = threading.Event()
        self._has_news = False
        self.poll_s = 0.0
        """How long the last poll took, without what it has waited for micro-batches."""
        self._context.tables.writer.listeners.add(self._committed)

    @property
    def running(self) -> frozenset[str]:
        """The ids of the jobs that must not be dropped or given to another snode yet, since a micro-batch may be in flight."""
        return frozenset(job.id for job in self.jobs if not job.is_scheduled)

    @property
    def jobs(self) -> list[HostedJob]:
        """The jobs that run, including those that will be removed once their micro-batch has ended."""
        return [job for group in list(self._groups.values()) for job in list(group.jobs.values())]

    def activity(self) -> dict[str, JobActivity]:
        """Return what is being done for each job whose ledger does not show that. Thread-safe."""
        return {
            job.id: JobActivity(job.in_flight_ms, job.retry.failures, group.source.pending_since(job))
            for group in list(self._groups.values())
            for job in list(group.jobs.values())
            if not job.is_scheduled
        }

    def samples(self) -> dict[str, RunnerSample]:
        """Return the measurements of each job that has any. Thread-safe."""
        runners = {job.id: job.runner for job in self.jobs}
        samples = {id: runner.sample() for id, runner in runners.items() if runner is not None}
        return {id: sample for id, sample in samples.items() if sample is not None}

    def prepare(self, record: JobRecord) -> bool:
        """Do what a job needs before it can run, and return whether it should run now.

        An error that is not transient stops the job.
        """
        factory = kind_of(record.definition).history
        if factory is None:
            return True
        create = factory()
        if create not in self._histories:
            self._histories[create] = create(self._driving)
        return self._histories[create].prepare(record)

    def reconcile(self, records: Sequence[JobRecord]) -> None:
        """Run those of `records` that should run, and no others, each from its recorded position.

        They become RUNNING. Jobs that are desired PAUSED are removed, and become PAUSED once they have been. Those that are STOPPED
        or being filled do not run. A job whose definition has changed, or the KEEP of its target, starts again with the new one.
        """
        runnable = {record.definition.id: record for record in records if self._is_runnable(record)}
        keep_ms = {database.name: database.keep_ms for database in self._context.catalog.databases.all()} if runnable else {}
        self._refresh_sources(records, runnable)
        with self._lock:
            removed = [job for group in self._groups.values() for job in group.refresh(runnable, keep_ms)]
        for job in removed:
            job.close()
        running = {job.id for job in self.jobs}
        for record in records:
            if record.definition.id in running:
                continue
            if record.definition.id in runnable:
                self._add(record)
            elif record.desired is DesiredState.PAUSED and record.state in (JobState.CREATED, JobState.RUNNING):
                self._set_state(record, JobState.PAUSED)
        with self._lock:
            self._groups = {source: group for source, group in self._groups.items() if group.jobs}

    def _is_runnable(self, record: JobRecord) -> bool:
        kind = kind_of(record.definition)
        is_own = self._driving.runs_all or kind.is_resident(record.definition, self._context.settings)
        return is_own and kind.is_runnable(record)

    def _refresh_sources(self, records: Sequence[JobRecord], runnable: Mapping[str, JobRecord]) -> None:
        own: dict[SourcesFactory, list[JobRecord]] = {factory: [] for factory in self._sources}
        for record in records:
            own.setdefault(kind_of(record.definition).sources(), []).append(record)
        for factory, hosted in own.items():
            self._sources_of(factory)[0].refresh(hosted, [record for record in hosted if record.definition.id in runnable])

    def _sources_of(self, factory: SourcesFactory) -> tuple[Sources, ThreadPoolExecutor]:
        if factory not in self._sources:
            sources = factory(self._driving)
            self._sources[factory] = sources, ThreadPoolExecutor(sources.threads, thread_name_prefix=sources.name)
        return self._sources[factory]

    def _add(self, record: JobRecord) -> None:
        """Add a job. If its source is not in the catalog, the job is stopped."""
        kind = kind_of(record.definition)
        sources, pool = self._sources_of(kind.sources())
        try:
            source = sources.source(record)
        except FencedError:
            raise
        except TerminalError as error:
            stop_job(self._context, record.definition.id, error)
            return
        if record.state is not JobState.RUNNING or record.reason is not None:
            self._set_state(record, JobState.RUNNING)
        job = HostedJob(record, self._runner or kind.runner(), kind.is_scheduled)
        with self._lock:
            if source not in self._groups:
                self._groups[source] = JobGroup(source, self._driving, partial(self._submit, pool))
            self._groups[source].add(job)

    def _set_state(self, record: JobRecord, state: JobState) -> None:
        self._context.catalog.jobs.set_state(record.definition.id, state, epoch=self._context.epoch or None)

    def _submit(self, pool: ThreadPoolExecutor, work: Callable[[], Outcomes]) -> Future[Outcomes]:
        future = pool.submit(work)
        future.add_done_callback(lambda _: self._woken.set())
        return future

    def _committed(self, table: Table, version: int) -> None:  # noqa: ARG002
        """Wake the polling thread if jobs read the table of a commit."""
        id = source_id(table.database, table.name)
        if any(source.follows(id) for source in list(self._groups)):
            self._wake()

    def poll(self, timeout_s: float | None = None) -> bool:
        """Start every micro-batch that can start, and return when the first one in flight ends, or after `timeout_s`.

        With a timeout, idle jobs get what has arrived meanwhile, and sources that do not answer are not waited for. Returns True
        if there was something to do, so that `while host.poll(): pass` settles.

        Raises:
            FencedError: This driver's lease has passed to another. Failures of a job or a source are not raised.
        """
        began, self._has_news = time.monotonic(), False
        self._woken.clear()
        with self._lock:
            reads = [group.start_read(self._read_pool) for group in self._groups.values()]
        wait([read for read in reads if read is not None], MAX_READ_S)
        round_ = PollRound()
        with self._lock:
            for group in self._groups.values():
                group.start(round_)
        self.poll_s = time.monotonic() - began
        if round_.in_flight:
            if not any(future.done() for future in round_.in_flight):
                self._woken.wait(timeout_s)
            self._woken.clear()  # by what is collected now, but for news
            if self._has_news:
                self._woken.set()
            with self._lock:
                has_worked = any(list(map(JobGroup.collect, self._groups.values())))
            return has_worked or bool(round_.attempts) or not all(future.done() for future in round_.in_flight)
        if round_.attempts:
            pause = max(0.0, min(round_.attempts) - time.monotonic())
            self._woken.wait(pause if timeout_s is None else min(pause, timeout_s))
        elif round_.reads and timeout_s is None:
            wait(round_.reads, return_when=FIRST_COMPLETED)
        return bool(round_.attempts) or (bool(round_.reads) and timeout_s is None)

    def wait(self, timeout_s: float) -> None:
        """Wait until there may be something to do: for a commit, or until the clock makes a job due."""
        idle = [group.idle for group in list(self._groups.values())]
        wake_ups = [rest.wake_at for rest in idle if rest is not None and rest.wake_at is not None]
        due_s = (min(wake_ups) - self._context.clock.now()) / 1000 if wake_ups else timeout_s
        self._woken.wait(max(0.0, min(timeout_s, due_s)))

    def _wake(self) -> None:
        """Have the polling thread poll again."""
        self._has_news = True
        self._woken.set()

    def stop(self) -> None:
        """Start no further work, and wake the polling thread."""
        for history in self._histories.values():
            history.stop()
        for source in list(self._groups):
            source.is_stopping = True
        self._wake()

    def close(self) -> None:
        """Wait for micro-batches in flight, remove all jobs, and give their background work a few seconds to end."""
        self._context.tables.writer.listeners.discard(self._committed)
        with self._lock:
            jobs, groups, self._groups = self.jobs, self._groups, {}
        for source, group in groups.items():
            wait([job.in_flight for job in group.jobs.values() if job.in_flight is not None], source.close_grace_s)
        ended = [job for job in jobs if job.in_flight is None or job.in_flight.done()]
        runners = [job.runner for job in ended if job.runner is not None]
        for runner in runners:
            runner.close(0)
        deadline = time.monotonic() + CLOSE_GRACE_S
        for runner in runners:
            runner.close(max(0.0, deadline - time.monotonic()))
        for pool in (self._read_pool, *(pool for _, pool in self._sources.values())):
            pool.shutdown(wait=False, cancel_futures=True)
