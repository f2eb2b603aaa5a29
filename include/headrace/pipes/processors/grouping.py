"""The rows of an event by device: which rows a device has, in the order of their arrival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipes.events import DEVICE, TIME, encode

Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Segments:
    """Rows of some devices: those of a device follow each other, in the order of their arrival.

    Attributes:
        rows: Indices of rows of a table.
        starts: Where the rows of each device start in `rows`, and at last the number of rows.
        devices: The paths of the devices.
    """

    rows: Integers
    starts: Integers
    devices: Sequence[str]

    @property
    def lengths(self) -> Integers:
        """The number of rows of each device."""
        return np.diff(self.starts)

    def with_values(self, array: pa.ChunkedArray) -> Segments:
        """Return the rows that have a value in a column of the table."""
        if not array.null_count:
            return self
        is_valid = pc.is_valid(array).to_numpy(zero_copy_only=False)[self.rows]
        before = np.concatenate(([0], np.cumsum(is_valid)))
        starts = before[self.starts]
        has_rows = np.diff(starts) > 0
        devices = [self.devices[index] for index in np.flatnonzero(has_rows).tolist()]
        return Segments(self.rows[is_valid], np.append(starts[:-1][has_rows], starts[-1]), devices)


def group_by_device(table: pa.Table) -> Segments:
    """Return all rows of a table by their devices."""
    encoded = encode(table.column(DEVICE))
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    heads = codes[np.concatenate(([0], changes))] if len(codes) else codes
    names = encoded.dictionary.to_pylist()
    if not len(heads) or np.bincount(heads).max() == 1:
        rows = np.arange(len(codes))
    else:
        rows = np.argsort(codes, kind="stable")
        codes = codes[rows]
        changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
        heads = codes[np.concatenate(([0], changes))]
    starts = np.concatenate(([0], changes, [len(codes)])) if len(codes) else np.zeros(1, np.int64)
    return Segments(rows, starts, [names[code] for code in heads])


def times_of(table: pa.Table) -> Integers:
    """Return the times of the rows of a table."""
    times: Integers = table.column(TIME).to_numpy()
    return times
