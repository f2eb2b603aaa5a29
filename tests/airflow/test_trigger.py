"""The trigger that watches a stream, and the task that it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from headrace.catalog import Catalog
from headrace.model.jobs import DesiredState, JobState, StopReason
from headrace.runtime import supervision
from headrace.settings import Settings
from tests.airflow.conftest import NOW
from tests.airflow.samples import add_stream
from tests.support.waiting import MAX_WAIT_S

pytestmark = pytest.mark.airflow

FAILED = StopReason("TYPE", "column v is gone", "mend the cause, then RESUME STREAM", NOW - 5_000)
PASSING = StopReason("OPERATIONAL", "storage does not answer", "it is tried again by itself", NOW - 5_000, transient=True)


@pytest.fixture(autouse=True)
def snapshot_cache(home: Settings) -> Iterator[None]:
    """Each test has a lookout of its own home."""
    assert home.home_path
    import headrace_supervision

    headrace_supervision.snapshot_cache.cache_clear()
    yield
    headrace_supervision.snapshot_cache().catalog.close()
    headrace_supervision.snapshot_cache.cache_clear()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """When the catalog has been looked at."""
    seen: list[int] = []
    get = supervision.snapshot

    def counted(opened: Catalog, now: int) -> supervision.Snapshot:
        state = get(opened, now)
        seen.append(now)
        return state

    monkeypatch.setattr(supervision, "snapshot", counted)
    return seen


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; a `TimeoutError` when that has become hopeless."""
    async with asyncio.timeout(MAX_WAIT_S):
        while not condition():
            await asyncio.sleep(0.05)


async def event(stream: str, within: float = MAX_WAIT_S) -> Any:
    """What the trigger fires."""
    from headrace_supervision import JobTrigger

    return await asyncio.wait_for(anext(JobTrigger(stream).run()), within)


async def fired(stream: str, within: float = MAX_WAIT_S) -> dict[str, Any]:
    """The payload of the event that the trigger fires."""
    return dict((await event(stream, within)).payload)


def ended(payload: dict[str, Any]) -> None:
    from headrace_supervision import SuperviseJob

    SuperviseJob(task_id="supervise", job_id="any").ended({}, payload)


def test_it_survives_airflows_database() -> None:

    from headrace_supervision import JobTrigger

    path, arguments = JobTrigger("id-1").serialize()
    module, _, name = path.rpartition(".")
    assert getattr(import_module(module), name)(**arguments).job_id == "id-1"


def test_a_stop_fires_with_the_very_text_of_the_catalog(catalog: Catalog) -> None:
    stream = add_stream(catalog, state=JobState.STOPPED, reason=FAILED)
    payload = asyncio.run(fired(stream))
    assert payload == {"verdict": "stopped", "text": str(catalog.jobs.by_id(stream).reason), "transient": False}


def test_a_stop_fires_while_the_trigger_is_watching(catalog: Catalog, looks: list[int]) -> None:
    stream = add_stream(catalog, state=JobState.CREATED)

    async def story() -> dict[str, Any]:
        firing = asyncio.create_task(fired(stream))
        await until(lambda: len(looks) >= 2)
        assert not firing.done()
        await asyncio.to_thread(catalog.jobs.set_state, stream, JobState.STOPPED, PASSING)
        return await firing

    assert asyncio.run(story())["transient"] is True


def test_pausing_and_dropping_fire(catalog: Catalog) -> None:
    paused, dropped = add_stream(catalog, "paused"), add_stream(catalog, "dropped")
    catalog.jobs.set_desired(paused, DesiredState.PAUSED)
    catalog.jobs.drop(dropped)
    assert asyncio.run(fired(paused)) == {"verdict": "paused"}
    assert asyncio.run(event(dropped)).task_instance_state == "success"


def test_a_task_cleared_after_a_stop_resumes_the_stream(catalog: Catalog, looks: list[int]) -> None:
    stream = add_stream(catalog, state=JobState.STOPPED, reason=FAILED)
    asyncio.run(fired(stream))

    async def cleared() -> bool:
        firing = asyncio.create_task(fired(stream))
        await until(lambda: catalog.jobs.by_id(stream).state is JobState.RUNNING)
        looks.clear()
        await until(lambda: len(looks) >= 2)
        return firing.cancel()

    assert asyncio.run(cleared()), "it watches the stream that was resumed"


def test_a_triggerer_that_was_away_when_the_stream_stopped_reports_it_and_resumes_nothing(catalog: Catalog) -> None:
    other = add_stream(catalog, "other", JobState.STOPPED, FAILED)
    supervision.report(catalog, other, FAILED)
    stream = add_stream(catalog, state=JobState.STOPPED, reason=FAILED)
    assert asyncio.run(fired(stream))["verdict"] == "stopped"
    assert catalog.jobs.by_id(stream).state is JobState.STOPPED


def test_all_who_look_at_the_catalog_within_a_moment_share_one_look(looks: list[int]) -> None:
    from headrace_supervision import snapshot_cache

    async def together() -> list[supervision.Snapshot]:
        watch = snapshot_cache()
        return await asyncio.gather(*(watch.get() for _ in range(50)))

    seen = asyncio.run(together())
    assert len(looks) == 1
    assert all(state is seen[0] for state in seen)


def test_who_needs_to_know_how_things_are_now_gets_a_look_of_their_own(looks: list[int]) -> None:
    from headrace_supervision import snapshot_cache

    async def later() -> None:
        watch = snapshot_cache()
        await watch.get()
        await watch.get(time.monotonic())

    asyncio.run(later())
    assert len(looks) == 2


def test_a_passing_reason_fails_the_try_but_not_the_task() -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    with pytest.raises(AirflowException, match="storage does not answer") as raised:
        ended({"verdict": "stopped", "text": str(PASSING), "transient": True})
    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize(("reason", "kind"), [(PASSING, "on_retry_callback"), (FAILED, "on_failure_callback")])
def test_whoever_is_to_be_told_of_failures_is_told_of_every_stop(reason: StopReason, kind: Any) -> None:
    """Airflow calls one kind of callbacks when a try has failed, and the other when the task has."""
    from airflow.sdk.exceptions import AirflowException
    from airflow.sdk.execution_time.task_runner import _run_task_state_change_callbacks
    from structlog import get_logger

    from headrace_supervision import SuperviseJob

    told: list[str] = []

    def tell(context: Any) -> None:
        told.append(str(context["exception"]))

    task = SuperviseJob(task_id="supervise", job_id="any", on_failure_callback=tell)
    task.on_retry_callback = [lambda _: told.append("retry")]
    with pytest.raises(AirflowException) as raised:
        task.ended({}, {"verdict": "stopped", "text": str(reason), "transient": reason.transient})
    _run_task_state_change_callbacks(task, kind, {"exception": raised.value}, get_logger())
    assert told == (["retry", str(reason)] if reason.transient else [str(reason)])


def test_any_other_reason_fails_the_task_whatever_tries_are_left() -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"\[TYPE\] column v is gone"):
        ended({"verdict": "stopped", "text": str(FAILED), "transient": False})


def test_a_paused_stream_skips_the_task() -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException, match="RESUME STREAM"):
        ended({"verdict": "paused"})
