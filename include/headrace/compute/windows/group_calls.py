"""Calls of Arrow functions over the rows of groups, which segments have collected as a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.compute.plan_clauses import GroupCall
from headrace.compute.types import spark_type
from headrace.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def add_group_calls(calls: tuple[GroupCall, ...], groups: DataFrame) -> DataFrame:
    """Add the values of Arrow functions as columns to a data frame with one row per group."""
    if not calls:
        return groups
    from pyspark.sql.pandas.types import to_arrow_schema

    lists = {call.rows for call in calls}
    # Sort structs, whose first field is the time, because rows arrive in any order.
    ordered = groups.selectExpr(*(f"array_sort({name}) AS {name}" if name in lists else name for name in groups.columns))
    schema = ordered.selectExpr("*", *(f"CAST(NULL AS {value_type(call)}) AS {call.column}" for call in calls)).schema
    return ordered.mapInArrow(make_evaluator(calls, to_arrow_schema(schema)), schema)


def value_type(call: GroupCall) -> str:
    """Return the Spark type of the value of a call."""
    type_ = spark_type(call.type)
    return f"array<{type_}>" if call.many else type_


def make_evaluator(
    calls: tuple[GroupCall, ...], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def evaluate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = [call_for_groups(call, batch.column(call.rows), schema.field(call.column).type) for call in calls]
            yield pa.RecordBatch.from_arrays([*batch.columns, *values], names=schema.names)

    return evaluate


def call_for_groups(call: GroupCall, lists: pa.ListArray, type_: pa.DataType) -> pa.Array:
    return pa.array([call_for_group(call, rows) for rows in split_groups(lists)], type_)


def split_groups(lists: pa.ListArray) -> Iterator[pa.Table]:
    rows, start = lists.flatten(), 0
    for length in lists.value_lengths().to_pylist():
        yield pa.Table.from_struct_array(rows.slice(start, length or 0))
        start += length or 0


def call_for_group(call: GroupCall, rows: pa.Table) -> object:
    """Return the value for one group. Raise `DataError` if a function of one value returned another number of values."""
    values = call.apply(rows).to_pylist()
    if call.many:
        return values
    if len(values) != 1:
        raise DataError(f"a function over {rows.num_rows} rows returned {len(values)} values, not 1", hint="declare it with many")
    return values[0]
