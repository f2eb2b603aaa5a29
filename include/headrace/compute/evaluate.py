"""`evaluate`: a plan over all rows of its sources."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from headrace.compute.plan import AnyPlan, IntervalWindow, Plan, Scan
from headrace.compute.windows import finish, merge, prepare, segments
from headrace.errors import NotSupportedError

Rows = DataFrame | Callable[[Scan], DataFrame]


def evaluate(plan: AnyPlan, rows: Rows) -> DataFrame:
    """The result of a query: columns named and ordered as the select list, of stored types.

    `rows` is the one table's frame (physical columns, `tbname`, tags joined), or a function that reads each `Scan` of the plan.
    """
    if not isinstance(plan, Plan):
        raise NotSupportedError("UNION is not offered yet")
    source = plan.source
    if not isinstance(source, Scan):
        raise NotSupportedError("sub-queries are not offered yet")
    prepared = prepare(plan, rows if isinstance(rows, DataFrame) else rows(source))
    found = segments(plan, prepared)
    whole = found if plan.window is None or isinstance(plan.window, IntervalWindow) else merge(plan, found)
    finished = finish(plan, whole)
    return finished.select(*(output.column for output in plan.outputs)).toDF(*(output.name for output in plan.outputs))
