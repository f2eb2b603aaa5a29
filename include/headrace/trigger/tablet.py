"""The rows of a write, as triggers see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.udf.bit_maps import BitMap
from headrace.udf.types import Type

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class MeasurementSchema:
    """A measurement and its type."""

    measurement_id: str
    type: Type

    def get_measurement_id(self) -> str:
        """Return the name of the measurement."""
        return self.measurement_id

    def get_type(self) -> Type:
        """Return the type of its values."""
        return self.type


@dataclass(frozen=True, slots=True)
class TabletRow:
    """One row: a time in ticks, and a value or None for each measurement of the tablet."""

    time: int
    measurements: Sequence[str]
    values: tuple[Any, ...]

    def __getitem__(self, measurement: str) -> Any:
        """Return the value of a measurement; raise `KeyError` if the tablet does not have it."""
        try:
            return self.values[self.measurements.index(measurement)]
        except ValueError:
            raise KeyError(measurement) from None

    def get(self, measurement: str, default: Any = None) -> Any:
        """Return the value of a measurement; `default` if it is None, or if the tablet does not have the measurement."""
        value = self[measurement] if measurement in self.measurements else None
        return default if value is None else value

    def items(self) -> Iterator[tuple[str, Any]]:
        """Iterate over the measurements that have a value, with their values."""
        return ((name, value) for name, value in zip(self.measurements, self.values, strict=True) if value is not None)


class Tablet:
    """Rows of one device: those of a write, with the measurements that the trigger is for.

    `batch` has them as an Arrow record batch: `time`, an INT64 of ticks, then a column for each of `measurements`, in the order of
    the write. A TIMESTAMP is an INT64 of ticks, too. Iterating over a tablet gives its rows as `TabletRow`.
    """

    def __init__(
        self,
        device_id: str,
        batch: pa.RecordBatch,
        data_types: Sequence[Type],
        timestamp_precision: str = "ms",
        *,
        database: str = "",
    ) -> None:
        """Create a tablet; `data_types` has the type of each column of the batch but the first."""
        self.device_id = device_id
        self.batch = batch
        self.data_types = tuple(data_types)
        self.timestamp_precision = timestamp_precision
        self.database = database
        self.measurements: tuple[str, ...] = tuple(batch.schema.names[1:])

    @cached_property
    def timestamps(self) -> list[int]:
        """The time of each row in ticks of `timestamp_precision`."""
        times: list[int] = self.batch.column(0).to_pylist()
        return times

    @cached_property
    def values(self) -> list[list[Any]]:
        """A list for each measurement, with its value or None in each row."""
        return [column.to_pylist() for column in self.batch.columns[1:]]

    @cached_property
    def bit_maps(self) -> list[BitMap]:
        """A map for each measurement, in which the rows without a value are marked."""
        return [null_map(column) for column in self.batch.columns[1:]]

    @property
    def row_size(self) -> int:
        """The number of rows."""
        return int(self.batch.num_rows)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.row_size

    def __iter__(self) -> Iterator[TabletRow]:
        """Iterate over the rows, in the order of the write."""
        for time, values in zip(self.timestamps, zip(*self.values, strict=True), strict=True):
            yield TabletRow(time, self.measurements, values)

    def get_device_id(self) -> str:
        """Return the path of the device, such as `root.plant.line1`."""
        return self.device_id

    def get_schemas(self) -> list[MeasurementSchema]:
        """Return the measurements with their types."""
        return [MeasurementSchema(*pair) for pair in zip(self.measurements, self.data_types, strict=True)]

    def get_timestamp(self, row: int) -> int:
        """Return the time of a row."""
        return self.timestamps[row]

    def get_value(self, row: int, column: int) -> Any:
        """Return the value of a measurement, by its index, in a row; None if it has none."""
        return self.values[column][row]

    def is_null(self, row: int, column: int) -> bool:
        """Return whether a measurement, by its index, has no value in a row."""
        return self.values[column][row] is None


def null_map(column: pa.Array) -> BitMap:
    """Return which rows of a column have no value."""
    bit_map = BitMap(len(column))
    if column.null_count:
        for row, is_null in enumerate(column.is_null().to_pylist()):
            if is_null:
                bit_map.mark(row)
    return bit_map
