"""Rows of many devices as one Arrow table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipe.events import TabletEvent
from headrace.pipe.types import type_of
from headrace.trigger.tablet import MeasurementSchema
from headrace.udf.types import Type

TIME: Final = "time"
DEVICE: Final = "device"
KEYS: Final = {TIME: pa.int64(), DEVICE: pa.string()}


@dataclass(frozen=True)
class TabletBatch:
    """Rows of devices of one database.

    Attributes:
        table: `time` (INT64 ticks), `device` (text: the path of the device), then columns of values. A value that is NULL is
            absent: the row says nothing about it. Rows of a device are in the order of their arrival.
        schemas: The measurement and the type of each column of values. The name of a column is mostly that of its measurement, but
            two columns have the values of one measurement that devices have in different types.
        timestamp_precision: The unit of ticks: ms, us or ns.
        database: The database that the rows come from, such as `root.plant`.
        aligned: The paths of those devices that are aligned.
    """

    table: pa.Table
    schemas: Mapping[str, MeasurementSchema]
    timestamp_precision: str = "ms"
    database: str = ""
    aligned: frozenset[str] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        """Raise `TypeError` unless the columns have the types of their series."""
        expected = KEYS | {name: schema.type.arrow for name, schema in self.schemas.items()}
        actual = dict(zip(self.table.column_names, self.table.schema.types, strict=True))
        wrong = [name for name in {**expected, **actual} if actual.get(name) != expected.get(name)]
        if wrong or len(actual) != self.table.num_columns:
            types = ", ".join(f"{name} {actual.get(name, 'is missing')}" for name in wrong)
            raise TypeError(f"a batch has the columns time (int64), device (string) and those of its schemas; wrong: {types}")
        if self.table[TIME].null_count or self.table[DEVICE].null_count:
            raise TypeError("a row of a batch has no time or no device")

    def with_table(self, table: pa.Table) -> TabletBatch:
        """Return a batch with other rows.

        A column keeps its measurement, and its type if that still fits. A new column is a measurement of its name, and has the type
        of its values: INT64 for int64, DOUBLE for double, TEXT for string.
        """
        schemas = {name: self._schema(name, table.schema.field(name).type) for name in table.column_names if name not in KEYS}
        return replace(self, table=table, schemas=schemas)

    def _schema(self, name: str, arrow_type: pa.DataType) -> MeasurementSchema:
        schema = self.schemas.get(name)
        if schema is not None and schema.type.arrow == arrow_type:
            return schema
        return MeasurementSchema(name if schema is None else schema.measurement_id, type_of(arrow_type))

    def tablets(self) -> Iterator[TabletEvent]:
        """Yield the rows of each device, without measurements of which it has no value."""
        if not self.table.num_rows:
            return
        rows = self.table.combine_chunks()
        devices = pc.dictionary_encode(rows[DEVICE]).combine_chunks()
        codes = devices.indices.to_numpy()
        if np.any(codes[1:] < codes[:-1]):
            order = np.argsort(codes, kind="stable")
            codes, rows = codes[order], rows.take(pa.array(order)).combine_chunks()
        bounds = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(codes)]
        batch = rows.select([TIME, *self.schemas]).to_batches()[0]
        for first, after in pairwise(bounds):
            tablet = self._tablet(devices.dictionary[int(codes[first])].as_py(), batch.slice(first, after - first))
            if tablet.measurements:
                yield tablet

    def _tablet(self, device: str, rows: pa.RecordBatch) -> TabletEvent:
        columns = [rows.column(0), *(column for column in rows.columns[1:] if column.null_count < len(column))]
        schemas = [
            schema
            for schema, column in zip(self.schemas.values(), rows.columns[1:], strict=True)
            if column.null_count < len(column)
        ]
        batch = pa.RecordBatch.from_arrays(columns, [TIME, *(schema.measurement_id for schema in schemas)])
        types = [schema.type for schema in schemas]
        is_aligned = device in self.aligned
        return TabletEvent(device, batch, types, self.timestamp_precision, database=self.database, is_aligned=is_aligned)

    @classmethod
    def of(cls, tablets: Sequence[TabletEvent]) -> TabletBatch:
        """Return the rows of tablets of one database as a batch.

        Raises:
            TypeError: Values have another type than their series.
        """
        names = _column_names(tablets)
        tables = [_table(tablet, names) for tablet in tablets]
        table = pa.concat_tables(tables, promote_options="default")
        schemas = {name: MeasurementSchema(*key) for key, name in names.items()}
        aligned = frozenset(tablet.device_id for tablet in tablets if tablet.is_aligned)
        return cls(table, schemas, tablets[0].timestamp_precision, tablets[0].database, aligned)


def _column_names(tablets: Sequence[TabletEvent]) -> dict[tuple[str, Type], str]:
    """Return the column of each measurement and type: named like the measurement, if that is unique."""
    names: dict[tuple[str, Type], str] = {}
    taken = set(KEYS)
    for tablet in tablets:
        for key in zip(tablet.measurements, tablet.data_types, strict=True):
            if key in names:
                continue
            name = key[0] if key[0] not in taken else f"{key[0]} {key[1]}"
            taken.add(name)
            names[key] = name
    return names


def _table(tablet: TabletEvent, names: Mapping[tuple[str, Type], str]) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for measurement, type_, values in zip(tablet.measurements, tablet.data_types, tablet.batch.columns[1:], strict=True):
        if values.type != type_.arrow:
            raise TypeError(f"{measurement} of {tablet.device_id} is {type_}, but has values of the Arrow type {values.type}")
        columns[names[measurement, type_]] = values
    devices = pa.repeat(pa.scalar(tablet.device_id, pa.string()), tablet.row_size)
    return pa.table({TIME: tablet.batch.column(0), DEVICE: devices, **columns})
