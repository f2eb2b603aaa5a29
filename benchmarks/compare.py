"""Comparison of the results of two sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

RELATIVE_TOLERANCE = 1e-9


class DifferentError(AssertionError):
    """The results of two sides differ, so their times are not comparable."""


def check_equal(ours: pa.Table, theirs: pa.Table, keys: Sequence[str]) -> None:
    """Compare two tables as sets of rows with unique keys; floating-point numbers may differ by rounding.

    Raises:
        DifferentError: The tables differ; the message has the first difference.
    """
    if ours.num_rows != theirs.num_rows:
        raise DifferentError(f"{ours.num_rows} rows, but the hand-written job has {theirs.num_rows}")
    order = [(key, "ascending") for key in keys]
    left = ours.sort_by(order)
    right = theirs.select(ours.column_names).cast(ours.schema).sort_by(order)
    for name in ours.column_names:
        differing = np.flatnonzero(find_differences(left[name], right[name]))
        if len(differing):
            row = int(differing[0])
            ours_row, theirs_row = left.slice(row, 1).to_pylist(), right.slice(row, 1).to_pylist()
            raise DifferentError(f"row {row} differs in {name}: {ours_row}, but the hand-written job has {theirs_row}")


def find_differences(left: pa.ChunkedArray, right: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return a mask of the rows whose values differ."""
    first, second = left.to_numpy(), right.to_numpy()
    if pa.types.is_floating(left.type):
        return np.asarray(~np.isclose(first, second, rtol=RELATIVE_TOLERANCE, atol=0, equal_nan=True), np.bool_)
    return np.asarray(first != second, np.bool_)
