"""Reading a source's changes once for all streams that are at the same place."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from headrace.model.tables import Table
from headrace.streams.context import Context
from headrace.streams.incoming import Changes
from headrace.streams.sources import with_tags

MOST_SIZES: Final = 100_000
KEPT: Final = 8
"""Batches that are kept for streams that come a little later."""


class ChangeReader:
    """Cuts a source's changes into batches of whole commits, and keeps the last ones."""

    def __init__(self, context: Context, source: Table) -> None:
        self.context = context
        self.source = source
        self._kept: OrderedDict[int, Changes] = OrderedDict()
        self._sizes: OrderedDict[int, int] = OrderedDict()
        self._mutex = threading.Lock()

    def newest(self) -> int:
        """The source's newest version."""
        return self.context.tables.version(self.source)

    def after(self, version: int, tags: tuple[str, ...], last: int | None = None) -> Changes | None:
        """The next batch after a version, with these tags; None when there is none. With `last`, none later than that."""
        with self._mutex:
            changes = self._kept.get(version + 1)
            if changes is None or (last is not None and changes.last > last):
                changes = self._read(version + 1, self.newest() if last is None else last)
                if changes is None:
                    return None
                self._keep(changes)
        if not tags:
            return changes
        rows = with_tags(self.context.tables, self.source, changes.rows, tags)
        return Changes(changes.first, changes.last, rows)

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
        """The last version of a batch: as many whole commits as the bound allows, and at least one."""
        if first == newest:
            return first
        most, rows, last = self.context.settings.batch_rows, 0, first - 1
        for version in range(first, newest + 1):
            rows += self._size(version)
            if rows > most and last >= first:
                break
            last = version
        return last

    def pending(self, version: int) -> tuple[int, int | None]:
        """Changes after a version, and when the oldest of them was committed (epoch ms); None when there is none."""
        newest = self.newest()
        if version >= newest:
            return 0, None
        with self._mutex:
            rows = sum(self._size(one) for one in range(version + 1, newest + 1))
        return rows, self.context.tables.committed_at(self.source, version + 1)

    def _size(self, version: int) -> int:
        """How many changes a version has; each version's log is read once."""
        if version not in self._sizes:
            self._sizes[version] = self.context.tables.change_rows(self.source, version, version)
            while len(self._sizes) > MOST_SIZES:
                self._sizes.popitem(last=False)
        return self._sizes[version]
