"""The columns of segments and windows in a micro-batch: a query's own partial aggregates are extended by a few for bookkeeping."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import pyarrow as pa

from headrace.compute import Plan
from headrace.compute.nodes import FALSE, NULL, Column, Node, bigint, call, if_
from headrace.compute.plan import TS
from headrace.compute.plan_clauses import Aggregate, Partial
from headrace.compute.sql_text import at_present, to_stored_type
from headrace.compute.windows import window_columns
from headrace.compute.windows.group_calls import add_group_calls
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
    is_counted = plan.kind.counts_row(plan)
    partials = (
        Partial(ADDED, call("count", bigint(1)), call("sum", Column(ADDED)), row=bigint(1)),
        Partial(USED, call("count_if", is_counted), call("sum", Column(USED)), row=if_(is_counted, bigint(1), bigint(0))),
        Partial(MAX_TIME, call("max", Column(TS)), call("max", Column(MAX_TIME)), row=Column(TS)),
        Partial(RECALCULATED, call("max", FALSE), call("max", Column(RECALCULATED)), row=FALSE),
    )
    aggregates = (*plan.groups.aggregates, Aggregate("", "", partials, NULL, BIGINT))
    return replace(plan, selection=replace(plan.groups, aggregates=aggregates))


def segment_columns(plan: Plan) -> tuple[str, ...]:
    return (*window_columns(plan), ADDED, USED, MAX_TIME, RECALCULATED)


def append_bookkeeping(state_windows: pa.Table) -> pa.Table:
    """Return windows in state as segments without new rows."""
    size = state_windows.num_rows
    zeros, none = pa.repeat(pa.scalar(0, pa.int64()), size), pa.nulls(size, pa.int64())
    bookkeeping = {ADDED: zeros, USED: zeros, MAX_TIME: none, RECALCULATED: pa.repeat(pa.scalar(False), size)}
    return pa.table({name: state_windows[name] for name in state_windows.column_names} | bookkeeping)


def output_columns(plan: Plan) -> dict[str, Node]:
    """Return `_is_result` and the select list in stored types, over windows, by the names of their columns."""
    outputs = {output.column: to_stored_type(at_present(plan, output.node), output.type, plan.precision) for output in plan.outputs}
    return {IS_RESULT: plan.kind.condition} | outputs


def select_outputs(plan: Plan, windows: DataFrame) -> DataFrame:
    called = add_group_calls(plan.groups.calls, windows)
    return called.selectExpr(*segment_columns(plan), *(f"{node} AS {name}" for name, node in output_columns(plan).items()))
