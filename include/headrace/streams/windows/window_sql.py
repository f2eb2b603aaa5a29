"""The Spark SQL of a micro-batch: rows become segments; segments and windows in state become windows with their values.

A batch of new rows that are on time does both in one job (`merge_insert_batch`). A batch that makes windows be recalculated does
one after the other (`assign_windows`, `finalize_windows`); in between, `headrace.streams.windows.lateness` decides which segments
count. All DataFrames are lazy. The query's own partial aggregates are extended by a few for bookkeeping.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import pyarrow as pa

from headrace.compute import Key, Plan, merge, prepare, to_segments
from headrace.compute.nodes import FALSE, NULL, TRUE, Column, Node, bigint, both, call, if_
from headrace.compute.plan import IS_END, TS, WEND, WSTART
from headrace.compute.plan_clauses import Aggregate, Partial
from headrace.compute.sql_text import at_present, to_stored_type
from headrace.compute.window_plans import EventWindow, IntervalWindow, StateWindow
from headrace.compute.windows import ATTRIBUTES, intervals, key_columns
from headrace.compute.windows.group_calls import add_group_calls
from headrace.compute.windows.segments import aggregate_numbered, merge_columns
from headrace.model.types import BIGINT
from headrace.storage.spark.python_calls import define_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ADDED: Final = "_added"
"""The number of rows that the batch added to a window."""
USED: Final = "_used"
"""The same, but each row is counted in only one of its windows."""
MAX_TIME: Final = "_max_time"
"""The largest event time of these rows, in ticks."""
RECALCULATED: Final = "_recalculated"
"""Whether the window was recalculated."""
IS_RESULT: Final = "_is_result"
"""Whether the query returns the window: an event window has ended, a window with a minimum length is long enough."""
EMITTED: Final = "_emitted"
"""The `EmitState` of a window in state."""
ROW: Final = "_row"
"""The index of the row that a segment was made from."""

_sessions: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()


def small_session(spark: SparkSession) -> SparkSession:
    """Return a session for batches that fit the driver: one shuffle partition, and no adaptive execution."""
    if spark not in _sessions:
        session = spark.newSession()
        session.conf.set("spark.sql.adaptive.enabled", "false")
        session.conf.set("spark.sql.shuffle.partitions", "1")
        define_in(session)
        _sessions[spark] = session
    return _sessions[spark]


def small_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    # PySpark stops at an empty chunk, and fails on timestamp columns without chunks.
    return small_session(spark).createDataFrame(rows.combine_chunks() if rows.num_rows else rows.schema.empty_table())


def stream_plan(plan: Plan) -> Plan:
    is_counted = count_once_condition(plan)
    partials = (
        Partial(ADDED, call("count", bigint(1)), call("sum", Column(ADDED)), row=bigint(1)),
        Partial(USED, call("count_if", is_counted), call("sum", Column(USED)), row=if_(is_counted, bigint(1), bigint(0))),
        Partial(MAX_TIME, call("max", Column(TS)), call("max", Column(MAX_TIME)), row=Column(TS)),
        Partial(RECALCULATED, call("max", FALSE), call("max", Column(RECALCULATED)), row=FALSE),
    )
    aggregates = (*plan.groups.aggregates, Aggregate("", "", partials, NULL, BIGINT))
    return replace(plan, selection=replace(plan.groups, aggregates=aggregates))


def count_once_condition(plan: Plan) -> Node:
    """Return a condition that is true for a row in exactly one of its windows: the latest."""
    window = plan.window
    if isinstance(window, IntervalWindow) and window.slides and window.zone is not None:
        return Column(WSTART).equals(intervals.start(window, Column(TS), plan.precision))
    if isinstance(window, IntervalWindow) and window.slides:
        return Column(TS) - Column(WSTART) < bigint(window.sliding.ticks(plan.precision))
    return TRUE


def result_window_condition(plan: Plan) -> Node:
    length, is_ended = Column(WEND) - Column(WSTART), Column(IS_END)
    match plan.window:
        case EventWindow(true_for=min_length):
            return both(is_ended, length >= bigint(min_length)) if min_length else is_ended
        case StateWindow(true_for=int(min_length)):
            return length >= bigint(min_length)
        case _:
            return TRUE


def window_columns(plan: Plan) -> tuple[str, ...]:
    """Return the columns of a window that are needed to merge further rows into it."""
    attributes = ATTRIBUTES.get(type(plan.window), ())
    return (*key_columns(plan), WSTART, WEND, *attributes, *(partial.column for partial in plan.partials))


def segment_columns(plan: Plan) -> tuple[str, ...]:
    return (*window_columns(plan), ADDED, USED, MAX_TIME, RECALCULATED)


def append_bookkeeping(state_windows: pa.Table) -> pa.Table:
    """Return windows in state as segments without new rows."""
    size = state_windows.num_rows
    zeros, none = pa.repeat(pa.scalar(0, pa.int64()), size), pa.nulls(size, pa.int64())
    bookkeeping = {ADDED: zeros, USED: zeros, MAX_TIME: none, RECALCULATED: pa.repeat(pa.scalar(False), size)}
    return pa.table({name: state_windows[name] for name in state_windows.column_names} | bookkeeping)


def merge_insert_batch(plan: Plan, rows: DataFrame, in_state: DataFrame | None) -> DataFrame:
    """Return the windows after new rows: those in state (as segments) and the touched ones, with values and partials."""
    extended = stream_plan(plan)
    parts = to_segments(extended, prepare(extended, rows), by_row=True)
    if in_state is not None:
        parts = parts.unionByName(in_state.select(*segment_columns(plan)))
    return finalize_windows(plan, parts.coalesce(1))


def assign_windows(plan: Plan, rows: DataFrame) -> DataFrame:
    """Return the segments of rows that pass WHERE, one for each window that a row lies in, with `_row`."""
    extended = stream_plan(replace(plan, keys=(*plan.keys, Key(ROW, ROW, Column(ROW), BIGINT))))
    return to_segments(extended, prepare(extended, rows), by_row=True)


def merge_segments(plan: Plan, parts: DataFrame) -> DataFrame:
    """Merge segments into windows; return their `segment_columns`."""
    return merge(stream_plan(plan), parts, apart="false").selectExpr(*segment_columns(plan))


def finalize_windows(plan: Plan, parts: DataFrame) -> DataFrame:
    """Merge segments into windows; return their `segment_columns`, `_is_result`, and the select list in stored types."""
    # The windows that separate two windows in state may be unaffected and missing here, so two of these are never joined.
    return select_outputs(plan, merge(stream_plan(plan), parts, apart=f"({ADDED} = 0)"))


def finalize_numbered(plan: Plan, numbered: DataFrame) -> DataFrame:
    """Merge segments that have the number of their window (`numbering.NUMBER`) into windows, as `finalize_windows` does."""
    extended = stream_plan(plan)
    return select_outputs(plan, aggregate_numbered(extended, numbered, key_columns(plan), merge_columns(extended), WSTART, WEND))


def output_columns(plan: Plan) -> dict[str, Node]:
    """Return `_is_result` and the select list in stored types, over windows, by the names of their columns."""
    outputs = {output.column: to_stored_type(at_present(plan, output.node), output.type, plan.precision) for output in plan.outputs}
    return {IS_RESULT: result_window_condition(plan)} | outputs


def select_outputs(plan: Plan, windows: DataFrame) -> DataFrame:
    called = add_group_calls(plan.groups.calls, windows)
    return called.selectExpr(*segment_columns(plan), *(f"{node} AS {name}" for name, node in output_columns(plan).items()))
