"""The hidden column of a target that marks the windows of a stream's query and those that FILL has added."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.windows.fill import IS_FILLED
from headrace.model.tables import Column
from headrace.model.types import BIGINT
from headrace.streams.definition.define import StreamPlan

MARK: Final = Column("_headrace_fill", BIGINT)
"""A stream's own number in rows of its windows, and its negative in rows that FILL has added; NULL in rows of others."""
ID_DIGITS: Final = 15
"""Hexadecimal digits of a stream's id that make its number, which has to fit a BIGINT."""


def window_mark(plan: StreamPlan) -> int:
    """Return the mark of a stream's windows; that of the windows added by FILL is its negative."""
    return int(plan.id[:ID_DIGITS], 16) + 1


def mark_values(plan: StreamPlan, windows: pa.Table) -> pa.Array | pa.ChunkedArray:
    mark = pa.scalar(window_mark(plan), pa.int64())
    if IS_FILLED not in windows.column_names:
        return pa.repeat(mark, windows.num_rows)
    return pc.if_else(windows[IS_FILLED], pc.negate(mark), mark)
