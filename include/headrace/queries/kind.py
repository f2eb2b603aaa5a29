"""Continuous queries as a kind of jobs. Imports nothing of Spark, nor what computes queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.jobs import actions
from headrace.jobs.actions import statement_action
from headrace.jobs.kinds import JobKind, imported
from headrace.model.access import Privilege
from headrace.model.execution_history import NO_HISTORY, ExecutionHistory
from headrace.model.jobs import DesiredState, JobDefinition, JobRecord, JobState
from headrace.model.tree_statements import DropContinuousQuery, PauseContinuousQuery, ResumeContinuousQuery, TimeoutPolicy

if TYPE_CHECKING:
    from headrace.settings import Settings

CONTINUOUS_QUERY: Final = "continuous query"
RESUME_EFFECTS: Final = {
    TimeoutPolicy.BLOCKED: "The executions that were due in the meantime are made up for, in order.",
    TimeoutPolicy.DISCARD: "Of the executions that were due in the meantime, only the latest is made up for.",
}


def is_resident(definition: JobDefinition, settings: Settings) -> bool:
    """Return whether an snode executes a query by its own timer, since it is due too often for Airflow."""
    return definition.schedule.every < settings.cq_resident_every_ms


def is_active(record: JobRecord) -> bool:
    """Return whether a query is to be executed."""
    return record.desired is DesiredState.RUNNING and record.state is JobState.RUNNING


def lag_ms(record: JobRecord, _: object, history: ExecutionHistory | None, now: int) -> int:
    """Return the age of the oldest execution that is due."""
    return (history or NO_HISTORY).lag_ms(record.definition.schedule, now)


KIND: Final = JobKind(
    name=CONTINUOUS_QUERY,
    plural="continuous queries",
    dag_prefix="headrace_cq__",
    address="cq",
    runner=imported("headrace.runtime.continuous_queries:QueryRunner"),
    sources=imported("headrace.runtime.continuous_queries:QuerySchedule"),
    is_runnable=is_active,
    drop=imported("headrace.queries.executions:drop_query"),
    dag=imported("headrace_generators.continuous_query:query_dag"),
    page=imported("headrace.web.query_view:PAGE"),
    needs=imported("headrace.queries.needs:query_needs"),
    lineage=imported("headrace.queries.lineage:query_lineage"),
    metrics=imported("headrace.runtime.job_metrics:query_families"),
    lag_ms=lag_ms,
    is_resident=is_resident,
    states={JobState.RUNNING: "ACTIVE"},  # as in IoTDB
    descriptions={
        JobState.CREATED: "recorded, not started by its snode yet",
        JobState.RUNNING: "executed by its schedule",
        JobState.PAUSED: "not executed until RESUME CONTINUOUS QUERY",
        JobState.STOPPED: "failed for the reason shown",
    },
    resumption="with the executions that its policy asks for",
    is_scheduled=True,
    counts_rows_in=False,
    privilege=Privilege.USE_CQ,
    actions={
        actions.PAUSE: statement_action(
            lambda job: PauseContinuousQuery(job.name),
            lambda _: "No further execution is started until the query is resumed. One that is running ends first.",
        ),
        actions.RESUME: statement_action(
            lambda job: ResumeContinuousQuery(job.name), lambda job: RESUME_EFFECTS[job.schedule.policy]
        ),
        actions.DROP: statement_action(
            lambda job: DropContinuousQuery(job.name),
            lambda _: "Removes the query and the record of its executions. What it has written stays.",
        ),
    },
)
