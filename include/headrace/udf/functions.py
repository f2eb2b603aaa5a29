"""Base classes of functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.udf.bit_maps import BitMap
from headrace.udf.columns import Column, ResultValue
from headrace.udf.parameters import Parameters, Validator
from headrace.udf.strategies import AccessStrategy, RowByRowAccessStrategy
from headrace.udf.types import Type

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.udf.collectors import PointCollector
    from headrace.udf.rows import Row


@dataclass(slots=True)
class UDTFConfigurations:
    """What a UDTF declares in `before_start`."""

    access_strategy: AccessStrategy = field(default_factory=RowByRowAccessStrategy)
    output_data_type: Type | None = None

    def set_access_strategy(self, strategy: AccessStrategy) -> UDTFConfigurations:
        """Declare how `transform` receives points."""
        self.access_strategy = strategy
        return self

    def set_output_data_type(self, data_type: Type) -> UDTFConfigurations:
        """Declare the type of the values."""
        self.output_data_type = data_type
        return self


@dataclass(slots=True)
class UDAFConfigurations:
    """What a UDAF declares in `before_start`."""

    output_data_type: Type | None = None

    def set_output_data_type(self, data_type: Type) -> UDAFConfigurations:
        """Declare the type of the value."""
        self.output_data_type = data_type
        return self


class UDTF:
    """A function from points to points. Each call in a query, and each series, has an instance of its own.

    A subclass defines `before_start` and either `transform`, for a row or a window of rows, or `transform_batch`, which does the
    same for many rows at once. If both are defined, `transform_batch` is called.
    """

    def validate(self, validator: Validator) -> None:
        """Check inputs and attributes. Raise `ParameterError` if they are not valid."""

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        """Declare access strategy and output type, and prepare for the first point."""
        raise NotImplementedError

    def transform(self, row: Any, collector: PointCollector) -> Any:
        """Process a `Row`, or a `RowWindow` if the strategy has windows. A mappable function returns the value of the row."""
        raise NotImplementedError

    def transform_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | pa.Array | None:
        """Process many rows in order of time: `time` in ticks, then `x0`, `x1`, … for the inputs.

        Returns points as `time` and `value`, or None for none; a mappable function returns an array with a value for each row.
        The rows of a series may come in several batches. With a strategy that has windows, define `transform` instead, and use
        `RowWindow.batch`.
        """
        raise NotImplementedError

    def terminate(self, collector: PointCollector) -> None:
        """Add points after the last row."""

    def before_destroy(self) -> None:
        """Free what the instance holds. It is called in any case, also after an error."""


class State:
    """The state of an aggregate. A subclass defines the three methods; the constructor calls `reset`.

    Any other object may be a state, too, if `pickle` can represent it.
    """

    def __init__(self) -> None:
        """Create the state of no rows."""
        self.reset()

    def reset(self) -> None:
        """Set the fields to those of no rows."""
        raise NotImplementedError

    def serialize(self) -> bytes:
        """Return the fields as bytes. Tasks and micro-batches pass states to each other."""
        raise NotImplementedError

    def deserialize(self, data: bytes) -> None:
        """Set the fields to those that `serialize` has returned."""
        raise NotImplementedError


class UDAF:
    """An aggregate. Its states are merged, so that windows, tasks and micro-batches aggregate parts of the rows.

    A subclass defines `before_start`, `create_state`, `output_final`, either `add_input` for many rows or `add_row` for one, and
    `combine_state`, without which all rows of a group have to be in one place. If both `add_input` and `add_row` are defined,
    `add_input` is called. These methods change the state that they get, or return the one that takes its place.
    """

    def validate(self, validator: Validator) -> None:
        """Check inputs and attributes. Raise `ParameterError` if they are not valid."""

    def before_start(self, parameters: Parameters, configurations: UDAFConfigurations) -> None:
        """Declare the output type."""
        raise NotImplementedError

    def create_state(self) -> Any:
        """Return the state of no rows."""
        raise NotImplementedError

    def add_input(self, state: Any, columns: Sequence[Column], bit_map: BitMap) -> Any:
        """Add rows to a state.

        `columns` has the inputs in order, and the times in ticks as its last column. A row counts if it is marked in `bit_map`.
        """
        raise NotImplementedError

    def add_row(self, state: Any, row: Row) -> Any:
        """Add a row to a state."""
        raise NotImplementedError

    def combine_state(self, state: Any, other: Any) -> Any:
        """Add another state to a state."""
        raise NotImplementedError

    def remove_state(self, state: Any, removed: Any) -> Any:
        """Take a state away from a state that contains it.

        It is accepted from classes that are ported from Java, and never called: each window is computed from its own rows.
        """
        raise NotImplementedError

    def output_final(self, state: Any, result_value: ResultValue) -> None:
        """Set the value of a state. It is NULL if it is not set."""
        raise NotImplementedError

    def before_destroy(self) -> None:
        """Free what the instance holds. It is called in any case, also after an error."""
