"""The whole system with a real Airflow and a browser: its start, and a stream from its creation to its end."""

from __future__ import annotations

import shutil
import time
from typing import Any

import httpx
import psutil
import pytest

from headrace.history.backfill import HISTORY
from headrace.model.jobs import JobState
from headrace.model.ledger import ChunkState
from headrace.runtime import embedded_airflow
from headrace.runtime.processes import is_running
from tests.airflow.running import RunningSystem
from tests.support.waiting import MAX_WAIT_S

pytestmark = [pytest.mark.airflow, pytest.mark.e2e, pytest.mark.timeout(3600)]

TABLES = (
    "CREATE DATABASE power",
    "CREATE STABLE power.meters (ts TIMESTAMP, v DOUBLE) TAGS (place VARCHAR(20))",
    "CREATE TABLE power.d1 USING power.meters TAGS ('cellar')",
    "INSERT INTO power.d1 VALUES ('2026-01-01 00:00:00', 1.0) ('2026-01-01 00:00:30', 3.0) ('2026-01-01 00:01:10', 5.0)",
)
STREAM = (
    "CREATE STREAM power.avg_v FILL_HISTORY 1 INTO power.avg_v_out AS "
    "SELECT _wstart, avg(v) AS mean FROM power.meters PARTITION BY tbname INTERVAL(1m)"
)


@pytest.fixture(scope="module", autouse=True)
def tables(up: RunningSystem) -> None:
    for statement in TABLES:
        up.sql(statement)


def test_every_component_is_healthy_and_nothing_failed_to_import(up: RunningSystem) -> None:
    up.until(lambda: embedded_airflow.status(up.settings).healthy, "every component to be healthy")
    assert embedded_airflow.status(up.settings).url == up.started.url
    assert up.client.import_errors() == []


def test_the_snode_is_alive_after_the_start(up: RunningSystem) -> None:
    assert up.started.obstacles == ()
    lease, beat = up.catalog.leases.get(up.settings.snode), up.catalog.snodes.get(up.settings.snode)
    assert lease is not None
    assert beat.epoch == lease.epoch


def test_starting_a_running_system_starts_nothing(up: RunningSystem) -> None:
    before = {component.name: component.pid for component in embedded_airflow.status(up.settings).components}
    again = embedded_airflow.start(up.settings)
    assert again.already
    assert not again.first
    assert {component.name: component.pid for component in embedded_airflow.status(up.settings).components} == before


def test_creating_a_stream_creates_its_dag_which_runs_automatically(up: RunningSystem) -> None:
    up.sql(STREAM)
    up.until(lambda: up.client.dag("headrace_stream__power__avg_v"), "the DAG of the new stream")
    up.until(lambda: up.client.runs("headrace_stream__power__avg_v"), "its first run")


def test_the_page_rejects_users_who_are_not_logged_in(up: RunningSystem) -> None:
    stream = up.stream("avg_v").definition.id
    with httpx.Client(base_url=f"{up.started.url}/headrace/api", timeout=MAX_WAIT_S) as stranger:
        assert stranger.get("/jobs").status_code == 401
        action, body = {"X-Headrace-Action": "drop"}, {"sql": "DROP STREAM power.avg_v"}
        assert stranger.post(f"/jobs/{stream}/drop", json=body, headers=action).status_code == 401


def test_the_page_shows_the_stream_inside_airflows_ui(up: RunningSystem) -> None:
    with BrowserPage(up) as page:
        page.goto(f"{up.started.url}/plugin/headrace")
        frame = page.frame_locator("iframe")
        frame.locator("table.jobs").get_by_role("link", name="power.avg_v").click()
        frame.get_by_role("tab", name="SQL").click()
        shown = frame.locator("pre.sql")
        shown.wait_for()
        assert shown.inner_text() == STREAM
        assert "stream=power.avg_v" in page.url


def test_the_history_is_filled_and_the_stream_goes_live_under_supervision(up: RunningSystem) -> None:
    record = up.await_state("avg_v", JobState.RUNNING)
    assert record.progress.boundary is not None
    up.until(lambda: up.task_is("avg_v", "supervise", "deferred"), "supervision to start")
    up.until(lambda: len(up.sql("SELECT * FROM power.avg_v_out")) >= 1, "results")


def test_a_scheduler_that_crashes_is_restarted(up: RunningSystem) -> None:
    (component,) = [one for one in embedded_airflow.status(up.settings).components if one.name == "scheduler"]
    (crashed,) = psutil.Process(component.pid).children()
    # What fails at once is not started again, so the scheduler has to run for a while.
    enough = float(embedded_airflow.RESTARTED_AFTER_S) + 2
    up.until(lambda: time.time() - crashed.create_time() > enough, "the scheduler to have run for long enough")
    epoch = up.epoch()
    crashed.kill()

    def is_restarted() -> bool:
        children = psutil.Process(component.pid).children()
        return bool(children) and children[0].pid != crashed.pid and embedded_airflow.status(up.settings).healthy

    up.until(is_restarted, "the scheduler to be healthy again")
    # Its next life ends the tasks that it finds running, the snode's driver among them.
    up.until(lambda: up.epoch() > epoch and up.is_ready(), "another driver to take the lease and the streams")


def test_a_small_history_needs_no_spark_process_of_airflow(up: RunningSystem) -> None:
    """The source has three rows, as many as the snode fills itself here."""
    up.until(lambda: up.task_is("avg_v", "activate", "success"), "the activation")
    assert [task["state"] for task in up.tasks("avg_v")["fill_history"]] == ["skipped"]
    (chunk,) = up.catalog.ledger.chunks(up.stream("avg_v").definition.id, HISTORY)
    assert chunk.state is ChunkState.DONE


def test_a_larger_history_is_filled_by_tasks_of_airflow(up: RunningSystem) -> None:
    up.sql("CREATE TABLE power.tank (ts TIMESTAMP, v DOUBLE)")
    up.sql("INSERT INTO power.tank VALUES " + " ".join(f"('2026-01-01 00:0{minute}:00', {minute})" for minute in range(4)))
    up.sql("CREATE STREAM power.levels FILL_HISTORY 1 INTO power.levels_out AS SELECT _wstart, max(v) FROM power.tank INTERVAL(1m)")
    up.await_state("levels", JobState.RUNNING)
    up.until(lambda: len(up.sql("SELECT * FROM power.levels_out")) >= 3, "results")
    # The snode goes live as soon as the chunk is done, which Airflow knows once the process of its task has ended.
    up.until(lambda: up.task_is("levels", "fill_history", "success"), "the task to end")
    up.sql("DROP STREAM power.levels")


def test_pausing_on_the_page_skips_supervision_and_resuming_restarts_it(up: RunningSystem) -> None:
    with BrowserPage(up) as page:
        page.goto(f"{up.started.url}/headrace/?stream=power.avg_v")
        for action, state in (("Pause", JobState.PAUSED), ("Resume", JobState.RUNNING)):
            page.get_by_role("button", name=action).click()
            page.locator("dialog").get_by_role("button", name=action).click()
            up.await_state("avg_v", state)
            expected = "skipped" if state is JobState.PAUSED else "deferred"
            up.until(lambda: up.task_is("avg_v", "supervise", expected), f"supervision to be {expected}")  # noqa: B023


def test_a_triggered_run_recomputes_a_range_while_the_stream_runs(up: RunningSystem) -> None:
    before = up.sql("SELECT * FROM power.avg_v_out")
    dag_id = "headrace_stream__power__avg_v"
    with BrowserPage(up) as page:
        page.goto(f"{up.started.url}/headrace/?stream=power.avg_v&tab=Backfill")
        page.get_by_label("Times in").select_option("UTC")
        page.get_by_label("From").fill("2026-01-01T00:00:00")
        page.get_by_label("To", exact=True).fill("2026-01-01T01:00:00")
        page.get_by_role("button", name="Start backfill").click()
        run = page.get_by_role("link", name="manual__").inner_text()

    def state() -> str:
        return next(str(dag_run["state"]) for dag_run in up.client.runs(dag_id) if dag_run["dag_run_id"] == run)

    up.until(lambda: state() in ("success", "failed"), "the run to end")
    states = {task["task_id"]: task["state"] for task in up.client.tasks(dag_id, run)}
    assert states == {"plan_history": "success", "fill_history": "success", "activate": "skipped", "supervise": "skipped"}
    assert up.sql("SELECT * FROM power.avg_v_out") == before
    assert up.stream("avg_v").state is JobState.RUNNING


def test_a_finished_recomputation_is_repeated_when_cleared(up: RunningSystem) -> None:
    dag_id, ledger, job_id = "headrace_stream__power__avg_v", up.catalog.ledger, up.stream("avg_v").definition.id
    run = next(str(dag_run["dag_run_id"]) for dag_run in up.client.runs(dag_id) if dag_run["run_type"] == "manual")
    for tasks, repeated in (["fill_history"], f"airflow/{run}/chunk-0/2"), (None, f"airflow/{run}/2"):
        up.client.clear(dag_id, run, tasks)
        up.until(lambda: (summary := ledger.summary(job_id, repeated)).chunks and summary.complete, f"{repeated} to be done")  # noqa: B023
        up.until(lambda: up.client.runs(dag_id)[0]["state"] == "success", "the run to end")


def test_a_driver_that_exits_cleanly_is_replaced(up: RunningSystem) -> None:
    ended = up.driver()
    epoch = up.epoch()
    ended.terminate()
    up.until(lambda: up.epoch() > epoch and up.is_ready(), "another driver to take the lease and the streams")
    assert up.driver().pid != ended.pid


def test_a_stream_resumed_while_airflow_is_down_is_supervised_after_its_start(up: RunningSystem) -> None:
    """The driver exits cleanly before Airflow is stopped; Airflow starts a new driver after its own start."""
    up.sql("PAUSE STREAM power.avg_v")
    up.until(lambda: up.task_is("avg_v", "supervise", "skipped"), "supervision to be skipped")
    ended, epoch = up.driver(), up.epoch()
    ended.terminate()
    up.until(lambda: not is_running(ended), "the driver to end")
    embedded_airflow.stop(up.settings)
    up.sql("RESUME STREAM power.avg_v")
    again = embedded_airflow.start(up.settings)
    assert (again.first, again.obstacles) == (False, ())
    assert up.epoch() > epoch
    up.until(lambda: up.task_is("avg_v", "supervise", "deferred"), "supervision to resume")
    up.await_state("avg_v", JobState.RUNNING)


def test_a_killed_driver_is_the_reported_reason_and_the_stream_recovers(up: RunningSystem) -> None:
    dead = up.supervised_driver("avg_v")
    dead.kill()
    stopped = up.await_state("avg_v", JobState.STOPPED)
    assert stopped.reason is not None
    assert (stopped.reason.code, stopped.reason.transient) == ("DRIVER_LOST", True)
    text = str(stopped.reason).splitlines()[0]
    up.until(lambda: any(text in log for log in logs_of_tries(up)), f"a try of supervise to fail with {text}")
    up.await_state("avg_v", JobState.RUNNING)
    assert up.driver().pid != dead.pid


def test_dropping_the_stream_ends_its_supervision(up: RunningSystem) -> None:
    up.until(lambda: up.task_is("avg_v", "supervise", "deferred"), "supervision to resume")
    up.sql("DROP STREAM power.avg_v")
    up.until(lambda: up.task_is("avg_v", "supervise", "success"), "supervision to end")


def logs_of_tries(up: RunningSystem) -> list[str]:
    """Return the logs of all tries of `supervise`, the latest first."""
    (task,) = up.tasks("avg_v")["supervise"]
    tries = range(int(task["try_number"]), 0, -1)
    return [up.log_text(task["dag_id"], task["dag_run_id"], "supervise", number) for number in tries]


class BrowserPage:
    """A page of a headless browser that is logged in to Airflow; skips the test if there is no browser."""

    def __init__(self, up: RunningSystem) -> None:
        self._up = up

    def __enter__(self) -> Any:
        from playwright.sync_api import sync_playwright

        executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if executable is None:
            pytest.skip("needs a browser: apt-get install chromium")
        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        login = {"username": self._up.started.user, "password": self._up.started.password}
        token = httpx.post(f"{self._up.started.url}/auth/token", json=login, timeout=MAX_WAIT_S).json()["access_token"]
        context = self._browser.new_context(viewport={"width": 1280, "height": 800})
        context.add_cookies([{"name": "_token", "value": token, "url": self._up.started.url}])
        context.set_default_timeout(MAX_WAIT_S * 1000)
        return context.new_page()

    def __exit__(self, *_: object) -> None:
        self._browser.close()
        self._playwright.stop()
