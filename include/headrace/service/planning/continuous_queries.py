"""Plan the statements of continuous queries, and read what there is to show of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from headrace.catalog.rules import nearest
from headrace.errors import NotFoundError
from headrace.jobs.registry import kind_of
from headrace.model.continuous_queries import Execution
from headrace.model.execution_history import absent_executions
from headrace.model.jobs import JobDefinition, JobRecord
from headrace.model.tree_statements import (
    CreateContinuousQuery,
    DropContinuousQuery,
    PauseContinuousQuery,
    ResumeContinuousQuery,
    TreeShow,
)
from headrace.model.tree_status import TreeStatus
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.runtime.context import Context
from headrace.service.results import BIGINT, INSTANT, INT, STRING, CatalogRows
from headrace.service.stage import Stage
from headrace.service.stages import NotifyAirflow, ReactivateJob, RecordContinuousQuery, RemoveJob, SuspendJob, notify
from headrace.service.state import PlanningContext

MAX_PENDING: Final = 10_000
"""Executions that are due, but not started, in one answer."""


def create(statement: CreateContinuousQuery, session: PlanningContext) -> list[Stage]:
    """Plan CREATE CONTINUOUS QUERY."""
    from headrace.queries.continuous_query import define

    definition = define(statement, session.context)
    return [RecordContinuousQuery(definition), NotifyAirflow(definition.kind, definition.database, definition.name)]


def drop(statement: DropContinuousQuery, session: PlanningContext) -> list[Stage]:
    """Plan DROP CONTINUOUS QUERY."""
    record = find(statement.name, session.context)
    return [RemoveJob(record), notify(record)]


def pause(statement: PauseContinuousQuery, session: PlanningContext) -> list[Stage]:
    """Plan PAUSE CONTINUOUS QUERY."""
    return [SuspendJob(find(statement.name, session.context))]


def resume(statement: ResumeContinuousQuery, session: PlanningContext) -> list[Stage]:
    """Plan RESUME CONTINUOUS QUERY."""
    record = find(statement.name, session.context)
    return [ReactivateJob(record), notify(record, resumed=True)]


def find(name: str, context: Context) -> JobRecord:
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
    """Return all continuous queries by name."""
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
    records = all_records if statement.name is None else [find(statement.name, context)]
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
    """Return the row of an execution."""
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
