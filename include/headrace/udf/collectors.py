"""The collector of the points that a function returns."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.udf.types import Type


class PointCollector:
    """Collects points: a time in ticks, and a value of the output type. Of several points at one time, the first one counts."""

    def __init__(self, data_type: Type) -> None:
        """Collect values of a type."""
        self._data_type = data_type
        self._times: list[int] = []
        self._values: list[Any] = []
        self._batches: list[pa.RecordBatch] = []

    def put(self, time: int, value: Any) -> None:
        """Add a point. None is no point."""
        if value is not None:
            self._times.append(time)
            self._values.append(value)

    put_int = put_long = put_float = put_double = put_boolean = put_string = put_binary = put

    def put_batch(self, times: Any, values: Any) -> None:
        """Add points: `times` and `values` are arrays of Arrow or NumPy, or lists. A NULL value is no point."""
        import pyarrow as pa

        self._flush()
        columns = [array_of(times, pa.int64()), array_of(values, self._data_type.arrow)]
        self._batches.append(pa.RecordBatch.from_arrays(columns, schema=points_schema(self._data_type)))

    def drain(self) -> pa.RecordBatch:
        """Return and forget the points that were added: `time` and `value`, in the order in which they were added."""
        import pyarrow as pa

        self._flush()
        batches, self._batches = self._batches, []
        match batches:
            case []:
                return no_points(self._data_type)
            case [points]:
                return points
            case _:
                points = pa.Table.from_batches(batches).combine_chunks().to_batches()
                return points[0] if points else no_points(self._data_type)

    def _flush(self) -> None:
        if self._times:
            times, values = self._times, self._values
            self._times, self._values = [], []
            self.put_batch(times, values)


def array_of(values: Any, data_type: pa.DataType) -> pa.Array:
    """Return an array of Arrow or NumPy, or a list, as an Arrow array of a type."""
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.cast(data_type) if isinstance(values, pa.Array) else pa.array(values, data_type)


@cache
def points_schema(data_type: Type) -> pa.Schema:
    """Return the columns of points whose values have a type."""
    import pyarrow as pa

    return pa.schema([("time", pa.int64()), ("value", data_type.arrow)])


@cache
def no_points(data_type: Type) -> pa.RecordBatch:
    """Return a batch without points."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], points_schema(data_type))
