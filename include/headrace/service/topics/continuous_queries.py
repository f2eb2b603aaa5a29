"""Continuous queries: create, drop, pause and resume them, and what there is to show of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Final, NamedTuple

from headrace.context import Context
from headrace.errors import NotFoundError
from headrace.jobs.registry import kind_of
from headrace.model.continuous_queries import Execution
from headrace.model.execution_history import absent_executions
from headrace.model.jobs import JobDefinition, JobRecord, JobState
from headrace.model.spelling import did_you_mean
from headrace.model.tree_statements import (
    CreateContinuousQuery,
    DropContinuousQuery,
    PauseContinuousQuery,
    ResumeContinuousQuery,
    TimeoutPolicy,
    TreeShow,
)
from headrace.model.tree_status import TreeStatus
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.service.describing import format_instant
from headrace.service.results import BIGINT, INSTANT, INT, STRING, CatalogRows, ColumnOf, read_columns
from headrace.service.rights import Action, job_securable, on_job
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.jobs import needed_rights, notify_airflow, reactivate_job, remove_job, suspend_job
from headrace.service.visible_rows import HIDDEN_MESSAGE, reads_values, visible_jobs

MAX_PENDING: Final = 10_000
"""Executions that are due, but not started, in one answer."""


class NamedExecution(NamedTuple):
    """An execution of the continuous query of a name."""

    query: str
    execution: Execution


EXECUTION_COLUMNS: Final[dict[str, ColumnOf[NamedExecution]]] = {
    "CQId": (STRING, lambda one: one.query),
    "Scheduled": (INSTANT, lambda one: one.execution.scheduled),
    "Start": (INSTANT, lambda one: one.execution.start),
    "End": (INSTANT, lambda one: one.execution.end),
    "State": (STRING, lambda one: one.execution.state.value),
    "Attempt": (INT, lambda one: one.execution.attempt),
    "Rows": (BIGINT, lambda one: one.execution.rows),
    "DurationMs": (BIGINT, lambda one: one.execution.duration_ms),
    "Message": (STRING, lambda one: one.execution.message),
}


def plan_create_continuous_query(statement: CreateContinuousQuery, session: PlanningContext) -> list[Stage]:
    from headrace.queries.continuous_query import define

    definition = define(statement, session.context)
    return [record_query(definition, session.context), notify_airflow(job_securable(definition))]


def record_query(definition: JobDefinition, context: Context) -> Stage:
    """Record a continuous query, which is executed from then on, with the rights that its owner has then."""

    def apply(session: SessionState) -> None:
        session.context.catalog.jobs.create(replace(definition, owner=session.record_owner()), state=JobState.RUNNING)

    def describe() -> list[str]:
        schedule = definition.schedule
        first, start, end = (format_instant(ms) for ms in (schedule.first, *schedule.range_at(schedule.first)))
        missed = "each is computed, in order" if schedule.policy is TimeoutPolicy.BLOCKED else "only the latest is computed"
        return [
            f"create continuous query {definition}",
            f"  first at {first}, over [{start}, {end}); then every {schedule.every} ms",
            f"  intervals missed: {missed}",
        ]

    return Stage((*on_job(Action.CREATE, definition), *needed_rights(definition, context)), describe, apply)


def plan_drop_continuous_query(statement: DropContinuousQuery, session: PlanningContext) -> list[Stage]:
    job = find_query(statement.name, session.context).definition
    return [remove_job(job), notify_airflow(job_securable(job), dropped=True)]


def plan_pause_continuous_query(statement: PauseContinuousQuery, session: PlanningContext) -> list[Stage]:
    return [suspend_job(find_query(statement.name, session.context))]


def plan_resume_continuous_query(statement: ResumeContinuousQuery, session: PlanningContext) -> list[Stage]:
    record = find_query(statement.name, session.context)
    return [reactivate_job(record), notify_airflow(job_securable(record.definition), resumed=True)]


def find_query(name: str, context: Context) -> JobRecord:
    """Return the continuous query of a name; `NotFoundError` if there is none."""
    record = context.catalog.jobs.find("", name, CONTINUOUS_QUERY)
    if record is not None:
        return record
    names = [record.definition.name for record in context.catalog.jobs.all(kind=CONTINUOUS_QUERY)]
    hint = did_you_mean(name, names, "SHOW CQS lists what there is")
    raise NotFoundError(f"CQ {name} doesn't exist.", hint=hint).with_status(TreeStatus.NO_SUCH_CQ)


def show_queries(_: TreeShow, context: Context) -> CatalogRows:
    records = visible_jobs(context, context.catalog.jobs.all(kind=CONTINUOUS_QUERY))
    rows = [(record.definition.name, record.definition.sql, shown_state(record)) for record in records]
    return CatalogRows({"CQId": STRING, "Query": STRING, "State": STRING}, rows)


def shown_state(record: JobRecord) -> str:
    """Return a state as IoTDB calls it, and why a query is stopped."""
    word = kind_of(record.definition).state_word(record.state)
    return word if record.reason is None else f"{word}: {record.reason}"


def show_executions(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the executions of one query or of all, newest first: those of the ledger, and those that are due or were missed."""
    all_records = context.catalog.jobs.all(kind=CONTINUOUS_QUERY)
    records = all_records if statement.name is None else [find_query(statement.name, context)]
    named = [NamedExecution(record.definition.name, execution) for record in records for execution in executions(record, context)]
    return read_columns(EXECUTION_COLUMNS, sorted(named, key=lambda one: (-one.execution.scheduled, one.query)))


def executions(record: JobRecord, context: Context) -> Iterator[Execution]:
    """Yield the executions of a query: recorded ones, and of those that are not recorded the latest `MAX_PENDING`."""
    definition = record.definition
    recorded = context.catalog.executions.all(definition.id)
    if not reads_values(context.permissions(), definition, context.catalog):
        recorded = [replace(one, message=HIDDEN_MESSAGE) if one.message else one for one in recorded]
    since = context.catalog.executions.first_known(definition.id, definition.schedule)
    absent = absent_executions(definition.id, definition.schedule, recorded, since, context.clock.now())
    return chain(recorded, islice(absent, MAX_PENDING))
