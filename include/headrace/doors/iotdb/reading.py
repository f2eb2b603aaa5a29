"""Columns of values as IoTDB's clients serialize them, read into Arrow arrays."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DataError
from headrace.model.tree_types import TREE_TYPES
from headrace.model.types import DataType, TypeKind
from headrace.pipes.iotdb.columns import NUMBERS, TYPE_CODES
from headrace.pipes.iotdb.content import Content, Mask

TYPES: Final[dict[int, DataType]] = {code: TREE_TYPES[name] for name, code in TYPE_CODES.items()}
"""Types by IoTDB's codes."""
LAYOUTS: Final[dict[TypeKind, tuple[str, str]]] = {
    TREE_TYPES[name].kind: (layout, "?" if name == "BOOLEAN" else layout[1:]) for name, (_, layout) in NUMBERS.items()
}
"""How values of a type are serialized, and NumPy's type for them."""


def type_of_code(code: int) -> DataType:
    """Return the type of IoTDB's code; raise `DataError` if there is none."""
    if code not in TYPES:
        listed = ", ".join(f"{known} {name}" for name, known in TYPE_CODES.items())
        raise DataError(f"{code} is no code of a data type", hint=f"the codes are {listed}")
    return TYPES[code]


def read_column(content: Content, type_: DataType, rows: int, flags: int = 0) -> pa.Array:
    """Read the values of a column, with any value in place of those that are NULL. Dates and instants are integers."""
    if type_.kind not in LAYOUTS:
        return content.texts(rows, flags)
    layout, dtype = LAYOUTS[type_.kind]
    return pa.array(content.numbers(layout, rows).astype(dtype))


def with_nulls(values: pa.Array, nulls: Mask | None) -> pa.Array:
    """Return values with NULL at some rows."""
    if nulls is None or not nulls.any():
        return values
    return pc.if_else(pa.array(nulls), pa.scalar(None, values.type), values)


def finished(values: pa.Array, type_: DataType) -> pa.Array:
    """Return values in Arrow's type for the type; instants stay integers.

    Raises:
        DataError: A text is not UTF-8, or a date is none.
    """
    match type_.kind:
        case TypeKind.VARCHAR | TypeKind.NCHAR:
            try:
                return values.cast(pa.string())
            except pa.ArrowInvalid:
                raise DataError("a text of the request is not UTF-8", hint="send texts in UTF-8, other bytes as BLOB") from None
        case TypeKind.DATE:
            return dates(values)
        case _:
            return values


def dates(values: pa.Array) -> pa.Array:
    """Return dates that are given as decimal digits: year, month, day."""
    digits = values.fill_null(19700101).to_numpy(zero_copy_only=False).astype(np.int64)
    year, month, day = digits // 10_000, digits // 100 % 100, digits % 100
    months = (np.clip(year, 1, 9999) - 1970) * 12 + np.clip(month, 1, 12) - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + day - 1
    last = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    wrong = (year < 1) | (year > 9999) | (month < 1) | (month > 12) | (day < 1) | (days >= last)
    if wrong.any():
        raise DataError(f"{digits[wrong][0]} is no date", hint="a date is YYYYMMDD, such as 20240131")
    return with_nulls(pa.array(days.astype(np.int32)), values.is_null().to_numpy(zero_copy_only=False)).cast(pa.date32())
