"""Source pollers: one reader of changes for each source table, and the streams subscribed to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, ParamSpec
from weakref import WeakValueDictionary

from headrace.context import Context
from headrace.errors import Error, FencedError, InternalError, NotFoundError, TerminalError, TransientError
from headrace.jobs.hosts import JobActivity
from headrace.jobs.registry import kind_of
from headrace.jobs.runners import Advance, Runner, RunnerFactory
from headrace.model.clock import is_set_back
from headrace.model.failpoints import FailpointError
from headrace.model.jobs import DesiredState, JobDefinition, JobRecord, JobState
from headrace.model.positions import Offsets, SourceId
from headrace.model.tables import TableId
from headrace.streams.definition.define import plan_recorded_stream
from headrace.streams.failures import stop_job, to_error
from headrace.streams.metering import RunnerSample
from headrace.streams.runner import Reader
from headrace.streams.sources.reader import ChangeReader
from headrace.streams.sources.subscriptions import PollRound, Retry, Subscription
from headrace.streams.sources.turns import Turns, turns_at
from headrace.streams.sources.virtual_reader import VirtualReader

FULL_SINK_PAUSE_S: Final = 0.05
DELIVERY_CHECK_S: Final = 0.01
CLOSE_GRACE_S: Final = 5.0
BATCH_THREADS: Final = 8
VERSION_READ_THREADS: Final = 32
MAX_VERSION_READ_S: Final = 0.5
"""A source whose version takes longer to read is read in the background, so that it does not delay the others."""

P = ParamSpec("P")
Observe = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Idle:
    """No stream of a source has anything to do until the source has another version, or the clock shows `wake_at` (epoch ms).

    It may be set back to before `since`, when that was found out.
    """

    latest: Offsets
    wake_at: int | None
    since: int


class SourcePoller:
    """Reads the changes of one source and hands them to its streams, each at its own position.

    The source is a table, or several tables that are read together. Streams at the same offsets share what was read. A stream that
    fails is marked STOPPED in the catalog and removed. If the source cannot be read, all of its streams are stopped.
    """

    def __init__(
        self, reader: Reader, context: Context, pool: ThreadPoolExecutor, turns: Turns, observe: Observe, runner: RunnerFactory
    ) -> None:
        self.reader = reader
        self.context = context
        self._pool = pool
        self._turns = turns
        self._observe = observe
        self._runner = runner
        self._retry = Retry()
        self._version_read: Future[Offsets] | None = None
        self._committed_at: dict[tuple[SourceId, int], int | None] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._idle: Idle | None = None

    @property
    def streams(self) -> frozenset[str]:
        """The ids of its streams, including those that will be removed once their micro-batch has ended."""
        return frozenset(self._subscriptions)

    def outdated(self, runnable: Mapping[str, JobRecord], keep_ms: Mapping[str, int | None]) -> set[str]:
        """Return the ids of its streams that should not run, or whose definition or KEEP of the target's database has changed."""
        return {
            job_id
            for job_id, subscription in self._subscriptions.items()
            if job_id not in runnable
            or runnable[job_id].definition != subscription.record.definition
            or (subscription.runner is not None and subscription.runner.is_outdated(keep_ms))
        }

    def add(self, record: JobRecord) -> None:
        """Add a stream at its recorded position. An error is recorded as its stop reason, not raised."""
        self._subscriptions.setdefault(record.definition.id, Subscription(record))
        self._idle = None

    def refresh(self, runnable: Mapping[str, JobRecord]) -> None:
        self._idle = None
        for job_id, subscription in self._subscriptions.items():
            if subscription.runner is not None and job_id in runnable:
                subscription.runner.refresh(runnable[job_id])

    def remove(self, job_id: str) -> None:
        """Remove a stream, now or once its micro-batch in flight has ended."""
        subscription = self._subscriptions.get(job_id)
        if subscription is None:
            return
        subscription.is_removed = True
        if subscription.in_flight is None:
            self._drop(subscription)

    def start_version_read(self, pool: ThreadPoolExecutor) -> Future[Offsets] | None:
        """Start to read the latest version of the sources; None if a read is in progress, or it is too early to retry."""
        if self._version_read is not None or not self._subscriptions or self._retry.is_waiting():
            return None
        self._version_read = pool.submit(self._read_version)
        return self._version_read

    def start(self) -> PollRound:
        """Start the next micro-batch of every idle stream that has one. Does not wait."""
        round_ = PollRound()
        latest = self._take_version()
        if not self._is_idle(latest):
            for subscription in self._subscriptions.values():
                self._start(subscription, latest, round_)
            self._idle = self._idle_after(latest, round_)
        if self._retry.is_waiting() and self._subscriptions:
            round_.wait_until(self._retry.retry_at)
        if self._version_read is not None:
            round_.version_reads.append(self._version_read)
        return round_

    def _is_idle(self, latest: Offsets | None) -> bool:
        """Return True if no stream has anything to do, as when that was last looked for. Takes no time for each stream."""
        idle = self._idle
        if idle is None or latest is None:
            return idle is not None
        now = self.context.clock.now()
        return latest == idle.latest and (idle.wake_at is None or (now < idle.wake_at and not is_set_back(idle.since, now)))

    def _idle_after(self, latest: Offsets | None, round_: PollRound) -> Idle | None:
        """Return until when no stream has anything to do; None if one has, or may have for another reason than commits and time."""
        runners = [subscription.runner for subscription in self._subscriptions.values()]
        if latest is None or round_.in_flight or round_.next_attempt is not None:
            return None
        if not all(runner is not None and runner.is_recorded for runner in runners):
            return None
        wake_ups = [runner.wake_at for runner in runners if runner is not None and runner.wake_at is not None]
        return Idle(latest, min(wake_ups, default=None), self.context.clock.now())

    def collect(self) -> None:
        """Handle the micro-batches that have ended; `FencedError` if this driver's lease has passed to another."""
        for subscription in list(self._subscriptions.values()):
            if subscription.in_flight is not None and subscription.in_flight.done():
                self._finish(subscription)

    def activity(self) -> dict[str, JobActivity]:
        """Return what is being done for each stream. Thread-safe."""
        return {
            subscription.record.definition.id: JobActivity(
                subscription.in_flight_ms, subscription.retry.failures, self._pending_since(subscription)
            )
            for subscription in list(self._subscriptions.values())
        }

    def samples(self) -> dict[str, RunnerSample]:
        """Return the measurements of each stream that has a state. Thread-safe."""
        runners = {id: subscription.runner for id, subscription in list(self._subscriptions.items())}
        samples = {id: runner.sample() for id, runner in runners.items() if runner is not None}
        return {id: sample for id, sample in samples.items() if sample is not None}

    def clear(self) -> list[Runner]:
        """Wait for micro-batches in flight, remove all streams, and return their runners, whose background work still runs."""
        wait([subscription.in_flight for subscription in self._subscriptions.values() if subscription.in_flight is not None])
        runners = [subscription.runner for subscription in self._subscriptions.values() if subscription.runner is not None]
        self._subscriptions.clear()
        return runners

    def _read_version(self) -> Offsets:
        """Return the latest version of the sources, and note when the first unhandled commits of each stream were made."""
        latest, idle = self.reader.latest(), self._idle
        if idle is not None and latest == idle.latest:
            self._committed_at = {}
            return latest
        unhandled = {
            (source, offset + 1)
            for subscription in list(self._subscriptions.values())
            for source, offset in subscription.recorded_offsets.items()
            if offset < latest.get(source, -1)
        }
        cached = self._committed_at
        self._committed_at = {
            commit: cached[commit] if commit in cached else self.reader.committed_at(*commit) for commit in unhandled
        }
        return latest

    def _take_version(self) -> Offsets | None:
        """Return the latest version of the sources if a read has ended; None otherwise, and if it cannot be read."""
        if self._version_read is None or not self._version_read.done():
            return None
        version_read, self._version_read = self._version_read, None
        error = version_read.exception()
        if error is None:
            self._retry.record_success()
            return version_read.result()
        if isinstance(error, FailpointError) or not isinstance(error, Exception):
            raise error
        self._handle_source_failure(to_error(error))
        return None

    def _handle_source_failure(self, error: Error) -> None:
        """Stop the streams of a source that cannot be read, unless another attempt is left."""
        if self._retry.record_failure(error):
            return
        for subscription in self._subscriptions.values():
            if subscription.in_flight is None:
                self._start_stopping(subscription, error)
        self._idle = None
        self._retry.pause()

    def _start(self, subscription: Subscription, latest: Offsets | None, round_: PollRound) -> None:
        if subscription.in_flight is None and latest is not None:
            if subscription.retry.is_waiting():
                round_.wait_until(subscription.retry.retry_at)
            elif subscription.has_work(latest):
                subscription.started_at = time.monotonic()
                self._submit(subscription, self._advance, subscription)
        if subscription.in_flight is not None:
            round_.in_flight.append(subscription.in_flight)
        elif subscription.runner is not None and subscription.runner.is_delivering():
            round_.wait_until(time.monotonic() + DELIVERY_CHECK_S)

    def _submit(self, subscription: Subscription, work: Callable[P, Advance], *args: P.args, **kwargs: P.kwargs) -> None:
        """Have work for a stream done in the background: this thread waits neither for tables nor for the catalog."""

        def run() -> Advance:
            try:
                return work(*args, **kwargs)
            except FencedError:
                if self._has_left(subscription):
                    return Advance.UNWANTED
                raise

        subscription.in_flight = self._pool.submit(run)

    def _advance(self, subscription: Subscription) -> Advance:
        if subscription.runner is None:
            subscription.runner = self._runner(self.context, subscription.record, self.reader)
        elif subscription.retry.failures:
            subscription.runner.reset()
        with self._turns.take():
            advance = subscription.runner.advance()
        if advance is Advance.HANDLED:
            self._observe(time.monotonic() - subscription.started_at)
        return advance

    def _finish(self, subscription: Subscription) -> None:
        future, subscription.in_flight = subscription.in_flight, None
        error = future.exception() if future is not None else None
        if isinstance(error, FailpointError | FencedError) or (error is not None and not isinstance(error, Exception)):
            raise error
        if subscription.is_removed:
            self._drop(subscription)
        elif error is not None:
            cause = to_error(error)
            if not subscription.retry.record_failure(cause):
                self._start_stopping(subscription, cause)
        elif future is not None:
            self._handle_outcome(subscription, future.result())

    def _has_left(self, subscription: Subscription) -> bool:
        """Return True if a stream was replaced or dropped, or has another snode: this driver's lease has not passed to another."""
        definition = subscription.record.definition
        try:
            record = self.context.catalog.jobs.by_id(definition.id)
            return record.desired is DesiredState.DROPPED or record.definition.snode != definition.snode
        except NotFoundError:
            return True
        except TransientError:
            return False

    def _handle_outcome(self, subscription: Subscription, advance: Advance) -> None:
        if advance is Advance.UNSTOPPED:
            subscription.retry.pause()
            return
        subscription.retry.record_success()
        if advance is Advance.UNWANTED:
            self._drop(subscription)
        elif advance is Advance.FULL:
            subscription.retry.retry_at = time.monotonic() + FULL_SINK_PAUSE_S

    def _start_stopping(self, subscription: Subscription, error: Error) -> None:
        self._submit(subscription, self._stop, subscription.record, error)

    def _stop(self, record: JobRecord, error: Error) -> Advance:
        """Mark a stream STOPPED, unless the catalog cannot be reached."""
        try:
            stop_job(self.context, record.definition.id, error)
        except TransientError:
            return Advance.UNSTOPPED
        return Advance.UNWANTED

    def _drop(self, subscription: Subscription) -> None:
        self._subscriptions.pop(subscription.record.definition.id, None)
        if subscription.runner is not None:
            subscription.runner.close(0)

    def _pending_since(self, subscription: Subscription) -> int | None:
        """Return when the oldest commit not yet handled was made, as of the last version read. Reads nothing: a source may hang."""
        committed_at = self._committed_at
        instants = (committed_at.get((source, offset + 1)) for source, offset in subscription.recorded_offsets.items())
        return min((instant for instant in instants if instant is not None), default=None)


def create_runner(context: Context, record: JobRecord, reader: Reader) -> Runner:
    kind = kind_of(record.definition)
    if kind.runner is None:
        raise InternalError(f"{kind.plural} do not read the changes of tables", hint="report this bug in Headrace")
    return kind.runner()(context, record, reader)


class SourcePollers:
    """The source pollers of a driver.

    `observe` is called with the seconds of every micro-batch; `runner` creates the runner of a job, by default that of its kind.
    One thread may reconcile while another polls: only the former waits for the catalog.
    """

    def __init__(self, context: Context, observe: Observe = lambda _: None, runner: RunnerFactory = create_runner) -> None:
        self.context = context
        self._observe = observe
        self._runner = runner
        self._pool = ThreadPoolExecutor(BATCH_THREADS, thread_name_prefix="poller")
        self._turns = turns_at(context.tables.uri, BATCH_THREADS)
        self._version_pool = ThreadPoolExecutor(VERSION_READ_THREADS, thread_name_prefix="version")
        self._lock = threading.RLock()
        self._pollers: dict[str, SourcePoller] = {}
        self._readers: WeakValueDictionary[SourceId, ChangeReader] = WeakValueDictionary()

    @property
    def streams(self) -> frozenset[str]:
        """The ids of the streams that run, including those that will be removed once their micro-batch has ended."""
        with self._lock:
            return frozenset(stream for poller in self._pollers.values() for stream in poller.streams)

    def activity(self) -> dict[str, JobActivity]:
        """Return what is being done for each stream. Thread-safe."""
        pollers = list(self._pollers.values())
        return {stream: activity for poller in pollers for stream, activity in poller.activity().items()}

    def samples(self) -> dict[str, RunnerSample]:
        """Return the measurements of each stream that has a state. Thread-safe."""
        return {id: sample for poller in list(self._pollers.values()) for id, sample in poller.samples().items()}

    def reconcile(self, records: Sequence[JobRecord]) -> None:
        """Run those of `records` that should run, and no others.

        Added: desired RUNNING and observed CREATED (without history), RUNNING or PAUSED; they become RUNNING. Streams that are
        desired PAUSED are removed, and become PAUSED once they have been. FILLING and STOPPED ones, and those not in `records`, do
        not run. A stream whose definition has changed, or the KEEP of its target, starts again with the new one.
        """
        runnable = {record.definition.id: record for record in records if is_runnable(record)}
        keep_ms = {database.name: database.keep_ms for database in self.context.catalog.databases.all()} if runnable else {}
        with self._lock:
            for poller in self._pollers.values():
                for job_id in poller.outdated(runnable, keep_ms):
                    poller.remove(job_id)
                poller.refresh(runnable)
            running = self.streams
        for record in records:
            is_settled = record.desired is not DesiredState.PAUSED or record.state not in (JobState.CREATED, JobState.RUNNING)
            if record.definition.id not in running and not is_settled:
                self._set_state(record, JobState.PAUSED)
        for job_id in runnable.keys() - running:
            self._subscribe(runnable[job_id])
        with self._lock:
            for source in [source for source, poller in self._pollers.items() if not poller.streams]:
                del self._pollers[source]

    def poll(self, timeout_s: float | None = None) -> bool:
        """Start every micro-batch that can start, and return when the first one in flight ends, or after `timeout_s`.

        With a timeout, idle streams get what has arrived meanwhile, and sources that do not answer are not waited for. Returns True
        if there was something to do, so that `while pollers.poll(): pass` settles.

        Raises:
            FencedError: This driver's lease has passed to another. Failures of a stream or a source are not raised.
        """
        with self._lock:
            reads = [poller.start_version_read(self._version_pool) for poller in self._pollers.values()]
        wait([read for read in reads if read is not None], MAX_VERSION_READ_S)
        round_ = self._start_round()
        if round_.in_flight:
            wait(round_.in_flight, timeout_s, return_when=FIRST_COMPLETED)
            with self._lock:
                for poller in self._pollers.values():
                    poller.collect()
        elif round_.next_attempt is not None:
            pause = max(0.0, round_.next_attempt - time.monotonic())
            time.sleep(pause if timeout_s is None else min(pause, timeout_s))
        elif round_.version_reads and timeout_s is None:
            wait(round_.version_reads, return_when=FIRST_COMPLETED)
            return True
        return bool(round_.in_flight) or round_.next_attempt is not None

    def _start_round(self) -> PollRound:
        round_ = PollRound()
        with self._lock:
            for poller in self._pollers.values():
                round_.add(poller.start())
        return round_

    def close(self) -> None:
        """Wait for micro-batches in flight, remove all streams, and give their background work a few seconds to end."""
        with self._lock:
            pollers = list(self._pollers.values())
        runners = [runner for poller in pollers for runner in poller.clear()]
        with self._lock:
            self._pollers.clear()
        for runner in runners:
            runner.close(0)
        deadline = time.monotonic() + CLOSE_GRACE_S
        for runner in runners:
            runner.close(max(0.0, deadline - time.monotonic()))
        self._pool.shutdown()
        self._version_pool.shutdown(wait=False)

    def _subscribe(self, record: JobRecord) -> None:
        """Add a stream. If its source is not in the catalog, the stream is stopped."""
        try:
            poller = self._poller(record)
        except FencedError:
            raise
        except TerminalError as error:
            stop_job(self.context, record.definition.id, error)
            return
        if record.state is not JobState.RUNNING:
            self._set_state(record, JobState.RUNNING)
        with self._lock:
            poller.add(record)

    def _poller(self, record: JobRecord) -> SourcePoller:
        definition = record.definition
        # Virtual tables may differ in their origins from stream to stream.
        key = definition.source_ids[0] if definition.virtual is None else definition.id
        if key not in self._pollers:
            reader = self._reader(definition)
            poller = SourcePoller(reader, self.context, self._pool, self._turns, self._observe, self._runner)
            with self._lock:
                self._pollers[key] = poller
        return self._pollers[key]

    def _reader(self, definition: JobDefinition) -> Reader:
        readers = {
            id: self._change_reader(id, source) for id, source in zip(definition.source_ids, definition.sources, strict=True)
        }
        if definition.virtual is None:
            (reader,) = readers.values()
            return reader
        return VirtualReader(
            self.context, plan_recorded_stream(definition, self.context.catalog, self.context.settings).scan, readers
        )

    def _change_reader(self, id: SourceId, source: TableId) -> ChangeReader:
        reader = self._readers.get(id)
        if reader is None:
            database = self.context.catalog.databases.get(source.database)
            reader = ChangeReader(self.context, self.context.catalog.tables.get(source.database, source.name), database)
            self._readers[id] = reader
        return reader

    def _set_state(self, record: JobRecord, state: JobState) -> None:
        self.context.catalog.jobs.set_state(record.definition.id, state, epoch=self.context.epoch or None)


def is_runnable(record: JobRecord) -> bool:
    """Return True if a driver should run a stream: it is desired, has a position, and no backfill works on it."""
    has_position = record.progress.position is not None or record.progress.boundary is not None
    has_runnable_state = record.state in (JobState.CREATED, JobState.RUNNING, JobState.PAUSED)
    return record.desired is DesiredState.RUNNING and has_runnable_state and has_position
