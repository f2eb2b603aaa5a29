"""What all formats need of rows: which have values, their times, and the names of their measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.time import Precision
from headrace.pipes.events import DEVICE, TIME, DeviceRows
from headrace.pipes.formats.scalars import as_array


def rows_with_values(data: DeviceRows) -> DeviceRows:
    """Return rows without those whose values are all NULL."""
    rows = data.rows.select([TIME, DEVICE, *data.columns])
    if any(rows[name].null_count == 0 for name in data.columns):
        return data.with_rows(rows)
    if not data.columns:
        return data.with_rows(rows.slice(0, 0))
    return data.with_rows(rows.filter(reduce(pc.or_, (pc.is_valid(rows[name]) for name in data.columns))))


def device_texts(data: DeviceRows, write: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return the device of each row as `write` writes paths, which it is handed once for each device."""
    encoded = as_array(data.rows[DEVICE]).dictionary_encode()
    return write(pc.cast(encoded.dictionary, pa.string())).take(encoded.indices)


def ticks_of(data: DeviceRows, wanted: Precision) -> pa.Array:
    """Return the times of rows in ticks of a precision, rounded down."""
    times = as_array(data.rows[TIME])
    if wanted.nanoseconds <= data.precision.nanoseconds:
        return pc.multiply_checked(times, data.precision.nanoseconds // wanted.nanoseconds)
    ratio = wanted.nanoseconds // data.precision.nanoseconds
    quotients = pc.divide(times, ratio)
    is_rounded_up = pc.greater(pc.multiply(quotients, ratio), times)
    return pc.subtract(quotients, pc.cast(is_rounded_up, pa.int64()))


def joined_names(columns: Sequence[tuple[str, pa.Array]]) -> pa.Array:
    """Return for each row the names, separated by commas, of those columns that are not NULL in it."""
    count = len(columns[0][1]) if columns else 0
    if all(values.null_count == 0 for _, values in columns):
        return pa.repeat(",".join(name for name, _ in columns), count)
    present = [pc.if_else(pc.is_valid(values), name, pa.scalar(None, pa.string())) for name, values in columns]
    return joined_present(present)


def joined_present(columns: Sequence[pa.Array]) -> pa.Array:
    """Return for each row its texts that are not NULL, separated by commas."""
    first, *others = columns
    is_empty = reduce(pc.and_, (pc.is_null(column) for column in columns))
    # Arrow's kernel leaves out rows in which all texts are NULL.
    return pc.binary_join_element_wise(pc.if_else(is_empty, "", first), *others, ",", null_handling="skip")
