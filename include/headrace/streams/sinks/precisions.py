"""Conversion of stored timestamps from one precision to another."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def convert_precision(values: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Convert stored timestamps from one precision to another: nanoseconds are integers, others microseconds."""
    if values.type == type_:
        return values
    if pa.types.is_integer(type_):
        return pc.multiply(values.cast(pa.int64()), 1000)
    micros = pc.divide(values, 1000)
    rounded_up = pc.greater(pc.multiply(micros, 1000), values)
    return pc.subtract(micros, rounded_up.cast(pa.int64())).cast(type_)
