"""Users, roles and privileges: create and drop, grant and revoke, and what there is to list of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from headrace import secrets
from headrace.errors import Error, NotFoundError, PermissionDeniedError, ProgrammingError
from headrace.model import access_statements as model
from headrace.model.access import (
    ADMINISTRATOR,
    EVERYWHERE,
    GLOBAL,
    GROUPS,
    MAX_NAME_LENGTH,
    MIN_NAME_LENGTH,
    ON_PATHS,
    TABLE_PRIVILEGES,
    TOKEN_WORD,
    Grant,
    Grantee,
    GranteeKind,
    Permissions,
    Privilege,
    secret_target,
)
from headrace.model.access_statements import GrantSecret
from headrace.model.expressions import Call, ColumnRef, Expression, Literal, columns_of
from headrace.model.paths import PathPattern
from headrace.model.tables import Name, TableKind
from headrace.model.tree_status import TreeStatus
from headrace.service.authorization import denied
from headrace.service.results import BOOL, STRING, CatalogRows, Result
from headrace.service.rights import ADMINISTER, Right, globally, on_paths
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.statement_rights import MANAGE_ROLE, MANAGE_USER
from headrace.service.topics.queries import DESCRIBE_CATALOG, read_catalog
from headrace.sql import expression_sql
from headrace.sql.iotdb.status import SEMANTIC_ERROR

ANY: Final = "*"
MAX_PASSWORD_LENGTH: Final = 128


def change(title: str, apply: Callable[[SessionState], None], required: tuple[Right, ...]) -> Stage:
    return Stage(required, lambda: [title], apply, is_audited=True)


# Users


def plan_create_user(statement: model.CreateUser, session: PlanningContext) -> list[Stage]:
    """Plan CREATE USER, who may do nothing yet, unless jobs of an earlier user of that name are there."""
    check_name(statement.name)
    check_password(statement.password)
    context = session.context
    if not context.permissions().is_administrator and context.catalog.access.was_dropped(statement.name):
        message = f"there was a user {statement.name}, whose jobs a new one would own"
        raise PermissionDeniedError(message, hint="choose another name").with_status(TreeStatus.NO_PERMISSION)

    def apply(session: SessionState) -> None:
        from headrace.runtime.passwords import hash_password

        session.context.catalog.access.create_user(statement.name, hash_password(statement.password))

    return [change(f"create user {statement.name}", apply, MANAGE_USER)]


def plan_alter_user(statement: model.AlterUser, session: PlanningContext) -> list[Stage]:
    """Plan ALTER USER: a new password, or whether the user may log in. All may change their own password."""
    name, password = statement.name, statement.password
    if password is not None:
        check_password(password)
    is_own = name == session.context.user and statement.is_enabled is None
    if not is_own:
        check_authority(Grantee(GranteeKind.USER, name), session)

    def apply(session: SessionState) -> None:
        from headrace.runtime.passwords import hash_password

        access, hashed = session.context.catalog.access, None if password is None else hash_password(password)
        if name == ADMINISTRATOR and hashed is not None:
            access.set_administrator(hashed)
        else:
            access.change_user(name, password=hashed, is_enabled=statement.is_enabled)
        if is_own and session.principal.credentials:
            # Other sessions of the user end. This one has shown who it is.
            session.principal = replace(session.principal, credentials=access.credentials(name))

    title = f"change the password of user {name}" if password is not None else f"change whether user {name} may log in"
    return [change(title, apply, DESCRIBE_CATALOG if is_own else MANAGE_USER)]


def plan_drop_user(statement: model.DropUser, session: PlanningContext) -> list[Stage]:
    """Plan DROP USER, with what was granted to the user."""
    refuse_administrator(statement.name, "dropped")
    return [drop(Grantee(GranteeKind.USER, statement.name), session, MANAGE_USER)]


def drop(grantee: Grantee, session: PlanningContext, required: tuple[Right, ...]) -> Stage:
    check_authority(grantee, session)
    return change(f"drop {grantee.kind} {grantee.name}", lambda session: session.context.catalog.access.drop(grantee), required)


def check_authority(grantee: Grantee, session: PlanningContext) -> None:
    """Raise an error unless the user may change another user or a role, or who has it: those with fewer rights may not.

    Otherwise, who may set passwords or give roles would have all the rights that there are.

    Raises:
        NotFoundError: There is no such user or role.
        PermissionDeniedError: It has a right that the user lacks.
    """
    access, permissions = session.context.catalog.access, session.context.permissions()
    if grantee == Grantee(GranteeKind.USER, ADMINISTRATOR):
        # A program with a token changes no password by which it could stay after the token ends.
        if not permissions.is_administrator or TOKEN_WORD in session.context.user:
            raise denied(ADMINISTER)
        return
    access.check_exists(grantee)
    beyond = next((grant for grant in access.held(grantee) if not permissions.includes(grant)), None)
    if beyond is not None:
        option = " with grant option" if beyond.with_option else ""
        message = f"{grantee} has a right that you do not have: {beyond.privilege} on {described_target(beyond)}{option}"
        raise PermissionDeniedError(message, hint="connect as root").with_status(TreeStatus.NO_PERMISSION)


def refuse_administrator(name: str, verb: str) -> None:
    if name == ADMINISTRATOR:
        raise ProgrammingError(f"user {ADMINISTRATOR} cannot be {verb}", hint="name another user")


def check_name(name: str) -> None:
    """Raise `ProgrammingError` for a name that users and roles cannot have."""
    check_text(name, MAX_NAME_LENGTH)
    refuse_administrator(name, "created")


def check_password(password: str) -> None:
    """Raise `ProgrammingError` for a password that users cannot have."""
    check_text(password, MAX_PASSWORD_LENGTH)


def check_text(text: str, most: int) -> None:
    if " " in text:
        raise illegal("The name or password cannot contain spaces")
    if len(text) < MIN_NAME_LENGTH:
        raise illegal(f"The length of name or password must be greater than or equal to {MIN_NAME_LENGTH}")
    if len(text) > most:
        raise illegal(f"The length of name or password must be less than or equal to {most}")


def illegal(message: str, hint: str = "choose another one") -> Error:
    return ProgrammingError(message, hint=hint).with_status(TreeStatus.ILLEGAL_PARAMETER)


# Roles


def plan_create_role(statement: model.CreateRole, _: PlanningContext) -> list[Stage]:
    """Plan CREATE ROLE, which no one has yet."""
    check_name(statement.name)
    return [
        change(
            f"create role {statement.name}",
            lambda session: session.context.catalog.access.create_role(statement.name),
            MANAGE_ROLE,
        )
    ]


def plan_drop_role(statement: model.DropRole, session: PlanningContext) -> list[Stage]:
    """Plan DROP ROLE, which takes it from its users."""
    return [drop(Grantee(GranteeKind.ROLE, statement.name), session, MANAGE_ROLE)]


def plan_grant_role(statement: model.GrantRole, session: PlanningContext) -> list[Stage]:
    """Plan GRANT ROLE and REVOKE ROLE."""
    user, role = statement.user, statement.role
    if user == ADMINISTRATOR and not session.context.permissions().is_administrator:
        raise denied(ADMINISTER)
    session.context.catalog.access.check_exists(Grantee(GranteeKind.USER, user))
    check_authority(Grantee(GranteeKind.ROLE, role), session)

    def apply(session: SessionState) -> None:
        access = session.context.catalog.access
        (access.remove_role if statement.revoke else access.add_role)(user, role)

    title = f"take role {role} from user {user}" if statement.revoke else f"give role {role} to user {user}"
    return [change(title, apply, MANAGE_ROLE)]


# Privileges


def plan_grant_privileges(statement: model.GrantPrivileges, session: PlanningContext) -> list[Stage]:
    """Plan GRANT and REVOKE of privileges, which the user must have with the option to grant them."""
    grants = checked_grants(statement, session)
    if statement.revoke:
        present = {(grant.privilege, grant.target) for grant in session.context.catalog.access.grants(statement.grantee)}
        if statement.privileges == ("ALL",):
            # All are those that there are.
            grants = [grant for grant in grants if (grant.privilege, grant.target) in present] or grants
        for grant in grants:
            if (grant.privilege, grant.target) not in present:
                from headrace.catalog.access import not_granted

                raise not_granted(statement.grantee, grant)
    return [change_grants(statement.grantee, grants, rights_on(grants), revoke=statement.revoke)]


def change_grants(grantee: Grantee, grants: Sequence[Grant], required: tuple[Right, ...], *, revoke: bool) -> Stage:
    """Return the stage that grants or revokes something."""

    def apply(session: SessionState) -> None:
        access = session.context.catalog.access
        (access.revoke if revoke else access.grant)(grantee, grants)

    verb, word = ("revoke", "from") if revoke else ("grant", "to")
    what = ", ".join(f"{grant.privilege} on {described_target(grant)}" for grant in grants)
    return change(f"{verb} {what} {word} {grantee}", apply, required)


def checked_grants(statement: model.GrantPrivileges, session: PlanningContext) -> list[Grant]:
    """Return the grants of a statement, which the user may make.

    Raises:
        ProgrammingError: A path is not one on which a privilege can be granted.
        PermissionDeniedError: The user may not.
        NotFoundError: There is no such user or role.
    """
    grants = [
        Grant(privilege, str(path), statement.with_option)
        for path in statement.paths
        for privilege in expanded(statement.privileges, path)
    ]
    permissions = session.context.permissions()
    if not all(map(permissions.may_grant, grants)):
        raise not_grantable("REVOKE" if statement.revoke else "GRANT", statement.grantee)
    if statement.grantee.name == ADMINISTRATOR:
        raise ProgrammingError(f"the rights of user {ADMINISTRATOR} cannot be changed", hint="name another user")
    session.context.catalog.access.check_exists(statement.grantee)
    return list(dict.fromkeys(grants))


def plan_grant_tables(statement: model.GrantTables, session: PlanningContext) -> list[Stage]:
    """Plan GRANT and REVOKE of privileges on tables, which only the administrator may."""
    grantee = Grantee(GranteeKind.USER, statement.user)
    refuse_administrator(statement.user, "granted anything: that user may do everything")
    access = session.context.catalog.access
    access.check_exists(grantee)
    written = statement.privileges
    names = [name for name in TABLE_PRIVILEGES if name in written or "ALL" in written]
    target, condition = granted_on(statement, access.grants(grantee), session)
    grants = [Grant(TABLE_PRIVILEGES[name], target, condition=condition) for name in names]
    if statement.revoke and "ALL" in statement.privileges:
        present = access.grants(grantee)
        had = [grant for grant in grants if any(is_revoked(one, grant) for one in present)]
        grants = had or grants
    return [change_grants(grantee, grants, ADMINISTER, revoke=statement.revoke)]


def granted_on(statement: model.GrantTables, present: Sequence[Grant], session: PlanningContext) -> tuple[str, str]:
    """Return the table that a privilege is granted on, and its condition. A subtable is one of its supertable with that name."""
    target = f"{statement.database}.{statement.table}"
    if statement.condition is not None:
        if not statement.revoke:
            check_condition(statement, statement.condition, session)
        return target, expression_sql(statement.condition)
    if ANY in (statement.database, statement.table) or any(grant.target == target for grant in present):
        return target, ""
    catalog = session.context.catalog
    subtable = catalog.subtables.find(statement.database, [statement.table]).get(statement.table)
    if subtable is None or subtable.table == statement.table or catalog.tables.get(subtable.database, subtable.table).is_virtual:
        return target, ""
    condition = Call("=", (ColumnRef(TableKind.SUPER.series_key), Literal(statement.table)))
    return f"{statement.database}.{subtable.table}", expression_sql(condition)


def is_revoked(present: Grant, revoked: Grant) -> bool:
    """Return whether a grant on a table is one that REVOKE takes away, which takes those with any condition if it has none."""
    is_same = (present.privilege, present.target) == (revoked.privilege, revoked.target)
    return is_same and revoked.condition in ("", present.condition)


def check_condition(statement: model.GrantTables, condition: Expression, session: PlanningContext) -> None:
    """Raise an error unless a condition is one on tags, or `tbname`, of the supertable that a GRANT names."""
    from headrace.service.subtable_conditions import chosen_subtables

    name, catalog = Name(statement.database, statement.table, statement.span), session.context.catalog
    table = None if ANY in (name.database, name.name) else catalog.tables.get(statement.database, statement.table)
    if table is None or not table.tags or table.is_virtual:
        hint = "name a supertable, or grant the privilege without a condition"
        raise ProgrammingError(f"{name} has no tags that a condition could be on", hint=hint, span=statement.span)
    for reference in columns_of(condition):
        if not table.is_tag(reference.name) and reference.name != table.series_key:
            raise NotFoundError(f"{table.name} has no tag {reference.name}", hint=f"DESCRIBE {name}", span=reference.span)
    chosen_subtables(table, catalog.databases.get(table.database), [condition], session.context)


def not_grantable(verb: str, grantee: Grantee) -> Error:
    """Return the error for privileges that the user may not grant."""
    message = (
        f"Has no permission to execute {verb}_{grantee.kind.upper()}, please ensure you have these privileges and the grant option"
        " is TRUE when granted"
    )
    hint = "who may grant a privilege was granted it WITH GRANT OPTION"
    return PermissionDeniedError(message, hint=hint).with_status(TreeStatus.NOT_HAS_PRIVILEGE_GRANTOPT)


def expanded(names: Sequence[str], path: PathPattern) -> list[Privilege]:
    """Return the privileges that names stand for on a path.

    Raises:
        ProgrammingError: A privilege cannot be granted on the path.
    """
    check_grantable(path)
    is_everywhere = str(path) == EVERYWHERE
    privileges: list[Privilege] = []
    for name in names:
        own = (*GLOBAL, *ON_PATHS) if name == "ALL" else GROUPS.get(name) or (Privilege(name),)
        if not is_everywhere and not all(privilege.is_on_paths for privilege in own):
            message = f"[{name}] can only be set on path: {EVERYWHERE}"
            raise ProgrammingError(message, hint=f"write ON {EVERYWHERE}", span=path.span).with_status(SEMANTIC_ERROR)
        privileges += own
    return privileges


def check_grantable(path: PathPattern) -> None:
    """Raise `ProgrammingError` unless a pattern is a path without wildcards, maybe with `**` as its end."""
    nodes = path.nodes[:-1] if path.nodes[-1] == "**" else path.nodes
    if PathPattern(nodes).has_wildcard:
        message = f"Illegal pattern path: {path}, only pattern path that end with ** are supported."
        raise illegal(message, "write a full path, or one that ends with .**")


def rights_on(grants: Sequence[Grant]) -> tuple[Right, ...]:
    """Return the rights that grants are about. The option to grant them has been checked."""
    rights = (
        on_paths(grant.privilege, [grant.target]) if grant.privilege.is_on_paths else globally(grant.privilege) for grant in grants
    )
    return tuple(dict.fromkeys(right for some in rights for right in some))


def described_target(grant: Grant) -> str:
    """Return what a grant is on, with its condition."""
    return f"{grant.target} with {grant.condition}" if grant.condition else grant.target


# Lists


def plan_list_users(statement: model.ListUsers, session: PlanningContext) -> list[Stage]:
    """Plan LIST USER [OF ROLE]."""
    access, role = session.context.catalog.access, statement.role

    def names() -> list[str]:
        if role is None:
            return sorted({ADMINISTRATOR, *(user.name for user in access.users())})
        access.check_exists(Grantee(GranteeKind.ROLE, role))
        return access.members(role)

    return [list_names("User", names, MANAGE_USER)]


def plan_list_roles(statement: model.ListRoles, session: PlanningContext) -> list[Stage]:
    """Plan LIST ROLE [OF USER]."""
    access, user = session.context.catalog.access, statement.user

    def names() -> list[str]:
        if user not in (None, ADMINISTRATOR):
            access.check_exists(Grantee(GranteeKind.USER, user))
        return access.roles(user)

    return [list_names("Role", names, DESCRIBE_CATALOG if user == session.context.user else MANAGE_ROLE)]


def list_names(header: str, names: Callable[[], list[str]], required: tuple[Right, ...]) -> Stage:
    def read() -> Result:
        return Result(CatalogRows({header: STRING}, [(name,) for name in names()]))

    return read_catalog(f"list {header.lower()}s", read, required)


def plan_list_privileges(statement: model.ListPrivileges, session: PlanningContext) -> list[Stage]:
    """Plan LIST PRIVILEGES: of a user with those of their roles, or of a role. All may list their own."""
    grantee, access = statement.grantee, session.context.catalog.access
    is_role = grantee.kind is GranteeKind.ROLE
    own = session.context.permissions()
    if not is_role:
        required = DESCRIBE_CATALOG if grantee.name == session.context.user else MANAGE_USER
    else:
        required = DESCRIBE_CATALOG if grantee.name in own.roles else MANAGE_ROLE

    def read() -> Result:
        if is_role:
            access.check_exists(grantee)
            grants = tuple((grantee.name, grant) for grant in access.grants(grantee))
        else:
            grants = listed_grants(access.permissions(grantee.name))
        columns = {"Role": STRING, "Path": STRING, "Privileges": STRING, "GrantOption": BOOL}
        return Result(CatalogRows(columns, [(role, *shown(grant)) for role, grant in in_order(grants)]))

    return [read_catalog(f"list privileges of {grantee.kind} {grantee.name}", read, required)]


def listed_grants(permissions: Permissions) -> tuple[tuple[str, Grant], ...]:
    """Return the grants of a user; all that can be granted for the administrator."""
    if permissions.is_administrator:
        return tuple(("", Grant(privilege, EVERYWHERE, with_option=True)) for privilege in (*GLOBAL, *ON_PATHS))
    return permissions.grants


def in_order(grants: Sequence[tuple[str, Grant]]) -> list[tuple[str, Grant]]:
    """Order grants as IoTDB lists them: for each role those that are not on paths, then paths in the order of their first grant."""
    roles: dict[str, int] = {}
    paths: dict[tuple[str, str], int] = {}
    for at, (role, grant) in enumerate(grants):
        roles.setdefault(role, at)
        if grant.privilege not in GLOBAL:
            paths.setdefault((role, grant.target), at)
    privileges = list(Privilege)

    def place(one: tuple[str, Grant]) -> tuple[int, int, int]:
        role, grant = one
        path = -1 if grant.privilege in GLOBAL else paths[role, grant.target]
        return roles[role], path, privileges.index(grant.privilege)

    return sorted(grants, key=place)


def shown(grant: Grant) -> tuple[str, str, bool]:
    """Return a grant as LIST PRIVILEGES shows it."""
    return described_target(grant), grant.privilege.value, grant.with_option


def plan_grant_secret(statement: GrantSecret, session: PlanningContext) -> list[Stage]:
    """Plan GRANT and REVOKE of a secret, which only the administrator may. Whether there is such a secret, only drivers know."""
    reference, grantee = statement.reference, statement.grantee
    if not secrets.is_reference(reference):
        hint = "write 'secret:NAME' or 'airflow:ID', as in the attributes of a pipe"
        raise ProgrammingError(f"{reference} does not refer to a secret", hint=hint, span=statement.span)
    secrets.check_references({"": reference}, ("",))
    if grantee.name == ADMINISTRATOR:
        refuse_administrator(grantee.name, "granted anything: that user may do everything")
    session.context.catalog.access.check_exists(grantee)
    grants = [Grant(Privilege.USE_SECRET, secret_target(reference))]
    return [change_grants(grantee, grants, ADMINISTER, revoke=statement.revoke)]
