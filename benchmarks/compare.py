"""Whether two sides have computed the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

RELATIVE = 1e-9


class DifferentError(AssertionError):
    """Two sides that should have computed the same have not: their times mean nothing."""


def check_same(ours: pa.Table, theirs: pa.Table, keys: Sequence[str]) -> None:
    """Compare two tables as sets of rows with unique keys; floating-point numbers may differ in their last digits.

    Raises:
        DifferentError: saying where they differ first.
    """
    if ours.num_rows != theirs.num_rows:
        raise DifferentError(f"{ours.num_rows} rows against {theirs.num_rows} of the hand-written job")
    order = [(key, "ascending") for key in keys]
    left = ours.sort_by(order)
    right = theirs.select(ours.column_names).cast(ours.schema).sort_by(order)
    for name in ours.column_names:
        differing = np.flatnonzero(different(left[name], right[name]))
        if len(differing):
            row = int(differing[0])
            raise DifferentError(f"row {row}: {left.slice(row, 1).to_pylist()} against {right.slice(row, 1).to_pylist()} ({name})")


def different(left: pa.ChunkedArray, right: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each row whether the values differ."""
    first, second = left.to_numpy(), right.to_numpy()
    if pa.types.is_floating(left.type):
        return np.asarray(~np.isclose(first, second, rtol=RELATIVE, atol=0, equal_nan=True), np.bool_)
    return np.asarray(first != second, np.bool_)
