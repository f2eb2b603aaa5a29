"""Times of events as tables store them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DataError
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.storage.types import arrow_type
from headrace.storage.values.scalars import stored_units_per_tick, tick_range

TIMESTAMP: Final = DataType(TypeKind.TIMESTAMP)


def times_of_ticks(ticks: pa.ChunkedArray, precision: Precision, stored: Precision, column: str) -> pa.ChunkedArray:
    """Return ticks of one precision as timestamps that are stored in another one.

    Raises:
        DataError: One is out of range.
    """
    ticks = ticks.cast(pa.int64())
    low, high = tick_range(stored)
    try:
        if precision is not stored:
            nanoseconds, unit = precision.nanoseconds, stored.nanoseconds
            ticks = pc.multiply_checked(ticks, nanoseconds // unit) if nanoseconds > unit else pc.divide(ticks, unit // nanoseconds)
        if not pc.all(pc.and_(pc.greater_equal(ticks, low), pc.less_equal(ticks, high)), min_count=0).as_py():
            raise pa.ArrowInvalid("out of range")
        return pc.multiply_checked(ticks, stored_units_per_tick(stored)).cast(arrow_type(TIMESTAMP, stored))
    except pa.ArrowInvalid:
        least, greatest = (pc.min_max(ticks)[end].as_py() for end in ("min", "max"))
        message = f"{column} has times from {least} to {greatest}, which are not all within {low} to {high}"
        raise DataError(message, hint="leave these rows out with a processor") from None
