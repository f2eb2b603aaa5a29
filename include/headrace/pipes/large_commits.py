"""Commits that have more changes than go through the driver at once, read in parts."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa

from headrace.context import Context
from headrace.model.positions import SourceId
from headrace.pipes.events import Event
from headrace.pipes.feeds import TableFeed
from headrace.streams.windows.change_batch import LargeCommit


@dataclass(slots=True)
class OpenCommit:
    """A commit that is being read."""

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
        """Return the events of a part, by its number; None if there is no such part."""
        current = self._open
        if current is None or (current.id, current.version, current.next_part) != (feed.id, version, part):
            current = self._open = OpenCommit(feed.id, version, part, self._parts(commit, part))
        current.next_part += 1
        rows = next(current.parts, None)
        if rows is None:
            self._open = None
        return None if rows is None else feed.events(rows)

    def close(self) -> None:
        """Stop reading."""
        self._open = None

    def _parts(self, commit: LargeCommit, first: int) -> Iterator[pa.Table]:
        """Yield the parts from a number on.

        Commits that only insert are read once, in the order of their files. Others are read once for each part, which has the rows
        of some series, so that rows before and after an update are together.
        """
        if commit.inserted is not None:
            yield from islice(commit.inserted.pieces(), first, None)
            return
        count = -(-commit.count // self._max_rows)
        for part in range(first, count):
            own = [rows.filter(_in_part(rows, commit.series_key, part, count)) for rows in commit.stream()]
            if own:
                yield pa.concat_tables(own)


def _in_part(rows: pa.Table, key: str, part: int, parts: int) -> pa.Array:
    """Return which rows are of the series of a part."""
    encoded = rows[key].combine_chunks().dictionary_encode()
    numbers = np.array([zlib.crc32(name.encode()) % parts for name in encoded.dictionary.to_pylist()])
    return pa.array((numbers == part)[encoded.indices.to_numpy()])
