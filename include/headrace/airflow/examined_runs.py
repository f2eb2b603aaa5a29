"""The runs that Airflow's scheduler examines: those of drivers first, and none of Headrace that only waits for a triggerer.

The scheduler examines a limited number of running runs in a loop, those first that it has not examined for longest, in up to 10 ms
each. The run of each job is running for as long as the job is supervised, without anything to decide. With hundreds of jobs, any
other run would get its turn after many seconds for each of its tasks, and runs of backfills, which come last, would never get it.
When a driver has ended, all its jobs report that, and the run of the next driver would wait for theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.runtime.airflow import SUPERVISE
from headrace.runtime.dag_ids import PREFIX, SNODE_PREFIX

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import ORMExecuteState, Session


def order_examined_runs() -> None:
    """Have the scheduler of this process examine runs of drivers first, and no run that only waits.

    Airflow has no setting for this. Ordering them again has no effect.
    """
    from airflow.models.dagrun import DagRun

    examine = DagRun.get_running_dag_runs_to_examine
    if examine.__module__ != __name__:
        DagRun.get_running_dag_runs_to_examine = ordered(examine)  # type: ignore[assignment,method-assign]


def ordered(examine: Callable[..., Any]) -> Callable[..., list[DagRun]]:
    """Return a function that finds the runs to examine by `examine`: those of drivers, then others that do not only wait.

    A run only waits while its single unfinished task supervises a job in a triggerer.
    """

    def find(*, session: Session) -> list[DagRun]:
        with limited_to(is_of_driver(), session):
            drivers = list(examine(session=session))
        with limited_to(~is_of_driver() & ~is_waiting(), session):
            return [*drivers, *examine(session=session)]

    return find


@contextmanager
def limited_to(criterion: ColumnElement[bool], session: Session) -> Iterator[None]:
    """Add a criterion for runs to the queries of a session."""
    from airflow.models.dagrun import DagRun
    from sqlalchemy import event
    from sqlalchemy.orm import with_loader_criteria

    def add(state: ORMExecuteState) -> None:
        state.statement = state.statement.options(with_loader_criteria(DagRun, criterion, propagate_to_loaders=False))

    event.listen(session, "do_orm_execute", add)
    try:
        yield
    finally:
        event.remove(session, "do_orm_execute", add)


def is_of_driver() -> ColumnElement[bool]:
    """Return the criterion of runs of drivers of snodes."""
    from airflow.models.dagrun import DagRun

    return DagRun.dag_id.startswith(SNODE_PREFIX, autoescape=True)


def is_waiting() -> ColumnElement[bool]:
    """Return the criterion of runs that only wait for a triggerer."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.state import State, TaskInstanceState
    from sqlalchemy import exists, or_

    of_run = (TaskInstance.dag_id == DagRun.dag_id) & (TaskInstance.run_id == DagRun.run_id)
    is_deferred = TaskInstance.state == TaskInstanceState.DEFERRED
    others = [state for state in State.unfinished if state not in (None, TaskInstanceState.DEFERRED)]
    is_other = or_(TaskInstance.state.is_(None), TaskInstance.state.in_(others))
    is_supervised = exists().where(of_run, is_deferred, TaskInstance.task_id == SUPERVISE)
    return DagRun.dag_id.startswith(PREFIX, autoescape=True) & is_supervised & ~exists().where(of_run, is_other)
