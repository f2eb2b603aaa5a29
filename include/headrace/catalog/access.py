"""Users, roles, and what has been granted to them. A change counts up a revision, so permissions are read once for each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, or_, select, update

from headrace.catalog.pinned_reads import PinnedReads
from headrace.catalog.revisions import NO_REVISION, RevisionKind, count_up
from headrace.catalog.rows.access import DROPPED_USERS, GRANTS, MEMBERSHIPS, ROLES, TOKENS, TRUSTED_OWNERS, USERS
from headrace.catalog.store import Repository, Store, insert
from headrace.errors import AuthenticationError, Error, ExistsError, NotFoundError, ProgrammingError
from headrace.model.access import (
    ADMINISTRATOR,
    TOKEN_WORD,
    Grant,
    Grantee,
    GranteeKind,
    Permissions,
    Principal,
    Token,
    User,
    administrator,
    reading_only,
)
from headrace.model.conversion import from_row
from headrace.model.tree_status import TreeStatus


class Access(Repository):
    """Users, roles, memberships and grants. Thread-safe."""

    def __init__(self, store: Store, pins: PinnedReads) -> None:
        """Create a repository that has read nothing."""
        super().__init__(store)
        self._pins = pins
        self._seen = NO_REVISION
        self._users: dict[str, User | None] = {}
        self._permissions: dict[str, Permissions] = {}
        self._trusted: dict[str, bool] = {}
        self._lock = threading.Lock()

    def revision(self) -> int:
        """Return a number that changes whenever users, or what they may do, change."""
        return self._pins.revision(RevisionKind.ACCESS)

    # Users

    def users(self) -> list[User]:
        """Return every user by name."""
        return self._all(User, select(USERS).order_by(USERS.c.name))

    def has_users(self) -> bool:
        """Return whether there is a user beside the administrator. Until then no one needs a password."""
        return self._scalar(select(USERS.c.name).where(USERS.c.name != ADMINISTRATOR).limit(1)) is not None

    def find_user(self, name: str) -> User | None:
        """Return a user, or None."""
        return next(iter(self._all(User, select(USERS).where(USERS.c.name == name))), None)

    def create_user(self, name: str, password: str, *, if_not_exists: bool = False) -> bool:
        """Record a user with the hash of a password; return False if there is one of that name and `if_not_exists`.

        Raises:
            ExistsError: There is one of that name.
        """
        with self._store.write() as connection:
            values = {"name": name, "password": password, "created": self._store.now(connection), "is_enabled": True}
            row = insert(connection, USERS).values(values).on_conflict_do_nothing().returning(USERS.c.name)
            if connection.scalar(row) is None:
                if if_not_exists:
                    return False
                raise user_exists(name)
            # From now on the name has the rights of the user, also in jobs of the time before.
            connection.execute(delete(TRUSTED_OWNERS).where(TRUSTED_OWNERS.c.name == name))
            count_up(connection, RevisionKind.ACCESS)
        return True

    def change_user(self, name: str, *, password: str | None = None, is_enabled: bool | None = None) -> None:
        """Change a user; raise `NotFoundError` if there is none of that name."""
        given = {"password": password, "is_enabled": is_enabled}
        values = {key: value for key, value in given.items() if value is not None}
        with self._store.write() as connection:
            require(connection, GranteeKind.USER, name)
            connection.execute(update(USERS).where(USERS.c.name == name).values(values))
            count_up(connection, RevisionKind.ACCESS)

    def set_administrator(self, password: str) -> None:
        """Set the hash of the administrator's password."""
        if not self.create_user(ADMINISTRATOR, password, if_not_exists=True):
            self.change_user(ADMINISTRATOR, password=password)

    # Roles

    def roles(self, user: str | None = None) -> list[str]:
        """Return the names of all roles, or of those of a user."""
        if user is None:
            return [row["name"] for row in self._rows(select(ROLES.c.name).order_by(ROLES.c.name))]
        query = select(MEMBERSHIPS.c.role).where(MEMBERSHIPS.c.user == user).order_by(MEMBERSHIPS.c.role)
        return [row["role"] for row in self._rows(query)]

    def members(self, role: str) -> list[str]:
        """Return the names of the users who have a role."""
        query = select(MEMBERSHIPS.c.user).where(MEMBERSHIPS.c.role == role).order_by(MEMBERSHIPS.c.user)
        return [row["user"] for row in self._rows(query)]

    def check_exists(self, grantee: Grantee) -> None:
        """Raise `NotFoundError` if there is no such user or role."""
        with self._store.read() as connection:
            require(connection, grantee.kind, grantee.name)

    def create_role(self, name: str) -> None:
        """Record a role; raise `ExistsError` if there is one of that name."""
        with self._store.write() as connection:
            row = insert(connection, ROLES).values({"name": name, "created": self._store.now(connection)})
            if connection.scalar(row.on_conflict_do_nothing().returning(ROLES.c.name)) is None:
                raise role_exists(name)

    def drop(self, grantee: Grantee) -> None:
        """Remove a user or a role, with what was granted to it; raise `NotFoundError` if there is none of that name."""
        table = TABLES[grantee.kind]
        with self._store.write() as connection:
            require(connection, grantee.kind, grantee.name)
            connection.execute(delete(GRANTS).where(is_of(grantee)))
            if grantee.kind is GranteeKind.USER:
                connection.execute(delete(TOKENS).where(TOKENS.c.user == grantee.name))
            member = MEMBERSHIPS.c.user if grantee.kind is GranteeKind.USER else MEMBERSHIPS.c.role
            connection.execute(delete(MEMBERSHIPS).where(member == grantee.name))
            connection.execute(delete(table).where(table.c.name == grantee.name))
            if grantee.kind is GranteeKind.USER:
                connection.execute(insert(connection, DROPPED_USERS).values({"name": grantee.name}).on_conflict_do_nothing())
            count_up(connection, RevisionKind.ACCESS)

    def add_role(self, user: str, role: str) -> None:
        """Give a user a role.

        Raises:
            NotFoundError: There is no such user or role.
            ExistsError: The user has it.
        """
        with self._store.write() as connection:
            require(connection, GranteeKind.USER, user)
            require(connection, GranteeKind.ROLE, role)
            row = insert(connection, MEMBERSHIPS).values({"user": user, "role": role}).on_conflict_do_nothing()
            if connection.scalar(row.returning(MEMBERSHIPS.c.user)) is None:
                message = f"User {user} already has role {role}"
                raise ExistsError(message, hint="nothing was changed").with_status(TreeStatus.USER_ALREADY_HAS_ROLE)
            count_up(connection, RevisionKind.ACCESS)

    def remove_role(self, user: str, role: str) -> None:
        """Take a role from a user; raise `NotFoundError` if there is no such user or role, or the user does not have it."""
        with self._store.write() as connection:
            require(connection, GranteeKind.USER, user)
            require(connection, GranteeKind.ROLE, role)
            row = delete(MEMBERSHIPS).where(MEMBERSHIPS.c.user == user, MEMBERSHIPS.c.role == role).returning(MEMBERSHIPS.c.user)
            if connection.scalar(row) is None:
                message = f"User {user} does not have role {role}"
                raise NotFoundError(message, hint="LIST ROLE OF USER lists them").with_status(TreeStatus.USER_NOT_HAS_ROLE)
            count_up(connection, RevisionKind.ACCESS)

    # Grants

    def grants(self, grantee: Grantee) -> list[Grant]:
        """Return what was granted to a user or role directly, in the order in which it was granted."""
        return self._all(Grant, select(GRANTS).where(is_of(grantee)).order_by(GRANTS.c.number))

    def held(self, grantee: Grantee) -> list[Grant]:
        """Return what a user has, directly and by roles, also if the user may not log in; or what was granted to a role."""
        roles = self.roles(grantee.name) if grantee.kind is GranteeKind.USER else []
        grantees = [grantee, *(Grantee(GranteeKind.ROLE, role) for role in roles)]
        return [grant for one in grantees for grant in self.grants(one)]

    def was_dropped(self, user: str) -> bool:
        """Return whether there was a user of a name, whose jobs may still be there."""
        return self._scalar(select(DROPPED_USERS.c.name).where(DROPPED_USERS.c.name == user)) is not None

    def grant(self, grantee: Grantee, grants: Sequence[Grant]) -> None:
        """Grant privileges. The option to grant one is added to what was granted before, and never taken away.

        Raises:
            NotFoundError: There is no such user or role.
        """
        with self._store.write() as connection:
            require(connection, grantee.kind, grantee.name)
            last = connection.scalar(select(func.max(GRANTS.c.number))) or 0
            for number, grant in enumerate(grants, start=last + 1):
                key = {"kind": grantee.kind.value, "grantee": grantee.name, "privilege": grant.privilege.value}
                key |= {"target": grant.target, "condition": grant.condition}
                row = insert(connection, GRANTS).values(key | {"with_option": grant.with_option, "number": number})
                changed = {"with_option": or_(GRANTS.c.with_option, row.excluded.with_option)}
                connection.execute(row.on_conflict_do_update(index_elements=list(GRANTS.primary_key), set_=changed))
            count_up(connection, RevisionKind.ACCESS)

    def revoke(self, grantee: Grantee, grants: Sequence[Grant]) -> None:
        """Take privileges that were granted directly, all or none; those with any condition if a grant has none.

        Raises:
            NotFoundError: There is no such user or role.
            ProgrammingError: It does not have one of them.
        """
        with self._store.write() as connection:
            require(connection, grantee.kind, grantee.name)
            for grant in grants:
                same = and_(is_of(grantee), GRANTS.c.privilege == grant.privilege.value, GRANTS.c.target == grant.target)
                if grant.condition:
                    same = and_(same, GRANTS.c.condition == grant.condition)
                if connection.scalar(delete(GRANTS).where(same).returning(GRANTS.c.target)) is None:
                    raise not_granted(grantee, grant)
            count_up(connection, RevisionKind.ACCESS)

    # What users may do

    def permissions(self, user: str) -> Permissions:
        """Return what a user, or a program with a token, may do now. Costs one read of a number unless something has changed.

        Raises:
            NotFoundError: There is no such user, or the user may not log in; or the token was revoked, or has expired.
        """
        if user == ADMINISTRATOR:
            return administrator()
        if TOKEN_WORD in user:
            return self._token_permissions(Principal.named(user))
        self._refresh()
        stored = self._find(user)
        if stored is None:
            raise missing(GranteeKind.USER, user)
        return self._permissions_of(stored)

    def permissions_of(self, principal: Principal) -> Permissions:
        """Return what a principal may do now. Costs as much as `permissions`.

        Raises:
            AuthenticationError: It has ended: with the password, the user, or the token that it came with.
        """
        if principal.is_trusted:
            return administrator(principal.name)
        if principal.credentials and principal.credentials != self.credentials(principal.user):
            raise ended(principal)
        try:
            return self.permissions(principal.name)
        except NotFoundError:
            raise ended(principal) from None

    def credentials(self, user: str) -> str:
        """Return what sessions of a user are bound to now; empty if the user cannot log in by a password."""
        self._refresh()
        stored = self._find(user)
        return "" if stored is None else stored.credentials

    def _token_permissions(self, principal: Principal) -> Permissions:
        """Return what a program with a token may do; raise `NotFoundError` if the token was revoked or has expired."""
        with self._store.read() as connection:
            row = connection.execute(select(TOKENS).where(TOKENS.c.id == principal.token)).mappings().one_or_none()
            now = self._store.now(connection)
        token = None if row is None else from_row(Token, row)
        if token is None or token.user != principal.user or not token.is_valid(now):
            raise missing(GranteeKind.USER, principal.name)
        own = self.permissions(token.user)
        return reading_only(own) if token.reads_only else own

    def owners(self) -> Callable[[str], Permissions]:
        """Return what the owners of jobs may do now: an owner that is not known, nothing. Costs one read of a number.

        Known are users who may log in, programs with tokens that are valid, and names under which jobs were created when no one had
        to say who they are: these have all rights.
        """
        self._refresh()
        return self._owner_permissions

    def owner_permissions(self, owner: str) -> Permissions:
        """Return what the owner of a job may do now; see `owners`."""
        return self.owners()(owner)

    def _owner_permissions(self, owner: str) -> Permissions:
        if owner in ("", ADMINISTRATOR):  # the process itself has no name
            return administrator(owner)
        if TOKEN_WORD in owner:
            try:
                return self._token_permissions(Principal.named(owner))
            except NotFoundError:
                return Permissions(owner)
        stored = self._find(owner)
        if stored is not None:
            return self._permissions_of(stored)
        return administrator(owner) if self._is_trusted(owner) else Permissions(owner)

    def trust(self, name: str) -> str:
        """Return the owner to record for what a trusted principal creates: its name, which is known from now on.

        It is the administrator's if there is, or was, a user of that name.
        """
        self._refresh()
        if name in ("", ADMINISTRATOR) or self._trusted.get(name):
            return name
        with self._store.write() as connection:
            taken = (
                select(USERS.c.name)
                .where(USERS.c.name == name)
                .union(select(DROPPED_USERS.c.name).where(DROPPED_USERS.c.name == name))
            )
            if connection.scalar(taken) is not None:
                return ADMINISTRATOR
            row = (
                insert(connection, TRUSTED_OWNERS).values({"name": name}).on_conflict_do_nothing().returning(TRUSTED_OWNERS.c.name)
            )
            if connection.scalar(row) is not None:
                count_up(connection, RevisionKind.ACCESS)
        return name

    def _refresh(self) -> None:
        """Forget what has been read if something has changed."""
        revision = self.revision()
        with self._lock:
            if revision != self._seen:
                self._seen, self._users, self._permissions, self._trusted = revision, {}, {}, {}

    def _find(self, name: str) -> User | None:
        """Return a user who may log in, or None."""
        with self._lock:
            if name not in self._users:
                stored = self.find_user(name)
                self._users[name] = stored if stored is not None and stored.is_enabled else None
            return self._users[name]

    def _is_trusted(self, owner: str) -> bool:
        with self._lock:
            if not self._trusted.get(owner):
                query = select(TRUSTED_OWNERS.c.name).where(TRUSTED_OWNERS.c.name == owner)
                self._trusted[owner] = self._scalar(query) is not None
            return self._trusted[owner]

    def _permissions_of(self, user: User) -> Permissions:
        with self._lock:
            if user.name not in self._permissions:
                roles = self.roles(user.name)
                grantees = [
                    ("", Grantee(GranteeKind.USER, user.name)),
                    *((role, Grantee(GranteeKind.ROLE, role)) for role in roles),
                ]
                grants = tuple((role, grant) for role, grantee in grantees for grant in self.grants(grantee))
                self._permissions[user.name] = Permissions(user.name, grants, tuple(roles))
            return self._permissions[user.name]


def ended(principal: Principal) -> AuthenticationError:
    """Return the error for a principal whose password, user or token is not what it was."""
    message = f"the session of {principal.name} has ended: its password or token is not valid any more"
    return AuthenticationError(message, hint="log in again")


TABLES: Final[dict[GranteeKind, Table]] = {GranteeKind.USER: USERS, GranteeKind.ROLE: ROLES}
NOT_EXIST: Final = {GranteeKind.USER: TreeStatus.USER_NOT_EXIST, GranteeKind.ROLE: TreeStatus.ROLE_NOT_EXIST}


def is_of(grantee: Grantee) -> ColumnElement[bool]:
    return and_(GRANTS.c.kind == grantee.kind.value, GRANTS.c.grantee == grantee.name)


def require(connection: Connection, kind: GranteeKind, name: str) -> None:
    """Raise `NotFoundError` if there is no such user or role."""
    table = TABLES[kind]
    if connection.scalar(select(table.c.name).where(table.c.name == name)) is None:
        raise missing(kind, name)


def missing(kind: GranteeKind, name: str) -> Error:
    """Return the error for a user or role that does not exist."""
    hint = f"LIST {kind.upper()} lists them"
    return NotFoundError(f"{kind.capitalize()} {name} does not exist", hint=hint).with_status(NOT_EXIST[kind])


def user_exists(name: str) -> Error:
    """Return the error for a user whose name is taken."""
    return ExistsError(f"User {name} already exists", hint="use another name").with_status(TreeStatus.USER_ALREADY_EXIST)


def role_exists(name: str) -> Error:
    """Return the error for a role whose name is taken."""
    return ExistsError(f"Role {name} already exists", hint="use another name").with_status(TreeStatus.ROLE_ALREADY_EXIST)


def not_granted(grantee: Grantee, grant: Grant) -> Error:
    """Return the error for revoking what was not granted."""
    message = f"{grantee} does not have {grant.privilege} on {grant.target}"
    error = ProgrammingError(message, hint="LIST PRIVILEGES OF … shows what was granted, and on which path")
    return error.with_status(TreeStatus.NOT_HAS_PRIVILEGE)
