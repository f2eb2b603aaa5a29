"""`evaluate_locally`: runs a plan over few rows with Arrow in this process, as Spark would."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from headrace.compute.columnar.arrays import compiling_for_bulk, refuse
from headrace.compute.columnar.mathematics import allowing_last_digits
from headrace.compute.columnar.table_plans import TableReader, check_tables, evaluate_tables
from headrace.compute.nodes import UnsupportedError
from headrace.compute.plan import AnyPlan

MAX_PYTHON_ROWS: Final = 50_000
"""Rows for each of which Python code may be called: that of more would hold up other threads, such as those of streams."""
UNSUPPORTED: Final = (UnsupportedError, pa.ArrowException, MemoryError)
"""What is raised for a plan that only Spark evaluates: also by Arrow, of which an array does not hold more text than 2 GiB."""


def evaluate_locally(plan: AnyPlan, reader: TableReader, max_rows: int, max_result_rows: int | None = None) -> pa.Table | None:
    """Return the result that `evaluate` has, ordered; None if Spark has to evaluate the plan.

    At most `max_rows` rows are read, and at most `max_result_rows` returned; None for as many as fit in memory.
    """
    try:
        with allowing_last_digits():
            result = evaluate_tables(plan, reader, max_rows if is_bulk(plan) else min(max_rows, MAX_PYTHON_ROWS))
        refuse(max_result_rows is not None and result.num_rows > max_result_rows, "too many result rows")
    except UNSUPPORTED:
        return None
    return result


def is_bulk(plan: AnyPlan) -> bool:
    """Return whether a plan calls no Python code for each row; raise `UnsupportedError` if only Spark evaluates it."""
    try:
        with compiling_for_bulk():
            check_tables(plan)
    except UnsupportedError:
        check_tables(plan)
        return False
    return True


def is_supported(plan: AnyPlan) -> bool:
    """Return whether `evaluate_locally` evaluates a plan, unless it has to read or to keep too much."""
    try:
        with allowing_last_digits():
            check_tables(plan)
    except UNSUPPORTED:
        return False
    return True
