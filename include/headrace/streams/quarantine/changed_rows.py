"""Changes of a source without the rows that a stream sets aside.

An update of a row that is set aside counts as its first write, and its deletion as nothing. If an update is set aside, the row that
it replaces counts as deleted.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.quarantine import RowKey
from headrace.model.tables import Table
from headrace.model.time import Precision
from headrace.streams.windows.change_batch import CHANGE, VERSION, Bools, Int64s, to_numpy, to_ticks

WRITES: Final = ("insert", "update_postimage")
ORDER: Final = {"delete": 0, "update_preimage": 1, "insert": 2, "update_postimage": 2}
"""The order of changes of one row in one write."""


@dataclass(frozen=True)
class RemainingChanges:
    """The changes that remain without the rows that are set aside.

    `held` has the keys that are set aside after them, with the index of the row that was set aside now; None if it was before. Keys
    are `released` that are no longer set aside, or with another row. Rows are counted that were written again or deleted after they
    had been set aside.
    """

    rows: pa.Table
    held: dict[RowKey, int | None]
    released: tuple[RowKey, ...]
    corrected: int = 0
    deleted: int = 0


def is_written(rows: pa.Table) -> Bools:
    """Return a mask of the inserted and updated rows among changes."""
    return to_numpy(pc.is_in(rows[CHANGE].cast(pa.string()), pa.array(WRITES))).astype(np.bool_)


def row_keys(rows: pa.Table, source: Table, precision: Precision) -> list[RowKey]:
    series = rows[source.series_key].cast(pa.string()).to_pylist()
    times = to_ticks(rows[source.timestamp.name], precision).tolist()
    keys = [None] * rows.num_rows if source.key is None else rows[source.key.name].to_pylist()
    return [RowKey(*parts) for parts in zip(series, times, keys, strict=True)]


def set_aside(rows: pa.Table, masked: Bools, held: Collection[RowKey], source: Table, precision: Precision) -> RemainingChanges:
    """Return changes without the masked rows, which were written; `held` has the keys that are set aside already."""
    touched = touched_rows(rows, masked, held, source, precision)
    if len(touched) == 0:
        return RemainingChanges(rows, dict.fromkeys(held), ())
    return Sorting(rows, masked, touched, dict.fromkeys(held)).sort_out(row_keys(rows.take(pa.array(touched)), source, precision))


def touched_rows(rows: pa.Table, masked: Bools, held: Collection[RowKey], source: Table, precision: Precision) -> Int64s:
    """Return the indexes of changes at the instants of rows that are set aside, in the order in which they were made."""
    if not masked.any() and not held:
        return np.empty(0, np.int64)
    ticks = to_ticks(rows[source.timestamp.name], precision)
    times = np.union1d(np.array([key.time for key in held], np.int64), ticks[masked])
    indexes = np.flatnonzero(np.isin(ticks, times))
    changes = rows[CHANGE].take(pa.array(indexes)).to_pylist()
    versions = to_numpy(rows[VERSION]).astype(np.int64)[indexes]
    return np.asarray(indexes[np.lexsort((np.array([ORDER[change] for change in changes]), versions))])


class Sorting:
    """Goes through changes in order, and sorts out those that remain."""

    def __init__(self, rows: pa.Table, masked: Bools, touched: Int64s, held: dict[RowKey, int | None]) -> None:
        self.rows = rows
        self.masked = masked
        self.touched = touched
        self.before = held
        self.held = dict(held)
        self.changes: list[str] = rows[CHANGE].take(pa.array(touched)).to_pylist()
        self.corrected = self.deleted = 0
        self.dropped: list[int] = []
        self.changed: dict[int, str] = {}
        self.preimages: dict[RowKey, int] = {}

    def sort_out(self, keys: list[RowKey]) -> RemainingChanges:
        """Return what remains of the changes; `keys` are those of the touched rows."""
        for index, change, key in zip(self.touched.tolist(), self.changes, keys, strict=True):
            if change in WRITES:
                self.write(index, change, key)
            elif key in self.held:
                self.dropped.append(index)
                if change == "delete":
                    del self.held[key]
                    self.deleted += 1
            else:
                self.preimages[key] = index
        released = tuple(key for key in self.before if key not in self.held or self.held[key] is not None)
        return RemainingChanges(self.remaining(), self.held, released, self.corrected, self.deleted)

    def write(self, index: int, change: str, key: RowKey) -> None:
        self.corrected += key in self.held
        if self.masked[index]:
            self.dropped.append(index)
            if change == "update_postimage" and key not in self.held and key in self.preimages:
                self.changed[self.preimages[key]] = "delete"
            self.held[key] = index
        elif key in self.held:
            del self.held[key]
            self.changed[index] = "insert"

    def remaining(self) -> pa.Table:
        """Return the changes without those that were dropped."""
        rows = self.rows
        if self.changed:
            changes = to_numpy(rows[CHANGE].cast(pa.string())).astype(object)
            changes[list(self.changed)] = list(self.changed.values())
            position = rows.schema.get_field_index(CHANGE)
            rows = rows.set_column(position, rows.schema.field(CHANGE), pa.array(changes).cast(rows.schema.field(CHANGE).type))
        is_kept = np.ones(rows.num_rows, np.bool_)
        is_kept[self.dropped] = False
        return rows.filter(pa.array(is_kept))


def json_values(rows: pa.Table, source: Table) -> list[dict[str, Any]]:
    """Return the declared columns of some rows by name: numbers, truth values and NULL as they are, others as text."""
    names = [column.name for column in source.columns if column.name in rows.column_names]
    return [{name: json_value(value) for name, value in row.items()} for row in rows.select(names).to_pylist()]


def json_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value.hex() if isinstance(value, bytes) else str(value)
