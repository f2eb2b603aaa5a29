"""Supervision of a job: a trigger that polls the catalog, and the deferrable task that it completes.

The task starts in the triggerer and holds no worker slot; it only needs a worker to report its outcome. All triggers of a
triggerer share one catalog snapshot per second.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from airflow.sdk import BaseSensorOperator
from airflow.sdk.definitions.retry_policy import ExceptionRetryPolicy, RetryAction, RetryRule
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferralError
from airflow.triggers.base import BaseTrigger, StartTriggerArgs, TaskSuccessEvent, TriggerEvent

from headrace.errors import OperationalError, TransientError
from headrace.runtime import supervision
from headrace.runtime.supervision import Snapshot, SupervisionResult, SupervisionStatus, Supervisor
from headrace_alerts import alert_on_failure

if TYPE_CHECKING:
    from headrace.catalog import Catalog

POLL_SECONDS: Final = 1.0
# Transient errors are retried practically forever; until the stream recovers, the catalog shows it as STOPPED with the reason.
RETRIES: Final = 10_000
# Priority of the report of a stop: above other short tasks, below drivers.
PRIORITY: Final = 100
# An error of the trigger itself is likely to come back, and each try has a worker report it.
ERROR_PAUSE: Final = timedelta(minutes=1)
ERROR_VERDICT: Final = "error"
# A catalog that hangs must neither stop the supervision without a word, nor fill the threads that Airflow's triggers share.
MAX_WAIT_S: Final = 15.0
THREADS: Final = ThreadPoolExecutor(max_workers=4, thread_name_prefix="headrace")

P = ParamSpec("P")
T = TypeVar("T")


class SupervisionError(AirflowException):
    """Supervision itself has failed; this says nothing about the job."""


@asynccontextmanager
async def limited() -> AsyncIterator[None]:
    """Raise a `TransientError` if what follows waits for the catalog for too long."""
    try:
        async with asyncio.timeout(MAX_WAIT_S):
            yield
    except TimeoutError:
        raise OperationalError(f"the catalog has not answered for {MAX_WAIT_S:.0f} s") from None


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that uses the catalog, in one of the threads for this."""
    async with limited():
        return await asyncio.get_running_loop().run_in_executor(THREADS, functools.partial(function, *args, **kwargs))


class SnapshotCache:
    """The catalog's latest snapshot, shared by the triggers of a process."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._lock = asyncio.Lock()
        self._snapshot: Snapshot | None = None
        self._read_at = 0.0

    async def get(self, since: float = 0.0) -> Snapshot:
        """Return a snapshot that is younger than `POLL_SECONDS` and was read after `since`, an instant of `time.monotonic`."""
        async with limited(), self._lock:
            now = time.monotonic()
            if self._snapshot is None or self._read_at < since or now - self._read_at > POLL_SECONDS * 0.9:
                self._snapshot = await in_thread(self._read)
                self._read_at = now
            return self._snapshot

    def _read(self) -> Snapshot:
        return supervision.read_snapshot(self.catalog, self.catalog.now())


@functools.cache
def snapshot_cache() -> SnapshotCache:
    """Return the cache of this process."""
    from headrace.catalog import Catalog
    from headrace.settings import current

    return SnapshotCache(Catalog.open(current().catalog))


class JobTrigger(BaseTrigger):
    """Fires once, when a stream is STOPPED, PAUSED or dropped.

    If the task was cleared after a stop, the trigger resumes the stream first.
    """

    def __init__(self, job_id: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job_id = job_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and arguments from which Airflow recreates the trigger."""
        return "headrace_supervision.JobTrigger", {"job_id": self.job_id}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll the catalog until the stream is STOPPED, PAUSED or dropped, and yield one event."""
        try:
            result = await self._watch()
        except Exception as error:
            self.log.exception("supervision failed")
            text = f"supervision failed, and is tried again: {type(error).__name__}: {error}"
            yield TriggerEvent({"verdict": ERROR_VERDICT, "text": text, "transient": True})  # type: ignore[no-untyped-call]
            return
        # A dropped stream's DAG disappears before a worker could load the task from it, so the trigger ends the task.
        yield TaskSuccessEvent() if result.status is SupervisionStatus.DROPPED else TriggerEvent(to_payload(result))  # type: ignore[no-untyped-call]

    async def _watch(self) -> SupervisionResult:
        """Wait until there is something to report."""
        supervisor: Supervisor | None = None
        start = 0.0
        while True:
            try:
                if supervisor is None:
                    cache = await in_thread(snapshot_cache)
                    supervisor = await in_thread(self._create_supervisor, cache.catalog)
                    start = time.monotonic()
                result = await self._check(cache.catalog, supervisor, await cache.get(start))
                if result.status is not SupervisionStatus.WATCH:
                    return result
            except TransientError as error:
                self.log.warning("reading the catalog failed, retrying: %s", error.message)
            await asyncio.sleep(POLL_SECONDS)

    @property
    def _task_try(self) -> str:
        """The id of the try of the task, which Airflow keeps if it starts the trigger again."""
        return "" if self.task_instance is None else str(self.task_instance.id)

    async def _check(self, catalog: Catalog, supervisor: Supervisor, state: Snapshot) -> SupervisionResult:
        """Check a snapshot; write a stop to the catalog first, so that the task and the catalog give the same reason."""
        result = supervisor.check(state)
        if result.reason is None:
            return result
        is_reported = await in_thread(supervision.record_report, catalog, self.job_id, result.reason, result.driver, self._task_try)
        return result if is_reported else SupervisionResult(SupervisionStatus.WATCH)

    def _create_supervisor(self, catalog: Catalog) -> Supervisor:
        """Create the supervisor, resuming the stream if the task was cleared after a stop."""
        from headrace.settings import current

        reported = supervision.last_report(catalog, self.job_id, self._task_try)
        if supervision.resume_cleared(catalog, self.job_id, reported):
            self.log.info("task was cleared, resuming the stream")
        settings = current()
        return Supervisor(self.job_id, heartbeat_ms=settings.heartbeat_ms, lease_ms=settings.lease_ms, reported=reported)


def to_payload(result: SupervisionResult) -> dict[str, Any]:
    """Return the event that passes a result to the task."""
    reason = result.reason
    if reason is None:
        return {"verdict": result.status.value}
    return {"verdict": result.status.value, "text": str(reason), "transient": reason.transient}


class SuperviseJob(BaseSensorOperator):
    """Waits while a job of an snode is healthy.

    The task fails with the reason if the stream is STOPPED, is skipped if the stream is PAUSED, and succeeds if it is dropped.
    After a transient error the task is retried, and the retry waits for the stream's recovery. After any other error, clear the
    task, or resume the job by its statement.

    `on_failure_callback` is called for every stop. For a transient error, this is when the try fails, and again every ten minutes
    while the stream stays STOPPED; for any other error, it is when the task fails, and `exception` in the context is an
    `AirflowFailException`.
    """

    start_from_trigger = True
    ui_color = "#d8ecf3"

    def __init__(self, *, job_id: str, **kwargs: Any) -> None:
        rule = RetryRule(exception=[SupervisionError, TaskDeferralError], action=RetryAction.RETRY, retry_delay=ERROR_PAUSE)
        super().__init__(
            on_failure_callback=[alert_on_failure, *as_list(kwargs.pop("on_failure_callback", None))],
            retries=RETRIES,
            retry_delay=1,
            retry_policy=ExceptionRetryPolicy(rules=[rule]),
            priority_weight=PRIORITY,
            weight_rule="absolute",
            **kwargs,
        )
        self.job_id = job_id
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls="headrace_supervision.JobTrigger",
            trigger_kwargs={"job_id": job_id},
            next_method="execute_complete",
        )

    def execute(self, context: Any) -> None:  # noqa: ARG002
        """Defer to the trigger. Only `dag.test` calls this; otherwise Airflow starts the task in the triggerer."""
        self.defer(trigger=JobTrigger(self.job_id), method_name="execute_complete")

    def execute_complete(self, context: Any, event: dict[str, Any]) -> None:  # noqa: ARG002
        """End the task according to the trigger's event.

        Raises:
            AirflowSkipException: The stream is PAUSED.
            AirflowFailException: The stream is STOPPED and needs a fix.
            AirflowException: The stream is STOPPED because of a transient error.
            SupervisionError: The trigger has failed.
        """
        match event["verdict"]:
            case SupervisionStatus.PAUSED.value:
                raise AirflowSkipException("it is paused; supervision continues when it is resumed")
            case _ if event["transient"]:
                # Airflow calls failure callbacks only after the last of the 10,000 tries, so call them for each failed try.
                self.on_retry_callback = [*as_list(self.on_retry_callback), *as_list(self.on_failure_callback)]
                error = SupervisionError if event["verdict"] == ERROR_VERDICT else AirflowException
                raise error(event["text"])
            case _:
                raise AirflowFailException(event["text"])


def as_list(callbacks: Any) -> list[Any]:
    """Return callbacks as a list; Airflow allows one, a list or None."""
    if callbacks is None:
        return []
    return [callbacks] if callable(callbacks) else list(callbacks)
