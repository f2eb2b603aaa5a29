"""Source pollers: one reader of changes for each source table, and the streams that take them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import Error, FencedError, TerminalError, TransientError
from headrace.model.failpoints import FailpointError
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.model.positions import SourceId
from headrace.streams.context import Context
from headrace.streams.failures import explained, stop
from headrace.streams.runner import Advance, Reader, Runner
from headrace.streams.sources.reader import ChangeReader

MAX_ATTEMPTS: Final = 5
"""Times that a micro-batch, or a look at a source, is tried while it fails with a transient error."""

FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 5.0
FULL_SINK_PAUSE_S: Final = 0.05
CLOSE_GRACE_S: Final = 5.0
THREADS: Final = 4
LOOK_THREADS: Final = 32
MAX_LOOK_S: Final = 0.5
"""A source that takes longer to tell its version is looked at in the background, so that it does not hold up the others."""

RunnerFactory = Callable[[Context, JobRecord, Reader], Runner]
Observe = Callable[[float], None]


@dataclass(slots=True)
class Retry:
    """Failures in a row, and when to try again, on the monotonic clock."""

    failures: int = 0
    retry_at: float = 0.0

    def failed(self, error: Error) -> bool:
        """Note a failure; False if there is no point in another attempt."""
        self.failures += 1
        if not isinstance(error, TransientError) or self.failures >= MAX_ATTEMPTS:
            return False
        self.retry_at = time.monotonic() + min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** (self.failures - 1))
        return True

    def pause(self) -> None:
        """Wait as long as between attempts at most."""
        self.retry_at = time.monotonic() + MAX_PAUSE_S

    def succeeded(self) -> None:
        self.failures, self.retry_at = 0, 0.0

    def is_waiting(self) -> bool:
        return self.retry_at > time.monotonic()


@dataclass(slots=True)
class Subscription:
    """One stream on a source. `started_at` is when the micro-batch in flight began, on the monotonic clock."""

    record: JobRecord
    runner: Runner | None = None
    in_flight: Future[Advance] | None = None
    started_at: float = 0.0
    retry: Retry = field(default_factory=Retry)
    leaving: bool = False

    def has_work(self, newest: int) -> bool:
        """Return True if its next micro-batch can begin: it has to restart, lags behind its source, or wants to be woken."""
        runner = self.runner
        return runner is None or self.retry.failures > 0 or runner.offset < newest or runner.is_due() or runner.is_record_due()

    @property
    def in_flight_ms(self) -> int:
        """For how long the micro-batch in flight has been running, 0 if there is none."""
        return 0 if self.in_flight is None else max(1, round((time.monotonic() - self.started_at) * 1000))


@dataclass(frozen=True, slots=True)
class JobActivity:
    """What a driver is doing for one job.

    Attributes:
        in_flight_ms: For how long its micro-batch has been running, 0 if there is none.
        failures: Failed attempts in a row.
        pending_since: When the oldest commit not yet handled was made, in epoch milliseconds; None if all are handled.
    """

    in_flight_ms: int
    failures: int
    pending_since: int | None

    def lag_ms(self, now: int) -> int:
        """Return the age of the oldest commit not yet handled."""
        return 0 if self.pending_since is None else max(0, now - self.pending_since)


@dataclass(slots=True)
class Round:
    """What there is to wait for: micro-batches in flight, the next attempt at anything else (monotonic clock), slow looks."""

    in_flight: list[Future[Advance]] = field(default_factory=list)
    next_attempt: float | None = None
    looking: list[Future[int]] = field(default_factory=list)

    def wait_until(self, instant: float) -> None:
        self.next_attempt = instant if self.next_attempt is None else min(self.next_attempt, instant)

    def add(self, other: Round) -> None:
        self.in_flight.extend(other.in_flight)
        self.looking.extend(other.looking)
        if other.next_attempt is not None:
            self.wait_until(other.next_attempt)


class SourcePoller:
    """Reads the changes of one source table and hands them to its streams, each at its own position.

    Streams at the same offset share what was read. One that fails is marked STOPPED in the catalog and leaves; if the source cannot
    be read, all of its streams are.
    """

    def __init__(
        self, reader: ChangeReader, context: Context, pool: ThreadPoolExecutor, observe: Observe, runner: RunnerFactory
    ) -> None:
        self.reader = reader
        self.context = context
        self._pool = pool
        self._observe = observe
        self._runner = runner
        self._retry = Retry()
        self._looking: Future[int] | None = None
        self._committed_at: dict[int, int | None] = {}
        self._subscriptions: dict[str, Subscription] = {}

    @property
    def streams(self) -> frozenset[str]:
        """Ids of its streams, those included that leave once their micro-batch has ended."""
        return frozenset(self._subscriptions)

    def add(self, record: JobRecord) -> None:
        """Take a stream in, at the position it has recorded. An error is recorded as its reason to stop, not raised."""
        self._subscriptions.setdefault(record.definition.id, Subscription(record))

    def remove(self, job_id: str) -> None:
        """Let a stream leave, now or once its micro-batch in flight has ended."""
        subscription = self._subscriptions.get(job_id)
        if subscription is None:
            return
        subscription.leaving = True
        if subscription.in_flight is None:
            self._drop(subscription)

    def look(self, pool: ThreadPoolExecutor) -> Future[int] | None:
        """Begin to look for the source's newest version; None if a look is in progress, or it is not the time."""
        if self._looking is not None or not self._subscriptions or self._retry.is_waiting():
            return None
        self._looking = pool.submit(self._look)
        return self._looking

    def start(self) -> Round:
        """Begin the next micro-batch of every idle stream that has one; nothing is waited for."""
        round_ = Round()
        newest = self._newest()
        for subscription in self._subscriptions.values():
            self._start(subscription, newest, round_)
        if self._retry.is_waiting() and self._subscriptions:
            round_.wait_until(self._retry.retry_at)
        if self._looking is not None:
            round_.looking.append(self._looking)
        return round_

    def collect(self) -> None:
        """Conclude the micro-batches that have ended.

        Raises:
            FencedError: this driver's lease has passed to another.
        """
        for subscription in list(self._subscriptions.values()):
            if subscription.in_flight is not None and subscription.in_flight.done():
                self._conclude(subscription)

    def activity(self) -> dict[str, JobActivity]:
        """Return what is being done for each stream. May be called from any thread."""
        return {
            subscription.record.definition.id: JobActivity(
                subscription.in_flight_ms, subscription.retry.failures, self._pending_since(subscription)
            )
            for subscription in list(self._subscriptions.values())
        }

    def close(self) -> None:
        """Wait for micro-batches in flight and let all streams go."""
        wait([one.in_flight for one in self._subscriptions.values() if one.in_flight is not None])
        for subscription in list(self._subscriptions.values()):
            self._drop(subscription, CLOSE_GRACE_S)

    def _look(self) -> int:
        """Read the source's newest version, and when the first commits were made that streams have yet to handle."""
        newest = self.reader.newest()
        offsets = {offset for one in list(self._subscriptions.values()) if (offset := recorded_offset(one)) is not None}
        unhandled = {offset + 1 for offset in offsets if offset < newest}
        known = self._committed_at
        self._committed_at = {at: known[at] if at in known else self.reader.committed_at(at) for at in unhandled}
        return newest

    def _newest(self) -> int | None:
        """The source's newest version if a look has ended; None otherwise, and if it cannot be read."""
        if self._looking is None or not self._looking.done():
            return None
        looked, self._looking = self._looking, None
        error = looked.exception()
        if error is None:
            self._retry.succeeded()
            return looked.result()
        if isinstance(error, FailpointError) or not isinstance(error, Exception):
            raise error
        self._source_failed(explained(error))
        return None

    def _source_failed(self, error: Error) -> None:
        """Stop the streams of a source that cannot be read, unless it is worth another attempt."""
        if self._retry.failed(error):
            return
        for subscription in list(self._subscriptions.values()):
            self._stop(subscription, error)
        self._retry.pause()

    def _start(self, subscription: Subscription, newest: int | None, round_: Round) -> None:
        if subscription.in_flight is None and newest is not None:
            if subscription.retry.is_waiting():
                round_.wait_until(subscription.retry.retry_at)
            elif subscription.has_work(newest):
                subscription.started_at = time.monotonic()
                subscription.in_flight = self._pool.submit(self._advance, subscription)
        if subscription.in_flight is not None:
            round_.in_flight.append(subscription.in_flight)

    def _advance(self, subscription: Subscription) -> Advance:
        if subscription.runner is None:
            subscription.runner = self._runner(self.context, subscription.record, self.reader)
        elif subscription.retry.failures:
            subscription.runner.reset()
        advance = subscription.runner.advance()
        if advance is Advance.HANDLED:
            self._observe(time.monotonic() - subscription.started_at)
        return advance

    def _conclude(self, subscription: Subscription) -> None:
        """Act on the end of a micro-batch."""
        future, subscription.in_flight = subscription.in_flight, None
        error = future.exception() if future is not None else None
        if isinstance(error, FailpointError | FencedError) or (error is not None and not isinstance(error, Exception)):
            raise error
        if subscription.leaving:
            self._drop(subscription)
        elif error is not None:
            self._failed(subscription, explained(error))
        elif future is not None:
            self._advanced(subscription, future.result())

    def _advanced(self, subscription: Subscription, advance: Advance) -> None:
        subscription.retry.succeeded()
        if advance is Advance.UNWANTED:
            self._drop(subscription)
        elif advance is Advance.FULL:
            subscription.retry.retry_at = time.monotonic() + FULL_SINK_PAUSE_S

    def _failed(self, subscription: Subscription, error: Error) -> None:
        if not subscription.retry.failed(error):
            self._stop(subscription, error)

    def _stop(self, subscription: Subscription, error: Error) -> None:
        """Mark a stream STOPPED and let it leave; while the catalog cannot be told, what failed is tried again now and then."""
        try:
            stop(self.context, subscription.record, error)
        except TransientError:
            subscription.retry.pause()
        else:
            self.remove(subscription.record.definition.id)

    def _drop(self, subscription: Subscription, grace_s: float = 0.0) -> None:
        self._subscriptions.pop(subscription.record.definition.id, None)
        if subscription.runner is not None:
            subscription.runner.close(grace_s)

    def _pending_since(self, subscription: Subscription) -> int | None:
        """When the oldest commit not yet handled was made, as of the last look. Reads nothing: a source may hang."""
        offset = recorded_offset(subscription)
        return None if offset is None else self._committed_at.get(offset + 1)


def recorded_offset(subscription: Subscription) -> int | None:
    """The last source version that a stream has handled and recorded; None before it is live."""
    runner, record = subscription.runner, subscription.record
    position = (record.progress if runner is None else runner.progress).position
    return None if position is None else position.offsets[record.definition.source_id]


class SourcePollers:
    """The source pollers of a driver. `observe` is told the seconds of every micro-batch, `runner` makes what runs a stream."""

    def __init__(self, context: Context, observe: Observe = lambda _: None, runner: RunnerFactory = Runner) -> None:
        self.context = context
        self._observe = observe
        self._runner = runner
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="poller")
        self._looks = ThreadPoolExecutor(LOOK_THREADS, thread_name_prefix="look")
        self._pollers: dict[SourceId, SourcePoller] = {}

    @property
    def streams(self) -> frozenset[str]:
        """Ids of the streams that run, those included that leave once their micro-batch has ended."""
        return frozenset(stream for poller in self._pollers.values() for stream in poller.streams)

    def activity(self) -> dict[str, JobActivity]:
        """Return what is being done for each stream. May be called from any thread."""
        pollers = list(self._pollers.values())
        return {stream: activity for poller in pollers for stream, activity in poller.activity().items()}

    def reconcile(self, records: Sequence[JobRecord]) -> None:
        """Make the streams that run those of `records` that should.

        Taken in: desired RUNNING and observed CREATED (without history), RUNNING or PAUSED; they become RUNNING. Desired PAUSED
        leave, and are PAUSED once they have left. FILLING and STOPPED ones, and those not in `records`, are not run.
        """
        wanted = {record.definition.id: record for record in records if is_runnable(record)}
        for poller in self._pollers.values():
            for job_id in poller.streams - wanted.keys():
                poller.remove(job_id)
        running = self.streams
        for record in records:
            if record.definition.id not in running:
                self._settle_pause(record)
        for job_id in wanted.keys() - running:
            self._subscribe(wanted[job_id])
        for source in [source for source, poller in self._pollers.items() if not poller.streams]:
            self._pollers.pop(source).close()

    def poll(self, timeout_s: float | None = None) -> bool:
        """Begin every micro-batch that can begin, and return when the first one in flight ends.

        Args:
            timeout_s: Return after so long at the latest, so that idle streams get what has come for them meanwhile, and without
                waiting for a source that does not answer.

        Returns:
            True if there was something to do, so that `while pollers.poll(): pass` settles.

        Raises:
            FencedError: this driver's lease has passed to another. Nothing is raised for a stream's or a source's sake.
        """
        wait([look for poller in self._pollers.values() if (look := poller.look(self._looks)) is not None], MAX_LOOK_S)
        round_ = Round()
        for poller in self._pollers.values():
            round_.add(poller.start())
        if round_.in_flight:
            wait(round_.in_flight, timeout_s, return_when=FIRST_COMPLETED)
            for poller in self._pollers.values():
                poller.collect()
        elif round_.next_attempt is not None:
            pause = max(0.0, round_.next_attempt - time.monotonic())
            time.sleep(pause if timeout_s is None else min(pause, timeout_s))
        elif round_.looking and timeout_s is None:
            wait(round_.looking, return_when=FIRST_COMPLETED)
            return True
        return bool(round_.in_flight) or round_.next_attempt is not None

    def close(self) -> None:
        """Wait for micro-batches in flight and let all streams go."""
        for poller in self._pollers.values():
            poller.close()
        self._pollers.clear()
        self._pool.shutdown()
        self._looks.shutdown(wait=False)

    def _settle_pause(self, record: JobRecord) -> None:
        if record.desired is DesiredState.PAUSED and record.state in (JobState.CREATED, JobState.RUNNING):
            self._set_state(record, JobState.PAUSED)

    def _subscribe(self, record: JobRecord) -> None:
        """Take a stream in; one whose source is not in the catalog is stopped."""
        try:
            poller = self._poller(record)
        except FencedError:
            raise
        except TerminalError as error:
            stop(self.context, record, error)
            return
        if record.state is not JobState.RUNNING:
            self._set_state(record, JobState.RUNNING)
        poller.add(record)

    def _poller(self, record: JobRecord) -> SourcePoller:
        source = record.definition.source_id
        if source not in self._pollers:
            database = self.context.catalog.databases.get(record.definition.source.database)
            table = self.context.catalog.tables.get(database.name, record.definition.source.name)
            reader = ChangeReader(self.context, table, database)
            self._pollers[source] = SourcePoller(reader, self.context, self._pool, self._observe, self._runner)
        return self._pollers[source]

    def _set_state(self, record: JobRecord, state: JobState) -> None:
        self.context.catalog.jobs.set_state(record.definition.id, state, epoch=self.context.epoch or None)


def is_runnable(record: JobRecord) -> bool:
    """Return True if a driver should run a stream: it is wanted, has a position, and nothing else works on it."""
    has_position = record.progress.position is not None or record.progress.boundary is not None
    ready = record.state in (JobState.CREATED, JobState.RUNNING, JobState.PAUSED)
    return record.desired is DesiredState.RUNNING and ready and has_position
