"""Commits that have more changes than go through the driver at once, read in parts."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.context import Context
from headrace.model.positions import SourceId
from headrace.pipes.events import Event
from headrace.pipes.feeds import TableFeed
from headrace.storage.delta.changes import InsertedRows
from headrace.streams.windows.change_batch import LargeCommit


@dataclass(slots=True)
class OpenCommit:
    """A commit of new rows that is being read, in the order of its files."""

    id: SourceId
    version: int
    next_part: int
    parts: Iterator[pa.Table]


class LargeCommits:
    """Reads the parts of large commits of one pipe. A part that is read again has the same rows."""

    def __init__(self, context: Context) -> None:
        self._max_rows = max(context.settings.driver_rows, 1)
        self._open: OpenCommit | None = None

    def read(self, feed: TableFeed, version: int, commit: LargeCommit, part: int) -> Sequence[Event] | None:
        """Return the events of a part, by its number; None if there is no such part.

        Commits that only insert are read once. Others are read once for each part, which has the rows of some series, so that rows
        before and after an update are together.
        """
        if commit.inserted is not None:
            rows = self._next_rows(feed, version, commit.inserted, part)
        else:
            rows = self._series_rows(feed, commit, part)
        return None if rows is None else feed.events(rows)

    def close(self) -> None:
        """Stop reading."""
        self._open = None

    def _next_rows(self, feed: TableFeed, version: int, inserted: InsertedRows, part: int) -> pa.Table | None:
        current = self._open
        if current is None or (current.id, current.version, current.next_part) != (feed.id, version, part):
            current = self._open = OpenCommit(feed.id, version, 0, inserted.pieces())
            while current.next_part < part and next(current.parts, None) is not None:
                current.next_part += 1
        current.next_part += 1
        rows = next(current.parts, None)
        if rows is None:
            self._open = None
        return rows

    def _series_rows(self, feed: TableFeed, commit: LargeCommit, part: int) -> pa.Table | None:
        parts = -(-commit.count // self._max_rows)
        if part >= parts:
            return None
        key = feed.layout.series_key
        own = [rows.filter(_in_part(rows, key, part, parts)) for rows in commit.stream()]
        return pa.concat_tables(own) if own else None


def _in_part(rows: pa.Table, key: str, part: int, parts: int) -> pa.Array:
    """Return which rows are of the series of a part."""
    encoded = rows[key].combine_chunks().dictionary_encode()
    numbers = np.array([zlib.crc32(name.encode()) % parts for name in encoded.dictionary.to_pylist()])
    return pa.array((numbers == part)[encoded.indices.to_numpy()])
