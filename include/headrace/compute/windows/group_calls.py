"""Arrow functions over the rows of groups, which the segments of a group have kept as a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.compute.plan import GroupCall
from headrace.compute.types import spark_type
from headrace.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_calls(calls: tuple[GroupCall, ...], groups: DataFrame) -> DataFrame:
    """Return one row a group with the values of Arrow functions as further columns."""
    if not calls:
        return groups
    from pyspark.sql.pandas.types import to_arrow_schema

    lists = {call.rows for call in calls}
    # The natural order of the structs is that of time, and the same whatever way the rows came.
    ordered = groups.selectExpr(*(f"array_sort({name}) AS {name}" if name in lists else name for name in groups.columns))
    schema = ordered.selectExpr("*", *(f"CAST(NULL AS {value_type(call)}) AS {call.column}" for call in calls)).schema
    return ordered.mapInArrow(evaluator(calls, to_arrow_schema(schema)), schema)


def value_type(call: GroupCall) -> str:
    type_ = spark_type(call.type)
    return f"array<{type_}>" if call.many else type_


def evaluator(calls: tuple[GroupCall, ...], schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that runs in Spark's tasks."""

    def evaluate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = [called(call, batch.column(call.rows), schema.field(call.column).type) for call in calls]
            yield pa.RecordBatch.from_arrays([*batch.columns, *values], names=schema.names)

    return evaluate


def called(call: GroupCall, lists: pa.ListArray, type_: pa.DataType) -> pa.Array:
    """Return the value of one function for each group."""
    return pa.array([value(call, rows) for rows in groups_of(lists)], type_)


def groups_of(lists: pa.ListArray) -> Iterator[pa.Table]:
    """Yield the rows of each group."""
    rows, start = lists.flatten(), 0
    for length in lists.value_lengths().to_pylist():
        yield pa.Table.from_struct_array(rows.slice(start, length or 0))
        start += length or 0


def value(call: GroupCall, rows: pa.Table) -> object:
    """Return the value of one group.

    Raises:
        DataError: the function has not returned one value although it declares so.
    """
    found = call.apply(rows).to_pylist()
    if call.many:
        return found
    if len(found) != 1:
        raise DataError(f"a function over {rows.num_rows} rows returned {len(found)} values, not 1", hint="declare it with many")
    return found[0]
