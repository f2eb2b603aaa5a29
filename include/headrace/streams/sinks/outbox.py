"""The sink for receivers outside Delta: results become messages, first durable, then delivered at least once and in order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

from headrace.context import Context
from headrace.errors import FencedError, NotificationRejectedError
from headrace.model.failpoints import FailpointError, failpoint
from headrace.model.masking import masked
from headrace.model.positions import Position, SourceId
from headrace.storage import Commit
from headrace.storage.delta.outbox import Message, MessageFile, Outbox
from headrace.streams.batches import BatchResult
from headrace.streams.sinks.sink import Sink

logger = logging.getLogger(__name__)

MAX_BACKLOG_MESSAGES: Final = 100_000
"""A job with more messages waiting for delivery than this pauses before its next micro-batch."""
MAX_MESSAGES_PER_SEND: Final = 1_000
MAX_UNRECORDED_MESSAGES: Final = 1_000
"""Delivery is recorded after this many messages, and when none are left."""
FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 5.0

Encode = Callable[[BatchResult], Iterable[bytes]]
Send = Callable[[Sequence[Message]], None]
"""Delivers messages: returns once the receiver has them, raises if it may not have them. Must not block forever.

All errors are followed by another attempt but `NotificationRejectedError`, which stops the job.
"""
Report = Callable[[str], None]
"""Records the first of consecutive failures to deliver."""


class OutboxSink(Sink):
    """Commits the messages of a micro-batch to an outbox, from which a thread delivers them.

    Messages are kept on storage, never in memory. They are delivered in the order of their numbers even across crashes. After a
    failure some are delivered again, with the same ids; a receiver that remembers the last id of a job can drop duplicates.
    """

    def __init__(
        self,
        context: Context,
        job_id: str,
        sources: Sequence[SourceId],
        encode: Encode,
        send: Send,
        *,
        max_backlog: int = MAX_BACKLOG_MESSAGES,
        report: Report = lambda _: None,
        disconnect: Callable[[], None] = lambda: None,
    ) -> None:
        """`disconnect` is called by the thread that delivers, when it ends."""
        self._job_id = job_id
        self._sources = sources
        self._epoch = context.epoch
        self._encode = encode
        self._max_backlog = max_backlog
        self._outbox = context.tables.outbox(job_id)
        self.deliverer = Deliverer(self._outbox, context.epoch, send, report, disconnect)

    def fence(self) -> None:
        """See `Sink`. Starts delivery, since this driver now owns the job."""
        self._outbox.open()
        self._outbox.fence(self._epoch)
        self.deliverer.start()

    def position(self) -> Position | None:
        return self._outbox.position(self._sources)

    def has_room(self) -> bool:
        """See `Sink`. False while the receiver does not keep up."""
        return self._outbox.backlog() < self._max_backlog

    def is_busy(self) -> bool:
        """See `Sink`. True while messages are delivered, unless a receiver fails; and until the job has seen a rejection."""
        return self.deliverer.is_busy or self.deliverer.rejection is not None

    def failure(self) -> NotificationRejectedError | None:
        return self.deliverer.rejection

    def commit(self, result: BatchResult, position: Position, expected: int | None) -> bool:
        return self.append(list(self._encode(result)), position, expected)

    def append(self, payloads: Sequence[bytes], position: Position, expected: int | None) -> bool:
        """Commit the messages of a micro-batch; return False if there are none."""
        if not payloads:
            return False
        commit = Commit.of_stream(self._job_id, position.batch, expected, self._epoch, position.offsets)
        self._outbox.append(payloads, commit)
        self.deliverer.wake()
        return True

    def close(self, grace_s: float) -> None:
        """See `Sink`. Undelivered messages stay in the outbox."""
        self.deliverer.stop(grace_s)


class Deliverer:
    """Delivers the messages of an outbox in its own thread, until it is stopped or another driver owns the job."""

    def __init__(self, outbox: Outbox, epoch: int, send: Send, report: Report, disconnect: Callable[[], None]) -> None:
        self._outbox = outbox
        self._epoch = epoch
        self._send = send
        self._report = report
        self._disconnect = disconnect
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._requested = 1
        self._completed = 0
        self.error: str | None = None
        self.rejection: NotificationRejectedError | None = None

    @property
    def is_busy(self) -> bool:
        """True while it delivers messages, unless the last attempt failed."""
        is_running = self._thread is not None and self._thread.is_alive() and not self._stopping.is_set()
        return is_running and self._completed < self._requested and self.error is None

    def start(self) -> None:
        """Start the thread. Has no effect if it is running."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"outbox {self._outbox.job_id}", daemon=True)
            self._thread.start()

    def wake(self) -> None:
        self._requested += 1
        self._wake.set()

    def stop(self, grace_s: float) -> None:
        """Stop after the send in progress, waiting at most `grace_s` for it."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None and grace_s > 0:
            self._thread.join(grace_s)

    def _run(self) -> None:
        try:
            self._deliver_until_stopped()
        finally:
            self._disconnect()

    def _deliver_until_stopped(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            requested = self._requested
            try:
                has_delivered = self._deliver()
                self._failures, self.error = 0, None
                if not has_delivered:
                    self._completed = requested
                    self._wake.wait()
            except FencedError as error:
                logger.info("stopping delivery for %s: %s", self._outbox.job_id, error.message)
                return
            except NotificationRejectedError as error:
                logger.warning("stopping delivery for %s: %s", self._outbox.job_id, error.message)
                self.rejection = error
                return
            except FailpointError:
                raise
            except Exception as error:  # no error of a receiver may end delivery
                self._failures += 1
                self.error = masked(f"{type(error).__name__}: {error}")
                logger.warning("retrying delivery for %s: %s", self._outbox.job_id, self.error)
                self._report_first()
                self._stopping.wait(min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self._failures - 1, 16)))

    def _report_first(self) -> None:
        if self._failures == 1 and self.error is not None:
            with suppress(Exception):  # a report that fails must not end delivery
                self._report(self.error)

    def _deliver(self) -> bool:
        """Deliver pending messages, one micro-batch after another; return False if there were none."""
        pending = self._outbox.pending()
        unrecorded = 0
        for batch, files in groupby(pending, key=lambda file: file.batch):
            for file in files:
                if not self._deliver_file(file):
                    return True
                unrecorded += file.rows
            if unrecorded >= MAX_UNRECORDED_MESSAGES or batch == pending[-1].batch:
                failpoint("outbox.sent")
                self._outbox.remove(batch, self._epoch)
                unrecorded = 0
        return bool(pending)

    def _deliver_file(self, file: MessageFile) -> bool:
        """Send the messages of a file; return False if stopped before the end."""
        for messages in self._outbox.read(file, MAX_MESSAGES_PER_SEND):
            if self._stopping.is_set():
                return False
            self._send(messages)
        return True
