"""Calls of aggregates in the same process, as trusted functions run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.code.aggregate_calls import AggregateCall
from headrace.udf import UDAF, BitMap, Column, ParameterError, Parameters, ResultValue, Row, State, Type, UDAFConfigurations

LONG = Parameters([Type.INT64])


class Sum(UDAF):
    """The sum, whose states are new objects."""

    def before_start(self, parameters: Parameters, configurations: UDAFConfigurations) -> None:
        """Return the type of the input."""
        configurations.set_output_data_type(parameters.get_data_type(0))

    def create_state(self) -> Any:
        """Return 0."""
        return 0

    def add_row(self, state: Any, row: Row) -> Any:
        """Add a value."""
        return state + row.get_long(0)

    def combine_state(self, state: Any, other: Any) -> Any:
        """Add a sum."""
        return state + other

    def output_final(self, state: Any, result_value: ResultValue) -> None:
        """Set the sum, NULL for 0."""
        result_value.set(state or None)


class ValuesState(State):
    """The values of a group, which are sent as text."""

    values: list[int]

    def reset(self) -> None:
        """Begin without values."""
        self.values = []

    def serialize(self) -> bytes:
        """Return the values as text."""
        return ",".join(map(str, self.values)).encode()

    def deserialize(self, data: bytes) -> None:
        """Take the values of a text."""
        self.values = [int(text) for text in data.decode().split(",") if text]


class Values(Sum):
    """The sum, whose states are changed in place, and whose rows come as columns."""

    def create_state(self) -> Any:
        """Return the state of no values."""
        return ValuesState()

    def add_input(self, state: Any, columns: Sequence[Column], bit_map: BitMap) -> None:
        """Add values."""
        rows = range(columns[0].get_position_count())
        state.values += [columns[0].get_long(row) for row in rows if bit_map.is_marked(row)]

    def combine_state(self, state: Any, other: Any) -> None:
        """Add values."""
        state.values += other.values

    def output_final(self, state: Any, result_value: ResultValue) -> None:
        """Set the sum, NULL for 0."""
        result_value.set(sum(state.values) or None)


class Untyped(Sum):
    """A function that forgets its type."""

    def before_start(self, parameters: Parameters, configurations: UDAFConfigurations) -> None:
        """Do nothing."""


def rows_of(pairs: list[tuple[int, int]]) -> pa.RecordBatch:
    """Return rows of groups and values."""
    columns = {
        "group": [group for group, _ in pairs],
        "time": list(range(len(pairs))),
        "x0": [value for _, value in pairs],
    }
    return pa.record_batch({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def with_states(rows: pa.RecordBatch, states: pa.RecordBatch | None = None) -> pa.RecordBatch:
    """Return rows, and after them states of all groups."""
    own = rows.append_column("state", pa.nulls(rows.num_rows, pa.binary()))
    if states is None:
        return own
    numbers = pa.array(range(states.num_rows), pa.int64())
    others = pa.record_batch({"group": numbers, "time": pa.nulls(len(numbers), pa.int64())}).append_column(
        "x0", pa.nulls(len(numbers), pa.int64())
    )
    return pa.concat_batches([own, others.append_column("state", states["state"])])


@pytest.mark.parametrize("function", [Sum, Values])
@given(pairs=st.lists(st.tuples(st.integers(0, 3), st.integers(-99, 99))), cut=st.integers(0, 20))
def test_states_of_parts_are_merged_to_the_value_of_all(function: type[Sum], pairs: list[tuple[int, int]], cut: int) -> None:
    call = AggregateCall(function(), LONG)
    sums = [sum(value for other, value in pairs if other == group) or None for group in range(4)]
    states = call.merge(with_states(rows_of(pairs[:cut])), 4)
    merged = call.merge(with_states(rows_of(pairs[cut:]), states), 4)
    assert merged["value"].to_pylist() == sums
    assert call.merge(with_states(rows_of([]), merged), 4)["value"].to_pylist() == sums
    assert call.values(rows_of(pairs), 4)["value"].to_pylist() == sums


def test_two_states_of_a_group_are_combined() -> None:
    call = AggregateCall(Sum(), LONG)
    first, second = (call.merge(with_states(rows_of([(0, value)])), 1) for value in (3, 4))
    two = pa.concat_batches([with_states(rows_of([(0, 5)]), first), with_states(rows_of([]), second)])
    assert call.merge(two, 1)["value"].to_pylist() == [12]


def test_a_function_without_a_type_is_rejected() -> None:
    with pytest.raises(ParameterError, match=r"Untyped.before_start has to call set_output_data_type"):
        AggregateCall(Untyped(), LONG)
