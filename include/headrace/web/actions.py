"""Actions on a stream that the page offers. Each is a statement that the user sees before it runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.errors import Error
from headrace.model.jobs import DesiredState, JobKind, JobRecord, JobState
from headrace.model.statements import DropStream, PauseStream, ResumeStream
from headrace.model.tables import Name
from headrace.settings import Settings
from headrace.sql import to_sql

if TYPE_CHECKING:
    from headrace.catalog import Catalog

PAUSE: Final = "pause"
RESUME: Final = "resume"
DROP: Final = "drop"

EFFECTS: Final = {
    PAUSE: "New rows stay in the source and are processed when the stream is resumed.",
    RESUME: "The stream continues from its last offsets and processes the rows that have arrived since.",
    DROP: "Removes the stream and its state. The target table keeps its rows.",
}


STATEMENTS: Final = {JobKind.STREAM: {PAUSE: PauseStream, RESUME: ResumeStream, DROP: DropStream}}
"""The statement class of each action, by kind of job."""


def action_statement(action: str, record: JobRecord) -> str | None:
    """Return the statement of an action, or None if the stream's state does not allow it."""
    is_running = record.desired is DesiredState.RUNNING
    is_stopped = record.state is JobState.STOPPED
    allowed = {PAUSE: is_running and not is_stopped, RESUME: not is_running or is_stopped, DROP: True}
    if not allowed.get(action):
        return None
    name = Name(record.definition.database, record.definition.name)
    return to_sql(STATEMENTS[record.definition.kind][action](name), record.definition.dialect)


def available_actions(record: JobRecord, is_permitted: Callable[[str], bool]) -> list[dict[str, str]]:
    """Return the actions that the user has the right to and the stream's state allows.

    Each has the action's name, its SQL statement, the shell command that runs the statement, and a sentence about its effect.
    """
    statements = {action: action_statement(action, record) for action in (PAUSE, RESUME, DROP) if is_permitted(action)}
    return [
        {"action": action, "sql": sql, "command": f"headrace sql {shlex.quote(sql)}", "effect": EFFECTS[action]}
        for action, sql in statements.items()
        if sql
    ]


def describe_plan(catalog: Catalog, record: JobRecord) -> str:
    """Return the plan of the stream's query, or the error that prevents planning it."""
    from headrace.compute import explain
    from headrace.streams.definition.define import plan_recorded_stream

    try:
        return "\n".join(explain(plan_recorded_stream(record.definition, catalog).query))
    except Error as error:
        return str(error)


def service_executor(settings: Settings) -> Callable[[str, str], None]:
    """Return a function that runs a statement on behalf of a user, as the command line does."""

    def execute(sql: str, user: str) -> None:
        from headrace.service.connection import connect

        with connect(settings=settings, dialect="tdengine", user=user) as connection:
            connection.execute(sql)

    return execute
