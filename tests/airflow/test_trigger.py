"""The trigger that supervises a stream, and the task that it completes."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from headrace.catalog import Catalog
from headrace.model.jobs import DesiredState, JobState, StopReason
from headrace.runtime import supervision
from headrace.settings import Settings
from tests.airflow.conftest import NOW
from tests.airflow.samples import add_stream
from tests.support.waiting import MAX_WAIT_S

pytestmark = pytest.mark.airflow

FAILED = StopReason("TYPE", "column v is gone", "fix the cause, then RESUME STREAM", NOW - 5_000)
PASSING = StopReason("OPERATIONAL", "storage does not answer", "it is retried automatically", NOW - 5_000, transient=True)


@pytest.fixture(autouse=True)
def snapshot_cache(home: Settings) -> Iterator[None]:
    """Give each test a snapshot cache of its own home."""
    assert home.home_path
    import headrace_supervision

    headrace_supervision.snapshot_cache.cache_clear()
    yield
    headrace_supervision.snapshot_cache().catalog.close()
    headrace_supervision.snapshot_cache.cache_clear()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the times at which the catalog is read."""
    times: list[int] = []
    get = supervision.read_snapshot

    def counted(opened: Catalog, now: int) -> supervision.Snapshot:
        state = get(opened, now)
        times.append(now)
        return state

    monkeypatch.setattr(supervision, "read_snapshot", counted)
    return times


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, or raise a `TimeoutError`."""
    async with asyncio.timeout(MAX_WAIT_S):
        while not condition():
            await asyncio.sleep(0.05)


async def event(stream: str, task_try: str = "") -> Any:
    """Return the event that the trigger fires, for a try of its task."""
    from headrace_supervision import JobTrigger

    trigger = JobTrigger(stream)
    if task_try:
        trigger.task_instance = RuntimeTaskInstance.model_construct(id=task_try, task_id="supervise", task=None)  # type: ignore[assignment]
    return await asyncio.wait_for(anext(trigger.run()), MAX_WAIT_S)


async def fired(stream: str, task_try: str = "") -> dict[str, Any]:
    """Return the payload of the event that the trigger fires."""
    return dict((await event(stream, task_try)).payload)


def complete(payload: dict[str, Any]) -> None:
    from headrace_supervision import SuperviseJob

    SuperviseJob(task_id="supervise", job_id="any").execute_complete({}, payload)


def test_it_is_restored_from_airflows_database() -> None:

    from headrace_supervision import JobTrigger

    path, arguments = JobTrigger("id-1").serialize()
    module, _, name = path.rpartition(".")
    assert getattr(import_module(module), name)(**arguments).job_id == "id-1"


def test_a_stop_fires_with_the_reason_in_the_catalog(catalog: Catalog) -> None:
    stream = add_stream(catalog, state=JobState.STOPPED, reason=FAILED)
    payload = asyncio.run(fired(stream))
    assert payload == {"verdict": "stopped", "text": str(catalog.jobs.by_id(stream).reason), "transient": False}


def test_a_stop_fires_while_the_trigger_is_watching(catalog: Catalog, reads: list[int]) -> None:
    stream = add_stream(catalog, state=JobState.CREATED)

    async def stop_while_watching() -> dict[str, Any]:
        firing = asyncio.create_task(fired(stream))
        await until(lambda: len(reads) >= 2)
        assert not firing.done()
        await asyncio.to_thread(catalog.jobs.set_state, stream, JobState.STOPPED, PASSING)
        return await firing

    assert asyncio.run(stop_while_watching())["transient"] is True


def test_pausing_and_dropping_fire(catalog: Catalog) -> None:
    paused, dropped = add_stream(catalog, "paused"), add_stream(catalog, "dropped")
    catalog.jobs.set_desired(paused, DesiredState.PAUSED)
    catalog.jobs.drop(dropped)
    assert asyncio.run(fired(paused)) == {"verdict": "paused"}
    assert asyncio.run(event(dropped)).task_instance_state == "success"


def test_a_task_cleared_after_a_stop_resumes_the_stream(catalog: Catalog, reads: list[int]) -> None:
    stream = add_stream(catalog, state=JobState.STOPPED, reason=FAILED)
    asyncio.run(fired(stream, "1"))

    async def cleared() -> bool:
        firing = asyncio.create_task(fired(stream, "2"))
        await until(lambda: catalog.jobs.by_id(stream).state is JobState.RUNNING)
        reads.clear()
        await until(lambda: len(reads) >= 2)
        return firing.cancel()

    assert asyncio.run(cleared()), "the trigger must keep watching the resumed stream"


def test_a_triggerer_that_starts_after_a_stop_reports_it_and_resumes_nothing(catalog: Catalog) -> None:
    other = add_stream(catalog, "other", JobState.STOPPED, FAILED)
    supervision.record_report(catalog, other, FAILED)
    stream = add_stream(catalog, state=JobState.STOPPED, reason=FAILED)
    assert asyncio.run(fired(stream))["verdict"] == "stopped"
    assert catalog.jobs.by_id(stream).state is JobState.STOPPED


@pytest.mark.parametrize("reason", [FAILED, PASSING])
def test_a_triggerer_that_is_killed_before_airflow_has_stored_its_report_reports_again(
    catalog: Catalog, reason: StopReason
) -> None:
    """Airflow starts the trigger of the same try again. Nobody has cleared the task, so nothing may be resumed."""
    stream = add_stream(catalog, state=JobState.STOPPED, reason=reason)
    payloads = [asyncio.run(fired(stream, "1")) for _ in range(2)]
    assert [payload["text"] for payload in payloads] == [str(reason)] * 2
    assert catalog.jobs.by_id(stream).state is JobState.STOPPED


def test_an_error_of_the_trigger_is_reported_and_tried_again_after_a_pause(home: Settings, catalog: Catalog) -> None:
    """With the pause of a second that is right for a job, one bug in the trigger would occupy the workers with tries."""
    from airflow.sdk.exceptions import AirflowException, TaskDeferralError

    from headrace_supervision import SuperviseJob, SupervisionError

    stream = add_stream(catalog)
    with closing(sqlite3.connect(home.home_path / "catalog.db")) as database, database:
        database.execute("UPDATE jobs SET state = 'UNKNOWN'")
    payload = asyncio.run(fired(stream))
    assert "'UNKNOWN'" in payload["text"]
    with pytest.raises(SupervisionError, match="UNKNOWN"):
        complete(payload)
    policy = SuperviseJob(task_id="supervise", job_id="any").retry_policy
    assert policy is not None
    delays = [policy.evaluate(error, 1, 9).retry_delay for error in (SupervisionError(), TaskDeferralError(), AirflowException())]
    assert delays == [timedelta(minutes=1), timedelta(minutes=1), None]


def test_concurrent_readers_share_a_snapshot(reads: list[int]) -> None:
    from headrace_supervision import snapshot_cache

    async def read_concurrently() -> list[supervision.Snapshot]:
        cache = snapshot_cache()
        return await asyncio.gather(*(cache.get() for _ in range(50)))

    snapshots = asyncio.run(read_concurrently())
    assert len(reads) == 1
    assert all(state is snapshots[0] for state in snapshots)


def test_a_reader_that_needs_a_newer_snapshot_gets_one(reads: list[int]) -> None:
    from headrace_supervision import snapshot_cache

    async def read_twice() -> None:
        cache = snapshot_cache()
        await cache.get()
        await cache.get(time.monotonic())

    asyncio.run(read_twice())
    assert len(reads) == 2


def test_a_transient_error_fails_the_try_but_not_the_task() -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    with pytest.raises(AirflowException, match="storage does not answer") as raised:
        complete({"verdict": "stopped", "text": str(PASSING), "transient": True})
    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize(("reason", "kind"), [(PASSING, "on_retry_callback"), (FAILED, "on_failure_callback")])
def test_failure_callbacks_are_called_for_every_stop(reason: StopReason, kind: Any) -> None:
    """Airflow calls retry callbacks after a failed try, and failure callbacks after the last one."""
    from airflow.sdk.exceptions import AirflowException
    from airflow.sdk.execution_time.task_runner import _run_task_state_change_callbacks
    from structlog import get_logger

    from headrace_supervision import SuperviseJob

    calls: list[str] = []

    def alert(context: Any) -> None:
        calls.append(str(context["exception"]))

    task = SuperviseJob(task_id="supervise", job_id="any", on_failure_callback=alert)
    task.on_retry_callback = [lambda _: calls.append("retry")]
    with pytest.raises(AirflowException) as raised:
        task.execute_complete({}, {"verdict": "stopped", "text": str(reason), "transient": reason.transient})
    _run_task_state_change_callbacks(task, kind, {"exception": raised.value}, get_logger())
    assert calls == (["retry", str(reason)] if reason.transient else [str(reason)])


def test_any_other_error_fails_the_task_without_retries() -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"\[TYPE\] column v is gone"):
        complete({"verdict": "stopped", "text": str(FAILED), "transient": False})


def test_a_paused_stream_skips_the_task() -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException, match="when it is resumed"):
        complete({"verdict": "paused"})
