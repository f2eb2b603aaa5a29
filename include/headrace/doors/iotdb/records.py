"""Records: single rows, each with its own measurements, which are collected to tablets."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.doors.iotdb.reading import LAYOUTS, finished, type_of_code
from headrace.doors.iotdb.tablets import Tablet, TabletColumn, device_nodes, named_columns
from headrace.errors import DataError
from headrace.model.types import DataType, TypeKind

NULL_CODES: Final = frozenset({-2, -3})
NULL_WITH_TYPE: Final = -3
FIXED: Final = {code: struct.Struct(layout) for code, layout in enumerate((">?", ">i", ">q", ">f", ">d"))} | {
    8: struct.Struct(">q"),
    9: struct.Struct(">i"),
}
"""How values of a fixed size are serialized, by the code of their type."""
LENGTH: Final = struct.Struct(">i")
Value = tuple[int, Any]
"""The code of a type, and a value."""
Key = tuple[str, tuple[str, ...], tuple[int, ...], int]


def read_values(content: bytes, count: int) -> list[Value]:
    """Read the values of a record, each with the code of its type before it; the code is -2 for NULL.

    Raises:
        DataError: There are not as many.
    """
    values, at = [], 0
    try:
        for _ in range(count):
            code = content[at] if content[at] < 128 else content[at] - 256
            value, at = read_value(content, at + 1, code)
            values.append((code, value))
    except (IndexError, struct.error):
        raise DataError(f"the request has no {count} values", hint="send a value for each measurement") from None
    return values


def read_value(content: bytes, at: int, code: int) -> tuple[Any, int]:
    """Read a value of a type, and return it with the position after it."""
    fixed = FIXED.get(code)
    if fixed is not None:
        return fixed.unpack_from(content, at)[0], at + fixed.size
    if code in NULL_CODES:
        return None, at + (code == NULL_WITH_TYPE)
    type_of_code(code)
    (size,) = LENGTH.unpack_from(content, at)
    end = at + 4 + size
    if size < 0 or end > len(content):
        raise IndexError
    return content[at + 4 : end], end


@dataclass(slots=True)
class _Group:
    """Records of one device with the same measurements and types."""

    names: tuple[str, ...]
    codes: tuple[int, ...]
    times: list[int] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)


class RecordCollector:
    """Collects records of any devices to tablets. Of values at the same instant the last one counts."""

    def __init__(self, *, aligned: bool) -> None:
        self._aligned = aligned
        self._groups: dict[Key, _Group] = {}
        self._latest: dict[tuple[str, int], Key] = {}

    def add(self, device: str, time: int, names: Sequence[str], values: Sequence[Value]) -> None:
        """Add a record; values that are NULL are left out."""
        present = [(name, code, value) for name, (code, value) in zip(names, values, strict=True) if value is not None]
        if not present:
            return
        own = tuple(name for name, _, _ in present)
        codes = tuple(code for _, code, _ in present)
        key = self._key(device, time, own, codes)
        group = self._groups.setdefault(key, _Group(own, codes))
        group.times.append(time)
        group.rows.append([value for _, _, value in present])

    def _key(self, device: str, time: int, names: tuple[str, ...], codes: tuple[int, ...]) -> Key:
        """Return the group of a record: one that comes after those that have the instant already."""
        latest = self._latest.get((device, time))
        key = (device, names, codes, 0 if latest is None else latest[3])
        if latest is not None and latest != key:
            key = (device, names, codes, latest[3] + 1)
        self._latest[device, time] = key
        return key

    def tablets(self) -> list[Tablet]:
        """Return the tablets, in the order in which later ones take precedence."""
        ordered = sorted(self._groups.items(), key=lambda item: item[0][3])
        return [self._tablet(key[0], group) for key, group in ordered]

    def _tablet(self, device: str, group: _Group) -> Tablet:
        columns = [
            column_of(values, type_of_code(code)) for code, values in zip(group.codes, zip(*group.rows, strict=True), strict=True)
        ]
        times = np.array(group.times, np.int64)
        return Tablet(device_nodes(device), self._aligned, times, named_columns(group.names, columns))


def column_of(values: Iterable[Any], type_: DataType) -> TabletColumn:
    """Return a column of values that are not NULL."""
    if type_.kind not in LAYOUTS:
        return TabletColumn(type_, finished(pa.array(values, pa.binary()), type_))
    dtype = "?" if type_.kind is TypeKind.BOOL else LAYOUTS[type_.kind][1]
    return TabletColumn(type_, finished(pa.array(np.array(tuple(values), dtype)), type_))


def collect(
    devices: Sequence[str], times: Sequence[int], names: Sequence[Sequence[str]], values: Sequence[bytes], *, aligned: bool
) -> list[Tablet]:
    """Return records as tablets.

    Raises:
        DataError: The lists differ in length, or a record is damaged.
    """
    if not len(devices) == len(times) == len(names) == len(values):
        raise DataError("the lists of the request differ in length", hint="use a client library of IoTDB")
    collector = RecordCollector(aligned=aligned)
    for device, time, own, content in zip(devices, times, names, values, strict=True):
        collector.add(device, time, own, read_values(content, len(own)))
    return collector.tablets()
