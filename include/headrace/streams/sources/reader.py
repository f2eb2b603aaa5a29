"""Reading a source's changes once for all streams that have the same offset."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Final

from headrace.model.tables import Database, Table
from headrace.storage.delta.changes import changes_schema
from headrace.streams.context import Context
from headrace.streams.sources.sizes import CommitSizes
from headrace.streams.sources.tags import with_tags
from headrace.streams.windows.changes import Changes

KEPT: Final = 8
"""Batches that are kept for streams that come a little later."""


class ChangeReader:
    """Cuts a source's changes into batches of whole commits, and keeps the last ones."""

    def __init__(self, context: Context, source: Table, database: Database) -> None:
        self.context = context
        self.source = source
        self.database = database
        self._sizes = CommitSizes(context.tables, source)
        self._kept: OrderedDict[int, Changes] = OrderedDict()
        self._mutex = threading.Lock()

    def newest(self) -> int:
        """The source's newest version."""
        return self.context.tables.version(self.source)

    def after(self, version: int, tags: tuple[str, ...], last: int | None = None) -> Changes | None:
        """Return the next batch after a version, with these tags; None if there is none. With `last`, none later than that."""
        with self._mutex:
            changes = self._kept.get(version + 1)
            if changes is None or (last is not None and changes.last > last):
                changes = self._read(version + 1, self.newest() if last is None else last)
                if changes is None:
                    return None
                self._keep(changes)
        return self._with_tags(changes, tags)

    def nothing(self, version: int, tags: tuple[str, ...]) -> Changes:
        """Return a batch without rows, which leaves the offset at a version."""
        rows = changes_schema(self.context.tables.schema(self.source, self.database)).empty_table()
        return self._with_tags(Changes(version + 1, version, rows), tags)

    def pending(self, version: int) -> tuple[int, int | None]:
        """Return how many changes follow a version, and when the oldest of them was committed (epoch ms, None if there is none).

        Of a backlog that is longer than `sizes` looks ahead, it returns the changes up to there.
        """
        newest = self.newest()
        if version >= newest:
            return 0, None
        return self._sizes.total(version + 1, newest), self.context.tables.committed_at(self.source, version + 1)

    def committed_at(self, version: int) -> int | None:
        """Return when a version was committed, in epoch ms; None if nothing tells."""
        return self.context.tables.committed_at(self.source, version)

    def _with_tags(self, changes: Changes, tags: tuple[str, ...]) -> Changes:
        return replace(changes, rows=with_tags(self.context.tables, self.source, changes.rows, tags)) if tags else changes

    def _keep(self, changes: Changes) -> None:
        self._kept[changes.first] = changes
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def _read(self, first: int, newest: int) -> Changes | None:
        if first > newest:
            return None
        last = self._last(first, newest)
        return Changes(first, last, self.context.tables.changes(self.source, first, last))

    def _last(self, first: int, newest: int) -> int:
        """Return the last version of a batch: as many whole commits as the bound allows, and at least one."""
        if first == newest:
            return first
        most, rows, last = self.context.settings.batch_rows, 0, first - 1
        for version in range(first, newest + 1):
            rows += self._sizes.of(version)
            if rows > most and last >= first:
                break
            last = version
        return last
