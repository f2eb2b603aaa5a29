"""Rights: what each stage requires of the user, and the interface that grants or denies it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from headrace.errors import PermissionDeniedError
from headrace.model.access import Permissions, Principal, Privilege
from headrace.model.jobs import JobDefinition
from headrace.model.needs import Needs
from headrace.model.tables import Table
from headrace.model.trees import DeviceSeries

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.compute import AnyPlan
    from headrace.model.spans import Span


class Action(StrEnum):
    """An operation on an object."""

    DESCRIBE = "describe"
    READ = "read"
    READ_PART = "read some subtables of"
    READ_SOME = "read some series of"
    WRITE = "write"
    WRITE_PART = "write some subtables of"
    CREATE = "create"
    ALTER = "alter"
    DROP = "drop"
    OPERATE = "operate"
    ADMINISTER = "administer"


class ObjectKind(StrEnum):
    """Kinds of objects that rights refer to, beside those of jobs. There is one catalog, which contains all databases."""

    CATALOG = "catalog"
    DATABASE = "database"
    TABLE = "table"
    FUNCTION = "function"
    TRIGGER = "trigger"
    PIPE_PLUGIN = "pipe plugin"
    PATH = "path"
    SECRET = "secret"


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
    """Permission for an action on an object, or a privilege of IoTDB: on paths of a pattern, or on the catalog if it is global.

    With `is_whole` the privilege is needed on all paths of the pattern, also where others would be as if they did not exist.
    """

    action: Action | Privilege
    target: Securable
    is_whole: bool = False

    def __str__(self) -> str:
        if isinstance(self.action, Action):
            return f"{self.action.value} {self.target}"
        return f"{self.action.value} on {self.target.name}" if self.target.name else self.action.value


CATALOG: Final = Securable(ObjectKind.CATALOG)


ADMINISTER: Final = (Right(Action.ADMINISTER, CATALOG),)
"""What only the administrator has."""


def database_securable(name: str) -> Securable:
    return Securable(ObjectKind.DATABASE, name)


def table_securable(table: Table, subtable: str | None = None) -> Securable:
    return Securable(ObjectKind.TABLE, table.database, subtable or table.name)


def function_securable(name: str) -> Securable:
    """Return the securable of a registered function. All rights on it are IoTDB's USE_UDF."""
    return Securable(ObjectKind.FUNCTION, name=name)


def trigger_securable(name: str) -> Securable:
    """Return the securable of a trigger. All rights on it are IoTDB's USE_TRIGGER."""
    return Securable(ObjectKind.TRIGGER, name=name)


def pipe_plugin_securable(name: str) -> Securable:
    """Return the securable of a plugin of pipes. All rights on it are IoTDB's USE_PIPE."""
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


def on_paths(privilege: Privilege, paths: Iterable[object]) -> tuple[Right, ...]:
    """Return the rights of a privilege on paths or patterns of trees."""
    return tuple(Right(privilege, Securable(ObjectKind.PATH, name=name)) for name in dict.fromkeys(map(str, paths)))


def globally(privilege: Privilege) -> tuple[Right, ...]:
    """Return the right of a privilege that is not on paths."""
    return (Right(privilege, CATALOG),)


def need_rights(needs: Needs) -> tuple[Right, ...]:
    """Return the rights that a job needs; see `Needs`."""
    reads = (Right(Action.READ, Securable(ObjectKind.TABLE, one.database, one.name)) for one in needs.reads)
    writes = (Right(Action.WRITE, Securable(ObjectKind.TABLE, one.database, one.name)) for one in needs.writes)
    some = (Right(Action.READ_SOME, Securable(ObjectKind.PATH, name=str(pattern))) for pattern in needs.reads_some)
    paths = (Right(one, Securable(ObjectKind.PATH, name=str(pattern)), is_whole=True) for one, pattern in needs.paths)
    secrets = (Right(Privilege.USE_SECRET, Securable(ObjectKind.SECRET, name=reference)) for reference in needs.secrets)
    return (*(right for one in needs.privileges for right in globally(one)), *reads, *writes, *some, *paths, *secrets)


def read_rights(plan: AnyPlan, action: Callable[[Table], Action] = lambda _: Action.READ) -> tuple[Right, ...]:
    """Return the rights to read each table of a query; a query without a table needs DESCRIBE on the catalog.

    `action` says what is needed for a table.
    """
    rights = tuple(dict.fromkeys(Right(action(scan.table), table_securable(scan.table)) for scan in plan.scans))
    return rights or (Right(Action.DESCRIBE, CATALOG),)


def denied_table(span: Span | None = None) -> PermissionDeniedError:
    """Return the error for a table, database or stream that the user may not use, or that does not exist."""
    hint = "check the name; the administrator can GRANT READ or WRITE ON database.*"
    return PermissionDeniedError("Permission denied or target object not exist", hint=hint, span=span)


class Authorizer(Protocol):
    """Decides what principals may do: once per list of stages, before the first is applied, and before points are written."""

    def authorize(self, principal: Principal, rights: Sequence[Right]) -> None:
        """Return if the principal has all of the rights.

        Raises:
            PermissionDeniedError: It lacks one.
            AuthenticationError: It has ended.
        """
        ...

    def permissions(self, principal: Principal) -> Permissions:
        """Return what the principal may do, by which paths are left out that it may not read.

        Raises:
            AuthenticationError: It has ended.
        """
        ...


def authorize_points(authorizer: Authorizer, catalog: Catalog, principal: Principal, series: Sequence[DeviceSeries]) -> None:
    """Ask for the rights to write to series, and to create those that are missing; see `Context.authorize_points`."""
    if not series or authorizer.permissions(principal).is_administrator:
        return
    from headrace.trees.owners import missing_paths, paths_of

    authorizer.authorize(principal, on_paths(Privilege.WRITE_DATA, paths_of(series)))
    authorizer.authorize(principal, on_paths(Privilege.WRITE_SCHEMA, missing_paths(catalog, series)))
