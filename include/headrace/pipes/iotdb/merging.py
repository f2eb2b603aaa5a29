"""Rows of the same device and time become one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]


def merge_duplicates(rows: pa.Table, devices: Integers, times: Integers) -> tuple[pa.Table, Integers, Integers]:
    """Return sorted rows with one for each device and time, whose values are the last ones that are not NULL."""
    repeated = (devices[1:] == devices[:-1]) & (times[1:] == times[:-1])
    if not repeated.any():
        return rows, devices, times
    firsts = np.flatnonzero(np.append(True, ~repeated))
    lasts = np.append(firsts[1:], len(devices)) - 1
    columns = {name: take_last(rows[name].combine_chunks(), firsts, lasts) for name in rows.column_names}
    return pa.table(columns), devices[lasts], times[lasts]


def take_last(column: pa.Array, firsts: Integers, lasts: Integers) -> pa.Array:
    """Return the last value of each group of rows that is not NULL."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    newest = np.maximum.accumulate(np.where(valid, np.arange(len(column)), -1))[lasts]
    return column.take(pa.array(newest, mask=newest < firsts))
