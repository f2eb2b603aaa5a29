"""What the owners of triggers, continuous queries and pipes may do when these run."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from headrace.catalog import Catalog
from headrace.context import Context
from headrace.errors import PermissionDeniedError
from headrace.model.access import Permissions, Privilege, as_pattern, may_overlap
from headrace.model.paths import PathPattern, join_path, split_path
from headrace.model.trees import DeviceSeries
from headrace.model.triggers import RegisteredTrigger, TriggerState

logger = logging.getLogger(__name__)


def as_owner(context: Context, owner: str) -> Context:
    """Return a context with the rights that an owner has whenever they are asked for."""
    permissions = partial(context.catalog.access.owner_permissions, owner)
    return replace(
        context, user=owner, permissions=permissions, authorize_points=partial(check_points, context.catalog, permissions, owner)
    )


def check_points(catalog: Catalog, permissions_now: Callable[[], Permissions], owner: str, series: Sequence[DeviceSeries]) -> None:
    """Raise `PermissionDeniedError` unless an owner may write to series, and create those that are missing."""
    permissions = permissions_now()
    if permissions.is_administrator:
        return
    check_paths(permissions, owner, Privilege.WRITE_DATA, paths_of(series))
    check_paths(permissions, owner, Privilege.WRITE_SCHEMA, missing_paths(catalog, series))


def check_paths(permissions: Permissions, owner: str, privilege: Privilege, paths: Iterable[str]) -> None:
    """Raise `PermissionDeniedError` unless an owner has a privilege on paths."""
    allowed = permissions.paths(privilege)
    lacking = [path for path in paths if not allowed.includes(split_path(path))]
    if lacking:
        raise lost(owner, f"{privilege} on [{', '.join(lacking[:10])}]")


def check_owner(permissions: Permissions, owner: str, privilege: Privilege, patterns: Iterable[PathPattern]) -> None:
    """Raise `PermissionDeniedError` unless an owner has the privilege to run a job, and may read paths of each pattern.

    Of a pattern the owner may read a part: the rest is as if it did not exist.
    """
    if not permissions.allows(privilege):
        raise lost(owner, str(privilege))
    if permissions.is_administrator:
        return
    readable = permissions.paths(Privilege.READ_DATA)
    targets = [*(as_pattern(join_path((*path, "**"))) for path in readable.subtrees), *map(PathPattern, readable.paths)]
    for pattern in patterns:
        if not any(may_overlap(target.nodes, pattern.nodes) for target in targets):
            raise lost(owner, f"{Privilege.READ_DATA} on [{pattern}]")


def lost(owner: str, privilege: str) -> PermissionDeniedError:
    """Return the error for a job whose owner lacks a privilege when it runs."""
    hint = f"grant it to {owner}, or have another user create the job again"
    return PermissionDeniedError(f"the owner {owner} has no privilege {privilege}", hint=hint)


def with_rights(context: Context, triggers: Sequence[RegisteredTrigger]) -> tuple[RegisteredTrigger, ...]:
    """Return the triggers whose owners may use triggers, and stop the others. Costs one read of a number."""
    permissions = context.catalog.access.owners()
    kept = tuple(one for one in triggers if permissions(one.owner).allows(Privilege.USE_TRIGGER))
    for trigger in (one for one in triggers if one not in kept):
        reason = lost(trigger.owner, str(Privilege.USE_TRIGGER)).message
        context.catalog.triggers.change(trigger.id, state=TriggerState.INACTIVE.value, reason=reason)
        logger.warning("trigger %s is stopped: %s", trigger.name, reason)
    return kept


def paths_of(series: Iterable[DeviceSeries]) -> list[str]:
    """Return the full paths of series of devices."""
    return [join_path((one.path, new.measurement)) for one in series for new in one.series]


def missing_paths(catalog: Catalog, series: Iterable[DeviceSeries]) -> list[str]:
    """Return the full paths of those series that do not exist."""
    by_database: dict[str, list[DeviceSeries]] = defaultdict(list)
    for one in series:
        by_database[one.database.name].append(one)
    paths = []
    for name, own in by_database.items():
        present = catalog.trees.find(name, {one.path for one in own})
        paths += paths_of(replace(one, series=tuple(one.missing(present.get(one.path)))) for one in own)
    return paths
