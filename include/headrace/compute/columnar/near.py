"""`evaluate_locally`: runs a plan over few rows with Arrow in this process, as Spark would."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Protocol

import pyarrow as pa

from headrace.compute.columnar.arrays import compiling_for_bulk, refuse
from headrace.compute.columnar.columns import as_array
from headrace.compute.columnar.expressions import evaluate, type_of
from headrace.compute.columnar.mathematics import allowing_last_digits
from headrace.compute.columnar.ordering import limit
from headrace.compute.columnar.rows import RowReader
from headrace.compute.columnar.table_plans import MAX_ROWS, TableReader, check_tables, evaluate_tables
from headrace.compute.columnar.tree_plans import LocalPlan, stored_node
from headrace.compute.nodes import UnsupportedError
from headrace.compute.plan import AnyPlan, Plan
from headrace.compute.plan_sources import OneRow, SeriesRows
from headrace.compute.sql_text import at_present

MAX_PYTHON_ROWS: Final = 50_000
"""Rows for each of which Python code may be called: that of more would hold up other threads, such as those of streams."""
UNSUPPORTED: Final = (UnsupportedError, pa.ArrowException, MemoryError)
"""What is raised for a plan that only Spark evaluates: also by Arrow, of which an array does not hold more text than 2 GiB."""


class NearReader(RowReader, TableReader, Protocol):
    """Reads the rows of tables and of trees."""


def evaluate_locally(plan: AnyPlan, reader: NearReader, max_rows: int, max_result_rows: int | None = None) -> pa.Table | None:
    """Return the result that `evaluate` has, ordered; None if Spark has to evaluate the plan.

    At most `max_rows` rows are read, and at most `max_result_rows` returned; None for as many as fit in memory.
    """
    try:
        if isinstance(plan, Plan) and isinstance(plan.source, OneRow):
            return evaluate_one_row(plan)
        if isinstance(plan, Plan) and isinstance(plan.source, SeriesRows):
            with suppress(*UNSUPPORTED):
                return plan_for_cells(plan).run(reader, max_rows, max_result_rows)
        with allowing_last_digits():
            result = evaluate_tables(plan, reader, min(max_rows, rows_in_reach(plan)))
        refuse(max_result_rows is not None and result.num_rows > max_result_rows, "too many result rows")
    except UNSUPPORTED:
        return None
    return result


def plan_for_cells(plan: Plan) -> LocalPlan:
    """Return a plan that is evaluated over any number of rows, or raise `UnsupportedError`."""
    with compiling_for_bulk():
        return LocalPlan(plan)


def rows_in_reach(plan: AnyPlan) -> int:
    """Return over how many rows a plan is evaluated near at most; raise `UnsupportedError` if only Spark evaluates it."""
    try:
        with compiling_for_bulk():
            check_tables(plan)
    except UnsupportedError:
        check_tables(plan)
        return MAX_PYTHON_ROWS
    return MAX_ROWS


def is_supported(plan: AnyPlan) -> bool:
    """Return whether `evaluate_locally` evaluates a plan, unless it has to read or to keep too much."""
    try:
        if isinstance(plan, Plan) and isinstance(plan.source, OneRow):
            return evaluate_one_row(plan) is not None
        if isinstance(plan, Plan) and isinstance(plan.source, SeriesRows):
            with suppress(*UNSUPPORTED):
                return plan_for_cells(plan) is not None
        with allowing_last_digits():
            check_tables(plan)
    except UNSUPPORTED:
        return False
    return True


def evaluate_one_row(plan: Plan) -> pa.Table:
    """Return the result of a SELECT without FROM, or raise `UnsupportedError`."""
    refuse(plan.aggregated or plan.series.calls or plan.series.arrow_calls or plan.interp, "clause")
    nodes = [stored_node(plan, output, {}, {}) for output in plan.outputs]
    names = [output.name for output in plan.outputs]
    row = pa.Table.from_arrays([as_array(evaluate(node, {}), 1) for node in nodes], names=names)
    if plan.filter is not None:
        type_of(condition := at_present(plan, plan.filter), {})
        row = row.slice(0 if evaluate(condition, {}).as_py() else 1)
    return limit(plan.order, row)
