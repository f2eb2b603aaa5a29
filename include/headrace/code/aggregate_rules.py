"""Rules of calls of a UDAF, of users or of the library."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.code.function_classes import FunctionClass
from headrace.code.inputs import TYPES, in_types
from headrace.compute.functions.arrow import ArrowRule
from headrace.model.types import DataType
from headrace.udf import Parameters

if TYPE_CHECKING:
    import pyarrow as pa


def aggregate_rule(source: FunctionClass, parameters: Parameters, note: str) -> ArrowRule:
    """Return the rule of a call, or raise `TypeMismatchError` if the class does not accept it."""
    description = source.configure_aggregate(parameters)
    merge = partial(states_of, source, parameters) if description.mergeable else None
    return ArrowRule(DataType(TYPES[description.output_type]), partial(values_of, source, parameters), merge, note)


def values_of(source: FunctionClass, parameters: Parameters, rows: pa.Table, groups: int) -> pa.Array:
    """Return the value of each group. Rows in which all inputs are NULL are no points."""
    return source.aggregate_values(parameters, in_types(parameters, rows), groups)


def states_of(source: FunctionClass, parameters: Parameters, rows: pa.Table, groups: int) -> pa.Table:
    """Return the state and value of each group of rows and states. Rows in which all inputs are NULL are no points."""
    return source.merge_states(parameters, in_types(parameters, rows), groups)
