"""What the owner of a pipe may read of the series of its pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.model.access import EVERY_PATH, PathFilter, Permissions, Privilege, as_pattern
from headrace.model.paths import ROOT, join_path, split_prefix
from headrace.pipes.plugins import PipeContext
from headrace.pipes.selection import Pattern, PrefixPattern, TreePattern
from headrace.pipes.sources.options import SourceOptions
from headrace.trees.owners import lost

MANAGING: Final = {"auth.user": Privilege.MANAGE_USER, "auth.role": Privilege.MANAGE_ROLE}
"""What statements about users and roles need."""


def readable_paths(pipe: PipeContext, options: SourceOptions) -> Callable[[], PathFilter]:
    """Return what returns the paths whose data the owner of a pipe may read whenever it is asked; the others do not exist for it.

    It raises `PermissionDeniedError` if the owner may read no series of the pattern, or if the pipe transfers statements about
    the schema, users or roles and the owner may not read the schema of the whole pattern, or manage users or roles.
    """
    access, pattern = pipe.context.catalog.access, options.pattern

    def paths() -> PathFilter:
        permissions = access.owner_permissions(pipe.owner)
        if permissions.is_administrator:
            return EVERY_PATH
        check_statements(permissions, options)
        if not reads_some(permissions, pattern):
            raise lost(pipe.owner, f"{Privilege.READ_DATA} on a series of the pattern")
        return permissions.paths(Privilege.READ_DATA)

    return paths


def check_statements(permissions: Permissions, options: SourceOptions) -> None:
    """Raise `PermissionDeniedError` unless a user may know what the statements say that a source transfers."""
    kinds = {".".join(name.split(".")[:2]) for name in options.included}
    needed = {MANAGING[kind] for kind in kinds & MANAGING.keys()}
    lacking = [privilege for privilege in sorted(needed) if not permissions.allows(privilege)]
    if lacking:
        raise lost(permissions.user, str(lacking[0]))
    everything = f"{above(options.pattern)}.**"
    if any(kind.startswith("schema.") for kind in kinds) and not permissions.allows(Privilege.READ_SCHEMA, as_pattern(everything)):
        raise lost(permissions.user, f"{Privilege.READ_SCHEMA} on [{everything}]")


def reads_some(permissions: Permissions, pattern: Pattern) -> bool:
    """Return whether there may be series of a pattern whose data a user may read."""
    readable = permissions.paths(Privilege.READ_DATA)
    below = any(pattern.may_match_below(join_path(subtree)) for subtree in readable.subtrees)
    return below or any(pattern.matches(join_path(path[:-1]), path[-1]) for path in readable.paths)


def above(pattern: Pattern) -> str:
    """Return a path below which all series of a pattern are."""
    if isinstance(pattern, TreePattern):
        return join_path(pattern.pattern.literal_prefix[: len(pattern.pattern.nodes) - 1])
    return join_path(split_prefix(pattern.prefix)[0]) or ROOT if isinstance(pattern, PrefixPattern) else ROOT
