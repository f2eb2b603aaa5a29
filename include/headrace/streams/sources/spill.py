"""Rows that are divided by some of their columns into files on the local disk, each small enough to be read at once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.streams.state.hashing import hash_rows

PART_ROWS: Final = 1_000_000
"""Rows of a part, if series have about equally many."""
MAX_PARTS: Final = 256
"""Greatest number of files that are open at the same time."""
OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


class Spill:
    """Rows in parts. The hash of some columns, such as the series key, decides which part a row belongs to."""

    def __init__(self, folder: Path, key: Sequence[str], count: int) -> None:
        self._folder = folder
        self._key = key
        self._count = count
        self._files = ExitStack()
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}

    @classmethod
    @contextmanager
    def open(cls, key: Sequence[str], rows: int) -> Iterator[Spill]:
        """Yield an empty one for about this many rows, divided by the key columns; delete its files at the end."""
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            spill = cls(Path(folder), key, min(MAX_PARTS, 1 + rows // PART_ROWS))
            with spill._files:
                yield spill

    def add(self, rows: pa.Table) -> None:
        """Write rows to their parts, in their order."""
        if rows.num_rows == 0:
            return
        part = self._hashed(rows.select(list(self._key)))
        order = np.argsort(part, kind="stable")
        ordered, numbers = rows.take(pa.array(order)), part[order]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
            self._writer(int(numbers[start]), rows.schema).write_table(ordered.slice(start, end - start))

    def _hashed(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        return (hash_rows(rows, rows.column_names) % np.uint64(self._count)).astype(np.int64)

    def _writer(self, number: int, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
        if number not in self._writers:
            path = str(self._folder / str(number))
            self._writers[number] = self._files.enter_context(pa.ipc.new_stream(path, schema, options=OPTIONS))
        return self._writers[number]

    def finish(self) -> None:
        """Close all files, after which no rows can be added."""
        self._files.close()

    def parts(self) -> list[int]:
        """Return the numbers of the parts that have rows."""
        return sorted(self._writers)

    def number_of(self, series: pa.ChunkedArray) -> npt.NDArray[np.int64]:
        """Return for each series, by which rows are divided, the number of its part.

        Series of parts without rows belong to the first part.
        """
        numbers, parts = self._hashed(pa.table([series], list(self._key))), self.parts()
        return np.where(np.isin(numbers, parts), numbers, parts[0])

    def read(self, number: int) -> pa.Table:
        """Return the rows of a part, which has some, after which none can be added to it."""
        self._writers[number].close()
        with pa.OSFile(str(self._folder / str(number))) as file, pa.ipc.open_stream(file) as reader:
            return reader.read_all()
