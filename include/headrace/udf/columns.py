"""Columns of rows, and the result, as aggregates see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.udf.types import Type

if TYPE_CHECKING:
    import pyarrow as pa


class Column:
    """The values of an input in some rows, or their times in ticks. `array` has them as an Arrow array."""

    __slots__ = ("_data_type", "_values", "array")

    def __init__(self, array: pa.Array, data_type: Type) -> None:
        """Create a column of values of a type."""
        self.array = array
        self._data_type = data_type
        self._values: list[Any] | None = None

    def get_position_count(self) -> int:
        """Return the number of rows."""
        return len(self.array)

    __len__ = get_position_count

    def get_data_type(self) -> Type:
        """Return the type of the values."""
        return self._data_type

    def may_have_null(self) -> bool:
        """Return whether a row has no value."""
        return bool(self.array.null_count)

    def is_null(self, position: int) -> bool:
        """Return whether a row, by its index from 0, has no value."""
        return self.get_object(position) is None

    def get_object(self, position: int) -> Any:
        """Return the value of a row; None if it has none."""
        if self._values is None:
            self._values = self.array.to_pylist()
        return self._values[position]

    get_int = get_long = get_float = get_double = get_boolean = get_binary = get_string = get_object


class ResultValue:
    """Takes the value of an aggregate. It is NULL unless it is set."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        """Create a result that is NULL."""
        self.value: Any = None

    def set(self, value: Any) -> None:
        """Set the value, of the output type; None for NULL."""
        self.value = value

    set_int = set_long = set_float = set_double = set_boolean = set_binary = set_string = set

    def set_null(self) -> None:
        """Set NULL."""
        self.value = None
