"""Calls of Arrow functions over the rows of groups, which segments have collected as a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.functions.arrow import STATE, TIME
from headrace.compute.plan_clauses import GroupCall
from headrace.compute.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUP: Final = "group"
MIN_ABSORBED: Final = 4
"""Rows for each segment, on average, from which states are smaller."""


def add_group_calls(calls: tuple[GroupCall, ...], groups: DataFrame) -> DataFrame:
    """Add the values of Arrow functions as columns to a data frame with one row per group; states take the place of rows."""
    if not calls:
        return groups
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    own = to_arrow_schema(groups.schema)
    for call in calls:
        if call.rule.merge is not None:
            position = own.get_field_index(call.rows)
            own = own.set(position, pa.field(call.rows, list_with_states(own.field(position).type)))
    values = groups.selectExpr(*(f"CAST(NULL AS {spark_type(call.rule.type)}) AS {call.column}" for call in calls)).schema
    schema = pa.schema([*own, *to_arrow_schema(values)])
    return groups.mapInArrow(make_evaluator(calls, schema), from_arrow_schema(schema))


def make_evaluator(
    calls: tuple[GroupCall, ...], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def evaluate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            columns |= call_groups(calls, columns)
            arrays = [columns[field.name].cast(field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return evaluate


def call_groups(calls: Sequence[GroupCall], columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Return the value of each call for each group, and the lists of rows that a state has taken the place of."""
    results: dict[str, pa.Array] = {}
    for call in calls:
        lists = columns[call.rows]
        if call.rule.merge is not None:
            merged = call.rule.merge(numbered_rows(lists), len(lists))
            results |= {call.column: merged["value"].combine_chunks(), call.rows: state_lists(merged[STATE], lists)}
        else:
            values = call.rule.apply(numbered_rows(lists), len(lists))
            results[call.column] = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return results


def absorb_rows(calls: Sequence[GroupCall], segments: pa.Table) -> pa.Table:
    """Let states take the place of the rows of segments, where that saves most of them."""
    for call in calls:
        lists = segments[call.rows].combine_chunks()
        if call.rule.merge is not None and len(lists.flatten()) >= MIN_ABSORBED * max(len(lists), 1):
            merged = call.rule.merge(numbered_rows(lists), len(lists))
            position = segments.schema.get_field_index(call.rows)
            segments = segments.set_column(position, call.rows, state_lists(merged[STATE], lists))
    return segments


def state_lists(states: pa.ChunkedArray, rows: pa.ListArray) -> pa.ListArray:
    """Return lists of one element, the state, in the place of lists of rows and states; empty lists stay empty."""
    is_present = pc.fill_null(pc.greater(rows.value_lengths(), 0), False)
    kept = states.combine_chunks().filter(is_present)
    type_ = list_with_states(rows.type)
    *fields, state = type_.value_type
    nulls = [pa.nulls(len(kept), field.type) for field in fields]
    elements = pa.StructArray.from_arrays([*nulls, kept], fields=[*fields, state])
    offsets = np.concatenate([[0], np.cumsum(is_present.to_numpy(zero_copy_only=False))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), elements, type_)


def list_with_states(type_: pa.ListType) -> pa.ListType:
    """Return the type of lists of rows and states: where there is a state, the columns of a row are NULL."""
    row = pa.struct([field.with_nullable(True) for field in type_.value_type])
    return pa.list_(pa.field(type_.value_field.name, row))


def numbered_rows(lists: pa.ListArray) -> pa.Table:
    """Return the rows of all groups in order of time, with the number of their group in a first column `group`.

    Serialized states, which are elements of the lists, too, are in a last column `state`.
    """
    rows = pa.Table.from_struct_array(lists.flatten())
    if rows.num_columns and rows.column_names[-1].startswith(STATE):
        rows = rows.rename_columns([*rows.column_names[:-1], STATE])
    return in_order(rows.add_column(0, GROUP, pc.list_parent_indices(lists).cast(pa.int64())))


def in_order(rows: pa.Table) -> pa.Table:
    """Return rows in order of group and time. Rows at one time are in an order that depends on nothing but their values."""
    times = pc.fill_null(pc.cast(rows[TIME], pa.int64()), 0).to_numpy()
    groups = rows[GROUP].to_numpy()
    if ((groups[1:] > groups[:-1]) | (times[1:] > times[:-1])).all():
        return rows
    return rows.sort_by([(name, "ascending") for name in rows.column_names])
