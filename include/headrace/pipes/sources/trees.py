"""The source `iotdb-source`: the series of trees that match a pattern."""

from __future__ import annotations

from headrace.context import Context
from headrace.model.needs import Needs
from headrace.model.positions import Offsets
from headrace.model.tables import Table, TableKind
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.feeds import Feeds, TableFeed
from headrace.pipes.plugins import PipeContext, Source
from headrace.pipes.sources.captured_schema import CapturedSchema
from headrace.pipes.sources.change_source import ChangeSource, first_offsets
from headrace.pipes.sources.options import SourceOptions, read_options
from headrace.pipes.sources.owner_access import readable_paths, source_needs
from headrace.pipes.sources.present_schema import PresentSchema


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
    feeds.refresh()
    return first_offsets(context, options, matching(feeds, options))


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
