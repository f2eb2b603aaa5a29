"""Change feeds of tables, read once for all pipes of a driver that are at the same offsets."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from headrace.context import Context
from headrace.errors import DamagedLogError, HistoryGoneError, NotFoundError, StorageError, TransientError
from headrace.model.positions import Offsets, SourceId, source_id
from headrace.model.tables import Database, Table, TableKind
from headrace.model.trees import TREE_TABLE
from headrace.pipes.changes import TableLayout, change_events
from headrace.pipes.events import Event, Measurement
from headrace.storage.delta.lru_cache import LruCache
from headrace.streams.sources.reader import ChangeReader
from headrace.streams.windows.change_batch import LargeCommit

logger = logging.getLogger(__name__)

MAX_CACHED_BATCHES: Final = 8
"""Converted batches of a table that are kept for pipes that are a little behind."""
UNKNOWN: Final = -1
UNREADABLE: Final = -2
MAX_CACHED_DEVICES: Final = 100_000
"""Devices of a table of which is remembered whether they are aligned."""


@dataclass(frozen=True, slots=True)
class FeedBatch:
    """The changes of whole commits up to a version, as events; or one large commit, which is read in parts."""

    last: int
    events: Sequence[Event]
    large: LargeCommit | None = None


class TableFeed:
    """The change feed of one table. Thread-safe."""

    def __init__(
        self, context: Context, table: Table, database: Database, layout: Callable[[Table], TableLayout], created: int = 0
    ) -> None:
        """Create the feed. `created` identifies the table among those that have had its name; 0 if unknown."""
        self.context = context
        self.created = created
        self.table = table
        self.database = database
        self.id = source_id(table.database, table.name)
        self.reader = ChangeReader(context, table, database)
        self._layout = layout
        self._columns = -1
        self.layout = layout(table)
        self._batches: OrderedDict[tuple[int, int], Sequence[Event]] = OrderedDict()
        self._mutex = threading.Lock()

    def version(self) -> int:
        """Return the newest version of the table."""
        return self.context.tables.version(self.table)

    def version_after(self, offsets: Offsets) -> int:
        """Return the newest version; raise `OffsetAheadError` if offsets are ahead of it."""
        newest = self.version()
        self.context.tables.changes.check_offset(self.table, self.offset(offsets), newest)
        return newest

    def is_of(self, offsets: Offsets) -> bool:
        """Return whether offsets are those of this table, not of one that has had its name."""
        return offsets.get(self._created_key, self.created) == self.created

    def offset(self, offsets: Offsets) -> int:
        """Return the last version that has been read."""
        return offsets.get(self.id, 0) if self.is_of(offsets) else 0

    def offsets(self, version: int) -> Offsets:
        """Return the offsets after a version."""
        return {self.id: version} | ({self._created_key: self.created} if self.created else {})

    @property
    def part_key(self) -> str:
        """The key in offsets of the next part of a large commit."""
        return f"{self.id}#part"

    def part(self, offsets: Offsets) -> int:
        """Return the number of the next part of a large commit."""
        return offsets.get(self.part_key, 0) if self.is_of(offsets) else 0

    @property
    def _created_key(self) -> str:
        return created_key(self.id)

    def is_dropped(self) -> bool:
        """Return whether the table was dropped."""
        return bool(self.created) and created_at(self.context, self.table) != self.created

    def read(self, offset: int, end: int | None = None) -> FeedBatch | None:
        """Return what follows a version, up to `end` if it is given; None if there is nothing."""
        until = None if end is None else {self.id: end}
        changes = self.reader.read_after({self.id: offset}, (), until)
        if changes is None:
            return None
        self.reader.sync()
        last = changes.offsets[self.id]
        if changes.large is not None:
            return FeedBatch(last, (), changes.large)
        with self._mutex:
            key = (offset, last)
            if key not in self._batches:
                self._batches[key] = self.events(changes.rows)
                while len(self._batches) > MAX_CACHED_BATCHES:
                    self._batches.popitem(last=False)
            return FeedBatch(last, self._batches[key])

    def events(self, rows: pa.Table) -> list[Event]:
        """Return the events of changes of the table, ordered by version."""
        ranges = partial(self.context.tables.changes.deleted_ranges, self.table)
        return change_events(rows, self.layout_of(rows.column_names), ranges)

    def layout_of(self, names: Sequence[str]) -> TableLayout:
        """Return the layout of rows, read again if they have columns that it lacks."""
        if len(names) != self._columns:
            self._columns = len(names)
            if not {*self.layout.columns, *self.layout.key}.issuperset(names):
                self.table = self.context.catalog.tables.get(self.table.database, self.table.name)
                self.layout = self._layout(self.table)
        return self.layout


def created_key(id: SourceId) -> str:
    """Return the key in offsets of when the table was created to which they belong."""
    return f"{id}#created"


def created_at(context: Context, table: Table) -> int | None:
    """Return when the present table of a name was created, by which feeds tell it from earlier ones; None if there is none."""
    if table.kind is TableKind.TREE:
        return context.catalog.trees.created().get(table.database)
    return context.catalog.tables.created(table.database, table.name)


@contextmanager
def unless_dropped(feed: TableFeed) -> Iterator[None]:
    """Suppress errors of reading a table that was dropped."""
    try:
        yield
    except (NotFoundError, StorageError, HistoryGoneError):
        if not feed.is_dropped():
            raise


def tree_layout(context: Context, database: Database) -> Callable[[Table], TableLayout]:
    """Return what makes the layout of the table of a tree."""
    # By path: the newest statement at which it was read, since a statement may remove a device and create it again.
    alignments: LruCache[str, tuple[int, bool]] = LruCache(MAX_CACHED_DEVICES, lambda _: 1)

    def aligned(paths: Sequence[str]) -> frozenset[str]:
        newest = context.catalog.schema_log.newest()
        read = {path: alignments.get(path) for path in paths}
        outdated = [path for path, alignment in read.items() if alignment is None or alignment[0] != newest]
        devices = context.catalog.trees.find(database.name, outdated) if outdated else {}
        for path in outdated:
            # Rows of a device that was removed since are like those before, which the receiver has. INSERT may create it again.
            before = read[path]
            alignment = (newest, devices[path].aligned) if path in devices else (UNKNOWN, before is not None and before[1])
            read[path] = alignment
            alignments.put(path, alignment)
        return frozenset(path for path, alignment in read.items() if alignment is not None and alignment[1])

    def layout(table: Table) -> TableLayout:
        columns = {
            column.name: Measurement(column.comment or column.name, column.type)
            for column in table.columns
            if column.name != table.timestamp.name
        }
        return TableLayout(database.name, database.precision, table.timestamp.name, table.series_key, columns, aligned=aligned)

    return layout


class Feeds:
    """The change feeds of a driver's pipes: those of all trees, and of tables that sources ask for. Thread-safe."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._feeds: dict[SourceId, TableFeed] = {}
        self._trees: tuple[SourceId, ...] = ()
        self._tables: dict[SourceId, Callable[[], TableFeed]] = {}
        self._versions: dict[SourceId, int] = {}
        self._unreadable: set[SourceId] = set()
        self._followers = 0
        self._newest_statement = 0
        self._mutex = threading.Lock()

    def refresh(self) -> None:
        """Take note of trees that have been created or dropped, and of tables that sources ask for."""
        for id in list(self._tables):
            self._refresh_table(id)
        created = {source_id(name, TREE_TABLE): (name, time) for name, time in self.context.catalog.trees.created().items()}
        with self._mutex:
            for id in self._trees:
                feed = self._feeds.get(id)
                if feed is not None and (id not in created or created[id][1] != feed.created):
                    self._feeds.pop(id, None)
                    self._versions.pop(id, None)
            for id, (name, time) in created.items():
                if id not in self._feeds:
                    with suppress(NotFoundError):  # it was dropped since
                        self._feeds[id] = self._tree_feed(name, time)
            self._trees = tuple(created)

    def _refresh_table(self, id: SourceId) -> None:
        """Open the feed of a table that exists, and drop that of one that does not, or has had its name."""
        feed = self._feeds.get(id)
        if feed is not None and not feed.is_dropped():
            return
        with self._mutex:
            self._feeds.pop(id, None)
            self._versions.pop(id, None)
            with suppress(NotFoundError):
                self._feeds[id] = self._tables[id]()

    def poll(self) -> None:
        """Read the versions of all tables, and if a source follows it, the newest statement of the log of schema changes."""
        versions, unreadable = {}, set[SourceId]()
        for id, feed in list(self._feeds.items()):
            try:
                versions[id] = feed.version()
            except NotFoundError:  # it was dropped; `refresh` takes note
                continue
            except DamagedLogError:  # which the pipes raise that read it
                versions[id] = UNREADABLE
            except TransientError as error:
                if id not in self._unreadable:  # polls repeat many times a second
                    logger.warning("cannot read the version of %s; trying again: %s", id, error.message)
                unreadable.add(id)
                versions[id] = self._versions.get(id, 0)
        self._versions, self._unreadable = versions, unreadable
        if self._followers:
            with suppress(TransientError):  # rows are read without the catalog, too
                self._newest_statement = self.context.catalog.schema_log.newest()

    def follow_statements(self, count: int = 1) -> None:
        """Take note that a source follows the log of schema changes; with -1, that it no longer does."""
        with self._mutex:
            self._followers += count

    @property
    def newest_statement(self) -> int:
        """The newest statement of the log of schema changes when it was last polled."""
        return self._newest_statement

    def tree(self, database: str) -> TableFeed | None:
        """Return the feed of a tree; None if there is no such tree."""
        return self._feeds.get(source_id(database, TREE_TABLE)) if database else None

    def trees(self) -> list[TableFeed]:
        """Return the feeds of all trees."""
        return [self._feeds[id] for id in self._trees if id in self._feeds]

    def is_read(self, id: SourceId, offset: int) -> bool:
        """Return whether an offset was the version of a table when that was last polled, or it never was."""
        return self._versions.get(id, offset) == offset

    def follow_table(self, id: SourceId, create: Callable[[], TableFeed]) -> None:
        """Follow a table, whose feed `create` opens, now and whenever a table of the name is created."""
        with self._mutex:
            self._tables[id] = create
        self._refresh_table(id)

    def table(self, id: SourceId) -> list[TableFeed]:
        """Return the feed of a table that is followed; none while there is no such table."""
        feed = self._feeds.get(id)
        return [] if feed is None else [feed]

    @property
    def versions(self) -> Mapping[SourceId, int]:
        """The versions of all tables when they were last polled."""
        return self._versions

    def _tree_feed(self, name: str, created: int) -> TableFeed:
        database = self.context.catalog.databases.get(name)
        table = self.context.catalog.tables.get(name, TREE_TABLE)
        return TableFeed(self.context, table, database, tree_layout(self.context, database), created)
