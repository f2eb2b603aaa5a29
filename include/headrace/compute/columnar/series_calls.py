"""Calls of functions over whole series: their points become columns of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.compute.columnar.arrays import Values
from headrace.compute.columnar.expressions import evaluate
from headrace.compute.columnar.rows import Array, Rows, concat_rows, to_integers
from headrace.compute.columnar.series_points import Points, first_of_each_time, join, process_part
from headrace.compute.nodes import TIME, Column, Node
from headrace.compute.plan import Plan
from headrace.compute.plan_clauses import SeriesArrowCall
from headrace.compute.sql_text import at_present
from headrace.compute.types import from_ticks

INSTANT: Final = "__call_time"


def add_calls(plan: Plan, parts: Sequence[Rows]) -> Rows:
    """Return rows with a column for each call, in order of device and time; instants that only a call has are further rows."""
    rows = concat_rows(parts)
    assert plan.identity.time is not None
    rows, ticks = in_order(rows, to_integers(evaluate(plan.identity.time, rows.columns)))
    points = {call.column: call_points(call, plan, rows, ticks) for call in plan.series.arrow_calls}
    others = {name: values for name, values in rows.columns.items() if name != TIME}
    joined, instants = join(Rows(rows.devices, others), ticks, points)
    time = evaluate(from_ticks(Column(INSTANT), plan.precision), {INSTANT: pa.array(instants)})
    return Rows(joined.devices, {TIME: time, **joined.columns})


def in_order(rows: Rows, ticks: Array) -> tuple[Rows, Array]:
    """Return rows in the order of device and time."""
    order = np.lexsort((ticks, rows.devices))
    return rows.take(order), ticks[order]


def call_points(call: SeriesArrowCall, plan: Plan, rows: Rows, ticks: Array) -> Points:
    """Return the points of one call."""
    inputs = [evaluated(at_present(plan, node), rows) for node in call.inputs]
    with closing(call.rule.open()) as stream:
        points = process_part(stream, rows.devices, ticks, inputs, more=False)
    return first_of_each_time(points)


def evaluated(node: Node, rows: Rows) -> Values:
    """Return the value of an expression in each row."""
    values = evaluate(node, rows.columns)
    return pa.repeat(values, len(rows.devices)) if isinstance(values, pa.Scalar) else values
