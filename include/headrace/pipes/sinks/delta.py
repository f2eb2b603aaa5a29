"""The sink `delta-sink`: keeps the points in a Delta table of its own, which any Delta reader can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from headrace.errors import ConfigurationError, StorageError
from headrace.model.paths import unquote_node
from headrace.model.tree_types import type_name
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.events import DEVICE, TIME, DeleteEvent, DeviceRows, Event, InsertEvent, Measurement
from headrace.pipes.plugins import Delivery, PipeContext, Sink
from headrace.storage.delta.handles import first_line
from headrace.storage.object_store import delta_options
from headrace.storage.types import MICROSECONDS, arrow_type
from headrace.storage.values.scalars import stored_units_per_tick

DAY: Final = "day"
RESERVED: Final = (TIME, DEVICE, DAY)
NULL_IF_DELETED: Final = "CASE WHEN s.{0} IS NOT NULL THEN NULL ELSE t.{0} END"
"""What remains of a column's value when the rows to erase have one there."""


@dataclass(frozen=True, slots=True)
class DeltaOptions:
    """The parameters: where the table is, and whether it is partitioned by day."""

    uri: str
    by_day: bool


def read_options(attributes: PipeAttributes) -> DeltaOptions:
    """Return the parameters; raise `ProgrammingError` if they are not valid."""
    uri = attributes.first("connector.uri", "sink.uri")
    if not uri:
        raise pipe_error("sink.uri must be specified", hint="name a folder or s3://bucket/path, such as 'sink.uri'='/data/plant'")
    return DeltaOptions(
        uri.removeprefix("file://"), attributes.boolean("connector.partition-by-day", "sink.partition-by-day", default=True)
    )


def validate(attributes: PipeAttributes) -> None:
    """Check the parameters."""
    read_options(attributes)


def create(attributes: PipeAttributes, _: PipeContext) -> Sink:
    """Create the sink."""
    return DeltaSink(read_options(attributes))


class DeltaSink:
    """Upserts points into a table with a row for each device and time, and a column for each measurement.

    A commit carries the number of its batch, so a batch that is delivered again changes nothing. Deleted points become NULL, rows
    without any go. Statements are left out.
    """

    def __init__(self, options: DeltaOptions) -> None:
        self._options = options
        self._storage = delta_options(options.uri)

    def handshake(self) -> None:
        """Check that the folder holds a table of this sink, or that one can be created there."""
        with storage_errors(self._options.uri):
            exists = DeltaTable.is_deltatable(self._options.uri, storage_options=self._storage)
        if not exists:
            self._create()
        names = self._schema().names
        if not {TIME, DEVICE}.issubset(names) or (DAY in names) != self._options.by_day:
            raise ConfigurationError(
                f"{self._options.uri} holds another Delta table: its columns are {', '.join(names)}", hint="use an empty folder"
            )

    def heartbeat(self) -> None:
        """Do nothing: there is no connection."""

    def transfer(self, delivery: Delivery) -> None:
        """Commit the events, in order. The last commit carries the number of the batch."""
        table = self._open()
        done = table.transaction_version(delivery.pipe_id)
        if done is not None and done >= delivery.batch:
            return
        events = [event for event in delivery.events if isinstance(event, InsertEvent | DeleteEvent)]
        for number, event in enumerate(events, start=1):
            is_last = number == len(events)
            self._commit(event, Transaction(delivery.pipe_id, delivery.batch) if is_last else None)

    def close(self) -> None:
        """Do nothing."""

    def _create(self) -> None:
        fields = [pa.field(TIME, MICROSECONDS), pa.field(DEVICE, pa.string())]
        fields += [pa.field(DAY, pa.date32())] if self._options.by_day else []
        with storage_errors(self._options.uri):
            DeltaTable.create(
                self._options.uri,
                pa.schema(fields),
                mode="ignore",
                partition_by=[DAY] if self._options.by_day else None,
                storage_options=self._storage,
            )

    def _open(self) -> DeltaTable:
        with storage_errors(self._options.uri):
            return DeltaTable(self._options.uri, storage_options=self._storage)

    def _schema(self) -> pa.Schema:
        return pa.schema(self._open().schema())

    def _commit(self, event: Event, transaction: Transaction | None) -> None:
        assert isinstance(event, InsertEvent | DeleteEvent)
        rows = self._rows(event.data)
        properties = CommitProperties(app_transactions=[transaction] if transaction is not None else None)
        with storage_errors(self._options.uri):
            self._add_columns(rows)
            merge = self._open().merge(
                rows, " AND ".join(self._conditions(rows)), source_alias="s", target_alias="t", commit_properties=properties
            )
            names = [name for name in rows.column_names if name not in RESERVED]
            if isinstance(event, InsertEvent):
                upsert(merge, names, rows.column_names)
            else:
                erase(merge, names, self._schema().names)

    def _conditions(self, rows: pa.Table) -> Iterator[str]:
        """Yield the conditions of equal keys; bounds keep files that cannot have them from being read."""
        yield from (f"t.{name} = s.{name}" for name in RESERVED if name in rows.column_names)
        for name in (DAY,) if self._options.by_day else ():
            ends = pc.min_max(rows[name])
            yield f"t.{name} >= '{ends['min'].as_py()}' AND t.{name} <= '{ends['max'].as_py()}'"

    def _add_columns(self, rows: pa.Table) -> None:
        missing = [field for field in rows.schema if field.name not in self._schema().names]
        if missing:
            empty = rows.slice(0, 0)
            write_deltalake(self._options.uri, empty, mode="append", schema_mode="merge", storage_options=self._storage)

    def _rows(self, data: DeviceRows) -> pa.Table:
        """Return one row for each device and time in the columns of the table, with the last value of each measurement."""
        columns: dict[str, Any] = {TIME: as_microseconds(data), DEVICE: data.rows[DEVICE].cast(pa.string())}
        if self._options.by_day:
            columns[DAY] = columns[TIME].cast(pa.date32())
        present = self._schema()
        for name, measurement in data.columns.items():
            values = data.rows[name].cast(stored_type(measurement, data))
            own = column_name(measurement, values.type, present)
            columns[own] = pc.coalesce(values, columns[own]) if own in columns else values
        keys = [name for name in RESERVED if name in columns]
        names = [name for name in columns if name not in keys]
        grouped = pa.table(columns).group_by(keys, use_threads=False).aggregate([(name, "last") for name in names])
        return grouped.select([*keys, *(f"{name}_last" for name in names)]).rename_columns([*keys, *names])


def upsert(merge: Any, names: Sequence[str], columns: Sequence[str]) -> None:
    """Write values, and keep those that rows do not have."""
    values = {quoted(name): f"coalesce(s.{quoted(name)}, t.{quoted(name)})" for name in names}
    inserted = {quoted(name): f"s.{quoted(name)}" for name in columns}
    merge.when_matched_update(values).when_not_matched_insert(inserted).execute()


def erase(merge: Any, names: Sequence[str], stored: Sequence[str]) -> None:
    """Remove values, and rows without any other."""
    others = [name for name in stored if name not in RESERVED]
    rest = [NULL_IF_DELETED.format(quoted(name)) if name in names else f"t.{quoted(name)}" for name in others]
    is_empty = " AND ".join(f"({value}) IS NULL" for value in rest)
    merge.when_matched_delete(is_empty).when_matched_update(
        {quoted(name): NULL_IF_DELETED.format(quoted(name)) for name in names}
    ).execute()


def quoted(name: str) -> str:
    """Return a column's name as merges write it."""
    return "`" + name.replace("`", "``") + "`"


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


@contextmanager
def storage_errors(uri: str) -> Iterator[None]:
    """Translate errors of the storage."""
    try:
        yield
    except (DeltaError, OSError) as error:
        raise StorageError(f"{uri} cannot be read or written: {first_line(error)}", hint="check the storage") from error
