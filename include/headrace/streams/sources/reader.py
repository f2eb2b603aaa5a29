"""Reads a source's changes once for all streams at the same offset."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Final

from headrace.model.tables import Database, Table
from headrace.storage.delta.changes import changes_schema
from headrace.streams.context import Context
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

    def latest_version(self) -> int:
        """Return the source's latest version."""
        return self.context.tables.version(self.source)

    def read_after(self, version: int, tags: tuple[str, ...], last: int | None = None) -> Changes | None:
        """Return the next batch after a version, with these tags, up to version `last` if given; None if there is none."""
        with self._mutex:
            changes = self._cache.get(version + 1)
            if changes is None or (last is not None and changes.last > last):
                changes = self._read(version + 1, self.latest_version() if last is None else last)
                if changes is None:
                    return None
                self._add_to_cache(changes)
        return self._with_tags(changes, tags)

    def empty_batch(self, version: int, tags: tuple[str, ...]) -> Changes:
        """Return a batch without rows that leaves the offset at a version."""
        rows = changes_schema(self.context.tables.schema(self.source, self.database)).empty_table()
        return self._with_tags(Changes(version + 1, version, rows), tags)

    def pending(self, version: int) -> tuple[int, int | None]:
        """Return the number of rows written after a version, and when the oldest was committed (epoch ms; None if there is none).

        A long backlog is counted only as far as `CommitSizes.count_written` looks ahead.
        """
        latest_version = self.latest_version()
        if version >= latest_version:
            return 0, None
        return self._sizes.count_written(version + 1, latest_version), self.context.tables.committed_at(self.source, version + 1)

    def committed_at(self, version: int) -> int | None:
        """Return when a version was committed, in epoch ms; None if unknown."""
        return self.context.tables.committed_at(self.source, version)

    def _with_tags(self, changes: Changes, tags: tuple[str, ...]) -> Changes:
        if not tags:
            return changes
        if isinstance(changes.source, LargeCommit):
            add_tags = functools.partial(with_tags, self.context.tables, self.source, tags=tags)
            return replace(changes, source=replace(changes.source, add_tags=add_tags))
        return replace(changes, source=with_tags(self.context.tables, self.source, changes.source, tags))

    def _add_to_cache(self, changes: Changes) -> None:
        self._cache[changes.first] = changes
        while len(self._cache) > MAX_CACHED_BATCHES:
            self._cache.popitem(last=False)

    def _read(self, first: int, latest_version: int) -> Changes | None:
        if first > latest_version:
            return None
        last = self._last_version(first, latest_version)
        if first == last and self._sizes.count(first) > self.context.settings.driver_rows:
            inserted = self.context.tables.inserted_rows(self.source, first)
            if inserted is not None:
                return Changes(first, last, LargeCommit(inserted))
        return Changes(first, last, self.context.tables.changes(self.source, first, last))

    def _last_version(self, first: int, latest_version: int) -> int:
        """Return the last version of a batch: as many whole commits as the row limit allows, and at least one."""
        if first == latest_version:
            return first
        max_rows, rows, last = self.context.settings.batch_rows, 0, first - 1
        for version in range(first, latest_version + 1):
            rows += self._sizes.count(version)
            if rows > max_rows and last >= first:
                break
            last = version
        return last
