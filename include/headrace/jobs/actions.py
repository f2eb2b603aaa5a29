"""What users may ask for a job: each action is a statement, in the words of the job's kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.model.jobs import DesiredState, JobDefinition, JobRecord, JobState
from headrace.model.statements import Statement

PAUSE: Final = "pause"
RESUME: Final = "resume"
RESET: Final = "reset"
REPLAY: Final = "replay"
DROP_QUARANTINE: Final = "drop-quarantine"
DROP: Final = "drop"


@dataclass(frozen=True, slots=True)
class JobAction:
    """An action that a kind of jobs has.

    Attributes:
        sql: Returns the statement that does it.
        effect: Returns a sentence about what it does.
        label: What the page calls it, if not by its name.
    """

    sql: Callable[[JobDefinition], str]
    effect: Callable[[JobDefinition], str]
    label: str = ""


def statement_action(
    statement: Callable[[JobDefinition], Statement], effect: Callable[[JobDefinition], str], label: str = ""
) -> JobAction:
    """Return the action of a statement that the dialect of a job has."""

    def sql(definition: JobDefinition) -> str:
        from headrace.sql import to_sql

        return to_sql(statement(definition), definition.dialect)

    return JobAction(sql, effect, label)


def is_running(record: JobRecord) -> bool:
    """Return whether a job is to run and has not stopped."""
    return record.desired is DesiredState.RUNNING and record.state is not JobState.STOPPED


def has_quarantine(record: JobRecord) -> bool:
    """Return whether a job has rows in quarantine."""
    return record.progress.counters.rows_quarantined > 0


ALLOWED: Final[Mapping[str, Callable[[JobRecord], bool]]] = {
    PAUSE: is_running,
    RESUME: lambda record: not is_running(record),
    REPLAY: has_quarantine,
    DROP_QUARANTINE: has_quarantine,
    RESET: lambda _: True,
    DROP: lambda _: True,
}
"""Whether the state of a job allows an action, in the order in which the page offers them."""
