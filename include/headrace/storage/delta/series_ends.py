"""The latest time of each series in data files.

Rows mostly arrive in the order of time, so they are later than all that the files have of their series, though not later than
all of a file. To look for their keys in the files for each commit would take longer than to write the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.model.tables import Table
from headrace.storage.delta.lru_cache import LruCache
from headrace.storage.delta.pruning import as_stored_integers
from headrace.storage.delta.row_order import as_dictionary

MAX_SERIES: Final = 1 << 18
"""Series of files whose latest times are in memory: about 32 MiB."""
FILE_SERIES: Final = 5
"""What a file takes in memory beside its series, in series."""
MAX_ROWS: Final = 4 << 20
"""Rows of a file from which they are read."""
BEFORE_ALL: Final = -(1 << 63)
Ends = Mapping[str, int]
"""The latest time by series, as a stored integer."""


class SeriesEnds(LruCache[str, Ends]):
    """The latest times of the series of files, by path."""

    def __init__(self) -> None:
        """Start with those of no file."""
        super().__init__(MAX_SERIES, lambda ends: len(ends) + FILE_SERIES)


class LatestTimes:
    """The latest times of the series of a table in some of its files together. A file that is removed may leave them too late."""

    def __init__(self) -> None:
        """Start with those of no file."""
        self._files: set[str] = set()
        self._latest: dict[str, int] = {}

    def add(self, path: str, ends: Ends) -> None:
        """Add a file."""
        if len(self._latest) + len(ends) > MAX_SERIES:
            self._files, self._latest = set(), {}
        self._files.add(path)
        latest = self._latest
        for name, end in ends.items():
            if end > latest.get(name, BEFORE_ALL):
                latest[name] = end

    def may_have_any(self, keys: pa.Table, table: Table) -> bool:
        """Return whether the files may have one of some keys."""
        return may_have_any(self._latest, keys, table)

    def unknown(self, paths: Collection[str]) -> list[str]:
        """Return those of the files of the table that are not among its own, and forget the names of files that are removed."""
        if len(self._files) > 2 * len(paths):
            self._files.intersection_update(paths)
        return [path for path in paths if path not in self._files]


def series_ends(rows: pa.Table, table: Table) -> Ends:
    """Return the latest time of each series of rows."""
    encoded, times = encoded_keys(rows, table)
    latest = np.full(len(encoded.dictionary), BEFORE_ALL, np.int64)
    np.maximum.at(latest, encoded.indices.to_numpy(), times)
    return dict(zip(encoded.dictionary.to_pylist(), latest.tolist(), strict=True))


def may_have_any(ends: Ends, keys: pa.Table, table: Table) -> bool:
    """Return whether files with these latest times may have one of some keys."""
    encoded, times = encoded_keys(keys, table)
    latest = np.array([ends.get(name, BEFORE_ALL) for name in encoded.dictionary.to_pylist()], np.int64)
    return bool(np.any(times <= latest[encoded.indices.to_numpy()]))


def encoded_keys(rows: pa.Table, table: Table) -> tuple[pa.DictionaryArray, npt.NDArray[np.int64]]:
    """Return the series and the times of rows."""
    times: npt.NDArray[np.int64] = as_stored_integers(rows[table.timestamp.name]).to_numpy()
    return as_dictionary(rows[table.series_key]), times
