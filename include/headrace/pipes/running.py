"""The pipes that a process runs: each has its own position, and none waits for another one."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final

from headrace.context import Context
from headrace.errors import Error, FencedError, NotFoundError, TransientError
from headrace.jobs.hosts import JobActivity
from headrace.jobs.runners import Advance
from headrace.model.failpoints import FailpointError
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.pipes.feeds import Feeds
from headrace.pipes.runner import PipeRunner
from headrace.pipes.shared import Shared
from headrace.pipes.shared_sinks import SharedSink
from headrace.streams.failures import reason_of, stop_job, to_error
from headrace.streams.metering import RunnerSample
from headrace.streams.sources.subscriptions import Retry

logger = logging.getLogger(__name__)

MAX_PIPES_PER_SINK: Final = 2
"""Pipes of a shared sink that run at the same time: one delivers, another one reads. So a receiver that hangs takes two threads."""
CLOSE_GRACE_S: Final = 5.0
BEAT_CHECK_S: Final = 5.0
SINK_DOWN: Final = "SINK_DOWN"
RUNNABLE: Final = (JobState.CREATED, JobState.FILLING, JobState.RUNNING, JobState.PAUSED)
Observe = Callable[[float], None]


@dataclass(slots=True)
class RunningPipe:
    """A pipe that runs, or will once its plugins are created."""

    record: JobRecord
    runner: PipeRunner | None = None
    in_flight: Future[Advance] | None = None
    started_at: float = 0.0
    retry: Retry = field(default_factory=Retry)
    is_removed: bool = False
    receiver_failure: Error | None = None
    """Why the receiver does not answer, as it is recorded."""

    @property
    def id(self) -> str:
        """The id of the job."""
        return self.record.definition.id

    @property
    def sink(self) -> SharedSink | None:
        """The sink, which other pipes may use too; None before it is created."""
        return None if self.runner is None else self.runner.sink

    def has_work(self) -> bool:
        """Return whether the next batch can start."""
        if self.in_flight is not None or self.retry.is_waiting():
            return False
        return self.runner is None or self.retry.failures > 0 or self.runner.is_due()


class RunningPipes:
    """Runs pipes. One thread may reconcile while another one steps: only the former waits for the catalog."""

    def __init__(self, context: Context, observe: Observe = lambda _: None, *, leaves_history: bool = False) -> None:
        """Run pipes; `observe` is called with the seconds of each batch. See `Shared` for `leaves_history`."""
        self.context = context
        self.shared = Shared(Feeds(context), leaves_history=leaves_history)
        self._observe = observe
        self._pool = ThreadPoolExecutor(context.settings.pipe_threads, thread_name_prefix="pipe")
        self._lock = threading.RLock()
        self._pipes: dict[str, RunningPipe] = {}
        self._beaten_at = time.monotonic()

    @property
    def running(self) -> frozenset[str]:
        """The ids of the pipes that run, including those that will be removed once their batch has ended."""
        with self._lock:
            return frozenset(self._pipes)

    def activity(self) -> dict[str, JobActivity]:
        """Return what is being done for each pipe. Thread-safe."""
        now = time.monotonic()
        return {
            pipe.id: JobActivity(
                0 if pipe.in_flight is None else max(1, round((now - pipe.started_at) * 1000)),
                pipe.retry.failures,
                None if pipe.runner is None else pipe.runner.progress.pending_since,
            )
            for pipe in list(self._pipes.values())
        }

    def samples(self) -> dict[str, RunnerSample]:
        """Return the measurements of each pipe. Thread-safe."""
        runners = {pipe.id: pipe.runner for pipe in list(self._pipes.values())}
        return {id: runner.sample() for id, runner in runners.items() if runner is not None}

    def reconcile(self, records: Sequence[JobRecord]) -> None:
        """Run those of these pipes that should run, and no others, each from its recorded position."""
        runnable = {record.definition.id: record for record in records if is_runnable(record)}
        if runnable:
            self.shared.feeds.refresh()
        self.shared.forget_rejections({record.definition.id for record in records if record.desired is DesiredState.RUNNING})
        with self._lock:
            for pipe in list(self._pipes.values()):
                record = runnable.get(pipe.id)
                if record is None or record.definition != pipe.record.definition:
                    self._remove(pipe)
            running = set(self._pipes)
        for record in records:
            if record.definition.id not in running:
                self._settle_state(record, runnable)
        with self._lock:
            for job_id in runnable.keys() - running:
                self._pipes[job_id] = RunningPipe(runnable[job_id])

    def _settle_state(self, record: JobRecord, runnable: Mapping[str, JobRecord]) -> None:
        """Record what has become of a pipe that does not run yet, or no longer."""
        state = JobState.RUNNING if record.definition.id in runnable else record.state
        if record.desired is DesiredState.PAUSED and record.state is not JobState.STOPPED:
            state = JobState.PAUSED
        is_obsolete = state is JobState.RUNNING and record.reason is not None  # a receiver did not answer the last driver
        if state is not record.state or is_obsolete:
            self.context.catalog.jobs.set_state(record.definition.id, state, epoch=self.context.epoch or None)

    def step(self, timeout_s: float | None) -> bool:
        """Start every batch that can start, and return when the first one in flight ends, or after `timeout_s`.

        Returns True if there was something to do.

        Raises:
            FencedError: This driver's lease has passed to another one. Failures of a pipe are not raised.
        """
        with self._lock:
            pipes = list(self._pipes.values())
        if pipes:
            self.shared.feeds.poll()
        self._start(pipes)
        in_flight = [pipe.in_flight for pipe in pipes if pipe.in_flight is not None]
        waiting = [pipe.retry.retry_at for pipe in pipes if pipe.retry.is_waiting()]
        has_worked = False
        if in_flight:
            wait(in_flight, timeout_s, return_when=FIRST_COMPLETED)
            has_worked = self._collect()
        elif waiting:
            pause = max(0.0, min(waiting) - time.monotonic())
            time.sleep(pause if timeout_s is None else min(pause, timeout_s))
        return has_worked or bool(waiting) or any(not future.done() for future in in_flight)

    def _start(self, pipes: Sequence[RunningPipe]) -> None:
        """Start the pipes that can start, those first that have waited longest."""
        running = Counter(id(pipe.sink) for pipe in pipes if pipe.in_flight is not None)
        for pipe in sorted(pipes, key=lambda pipe: pipe.started_at):
            sink = pipe.sink
            if (sink is None or running[id(sink)] < MAX_PIPES_PER_SINK) and pipe.has_work():
                running[id(sink)] += 1
                pipe.started_at = time.monotonic()
                pipe.in_flight = self._pool.submit(self._advance, pipe)

    def beat(self) -> None:
        """Have the receivers checked that have had nothing for a while. Does not wait."""
        if time.monotonic() - self._beaten_at >= BEAT_CHECK_S:
            self._beaten_at = time.monotonic()
            self._pool.submit(self._beat)

    def _beat(self) -> None:
        """Have receivers checked, and record which do not answer as the reason of their pipes, which continue."""
        failures = self.shared.sinks.beat()
        for pipe in list(self._pipes.values()):
            if pipe.id in failures and failures[pipe.id] is not pipe.receiver_failure:
                try:
                    self._record_receiver(pipe, failures[pipe.id])
                except Error as error:
                    logger.warning("not recording the state of a receiver: %s", error.message)

    def _record_receiver(self, pipe: RunningPipe, failure: Error | None) -> None:
        record = self.context.catalog.jobs.by_id(pipe.id)
        reason = None if failure is None else reason_of(failure, self.context.clock.now(), record.definition.kind)
        if record.state is JobState.RUNNING and record.desired is DesiredState.RUNNING:
            self.context.catalog.jobs.replace_state(record, JobState.RUNNING, reason)
            pipe.receiver_failure = failure

    def _advance(self, pipe: RunningPipe) -> Advance:
        if pipe.runner is None:
            pipe.runner = PipeRunner(self.context, pipe.record, self.shared)
            return Advance.HANDLED  # now that its sink is known, its turn comes
        if pipe.retry.failures:
            pipe.runner.reset()
        advance = pipe.runner.advance()
        if advance is Advance.HANDLED:
            self._observe(time.monotonic() - pipe.started_at)
        return advance

    def _collect(self) -> bool:
        """Handle the batches that have ended; return whether one of them was not empty."""
        with self._lock:
            ended = [pipe for pipe in self._pipes.values() if pipe.in_flight is not None and pipe.in_flight.done()]
        worked = [self._finish(pipe) for pipe in ended]
        return any(worked)

    def _finish(self, pipe: RunningPipe) -> bool:
        """Handle the end of a batch; return False if there was none."""
        future, pipe.in_flight = pipe.in_flight, None
        assert future is not None
        error = future.exception()
        if isinstance(error, FailpointError) or (error is not None and not isinstance(error, Exception)):
            raise error
        if isinstance(error, FencedError) and not self._has_left(pipe):
            raise error
        if pipe.is_removed or isinstance(error, FencedError):
            self._discard(pipe)
        elif error is not None:
            self._handle_failure(pipe, to_error(error))
        elif future.result() is Advance.UNWANTED:
            self._discard(pipe)
        else:
            pipe.retry.record_success()
            return future.result() is not Advance.IDLE
        return True

    def _handle_failure(self, pipe: RunningPipe, error: Error) -> None:
        """Try again, or stop the pipe; with a sink that is down, also the other pipes that use it."""
        if pipe.retry.record_failure(error):
            return
        runner = pipe.runner
        others = self._users_of_sink(pipe) if runner is not None and runner.sink_failure is not None else []
        try:
            stop_job(self.context, pipe.id, error)
            for other in others:
                self.context.catalog.events.record("job", other.id, SINK_DOWN, error.message)
                stop_job(self.context, other.id, error)
        except TransientError:
            pipe.retry.pause()
            return
        for stopped in (pipe, *others):
            self._remove(stopped)

    def _users_of_sink(self, pipe: RunningPipe) -> list[RunningPipe]:
        """Return the other pipes that share the sink of a pipe."""
        assert pipe.runner is not None
        users = self.shared.sinks.users(pipe.runner.sink.key)
        with self._lock:
            return [other for other in self._pipes.values() if other.id in users and other is not pipe]

    def _has_left(self, pipe: RunningPipe) -> bool:
        """Return whether a pipe was dropped or has another snode: this driver's lease has not passed to another one."""
        try:
            record = self.context.catalog.jobs.by_id(pipe.id)
            return record.desired is DesiredState.DROPPED or record.definition.snode != pipe.record.definition.snode
        except NotFoundError:
            return True
        except TransientError:
            return False

    def _remove(self, pipe: RunningPipe) -> None:
        """Remove a pipe, now or once its batch has ended."""
        pipe.is_removed = True
        if pipe.in_flight is None:
            self._discard(pipe)

    def _discard(self, pipe: RunningPipe) -> None:
        with self._lock:
            if self._pipes.get(pipe.id) is pipe:
                del self._pipes[pipe.id]
        if pipe.runner is not None:
            pipe.runner.close()

    def close(self) -> None:
        """Wait a few seconds for batches in flight, and release all plugins."""
        with self._lock:
            pipes = list(self._pipes.values())
            self._pipes.clear()
        wait([pipe.in_flight for pipe in pipes if pipe.in_flight is not None], CLOSE_GRACE_S)
        self._pool.shutdown(wait=False, cancel_futures=True)
        for pipe in pipes:
            if pipe.runner is not None and (pipe.in_flight is None or pipe.in_flight.done()):
                pipe.runner.close()


def is_runnable(record: JobRecord) -> bool:
    """Return whether a driver should run a pipe."""
    return record.desired is DesiredState.RUNNING and record.state in RUNNABLE
