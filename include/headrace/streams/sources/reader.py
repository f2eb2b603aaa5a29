"""Reads a source's changes once for all streams at the same offset."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Final

from headrace.context import Context
from headrace.model.positions import Offsets, SourceId, source_id
from headrace.model.tables import Database, Table
from headrace.storage.delta.change_columns import changes_schema
from headrace.streams.sources.commit_sizes import CommitSizes
from headrace.streams.sources.tags import with_tags
from headrace.streams.windows.change_batch import Changes, LargeCommit

MAX_CACHED_BATCHES: Final = 8
"""Batches cached for streams that are a little behind."""


class ChangeReader:
    """Cuts a source's changes into batches of whole commits, and caches the last ones."""

    def __init__(self, context: Context, source: Table, database: Database) -> None:
        self.context = context
        self.source = source
        self.database = database
        self._sizes = CommitSizes(context.tables, source)
        self._cache: OrderedDict[int, Changes] = OrderedDict()
        self._mutex = threading.Lock()

    @property
    def id(self) -> SourceId:
        """The source, as offsets name it."""
        return source_id(self.source.database, self.source.name)

    def latest(self) -> Offsets:
        return {self.id: self.context.tables.version(self.source)}

    def read_after(self, offsets: Offsets, tags: tuple[str, ...], last: Offsets | None = None) -> Changes | None:
        first, end = offsets[self.id] + 1, None if last is None else last[self.id]
        with self._mutex:
            changes = self._cache.get(first)
            if changes is None or (end is not None and changes.offsets[self.id] > end):
                changes = self._read(first, self.latest()[self.id] if end is None else end)
                if changes is None:
                    return None
                self._cache[first] = changes
                while len(self._cache) > MAX_CACHED_BATCHES:
                    self._cache.popitem(last=False)
        return self._with_tags(changes, tags)

    def empty_batch(self, offsets: Offsets, tags: tuple[str, ...]) -> Changes:
        rows = changes_schema(self.context.tables.schema(self.source, self.database)).empty_table()
        return self._with_tags(Changes(offsets, rows, is_one_write=True), tags)

    def pending(self, offsets: Offsets) -> tuple[int, int | None]:
        """See `Reader`. A long backlog is counted only as far as `CommitSizes.count_written` looks ahead."""
        first, latest_version = offsets[self.id] + 1, self.latest()[self.id]
        if first > latest_version:
            return 0, None
        return self._sizes.count_written(first, latest_version), self.committed_at(self.id, first)

    def known_pending(self, offsets: Offsets) -> int:
        return self._sizes.count_known(offsets[self.id] + 1)

    def committed_at(self, source: SourceId, version: int) -> int | None:  # noqa: ARG002 - there is one source
        return self.context.tables.changes.committed_at(self.source, version)

    def sync(self) -> None:
        self.context.tables.changes.sync(self.source)

    def _with_tags(self, changes: Changes, tags: tuple[str, ...]) -> Changes:
        if not tags:
            return changes
        add_tags, large = functools.partial(with_tags, self.context.tables, self.source, tags=tags), changes.large
        return replace(changes, source=add_tags(changes.rows) if large is None else replace(large, add_tags=add_tags))

    def _read(self, first: int, latest_version: int) -> Changes | None:
        if first > latest_version:
            self.context.tables.changes.check_offset(self.source, first - 1, latest_version)
            return None
        last = self._last_version(first, latest_version)
        offsets, is_one_write = {self.id: last}, first == last
        if is_one_write and self._sizes.drops(first):  # results keep the rows of dropped subtables
            return Changes(offsets, changes_schema(self.context.tables.schema(self.source, self.database)).empty_table(), True)
        count = self._sizes.count(first) if is_one_write else 0
        if count > self.context.settings.driver_rows:
            stream = functools.partial(self.context.tables.changes.stream, self.source, first)
            inserted = self.context.tables.changes.inserted(self.source, first)
            return Changes(offsets, LargeCommit(self.source.series_key, count, stream, inserted), is_one_write)
        return Changes(offsets, self.context.tables.changes.read(self.source, first, last), is_one_write)

    def _last_version(self, first: int, latest_version: int) -> int:
        """Return the last version of a batch: as many whole commits as the row limit allows, and at least one.

        A commit that drops subtables is a batch of its own.
        """
        if first == latest_version:
            return first
        max_rows, rows, last = self.context.settings.batch_rows, 0, first - 1
        for version in range(first, latest_version + 1):
            rows += self._sizes.count(version)
            if (rows > max_rows or self._sizes.drops(version)) and last >= first:
                break
            last = version
            if self._sizes.drops(version):
                break
        return last
