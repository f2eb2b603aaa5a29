"""Calls of the library's functions over series in memory, without Spark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.code.series_calls import SeriesCall
from headrace.udf import UDTF, Parameters, Type

Points = list[tuple[int, Any]]


def rows_of(times: Sequence[int], columns: Sequence[Sequence[Any]], types: Sequence[Type]) -> pa.RecordBatch:
    """Return the rows of series: those times at which not all are NULL. None is NULL, and NaN is a value."""
    arrays = [pa.array(times, pa.int64())]
    arrays += [pa.array(column, data_type.arrow, from_pandas=False) for column, data_type in zip(columns, types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, ["time", *(f"x{index}" for index in range(len(columns)))])
    has_value = np.logical_or.reduce([column.is_valid().to_numpy(zero_copy_only=False) for column in batch.columns[1:]])
    return batch.filter(pa.array(has_value))


def call(
    function: type[UDTF], rows: pa.RecordBatch, types: Sequence[Type], attributes: Mapping[str, str], batch_rows: int = 1 << 20
) -> Points:
    """Return the points of a call, with its rows in batches of at most some rows."""
    series_call = SeriesCall(function(), Parameters(types, attributes))
    batches = [rows.slice(start, batch_rows) for start in range(0, rows.num_rows, batch_rows)]
    points = [series_call.process(batch) for batch in batches]
    points.append(series_call.finish())
    return [(point["time"], point["value"]) for batch in points for point in batch.to_pylist()]


def compute(
    function: type[UDTF], values: Sequence[Any] | npt.NDArray[Any], times: Sequence[int] | None = None, /, **attributes: str
) -> Points:
    """Return the points of a call over one DOUBLE series, by default with a point each second."""
    ticks = range(0, 1000 * len(values), 1000) if times is None else times
    return call(function, rows_of(list(ticks), [list(values)], [Type.DOUBLE]), [Type.DOUBLE], attributes)


def is_same(actual: Any, expected: Any, tolerance: float = 1e-6) -> bool:
    """Return whether two values are the same, numbers within a relative tolerance."""
    if isinstance(actual, float) and isinstance(expected, str):
        expected = float(expected)
    if actual is None or expected is None or isinstance(expected, str):
        return bool(actual == expected)
    if math.isnan(actual) or math.isnan(expected):
        return math.isnan(actual) and math.isnan(expected)
    return math.isclose(actual, expected, rel_tol=tolerance, abs_tol=max(tolerance, 1e-9))
