"""Calls of a UDAF: rows and states of earlier rows to states and values, for many groups at once."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.code.runs import runs, sorted_by
from headrace.udf import (
    UDAF,
    BitMap,
    Column,
    ParameterError,
    Parameters,
    ResultValue,
    Row,
    State,
    Type,
    UDAFConfigurations,
    Validator,
)

STATE: Final = "state"


def configure(function: UDAF, parameters: Parameters) -> Type:
    """Prepare a function and return its output type. Raise `ParameterError` if the parameters of the call are not valid."""
    function.validate(Validator(parameters))
    configurations = UDAFConfigurations()
    function.before_start(parameters, configurations)
    if configurations.output_data_type is None:
        raise ParameterError(f"{type(function).__name__}.before_start has to call set_output_data_type")
    return configurations.output_data_type


@dataclass(slots=True)
class AggregateCall:
    """The call of an aggregate. Groups are numbers in any order, and results are in ascending order of the group.

    `on_group` receives the number of each group, and its rows or states, before they are processed.
    """

    function: UDAF
    parameters: Parameters
    on_group: Callable[[int, pa.RecordBatch], None] = lambda *_: None
    output_type: Type = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the function."""
        self.output_type = configure(self.function, self.parameters)

    def values(self, rows: pa.RecordBatch, groups: int) -> pa.RecordBatch:
        """Return the value of each of some groups, 0, 1, …, also of those without rows, as `value`.

        Args:
            rows: `group`, `time` in ticks, then `x0`, `x1`, … for the inputs; within a group in order of time.
            groups: the number of groups.
        """
        states = self._added({}, rows)
        finals = [self._final(self._state_of(states, group)) for group in range(groups)]
        return pa.RecordBatch.from_arrays([pa.array(finals, self.output_type.arrow)], ["value"])

    def merge(self, rows: pa.RecordBatch, groups: int) -> pa.RecordBatch:
        """Return the serialized state of each of some groups, 0, 1, …, and its value: `state` and `value`.

        Args:
            rows: as for `values`, with a last column `state`: if it is not NULL, the row is a state that this method has returned.
            groups: the number of groups.
        """
        is_row = rows[STATE].is_null()
        states = {group: self._combined(part[STATE]) for group, part in self._groups(rows.filter(pc.invert(is_row)))}
        states = self._added(states, rows.filter(is_row).drop_columns([STATE]))
        serialized, values = [], []
        for group in range(groups):
            state = self._state_of(states, group)
            serialized.append(serialize(state))  # before `output_final`, which may change the state
            values.append(self._final(state))
        columns = [pa.array(serialized, pa.binary()), pa.array(values, self.output_type.arrow)]
        return pa.RecordBatch.from_arrays(columns, [STATE, "value"])

    def _added(self, states: dict[int, Any], rows: pa.RecordBatch) -> dict[int, Any]:
        """Return the states of groups with further rows."""
        add = self._add_batch if is_vectorized(self.function) else self._add_rows
        return states | {group: add(self._state_of(states, group), part) for group, part in self._groups(rows)}

    def _state_of(self, states: dict[int, Any], group: int) -> Any:
        return states[group] if group in states else self.function.create_state()

    def _groups(self, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        rows = sorted_by(rows, "group")
        columns = rows.select([name for name in rows.schema.names if name != "group"])
        for group, first, after in runs(rows["group"]):
            part = columns.slice(first, after - first)
            self.on_group(group, part)
            yield group, part

    def _combined(self, states: pa.Array) -> Any:
        first, *others = (self._deserialize(data) for data in states.to_pylist())
        for other in others:
            first = changed(first, self.function.combine_state(first, other))
        return first

    def _deserialize(self, data: bytes) -> Any:
        state = self.function.create_state()
        if not isinstance(state, State):
            return pickle.loads(data)
        state.deserialize(data)
        return state

    def _final(self, state: Any) -> Any:
        result = ResultValue()
        if self.function.output_final(state, result) is not None:  # type: ignore[func-returns-value]
            raise TypeError("output_final sets the value by result_value.set_…, and returns nothing")
        return result.value

    def _add_batch(self, state: Any, rows: pa.RecordBatch) -> Any:
        times, *inputs = rows.columns
        typed = zip([*inputs, times], [*self.parameters.get_data_types(), Type.INT64], strict=True)
        bit_map = BitMap(rows.num_rows)
        bit_map.mark_all()
        return changed(state, self.function.add_input(state, [Column(*pair) for pair in typed], bit_map))

    def _add_rows(self, state: Any, rows: pa.RecordBatch) -> Any:
        row, add_row = Row(self.parameters.get_data_types()), self.function.add_row
        times, *columns = (column.to_pylist() for column in rows.columns)
        for row.time, row.values in zip(times, zip(*columns, strict=True), strict=True):
            result = add_row(state, row)
            if result is not None:
                state = result
        return state


def serialize(state: Any) -> bytes:
    """Return a state as bytes."""
    return state.serialize() if isinstance(state, State) else pickle.dumps(state)


def changed(state: Any, result: Any) -> Any:
    """Return what a method has returned, or the state that it has changed."""
    return state if result is None else result


def is_vectorized(function: UDAF) -> bool:
    """Return whether a function defines `add_input`."""
    return type(function).add_input is not UDAF.add_input


def is_mergeable(function: UDAF) -> bool:
    """Return whether a function defines `combine_state`."""
    return type(function).combine_state is not UDAF.combine_state
