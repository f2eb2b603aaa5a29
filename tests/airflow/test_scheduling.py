"""What Airflow's scheduler examines in a loop, beside streams whose runs do not end."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from headrace.airflow.examined_runs import ordered
from headrace.runtime.dag_ids import job_dag_id, snode_dag_id

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session

pytestmark = pytest.mark.airflow

DUE = datetime(2026, 1, 1, tzinfo=UTC)
STREAM_DAG = job_dag_id("stream", "power", "s")
WAITING: dict[str, str | None] = {"plan_history": "success", "activate": "success", "supervise": "deferred"}


@pytest.fixture
def session() -> Iterator[Session]:
    """A session of an empty database of Airflow."""
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    import_all_models()  # type: ignore[no-untyped-call]
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        yield session
    engine.dispose()


def add_run(session: Session, dag_id: str, tasks: dict[str, str | None]) -> DagRun:
    """Add a running run, and its DAG, with the states of its tasks."""
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunType
    from sqlalchemy import insert

    session.merge(DagModel(dag_id=dag_id, bundle_name="b", is_paused=False, is_stale=False, fileloc="f"))  # type: ignore[no-untyped-call]
    run_id = uuid.uuid4().hex
    run = DagRun(dag_id=dag_id, run_id=run_id, run_type=DagRunType.SCHEDULED, state=DagRunState.RUNNING, run_after=DUE)
    session.add(run)
    session.flush()
    common = {"dag_id": dag_id, "run_id": run_id, "map_index": -1, "max_tries": 0, "pool": "p", "pool_slots": 1}
    for task_id, state in tasks.items():
        session.execute(insert(TaskInstance).values(id=uuid.uuid4(), task_id=task_id, state=state, **common))
    return run


def examined(session: Session) -> list[DagRun]:
    """Return the runs that the scheduler examines."""
    from airflow.models.dagrun import DagRun

    return ordered(DagRun.get_running_dag_runs_to_examine)(session=session)


def test_a_backfill_starts_beside_more_streams_than_airflow_examines(session: Session) -> None:
    from airflow.models.backfill import BackfillDagRun
    from airflow.models.dagrun import DagRun

    backfill = add_run(session, job_dag_id("continuous query", "", "q"), {"execute": None})
    session.add(BackfillDagRun(backfill_id=1, dag_run_id=backfill.id, logical_date=DUE, sort_ordinal=1))
    for _ in range(DagRun.DEFAULT_DAGRUNS_TO_EXAMINE):
        add_run(session, STREAM_DAG, WAITING)
    assert backfill not in DagRun.get_running_dag_runs_to_examine(session=session).all()
    assert examined(session) == [backfill]


@pytest.mark.parametrize(
    "changed",
    [
        {"supervise": "success"},
        {"supervise": "scheduled"},
        {"supervise": "up_for_retry"},
        {"supervise": "failed"},
        {"supervise": None},
        {"activate": None},
        {"activate": "running"},
    ],
)
def test_a_run_is_examined_if_there_is_more_to_do_than_to_wait(session: Session, changed: dict[str, str | None]) -> None:
    add_run(session, STREAM_DAG, WAITING)
    run = add_run(session, STREAM_DAG, WAITING | changed)
    assert examined(session) == [run]


def test_the_run_of_a_driver_is_examined_before_those_that_report_its_end(session: Session) -> None:
    from airflow.models.dagrun import DagRun

    for _ in range(DagRun.DEFAULT_DAGRUNS_TO_EXAMINE):
        add_run(session, STREAM_DAG, WAITING | {"supervise": "up_for_retry"})
    driver = add_run(session, snode_dag_id("default"), {"driver": "success"})
    driver.last_scheduling_decision = DUE
    session.flush()
    assert driver not in DagRun.get_running_dag_runs_to_examine(session=session).all()
    runs = examined(session)
    assert (runs[0], len(runs)) == (driver, DagRun.DEFAULT_DAGRUNS_TO_EXAMINE + 1)


def test_runs_of_other_dags_are_examined_while_they_wait(session: Session) -> None:
    """They may have timeouts."""
    others = {add_run(session, "headraces", WAITING), add_run(session, STREAM_DAG, {"wait_for_window": "deferred"})}
    assert set(examined(session)) == others


def test_other_queries_of_the_session_find_waiting_runs(session: Session) -> None:
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    run = add_run(session, STREAM_DAG, WAITING)
    assert examined(session) == []
    assert session.scalars(select(DagRun)).all() == [run]
