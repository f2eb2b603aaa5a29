"""The latest time of each series in large data files.

Rows mostly arrive in the order of time, so they are later than all that a file has of their series, though not later than all of
the file. To read the file's keys for each commit would take longer than to write the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Table
from headrace.storage.delta.lru_cache import LruCache
from headrace.storage.delta.pruning import as_stored_integers

MAX_SERIES: Final = 1 << 18
"""Series of files whose latest times are in memory: about 32 MiB."""
MAX_ROWS: Final = 4 << 20
"""Rows of a file from which they are read."""
BEFORE_ALL: Final = -(1 << 63)
Ends = Mapping[str, int]
"""The latest time by series, as a stored integer."""


class SeriesEnds(LruCache[str, Ends]):
    """The latest times of the series of files, by path."""

    def __init__(self) -> None:
        """Start with those of no file."""
        super().__init__(MAX_SERIES, len)


def series_ends(rows: pa.Table, table: Table) -> Ends:
    """Return the latest time of each series of rows."""
    times = pa.table({"series": rows[table.series_key].cast(pa.string()), "time": as_stored_integers(rows[table.timestamp.name])})
    latest = times.group_by("series", use_threads=False).aggregate([("time", "max")])
    return dict(zip(latest["series"].to_pylist(), latest["time_max"].to_pylist(), strict=True))


def may_have_any(ends: Ends, keys: pa.Table, table: Table) -> bool:
    """Return whether a file with these latest times may have one of some keys."""
    encoded = keys[table.series_key].combine_chunks().dictionary_encode()
    latest = np.array([ends.get(name, BEFORE_ALL) for name in encoded.dictionary.to_pylist()], np.int64)
    times: npt.NDArray[np.int64] = pc.cast(as_stored_integers(keys[table.timestamp.name]), pa.int64()).to_numpy()
    return bool(np.any(times <= latest[encoded.indices.to_numpy()]))
