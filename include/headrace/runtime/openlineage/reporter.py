"""Sends events of OpenLineage in the background: no run waits for their receiver."""

from __future__ import annotations

import logging
import queue
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.context import Context
from headrace.model.jobs import JobDefinition
from headrace.model.run_reports import RunReport, RunReports, RunState
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
MAX_AGE_S: Final = 300.0
MAX_AGE_WITHOUT_OUTPUTS_S: Final = 3.0
"""For how long runs that begin use the datasets of an earlier run of their job."""


def open_reports(context: Context) -> RunReports:
    """Return what takes the reports of a process: nothing is sent unless OpenLineage is configured."""
    return OpenLineageReports(context) if configuration.is_configured(context.settings) else RunReports()


class OpenLineageReports(RunReports):
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


@dataclass(frozen=True, slots=True)
class CachedDatasets:
    """The datasets of a job, for which definition they were looked up, and until when they are used (monotonic seconds)."""

    definition: JobDefinition
    datasets: JobDatasets
    until: float


class Sender:
    """Makes events of reports and sends them. Runs that are short and many share what was looked up for one of them."""

    def __init__(self, client: OpenLineageClient, reader: DatasetReader) -> None:
        """Send through a client."""
        self._client, self._reader = client, reader
        self._cached: dict[str, CachedDatasets] = {}

    def send(self, report: RunReport, at_ms: int) -> None:
        """Send the event of a report; raise what the client raises."""
        from headrace.runtime.openlineage.events import run_event

        self._client.emit(run_event(report, self._datasets(report), at_ms))

    def _datasets(self, report: RunReport) -> JobDatasets:
        """Return the datasets of a job, which are looked up when a run begins unless that was done a short time ago."""
        definition = report.definition
        cached = self._cached.get(definition.id)
        is_outdated = cached is None or cached.definition.sql != definition.sql or cached.until < time.monotonic()
        if cached is not None and not (report.state is RunState.START and is_outdated):
            return cached.datasets
        if len(self._cached) >= MAX_CACHED_JOBS:
            self._cached.clear()
        datasets = self._reader.of_job(definition)
        # A first run may create what it writes.
        age_s = MAX_AGE_S if datasets.outputs else MAX_AGE_WITHOUT_OUTPUTS_S
        self._cached[definition.id] = CachedDatasets(definition, datasets, time.monotonic() + age_s)
        return datasets
