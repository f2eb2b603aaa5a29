"""How many changes the commits of a source have."""

from __future__ import annotations

import threading
from typing import Final

from headrace.errors import Error
from headrace.model.tables import Table
from headrace.storage import Tables

MAX_SIZES: Final = 100_000
MAX_VERSIONS_AHEAD: Final = 10_000
"""A backlog is counted this far."""
MAX_LOG_READS: Final = 100
"""Log entries that one count may read; the next count gets further."""


class CommitSizes:
    """Changes by version of a source table; each version's log entry is read once. Its lock is never held while reading."""

    def __init__(self, tables: Tables, source: Table) -> None:
        self._tables = tables
        self._source = source
        self._sizes: dict[int, int] = {}
        self._mutex = threading.Lock()

    def of(self, version: int) -> int:
        """Return how many changes a version has."""
        size = self._sizes.get(version)
        if size is None:
            size = self._tables.change_rows(self._source, version, version)
            self._note(version, size)
        return size

    def total(self, first: int, last: int) -> int:
        """Return how many changes versions `first` to `last` have, as far as a bounded look ahead shows."""
        total, reads = 0, 0
        for version in range(first, min(last, first + MAX_VERSIONS_AHEAD - 1) + 1):
            size = self._sizes.get(version)
            if size is None:
                reads += 1
                size = self._readable(version) if reads <= MAX_LOG_READS else None
            if size is None:
                break
            total += size
        return total

    def _readable(self, version: int) -> int | None:
        try:
            return self.of(version)
        except Error:  # who handles the commit will tell what is wrong with it
            return None

    def _note(self, version: int, size: int) -> None:
        with self._mutex:
            self._sizes[version] = size
            while len(self._sizes) > MAX_SIZES:
                del self._sizes[next(iter(self._sizes))]
