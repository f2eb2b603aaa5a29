"""Calls of functions that have one value for each row."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from headrace.code.function_classes import FunctionClass
from headrace.errors import DataError
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.storage.types import arrow_type
from headrace.udf import Parameters


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
        with closing(self.source.open_series(self.parameters)) as stream:
            values = self._converted(stream.process(points, more=False)["value"].combine_chunks())
        if is_point is None:
            return values
        positions = pc.subtract(pc.cumulative_sum(is_point.cast(pa.int64())), 1)
        return values.take(pc.if_else(is_point, positions, pa.scalar(None, pa.int64())))

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
            raise DataError(f"a function returned a value that is no {self.type}: {error}", hint="declare a wider type") from None
