"""Data types of inputs and outputs."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class Type(StrEnum):
    """The data types of series, by their names in SQL."""

    BOOLEAN = "BOOLEAN"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    TEXT = "TEXT"
    STRING = "STRING"
    BLOB = "BLOB"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers."""
        return self in NUMERIC

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of a column of values. A TIMESTAMP is an INT64 of ticks, as times are."""
        return arrow_types()[self]


@cache
def arrow_types() -> dict[Type, pa.DataType]:
    import pyarrow as pa

    return {
        Type.BOOLEAN: pa.bool_(),
        Type.INT32: pa.int32(),
        Type.INT64: pa.int64(),
        Type.FLOAT: pa.float32(),
        Type.DOUBLE: pa.float64(),
        Type.TEXT: pa.string(),
        Type.STRING: pa.string(),
        Type.BLOB: pa.binary(),
        Type.DATE: pa.date32(),
        Type.TIMESTAMP: pa.int64(),
    }


NUMERIC = frozenset({Type.INT32, Type.INT64, Type.FLOAT, Type.DOUBLE})
