"""What the near functions share: types, and the application of Python to arrays whose operands may be scalars."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.nodes import UnsupportedError

Values = Any
"""An Arrow array, chunked array, or scalar."""
Numbers = npt.NDArray[Any]

TYPES: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "void": pa.null(),
}
IN_BULK: Final = ContextVar("in_bulk", default=False)
DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
TIMESTAMP: Final = pa.timestamp("us", "UTC")


def arrow_type(name: str) -> pa.DataType:
    """Return the type of a name of Spark's, or raise `UnsupportedError`."""
    if (match := DECIMAL.fullmatch(name)) is not None:
        return pa.decimal128(int(match[1]), int(match[2]))
    refuse(name not in TYPES, name)
    return TYPES[name]


def apply_code(code: Callable[..., pa.Array], arguments: list[Values]) -> Values:
    """Return what Python code gives for arrays; a scalar if all arguments are."""
    size = next((len(values) for values in arguments if not isinstance(values, pa.Scalar)), None)
    length = 1 if size is None else size
    arrays = [pa.repeat(values, length) if isinstance(values, pa.Scalar) else values for values in arguments]
    values = code(*(array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array for array in arrays))
    return values[0] if size is None else values


@contextmanager
def compiling_for_bulk() -> Iterator[None]:
    """Refuse functions that Python applies to each row: over millions of rows, Spark is sooner."""
    token = IN_BULK.set(True)
    try:
        yield
    finally:
        IN_BULK.reset(token)


def by_row(function: Callable[..., Any], type_: pa.DataType) -> Callable[..., Values]:
    """Return the kernel that applies a function to the values of each row, of which none may be NULL."""

    def apply(*arrays: pa.Array) -> pa.Array:
        refuse(IN_BULK.get(), "a function of each row")
        rows = zip(*(array.to_pylist() for array in arrays), strict=True)
        return pa.array([None if None in row else function(*row) for row in rows], type_)

    return lambda *values: apply_code(apply, list(values))


def by_array(function: Callable[..., Numbers], type_: pa.DataType) -> Callable[..., Values]:
    """Return the kernel that applies a function to arrays of NumPy, in which NULL is 1; the result is NULL there."""

    def apply(*arrays: pa.Array) -> pa.Array:
        with np.errstate(all="ignore"):
            found = pa.array(function(*map(to_numbers, arrays)), type_)
        for array in arrays:
            if array.null_count:
                found = pc.if_else(array.is_valid(), found, pa.scalar(None, type_))
        return found

    return lambda *values: apply_code(apply, list(values))


def to_numbers(array: pa.Array) -> Numbers:
    """Return numbers, days or microseconds as an array of NumPy."""
    stored = {pa.date32(): pa.int32(), TIMESTAMP: pa.int64()}.get(array.type)
    plain = array if stored is None else array.cast(stored)
    return np.asarray(plain.fill_null(1).to_numpy(zero_copy_only=False))


def any_true(condition: Values) -> bool:
    return bool((condition if isinstance(condition, pa.Scalar) else pc.any(condition)).as_py())


def refuse(condition: Values, message: str) -> None:
    """Raise `UnsupportedError` if a condition is true, or that of an array somewhere: Spark judges what it is about."""
    if any_true(condition) if isinstance(condition, pa.Scalar | pa.Array | pa.ChunkedArray) else condition:
        raise UnsupportedError(message)
