"""Rows that are put together from values of other rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.pipes.events import DEVICE, TIME, DeviceRows
from headrace.pipes.processors.grouping import Array, Integers


@dataclass(frozen=True, slots=True)
class Cells:
    """Values of a column that are delivered.

    Attributes:
        rows: The row with which each is delivered. A value of another row, which has another time, is delivered in a row before it.
        times: The time of each.
        values: The values.
    """

    rows: Integers
    times: Integers
    values: pa.Array


def rows_from(data: DeviceRows, times: Integers, columns: Mapping[str, Cells]) -> DeviceRows:
    """Return the rows that have the cells of some columns; those with the same time that are delivered together are one row."""
    rows = np.concatenate([cells.rows for cells in columns.values()] or [np.zeros(0, np.int64)])
    moments = np.concatenate([cells.times for cells in columns.values()] or [np.zeros(0, np.int64)])
    is_current = moments == times[rows]
    order = np.lexsort((moments, is_current, rows))
    sorted_rows, sorted_moments = rows[order], moments[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (sorted_rows[1:] != sorted_rows[:-1]) | (sorted_moments[1:] != sorted_moments[:-1])
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(is_first) - 1

    taken = sorted_rows[is_first]
    table = {TIME: pa.array(sorted_moments[is_first]), DEVICE: data.rows.column(DEVICE).take(pa.array(taken))}
    start = 0
    for name, cells in columns.items():
        places = numbers[start : start + len(cells.rows)]
        table[name] = spread(cells.values, places, len(taken))
        start += len(cells.rows)
    return data.with_rows(pa.table(table).select(data.rows.column_names))


def spread(values: pa.Array, places: Array, size: int) -> pa.Array:
    """Return an array of some size with values at some places, and NULL elsewhere."""
    indices, is_null = np.zeros(size, np.int64), np.ones(size, np.bool_)
    indices[places], is_null[places] = np.arange(len(places)), False
    return values.take(pa.array(indices, mask=is_null))
