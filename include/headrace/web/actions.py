"""Actions on a job that the page offers. Each is a statement that the user sees before it runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from headrace.errors import Error
from headrace.model.execution_history import next_execution
from headrace.model.jobs import DesiredState, JobDefinition, JobKind, JobRecord, JobState
from headrace.model.statements import DropQuarantine, DropStream, PauseStream, ReplayStream, ResetStream, ResumeStream, Statement
from headrace.model.tables import Name
from headrace.model.tree_statements import DropContinuousQuery, PauseContinuousQuery, ResumeContinuousQuery, TimeoutPolicy
from headrace.settings import Settings
from headrace.sql import to_sql

if TYPE_CHECKING:
    from headrace.runtime.context import Context

PAUSE: Final = "pause"
RESUME: Final = "resume"
RESET: Final = "reset"
REPLAY: Final = "replay"
DROP_QUARANTINE: Final = "drop-quarantine"
DROP: Final = "drop"

STREAM_EFFECTS: Final = {
    PAUSE: "New rows stay in the source and are processed when the stream is resumed.",
    RESUME: "The stream continues from its last offsets and processes the rows that have arrived since.",
    REPLAY: "Processes the rows in quarantine again. Those that still fail stay there.",
    DROP_QUARANTINE: "Leaves the rows in quarantine out for good, unless they are written again. They stay in the source.",
    RESET: "Computes the stream again from all stored rows, and replaces its rows in the target.",
    DROP: "Removes the stream and its state. The target table keeps its rows.",
}
QUERY_EFFECTS: Final = {
    PAUSE: "No further execution is started until the query is resumed. One that is running ends first.",
    DROP: "Removes the query and the record of its executions. What it has written stays.",
}
RESUME_EFFECTS: Final = {
    TimeoutPolicy.BLOCKED: "The executions that were due in the meantime are made up for, in order.",
    TimeoutPolicy.DISCARD: "Of the executions that were due in the meantime, only the latest is made up for.",
}
Construct = Callable[[JobDefinition], Statement]


def stream_name(definition: JobDefinition) -> Name:
    """Return the name of a stream in statements."""
    return Name(definition.database, definition.name)


STATEMENTS: Final[dict[JobKind, dict[str, Construct]]] = {
    JobKind.STREAM: {
        PAUSE: lambda definition: PauseStream(stream_name(definition)),
        RESUME: lambda definition: ResumeStream(stream_name(definition)),
        REPLAY: lambda definition: ReplayStream(stream_name(definition)),
        DROP_QUARANTINE: lambda definition: DropQuarantine(stream_name(definition)),
        RESET: lambda definition: ResetStream(stream_name(definition)),
        DROP: lambda definition: DropStream(stream_name(definition)),
    },
    JobKind.CONTINUOUS_QUERY: {
        PAUSE: lambda definition: PauseContinuousQuery(definition.name),
        RESUME: lambda definition: ResumeContinuousQuery(definition.name),
        DROP: lambda definition: DropContinuousQuery(definition.name),
    },
}
"""The statement of each action, by kind of job."""


ACTIONS: Final = (PAUSE, RESUME, REPLAY, DROP_QUARANTINE, RESET, DROP)


def describe_effect(action: str, definition: JobDefinition) -> str:
    """Return a sentence about what an action does."""
    if definition.kind is JobKind.STREAM:
        return STREAM_EFFECTS[action]
    return RESUME_EFFECTS[definition.schedule.policy] if action == RESUME else QUERY_EFFECTS[action]


def action_statement(action: str, record: JobRecord) -> str | None:
    """Return the statement of an action, or None if the job's state does not allow it."""
    is_running = record.desired is DesiredState.RUNNING
    is_stopped = record.state is JobState.STOPPED
    has_quarantine = record.progress.counters.rows_quarantined > 0
    allowed = {
        PAUSE: is_running and not is_stopped,
        RESUME: not is_running or is_stopped,
        REPLAY: has_quarantine,
        DROP_QUARANTINE: has_quarantine,
        RESET: True,
        DROP: True,
    }
    definition = record.definition
    construct = STATEMENTS[definition.kind].get(action)
    return to_sql(construct(definition), definition.dialect) if construct is not None and allowed.get(action) else None


def shell_command(sql: str, dialect: str, default_dialect: str) -> str:
    """Return the shell command that runs a statement."""
    option = "" if dialect == default_dialect else f"--dialect {dialect} "
    return f"headrace sql {option}{shlex.quote(sql)}"


def available_actions(
    record: JobRecord, is_permitted: Callable[[str], bool], default_dialect: str = "tdengine"
) -> list[dict[str, str]]:
    """Return the actions that the user has the right to and the job's state allows.

    Each has the action's name, its SQL statement, the shell command that runs the statement, and a sentence about its effect.
    """
    definition = record.definition
    statements = {action: action_statement(action, record) for action in ACTIONS if is_permitted(action)}
    return [
        {
            "action": action,
            "sql": sql,
            "command": shell_command(sql, definition.dialect, default_dialect),
            "effect": describe_effect(action, definition),
        }
        for action, sql in statements.items()
        if sql
    ]


def describe_plan(context: Context, record: JobRecord) -> str:
    """Return the plan of a job's query, or the error that prevents planning it."""
    describe = describe_query if record.definition.kind is JobKind.CONTINUOUS_QUERY else describe_stream
    try:
        return "\n".join(describe(context, record.definition))
    except Error as error:
        return str(error)


def describe_stream(context: Context, definition: JobDefinition) -> list[str]:
    """Return the plan of a stream's query."""
    from headrace.compute import explain
    from headrace.streams.definition.define import plan_recorded_stream

    return explain(plan_recorded_stream(definition, context.catalog).query)


def describe_query(context: Context, definition: JobDefinition) -> list[str]:
    """Return the plan of the next execution of a continuous query: its paths are resolved in each execution."""
    from headrace.compute import explain
    from headrace.queries.continuous_query import bind_body, recorded_query

    details, schedule = definition.continuous_query, definition.schedule
    scheduled = next_execution(schedule, context.clock.now())
    start, end = schedule.range_at(scheduled)
    body = bind_body(
        recorded_query(definition.sql, definition.dialect), start, end, context, None if details is None else details.timezone
    )
    head = f"execution of {to_text(scheduled)} over [{to_text(start)}, {to_text(end)})"
    if body.plan is None:
        return [head, "no series match the paths of FROM: nothing is written"]
    return [head, *explain(body.plan.plan), *(f"write {target.source} to {target.path}" for target in body.targets)]


def to_text(instant: int) -> str:
    """Return an instant in epoch milliseconds as text, in UTC."""
    return datetime.fromtimestamp(instant / 1000, UTC).isoformat(sep=" ").replace("+00:00", "Z")


def service_executor(settings: Settings) -> Callable[[str, str, str], None]:
    """Return a function that runs a statement in a dialect on behalf of a user, as the command line does."""

    def execute(sql: str, dialect: str, user: str) -> None:
        from headrace.service.connection import connect

        with connect(settings=settings, dialect=dialect, user=user) as connection:
            connection.execute(sql)

    return execute
