"""What the owner of a pipe may read of the series of its pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.model.access import EVERY_PATH, PathFilter, Permissions, Privilege, as_pattern
from headrace.model.needs import Needs
from headrace.model.paths import ANY_LEVELS, ROOT, join_path, split_prefix
from headrace.pipes.plugins import PipeContext
from headrace.pipes.selection import Pattern, PrefixPattern, TreePattern
from headrace.pipes.sources.options import SourceOptions
from headrace.trees.owners import check_needs, lost

MANAGING: Final = {"auth.user": Privilege.MANAGE_USER, "auth.role": Privilege.MANAGE_ROLE}
"""What statements about users and roles need."""


def source_needs(options: SourceOptions) -> Needs:
    """Return what a source of trees needs: to read some of the series, and to know what the statements say that it transfers."""
    kinds = {".".join(name.split(".")[:2]) for name in options.included}
    pattern, everything = options.pattern, as_pattern(f"{above(options.pattern)}.{ANY_LEVELS}")
    has_schema = any(kind.startswith("schema.") for kind in kinds)
    return Needs(
        privileges=tuple(MANAGING[kind] for kind in sorted(kinds & MANAGING.keys())),
        # The series of a prefix are narrowed down when they are read.
        reads_some=(pattern.pattern if isinstance(pattern, TreePattern) else everything,),
        paths=((Privilege.READ_SCHEMA, everything),) if has_schema else (),
    )


def readable_paths(pipe: PipeContext, options: SourceOptions) -> Callable[[], PathFilter]:
    """Return what returns the paths whose data the owner of a pipe may read whenever it is asked; the others do not exist for it.

    It raises `PermissionDeniedError` if the owner may read no series of the pattern, or lacks what statements need.
    """
    access, needs = pipe.context.catalog.access, source_needs(options)

    def paths() -> PathFilter:
        permissions = access.owner_permissions(pipe.owner)
        if permissions.is_administrator:
            return EVERY_PATH
        check_needs(permissions, pipe.owner, needs)
        if not reads_some(permissions, options.pattern):
            raise lost(pipe.owner, f"{Privilege.READ_DATA} on a series of the pattern")
        return permissions.paths(Privilege.READ_DATA)

    return paths


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
