"""The source `iotdb-source`: the series of trees that match a pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.context import Context
from headrace.errors import NotSupportedError
from headrace.model.access import EVERY_PATH, PathFilter, Permissions, Privilege, as_pattern
from headrace.model.needs import Needs
from headrace.model.paths import ANY_LEVELS, ROOT, join_path, split_path, split_prefix
from headrace.model.positions import Offsets
from headrace.model.tables import Table, TableKind
from headrace.model.trees import TREE_TABLE
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.feeds import Feeds, TableFeed
from headrace.pipes.plugins import PipeContext, Source
from headrace.pipes.selection import Pattern, PrefixPattern, TreePattern
from headrace.pipes.sources.captured_schema import CapturedSchema
from headrace.pipes.sources.change_source import ChangeSource, first_offsets
from headrace.pipes.sources.options import SourceOptions, read_options
from headrace.pipes.sources.present_schema import PresentSchema
from headrace.trees.databases import external_database, table_database
from headrace.trees.owners import check_needs, lost

MANAGING: Final = {"auth.user": Privilege.MANAGE_USER, "auth.role": Privilege.MANAGE_ROLE}
"""What statements about users and roles need."""


def validate(attributes: PipeAttributes) -> None:
    """Check the parameters."""
    read_options(attributes, "UTC")


def create(attributes: PipeAttributes, pipe: PipeContext) -> Source:
    """Create the source."""
    options = read_options(attributes, pipe.context.settings.timezone)
    return ChangeSource(pipe, options, lambda: matching(pipe.shared.feeds, options), readable_paths(pipe, options))


def needs(attributes: PipeAttributes) -> Needs:
    """Return what the owner of a pipe has to be allowed."""
    return source_needs(read_options(attributes, "UTC"))


def begin(attributes: PipeAttributes, context: Context) -> Offsets:
    """Return the offsets at which a pipe begins that is created now."""
    options, feeds = read_options(attributes, context.settings.timezone), Feeds(context)
    refuse_tables(options.pattern, context)
    feeds.refresh()
    return first_offsets(context, options, matching(feeds, options))


def refuse_tables(pattern: Pattern, context: Context) -> None:
    """Raise `NotSupportedError` if the series of a pattern are those of tables, which have another source."""
    nodes = split_path(above(pattern))
    external, database = external_database(nodes, context), table_database(nodes, context)
    source = (external, TREE_TABLE) if external is not None else (database, nodes[2] if len(nodes) > 2 else "…")
    if source[0] is not None:
        raise NotSupportedError(
            f"{join_path(nodes)} is no tree, so iotdb-source does not read it",
            hint=f"write 'source'='table-source', 'source.database'='{source[0]}', 'source.table'='{source[1]}'",
        )


def capture(attributes: PipeAttributes, context: Context, pipe_id: str) -> None:
    """Store the present schema, which goes with the history: what changes it later is in the log, or not part of a snapshot."""
    options = read_options(attributes, context.settings.timezone)
    if options.history is not None and options.statements:
        feeds = Feeds(context)
        feeds.refresh()
        schema = PresentSchema(context, options.pattern, options.included, lambda: matching(feeds, options))
        CapturedSchema(context, pipe_id).write(schema)


def reads(attributes: PipeAttributes, context: Context, table: Table) -> bool:
    """Return whether a source reads a tree that is created after its pipe."""
    options = read_options(attributes, context.settings.timezone)
    is_read = options.realtime is not None and table.kind is TableKind.TREE
    return is_read and options.pattern.may_match_below(table.database)


def matching(feeds: Feeds, options: SourceOptions) -> list[TableFeed]:
    """Return the feeds of trees that may have series of a source."""
    return [feed for feed in feeds.trees() if options.pattern.may_match_below(feed.layout.database)]


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
