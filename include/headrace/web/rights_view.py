"""JSON values of the rights that concern a job: whose it is, and who has privileges on what it reads and writes."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from headrace.jobs.registry import is_known, kind_of
from headrace.model.access import ADMINISTRATOR, EVERYWHERE, Grant, Permissions, Privilege
from headrace.model.jobs import JobDefinition
from headrace.model.paths import split_path
from headrace.model.tables import TableId

if TYPE_CHECKING:
    from headrace.catalog import Catalog

Json = dict[str, Any]


def job_rights(catalog: Catalog, permissions: Permissions, definition: JobDefinition) -> Json:
    """Return the owner of a job, and the privileges of users that concern it, as far as a user may know of them."""
    may_know_all = permissions.allows(Privilege.MANAGE_USER)
    names = [user.name for user in catalog.access.users() if user.name != ADMINISTRATOR]
    grants = [
        {"user": name, "privilege": grant.privilege.value, "target": grant.target, "role": role, "condition": grant.condition}
        for name in names
        if may_know_all or name == permissions.user
        for role, grant in catalog.access.owner_permissions(name).grants
        if concerns(grant, definition)
    ]
    return {
        "owner": definition.owner or ADMINISTRATOR,
        "grants": grants,
        "is_all": may_know_all,
        "has_users": catalog.access.has_users(),
    }


def concerns(grant: Grant, definition: JobDefinition) -> bool:
    """Return whether a privilege is on a table or path that a job reads or writes, or is the one that jobs of its kind need."""
    if grant.privilege.is_on_tables:
        return any(is_on_table(grant.target, table) for table in definition.tables)
    if grant.privilege.is_on_paths:
        return any(is_near(grant.target, path) for path in paths_of(definition))
    return is_known(definition.kind) and kind_of(definition).privilege is grant.privilege


def is_on_table(target: str, table: TableId) -> bool:
    """Return whether `database.table`, or `database.*`, is a table."""
    database, _, name = target.partition(".")
    return database == table.database and name in ("*", table.name)


def paths_of(definition: JobDefinition) -> Collection[str]:
    """Return the paths that a job reads and writes, as far as its definition has them."""
    query = definition.continuous_query
    if query is not None:
        return (*query.sources, *query.targets)
    return {table.database for table in definition.tables} or {EVERYWHERE}


def is_near(path: str, other: str) -> bool:
    """Return whether one path may be above or below another, up to the first node of either that is no name."""
    for own, theirs in zip(split_path(path), split_path(other), strict=False):
        if not is_name(own) or not is_name(theirs):
            return True
        if own != theirs:
            return False
    return True


def is_name(node: str) -> bool:
    """Return whether a node is neither a wildcard nor a placeholder of INTO."""
    return not any(sign in node for sign in ("*", "::", "${"))
