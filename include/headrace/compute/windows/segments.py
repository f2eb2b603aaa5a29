"""Windows piece by piece: rows become segments, segments of one window become one, windows become results.

`evaluate` is the composition of the pieces over all rows; a stream applies them to what is new and what it carries:
`finish(plan, merge(plan, carried ∪ segments(plan, prepare(plan, rows), by_row=True)))`. Small batches are fastest in one
partition (`coalesce(1)` on the rows, and on the union): then nothing is shuffled.

What a carried segment must hold, and what that means for rows that come out of order:

- INTERVAL: one segment for each (keys, `_wstart`) with partials. Any cut of the rows, in any order, merges to the same windows.
- SESSION: one segment for each session: `_wstart`, `_wend`, partials. Segments less than a gap apart are one session whatever
  else lies between them, so any cut in any order merges to the same sessions, as long as every session that a row may touch
  (`_wend + gap ≥ ts` and `_wstart - gap ≤ ts`) is carried; a row may join two carried ones.
- STATE: one segment for each run, with `_state`. Runs merge where neighbours in time have the same state. Exact while rows come
  in order within a partition: then the last run is all that must be carried. A row inside a carried run of another state splits
  it, which partials cannot do: that partition is evaluated again from its rows, from the start of the run.
- EVENT: one segment for each open window, with `_start` and `_end` (whether such a row is in it). Exact in order: at most one open
  window a partition is carried, rows before a START are dropped. A late END inside a carried window, or a late START before one,
  needs the rows again, from the last END before it.
- COUNT: one segment for each window that is not full, with `_first` (number of its first row in its partition) and `_rows`.
  Exact in order; a late row shifts every later boundary, which needs the rows again, from the window it falls into.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headrace.compute.plan import (
    END,
    FIRST,
    KEY,
    ROWS,
    SERIES,
    START,
    STATE,
    TS,
    WEND,
    WSTART,
    CountWindow,
    EventWindow,
    IntervalWindow,
    Plan,
    SessionWindow,
    StateWindow,
)
from headrace.compute.running import run, stored
from headrace.compute.windows import intervals
from headrace.compute.windows.group_calls import with_calls
from headrace.compute.windows.numbering import NUMBER, number_segments
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ATTRIBUTES: Final[dict[type, tuple[str, ...]]] = {
    StateWindow: (STATE,),
    EventWindow: (START, END),
    CountWindow: (FIRST, ROWS),
}


def prepare(plan: Plan, rows: DataFrame) -> DataFrame:
    """Rows of the source (physical columns, series key, tags joined) that pass WHERE, as prepared rows."""
    kept = rows.where(run(plan, plan.filter)) if plan.filter else rows
    columns = {key.column: key.sql for key in plan.keys}
    columns |= {name: sql for name, sql in ((TS, plan.time), (SERIES, plan.series_key), (KEY, plan.key)) if sql}
    columns |= {argument.column: argument.sql for argument in plan.arguments}
    match plan.window:
        case StateWindow(state=state):
            columns[STATE] = state.sql
        case EventWindow(start=start, end=end):
            columns |= {START: start, END: end}
    prepared = kept.selectExpr(*(run(plan, f"{sql} AS {column}") for column, sql in columns.items()))
    return prepared.where(f"{STATE} IS NOT NULL") if isinstance(plan.window, StateWindow) else prepared


def segments(plan: Plan, prepared: DataFrame, *, by_row: bool = False) -> DataFrame:
    """Prepared rows as segments.

    With `by_row` each row is a segment of its own where the partials allow it, and aggregating is left to `merge`: the faster
    form for small batches. Without, rows of one window are brought together first as far as one hash aggregation can.
    """
    alone = by_row and all(partial.row for partial in plan.partials)
    match plan.window:
        case None:
            return projected(plan, prepared, {}) if alone else grouped(plan, prepared, ())
        case IntervalWindow() as window:
            placed = prepared.withColumn(WSTART, F.expr(window_starts(plan, window)))
            found = projected(plan, placed, {WSTART: WSTART}) if alone else grouped(plan, placed, (WSTART,))
            return found.withColumn(WEND, F.expr(intervals.end(window, WSTART, plan.precision)))
        case SessionWindow(gap=gap) if not by_row:
            return grouped(plan, prepared, (bucket(gap),), span=True).drop("_bucket")
        case _:
            return points(plan, prepared)


def window_starts(plan: Plan, window: IntervalWindow) -> str:
    if window.slides:
        return f"explode({intervals.starts(window, TS, plan.precision)})"
    return intervals.start(window, TS, plan.precision)


def bucket(gap: int) -> str:
    """A stretch of time as wide as the gap: rows within one are always of one session."""
    return f"({TS} - pmod({TS}, {gap}L))"


def projected(plan: Plan, prepared: DataFrame, places: dict[str, str]) -> DataFrame:
    """Each row as a segment, without aggregation."""
    columns = {key.column: key.column for key in plan.keys} | places
    columns |= {partial.column: partial.row or partial.update for partial in plan.partials}
    return prepared.selectExpr(*(run(plan, f"{sql} AS {column}") for column, sql in columns.items()))


def grouped(plan: Plan, prepared: DataFrame, places: tuple[str, ...], *, span: bool = False) -> DataFrame:
    """Prepared rows hash-aggregated by keys and `places`; with `span`, the first and last instant beside the partials."""
    ends = [F.min(TS).alias(WSTART), F.max(TS).alias(WEND)] if span else []
    found = prepared.groupBy(*telling_columns(plan), *(F.expr(place).alias(name(place)) for place in places))
    every = [*ends, *updates(plan)]
    return with_following(plan, found.agg(*every) if every else found.agg(F.count("*").alias("_any")))


def name(place: str) -> str:
    return place if place.isidentifier() else "_bucket"


def points(plan: Plan, prepared: DataFrame) -> DataFrame:
    """Each row as a segment of length zero, for windows that depend on the order of rows."""
    places = {WSTART: TS, WEND: TS}
    match plan.window:
        case StateWindow():
            places[STATE] = STATE
        case EventWindow():
            places |= {START: START, END: END}
        case CountWindow():
            places |= {FIRST: "CAST(NULL AS BIGINT)", ROWS: "1L"}
    if all(partial.row for partial in plan.partials):
        return projected(plan, prepared, places)
    marks = [column for column in (STATE, START, END, SERIES, KEY) if column in prepared.columns]
    found = prepared.groupBy(*key_columns(plan), TS, *marks).agg(*updates(plan))
    kept = [f"{sql} AS {column}" for column, sql in places.items()]
    return found.selectExpr(*key_columns(plan), *kept, *(partial.column for partial in plan.partials))


def merge(plan: Plan, found: DataFrame, apart: str | None = None) -> DataFrame:
    """Segments of one window as one segment. Applying it twice changes nothing more.

    `apart` tells of a segment that it is a run of a state as far as it goes: two such are never joined.
    """
    keys = key_columns(plan)
    match plan.window:
        case None:
            return found.groupBy(*keys).agg(*merges(plan))
        case IntervalWindow():
            return found.groupBy(*keys, WSTART, WEND).agg(*merges(plan))
        case window:
            numbered = number_segments(window, found, keys, apart)
            return joined(plan, numbered, keys, merges(plan), WSTART, WEND)


def joined(plan: Plan, numbered: DataFrame, keys: list[str], aggregates: list[Column], first: str, last: str) -> DataFrame:
    """Numbered rows or segments (`_window`, attributes, from instant `first` to `last`) as one segment for each window."""
    ends = [F.min(first).alias(WSTART), F.max(last).alias(WEND)]
    match plan.window:
        case StateWindow():
            ends.append(F.first(STATE).alias(STATE))
        case EventWindow():
            ends += [F.bool_or(START).alias(START), F.bool_or(END).alias(END)]
        case CountWindow(sliding=sliding):
            ends += [F.expr(f"{NUMBER} * {sliding}L").alias(FIRST), F.sum(ROWS).alias(ROWS)]
    return numbered.groupBy(*keys, NUMBER).agg(*ends, *aggregates).drop(NUMBER)


def finish(plan: Plan, found: DataFrame) -> DataFrame:
    """Finished windows: `p…`, `_wstart` and `_wend` in ticks, and `o…` in stored types.

    Event windows without END and windows shorter than TRUE_FOR are left out.
    """
    return presented(plan, finished(plan, found))


def finished(plan: Plan, found: DataFrame, also: Sequence[str] = ()) -> DataFrame:
    """Finished windows with instants as ticks, the hidden columns of ORDER BY, and other columns that are kept."""
    conditions = [plan.having] if plan.having else []
    match plan.window:
        case EventWindow(true_for=least):
            conditions += [END, *([f"{WEND} - {WSTART} >= {least}L"] if least else [])]
        case StateWindow(true_for=int(least)):
            conditions.append(f"{WEND} - {WSTART} >= {least}L")
    found = with_calls(plan.group_calls, found)
    kept = found.where(run(plan, " AND ".join(conditions))) if conditions else found
    columns = [*key_columns(plan), *also, *([WSTART, WEND] if plan.window is not None else [])]
    columns += [f"{output.sql} AS {output.column}" for output in (*plan.outputs, *plan.hidden)]
    return kept.selectExpr(*(run(plan, column) for column in columns))


def presented(plan: Plan, found: DataFrame) -> DataFrame:
    """The select list in stored types, beside keys and the window's ends."""
    columns = [*key_columns(plan), *([WSTART, WEND] if plan.window is not None else [])]
    columns += [f"{stored(output.column, output.type, plan.precision)} AS {output.column}" for output in plan.outputs]
    return found.selectExpr(*columns)


def key_columns(plan: Plan) -> list[str]:
    return [key.column for key in plan.keys]


def telling_columns(plan: Plan) -> list[str]:
    """The keys that tell rows apart, without those that follow from them: what is hashed for each row counts."""
    return [key.column for key in plan.keys if not key.follows]


def with_following(plan: Plan, found: DataFrame) -> DataFrame:
    """A frame that has the telling keys, with those that follow."""
    following = [run(plan, f"{key.sql} AS {key.column}") for key in plan.keys if key.follows]
    if not following:
        return found
    series = plan.grouped_series
    assert series is not None
    assert plan.series_column is not None
    return found.withColumn(plan.series_column, F.col(series.column)).selectExpr("*", *following).drop(plan.series_column)


def updates(plan: Plan) -> list[Column]:
    return [F.expr(run(plan, partial.update)).alias(partial.column) for partial in plan.partials]


def merges(plan: Plan) -> list[Column]:
    return [F.expr(run(plan, partial.merge)).alias(partial.column) for partial in plan.partials]
