"""What flows through a pipe: rows of devices, deleted points, and statements that change the schema. All rows are Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from headrace.model.time import Precision, TickRanges
from headrace.model.types import DataType

TIME: Final = "time"
DEVICE: Final = "device"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a column of rows holds: the values of a measurement, a canonical node of a path, in one type.

    Devices that have the measurement in different types have their values in different columns.
    """

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """Rows of devices that share a table.

    Attributes:
        rows: `time` (INT64, ticks of `precision`), `device` (text or a dictionary of texts: the path of the device, such as
            `root.plant.line1`), then a column for each of `columns`. TIMESTAMP values are INT64 ticks, a DATE is a date32. A value
            that is NULL is absent: the row does not say anything about it. Rows of a device are in the order of their arrival.
        columns: What the other columns hold, by their names, which need not be those of the measurements.
        precision: The unit of times.
        database: The database that the rows come from, such as `root.plant`.
        aligned: The paths of those devices that are aligned.
    """

    rows: pa.Table
    columns: Mapping[str, Measurement]
    precision: Precision
    database: str = ""
    aligned: frozenset[str] = frozenset()

    @property
    def devices(self) -> pa.DictionaryArray:
        """The devices of the rows, as one array with a dictionary."""
        return encode(self.rows[DEVICE])

    def with_rows(self, rows: pa.Table) -> DeviceRows:
        """Return the same with other rows, which have some of the columns."""
        columns = {name: self.columns[name] for name in rows.column_names if name in self.columns}
        return DeviceRows(rows, columns, self.precision, self.database, self.aligned)


def encode(array: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a column as one array with a dictionary."""
    chunked = array.unify_dictionaries() if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    combined = chunked.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        combined = combined.chunk(0) if combined.num_chunks else pa.array([], chunked.type)
    return combined


@dataclass(frozen=True, slots=True)
class InsertEvent:
    """Rows that were written. Of an update, only the values that have changed are there."""

    data: DeviceRows


@dataclass(frozen=True, slots=True)
class DeleteEvent:
    """Points that were deleted: those of the values that are not NULL, which are the old ones.

    Attributes:
        data: The points.
        ranges: Those in which these series have no other points, so that all that a receiver has of them there may go. They do
            not overlap.
    """

    data: DeviceRows
    ranges: TickRanges = ()


@dataclass(frozen=True, slots=True)
class StatementEvent:
    """A statement that changes the schema or rights.

    Attributes:
        sql: The statement, in the IoTDB language.
        category: What it does, as an option of a source's `inclusion`, such as `schema.timeseries.ordinary.create`.
    """

    sql: str
    category: str


Event: TypeAlias = InsertEvent | DeleteEvent | StatementEvent


def rows_of(event: Event) -> int:
    """Return the number of rows of an event; a statement counts as one."""
    return 1 if isinstance(event, StatementEvent) else int(event.data.rows.num_rows)


def bytes_of(event: Event) -> int:
    """Return about how many bytes of memory an event takes."""
    return len(event.sql) if isinstance(event, StatementEvent) else int(event.data.rows.nbytes)
