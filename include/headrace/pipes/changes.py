"""The events of a range of a table's change feed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.time import Precision, TickRanges
from headrace.model.types import TypeKind
from headrace.pipes.events import DEVICE, TIME, DeleteEvent, DeviceRows, Event, InsertEvent, Measurement
from headrace.storage.delta.change_columns import COMMIT_VERSION
from headrace.storage.delta.keys import anti_join, semi_join
from headrace.storage.delta.log import CHANGE_TYPE
from headrace.storage.types import arrow_type
from headrace.trees.tablets import as_ticks

INSERT: Final = "insert"
BEFORE: Final = "update_preimage"
AFTER: Final = "update_postimage"
DELETE: Final = "delete"
Versions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How the rows of a table become events.

    Attributes:
        database: The database of the events' devices.
        precision: That of the table.
        time: The column with the time.
        series_key: The column with the name of a row's series.
        columns: What the other columns hold; those that are missing here are left out.
        device_path: Returns the path of the device of a series, given its name.
        aligned: Returns which of some devices are aligned.
        casts: Whether values may be stored in other types than those of the measurements.
    """

    database: str
    precision: Precision
    time: str
    series_key: str
    columns: Mapping[str, Measurement]
    device_path: Callable[[str], str] | None = None
    aligned: Callable[[Sequence[str]], frozenset[str]] = lambda _: frozenset()
    casts: bool = False

    @property
    def key(self) -> list[str]:
        """The columns that tell the rows of a version apart."""
        return [self.series_key, self.time]


def change_events(rows: pa.Table, layout: TableLayout, deleted_ranges: Callable[[int], TickRanges] = lambda _: ()) -> list[Event]:
    """Return the events of changes as `Changes.read` returns them, ordered by version.

    Versions that only insert and update are one event together. A version that deletes has events of its own, since other versions
    may write the same points before and after it; `deleted_ranges` returns its ranges.
    """
    rows = without_empty_columns(rows, layout)
    written, deleted = split_changes(rows, layout)
    if not deleted.num_rows:
        return insert_events(written, layout)
    cuts = np.unique(versions_of(deleted))
    events: list[Event] = []
    for low, high in version_ranges(cuts):
        own = between(deleted, low, high)
        if own.num_rows:
            events.append(DeleteEvent(device_rows(own, layout), deleted_ranges(low)))
        events += insert_events(between(written, low, high), layout)
    return events


def version_ranges(cuts: Versions) -> Iterator[tuple[int, int]]:
    """Yield ranges of versions, both ends inclusive, of which each cut is one of its own."""
    low = 0
    for cut in cuts.tolist():
        yield low, cut - 1
        yield cut, cut
        low = cut + 1
    yield low, np.iinfo(np.int64).max


def versions_of(rows: pa.Table) -> Versions:
    versions: Versions = rows[COMMIT_VERSION].to_numpy()
    return versions


def between(rows: pa.Table, low: int, high: int) -> pa.Table:
    """Return the rows of a range of versions; rows are ordered by version."""
    versions = versions_of(rows)
    first, end = np.searchsorted(versions, low), np.searchsorted(versions, high, side="right")
    return rows.slice(first, end - first)


def without_empty_columns(rows: pa.Table, layout: TableLayout) -> pa.Table:
    """Return rows without columns that are NULL throughout, or that no series has."""
    kept = [name for name in rows.column_names if name in layout.columns and rows[name].null_count < rows.num_rows]
    return rows.select([*layout.key, *kept, CHANGE_TYPE, COMMIT_VERSION])


def split_changes(rows: pa.Table, layout: TableLayout) -> tuple[pa.Table, pa.Table]:
    """Return the rows that were written and those that were deleted, both ordered by version.

    Of an update, the former have only values that have changed, the latter those that have become NULL.
    """
    types = rows[CHANGE_TYPE]
    plain = rows.drop_columns([CHANGE_TYPE])
    inserted = plain.filter(pc.equal(types, INSERT))
    if inserted.num_rows == rows.num_rows:
        return in_order([inserted], layout), inserted.slice(0, 0)
    before, after = plain.filter(pc.equal(types, BEFORE)), plain.filter(pc.equal(types, AFTER))
    deleted = plain.filter(pc.equal(types, DELETE))
    before, after, vanished, appeared = match_updates(before, after, [COMMIT_VERSION, *layout.key])
    names = [name for name in plain.column_names if name in layout.columns]
    changed, lost = compare_updates(before, after, names)
    written = [inserted, appeared, changed.filter(has_values(changed, names))]
    removed = [deleted, vanished, lost.filter(has_values(lost, names))]
    return in_order(written, layout), in_order(removed, layout)


def match_updates(before: pa.Table, after: pa.Table, key: list[str]) -> tuple[pa.Table, pa.Table, pa.Table, pa.Table]:
    """Return the rows before and after updates, row by row of the same key, and those of either that the other lacks.

    Only a writer that changes the time or series of a row leaves some of the latter.
    """
    order = [(name, "ascending") for name in key]
    before, after = before.sort_by(order), after.sort_by(order)
    if before.select(key).equals(after.select(key)):
        return before, after, before.slice(0, 0), after.slice(0, 0)
    vanished, appeared = anti_join(before, after.select(key), key), anti_join(after, before.select(key), key)
    kept = [semi_join(one, other.select(key), key).sort_by(order) for one, other in ((before, after), (after, before))]
    return kept[0], kept[1], vanished.select(before.column_names), appeared.select(after.column_names)


def compare_updates(before: pa.Table, after: pa.Table, names: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """Return the new values that differ from the old ones, and the old values that have become NULL; others are NULL."""
    changed, lost = after, before
    for name in names:
        old, new = before[name], after[name]
        is_changed = pc.and_(pc.is_valid(new), pc.fill_null(pc.not_equal(old, new), True))
        is_lost = pc.and_(pc.is_valid(old), pc.is_null(new))
        changed = with_column(changed, name, pc.if_else(is_changed, new, pa.scalar(None, new.type)))
        lost = with_column(lost, name, pc.if_else(is_lost, old, pa.scalar(None, old.type)))
    return changed, lost


def with_column(rows: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, rows.schema.field(index), values)


def has_values(rows: pa.Table, names: Sequence[str]) -> pa.Array:
    """Return which rows have a value in one of some columns."""
    present = np.zeros(rows.num_rows, bool)
    for name in names:
        column = rows[name]
        if not column.null_count:
            return pa.array(np.ones(rows.num_rows, bool))
        present |= pc.is_valid(column).to_numpy()
    return pa.array(present)


def in_order(parts: Sequence[pa.Table], layout: TableLayout) -> pa.Table:
    """Return rows ordered by version, and those of a version by time, whichever were read together and where they were read."""
    filled = [part for part in parts if part.num_rows]
    if not filled:
        return parts[0]
    rows = pa.concat_tables(filled)
    order = np.lexsort((rows[layout.time].cast(pa.int64()).to_numpy(), versions_of(rows)))
    return rows if (np.diff(order) > 0).all() else rows.take(pa.array(order))


def insert_events(rows: pa.Table, layout: TableLayout) -> list[Event]:
    """Return the event of written rows; none if no row has a value."""
    names = [name for name in rows.column_names if name in layout.columns]
    valued = rows.filter(has_values(rows, names))
    return [InsertEvent(device_rows(valued, layout))] if valued.num_rows else []


def device_rows(rows: pa.Table, layout: TableLayout) -> DeviceRows:
    """Return rows as stored as rows of devices."""
    names = [name for name in rows.column_names if name in layout.columns and rows[name].null_count < rows.num_rows]
    devices = device_column(rows[layout.series_key], layout)
    columns = {TIME: as_time(rows[layout.time], layout), DEVICE: devices}
    columns |= {name: as_values(rows[name], layout, layout.columns[name]) for name in names}
    paths = devices.dictionary.to_pylist()
    return DeviceRows(
        pa.table(columns),
        {name: layout.columns[name] for name in names},
        layout.precision,
        layout.database,
        layout.aligned(paths),
    )


def as_values(column: pa.ChunkedArray, layout: TableLayout, measurement: Measurement) -> pa.ChunkedArray:
    """Return stored values in the type of a measurement."""
    values = as_ticks(column, layout.precision)
    if not layout.casts or measurement.type.kind is TypeKind.TIMESTAMP:
        return values
    return values.cast(arrow_type(measurement.type, layout.precision))


def as_time(column: pa.ChunkedArray, layout: TableLayout) -> pa.ChunkedArray:
    return as_ticks(column, layout.precision).cast(pa.int64())


def device_column(names: pa.ChunkedArray, layout: TableLayout) -> pa.DictionaryArray:
    """Return the paths of the devices of rows as a dictionary, each path of which is used."""
    combined = names.combine_chunks()
    if pa.types.is_dictionary(combined.type):
        combined = combined.cast(combined.type.value_type)
    encoded = combined.cast(pa.string()).dictionary_encode()
    if layout.device_path is None:
        return encoded
    paths = pa.array([layout.device_path(name) for name in encoded.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, paths)
