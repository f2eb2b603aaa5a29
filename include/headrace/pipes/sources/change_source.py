"""What sources of tables have in common: first the points that there are, then what is written, changed and deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headrace.context import Context
from headrace.history.chunks import MAX_CHUNKS
from headrace.model.access import EVERY_PATH, PathFilter
from headrace.model.ledger import Chunk, ChunkState
from headrace.model.pipes import NEXT_CHUNK
from headrace.model.positions import STATEMENTS, Offsets, SourceId
from headrace.pipes.events import DeleteEvent, DeviceRows, Event, InsertEvent, StatementEvent, rows_of
from headrace.pipes.feeds import FeedBatch, Feeds, TableFeed, unless_dropped
from headrace.pipes.history import HISTORY, History, is_for_tasks
from headrace.pipes.large_commits import LargeCommits
from headrace.pipes.plugins import PipeContext, Source, SourceBatch
from headrace.pipes.selection import Selection
from headrace.pipes.sources.captured_schema import CapturedSchema
from headrace.pipes.sources.options import SourceOptions, TimeWindow
from headrace.pipes.sources.present_schema import SCHEMA, PresentSchema, is_read
from headrace.pipes.sources.statements import RowsFirst, StatementLog

LEDGER_PAUSE_S: Final = 1.0
"""How often a pipe looks whether tasks have transferred its history."""


class ChangeSource(Source):
    """Reads the rows of tables that match a pattern.

    Its offsets are the versions of the tables; those of tables that were created later count from 0. While the history is
    transferred they stay at the versions that end it. A table that was dropped ends without an error.

    With statements, the present schema comes before the history; those of the log of schema changes come between the commits of the
    table that they are about.
    """

    def __init__(
        self,
        pipe: PipeContext,
        options: SourceOptions,
        tables: Callable[[], list[TableFeed]],
        readable: Callable[[], PathFilter] = lambda: EVERY_PATH,
    ) -> None:
        """Create a source; `tables` returns the present tables, and `readable` the paths whose data may be read now."""
        self._pipe = pipe
        self._context = pipe.context
        self._options = options
        self._tables = tables
        self._feeds: Feeds = pipe.shared.feeds
        self._readable = readable
        self._selection = Selection(options.pattern, readable)
        self.history = History(
            pipe.context, pipe.pipe_id, self._selection, options.history or options.realtime or TimeWindow(), tables
        )
        self._schema = PresentSchema(pipe.context, options.pattern, options.included, tables)
        self._captured = CapturedSchema(pipe.context, pipe.pipe_id)
        self._log = StatementLog(pipe.context, self._feeds, options.pattern, options.included)
        self._follows_log = options.statements and options.realtime is not None
        if self._follows_log:
            self._feeds.follow_statements()
        self._large = LargeCommits(pipe.context)
        self._chunks: list[Chunk] | None = None
        self._recorded = 0
        self._look_at = 0.0
        self._first: SourceId = ""

    def read(self, offsets: Offsets, until: Offsets | None = None) -> SourceBatch | None:
        """Return the next chunk of the history, else what was committed to any of the tables."""
        self._readable()  # fails if the owner may read nothing any more
        if not self._follows_log:
            offsets = without(offsets, STATEMENTS)
        elif STATEMENTS not in offsets and (until is None or STATEMENTS in until):
            return self._begin_statements(offsets, until)
        if not is_read(offsets):
            return self._read_schema(offsets)
        if NEXT_CHUNK in offsets:
            return self._read_history(offsets)
        if self._options.realtime is None:
            return None
        if STATEMENTS in offsets:
            return self._read_in_order(offsets, until, self._options.realtime)
        return self._read_changes(offsets, until, self._options.realtime)

    def has_news(self, offsets: Offsets) -> bool:
        """Return whether a table has a newer version than is handled, there are statements, or the history is not done."""
        if not is_read(offsets) or (self._follows_log and STATEMENTS not in offsets):
            return True
        if NEXT_CHUNK in offsets:
            return time.monotonic() >= self._look_at
        if self._feeds.newest_statement > offsets.get(STATEMENTS, self._feeds.newest_statement):
            return True
        feeds = self._tables() if self._options.realtime is not None else []
        return any(not self._feeds.is_read(feed.id, feed.offset(offsets)) for feed in feeds)

    def poll(self) -> None:
        """Read the versions of the tables; a driver does this for all of its pipes."""
        self._feeds.poll()

    def has_ended(self, offsets: Offsets) -> bool:
        """Return whether this is a snapshot whose history is done."""
        return self._options.is_snapshot and NEXT_CHUNK not in offsets and is_read(offsets)

    def pending(self, offsets: Offsets) -> tuple[int, int | None]:
        """Return the rows of chunks that are not done, and those of commits that are not handled."""
        rows, since = 0, []
        if NEXT_CHUNK in offsets:
            rows += sum(chunk.rows for chunk in self._planned(offsets) if chunk.number >= offsets[NEXT_CHUNK])
        for feed in self._tables() if self._options.realtime is not None else []:
            with unless_dropped(feed):
                own, instant = feed.reader.pending({feed.id: feed.offset(offsets)})
                rows += own
                since += [] if instant is None else [instant]
        rows += max(0, self._feeds.newest_statement - offsets.get(STATEMENTS, self._feeds.newest_statement))
        return rows, min(since, default=None)

    def acknowledge(self, offsets: Offsets) -> None:
        """Record in the ledger which chunks of the history are done."""
        chunks = self._chunks
        if chunks is None:
            return
        done = offsets.get(NEXT_CHUNK, len(chunks))
        for chunk in chunks[self._recorded : done]:
            if chunk.state is not ChunkState.DONE:
                self._context.catalog.ledger.claim(chunk.job_id, HISTORY, chunk.number)
                self._context.catalog.ledger.finish(chunk.job_id, HISTORY, chunk.number, chunk.rows)
        self._recorded = done
        if NEXT_CHUNK not in offsets:
            self._chunks = None

    def close(self) -> None:
        """Stop reading a large commit, and following the log of schema changes."""
        self._large.close()
        if self._follows_log:
            self._follows_log = False
            self._feeds.follow_statements(-1)

    def _planned(self, offsets: Offsets) -> list[Chunk]:
        """Return the chunks of the history, planned on first use."""
        if self._chunks is None:
            max_chunks = MAX_CHUNKS if self._pipe.leaves_history else None
            self._chunks = self.history.plan(HISTORY, offsets, max_chunks=max_chunks) if self._options.inserts else []
        return self._chunks

    def _is_left_to_tasks(self, chunks: Sequence[Chunk]) -> bool:
        """Return whether tasks of Airflow transfer the history."""
        return self._pipe.leaves_history and is_for_tasks(self._context, chunks)

    def _read_schema(self, offsets: Offsets) -> SourceBatch | None:
        """Return the next statements of the schema that was captured when the pipe was created, else of the present one."""
        if SCHEMA in offsets and self._captured.exists():
            return self._captured.read(offsets)
        return self._schema.read(offsets)

    def _read_history(self, offsets: Offsets) -> SourceBatch | None:
        chunks, number = self._planned(offsets), offsets[NEXT_CHUNK]
        if number >= len(chunks):
            return SourceBatch((), without(offsets, NEXT_CHUNK))
        after = {**offsets, NEXT_CHUNK: number + 1}
        if chunks[number].state is ChunkState.DONE:
            return SourceBatch((), after)
        if self._is_left_to_tasks(chunks):
            self._chunks, self._look_at = None, time.monotonic() + LEDGER_PAUSE_S
            return None
        return SourceBatch(list(self.history.events(chunks[number], offsets)), after)

    def _begin_statements(self, offsets: Offsets, until: Offsets | None) -> SourceBatch:
        """Return the batch after which statements are transferred of a pipe that was altered and did not transfer any before."""
        newest = self._context.catalog.schema_log.newest() if until is None else until[STATEMENTS]
        return SourceBatch((), {**offsets, STATEMENTS: newest})

    def _read_in_order(self, offsets: Offsets, until: Offsets | None, window: TimeWindow) -> SourceBatch | None:
        """Return the next statements or rows, so that rows come after the statements that they need."""
        if until is not None:
            last = until.get(STATEMENTS, 0)
            is_statements = last > offsets[STATEMENTS]
            return self._log.again(offsets, last) if is_statements else self._read_changes(offsets, until, window)
        # What has been committed by now needs no statement that is logged later.
        ends: dict[str, int] = {}
        for feed in self._tables():
            with unless_dropped(feed):
                ends |= feed.offsets(feed.version_after(offsets))
        following = self._log.next(offsets)
        if isinstance(following, SourceBatch):
            return following
        if following is not None:
            rows = self._read_changes(offsets, following.feed.offsets(following.version), window)
            return self._skip_to(offsets, following) if rows is None else rows
        return self._read_changes(offsets, ends, window)

    def _skip_to(self, offsets: Offsets, following: RowsFirst) -> SourceBatch:
        """Return an empty batch up to the version of a statement, whose table was dropped or restored to an earlier version."""
        return SourceBatch((), {**without(offsets, following.feed.part_key), **following.feed.offsets(following.version)})

    def _read_changes(self, offsets: Offsets, until: Offsets | None, window: TimeWindow) -> SourceBatch | None:
        """Return what was committed, up to `until` if it is set: at most `batch_rows` rows, unless one table's commits have more.

        The table whose commits do not fit is the first of the next batch. Events are in the order of the tables, whichever was
        first, so that a batch that is repeated is the same.
        """
        feeds = self._tables()
        first = next((index for index, feed in enumerate(feeds) if feed.id == self._first), 0)
        after, rows, events = dict(offsets), 0, dict[int, list[Event]]()
        for index in (*range(first, len(feeds)), *range(first)):
            feed = feeds[index]
            batch = self._read_feed(feed, offsets, until)
            if batch is None:
                continue
            rows += sum(map(rows_of, batch.events))
            if events and (batch.large is not None or rows > self._context.settings.batch_rows):
                self._first = feed.id
                break
            if batch.large is not None:
                self._first = feeds[(index + 1) % len(feeds)].id
                return self._read_large(feed, batch, offsets, window)
            events[index] = self._select(batch.events, window)
            after |= feed.offsets(batch.last)
        return SourceBatch([event for index in sorted(events) for event in events[index]], after) if events else None

    def _read_feed(self, feed: TableFeed, offsets: Offsets, until: Offsets | None) -> FeedBatch | None:
        """Return the next changes of a table, up to `until` if it is set; None if there are none, or it was dropped."""
        offset = feed.offset(offsets)
        end = None if until is None else feed.offset(until)
        if until is not None and feed.part(until) > feed.part(offsets):
            end = None  # a part of the large commit that comes next, after which the offset is the same
        elif end is not None and end <= offset:
            return None
        with unless_dropped(feed):
            return feed.read(offset, end)
        return None

    def _read_large(self, feed: TableFeed, batch: FeedBatch, offsets: Offsets, window: TimeWindow) -> SourceBatch:
        """Return the next part of a large commit, which is a batch of its own."""
        assert batch.large is not None
        part, number = feed.part_key, feed.part(offsets)
        events: Sequence[Event] | None = None
        with unless_dropped(feed):
            events = self._large.read(feed, batch.last, batch.large, number)
        if events is None:
            return SourceBatch((), {**without(offsets, part), **feed.offsets(batch.last)})
        return SourceBatch(self._select(events, window), {**offsets, **feed.offsets(feed.offset(offsets)), part: number + 1})

    def _select(self, events: Sequence[Event], window: TimeWindow) -> list[Event]:
        """Return what the source captures of events of a table."""
        selected: list[Event] = []
        for event in events:
            if isinstance(event, InsertEvent) and self._options.inserts:
                selected += [InsertEvent(rows) for rows in self._select_rows(event.data, window)]
            elif isinstance(event, DeleteEvent) and self._options.deletes:
                ranges = window.ticks(event.data.precision).clip(event.ranges)
                selected += [DeleteEvent(rows, ranges) for rows in self._select_rows(event.data, window)]
            elif isinstance(event, StatementEvent) and event.category in self._options.included:
                selected.append(event)
        return selected

    def _select_rows(self, data: DeviceRows, window: TimeWindow) -> list[DeviceRows]:
        selected = self._selection.apply(data, window.ticks(data.precision))
        return [] if selected is None else [selected]


def without(offsets: Mapping[str, int], key: str) -> Offsets:
    """Return offsets without one of them."""
    return {name: offset for name, offset in offsets.items() if name != key}


def first_offsets(context: Context, options: SourceOptions, tables: Sequence[TableFeed]) -> Offsets:
    """Return the offsets at which a pipe begins now: the versions of the tables, and its history if it has one."""
    offsets: dict[str, int] = {}
    if options.statements and options.realtime is not None:
        # Before the versions: rows that follow these may need any later statement.
        offsets[STATEMENTS] = context.catalog.schema_log.newest()
    for feed in tables:
        with unless_dropped(feed):
            offsets |= feed.offsets(feed.version())
            context.tables.changes.sync(feed.table)
    if options.history is not None:
        offsets |= {NEXT_CHUNK: 0} | ({SCHEMA: 0} if options.statements else {})
    return offsets
