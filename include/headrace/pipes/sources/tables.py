"""The source `table-source`: a supertable or a plain table of the TDengine language, such as the target of a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from headrace.context import Context
from headrace.errors import NotSupportedError
from headrace.model.access import EVERY_PATH, PathFilter
from headrace.model.needs import Needs
from headrace.model.paths import quote_node
from headrace.model.positions import Offsets, source_id
from headrace.model.tables import Table, TableId
from headrace.model.time import Precision
from headrace.model.types import DataType
from headrace.pipes import inclusion
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.changes import TableLayout
from headrace.pipes.events import Measurement
from headrace.pipes.feeds import Feeds, TableFeed
from headrace.pipes.plugins import PipeContext, Source
from headrace.pipes.sources.change_source import ChangeSource, first_offsets
from headrace.pipes.sources.options import SourceOptions, read_options
from headrace.trees.devices import TREE_KINDS, device_path, table_path
from headrace.trees.owners import check_needs

DATABASE: Final = ("extractor.database", "source.database")
TABLE: Final = ("extractor.table", "source.table")


def validate(attributes: PipeAttributes) -> None:
    """Check the parameters."""
    read_options(attributes, "UTC")
    for key in (DATABASE, TABLE):
        if attributes.first(*key) is None:
            raise pipe_error(f"{key[1]} must be specified", hint="name the database and the table, such as 'database'='power'")


def create(attributes: PipeAttributes, pipe: PipeContext) -> Source:
    """Create the source, which reads as long as the owner of the pipe may read the table."""
    feeds: Feeds = pipe.shared.feeds
    access, needed, name = pipe.context.catalog.access, needs(attributes), table_name(attributes)
    feeds.follow_table(source_id(*name), lambda: table_feed(pipe.context, *name))
    options = table_options(attributes, pipe.context.settings.timezone)

    def readable() -> PathFilter:
        check_needs(access.owner_permissions(pipe.owner), pipe.owner, needed)
        return EVERY_PATH

    return ChangeSource(pipe, options, lambda: feeds.table(source_id(*name)), readable)


def needs(attributes: PipeAttributes) -> Needs:
    """Return what the owner of a pipe has to be allowed."""
    return Needs(reads=(TableId(*table_name(attributes)),))


def table_name(attributes: PipeAttributes) -> tuple[str, str]:
    """Return the database and the name of the table."""
    return attributes.text(*DATABASE), attributes.text(*TABLE)


def begin(attributes: PipeAttributes, context: Context) -> Offsets:
    """Return the offsets at which a pipe begins that is created now; raise `NotFoundError` if there is no such table."""
    feed = table_feed(context, *table_name(attributes))
    return first_offsets(context, table_options(attributes, context.settings.timezone), [feed])


def reads(attributes: PipeAttributes, context: Context, table: Table) -> bool:
    """Return whether a source reads a table that is created after its pipe: in place of one that was dropped."""
    options = read_options(attributes, context.settings.timezone)
    return options.realtime is not None and table_name(attributes) == (table.database, table.name)


def table_options(attributes: PipeAttributes, timezone: str) -> SourceOptions:
    """Return the options of a source. Tables have no statements that trees understand, so only points are transferred."""
    options = read_options(attributes, timezone)
    return replace(options, included=options.included & {inclusion.INSERT, inclusion.DELETE})


def table_feed(context: Context, database: str, name: str) -> TableFeed:
    """Return the change feed of a table.

    Raises:
        NotFoundError: It does not exist.
        NotSupportedError: It is virtual.
    """
    created = context.catalog.tables.created(database, name) or 0
    table, owner = context.catalog.tables.get(database, name), context.catalog.databases.get(database)
    if table.is_virtual:
        raise NotSupportedError(
            f"{database}.{name} is virtual and has no rows of its own", hint="name the tables that it refers to"
        )
    return TableFeed(context, table, owner, table_layout(owner.precision), created)


def table_layout(precision: Precision) -> Callable[[Table], TableLayout]:
    """Return what makes the layout of a table: its subtables are devices, as the IoTDB language sees them."""

    def layout(table: Table) -> TableLayout:
        columns = {
            column.name: Measurement(quote_node(column.name), DataType(TREE_KINDS[column.type.kind]))
            for column in table.columns
            if column.name != table.timestamp.name
        }
        return TableLayout(
            table_path(table),
            precision,
            table.timestamp.name,
            table.series_key,
            columns,
            device_path=partial(device_path, table),
            casts=True,
        )

    return layout
