"""Values of tablets as they are stored."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.doors.iotdb.tablets import Tablet, TabletColumn
from headrace.errors import DataError, Error, TypeMismatchError
from headrace.model.time import Precision
from headrace.model.tree_status import TreeStatus
from headrace.model.tree_types import WIDER_KINDS, type_name
from headrace.model.types import DataType, TypeKind
from headrace.storage.types import MICROSECONDS, arrow_type
from headrace.storage.values.scalars import stored_units_per_tick, tick_range

TEXT_KINDS: Final = frozenset({TypeKind.VARCHAR, TypeKind.NCHAR})


class MissingSeriesError(Exception):
    """Series that do not exist would have to be created."""


def with_values(table: pa.Table) -> pa.Table:
    """Return the rows that have a value in a column beside time."""
    values = table.columns[1:]
    if any(column.null_count == 0 for column in values):
        return table
    if not values:
        return table.slice(0, 0)
    present = np.logical_or.reduce([pc.is_valid(column).to_numpy() for column in values])
    return table.filter(pa.array(present))


def check_times(times: np.ndarray, precision: Precision) -> None:
    """Raise `DataError` for an instant that cannot be stored."""
    low, high = tick_range(precision)
    least, most = int(times.min()), int(times.max())
    if least < low or most > high:
        wrong = least if least < low else most
        raise DataError(f"timestamp {wrong} is out of range", hint=f"it has to lie between {low} and {high}")


def stored_times(ticks: pa.Array, precision: Precision) -> pa.Array:
    """Return instants as stored."""
    type_ = arrow_type(DataType(TypeKind.TIMESTAMP), precision)
    if type_ != MICROSECONDS:
        return ticks
    unit = stored_units_per_tick(precision)
    return (ticks if unit == 1 else pc.multiply(ticks, unit)).cast(type_)


def stored_values(tablet: Tablet, name: str, type_: DataType, precision: Precision) -> pa.Array:
    """Return the values of a measurement in the type of its series."""
    column = tablet.columns[name]
    if not is_compatible(column.type, type_):
        raise mismatch(tablet, name, type_)
    if type_.kind is TypeKind.TIMESTAMP:
        ticks = column.values
        if ticks.null_count < len(ticks):
            check_times(ticks.drop_null().to_numpy(), precision)
        return stored_times(ticks, precision)
    wanted = arrow_type(type_, precision)
    return column.values if column.values.type == wanted else column.values.cast(wanted, safe=False)


def is_compatible(sent: DataType, series: DataType) -> bool:
    """Return whether a series may have values that a client sends in another type."""
    if sent.kind is series.kind or series.kind in WIDER_KINDS.get(sent.kind, ()):
        return True
    return sent.kind in TEXT_KINDS and series.kind in TEXT_KINDS


def mismatch(tablet: Tablet, name: str, type_: DataType) -> Error:
    """Return the error of values in a type that their series cannot have."""
    column: TabletColumn = tablet.columns[name]
    row = int(np.argmax(column.values.is_valid().to_numpy(zero_copy_only=False)))
    error = TypeMismatchError(
        f"data type of {tablet.path}.{name} is not consistent, registered type {type_name(type_)}, inserting type "
        f"{type_name(column.type)}, timestamp {tablet.times[row]}, value {column.values[row].as_py()!r}",
        hint=f"write values of type {type_name(type_)}",
    )
    return error.with_status(TreeStatus.METADATA_ERROR)
