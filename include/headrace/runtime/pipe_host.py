"""The host of pipes in a driver: a thread of its own runs them, so that no receiver delays streams."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from headrace.errors import Error, FencedError
from headrace.jobs.hosts import Driving, JobActivity
from headrace.model.jobs import JobRecord
from headrace.pipes.running import RunningPipes
from headrace.runtime.stream_metrics import StreamSampler

logger = logging.getLogger(__name__)

MAX_STEP_S: Final = 0.1
"""What has been committed waits at most this long while a batch of another pipe is delivered."""
RETRY_S: Final = 1.0
CLOSE_GRACE_S: Final = 5.0


class PipeHost:
    """Runs the pipes of an snode."""

    def __init__(self, driving: Driving) -> None:
        self._context = driving.context
        self.pipes = RunningPipes(driving.context, driving.observe, leaves_history=not driving.runs_all)
        self._sampler = StreamSampler(driving.context)
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="pipes", daemon=True)

    @property
    def running(self) -> Collection[str]:
        """The ids of the pipes that run."""
        return self.pipes.running

    def start(self) -> None:
        """Begin to run pipes."""
        self._thread.start()

    def prepare(self, record: JobRecord) -> bool:  # noqa: ARG002
        """Return True: a pipe needs nothing before it runs."""
        return True

    def reconcile(self, records: Sequence[JobRecord]) -> None:
        """Run these pipes and no others, and record a sample of each if it is time to."""
        self.pipes.reconcile(records)
        self._sampler.take(self.pipes, records)

    def poll(self, timeout_s: float) -> bool:  # noqa: ARG002
        """Raise what has ended the thread; there is nothing else to do in the driver's own."""
        if self._failure is not None:
            raise self._failure
        return False

    def activity(self) -> Mapping[str, JobActivity]:
        """Return what is being done for each pipe. Thread-safe."""
        return self.pipes.activity()

    def stop(self, grace_s: float) -> None:
        """Start no further batch, and wait for those in flight."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(grace_s)

    def close(self) -> None:
        """Release what remains, once the thread has ended: it hands over no batch to a pool that is shut down."""
        self.stop(CLOSE_GRACE_S)
        self.pipes.close()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._step()
        except BaseException as error:
            self._failure = error

    def _step(self) -> None:
        try:
            has_worked = self.pipes.step(MAX_STEP_S)
            self.pipes.beat()
            if has_worked:
                return
        except FencedError:
            raise
        except Error as error:
            logger.warning("retrying after an error of pipes: %s", error)
            self._stopping.wait(RETRY_S)
        except Exception:  # a bug that affects one pipe must not end all
            logger.exception("retrying after an unexpected error of pipes")
            self._stopping.wait(RETRY_S)
        self._stopping.wait(self._context.settings.idle_poll_ms / 1000)
