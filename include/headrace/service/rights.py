"""Rights: what a stage needs from the user who asks for it, and the one question whether the user has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from headrace.errors import ProgrammingError
from headrace.model.jobs import JobDefinition
from headrace.model.tables import Table


class Action(StrEnum):
    """What is done to an object."""

    DESCRIBE = "describe"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    ALTER = "alter"
    DROP = "drop"
    OPERATE = "operate"


class ObjectKind(StrEnum):
    """Kinds of objects that rights are about. The catalog is that of all databases."""

    CATALOG = "catalog"
    DATABASE = "database"
    TABLE = "table"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, order=True)
class Securable:
    """An object that rights are about, by its kind and name. The catalog has neither database nor name."""

    kind: ObjectKind
    database: str = ""
    name: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind.value, ".".join(filter(None, (self.database, self.name)))) if part)


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """An action on an object."""

    action: Action
    target: Securable

    def __str__(self) -> str:
        return f"{self.action.value} {self.target}"


CATALOG: Final = Securable(ObjectKind.CATALOG)


def database_securable(name: str) -> Securable:
    """Name a database."""
    return Securable(ObjectKind.DATABASE, name)


def table_securable(table: Table, subtable: str | None = None) -> Securable:
    """Name a table, or one of its subtables."""
    return Securable(ObjectKind.TABLE, table.database, subtable or table.name)


def stream_securable(stream: JobDefinition) -> Securable:
    """Name a stream."""
    return Securable(ObjectKind.STREAM, stream.database, stream.name)


class Demanding(Protocol):
    """What needs rights: a stage."""

    @property
    def required(self) -> tuple[Right, ...]: ...


def required_rights(stages: Iterable[Demanding]) -> tuple[Right, ...]:
    """Collect the rights that some stages need, each once, in the order in which they are first needed."""
    return tuple(dict.fromkeys(right for stage in stages for right in stage.required))


class PermissionDeniedError(ProgrammingError):
    """The user may not do what the statement asks for."""

    code = "PERMISSION_DENIED"


class Authorizer(Protocol):
    """Decides who may do what. It is asked once for each list of stages, before the first is applied."""

    def authorize(self, user: str, rights: Sequence[Right]) -> None:
        """Return if the user has all of the rights.

        Raises:
            PermissionDeniedError: the user lacks one.
        """
        ...


class AllowAll:
    """Gives every right to everybody."""

    def authorize(self, user: str, rights: Sequence[Right]) -> None:
        """Allow it."""
