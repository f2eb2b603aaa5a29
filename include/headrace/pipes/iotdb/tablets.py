"""Raw tablets: the rows of one device in the layout that IoTDB's receivers of pipes read."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.model.time import Precision
from headrace.pipes.events import TIME, DeviceRows
from headrace.pipes.iotdb.columns import EncodedColumn, encode_column, encode_text, to_precision

MAX_TABLET_ROWS: Final = 1 << 20
YES: Final = b"\x01"
NO: Final = b"\x00"
Integers = npt.NDArray[np.int64]


def encode_tablets(data: DeviceRows, precision: Precision, max_bytes: int) -> Iterator[bytes]:
    """Yield rows as tablets, a device after the other, each with its rows in the order of their times.

    A value that is NULL leaves what the receiver has. Of values of the same series and time, the last counts.

    Args:
        data: The rows.
        precision: The unit of times at the receiver.
        max_bytes: About how many bytes to encode at a time.
    """
    if data.rows.num_rows == 0 or not data.columns:
        return
    row_bytes = max(1, data.rows.nbytes // data.rows.num_rows)
    step = max(1, max_bytes // row_bytes)
    for start in range(0, data.rows.num_rows, step):
        yield from encode_slice(data.with_rows(data.rows.slice(start, step)), precision)


def encode_slice(data: DeviceRows, precision: Precision) -> Iterator[bytes]:
    """Yield the tablets of rows that are encoded at once."""
    rows, paths, devices, times = sort_rows(data, precision)
    columns = [
        encode_column(measurement, rows[name].combine_chunks(), data.precision, precision)
        for name, measurement in data.columns.items()
    ]
    firsts = piece_starts(devices)
    ends = np.append(firsts[1:], len(devices))
    layout = Layout(columns, times.astype(">i8").tobytes())
    present = presence(columns, firsts, ends)
    for piece, (first, end) in enumerate(zip(firsts.tolist(), ends.tolist(), strict=True)):
        path = paths[devices[first]]
        for layer in layers(columns, np.flatnonzero(present[:, piece]).tolist()):
            yield layout.tablet(path, layer, first, end, is_aligned=path in data.aligned)


def sort_rows(data: DeviceRows, precision: Precision) -> tuple[pa.Table, list[str], Integers, Integers]:
    """Return rows by device and time without repeated times, the paths of devices, and for each row its device and time."""
    encoded = data.devices
    devices = encoded.indices.to_numpy().astype(np.int64)
    times = to_precision(data.rows[TIME].to_numpy(), data.precision, precision)
    rows = data.rows.select(list(data.columns))
    if not is_sorted(devices, times):
        order = np.lexsort((times, devices))
        rows, devices, times = rows.take(pa.array(order)), devices[order], times[order]
    rows, devices, times = merge_duplicates(rows, devices, times)
    return rows, encoded.dictionary.to_pylist(), devices, times


def is_sorted(devices: Integers, times: Integers) -> bool:
    """Return whether rows are in the order of devices, and of times within them."""
    same = devices[1:] == devices[:-1]
    return bool(np.all((devices[1:] > devices[:-1]) | (same & (times[1:] >= times[:-1]))))


def piece_starts(devices: Integers) -> Integers:
    """Return where the rows of a tablet begin: at each device, and within it after the largest number of rows."""
    starts = np.flatnonzero(np.append(True, devices[1:] != devices[:-1]))
    lengths = np.diff(np.append(starts, len(devices)))
    if lengths.max() <= MAX_TABLET_ROWS:
        return starts
    return np.concatenate(
        [np.arange(start, start + length, MAX_TABLET_ROWS) for start, length in zip(starts, lengths, strict=True)]
    )


def presence(columns: Sequence[EncodedColumn], firsts: Integers, ends: Integers) -> npt.NDArray[np.bool_]:
    """Return for each column which pieces have values of it."""
    present = np.ones((len(columns), len(firsts)), dtype=bool)
    for number, column in enumerate(columns):
        if column.valid is not None:
            counts = np.append(0, np.cumsum(column.valid))
            present[number] = counts[ends] > counts[firsts]
    return present


def layers(columns: Sequence[EncodedColumn], numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield columns such that no measurement occurs twice: a device may have one in two types if its type has changed."""
    rest = numbers
    while rest:
        by_name: dict[str, int] = {}
        for number in rest:
            by_name.setdefault(columns[number].name, number)
        layer = list(by_name.values())
        yield layer
        rest = [number for number in rest if number not in set(layer)] if len(layer) < len(rest) else []


@dataclass(slots=True)
class Layout:
    """Encoded columns of sorted rows, of which tablets are parts.

    Attributes:
        columns: The columns.
        times: The times of the rows.
    """

    columns: Sequence[EncodedColumn]
    times: bytes
    _schemas: dict[tuple[int, ...], bytes] = field(default_factory=dict)

    def tablet(self, path: str, numbers: Sequence[int], first: int, end: int, *, is_aligned: bool) -> bytes:
        """Return the tablet of some rows and columns of a device."""
        columns = [self.columns[number] for number in numbers]
        parts = [encode_text(path), struct.pack(">i", end - first), self._schema(numbers), YES, self.times[8 * first : 8 * end]]
        parts += bit_maps(columns, first, end)
        parts.append(YES)
        for column in columns:
            parts += [YES, column.part(first, end)]
        parts.append(YES if is_aligned else NO)
        return b"".join(parts)

    def _schema(self, numbers: Sequence[int]) -> bytes:
        key = tuple(numbers)
        if key not in self._schemas:
            described = b"".join(self.columns[number].schema for number in numbers)
            self._schemas[key] = YES + struct.pack(">i", len(numbers)) + described
        return self._schemas[key]


def bit_maps(columns: Sequence[EncodedColumn], first: int, end: int) -> list[bytes]:
    """Return for each column which of some rows are NULL: the lowest bit of a byte is the first row."""
    maps = [None if column.valid is None or column.valid[first:end].all() else ~column.valid[first:end] for column in columns]
    if all(nulls is None for nulls in maps):
        return [NO]
    rows, size = end - first, (end - first) // 8 + 1
    parts = [YES]
    for nulls in maps:
        if nulls is None:
            parts.append(NO)
        else:
            packed = np.packbits(nulls, bitorder="little").tobytes().ljust(size, b"\x00")
            parts.append(YES + struct.pack(">ii", rows, size) + packed)
    return parts


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
