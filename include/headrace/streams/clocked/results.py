"""The results of windows that the clock has closed, from the rows that the source had then."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Key, Plan, aggregate_windows, prepare
from headrace.compute.columnar import UnsupportedError
from headrace.compute.columnar.frames import ArrowRows
from headrace.compute.columnar.near import UNSUPPORTED
from headrace.compute.columnar.table_plans import NoRows, TableEvaluator
from headrace.compute.evaluation.interp import POINT, interpolate
from headrace.compute.evaluation.series_calls import passing_rows
from headrace.compute.frames import Frame
from headrace.compute.nodes import NOW, Column, Node, Over, bigint, call, columns_of, substitute
from headrace.compute.plan import TS, WEND, WSTART, uses_neighbors
from headrace.compute.plan_clauses import InterpPlan
from headrace.compute.shares import KernelUse
from headrace.compute.sql_text import stored_outputs
from headrace.compute.window_plans import Bound
from headrace.compute.windows import key_columns
from headrace.compute.windows.fill import fill_rows
from headrace.compute.windows.segments import finish_as_ticks, prepared_columns
from headrace.context import Context
from headrace.model.types import BIGINT
from headrace.model.windows import Windows
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.tables import concat
from headrace.streams.windows.evaluation import KernelEvaluation, evaluate_rows, kernel_for, typed_rows
from headrace.streams.windows.window_sql import IS_RESULT, small_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

F = TypeVar("F", bound=Frame)
SEEN: Final = "_seen"
"""The first instant of a group."""
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
        query, typed = with_due_instants(self.plan.query.at(now), self.plan.watermark), typed_rows(self.plan, rows)
        if (interp := query.interp) is not None:
            ranged = replace(interp, first=Bound(first), last=Bound(last))
            return ClockedResults(evaluate_rows(self.context, query, typed, lambda frame: points(query, ranged, frame)))
        if KernelUse(self.context.settings.kernels) is not KernelUse.NEVER:
            with suppress(*UNSUPPORTED):
                return self._results(query, TableEvaluator(NoRows(), [0]).aggregate(query, iter((typed,))), windows, last_results)
        return self.evaluate_frame(small_frame(self.context.spark(), typed), windows, last_results, now)

    def evaluate_frame(self, rows: DataFrame, windows: Windows, last_results: pa.Table | None, now: int) -> ClockedResults:
        """Do what `evaluate` does by Spark SQL, from rows that may be many, without INTERP."""
        query = with_due_instants(self.plan.query.at(now), self.plan.watermark)
        finished = finish_as_ticks(query, aggregate_windows(query, prepare(query, rows)))
        due = finished.where(f"{WSTART} BETWEEN {int(windows.start[0])}L AND {int(windows.start[-1])}L")
        return self._results(query, due.toArrow(), windows, last_results)

    def _results(self, query: Plan, finished: pa.Table, windows: Windows, last_results: pa.Table | None) -> ClockedResults:
        """Return due windows, with FILL also those that it adds to the groups that have been seen, up to the last due one."""
        first, last = int(windows.start[0]), int(windows.start[-1])
        kept, outputs = [*key_columns(query), WSTART, WEND], [output.column for output in query.outputs]
        names = [*kept, *outputs]
        ticks = ArrowRows(query, finished).select({name: Column(name) for name in names}).table
        due = ticks.filter(pc.and_(pc.greater_equal(ticks[WSTART], first), pc.less_equal(ticks[WSTART], last)))
        if query.fill is None:
            return ClockedResults(evaluate_rows(self.context, query, due, lambda frame: frame.select(result_columns(query))))
        if last_results is not None and last_results.num_rows:
            due = concat([due, last_results.select(names)])
        filled = evaluate_rows(self.context, query, due, lambda frame: fill_until(query, last, frame))
        results = filled.filter(pc.greater_equal(filled[WSTART], first)).select(names)
        latest = filled.filter(pc.equal(filled[WSTART], last))
        carried = latest.select([*kept, *(TICKS_PREFIX + name for name in outputs)])
        return ClockedResults(results, carried.rename_columns(names))


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


def fill_until(query: Plan, last: int, windows: F) -> F:
    """Return windows with those of FILL up to the one at `last`, with the outputs in stored types, and with instants as ticks."""
    filled = fill_rows(replace(query, bounds=(None, Bound(last))), windows)
    ticks: dict[str, Node] = {TICKS_PREFIX + output.column: Column(output.column) for output in query.outputs}
    return filled.select(result_columns(query) | ticks)


def points(query: Plan, interp: InterpPlan, rows: F) -> F:
    """Return the interpolated points of the groups that have a row at or before each."""
    keys: dict[str, Node] = {key.column: Column(key.column) for key in query.keys}
    first = Over(call("min", Column(TS)), tuple(keys.values()))
    prepared = passing_rows(query, rows).select(prepared_columns(query)).extend({SEEN: first})
    by_group = replace(query, keys=(*query.keys, Key(SEEN, SEEN, Column(SEEN), BIGINT)))
    values = interpolate(by_group, interp, prepared).where(Column(POINT) >= Column(SEEN))
    return values.select({**keys, WSTART: Column(POINT), **stored_outputs(query)})


def result_columns(query: Plan) -> dict[str, Node]:
    """Return what identifies a window, and the select list in stored types, over finished windows."""
    kept: dict[str, Node] = {name: Column(name) for name in (*key_columns(query), WSTART, WEND)}
    return kept | stored_outputs(query)
