"""Continuous queries: create, drop, pause and resume them, and what there is to show of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

from headrace.catalog.rules import nearest
from headrace.context import Context
from headrace.errors import NotFoundError
from headrace.jobs.registry import kind_of
from headrace.model.continuous_queries import Execution
from headrace.model.execution_history import absent_executions
from headrace.model.jobs import JobDefinition, JobRecord, JobState
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
from headrace.service.results import BIGINT, INSTANT, INT, STRING, CatalogRows, Result
from headrace.service.rights import CATALOG, Action, Right, job_securable
from headrace.service.stage import DONE, Stage
from headrace.service.state import PlanningContext, SessionState
from headrace.service.topics.jobs import NotifyAirflow, ReactivateJob, RemoveJob, SuspendJob, notify

MAX_PENDING: Final = 10_000
"""Executions that are due, but not started, in one answer."""


@dataclass(frozen=True, slots=True)
class RecordContinuousQuery(Stage):
    """Record a continuous query, which is executed from then on."""

    definition: JobDefinition

    @property
    def required(self) -> tuple[Right, ...]:
        """CREATE of the query, and the right to read and write what its paths may name."""
        return (
            Right(Action.CREATE, job_securable(self.definition)),
            Right(Action.READ, CATALOG),
            Right(Action.WRITE, CATALOG),
        )

    def describe(self) -> list[str]:
        schedule = self.definition.schedule
        start, end = schedule.range_at(schedule.first)
        instants = [format_instant(ms) for ms in (schedule.first, start, end)]
        missed = "each is computed, in order" if schedule.policy is TimeoutPolicy.BLOCKED else "only the latest is computed"
        return [
            f"create continuous query {self.definition}",
            f"  first at {instants[0]}, over [{instants[1]}, {instants[2]}); then every {schedule.every} ms",
            f"  intervals missed: {missed}",
        ]

    def apply(self, session: SessionState) -> Result:
        session.context.catalog.jobs.create(replace(self.definition, owner=session.user), state=JobState.RUNNING)
        return DONE


def plan_create_continuous_query(statement: CreateContinuousQuery, session: PlanningContext) -> list[Stage]:
    from headrace.queries.continuous_query import define

    definition = define(statement, session.context)
    return [RecordContinuousQuery(definition), NotifyAirflow(definition.kind, definition.database, definition.name)]


def plan_drop_continuous_query(statement: DropContinuousQuery, session: PlanningContext) -> list[Stage]:
    record = find_query(statement.name, session.context)
    return [RemoveJob(record), notify(record)]


def plan_pause_continuous_query(statement: PauseContinuousQuery, session: PlanningContext) -> list[Stage]:
    return [SuspendJob(find_query(statement.name, session.context))]


def plan_resume_continuous_query(statement: ResumeContinuousQuery, session: PlanningContext) -> list[Stage]:
    record = find_query(statement.name, session.context)
    return [ReactivateJob(record), notify(record, resumed=True)]


def find_query(name: str, context: Context) -> JobRecord:
    """Return the continuous query of a name.

    Raises:
        NotFoundError: There is none.
    """
    record = context.catalog.jobs.find("", name, CONTINUOUS_QUERY)
    if record is not None:
        return record
    names = [record.definition.name for record in context.catalog.jobs.all(kind=CONTINUOUS_QUERY)]
    hint = nearest(names, name) or "SHOW CQS lists what there is"
    raise NotFoundError(f"CQ {name} doesn't exist.", hint=hint).with_status(TreeStatus.NO_SUCH_CQ)


def show_queries(_: TreeShow, context: Context) -> CatalogRows:
    records = context.catalog.jobs.all(kind=CONTINUOUS_QUERY)
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
    types = {
        "CQId": STRING,
        "Scheduled": INSTANT,
        "Start": INSTANT,
        "End": INSTANT,
        "State": STRING,
        "Attempt": INT,
        "Rows": BIGINT,
        "DurationMs": BIGINT,
        "Message": STRING,
    }
    rows = [execution_row(record.definition, execution) for record in records for execution in executions(record, context)]
    return CatalogRows(types, sorted(rows, key=lambda row: (-row[1], row[0])))


def execution_row(
    definition: JobDefinition, execution: Execution
) -> tuple[str, int, int, int, str, int, int | None, int | None, str | None]:
    return (
        definition.name,
        execution.scheduled,
        execution.start,
        execution.end,
        execution.state.value,
        execution.attempt,
        execution.rows,
        execution.duration_ms,
        execution.message,
    )


def executions(record: JobRecord, context: Context) -> Iterator[Execution]:
    """Yield the executions of a query: recorded ones, and of those that are not recorded the latest `MAX_PENDING`."""
    definition = record.definition
    recorded = context.catalog.executions.all(definition.id)
    since = context.catalog.executions.first_known(definition.id, definition.schedule)
    absent = absent_executions(definition.id, definition.schedule, recorded, since, context.clock.now())
    return chain(recorded, islice(absent, MAX_PENDING))
