"""TDengine's Python functions, which are functions of a module, as classes. This runs in code hosts."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from decimal import Decimal
from types import ModuleType
from typing import Any

import pyarrow as pa

from headrace.code.module_names import AGGREGATE, BUFFER_SIZE, OUTPUT_TYPE, SCALAR
from headrace.udf import (
    UDAF,
    UDTF,
    BitMap,
    Column,
    MappableRowByRowAccessStrategy,
    ParameterError,
    Parameters,
    ResultValue,
    Type,
    UDAFConfigurations,
    UDTFConfigurations,
)


class Block:
    """Rows of a call, as a module sees them. Text is bytes in UTF-8, and a timestamp is a number of ticks."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        """Create a block of columns of equal length."""
        self._columns = [[plain(value) for value in column.to_pylist()] for column in columns]

    def shape(self) -> tuple[int, int]:
        """Return the number of rows and of columns."""
        return len(self._columns[0]) if self._columns else 0, len(self._columns)

    def data(self, row: int, column: int) -> Any:
        """Return a value, None for NULL."""
        return self._columns[column][row]


def plain(value: Any) -> Any:
    """Return a value as modules see it."""
    if isinstance(value, str):
        return value.encode()
    return int(value) if isinstance(value, Decimal) else value


def adapt(module: ModuleType, name: str) -> type[UDTF] | type[UDAF]:
    """Return the class for the functions of a module, which is initialized, and destroyed when the host ends."""
    functions: Any = module
    functions.init()
    atexit.register(functions.destroy)
    bases: dict[str, type[ModuleScalar] | type[ModuleAggregate]] = {SCALAR: ModuleScalar, AGGREGATE: ModuleAggregate}
    return type(module.__name__, (bases[name],), {"module": functions})


class ModuleScalar(UDTF):
    """A module with `process(block)`, which returns a list with a value for each row."""

    module: Any

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        """Declare the type that the statement has declared."""
        configurations.set_access_strategy(MappableRowByRowAccessStrategy())
        configurations.set_output_data_type(output_type(parameters))
        self.convert = converter(output_type(parameters))

    def transform_batch(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the value of each row."""
        values = self.module.process(Block(batch.columns[1:]))
        if len(values) != batch.num_rows:
            raise ParameterError(f"process returned {len(values)} values for {batch.num_rows} rows")
        return pa.array([None if value is None else self.convert(value) for value in values])


class ModuleAggregate(UDAF):
    """A module with `start`, `reduce` and `finish`. Its states cannot be merged."""

    module: Any

    def before_start(self, parameters: Parameters, configurations: UDAFConfigurations) -> None:
        """Declare the type that the statement has declared."""
        configurations.set_output_data_type(output_type(parameters))
        self.convert = converter(output_type(parameters))
        self.max_bytes = parameters.get_int_or_default(BUFFER_SIZE, 0)

    def create_state(self) -> Any:
        """Return the state of no rows."""
        return self._checked(self.module.start())

    def add_input(self, state: Any, columns: Sequence[Column], bit_map: BitMap) -> Any:  # noqa: ARG002
        """Return the state with further rows."""
        return self._checked(self.module.reduce(Block([column.array for column in columns[:-1]]), state))

    def output_final(self, state: Any, result_value: ResultValue) -> None:
        """Set the value of a state."""
        value = self.module.finish(state)
        result_value.set(None if value is None else self.convert(value))

    def _checked(self, state: Any) -> Any:
        if self.max_bytes and len(state) > self.max_bytes:
            raise ParameterError(f"the state has {len(state)} bytes, more than BUFSIZE {self.max_bytes}")
        return state


def output_type(parameters: Parameters) -> Type:
    """Return the type of the values of a call."""
    return Type(parameters.get_string_or_default(OUTPUT_TYPE, Type.DOUBLE))


def converter(type_: Type) -> Callable[[Any], Any]:
    """Return the function that turns a module's value into one of a type."""
    if type_ in {Type.TEXT, Type.STRING}:
        return lambda value: value.decode() if isinstance(value, bytes) else str(value)
    if type_ in {Type.INT64, Type.TIMESTAMP}:
        return int
    return {Type.BOOLEAN: bool, Type.BLOB: bytes}.get(type_, float)
