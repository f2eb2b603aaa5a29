"""Operators of the DAGs of continuous queries. Spark and heavy modules of Headrace are imported only when a task runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowRuntimeError, AirflowSkipException

from headrace.errors import NotFoundError
from headrace_operators import SparkJob, is_supervising_run, open_runtime

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.model.continuous_queries import Schedule
    from headrace.model.jobs import JobRecord
    from headrace.runtime.query_runs import QueryRun, QueryWork

EXECUTE: Final = "execute"
# A run in this state has a process, or its task will be tried again.
ALIVE: Final = "running"
# States of a task that has not started.
WAITING: Final = frozenset({None, "scheduled", "queued"})


class ExecuteQuery(SparkJob):
    """Executes a continuous query at the instant of the DAG run, or in a range that a user has entered into the form.

    The ledger of executions decides what is left to do, so most of the runs that catch up, and most of a backfill, start no Spark:
    the first one has done their work in its process. A task that fails for good leaves the query STOPPED, with the same reason.
    """

    def __init__(self, *, job_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id

    def execute(self, context: Any) -> None:
        """Execute what is to be done, if anything."""
        from headrace.runtime import query_runs

        with open_runtime() as runtime:
            work = self._plan(runtime, context)
        if work is None:
            self.log.info("nothing to do: another run has executed this instant")
            return
        self.application_args = query_runs.arguments(work)
        try:
            super().execute(context)
        except AirflowException as error:
            with open_runtime() as runtime:
                self._fail(runtime, work, str(error))
        with open_runtime() as runtime:
            if (reason := self._unfinished_reason(runtime, work, context)) is not None:
                raise AirflowSkipException(reason)
            self._describe_event(runtime, work, context)

    def _describe_event(self, runtime: Context, work: QueryWork, context: Any) -> None:
        """Say in the event of the query's asset what was written."""
        from headrace.runtime.query_runs import instant_text

        execution = runtime.catalog.executions.get(self.job_id, work.instant)
        if work.range is None and execution is not None:
            extra = {"from": instant_text(execution.start), "until": instant_text(execution.end), "rows": execution.rows}
            for asset in self.outlets:
                context["outlet_events"][asset].extra |= extra

    def _plan(self, runtime: Context, context: Any) -> QueryWork | None:
        from headrace.runtime import query_runs

        record = self._record(runtime)
        schedule = record.definition.schedule
        run = query_run(context["dag_run"], schedule)
        if (reason := query_runs.skip_reason(runtime, record, run)) is not None:
            raise AirflowSkipException(reason)
        if run.type is query_runs.RunType.MANUAL and (range_ := form_range(context["params"], record)) is not None:
            return query_runs.QueryWork(self.job_id, run.holder, range=range_)
        query_runs.release_dead(runtime, self.job_id, run, lambda run_id: is_alive(context["ti"], run_id))
        is_last_try = context["ti"].try_number > context["ti"].max_tries
        work = query_runs.plan_work(runtime, record, run, is_last_try=is_last_try)
        if work is None:
            return None
        return replace(work, ahead=query_runs.plan_ahead(run, self._waiting_runs(context["ti"], run, schedule)))

    def _record(self, runtime: Context) -> JobRecord:
        try:
            return runtime.catalog.jobs.by_id(self.job_id)
        except NotFoundError:
            raise AirflowSkipException("the continuous query was dropped") from None

    def _waiting_runs(self, ti: Any, run: QueryRun, schedule: Schedule) -> Iterator[QueryRun]:
        """Yield the runs around this one whose tasks have not started, as far as Airflow shows them."""
        from headrace.runtime.query_runs import MAX_AHEAD

        reach = MAX_AHEAD * schedule.every
        bounds = [schedule.range_at(run.instant + shift)[0] for shift in (-reach, reach)]
        try:
            for dag_run in unfinished_runs(ti, *bounds):
                yield query_run(dag_run, schedule)
        except AirflowRuntimeError as error:
            self.log.warning("leaving the other runs to themselves: %s", error)

    def _fail(self, runtime: Context, work: QueryWork, message: str) -> None:
        """Raise the error of the task: the reason of the query if it is STOPPED, otherwise that of the execution.

        Raises:
            AirflowFailException: The query is STOPPED.
            AirflowException: The task may be tried again.
        """
        from headrace.runtime import query_runs

        cause = query_runs.release_own(runtime, self.job_id, work.holder, message)
        reason = query_runs.stop_failed_query(runtime, self.job_id, cause) if work.stop else None
        if reason is not None:
            raise AirflowFailException(str(reason))
        raise AirflowException(cause)

    def _unfinished_reason(self, runtime: Context, work: QueryWork, context: Any) -> str | None:
        """Return why the process has left its work undone: the query was dropped, paused or stopped meanwhile."""
        from headrace.runtime import query_runs

        record = self._record(runtime)

        execution = runtime.catalog.executions.get(self.job_id, work.instant)
        if work.range is None and query_runs.is_done_for(execution, work.holder, work.again):
            return None
        return query_runs.skip_reason(runtime, record, query_run(context["dag_run"], record.definition.schedule))


class RecomputeQuery(ExecuteQuery):
    """Recomputes a range of a continuous query that its snode executes; skipped in the run that supervises."""

    def execute(self, context: Any) -> None:
        """Recompute the range of the form."""
        if is_supervising_run(context):
            raise AirflowSkipException("the snode executes this query; trigger the DAG to recompute a range")
        super().execute(context)


class BeginSupervision(BaseOperator):
    """Begins the supervision of a continuous query. Skipped in a run that recomputes a range."""

    ui_color = "#e3ead9"

    def execute(self, context: Any) -> None:
        """Succeed in the scheduled run only."""
        if not is_supervising_run(context):
            raise AirflowSkipException("recomputes a range; the query is supervised by the scheduled run")


def query_run(dag_run: Any, schedule: Schedule) -> QueryRun:
    """Return a DAG run as a run of a continuous query."""
    from headrace.runtime.query_runs import QueryRun, RunType, instant_of

    run_type = RunType(str(getattr(dag_run.run_type, "value", dag_run.run_type)))
    instant = instant_of(schedule, epoch_ms(dag_run.data_interval_start), epoch_ms(dag_run.run_after) or 0)
    return QueryRun(dag_run.run_id, run_type, instant, dag_run.clear_number or 0, epoch_ms(dag_run.start_date) or 0)


def epoch_ms(instant: datetime | None) -> int | None:
    """Return an instant in epoch milliseconds; None for None."""
    return None if instant is None else round(instant.timestamp() * 1000)


def form_range(form: Any, record: JobRecord) -> tuple[int | None, int | None] | None:
    """Return the range that a user has entered, in epoch milliseconds; None if the form is empty."""
    from headrace.model.time import Precision
    from headrace.runtime.airflow_tasks import BackfillRange, to_ticks

    details = record.definition.continuous_query
    entered = BackfillRange.of_form(form, "UTC" if details is None else details.timezone)
    if entered.start is None and entered.end is None:
        return None
    return to_ticks(entered.start, Precision.MILLISECOND), to_ticks(entered.end, Precision.MILLISECOND)


def unfinished_runs(ti: Any, first: int, last: int) -> Iterator[Any]:
    """Yield the runs of a task's DAG that wait to be started, and whose logical dates are between two instants in epoch ms."""
    from airflow.sdk.execution_time.comms import GetPreviousDagRun
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    for state in ("queued", "running"):
        before = datetime.fromtimestamp(last / 1000).astimezone() + timedelta(milliseconds=1)
        while True:
            answer = SUPERVISOR_COMMS.send(GetPreviousDagRun(dag_id=ti.dag_id, logical_date=before, state=state))
            dag_run = getattr(answer, "dag_run", None)
            if dag_run is None or dag_run.logical_date is None or dag_run.logical_date.timestamp() * 1000 < first:
                break
            before = dag_run.logical_date
            if state == "queued" or _is_waiting(ti, dag_run.run_id):
                yield dag_run


def _is_waiting(ti: Any, run_id: str) -> bool:
    """Return whether the task of a run has not started."""
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[EXECUTE], run_ids=[run_id])
    return states.get(run_id, {}).get(EXECUTE) in WAITING


def is_alive(ti: Any, run_id: str) -> bool:
    """Return whether a run of a task's DAG is being worked on, or will be retried."""
    try:
        return str(ti.get_dagrun_state(dag_id=ti.dag_id, run_id=run_id)) == ALIVE
    except AirflowRuntimeError:
        return False


def stop_query_on_failure(context: Any) -> None:
    """Set a query to STOPPED if its task has failed for good without doing so; a failure callback."""
    from headrace.runtime import query_runs

    if not is_supervising_run(context):
        return
    task = context["task"]
    with open_runtime() as runtime:
        query_runs.stop_failed_query(runtime, task.job_id, str(context.get("exception") or "the task was ended"))
