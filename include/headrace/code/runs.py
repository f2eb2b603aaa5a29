"""Runs of equal numbers in a column."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa


def runs(keys: pa.Array) -> Iterator[tuple[int, int, int]]:
    """Yield each run of equal numbers: the number, its first row, and the row after its last. There is no NULL."""
    numbers = keys.to_numpy(zero_copy_only=False)
    breaks = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    bounds = [0, *breaks.tolist(), len(numbers)] if len(numbers) else []
    for first, after in pairwise(bounds):
        yield int(numbers[first]), first, after


def sorted_by(rows: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """Return rows in order of a column of numbers without NULL. Rows with the same number stay in their order."""
    keys = rows[column].to_numpy(zero_copy_only=False)
    if np.all(keys[:-1] <= keys[1:]):
        return rows
    return rows.take(pa.array(np.argsort(keys, kind="stable")))
