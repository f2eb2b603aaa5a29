"""The Spark SQL of a micro-batch: rows become segments, segments and windows in state become windows with their values.

A batch of new rows that are on time does both in one job (`merge_insert_batch`). A batch that makes windows be recalculated does
one after the other (`assign_windows`, `finalize_windows`), and between them `headrace.streams.windows.lateness` decides which
segments count. Every frame is lazy. Beside the query's own partial aggregates there are a few for bookkeeping.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from headrace.compute import Key, Plan, merge, prepare, segments
from headrace.compute.plan import END, TS, WEND, WSTART, Aggregate, EventWindow, IntervalWindow, Partial, StateWindow
from headrace.compute.running import run, stored
from headrace.compute.windows import ATTRIBUTES, intervals, key_columns
from headrace.compute.windows.segments import joined, merges
from headrace.model.types import BIGINT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ADDED: Final = "_added"
"""Rows that the batch added to a window."""
USED: Final = "_used"
"""The same, each row counted in one of its windows."""
LATEST: Final = "_latest"
"""Their largest instant."""
DIRTY: Final = "_dirty"
"""Whether the window was evaluated again."""
WHOLE: Final = "_whole"
"""Whether the window is one that the query shows: an event window that has ended, one that is long enough."""
EMITTED: Final = "_emitted"
"""What the target has of a window that the state holds: nothing, an older value, its value."""
ROW: Final = "_row"
"""The number of the row that a segment is made of."""

_sessions: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()


def small_session(spark: SparkSession) -> SparkSession:
    """A session of the same application for batches that fit the driver: one partition, plans taken as they are."""
    if spark not in _sessions:
        session = spark.newSession()
        session.conf.set("spark.sql.adaptive.enabled", "false")
        session.conf.set("spark.sql.shuffle.partitions", "1")
        _sessions[spark] = session
    return _sessions[spark]


def stream_plan(plan: Plan) -> Plan:
    """The plan with bookkeeping among its partials."""
    partials = (
        Partial(ADDED, "count(1)", f"sum({ADDED})", row="1L"),
        Partial(USED, f"count_if({once(plan)})", f"sum({USED})", row=f"if({once(plan)}, 1L, 0L)"),
        Partial(LATEST, f"max({TS})", f"max({LATEST})", row=TS),
        Partial(DIRTY, "max(false)", f"max({DIRTY})", row="false"),
    )
    return replace(plan, aggregates=(*plan.aggregates, Aggregate("", "", partials, "", BIGINT)))


def once(plan: Plan) -> str:
    """A condition that holds for a row in just one of the windows it lies in: the latest."""
    window = plan.window
    if isinstance(window, IntervalWindow) and window.slides and window.zone is not None:
        return f"{WSTART} = {intervals.start(window, TS, plan.precision)}"
    if isinstance(window, IntervalWindow) and window.slides:
        return f"{TS} - {WSTART} < {window.sliding.ticks(plan.precision)}L"
    return "true"


def result_window_condition(plan: Plan) -> str:
    """Return the condition that a window is one that the query shows."""
    match plan.window:
        case EventWindow(true_for=least):
            return f"{END} AND {WEND} - {WSTART} >= {least}L" if least else END
        case StateWindow(true_for=int(least)):
            return f"{WEND} - {WSTART} >= {least}L"
        case _:
            return "true"


def window_columns(plan: Plan) -> tuple[str, ...]:
    """Columns of a window that tell all there is to know of its rows."""
    attributes = ATTRIBUTES.get(type(plan.window), ())
    return (*key_columns(plan), WSTART, WEND, *attributes, *(partial.column for partial in plan.partials))


def segment_columns(plan: Plan) -> tuple[str, ...]:
    """Columns of a segment that is to be merged."""
    return (*window_columns(plan), ADDED, USED, LATEST, DIRTY)


def held_segments(plan: Plan, held: DataFrame) -> DataFrame:
    """Held windows as segments: nothing new in them."""
    empty = (f"0L AS {ADDED}", f"0L AS {USED}", f"CAST(NULL AS BIGINT) AS {LATEST}", f"false AS {DIRTY}")
    return held.selectExpr(*window_columns(plan), *empty)


def merge_insert_batch(plan: Plan, rows: DataFrame, held: DataFrame | None) -> DataFrame:
    """Windows after new rows: held ones and touched ones, with their values and partials."""
    extended = stream_plan(plan)
    found = segments(extended, prepare(extended, rows), by_row=True)
    if held is not None:
        found = found.unionByName(held_segments(plan, held))
    return finalize_windows(plan, found.coalesce(1))


def assign_windows(plan: Plan, rows: DataFrame) -> DataFrame:
    """Rows that pass WHERE, each as a segment for every window that it lies in; `_row` is carried along."""
    extended = stream_plan(replace(plan, keys=(*plan.keys, Key(ROW, ROW, ROW, BIGINT))))
    return segments(extended, prepare(extended, rows), by_row=True)


def finalize_windows(plan: Plan, found: DataFrame) -> DataFrame:
    """Segments merged to windows: what tells all of their rows, bookkeeping, `_whole`, and the select list in stored types."""
    # The state gives only windows that the batch concerns: what parts two of them may not be among them.
    return finalized(plan, merge(stream_plan(plan), found, apart=f"({ADDED} = 0)"))


def enlarged(plan: Plan, numbered: DataFrame) -> DataFrame:
    """Merge segments of which each has the number of its window (`numbering.NUMBER`), as `finalize_windows` does."""
    extended = stream_plan(plan)
    return finalized(plan, joined(extended, numbered, key_columns(plan), merges(extended), WSTART, WEND))


def finalized(plan: Plan, windows: DataFrame) -> DataFrame:
    """Windows with `_whole` and the select list."""
    outputs = (f"{stored(f'({run(plan, output.sql)})', output.type, plan.precision)} AS {output.column}" for output in plan.outputs)
    return windows.selectExpr(*segment_columns(plan), f"{result_window_condition(plan)} AS {WHOLE}", *outputs)
