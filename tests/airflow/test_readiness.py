"""What `headrace up` waits for: an snode that is alive and runs its streams."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog import Catalog
from headrace.model.clock import ManualClock, SystemClock
from headrace.model.jobs import DesiredState, JobProgress, JobState, StopReason
from headrace.model.snodes import Lease
from headrace.runtime.readiness import Obstacle, await_ready, find_obstacles
from headrace.runtime.supervision import read_snapshot
from headrace.settings import Settings
from tests.airflow.conftest import NOW
from tests.airflow.query_samples import add_query
from tests.airflow.samples import add_stream

HOLDER = f"{socket.gethostname()}:{os.getpid()}:x"
LOST = StopReason("DRIVER_LOST", "the driver has died", "it resumes automatically", NOW, transient=True)
FAILED = StopReason("TYPE", "column v is gone", "fix the cause, then RESUME STREAM", NOW)


def beat(catalog: Catalog, settings: Settings, **streams: int) -> Lease:
    """Write a driver's heartbeat with the number of its streams by state."""
    lease = catalog.leases.acquire(settings.snode, HOLDER, settings.lease_ms)
    assert lease is not None
    catalog.snodes.beat(lease, detail={"streams": streams})
    return lease


def current_obstacles(catalog: Catalog, clock: ManualClock, settings: Settings) -> list[Obstacle]:
    return find_obstacles(read_snapshot(catalog, clock.now(), settings.snode), settings)


def texts(catalog: Catalog, clock: ManualClock, settings: Settings) -> list[str]:
    return [obstacle.text for obstacle in current_obstacles(catalog, clock, settings)]


def test_an_snode_without_a_driver_is_an_obstacle(catalog: Catalog, clock: ManualClock, home: Settings) -> None:
    assert texts(catalog, clock, home) == ["the driver of snode default is not running"]


def test_a_driver_without_streams_is_ready_after_a_heartbeat(catalog: Catalog, clock: ManualClock, home: Settings) -> None:
    lease = catalog.leases.acquire(home.snode, HOLDER, home.lease_ms)
    assert texts(catalog, clock, home) == ["the driver of snode default is starting"]
    assert lease is not None
    catalog.snodes.beat(lease)
    assert texts(catalog, clock, home) == []


def test_the_heartbeat_of_the_previous_driver_is_ignored(catalog: Catalog, clock: ManualClock, home: Settings) -> None:
    catalog.leases.release(beat(catalog, home))
    catalog.leases.acquire(home.snode, HOLDER, home.lease_ms)
    assert texts(catalog, clock, home) == ["the driver of snode default is starting"]


def test_a_driver_that_has_not_read_its_streams_is_an_obstacle(catalog: Catalog, clock: ManualClock, home: Settings) -> None:
    add_stream(catalog)
    beat(catalog, home)
    assert texts(catalog, clock, home) == ["the driver of snode default has not read its streams yet"]
    beat(catalog, home, RUNNING=1)
    assert texts(catalog, clock, home) == []


@pytest.mark.parametrize(
    ("state", "reason", "text"),
    [
        (JobState.CREATED, None, "stream power.avg_v has not been taken up"),
        (JobState.STOPPED, LOST, f"stream power.avg_v is STOPPED: {LOST}"),
    ],
)
def test_a_stream_that_is_not_started_is_an_obstacle(
    catalog: Catalog, clock: ManualClock, home: Settings, state: JobState, reason: StopReason | None, text: str
) -> None:
    add_stream(catalog, state=state, reason=reason, progress=JobProgress())
    beat(catalog, home, **{state.value: 1})
    assert current_obstacles(catalog, clock, home) == [Obstacle(text)]


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.FILLING])
def test_a_stream_in_progress_is_no_obstacle(catalog: Catalog, clock: ManualClock, home: Settings, state: JobState) -> None:
    add_stream(catalog, state=state)
    beat(catalog, home, **{state.value: 1})
    assert current_obstacles(catalog, clock, home) == []


def test_a_stream_that_needs_a_fix_is_a_permanent_obstacle(catalog: Catalog, clock: ManualClock, home: Settings) -> None:
    add_stream(catalog, state=JobState.STOPPED, reason=FAILED)
    beat(catalog, home, STOPPED=1)
    assert current_obstacles(catalog, clock, home) == [Obstacle(f"stream power.avg_v is STOPPED: {FAILED}", passes=False)]


def test_a_stream_that_is_paused_is_no_obstacle(catalog: Catalog, clock: ManualClock, home: Settings) -> None:
    catalog.jobs.set_desired(add_stream(catalog, state=JobState.CREATED), DesiredState.PAUSED)
    beat(catalog, home, CREATED=1)
    assert current_obstacles(catalog, clock, home) == []


def test_a_continuous_query_that_is_stopped_is_an_obstacle(catalog: Catalog, clock: ManualClock, home: Settings) -> None:
    add_query(catalog)
    beat(catalog, home, RUNNING=1)
    assert texts(catalog, clock, home) == []
    add_query(catalog, "bad", JobState.STOPPED, FAILED)
    assert current_obstacles(catalog, clock, home) == [Obstacle(f"continuous query bad is STOPPED: {FAILED}", passes=False)]


def test_a_driver_that_has_not_read_its_jobs_says_which(catalog: Catalog, clock: ManualClock, home: Settings) -> None:
    add_query(catalog)
    beat(catalog, home)
    assert texts(catalog, clock, home) == ["the driver of snode default has not read its continuous queries yet"]
    add_stream(catalog)
    assert texts(catalog, clock, home) == ["the driver of snode default has not read its continuous queries and streams yet"]
    lease = catalog.leases.get(home.snode)
    assert lease is not None
    catalog.snodes.beat(lease, detail={"streams": {}, "continuous_queries": {"RUNNING": 1}})
    assert texts(catalog, clock, home) == []


class Airflow:
    """Stands in for the client, with fixed responses about the snode's DAG."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"dag": {"is_paused": False}, "runs": [{"dag_run_id": "r", "state": "running"}], **answers}

    def dag(self, _: str) -> Any:
        return self.answers["dag"]

    def runs(self, _: str, limit: int) -> Any:
        return self.answers["runs"][:limit]

    def tasks(self, _: str, __: str) -> Any:
        return self.answers.get("tasks", [{"task_id": "driver", "state": "up_for_retry", "try_number": 3}])


class Steps:
    """A console that records its steps."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str, done: int = 0, total: int = 0) -> None:  # noqa: ARG002
        self.steps.append(text)

    def note(self, text: str) -> None:
        self.steps.append(text)


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ({"dag": None}, "Airflow has not read its DAG yet"),
        ({"runs": []}, "Airflow has not started its DAG yet"),
        ({}, "its task in Airflow is up_for_retry, try 3"),
    ],
)
def test_the_wait_reports_obstacles_and_is_bounded(catalog: Catalog, home: Settings, answers: dict[str, Any], text: str) -> None:
    assert catalog
    console = Steps()
    left = await_ready(home, Airflow(**answers), console, wait_s=0.1)
    assert console.steps[0] == f"Waiting: the driver of snode default is not running; {text}"
    assert len(left) == 1
    assert left[0].startswith(f"after 0 s the driver of snode default is not running; {text}")
    assert str(home.home_path / "logs" / "airflow" / "dag_id=headrace_snode__default") in left[0]


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        ([("info", "2026-01-01 10:00:00 ERROR headrace: [CONFIGURATION] x"), ("error", "Task failed")], "[CONFIGURATION] x"),
        ([("info", "Spark-Submit cmd: …"), ("info", "JAVA_HOME is not set"), ("error", "Task failed")], "JAVA_HOME is not set"),
        ([("error", "Cannot run it")], "Cannot run it"),
    ],
)
def test_the_error_of_a_driver_that_is_tried_again_is_shown(
    catalog: Catalog, home: Settings, events: list[tuple[str, str]], cause: str
) -> None:
    assert catalog
    run = home.home_path / "logs" / "airflow" / "dag_id=headrace_snode__default" / "run_id=r" / "task_id=driver"
    run.mkdir(parents=True)
    (run / "attempt=1.log").write_text(
        "::group::\n" + "\n".join(json.dumps({"level": level, "event": event}) for level, event in events)
    )
    console = Steps()
    await_ready(home, Airflow(), console, wait_s=0.1)
    assert console.steps[0].endswith(f"its task in Airflow is up_for_retry, try 3, since it failed: {cause}")


def test_a_dag_that_was_paused_is_not_waited_for(catalog: Catalog, home: Settings) -> None:
    assert catalog
    (left,) = await_ready(home, Airflow(dag={"is_paused": True}), Steps(), wait_s=3600)
    assert "its DAG headrace_snode__default is paused in Airflow" in left


def test_a_system_that_is_ready_is_not_waited_for(catalog: Catalog, home: Settings) -> None:
    with Catalog.open(home.catalog, clock=SystemClock().now) as now:
        beat(now, home)
        assert await_ready(home, Airflow(), Steps(), wait_s=3600) == ()
    assert catalog


def test_status_prints_the_obstacles(catalog: Catalog, home: Settings) -> None:
    add_stream(catalog, state=JobState.STOPPED, reason=FAILED)
    assert_status(home, "Not ready: the driver of snode default is not running")
    with Catalog.open(home.catalog, clock=SystemClock().now) as now:
        lease = beat(now, home.replace({"lease_ms": 3_600_000}), STOPPED=1)
    assert_status(
        home, f"Snode default: alive, process {HOLDER}, epoch {lease.epoch}", f"Not ready: stream power.avg_v is STOPPED: {FAILED}"
    )


def assert_status(home: Settings, *lines: str) -> None:
    """Check that `headrace status` prints the lines and exits with code 1."""
    command = [str(Path(sys.executable).parent / "headrace"), "status", "--home", str(home.home_path)]
    # Prevents a heartbeat from becoming stale on a slow machine.
    environment = os.environ | {"HEADRACE_LEASE_MS": "3600000"}
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert outcome.returncode == 1
    assert set(lines) <= set(outcome.stdout.splitlines())
