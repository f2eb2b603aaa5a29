"""What can be done about a stream on the page: each action is a statement, shown before it is run."""

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
    PAUSE: "Rows that arrive meanwhile are handled when the stream is resumed.",
    RESUME: "The stream goes on where it stood; it handles first what has arrived meanwhile.",
    DROP: "The stream and its state are removed. The target table keeps its rows.",
}


STATEMENTS: Final = {JobKind.STREAM: {PAUSE: PauseStream, RESUME: ResumeStream, DROP: DropStream}}
"""The statement of each action, by kind of job."""


def statement(action: str, record: JobRecord) -> str | None:
    """The statement of an action; None where the action makes no sense for the stream as it is."""
    running = record.desired is DesiredState.RUNNING
    stopped = record.state is JobState.STOPPED
    sensible = {PAUSE: running and not stopped, RESUME: not running or stopped, DROP: True}
    if not sensible.get(action):
        return None
    name = Name(record.definition.database, record.definition.name)
    return to_sql(STATEMENTS[record.definition.kind][action](name), record.definition.dialect)


def offered(record: JobRecord, allowed: Callable[[str], bool]) -> list[dict[str, str]]:
    """The allowed actions that make sense: statement, the command that runs it from a shell, and what it brings about."""
    statements = {action: statement(action, record) for action in (PAUSE, RESUME, DROP) if allowed(action)}
    return [
        {"action": action, "sql": sql, "command": f"headrace sql {shlex.quote(sql)}", "effect": EFFECTS[action]}
        for action, sql in statements.items()
        if sql
    ]


def plan_text(catalog: Catalog, record: JobRecord) -> str:
    """How the stream's query is computed, or why that cannot be told."""
    from headrace.compute import explain
    from headrace.streams.definition.define import plan_of

    try:
        return "\n".join(explain(plan_of(record.definition, catalog).query))
    except Error as error:
        return str(error)


def through_service(settings: Settings) -> Callable[[str, str], None]:
    """Run a statement for a user, as the command line does."""

    def execute(sql: str, user: str) -> None:
        from headrace.service.connection import connect

        with connect(settings=settings, user=user) as connection:
            connection.execute(sql)

    return execute
