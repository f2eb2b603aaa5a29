"""The rows of small data files that this process has written lately: the next micro-batch mostly replaces some of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

import numpy as np
import pyarrow as pa

MAX_BYTES: Final = 32 << 20
MAX_ROWS: Final = 4_096
"""Rows of a file that is kept."""


class RowCache:
    """The last written rows, up to a number of bytes. A data file never changes, so they are those of its path. Thread-safe."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._rows: OrderedDict[str, pa.Table] = OrderedDict()
        self._mutex = threading.Lock()

    def get(self, path: str) -> pa.Table | None:
        """Return the rows of a file, None if they are not kept."""
        with self._mutex:
            rows = self._rows.get(path)
            if rows is not None:
                self._rows.move_to_end(path)
            return rows

    def put(self, path: str, rows: pa.Table) -> None:
        """Keep the rows of a file if they are few."""
        if rows.num_rows > MAX_ROWS:
            return
        copy = rows.take(pa.array(np.arange(rows.num_rows)))  # without what else is in the buffers of the rows
        with self._mutex:
            self._rows[path] = copy
            self._bytes += copy.nbytes
            while self._bytes > self._max_bytes:
                self._bytes -= self._rows.popitem(last=False)[1].nbytes

    def discard(self, path: str) -> None:
        """Drop the rows of a file that was removed."""
        with self._mutex:
            rows = self._rows.pop(path, None)
            self._bytes -= 0 if rows is None else rows.nbytes
