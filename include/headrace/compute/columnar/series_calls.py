"""Calls of functions over whole series: their points become columns of the rows."""

from __future__ import annotations

import pyarrow as pa

from headrace.compute.columnar.arrays import arrow_type
from headrace.compute.columnar.columns import decoded, to_arrays
from headrace.compute.columnar.frames import ArrowRows
from headrace.compute.columnar.ordering import sort_rows
from headrace.compute.evaluation.series_arrow import INSTANT, evaluator, input_name
from headrace.compute.nodes import Column, Node, columns_of
from headrace.compute.plan import Plan
from headrace.compute.plan_sources import SeriesRows
from headrace.compute.types import from_ticks, spark_type


def add_series_functions(plan: Plan, rows: ArrowRows) -> ArrowRows:
    """Return rows with the points of functions over whole series; instants that only a function has are further rows."""
    assert plan.identity.time is not None
    keys = [plan.identity.series_column] if plan.identity.series_column else []
    (time,), calls = columns_of(plan.identity.time), plan.series.arrow_calls
    kept: dict[str, Node] = {name: Column(name) for name in rows.columns if name != time}
    inputs = {input_name(call, number): node for call in calls for number, node in enumerate(call.inputs)}
    selected = rows.select({**kept, INSTANT: plan.identity.time, **inputs}).table
    prepared = pa.table({name: decoded(values) for name, values in to_arrays(selected).items()})
    values = [pa.field(call.column, arrow_type(spark_type(call.type))) for call in calls]
    schema = pa.schema([*(prepared.schema.field(name) for name in (*kept, INSTANT)), *values])
    batches = sort_rows(prepared, (), [*keys, INSTANT]).combine_chunks().to_batches()
    parts = evaluator(calls, keys, schema)(iter(batches)) if prepared.num_rows else ()  # a function may start a process
    joined = pa.Table.from_batches(parts, schema)
    instant = Column(INSTANT)
    restored = from_ticks(instant, plan.precision) if isinstance(plan.source, SeriesRows) else instant
    return ArrowRows(plan, joined).select({**kept, **{call.column: Column(call.column) for call in calls}, time: restored})
