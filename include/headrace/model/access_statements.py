"""Statements about users, roles and privileges, which both languages have."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.model.access import Grantee
from headrace.model.expressions import Expression
from headrace.model.paths import PathPattern
from headrace.model.spans import Span
from headrace.model.tree_statements import TreeStatement


class AccessStatement(TreeStatement):
    """A statement about users, roles or privileges."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CreateUser(AccessStatement):
    """`CREATE USER name 'password'`."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AlterUser(AccessStatement):
    """`ALTER USER name SET PASSWORD 'password'`; TDengine's `ALTER USER name PASS 'password'` or `ENABLE 0|1`."""

    name: str
    password: str | None = field(default=None, repr=False)
    is_enabled: bool | None = None


@dataclass(frozen=True, slots=True)
class DropUser(AccessStatement):
    """`DROP USER name`."""

    name: str


@dataclass(frozen=True, slots=True)
class CreateRole(AccessStatement):
    """`CREATE ROLE name`."""

    name: str


@dataclass(frozen=True, slots=True)
class DropRole(AccessStatement):
    """`DROP ROLE name`."""

    name: str


@dataclass(frozen=True, slots=True)
class GrantRole(AccessStatement):
    """`GRANT ROLE role TO user`, or `REVOKE ROLE role FROM user`."""

    role: str
    user: str
    revoke: bool = False


@dataclass(frozen=True, slots=True)
class GrantPrivileges(AccessStatement):
    """`GRANT privilege, … ON path, … TO USER|ROLE name [WITH GRANT OPTION]`, or `REVOKE … FROM …`.

    Privileges are as written, in upper case: `READ`, `WRITE` and `ALL` stand for several.
    """

    privileges: tuple[str, ...]
    paths: tuple[PathPattern, ...]
    grantee: Grantee
    with_option: bool = False
    revoke: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class GrantSecret(AccessStatement):
    """`GRANT USE_SECRET ON 'secret:NAME' TO …`, or `REVOKE … FROM …`; the reference may also be `airflow:ID`."""

    reference: str
    grantee: Grantee
    revoke: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ListUsers(AccessStatement):
    """`LIST USER [OF ROLE role]`."""

    role: str | None = None


@dataclass(frozen=True, slots=True)
class ListRoles(AccessStatement):
    """`LIST ROLE [OF USER user]`."""

    user: str | None = None


@dataclass(frozen=True, slots=True)
class ListPrivileges(AccessStatement):
    """`LIST PRIVILEGES OF USER|ROLE name`."""

    grantee: Grantee


@dataclass(frozen=True, slots=True)
class GrantTables(AccessStatement):
    """TDengine's `GRANT privilege, … ON database.table TO user`, or `REVOKE … FROM user`; each name may be `*`.

    Privileges are `READ`, `WRITE` and `ALL`. A condition on tags chooses subtables of a supertable.
    """

    privileges: tuple[str, ...]
    database: str
    table: str
    user: str
    revoke: bool = False
    condition: Expression | None = None
    span: Span | None = field(default=None, compare=False)
