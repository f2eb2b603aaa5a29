"""Tables that `delta-sink` writes: its own, and supertables of other homes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from headrace.errors import ConfigurationError, DataError
from headrace.model.paths import unquote_node
from headrace.model.tables import TBNAME, Column
from headrace.model.time import Precision
from headrace.model.tree_types import type_name
from headrace.model.types import TypeKind
from headrace.pipes.events import DEVICE, TIME, DeviceRows, Measurement
from headrace.pipes.sinks.times import times_of_ticks
from headrace.storage.object_store import delta_options
from headrace.storage.types import MICROSECONDS, TYPE_METADATA, arrow_type, declared_type
from headrace.storage.values.columns import InvalidValues, to_stored_column
from headrace.storage.values.scalars import TimeContext, stored_units_per_tick

DAY: Final = "day"
RESERVED: Final = (TIME, DEVICE, DAY)
STATISTICS_UNIT: Final = timedelta(milliseconds=1)
ROWS: Final = "/rows"
TAGS: Final = "/tags"
"""What the folders of a supertable's rows and tags end with."""


class Layout(Protocol):
    """The columns of a table."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that tell rows apart."""

    def rows(self, data: DeviceRows, present: pa.Schema) -> pa.Table:
        """Return one row for each device and time in the columns of the table, with the last value of each measurement."""

    def conditions(self, rows: pa.Table) -> Iterator[str]:
        """Yield the conditions of equal keys of `s` and `t`; bounds keep files that cannot have them from being read."""


def find_layout(table: DeltaTable, by_day: bool) -> Layout:
    """Return the layout of a table.

    Raises:
        ConfigurationError: It is not one that the sink may write.
    """
    schema, uri = pa.schema(table.schema()), table.table_uri.rstrip("/")
    names = schema.names
    if any(TYPE_METADATA in (one.metadata or {}) for one in schema):
        if TBNAME not in names:
            raise ConfigurationError(f"{uri} is a tree of another home", hint="send rows there by kafka-sink or iotdb-thrift-sink")
        tags = uri.removesuffix(ROWS) + TAGS
        if not DeltaTable.is_deltatable(tags, storage_options=delta_options(tags)):
            raise ConfigurationError(f"{uri} is a plain table of another home", hint="name the folder rows of a supertable")
        return SupertableLayout(names[0])
    if not {TIME, DEVICE}.issubset(names) or (DAY in names) != by_day:
        raise ConfigurationError(f"{uri} holds another Delta table: its columns are {', '.join(names)}", hint="use an empty folder")
    return OwnLayout(by_day)


@dataclass(frozen=True, slots=True)
class OwnLayout:
    """The sink's own table, with the columns `time`, `device`, and `day` if it is partitioned by day."""

    by_day: bool

    @property
    def keys(self) -> tuple[str, ...]:
        """See `Layout`."""
        return RESERVED if self.by_day else RESERVED[:2]

    def rows(self, data: DeviceRows, present: pa.Schema) -> pa.Table:
        """See `Layout`. Measurements that the table lacks get a column."""
        columns: dict[str, Any] = {TIME: as_microseconds(data), DEVICE: data.rows[DEVICE].cast(pa.string())}
        if self.by_day:
            columns[DAY] = columns[TIME].cast(pa.date32())
        for name, measurement in data.columns.items():
            values = data.rows[name].cast(stored_type(measurement, data))
            own = column_name(measurement, values.type, present)
            columns[own] = pc.coalesce(values, columns[own]) if own in columns else values
        return last_values(columns, self.keys)

    def conditions(self, rows: pa.Table) -> Iterator[str]:
        """See `Layout`."""
        yield from (f"t.{name} = s.{name}" for name in self.keys)
        yield from (between(name, rows[name]) for name in ((DAY, TIME) if self.by_day else (TIME,)))


@dataclass(frozen=True, slots=True)
class SupertableLayout:
    """A supertable of another home: each device is a subtable, with its path as name. The columns are those that it has."""

    time: str

    @property
    def keys(self) -> tuple[str, ...]:
        """See `Layout`."""
        return (self.time, TBNAME)

    def rows(self, data: DeviceRows, present: pa.Schema) -> pa.Table:
        """See `Layout`.

        Raises:
            ConfigurationError: The table lacks a column.
            DataError: A column cannot hold a value.
        """
        times = as_microseconds(data)
        columns: dict[str, Any] = {
            self.time: times.cast(present.field(self.time).type),
            TBNAME: data.rows[DEVICE].cast(pa.string()),
        }
        for name, measurement in data.columns.items():
            own = unquote_node(measurement.name)
            columns[own] = self._values(data, data.rows[name], self._column(own, present))
        return last_values(columns, self.keys)

    def _column(self, name: str, present: pa.Schema) -> Column:
        if name not in present.names or name in self.keys:
            names = ", ".join(column for column in present.names if column not in self.keys)
            raise ConfigurationError(
                f"the supertable has no column {name}", hint=f"its columns are {names}; add one there, or leave the measurement out"
            )
        return Column(name, declared_type(present.field(name)))

    def _values(self, data: DeviceRows, values: pa.ChunkedArray, column: Column) -> pa.Array | pa.ChunkedArray:
        """Convert values as INSERT does: integers are ticks of a TIMESTAMP."""
        if column.type.kind is TypeKind.TIMESTAMP and pa.types.is_integer(values.type):
            return times_of_ticks(values, data.precision, Precision.MICROSECOND, column.name)
        invalid = InvalidValues()
        context = TimeContext(0, "UTC", Precision.MICROSECOND)
        stored = to_stored_column(values, column, context, invalid, is_key=False, is_time=False)
        for one in invalid.first():
            raise DataError(f"{one.value} is not valid for {one.column} in the other home", hint=f"send {one.allowed}")
        return stored

    def conditions(self, rows: pa.Table) -> Iterator[str]:
        """See `Layout`."""
        yield from (f"t.{name} = s.{name}" for name in self.keys)
        yield between(self.time, rows[self.time])


def between(name: str, values: pa.ChunkedArray) -> str:
    """Return the condition that a column of the table is within the range of some days or times.

    Statistics of files cut times to milliseconds, so that one of later microseconds may seem to end before.
    """
    ends = pc.min_max(values)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if pa.types.is_timestamp(values.type):
        low -= STATISTICS_UNIT
    return f"t.{name} >= '{low.isoformat()}' AND t.{name} <= '{high.isoformat()}'"


def last_values(columns: dict[str, Any], keys: tuple[str, ...]) -> pa.Table:
    """Return a row for each key, with the last value of each other column."""
    names, rows = [name for name in columns if name not in keys], pa.table(columns)
    numbers = pa.array(np.arange(rows.num_rows))
    with_numbers = rows.select(list(keys))
    for name in names:  # Arrow does not aggregate values of every type
        with_numbers = with_numbers.append_column(name, pc.if_else(pc.is_valid(rows[name]), numbers, None))
    grouped = with_numbers.group_by(list(keys), use_threads=False).aggregate([(name, "max") for name in names])
    last = {name: pc.take(rows[name], grouped[f"{name}_max"]) for name in names}
    return pa.table({name: grouped[name] for name in keys} | last)


def as_microseconds(data: DeviceRows) -> pa.ChunkedArray:
    """Return the times of rows as timestamps; fractions of a microsecond are cut off."""
    unit = stored_units_per_tick(data.precision)
    ticks = data.rows[TIME]
    microseconds = pc.multiply_checked(ticks, unit) if data.precision.nanoseconds >= 1_000 else pc.divide(ticks, 1_000)
    return microseconds.cast(pa.int64()).cast(MICROSECONDS)


def stored_type(measurement: Measurement, data: DeviceRows) -> pa.DataType:
    """Return the type of a column. Instants are numbers of ticks, as they are in events."""
    type_ = arrow_type(measurement.type, data.precision)
    return pa.int64() if pa.types.is_timestamp(type_) else type_


def column_name(measurement: Measurement, type_: pa.DataType, present: pa.Schema) -> str:
    """Return the column of a measurement: its name, followed by its type if the column of that name has another type or use."""
    name = unquote_node(measurement.name)
    index = present.get_field_index(name)
    if name not in RESERVED and (index < 0 or present.field(index).type == type_):
        return name
    return f"{name}_{type_name(measurement.type).lower()}"
