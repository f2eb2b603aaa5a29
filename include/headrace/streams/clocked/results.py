"""The results of windows that the clock has closed, from the rows that the source had then."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Plan, aggregate_windows, prepare
from headrace.compute.columnar import UnsupportedError
from headrace.compute.evaluation.interp import POINT, interpolate
from headrace.compute.frames import SparkRows
from headrace.compute.nodes import NOW, Column, bigint, columns_of, substitute
from headrace.compute.plan import TS, WEND, WSTART, uses_neighbors
from headrace.compute.plan_clauses import InterpPlan
from headrace.compute.sql_text import to_stored_type
from headrace.compute.window_plans import Bound
from headrace.compute.windows import key_columns
from headrace.compute.windows.fill import fill_windows
from headrace.compute.windows.segments import finish_as_ticks
from headrace.context import Context
from headrace.model.windows import Windows
from headrace.storage.spark.functions import F
from headrace.streams.definition.define import StreamPlan
from headrace.streams.windows.evaluation import KernelEvaluation, kernel_for, typed_rows
from headrace.streams.windows.window_sql import IS_RESULT, small_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TICKS_PREFIX: Final = "_t_"
"""The prefix of outputs with instants as ticks, as FILL carries them."""


@dataclass(frozen=True)
class ClockedResults:
    """The rows to write, and with FILL the last result of each group in ticks."""

    rows: pa.Table
    last_results: pa.Table | None = None


class ResultEvaluation:
    """Evaluates windows by kernels where the plan allows that, else by the Spark SQL of queries."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan
        self.kernels: KernelEvaluation | None = None
        if is_mergeable(plan.query):
            self.kernels = kernel_for(context, plan, lambda: KernelEvaluation.compile(plan))

    def evaluate(self, rows: pa.Table, windows: Windows, last_results: pa.Table | None, now: int) -> ClockedResults:
        """Return the results of consecutive windows from their rows and what else their values depend on.

        `last_results` has the last result of each group, with FILL; `now` is the present in epoch ms.
        """
        first, last = int(windows.start[0]), int(windows.start[-1])
        if self.kernels is not None:
            with suppress(UnsupportedError):
                results = self.kernels.merge_inserts(typed_rows(self.plan, rows), None)
                is_due = pc.and_(pc.greater_equal(results[WSTART], first), pc.less_equal(results[WSTART], last))
                return ClockedResults(results.filter(pc.and_(is_due, results[IS_RESULT])))
        frame = small_frame(self.context.spark(), typed_rows(self.plan, rows))
        return self.evaluate_frame(frame, windows, last_results, now)

    def evaluate_frame(self, rows: DataFrame, windows: Windows, last_results: pa.Table | None, now: int) -> ClockedResults:
        """Do what `evaluate` does by Spark SQL, from rows that may be many."""
        first, last = int(windows.start[0]), int(windows.start[-1])
        query = with_due_instants(self.plan.query.at(now), self.plan.watermark)
        if query.interp is not None:
            return ClockedResults(points(query, query.interp, rows, first, last).toArrow())
        finished = finish_as_ticks(query, aggregate_windows(query, prepare(query, rows)))
        due = finished.where(f"{WSTART} BETWEEN {first}L AND {last}L")
        if query.fill is None:
            return ClockedResults(due.selectExpr(*result_columns(query), WEND).toArrow())
        return fill(query, due, last_results, first, last)


def with_due_instants(query: Plan, watermark: int) -> Plan:
    """Return a query in whose select list the present is the instant at which a window falls due, whenever it is computed."""
    due = Column(POINT) + bigint(watermark) if query.interp is not None else Column(WEND) + bigint(watermark + 1)
    outputs = (replace(output, node=substitute(output.node, {NOW.name: due})) for output in query.outputs)
    return replace(query, outputs=tuple(outputs))


def is_mergeable(query: Plan) -> bool:
    """Return whether the values of a window depend on its rows alone, and not on the present."""
    nodes = [output.node for output in query.outputs] + [key.node for key in query.keys]
    nodes += [argument.node for argument in query.arguments] + ([query.filter] if query.filter else [])
    depends_on_now = any(name == NOW.name for node in nodes for name in columns_of(node))
    return query.fill is None and query.interp is None and not depends_on_now and not uses_neighbors(query)


def fill(query: Plan, due: DataFrame, last_results: pa.Table | None, first: int, last: int) -> ClockedResults:
    """Return due windows with those that FILL adds to the groups that have been seen, up to the last due one."""
    results = due
    if last_results is not None and last_results.num_rows:
        results = due.unionByName(small_frame(due.sparkSession, last_results).selectExpr(*due.columns))
    filled = fill_windows(replace(query, bounds=(None, Bound(last))), results)
    ticks = [f"{output.column} AS {TICKS_PREFIX}{output.column}" for output in query.outputs]
    rows = filled.selectExpr(*result_columns(query), WEND, *ticks).toArrow()
    latest = rows.filter(pc.equal(rows[WSTART], last))
    columns = [*key_columns(query), WSTART, WEND, *(TICKS_PREFIX + output.column for output in query.outputs)]
    names = [name.removeprefix(TICKS_PREFIX) for name in columns]
    return ClockedResults(rows.filter(pc.greater_equal(rows[WSTART], first)), latest.select(columns).rename_columns(names))


def points(query: Plan, interp: InterpPlan, rows: DataFrame, first: int, last: int) -> DataFrame:
    """Return the interpolated points of the groups that have a row at or before each."""
    keys = key_columns(query)
    prepared = prepare(query, rows)
    values = interpolate(query, replace(interp, first=Bound(first), last=Bound(last)), SparkRows(query, prepared)).frame
    seen = prepared.groupBy(*keys).agg(F.min(TS).alias("_seen"))
    same = [F.col(f"values.{key}").eqNullSafe(F.col(f"seen.{key}")) for key in keys]
    joined = values.alias("values").join(seen.alias("seen"), reduce(and_, same, F.lit(True))).where(f"{POINT} >= _seen")
    named = joined.select(
        *(F.col(f"values.{key}") for key in keys), F.col(POINT).alias(WSTART), *(output.column for output in query.outputs)
    )
    return named.selectExpr(*result_columns(query))


def result_columns(query: Plan) -> list[str]:
    """Return what identifies a result, and the select list in stored types, as Spark SQL over finished windows."""
    outputs = [
        f"{to_stored_type(Column(output.column), output.type, query.precision)} AS {output.column}" for output in query.outputs
    ]
    return [*key_columns(query), WSTART, *outputs]
