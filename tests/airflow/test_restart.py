"""Restarts of an snode's driver: its DAG's runs, created by Airflow's real scheduler, and what becomes of old ones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pendulum
import pytest

from headrace.runtime.airflow_database import end_lost_components, open_database
from headrace.runtime.retention import clean
from headrace.settings import Settings

pytestmark = pytest.mark.airflow

NOW = pendulum.datetime(2026, 11, 21, 12)
SNODE = "headrace_snode__default"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[pendulum.DateTime]:
    """Set the timetable's clock to the only element of this list."""
    import headrace_timetable

    times = [NOW]
    monkeypatch.setattr(headrace_timetable, "utc_now", lambda: times[0])
    return times


def next_run(last: Any | None) -> Any:
    """Return the timetable's run after `last`."""
    from airflow.timetables.base import TimeRestriction

    from headrace_timetable import BackToBack

    interval = None if last is None else last.data_interval
    restriction = TimeRestriction(earliest=None, latest=None, catchup=False)
    return BackToBack().next_dagrun_info(last_automated_data_interval=interval, restriction=restriction)


def is_due(run: Any, now: pendulum.DateTime) -> bool:
    return bool(run.run_after <= now and run.logical_date <= now)


@pytest.mark.parametrize(
    "step", [timedelta(0), timedelta(hours=1), timedelta(hours=-1), timedelta(days=-400)], ids=["still", "on", "back", "far back"]
)
def test_the_next_run_is_new_and_due_whatever_the_clock_does(clock: list[pendulum.DateTime], step: timedelta) -> None:
    runs = [next_run(None)]
    for _ in range(5):
        runs.append(next_run(runs[-1]))
        assert is_due(runs[-1], clock[0])
    clock[0] += step
    after = next_run(runs[-1])
    assert is_due(after, clock[0])
    dates = [run.logical_date for run in (*runs, after)]
    assert len(set(dates)) == len(dates)


def test_a_run_planned_before_the_clock_was_set_back_is_due(clock: list[pendulum.DateTime]) -> None:
    """Airflow plans the next run when it creates a run, and only plans it again when it parses the DAG file."""
    first = next_run(None)
    clock[0] += timedelta(days=3)
    planned = next_run(next_run(first))
    clock[0] -= timedelta(days=2)
    assert is_due(planned, clock[0])


def test_it_is_restored_from_airflows_database() -> None:
    from airflow.serialization.decoders import decode_timetable
    from airflow.serialization.encoders import encode_timetable

    from headrace_timetable import BackToBack

    assert isinstance(decode_timetable(encode_timetable(BackToBack())), BackToBack)


@pytest.fixture(scope="module", autouse=True)
def airflow_tables() -> None:
    """Create the tables of Airflow's database."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture
def scheduler(home: Settings) -> Iterator[Callable[[], list[str]]]:
    """Provide a function that runs one iteration of Airflow's scheduler, and returns the ids of all runs."""
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.sqlalchemy import prohibit_commit
    from sqlalchemy import delete, select

    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
    sync_bag_to_db(DagBag(str(home.project / "dags")), "dags-folder", None)
    runner = SchedulerJobRunner(job=Job())  # type: ignore[no-untyped-call]

    def schedule() -> list[str]:
        with create_session() as session, prohibit_commit(session) as guard:  # type: ignore[no-untyped-call]
            runner._create_dagruns_for_dags(guard, session)
        with create_session() as session:
            return list(session.scalars(select(DagRun.run_id).where(DagRun.dag_id == SNODE)))

    yield schedule
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.dag_id == SNODE))


def end_runs() -> None:
    """Let all runs succeed, as if their drivers exited cleanly."""
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.dag_id == SNODE).values(state="success"))
        # The scheduler does this when a run ends.
        session.execute(update(DagModel).where(DagModel.dag_id == SNODE).values(exceeds_max_non_backfill=False))


def test_airflows_scheduler_creates_a_run_after_each_run_that_ended(scheduler: Callable[[], list[str]]) -> None:
    for number in range(1, 4):
        assert len(scheduler()) == number
        assert len(scheduler()) == number, "one driver at a time"
        end_runs()


def test_a_run_follows_after_the_dags_were_parsed_again(scheduler: Callable[[], list[str]], home: Settings) -> None:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    assert len(scheduler()) == 1
    end_runs()
    sync_bag_to_db(DagBag(str(home.project / "dags")), "dags-folder", None)
    assert len(scheduler()) == 2


def test_a_task_of_lost_processes_is_run_again_by_the_next_scheduler(scheduler: Callable[[], list[str]]) -> None:
    """Its scheduler has sent a heartbeat just before it was killed."""
    from airflow.executors.local_executor import LocalExecutor
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select, update

    (run_id,) = scheduler()
    with create_session() as session:
        lost = Job(job_type="SchedulerJob", state="running", latest_heartbeat=pendulum.now("UTC"))  # type: ignore[no-untyped-call]
        session.add(lost)
        session.flush()
        session.execute(update(DagRun).where(DagRun.run_id == run_id).values(state="running"))
        task = update(TaskInstance).where(TaskInstance.run_id == run_id)
        session.execute(task.values(state="running", queued_by_job_id=lost.id))
    next_one = SchedulerJobRunner(job=Job())  # type: ignore[no-untyped-call]
    next_one.executors = [LocalExecutor()]  # type: ignore[no-untyped-call]
    assert next_one.adopt_or_reset_orphaned_tasks() == 0, "as long as it may be alive"
    end_lost_components(os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
    assert next_one.adopt_or_reset_orphaned_tasks() == 1
    with create_session() as session:
        assert session.scalars(select(TaskInstance.state).where(TaskInstance.run_id == run_id)).all() == [None]


def test_an_unknown_database_of_airflow_is_left_as_it_is(tmp_path: Path) -> None:
    """Without these changes, a new scheduler waits for heartbeats, and what is old stays."""
    url = f"sqlite:///{tmp_path}/airflow.db"
    log = tmp_path / "logs" / "dag_id=d" / "run_id=r" / "1.log"
    log.parent.mkdir(parents=True)
    log.touch()
    with open_database(url) as engine:
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE job (id INTEGER, state TEXT, ended DATETIME)")
            connection.exec_driver_sql("INSERT INTO job VALUES (1, 'running', NULL)")
        end_lost_components(url)
        clean(url, tmp_path / "logs", NOW)
        with engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT state FROM job").scalar_one() == "running"
    assert log.exists()


def test_old_runs_are_deleted_with_their_logs_but_not_what_runs_or_is_the_latest(
    scheduler: Callable[[], list[str]], tmp_path: Path
) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select, update

    def age(number: int) -> None:
        """Let one of the runs have begun long ago, and ended then, unless it is the last."""
        with create_session() as session:
            ended = {"end_date": None, "state": "running"} if number == 3 else {"end_date": long_ago}
            session.execute(update(DagRun).where(DagRun.run_id == runs[number - 1]).values(start_date=long_ago, **ended))

    def kept() -> tuple[list[str], list[str]]:
        with create_session() as session:
            tasks = session.scalars(select(TaskInstance.run_id).where(TaskInstance.dag_id == SNODE)).all()
        return list(tasks), sorted(path.name.removeprefix("run_id=") for path in tmp_path.rglob("run_id=*"))

    long_ago = NOW.subtract(days=400)
    url = os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    for _ in range(3):
        runs = scheduler()
        end_runs()
    for number, run_id in enumerate(runs, start=1):
        age(number)
        log = tmp_path / f"dag_id={SNODE}" / f"run_id={run_id}" / "task_id=driver" / "attempt=1.log"
        log.parent.mkdir(parents=True)
        log.write_text("first\n" + "middle\n" * 100 + "last\n")
    clean(url, tmp_path, NOW.subtract(days=30), max_bytes=100)
    assert kept() == ([runs[2]], [runs[2]]), "the driver runs since then"
    assert log.stat().st_size < 100
    assert log.read_text().endswith("middle\nlast\n")
    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.run_id == runs[2]).values(end_date=long_ago, state="success"))
    clean(url, tmp_path, NOW.subtract(days=30))
    assert kept() == ([runs[2]], [runs[2]]), "Airflow continues from it"


@pytest.mark.usefixtures("scheduler")
def test_the_executor_has_old_runs_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.models.dagrun import DagRun

    from headrace_executor import LocalExecutor

    # Restored after the executor has replaced it.
    monkeypatch.setattr(DagRun, "get_running_dag_runs_to_examine", DagRun.get_running_dag_runs_to_examine)
    executor = LocalExecutor(parallelism=1)  # type: ignore[no-untyped-call]
    executor.start()
    try:
        executor.sync()
        assert executor._cleaning is None, "the scheduler has other things to do while it starts"
        executor._clean_at = time.monotonic()
        executor.sync()
        assert executor._cleaning is not None
        assert executor._cleaning.wait() == 0
    finally:
        executor.end()
