"""Calls of functions that have one value for each row."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.code.function_classes import FunctionClass
from headrace.errors import DataError, Error, FunctionError, FunctionTimeoutError
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.storage.types import arrow_type
from headrace.udf import Parameters

MAX_ARGUMENT_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True)
class ScalarCall:
    """A call of a mappable function, whatever series a row is of. It is sent to Spark's tasks.

    With `skips_nulls`, rows in which all inputs are NULL are not shown to the function, and have no value.
    """

    function: str
    source: FunctionClass
    parameters: Parameters
    type: DataType
    skips_nulls: bool = True

    @property
    def name(self) -> str:
        """A name that no call of other code has."""
        types, attributes = self.parameters.get_data_types(), sorted(self.parameters.get_attributes().items())
        inputs = self.parameters.get_child_expressions()
        text = repr((self.source, types, attributes, inputs, self.parameters.ticks_per_second, str(self.type)))
        return f"{re.sub(r'[^A-Za-z0-9]', '_', self.function)}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def __call__(self, *columns: pa.Array) -> pa.Array:
        """Return the value of each row. Raise `DataError` if one does not fit the declared type."""
        points, is_point = self._points(columns)
        try:
            values = self._values(points)
        except FunctionError as error:
            raise self._located(points, error) from None
        if is_point is None:
            return values
        positions = pc.subtract(pc.cumulative_sum(is_point.cast(pa.int64())), 1)
        return values.take(pc.if_else(is_point, positions, pa.scalar(None, pa.int64())))

    def _values(self, points: pa.Table) -> pa.Array:
        with closing(self.source.open_series(self.parameters)) as stream:
            return self._converted(stream.process(points, more=False)["value"].combine_chunks())

    def _located(self, points: pa.Table, error: FunctionError) -> FunctionError:
        """Return the error of the first row on which the function fails, with the row's arguments, for that of all rows.

        One that does not return is not called again, so its error has arguments only if there is one row.
        """
        while points.num_rows > 1 and not isinstance(error, FunctionTimeoutError):
            middle = points.num_rows // 2
            try:
                self._values(points.slice(0, middle))
                points = points.slice(middle)
            except FunctionError as earlier:
                points, error = points.slice(0, middle), earlier
            except Error:
                return error
        if points.num_rows > 1:
            return FunctionTimeoutError(f"{self.function} failed: {error.cause}", hint=error.hint, cause=error.cause)
        if not isinstance(error, FunctionTimeoutError):
            try:
                self._values(points)
                return error
            except FunctionError as own:
                error = own
            except Error:
                return error
        arguments = ", ".join(shown(column[0].as_py()) for column in points.columns[2:])
        located = type(error)(f"{self.function}({arguments}) failed: {error.cause}", hint=error.hint, cause=error.cause)
        located.traceback = error.traceback
        return located

    def _points(self, columns: Sequence[pa.Array]) -> tuple[pa.Table, pa.BooleanArray | None]:
        """Return the rows to call the function with, and which rows they are; None for all."""
        size = len(columns[0])
        inputs = {f"x{number}": column for number, column in enumerate(columns)}
        rows = pa.table({"series": pa.array([0] * size, pa.int64()), "time": pa.array(range(size), pa.int64()), **inputs})
        if not self.skips_nulls or not any(column.null_count for column in columns):
            return rows, None
        is_point = reduce(pc.or_, (column.is_valid() for column in columns))
        return rows.filter(is_point), is_point

    def _converted(self, values: pa.Array) -> pa.Array:
        is_instant = self.type.kind is TypeKind.TIMESTAMP
        try:
            return values.cast(pa.int64() if is_instant else arrow_type(self.type, Precision.MILLISECOND))
        except pa.ArrowInvalid as error:
            message = f"{self.function} returned a value that is no {self.type}: {error}"
            raise DataError(message, hint="declare a wider type") from None


def shown(value: object) -> str:
    """Return an argument as a statement would have it, shortened."""
    text = "NULL" if value is None else repr(value)
    return text if len(text) <= MAX_ARGUMENT_CHARACTERS else text[:MAX_ARGUMENT_CHARACTERS] + "…"
