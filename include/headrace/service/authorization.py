"""Decides by the grants in the catalog what users may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from headrace.errors import Error, PermissionDeniedError
from headrace.jobs.registry import is_known
from headrace.model.access import Permissions, Principal, Privilege, as_pattern
from headrace.model.paths import ROOT
from headrace.model.tree_status import TreeStatus
from headrace.pipes.kind import PIPE
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.service.rights import Action, ObjectKind, Right, Securable, denied_table
from headrace.service.visible_rows import is_own, sees_job, sees_table
from headrace.streams.kind import STREAM

if TYPE_CHECKING:
    from headrace.catalog import Catalog

BY_KIND: Final[Mapping[str, Privilege]] = {
    ObjectKind.FUNCTION: Privilege.USE_UDF,
    ObjectKind.TRIGGER: Privilege.USE_TRIGGER,
    ObjectKind.PIPE_PLUGIN: Privilege.USE_PIPE,
    CONTINUOUS_QUERY: Privilege.USE_CQ,
    PIPE: Privilege.USE_PIPE,
}
"""The privilege that allows everything with objects of a kind."""
FILTERED: Final = (Privilege.READ_DATA, Privilege.READ_SCHEMA)
"""Privileges that a statement does not need: without them paths are as if they did not exist."""
ANY_TABLE: Final = "*"
PARTS: Final = {Action.READ_PART: Privilege.READ_TABLE, Action.WRITE_PART: Privilege.WRITE_TABLE}
"""What is needed for some subtables: who plans it has chosen those that meet the conditions of the user's grants."""
BY_SUPERTABLE: Final[Mapping[Action | Privilege, tuple[Privilege, ...]]] = {
    Action.DESCRIBE: (Privilege.READ_TABLE, Privilege.WRITE_TABLE),
    Action.READ: (Privilege.READ_TABLE,),
    **dict.fromkeys((Action.WRITE, Action.ALTER, Action.DROP), (Privilege.WRITE_TABLE,)),
}
"""The privileges on a supertable of which one allows an action on its subtables."""
REPLACING_DIALECT: Final = "tdengine"
"""The dialect whose functions can be replaced."""
READING: Final = (Action.READ, Action.DESCRIBE)
HINT: Final = "the administrator can GRANT it; LIST PRIVILEGES OF USER … shows what a user may do"


class CatalogAuthorizer:
    """Checks rights against the grants of the catalog, which are read once for each change of them. Thread-safe."""

    def __init__(self, catalog: Catalog) -> None:
        """Create an authorizer of the users of a catalog."""
        self._catalog = catalog

    def permissions(self, principal: Principal) -> Permissions:
        """Return what a principal may do; see `Authorizer`."""
        return self._catalog.access.permissions_of(principal)

    def authorize(self, principal: Principal, rights: Sequence[Right]) -> None:
        """Return if a principal has all of the rights; see `Authorizer`."""
        permissions = self.permissions(principal)
        if permissions.is_administrator:
            return
        lacking = [right for right in rights if not self._is_allowed(right, permissions)]
        if lacking:
            raise denied(lacking)

    def _is_allowed(self, right: Right, permissions: Permissions) -> bool:
        target = right.target
        if target.kind == ObjectKind.TABLE:
            return is_allowed(right, permissions) or self._is_allowed_on_subtable(right, permissions)
        if right.action is Action.ALTER and (is_known(target.kind) or target.kind == ObjectKind.FUNCTION):
            return is_allowed(right, permissions) and self._owns(target, permissions)
        if right.action is not Action.DESCRIBE or target.kind != STREAM:
            return is_allowed(right, permissions)
        record = self._catalog.jobs.find(target.database, target.name, STREAM)
        if record is None:
            return permissions.allows_table(Privilege.WRITE_TABLE, target.database, ANY_TABLE)
        return sees_job(permissions, record.definition)

    def _owns(self, target: Securable, permissions: Permissions) -> bool:
        """Return whether a job or a function is a user's own: others would change what is done with rights or rows of its users."""
        if target.kind == ObjectKind.FUNCTION:
            function = self._catalog.functions.find(REPLACING_DIALECT, target.name)
            return function is not None and is_own(permissions, function.owner)
        record = self._catalog.jobs.find(target.database, target.name, target.kind)
        return record is not None and is_own(permissions, record.definition.owner)

    def _is_allowed_on_subtable(self, right: Right, permissions: Permissions) -> bool:
        """Return whether a user has a right on a subtable by a privilege on all of its supertable."""
        database, privileges = right.target.database, BY_SUPERTABLE.get(right.action, ())
        if not privileges or is_tree(database) or not permissions.sees_database(database):
            return False
        subtable = self._catalog.subtables.find(database, [right.target.name]).get(right.target.name)
        return subtable is not None and any(permissions.allows_table(one, database, subtable.table) for one in privileges)


def is_allowed(right: Right, permissions: Permissions) -> bool:
    """Return whether a user who is not the administrator has a right."""
    action, target = right.action, right.target
    if isinstance(action, Privilege):
        return has_privilege(action, right, permissions)
    if action is Action.READ_SOME:
        return permissions.allows_some(Privilege.READ_DATA, as_pattern(target.name))
    if action is Action.DESCRIBE:
        return may_describe(target, permissions)
    if target.kind in BY_KIND:
        return permissions.allows(BY_KIND[target.kind])
    if target.kind == ObjectKind.DATABASE and is_tree(target.database):
        return action in (Action.CREATE, Action.DROP) and permissions.allows(Privilege.MANAGE_DATABASE)
    if target.kind == ObjectKind.CATALOG and action is Action.OPERATE:
        return permissions.allows(Privilege.MAINTAIN)
    if target.kind in (ObjectKind.CATALOG, ObjectKind.DATABASE):
        return False
    if action in PARTS:
        return permissions.allows_part(PARTS[action], target.database, target.name)
    privilege = Privilege.READ_TABLE if action in READING else Privilege.WRITE_TABLE
    # A stream is no table: a table of the same name does not count.
    name = ANY_TABLE if target.kind == STREAM else target.name
    return permissions.allows_table(privilege, target.database, name)


def has_privilege(privilege: Privilege, right: Right, permissions: Permissions) -> bool:
    """Return whether a user has a privilege of IoTDB, or on a secret."""
    target = right.target
    if target.kind == ObjectKind.SECRET:
        return permissions.allows_secret(target.name)
    if target.kind != ObjectKind.PATH:
        return permissions.allows(privilege)
    is_filtered = privilege in FILTERED and not right.is_whole
    return is_filtered or permissions.allows(privilege, as_pattern(target.name))


def may_describe(target: Securable, permissions: Permissions) -> bool:
    """Return whether a user may know of an object. Lists leave out what the user may not know of."""
    if target.kind == ObjectKind.DATABASE:
        return permissions.sees_database(target.database)
    return target.kind != ObjectKind.TABLE or sees_table(permissions, target.database, target.name)


def is_tree(database: str) -> bool:
    """Return whether a database is a tree by its name."""
    return database.startswith(ROOT + ".")


def denied(rights: Sequence[Right]) -> Error:
    """Return the error for rights that a user lacks, in the words of their language. It names only what the statement names."""
    first = rights[0]
    if first.action is Action.ADMINISTER:
        message = "Only the admin user can perform this operation"
        return PermissionDeniedError(message, hint="connect as root").with_status(TreeStatus.NO_PERMISSION)
    if first.action is Action.ALTER and first.target.kind in BY_KIND:
        message = f"Only its owner and root can alter the {first.target}"
        return PermissionDeniedError(message, hint="create another one").with_status(TreeStatus.NO_PERMISSION)
    needed = privilege_words(first, rights)
    if needed is None:
        return denied_table()
    message = f"No permissions for this operation, please add privilege {needed}"
    return PermissionDeniedError(message, hint=HINT).with_status(TreeStatus.NO_PERMISSION)


def privilege_words(first: Right, rights: Sequence[Right]) -> str | None:
    """Return the privilege of IoTDB that a user lacks; None for a right on tables."""
    target = first.target
    if first.action is Privilege.USE_SECRET:
        return f"{first.action} on {target.name}"
    if first.action is Action.READ_SOME:
        return f"{Privilege.READ_DATA} on [{target.name}]"
    if isinstance(first.action, Privilege):
        paths = [right.target.name for right in rights if right.action is first.action and right.target.kind == ObjectKind.PATH]
        return f"{first.action} on [{', '.join(paths)}]" if paths else str(first.action)
    if target.kind in BY_KIND:
        return str(BY_KIND[target.kind])
    if target.kind == ObjectKind.DATABASE and is_tree(target.database):
        return str(Privilege.MANAGE_DATABASE)
    return str(Privilege.MAINTAIN) if target.kind == ObjectKind.CATALOG and first.action is Action.OPERATE else None
