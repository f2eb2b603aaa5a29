"""The number of rows in each commit of a source."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

from headrace.errors import Error
from headrace.model.tables import Table
from headrace.storage import CommitSize, Tables

MAX_SIZES: Final = 20_000
"""Versions whose sizes are kept; each takes some 250 bytes."""
MAX_VERSIONS_AHEAD: Final = 10_000
"""A backlog is counted at most this far."""
MAX_LOG_READS: Final = 100
"""Log entries that one count may read. The next count continues from the cached sizes."""


class CommitSizes:
    """Sizes of the commits of a source table. Reads each version's log entry once, without holding the lock."""

    def __init__(self, tables: Tables, source: Table) -> None:
        self._tables = tables
        self._source = source
        self._sizes: dict[int, CommitSize] = {}
        self._mutex = threading.Lock()

    def count(self, version: int) -> int:
        """Return the number of changes in a version."""
        return self._size(version).changes

    def drops(self, version: int) -> bool:
        """Return whether a version dropped subtables."""
        return self._size(version).drops

    def _size(self, version: int) -> CommitSize:
        size = self._sizes.get(version)
        if size is None:
            size = self._tables.changes.size(self._source, version)
            self._add(version, size)
        return size

    def count_written(self, first: int, last: int) -> int:
        """Return the number of rows that versions `first` to `last` wrote, as far as the limits on reading allow."""
        return self._count(first, last, MAX_LOG_READS)

    def count_known(self, first: int) -> int:
        """Return the number of rows that versions from `first` on wrote, as far as their sizes are known without reading."""
        return self._count(first, first + MAX_VERSIONS_AHEAD, 0)

    def _count(self, first: int, last: int, reads: int) -> int:
        """Return the number of rows that versions wrote, as far as their sizes are known, or this many reads show them."""
        total = 0
        for version in range(first, min(last, first + MAX_VERSIONS_AHEAD - 1) + 1):
            size = self._sizes.get(version)
            if size is None and reads > 0:
                reads -= 1
                with suppress(Error):  # the micro-batch that reads this commit raises it
                    size = self._size(version)
            if size is None:
                break
            total += size.written
        return total

    def _add(self, version: int, size: CommitSize) -> None:
        with self._mutex:
            self._sizes[version] = size
            while len(self._sizes) > MAX_SIZES:
                del self._sizes[next(iter(self._sizes))]
