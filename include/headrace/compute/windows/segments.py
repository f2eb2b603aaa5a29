"""Evaluation of windows step by step: rows to segments, segments of one window merged, windows to results.

`evaluate` composes the steps over all rows. A stream applies them to new rows and the segments it carries:
`finish(plan, merge(plan, carried ∪ to_segments(plan, prepare(plan, rows), by_row=True)))`. Small batches are fastest in one
partition (`coalesce(1)` on the rows, and on the union), because nothing is shuffled then.

What a carried segment must hold, and what rows out of order require:

- INTERVAL: one segment for each (keys, `_wstart`) with partials. Any split of the rows, in any order, merges to the same windows.
- SESSION: one segment for each session: `_wstart`, `_wend`, partials. Segments at most a gap apart are one session whatever lies
  between them, so any split in any order merges to the same sessions, provided that every session within a gap of a row
  (`_wend + gap ≥ ts` and `_wstart - gap ≤ ts`) is carried. A row may join two carried sessions.
- STATE: one segment for each run, with `_state`. Runs merge if they are adjacent in time and have the same state. While rows come
  in order within a partition, only the last run must be carried. A row inside a carried run of another state splits it, which
  partials cannot express: that partition is recalculated from its rows, from the start of the run.
- EVENT: one segment for each open window, with `_start` and `_end` (whether it contains such a row). In order, at most one open
  window per partition is carried, and rows before a START are dropped. A late END inside a carried window, or a late START before
  one, requires a recalculation from the last END before it.
- COUNT: one segment for each window that is not full, with `_first` (number of its first row in its partition) and `_rows`. A late
  row shifts every later boundary, which requires a recalculation from the window it falls into.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from headrace.compute import nodes
from headrace.compute.nodes import Node
from headrace.compute.plan import FIRST_ROW, IS_END, IS_START, KEY, ROW_COUNT, SERIES_KEY, STATE, TS, WEND, WSTART, Plan
from headrace.compute.sql_text import named_sql, stored_outputs, to_sql
from headrace.compute.window_plans import (
    CountWindow,
    EventWindow,
    IntervalWindow,
    RangeWindow,
    RunWindow,
    SessionWindow,
    StateWindow,
)
from headrace.compute.windows import intervals
from headrace.compute.windows.group_calls import add_group_calls
from headrace.compute.windows.numbering import WINDOW_NUMBER, number_segments
from headrace.errors import InternalError
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKET: Final = "_bucket"
ATTRIBUTES: Final[dict[type, tuple[str, ...]]] = {
    StateWindow: (STATE,),
    EventWindow: (IS_START, IS_END),
    CountWindow: (FIRST_ROW, ROW_COUNT),
}


def prepare(plan: Plan, rows: DataFrame) -> DataFrame:
    """Return the source rows (physical columns, series key, joined tags) that pass WHERE as prepared rows."""
    filtered = rows.where(to_sql(plan, plan.filter)) if plan.filter else rows
    prepared = filtered.selectExpr(*named_sql(plan, prepared_columns(plan)))
    return prepared.where(f"{STATE} IS NOT NULL") if isinstance(plan.window, StateWindow) else prepared


def prepared_columns(plan: Plan) -> dict[str, Node]:
    columns = {key.column: key.node for key in plan.keys} | plan.identity.columns
    columns |= {argument.column: argument.node for argument in plan.arguments}
    match plan.window:
        case StateWindow(state=state):
            columns[STATE] = state.node
        case EventWindow(start=start, end=end):
            columns |= {IS_START: start, IS_END: end}
        case RunWindow(control=control):
            columns[STATE] = control.node
    return columns


def to_segments(plan: Plan, prepared: DataFrame, *, by_row: bool = False) -> DataFrame:
    """Convert prepared rows to segments.

    With `by_row`, each row becomes a segment if the partials allow it and `merge` does the aggregation, which is faster for small
    batches. Otherwise rows of one window are aggregated as far as one hash aggregation can.
    """
    each_row = by_row and all(partial.row for partial in plan.partials)
    match plan.window:
        case None:
            return rows_as_segments(plan, prepared, {}) if each_row else group_rows(plan, prepared, {})
        case IntervalWindow() as window:
            assigned = prepared.withColumn(WSTART, F.expr(window_starts(plan, window)))
            windows = (
                rows_as_segments(plan, assigned, {WSTART: WSTART}) if each_row else group_rows(plan, assigned, {WSTART: WSTART})
            )
            return windows.withColumn(WEND, F.expr(str(intervals.end(window, nodes.Column(WSTART), plan.precision))))
        case SessionWindow(gap=gap) if not by_row:
            return group_rows(plan, prepared, {BUCKET: time_bucket(gap)}, span=True).drop(BUCKET)
        case _:
            return point_segments(plan, prepared)


def window_starts(plan: Plan, window: IntervalWindow) -> str:
    if window.slides:
        return f"explode({intervals.starts(window, nodes.Column(TS), plan.precision)})"
    return str(intervals.start(window, nodes.Column(TS), plan.precision))


def time_bucket(gap: int) -> str:
    """Return the time bucket of a row. Rows in one bucket as wide as the gap are always in one session."""
    return f"({TS} - pmod({TS}, {max(gap, 1)}L))"


def rows_as_segments(plan: Plan, prepared: DataFrame, positions: dict[str, str]) -> DataFrame:
    partials = {partial.column: partial.row or partial.update for partial in plan.partials}
    placed = (f"{sql} AS {column}" for column, sql in positions.items())
    return prepared.selectExpr(*key_columns(plan), *placed, *named_sql(plan, partials))


def group_rows(plan: Plan, prepared: DataFrame, groupings: Mapping[str, str], *, span: bool = False) -> DataFrame:
    """Hash-aggregate prepared rows by keys and `groupings`. With `span`, also return the first and last instant."""
    ends = [F.min(TS).alias(WSTART), F.max(TS).alias(WEND)] if span else []
    grouped = prepared.groupBy(*base_key_columns(plan), *(F.expr(sql).alias(name) for name, sql in groupings.items()))
    aggregates = [*ends, *update_columns(plan)]
    return add_derived_keys(plan, grouped.agg(*aggregates) if aggregates else grouped.agg(F.count("*").alias("_any")))


def point_segments(plan: Plan, prepared: DataFrame) -> DataFrame:
    counted = {FIRST_ROW: "CAST(NULL AS BIGINT)", ROW_COUNT: "1L"}
    positions = {WSTART: TS, WEND: TS} | {name: counted.get(name, name) for name in ATTRIBUTES.get(type(plan.window), ())}
    if all(partial.row for partial in plan.partials):
        return rows_as_segments(plan, prepared, positions)
    attributes = [column for column in (STATE, IS_START, IS_END, SERIES_KEY, KEY) if column in prepared.columns]
    by_instant = prepared.groupBy(*key_columns(plan), TS, *attributes).agg(*update_columns(plan))
    columns = [f"{sql} AS {column}" for column, sql in positions.items()]
    return by_instant.selectExpr(*key_columns(plan), *columns, *(partial.column for partial in plan.partials))


def merge(plan: Plan, parts: DataFrame, apart: str | None = None) -> DataFrame:
    """Merge the segments of each window into one. Idempotent.

    `apart` is a condition for segments that are complete runs of a state. Two such segments are never merged.
    """
    keys = key_columns(plan)
    match plan.window:
        case None:
            return parts.groupBy(*keys).agg(*merge_columns(plan))
        case IntervalWindow():
            return parts.groupBy(*keys, WSTART, WEND).agg(*merge_columns(plan))
        case RangeWindow() | RunWindow():
            raise InternalError("windows over a range or over runs of rows are not merged")
        case window:
            numbered = number_segments(window, parts, keys, apart)
            return aggregate_numbered(plan, numbered, keys, merge_columns(plan), WSTART, WEND)


def aggregate_numbered(
    plan: Plan, numbered: DataFrame, keys: list[str], aggregates: list[Column], first: str, last: str
) -> DataFrame:
    """Aggregate numbered rows or segments, which extend from instant `first` to `last`, to one segment per window number."""
    ends = [F.min(first).alias(WSTART), F.max(last).alias(WEND)]
    match plan.window:
        case StateWindow():
            ends.append(F.first(STATE).alias(STATE))
        case EventWindow():
            ends += [F.bool_or(IS_START).alias(IS_START), F.bool_or(IS_END).alias(IS_END)]
        case CountWindow(sliding=sliding):
            ends += [F.expr(f"{WINDOW_NUMBER} * {sliding}L").alias(FIRST_ROW), F.sum(ROW_COUNT).alias(ROW_COUNT)]
    return numbered.groupBy(*keys, WINDOW_NUMBER).agg(*ends, *aggregates).drop(WINDOW_NUMBER)


def finish(plan: Plan, windows: DataFrame) -> DataFrame:
    """Return finished windows (`p…`, `_wstart`, `_wend` in ticks, `o…` as stored) without those that lack END or are too short."""
    columns = [*key_columns(plan), *([WSTART, WEND] if plan.window is not None else [])]
    return finish_as_ticks(plan, windows).selectExpr(*columns, *named_sql(plan, stored_outputs(plan)))


def finish_as_ticks(plan: Plan, windows: DataFrame, extra_columns: Sequence[str] = ()) -> DataFrame:
    """Return finished windows with instants as ticks, including hidden columns of ORDER BY and `extra_columns`."""
    conditions = [to_sql(plan, plan.groups.having)] if plan.groups.having else []
    match plan.window:
        case EventWindow(true_for=minimum):
            conditions += [IS_END, *([f"{WEND} - {WSTART} >= {minimum}L"] if minimum else [])]
        case StateWindow(true_for=int(minimum)):
            conditions.append(f"{WEND} - {WSTART} >= {minimum}L")
    called = add_group_calls(plan.groups.calls, windows)
    kept = called.where(" AND ".join(conditions)) if conditions else called
    columns = [*key_columns(plan), *extra_columns, *([WSTART, WEND] if plan.window is not None else [])]
    outputs = {output.column: output.node for output in (*plan.outputs, *plan.hidden)}
    return kept.selectExpr(*columns, *named_sql(plan, outputs))


def key_columns(plan: Plan) -> list[str]:
    """Return the columns of the keys."""
    return [key.column for key in plan.keys]


def base_key_columns(plan: Plan) -> list[str]:
    """Return the columns of the keys that are not derived from another, which suffice to group rows and are cheaper to hash."""
    return [key.column for key in plan.keys if not key.is_derived]


def add_derived_keys(plan: Plan, rows: DataFrame) -> DataFrame:
    derived = named_sql(plan, {key.column: key.node for key in plan.keys if key.is_derived})
    if not derived:
        return rows
    series, name = plan.grouped_series, plan.identity.series_column
    assert series is not None
    assert name is not None
    return rows.withColumn(name, F.col(series.column)).selectExpr("*", *derived).drop(name)


def update_columns(plan: Plan) -> list[Column]:
    """Return the partials as aggregates over prepared rows."""
    return [F.expr(to_sql(plan, partial.update)).alias(partial.column) for partial in plan.partials]


def merge_columns(plan: Plan) -> list[Column]:
    """Return the partials as aggregates over segments."""
    return [F.expr(to_sql(plan, partial.merge)).alias(partial.column) for partial in plan.partials]
