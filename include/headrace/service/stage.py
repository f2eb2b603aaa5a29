"""What a stage is: one effect of a statement, which needs rights, can be described, and is applied."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from headrace.service.results import Result
from headrace.service.rights import Action, Right, database_securable, job_securable, table_securable

if TYPE_CHECKING:
    from headrace.model.jobs import JobRecord
    from headrace.model.tables import Database, Table
    from headrace.service.state import SessionState

DONE: Final = Result()


class Stage(ABC):
    """One effect of a statement. Subclasses are frozen dataclasses; EXPLAIN describes the very stages that are applied.

    Attributes:
        is_query: Whether a stage returns rows of tables, which a live snode reads faster than a session that starts Spark.
    """

    __slots__ = ()
    is_query: ClassVar[bool] = False

    @property
    @abstractmethod
    def required(self) -> tuple[Right, ...]:
        """The rights that the user must have."""

    @abstractmethod
    def describe(self) -> list[str]:
        """Return the lines of EXPLAIN."""

    @abstractmethod
    def apply(self, session: SessionState, /) -> Result:
        """Do it, and return the result, which is the statement's if the stage is the last. The only way to change anything."""


@dataclass(frozen=True, slots=True)
class DatabaseStage(Stage):
    """A stage that needs the right to one action on a database."""

    action: ClassVar[Action]
    database: Database

    @property
    def required(self) -> tuple[Right, ...]:
        """The right to the action."""
        return (Right(self.action, database_securable(self.database.name)),)


@dataclass(frozen=True, slots=True)
class TableStage(Stage):
    """A stage that needs the right to one action on a table."""

    action: ClassVar[Action]
    table: Table

    @property
    def required(self) -> tuple[Right, ...]:
        """The right to the action."""
        return (Right(self.action, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class JobStage(Stage):
    """A stage that needs the right to one action on a job."""

    action: ClassVar[Action]
    record: JobRecord

    @property
    def required(self) -> tuple[Right, ...]:
        """The right to the action."""
        return (Right(self.action, job_securable(self.record.definition)),)


def required_rights(stages: Iterable[Stage]) -> tuple[Right, ...]:
    """Collect the distinct rights that stages require, in the order of first use."""
    return tuple(dict.fromkeys(right for stage in stages for right in stage.required))


def describe_all(stages: Sequence[Stage]) -> list[str]:
    """Return lines that describe stages, and last the rights that they need."""
    lines = [line for stage in stages for line in stage.describe()]
    rights = [str(right) for right in required_rights(stages)]
    return [*lines, f"needs the right to {', '.join(rights)}"] if rights else lines
