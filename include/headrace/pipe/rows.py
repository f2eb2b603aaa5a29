"""Rows of tablets, as `process_row_by_row` and `process_tablet` pass and collect them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from headrace.trigger.tablet import TabletRow
from headrace.udf.types import Type

if TYPE_CHECKING:
    from headrace.pipe.events import TabletEvent


@dataclass(frozen=True, slots=True)
class Row(TabletRow):
    """One row of a device: a time in ticks, and a value or None for each measurement. `dataclasses.replace` returns another one."""

    device_id: str
    data_types: Sequence[Type]

    def get_time(self) -> int:
        """Return the time in ticks."""
        return self.time

    def get_object(self, index: int) -> Any:
        """Return the value of a measurement, by its index."""
        return self.values[index]

    get_int = get_long = get_float = get_double = get_boolean = get_string = get_binary = get_object

    def is_null(self, index: int) -> bool:
        """Return whether a measurement has no value at this time."""
        return self.values[index] is None

    def size(self) -> int:
        """Return the number of measurements."""
        return len(self.measurements)

    def get_data_type(self, index: int) -> Type:
        """Return the type of a measurement."""
        return self.data_types[index]

    def get_column_types(self) -> list[Type]:
        """Return the types of the measurements."""
        return list(self.data_types)

    def get_column_name(self, index: int) -> str:
        """Return the path of a series: device and measurement."""
        return f"{self.device_id}.{self.measurements[index]}"

    def get_column_index(self, path: str) -> int:
        """Return the index of a series by its path; raise `ValueError` if the row does not have it."""
        return self.measurements.index(path.removeprefix(f"{self.device_id}."))

    def get_device_id(self) -> str:
        """Return the path of the device."""
        return self.device_id


class RowCollector:
    """Takes rows, and makes tablets of them: one of rows that follow each other with the same device and measurements."""

    def __init__(self, origin: TabletEvent) -> None:
        """Begin without rows. The tablets have the precision and database of the one that the rows come from."""
        self._origin = origin
        self._rows: list[Row] = []

    def collect_row(self, row: Row) -> None:
        """Add a row. Raise `TypeError` if it is none."""
        if not isinstance(row, Row):
            raise TypeError(f"collect_row takes a row, not {type(row).__name__}")
        self._rows.append(row)

    def tablets(self) -> list[TabletEvent]:
        """Return the tablets of the rows that were added."""
        return [self._tablet(list(rows)) for _, rows in groupby(self._rows, _shape)]

    def _tablet(self, rows: Sequence[Row]) -> TabletEvent:
        origin, first = self._origin, rows[0]
        columns = zip(*(row.values for row in rows), strict=True)
        values = dict(zip(first.measurements, columns, strict=True))
        types = dict(zip(first.measurements, first.data_types, strict=True))
        tablet = origin.of(
            first.device_id, [row.time for row in rows], values, types, origin.timestamp_precision, is_aligned=origin.is_aligned
        )
        tablet.database = origin.database
        return tablet


def _shape(row: Row) -> tuple[str, tuple[str, ...], tuple[Type, ...]]:
    return row.device_id, tuple(row.measurements), tuple(row.data_types)
