"""Windows over rows, piece by piece: rows become segments, segments of one window become one, windows become results.

`evaluate` is the composition of the pieces over all rows; a stream applies them to what is new and what it carries:
`finish(plan, merge(plan, carried ∪ segments(plan, prepare(plan, rows))))`. What a carried segment must hold, and what follows
for rows that come out of order:

- INTERVAL: a segment is (keys, `_wstart`) with partials. Any split of the rows in any order merges to the same window.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.compute import intervals
from headrace.compute.plan import KEY, TS, WEND, WSTART, IntervalWindow, Plan
from headrace.compute.running import run
from headrace.compute.types import from_ticks
from headrace.errors import NotSupportedError
from headrace.model.tables import TBNAME
from headrace.model.types import Kind


def prepare(plan: Plan, rows: DataFrame) -> DataFrame:
    """Rows of the source (physical columns, `tbname`, tags joined) that pass WHERE, as prepared rows."""
    kept = rows.where(run(plan, plan.filter)) if plan.filter else rows
    columns = [f"{key.sql} AS {key.column}" for key in plan.keys]
    columns += [f"{plan.time} AS {TS}"] if plan.time else []
    columns += [f"{plan.tbname} AS {TBNAME}"] if plan.tbname else []
    columns += [f"{plan.key} AS {KEY}"] if plan.key else []
    columns += [f"{argument.sql} AS {argument.column}" for argument in plan.arguments]
    return kept.selectExpr(*(run(plan, column) for column in columns))


def segments(plan: Plan, prepared: DataFrame) -> DataFrame:
    """Prepared rows as segments, one for each window that they touch."""
    keys = [key.column for key in plan.keys]
    updates = [F.expr(run(plan, partial.update)).alias(partial.column) for partial in plan.partials]
    match plan.window:
        case None:
            return prepared.groupBy(*keys).agg(*updates)
        case IntervalWindow() as window:
            placed = prepared.selectExpr("*", f"{window_starts(plan, window)} AS {WSTART}")
            found = placed.groupBy(*keys, WSTART).agg(*updates)
            return found.withColumn(WEND, F.expr(intervals.end(window, WSTART, plan.precision)))
        case _:
            raise NotSupportedError("this kind of window is not offered yet")


def window_starts(plan: Plan, window: IntervalWindow) -> str:
    if window.slides:
        return f"explode({intervals.starts(window, TS, plan.precision)})"
    return intervals.start(window, TS, plan.precision)


def merge(plan: Plan, found: DataFrame) -> DataFrame:
    """Segments of one window as one segment. Applying it twice changes nothing more."""
    keys = [key.column for key in plan.keys]
    merges = [F.expr(run(plan, partial.merge)).alias(partial.column) for partial in plan.partials]
    match plan.window:
        case None:
            return found.groupBy(*keys).agg(*merges)
        case IntervalWindow():
            return found.groupBy(*keys, WSTART, WEND).agg(*merges)
        case _:
            raise NotSupportedError("this kind of window is not offered yet")


def finish(plan: Plan, found: DataFrame) -> DataFrame:
    """Finished windows: `p…`, `_wstart` and `_wend` in ticks, and `o…` in stored types."""
    kept = found.where(run(plan, plan.having)) if plan.having else found
    columns = [key.column for key in plan.keys]
    columns += [WSTART, WEND] if plan.window is not None else []
    columns += [f"{stored(plan, output.sql, output.type.kind)} AS {output.column}" for output in plan.outputs]
    return kept.selectExpr(*(run(plan, column) for column in columns))


def stored(plan: Plan, sql: str, kind: Kind) -> str:
    """An expression in the type in which it is stored: instants as timestamps."""
    return from_ticks(sql, plan.precision) if kind is Kind.TIMESTAMP else sql
