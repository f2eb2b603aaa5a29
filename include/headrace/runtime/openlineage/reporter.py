"""Sends events of OpenLineage in the background: no run waits for their receiver."""

from __future__ import annotations

import logging
import queue
import threading
import time
from typing import TYPE_CHECKING, Final

from headrace.context import Context
from headrace.model.run_reports import NoReports, RunReport, RunReports, RunState
from headrace.runtime.openlineage import configuration

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

    from headrace.runtime.openlineage.datasets import DatasetReader, JobDatasets

logger = logging.getLogger(__name__)

MAX_WAITING: Final = 1_000
"""Reports that wait to be sent; further ones are dropped."""
CLOSE_GRACE_S: Final = 3.0
LOG_INTERVAL_S: Final = 60.0
MAX_CACHED_JOBS: Final = 1_000


def open_reports(context: Context) -> RunReports:
    """Return what takes the reports of a process: nothing is sent unless OpenLineage is configured."""
    return OpenLineageReports(context) if configuration.is_configured(context.settings) else NoReports()


class OpenLineageReports:
    """Takes reports into a bounded queue, from which a thread sends them. Thread-safe."""

    def __init__(self, context: Context, max_waiting: int = MAX_WAITING) -> None:
        """Start the thread. The catalog of the context has to stay open until `close`."""
        self._context = context
        self._waiting: queue.Queue[tuple[RunReport, int] | None] = queue.Queue(max_waiting)
        self._sent = self._dropped = 0
        self._warned_at = -LOG_INTERVAL_S
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="openlineage", daemon=True)
        self._thread.start()

    def report(self, report: RunReport) -> None:
        """See `RunReports`."""
        try:
            if not self._closed.is_set():
                self._waiting.put_nowait((report, time.time_ns() // 1_000_000))
        except queue.Full:
            self._drop(f"{self._waiting.maxsize} events wait for their receiver")

    def counts(self) -> dict[str, int]:
        """See `RunReports`."""
        return {"sent": self._sent, "dropped": self._dropped, "waiting": self._waiting.qsize()}

    def close(self) -> None:
        """See `RunReports`."""
        self._closed.set()
        try:
            self._waiting.put(None, timeout=CLOSE_GRACE_S)
            self._thread.join(CLOSE_GRACE_S)
        except queue.Full:
            pass
        if self._thread.is_alive():
            logger.warning("leaving %d events of OpenLineage unsent", self._waiting.qsize())

    def _run(self) -> None:
        """Send what waits, until `close`. The client is slow to import, and may refuse its configuration."""
        try:
            from openlineage.client import OpenLineageClient, set_producer

            from headrace.runtime.openlineage.datasets import DatasetReader

            set_producer(configuration.producer())
            client, reader = OpenLineageClient(), DatasetReader(self._context, configuration.namespace())
        except Exception:
            logger.exception("sending no events of OpenLineage")
            self._closed.set()
            return
        sender = Sender(client, reader)
        while (taken := self._waiting.get()) is not None:
            self._send(sender, *taken)
        client.close(CLOSE_GRACE_S)

    def _send(self, sender: Sender, report: RunReport, at_ms: int) -> None:
        try:
            sender.send(report, at_ms)
        except Exception as error:  # of the receiver, the transport, or the catalog
            self._drop(f"{type(error).__name__}: {error}")
        else:
            self._sent += 1

    def _drop(self, reason: str) -> None:
        """Count an event that is not sent, and say so, at most once a minute."""
        with self._lock:
            self._dropped += 1
            if time.monotonic() - self._warned_at < LOG_INTERVAL_S:
                return
            self._warned_at = time.monotonic()
        logger.warning("dropping events of OpenLineage, %d so far: %s", self._dropped, reason)


class Sender:
    """Makes events of reports and sends them. A job's datasets are looked up when a run begins, for all of its events."""

    def __init__(self, client: OpenLineageClient, reader: DatasetReader) -> None:
        """Send through a client."""
        self._client, self._reader = client, reader
        self._datasets: dict[str, JobDatasets] = {}

    def send(self, report: RunReport, at_ms: int) -> None:
        """Send the event of a report; raise what the client raises."""
        from headrace.runtime.openlineage.events import run_event

        self._client.emit(run_event(report, self._datasets_of(report), at_ms))

    def _datasets_of(self, report: RunReport) -> JobDatasets:
        job_id = report.definition.id
        if report.state is RunState.START or job_id not in self._datasets:
            if len(self._datasets) >= MAX_CACHED_JOBS:
                self._datasets.clear()
            self._datasets[job_id] = self._reader.of_job(report.definition)
        return self._datasets[job_id]
