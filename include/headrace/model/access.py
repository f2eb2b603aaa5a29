"""Who may do what: users, roles, and privileges on paths of trees and on tables."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from headrace.model.paths import ANY_LEVELS, ROOT, PathPattern, node_matches, split_path

ADMINISTRATOR: Final = "root"
"""The user who may do everything, who cannot be dropped, and whose rights cannot be revoked."""
EVERYWHERE: Final = f"{ROOT}.{ANY_LEVELS}"
TOKEN_PREFIX: Final = "hrt_"
"""How tokens begin, so that they differ from passwords."""
TOKEN_WORD: Final = " token "
MIN_NAME_LENGTH: Final = 4
MAX_NAME_LENGTH: Final = 32


class Privilege(StrEnum):
    """Privileges by IoTDB's names, TDengine's two on tables, and ours on external tables and secrets, as they are listed."""

    MANAGE_USER = "MANAGE_USER"
    MANAGE_ROLE = "MANAGE_ROLE"
    USE_TRIGGER = "USE_TRIGGER"
    USE_UDF = "USE_UDF"
    USE_CQ = "USE_CQ"
    USE_PIPE = "USE_PIPE"
    USE_EXTERNAL = "USE_EXTERNAL"
    USE_MODEL = "USE_MODEL"
    EXTEND_TEMPLATE = "EXTEND_TEMPLATE"
    MANAGE_DATABASE = "MANAGE_DATABASE"
    MAINTAIN = "MAINTAIN"
    READ_DATA = "READ_DATA"
    WRITE_DATA = "WRITE_DATA"
    READ_SCHEMA = "READ_SCHEMA"
    WRITE_SCHEMA = "WRITE_SCHEMA"
    READ_TABLE = "READ_TABLE"
    WRITE_TABLE = "WRITE_TABLE"
    USE_SECRET = "USE_SECRET"

    @property
    def is_on_paths(self) -> bool:
        """Whether it is granted on paths of a tree; global ones are granted on `root.**` only."""
        return self in ON_PATHS

    @property
    def is_on_tables(self) -> bool:
        """Whether it is granted on tables."""
        return self in ON_TABLES


ON_PATHS: Final = (Privilege.READ_DATA, Privilege.WRITE_DATA, Privilege.READ_SCHEMA, Privilege.WRITE_SCHEMA)
ON_TABLES: Final = (Privilege.READ_TABLE, Privilege.WRITE_TABLE)
TABLE_PRIVILEGES: Final = {"READ": Privilege.READ_TABLE, "WRITE": Privilege.WRITE_TABLE}
"""TDengine's privileges on tables by its names; ALL are both."""
GLOBAL: Final = tuple(one for one in Privilege if one not in (*ON_PATHS, *ON_TABLES, Privilege.USE_SECRET))
IMPLIED_BY: Final = {Privilege.READ_DATA: Privilege.WRITE_DATA, Privilege.READ_SCHEMA: Privilege.WRITE_SCHEMA}
"""The privilege to write, by the one to read, which it includes. It does not include the option to grant it."""
GROUPS: Final = {
    "READ": (Privilege.READ_DATA, Privilege.READ_SCHEMA),
    "WRITE": (Privilege.WRITE_DATA, Privilege.WRITE_SCHEMA),
}
"""What IoTDB writes for several privileges. ALL are those that it can grant on `root.**`."""


class GranteeKind(StrEnum):
    """Who has a grant."""

    USER = "user"
    ROLE = "role"


@dataclass(frozen=True, slots=True, order=True)
class Grantee:
    """A user or a role."""

    kind: GranteeKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.capitalize()} {self.name}"


@dataclass(frozen=True, slots=True)
class Grant:
    """A privilege on a target: a path that may end in `**`, `database.table` in which the table may be `*`, or a secret.

    Attributes:
        privilege: What may be done.
        target: On what.
        with_option: Whether it may be granted to others.
        condition: On tags, of a privilege on a table; empty if there is none.
    """

    privilege: Privilege
    target: str
    with_option: bool = False
    condition: str = ""


@dataclass(frozen=True, slots=True)
class User:
    """A user as stored. `password` is a hash, or empty if no one can log in by a password."""

    name: str
    password: str
    created: int
    is_enabled: bool = True

    @property
    def credentials(self) -> str:
        """What sessions of the user are bound to: something else once the password is set, or the user created again."""
        return hashlib.sha256(f"{self.name}\n{self.created}\n{self.password}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Token:
    """A token as stored: whose it is, what for, and until when, in epoch milliseconds."""

    id: str
    user: str
    hash: str
    purpose: str
    reads_only: bool
    created: int
    expires: int | None = None

    def is_valid(self, now: int) -> bool:
        """Return whether the token has not expired."""
        return self.expires is None or now < self.expires


@dataclass(frozen=True, slots=True)
class Principal:
    """Who acts. Every way in makes one, and what may be done follows from it alone.

    Attributes:
        user: The user whose rights apply; a name to show if no one had to say who they are.
        token: The id of the token that a program came with, which may allow less, and ends; empty if there is none.
        credentials: Those of the user (`User.credentials`) that were proven: the principal ends with them. Empty if it depends on
        no
            password.
        is_trusted: Whether no one had to say who they are: everything is allowed. No other principal is one that may do everything
            unless its user is the administrator.
        origin: Where it comes from, for the audit log, such as `iotdb 10.0.0.7:1234`.
    """

    user: str
    token: str = ""
    credentials: str = ""
    is_trusted: bool = False
    origin: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """The name under which it acts, and owns what it creates. That of a program has spaces, as no user's has."""
        return f"{self.user}{TOKEN_WORD}{self.token}" if self.token else self.user

    @classmethod
    def named(cls, name: str, origin: str = "") -> Principal:
        """Return the principal of a name, for who has been let in elsewhere."""
        user, _, token = name.partition(TOKEN_WORD)
        return cls(user, token, origin=origin)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What a user did or tried at a time, in epoch milliseconds, and why it was refused."""

    number: int
    time: int
    user: str
    address: str
    action: str
    statement: str
    is_allowed: bool
    reason: str


def covers(granted: Sequence[str], asked: Sequence[str]) -> bool:
    """Return whether each path that a pattern may match is one of a grant, which ends in `**` or has no wildcard."""
    if granted[-1] == ANY_LEVELS:
        prefix = granted[:-1]
        return len(asked) >= len(granted) and tuple(asked[: len(prefix)]) == tuple(prefix)
    return tuple(granted) == tuple(asked)


def may_overlap(granted: Sequence[str], asked: Sequence[str]) -> bool:
    """Return whether a path can exist that matches both patterns."""
    pairs, seen = [(0, 0)], set[tuple[int, int]]()
    while pairs:
        pair = own, other = pairs.pop()
        if own == len(granted) or other == len(asked):
            if own == len(granted) and other == len(asked):
                return True
            continue
        node, wanted = granted[own], asked[other]
        is_open, is_wanted_open = node == ANY_LEVELS, wanted == ANY_LEVELS
        if pair in seen or not (is_open or is_wanted_open or node_matches(node, wanted) or node_matches(wanted, node)):
            continue
        seen.add(pair)
        pairs.append((own + 1, other + 1))
        if is_open:
            pairs.append((own, other + 1))
        if is_wanted_open:
            pairs.append((own + 1, other))
    return False


@dataclass(frozen=True)
class PathFilter:
    """The paths on which a user has a privilege: prefixes of subtrees, and full paths. Costs the depth of a path."""

    subtrees: frozenset[tuple[str, ...]]
    paths: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, targets: Iterable[str]) -> PathFilter:
        """Return the filter of granted paths."""
        nodes = [split_path(target) for target in targets]
        subtrees = frozenset(path[:-1] for path in nodes if path[-1] == ANY_LEVELS)
        return cls(subtrees, frozenset(path for path in nodes if path[-1] != ANY_LEVELS))

    @property
    def allows_all(self) -> bool:
        """Whether no path is left out."""
        return (ROOT,) in self.subtrees

    def includes_below(self, nodes: tuple[str, ...]) -> bool:
        """Return whether all paths below a node are included."""
        return any(nodes[:length] in self.subtrees for length in range(1, len(nodes) + 1))

    def includes(self, nodes: tuple[str, ...]) -> bool:
        """Return whether a path is included."""
        return nodes in self.paths or any(nodes[:length] in self.subtrees for length in range(1, len(nodes)))

    @cached_property
    def ancestors(self) -> frozenset[tuple[str, ...]]:
        """The nodes below which some paths are included, and those above them."""
        return frozenset(path[:length] for path in (*self.subtrees, *self.paths) for length in range(1, len(path) + 1))

    def touches(self, nodes: tuple[str, ...]) -> bool:
        """Return whether a node is included, or paths below it may be."""
        return nodes in self.ancestors or self.includes(nodes)


EVERY_PATH: Final = PathFilter(frozenset({(ROOT,)}), frozenset())


@dataclass(frozen=True)
class Permissions:
    """What a user may do, by grants of their own (under the role "") and those of their roles. Immutable."""

    user: str
    grants: tuple[tuple[str, Grant], ...] = ()
    roles: tuple[str, ...] = ()
    is_administrator: bool = False
    _filters: dict[Privilege, PathFilter] = field(default_factory=dict, compare=False, repr=False)

    def allows(self, privilege: Privilege, path: PathPattern | None = None) -> bool:
        """Return whether the user has a privilege, on all paths of a pattern if it is one on paths."""
        if self.is_administrator:
            return True
        if path is None:
            return any(grant.privilege is privilege for _, grant in self.grants)
        return self.paths(privilege).includes(path.nodes)

    def allows_some(self, privilege: Privilege, pattern: PathPattern) -> bool:
        """Return whether there may be a path of a pattern on which the user has a privilege."""
        if self.is_administrator:
            return True
        allowed = self.paths(privilege)
        targets = [*((*path, ANY_LEVELS) for path in allowed.subtrees), *allowed.paths]
        return any(may_overlap(target, pattern.nodes) for target in targets)

    def allows_secret(self, reference: str) -> bool:
        """Return whether the user may have a secret used, such as `secret:NAME` or `airflow:ID`."""
        target = secret_target(reference)
        return self.is_administrator or any(
            grant.privilege is Privilege.USE_SECRET and grant.target == target for _, grant in self.grants
        )

    def may_grant(self, grant: Grant) -> bool:
        """Return whether the user may grant and revoke what they have themselves with the option to grant it."""
        asked = split_path(grant.target)
        return self.is_administrator or any(
            own.with_option and own.privilege is grant.privilege and covers(split_path(own.target), asked) for _, own in self.grants
        )

    def includes(self, grant: Grant) -> bool:
        """Return whether the user has what a grant gives, also the option to grant it: who has it cannot gain by it."""
        if self.is_administrator:
            return True
        if grant.privilege.is_on_tables:
            database, _, table = grant.target.partition(".")
            targets, conditions = ("*.*", f"{database}.*", f"{database}.{table}"), ("", grant.condition)
            return any(
                own.privilege is grant.privilege and own.target in targets and own.condition in conditions for _, own in self.grants
            )
        if grant.privilege is Privilege.USE_SECRET:
            return self.allows_secret(grant.target)
        if grant.with_option:
            return self.may_grant(grant)
        return any(covers(split_path(own.target), split_path(grant.target)) for own in self._of(grant.privilege))

    def paths(self, privilege: Privilege) -> PathFilter:
        """Return the paths on which the user has a privilege. Computed once."""
        if self.is_administrator:
            return EVERY_PATH
        if privilege not in self._filters:
            self._filters[privilege] = PathFilter.of(grant.target for grant in self._of(privilege))
        return self._filters[privilege]

    def allows_table(self, privilege: Privilege, database: str, table: str) -> bool:
        """Return whether the user has a privilege on all of a table; to read that of a tree is to read all paths of it."""
        if self.is_administrator:
            return True
        if database.startswith(f"{ROOT}."):
            return privilege is Privilege.READ_TABLE and self.allows(Privilege.READ_DATA, as_pattern(f"{database}.{ANY_LEVELS}"))
        accepted = {"*.*", f"{database}.*", f"{database}.{table}"}
        return any(grant.privilege is privilege and grant.target in accepted and not grant.condition for _, grant in self.grants)

    def conditions(self, privilege: Privilege, database: str, table: str) -> tuple[str, ...]:
        """Return the conditions on tags of which one has to hold for the user to have a privilege on a subtable of a supertable.

        There are none if the user has the privilege on all of the table, or on nothing of it.
        """
        if self.allows_table(privilege, database, table):
            return ()
        target = f"{database}.{table}"
        granted = (grant for _, grant in self.grants if grant.privilege is privilege and grant.target == target)
        return tuple(dict.fromkeys(grant.condition for grant in granted))

    def allows_part(self, privilege: Privilege, database: str, table: str) -> bool:
        """Return whether the user has a privilege on a table, or on those of its subtables whose tags meet a condition."""
        return self.allows_table(privilege, database, table) or bool(self.conditions(privilege, database, table))

    def sees_database(self, name: str) -> bool:
        """Return whether the user may know of a database: it may have tables or paths on which the user has a privilege."""
        if self.is_administrator or not name:
            return self.is_administrator
        if name.startswith(f"{ROOT}."):
            return any(self.paths(privilege).touches(split_path(name)) for privilege in IMPLIED_BY)
        granted = (grant.target.split(".")[0] for _, grant in self.grants if grant.privilege.is_on_tables)
        return any(database in ("*", name) for database in granted)

    def _of(self, privilege: Privilege) -> list[Grant]:
        accepted = (privilege, IMPLIED_BY.get(privilege))
        return [grant for _, grant in self.grants if grant.privilege in accepted]


def secret_target(reference: str) -> str:
    """Return a reference to a secret as it is granted. Names of secrets have no case, while ids of Airflow have."""
    kind, _, name = reference.partition(":")
    return f"{kind}:{name.upper()}" if kind == "secret" else reference


def reading_only(permissions: Permissions) -> Permissions:
    """Return those of the permissions that only read."""
    if permissions.is_administrator:
        reads = (*((privilege, EVERYWHERE) for privilege in IMPLIED_BY), (Privilege.READ_TABLE, "*.*"))
        return Permissions(permissions.user, tuple(("", Grant(privilege, target)) for privilege, target in reads))
    read_by = {writing: reading for reading, writing in IMPLIED_BY.items()}
    kept = [(role, grant, read_by.get(grant.privilege, grant.privilege)) for role, grant in permissions.grants]
    grants = tuple(
        (role, replace(grant, privilege=reads, with_option=False))
        for role, grant, reads in kept
        if reads in (*IMPLIED_BY, Privilege.READ_TABLE)
    )
    return Permissions(permissions.user, grants, permissions.roles)


def administrator(name: str = ADMINISTRATOR) -> Permissions:
    """Return the permissions of who may do everything."""
    return Permissions(name, is_administrator=True)


def as_pattern(path: str) -> PathPattern:
    """Return a path in canonical spelling as a pattern."""
    return PathPattern(split_path(path))
