"""Supervision of a stream: a trigger that watches the catalog, and the task that it ends.

No worker is held: the task starts in the triggerer, and reaches a worker only to say how it ended. All triggers of a triggerer
share one look at the catalog a second.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.triggers.base import BaseTrigger, StartTriggerArgs, TaskSuccessEvent, TriggerEvent

from headrace.errors import TransientError
from headrace.runtime import supervision
from headrace.runtime.supervision import Snapshot, SupervisionResult, SupervisionStatus, Supervisor

if TYPE_CHECKING:
    from headrace.catalog import Catalog

POLL_SECONDS: Final = 1.0
# Passing failures are tried again for ever; the catalog keeps saying STOPPED, and why, until the stream has recovered.
RETRIES: Final = 10_000


class SnapshotCache:
    """One process's look at the catalog, shared by all who ask within the same moment."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._lock = asyncio.Lock()
        self._seen: Snapshot | None = None
        self._at = 0.0

    async def get(self, since: float = 0.0) -> Snapshot:
        """A snapshot of about now, and not of before `since` (`time.monotonic`)."""
        async with self._lock:
            now = time.monotonic()
            if self._seen is None or self._at < since or now - self._at > POLL_SECONDS * 0.9:
                self._seen = await asyncio.to_thread(self._read)
                self._at = now
            return self._seen

    def _read(self) -> Snapshot:
        return supervision.snapshot(self.catalog, self.catalog.now())


@functools.cache
def snapshot_cache() -> SnapshotCache:
    """The lookout of this process."""
    from headrace.catalog import Catalog
    from headrace.settings import current

    return SnapshotCache(Catalog.open(current().catalog))


class JobTrigger(BaseTrigger):
    """Fires once, when a stream is STOPPED, PAUSED or dropped.

    That its task was cleared after a stop means that the stream is to go on: it is resumed.
    """

    def __init__(self, job_id: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job_id = job_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "headrace_supervision.JobTrigger", {"job_id": self.job_id}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        supervisor: Supervisor | None = None
        finding = SupervisionResult(SupervisionStatus.WATCH)
        began = 0.0
        while finding.verdict is SupervisionStatus.WATCH:
            try:
                watch = await asyncio.to_thread(snapshot_cache)
                if supervisor is None:
                    supervisor = await asyncio.to_thread(self._begin, watch.catalog)
                    began = time.monotonic()
                finding = await self._judge(watch.catalog, supervisor, await watch.get(began))
            except TransientError as error:
                self.log.warning("the catalog could not be read: %s", error.message)
            if finding.verdict is SupervisionStatus.WATCH:
                await asyncio.sleep(POLL_SECONDS)
        # A dropped stream's DAG is gone before a worker could look for the task in it: the task ends right here.
        yield TaskSuccessEvent() if finding.verdict is SupervisionStatus.DROPPED else TriggerEvent(payload(finding))  # type: ignore[no-untyped-call]

    async def _judge(self, catalog: Catalog, supervisor: Supervisor, state: Snapshot) -> SupervisionResult:
        """What is found; a stop is written to the catalog first, so that it says the same."""
        finding = supervisor.judge(state)
        if finding.reason is None:
            return finding
        told = await asyncio.to_thread(supervision.report, catalog, self.job_id, finding.reason, finding.driver)
        return finding if told else SupervisionResult(SupervisionStatus.WATCH)

    def _begin(self, catalog: Catalog) -> Supervisor:
        from headrace.settings import current

        reported = supervision.last_report(catalog, self.job_id)
        if supervision.resume_cleared(catalog, self.job_id, reported):
            self.log.info("the task was cleared: the stream is resumed")
        settings = current()
        return Supervisor(self.job_id, heartbeat_ms=settings.heartbeat_ms, lease_ms=settings.lease_ms, reported=reported)


def payload(finding: SupervisionResult) -> dict[str, Any]:
    """What the task gets to know of a finding."""
    reason = finding.reason
    if reason is None:
        return {"verdict": finding.verdict.value}
    return {"verdict": finding.verdict.value, "text": str(reason), "transient": reason.transient}


class SuperviseJob(BaseSensorOperator):
    """Waits while a stream is well. STOPPED fails it with the reason, PAUSED skips it; a stream that is dropped ends
    it from the trigger.

    A passing reason lets the task be tried again, which then waits for the stream's recovery. After any other reason, clearing
    the task resumes the stream; so does RESUME STREAM.

    `on_failure_callback` is called for every stop: for a passing one when the try fails, and again every ten minutes that the
    stream stays STOPPED; for any other when the task fails. The context's `exception` is an `AirflowFailException` for those
    that wait for a person.
    """

    start_from_trigger = True
    ui_color = "#d8ecf3"

    def __init__(self, *, job_id: str, **kwargs: Any) -> None:
        super().__init__(retries=RETRIES, retry_delay=1, **kwargs)
        self.job_id = job_id
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls="headrace_supervision.JobTrigger",
            trigger_kwargs={"job_id": job_id},
            next_method="ended",
        )

    def execute(self, context: Any) -> None:  # noqa: ARG002
        """Only where a task is run by hand (`dag.test`): Airflow starts the trigger by itself."""
        self.defer(trigger=JobTrigger(self.job_id), method_name="ended")

    def ended(self, context: Any, event: dict[str, Any]) -> None:  # noqa: ARG002
        """End the task as the event says.

        Raises:
            AirflowSkipException: the stream is paused.
            AirflowFailException: it is STOPPED, and waits for a person.
            AirflowException: it is STOPPED for a passing reason.
        """
        match event["verdict"]:
            case SupervisionStatus.PAUSED.value:
                raise AirflowSkipException("the stream is paused; RESUME STREAM has it supervised again")
            case _ if event["transient"]:
                # For a try that failed Airflow calls these, and those of a failure only when the last one has: in 10,000 tries.
                self.on_retry_callback = [*callbacks(self.on_retry_callback), *callbacks(self.on_failure_callback)]
                raise AirflowException(event["text"])
            case _:
                raise AirflowFailException(event["text"])


def callbacks(given: Any) -> list[Any]:
    """One callback, several or none, as a list."""
    if given is None:
        return []
    return [given] if callable(given) else list(given)
