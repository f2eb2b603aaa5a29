"""Digests of the keys of small data files, which show quickly that none of some keys is there.

Clients that write a few rows at a time leave many small files whose times overlap. To look for the keys of a commit in each of them
would take longer than to write it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Digests = npt.NDArray[np.uint64]
MAX_DIGESTS: Final = 1 << 19
"""Digests of a table in memory: 4 MiB."""
FILE_DIGESTS: Final = 32
"""What the name of a file takes in memory, in digests: most files are of one commit and have few keys."""


class KeyDigests:
    """The digests of the keys of some files of a table, at most `max_digests` unless a single file has more. Thread-safe.

    A file counts as `FILE_DIGESTS` more.

    Digests are in sorted runs, each at least twice as long as the next, so that both to add some and to look for some is cheap.
    """

    def __init__(self, max_digests: int = MAX_DIGESTS) -> None:
        self.max_digests = max_digests
        self._files: set[str] = set()
        self._runs: list[Digests] = []
        self._mutex = threading.Lock()

    def add(self, path: str, digests: Digests) -> None:
        """Add a file. If there would be too many digests, those of all others are dropped."""
        with self._mutex:
            if path in self._files:
                return
            if sum(map(len, self._runs)) + FILE_DIGESTS * len(self._files) + len(digests) > self.max_digests:
                self._files, self._runs = set(), []
            self._files.add(path)
            self._runs.append(np.sort(digests))
            while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
                last, previous = self._runs.pop(), self._runs.pop()
                self._runs.append(np.sort(np.concatenate([previous, last]), kind="stable"))

    def missing(self, paths: Collection[str]) -> list[str]:
        """Return the files whose digests are not there."""
        with self._mutex:
            return [path for path in paths if path not in self._files]

    def show_absence(self, paths: Collection[str], digests: Digests) -> bool:
        """Return whether it is certain that none of the files has one of the keys with these digests."""
        with self._mutex:
            if not self._files.issuperset(paths):
                return False
            runs = list(self._runs)
        looked_for = np.sort(digests)
        return not any(contains_any(run, looked_for) for run in runs)


def contains_any(run: Digests, digests: Digests) -> bool:
    """Return whether a sorted run has one of some digests."""
    if not len(run):
        return False
    positions = np.minimum(np.searchsorted(run, digests), len(run) - 1)
    return bool((run[positions] == digests).any())


def key_digests(rows: pa.Table, key: Sequence[str]) -> Digests:
    """Return a digest of 64 bits of the key of each row. Equal keys have equal ones, others almost certainly not."""
    digests = np.zeros(rows.num_rows, np.uint64)
    for name in key:
        digests = mixed(digests ^ value_digests(rows[name].combine_chunks()))
    return digests


def value_digests(column: pa.Array) -> Digests:
    """Return a number for each value."""
    if pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
        numbers: Digests = column.cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False).view(np.uint64)
        return numbers
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    # Those of a process are never compared with those of another, in which the hash of a text differs.
    hashes = np.array([hash(value) for value in encoded.dictionary.to_pylist()], np.int64).view(np.uint64)
    digests: Digests = hashes[encoded.indices.to_numpy()]
    return digests


def mixed(numbers: Digests) -> Digests:
    """Return numbers of which every bit depends on all bits of the arguments (the end of SplitMix64)."""
    numbers = (numbers + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    finished: Digests = numbers ^ (numbers >> np.uint64(31))
    return finished
