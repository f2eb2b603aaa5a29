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
from headrace.model.access import Permissions, Privilege
from headrace.model.needs import Needs
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


def check_needs(permissions: Permissions, owner: str, needs: Needs) -> None:
    """Raise `PermissionDeniedError` unless an owner has the rights for what is done in their name."""
    lacking = needs.lacking(permissions)
    if lacking is not None:
        raise lost(owner, lacking)


def lost(owner: str, privilege: str) -> PermissionDeniedError:
    """Return the error for a job whose owner lacks a privilege when it runs."""
    hint = f"grant it to {owner}, or have another user create the job again"
    return PermissionDeniedError(f"the owner {owner} has no privilege {privilege}", hint=hint)


def with_rights(context: Context, triggers: Sequence[RegisteredTrigger]) -> tuple[RegisteredTrigger, ...]:
    """Return the triggers whose owners may use triggers and read what these get, and stop the others. Costs a read of a number."""
    permissions, kept = context.catalog.access.owners(), list[RegisteredTrigger]()
    for trigger in triggers:
        lacking = trigger_needs(trigger.path_pattern, trigger.name).lacking(permissions(trigger.owner))
        if lacking is None:
            kept.append(trigger)
            continue
        reason = lost(trigger.owner, lacking).message
        context.catalog.triggers.change(trigger.id, state=TriggerState.INACTIVE.value, reason=reason)
        logger.warning("trigger %s is stopped: %s", trigger.name, reason)
    return tuple(kept)


def trigger_needs(pattern: PathPattern, name: str) -> Needs:
    """Return what a trigger needs, which gets all values that are written to series of a pattern."""
    return Needs(privileges=(Privilege.USE_TRIGGER,), paths=((Privilege.READ_DATA, pattern),), code=(name,))


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
