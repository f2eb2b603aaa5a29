"""Rights: what each stage requires of the user, and the interface that grants or denies it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from headrace.errors import ProgrammingError
from headrace.model.jobs import JobDefinition
from headrace.model.tables import Table
from headrace.model.trees import DeviceSeries

if TYPE_CHECKING:
    from headrace.compute import AnyPlan


class Action(StrEnum):
    """An operation on an object."""

    DESCRIBE = "describe"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    ALTER = "alter"
    DROP = "drop"
    OPERATE = "operate"


class ObjectKind(StrEnum):
    """Kinds of objects that rights refer to, beside those of jobs. There is one catalog, which contains all databases."""

    CATALOG = "catalog"
    DATABASE = "database"
    TABLE = "table"
    FUNCTION = "function"
    TRIGGER = "trigger"
    PIPE_PLUGIN = "pipe plugin"


@dataclass(frozen=True, slots=True, order=True)
class Securable:
    """An object that rights refer to, by kind and name. The catalog has neither database nor name.

    The kind of a job is the name of its kind of jobs.
    """

    kind: str
    database: str = ""
    name: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, ".".join(filter(None, (self.database, self.name)))) if part)


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """Permission for an action on an object."""

    action: Action
    target: Securable

    def __str__(self) -> str:
        return f"{self.action.value} {self.target}"


CATALOG: Final = Securable(ObjectKind.CATALOG)


def database_securable(name: str) -> Securable:
    return Securable(ObjectKind.DATABASE, name)


def table_securable(table: Table, subtable: str | None = None) -> Securable:
    return Securable(ObjectKind.TABLE, table.database, subtable or table.name)


def function_securable(name: str) -> Securable:
    """Return the securable of a registered function. The right to create and drop it is IoTDB's USE_UDF."""
    return Securable(ObjectKind.FUNCTION, name=name)


def trigger_securable(name: str) -> Securable:
    """Return the securable of a trigger. The right to create, operate and drop it is IoTDB's USE_TRIGGER."""
    return Securable(ObjectKind.TRIGGER, name=name)


def pipe_plugin_securable(name: str) -> Securable:
    """Return the securable of a plugin of pipes. The right to create and drop it is IoTDB's USE_PIPE."""
    return Securable(ObjectKind.PIPE_PLUGIN, name=name)


def job_securable(job: JobDefinition) -> Securable:
    """Return the securable of a job, whose kind of object is named like the kind of job."""
    return Securable(job.kind, job.database, job.name)


def on_catalog(*actions: Action) -> tuple[Right, ...]:
    return tuple(Right(action, CATALOG) for action in actions)


def on_database(action: Action, name: str) -> tuple[Right, ...]:
    return (Right(action, database_securable(name)),)


def on_table(action: Action, table: Table, subtable: str | None = None) -> tuple[Right, ...]:
    return (Right(action, table_securable(table, subtable)),)


def on_job(action: Action, job: JobDefinition) -> tuple[Right, ...]:
    return (Right(action, job_securable(job)),)


def read_rights(plan: AnyPlan) -> tuple[Right, ...]:
    """Return the rights to read each table of a query; a query without a table needs DESCRIBE on the catalog."""
    rights = tuple(dict.fromkeys(Right(Action.READ, table_securable(scan.table)) for scan in plan.scans))
    return rights or (Right(Action.DESCRIBE, CATALOG),)


class PermissionDeniedError(ProgrammingError, code="PERMISSION_DENIED"):
    """The user lacks a right that the statement requires."""


class Authorizer(Protocol):
    """Decides what users may do. Called once per list of stages, before the first is applied, and before points are written."""

    def authorize(self, user: str, rights: Sequence[Right]) -> None:
        """Return if the user has all of the rights.

        Raises:
            PermissionDeniedError: The user lacks one.
        """
        ...


class AllowAll:
    """Grants every right to every user."""

    def authorize(self, user: str, rights: Sequence[Right]) -> None:
        """Return without any check."""


def authorize_points(authorizer: Authorizer, user: str, series: Sequence[DeviceSeries]) -> None:
    """Ask for the right to write to the databases of series; see `Context.authorize_points`."""
    names = dict.fromkeys(one.database.name for one in series)
    if names:
        authorizer.authorize(user, [Right(Action.WRITE, database_securable(name)) for name in names])
