"""Rows and windows of rows, as functions see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.udf.types import Type

if TYPE_CHECKING:
    import pyarrow as pa


class Row:
    """One row: a time in ticks, and a value or None for each input. It is valid until `transform` returns."""

    __slots__ = ("_data_types", "time", "values")

    def __init__(self, data_types: Sequence[Type]) -> None:
        """Create a row of inputs of these types."""
        self._data_types = data_types
        self.time = 0
        self.values: Sequence[Any] = ()

    def get_time(self) -> int:
        """Return the time in ticks."""
        return self.time

    def get_int(self, index: int) -> Any:
        """Return the value of an input."""
        return self.values[index]

    get_long = get_float = get_double = get_boolean = get_string = get_binary = get_object = get_int

    def is_null(self, index: int) -> bool:
        """Return whether an input has no value at this time."""
        return self.values[index] is None

    def size(self) -> int:
        """Return the number of inputs."""
        return len(self._data_types)

    def get_data_type(self, index: int) -> Type:
        """Return the type of an input."""
        return self._data_types[index]


class RowIterator:
    """Iterates over the rows of a window in order of time, in a `for` loop or by `has_next_row` and `next`."""

    __slots__ = ("_next", "_window")

    def __init__(self, window: RowWindow) -> None:
        """Begin before the first row."""
        self._window = window
        self._next = 0

    def has_next_row(self) -> bool:
        """Return whether there is a further row."""
        return self._next < len(self._window)

    def next(self) -> Row:
        """Return the next row."""
        row = self._window.get_row(self._next)
        self._next += 1
        return row

    def reset(self) -> None:
        """Begin again."""
        self._next = 0

    def __iter__(self) -> RowIterator:
        """Return this iterator."""
        return self

    def __next__(self) -> Row:
        """Return the next row."""
        if not self.has_next_row():
            raise StopIteration
        return self.next()


class RowWindow:
    """The rows of a window.

    `batch` has them as an Arrow record batch: `time` in ticks, then `x0`, `x1`, … for the inputs.
    """

    __slots__ = ("_data_types", "_end", "_start", "_times", "_values", "batch")

    def __init__(self, batch: pa.RecordBatch, data_types: Sequence[Type], start: int, end: int) -> None:
        """Create a window that begins at `start` and ends at `end`."""
        self.batch = batch
        self._data_types = data_types
        self._start, self._end = start, end
        self._times: list[int] | None = None
        self._values: list[tuple[Any, ...]] = []

    def window_size(self) -> int:
        """Return the number of rows."""
        return int(self.batch.num_rows)

    __len__ = window_size

    def get_row(self, index: int) -> Row:
        """Return the row at an index from 0."""
        times = self._times if self._times is not None else self._load()
        row = Row(self._data_types)
        row.time, row.values = times[index], self._values[index]
        return row

    def get_row_iterator(self) -> RowIterator:
        """Return an iterator over the rows in order of time."""
        return RowIterator(self)

    __iter__ = get_row_iterator

    def get_data_type(self, index: int) -> Type:
        """Return the type of an input."""
        return self._data_types[index]

    def window_start_time(self) -> int:
        """Return the time at which the window begins."""
        return self._start

    def window_end_time(self) -> int:
        """Return the time at which the window ends."""
        return self._end

    def _load(self) -> list[int]:
        self._times, *columns = (column.to_pylist() for column in self.batch.columns)
        self._values = list(zip(*columns, strict=True))
        return self._times
