"""The step's Spark SQL: rows and held windows in, windows out. Every frame is lazy; one job runs what a batch needs.

Two shapes. *Fresh*: new rows alone, merged with the windows held. *Repaired*: rows that may be late, rows that make windows be
evaluated again, and stored rows to evaluate them from. Both carry bookkeeping beside the query's own partial aggregates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.compute import Key, Plan, merge, prepare, segments
from headrace.compute.plan import TS, WEND, WSTART, Aggregate, IntervalWindow, Partial
from headrace.compute.running import run, stored
from headrace.compute.types import BIGINT, BOOL, INT, VARCHAR
from headrace.model.tables import TBNAME
from headrace.streams.incoming import REPAIRS, WRITTEN, Kind
from headrace.streams.versions import FROM, TO

ADDED: Final = "_added"
"""Rows that the batch added to a window."""
USED: Final = "_used"
"""The same, each row counted in one of its windows."""
LATEST: Final = "_latest"
"""Their largest instant."""
DIRTY: Final = "_dirty"
"""Whether the window was evaluated again."""
EMITTED: Final = "_emitted"
"""What the target has of a window: nothing, an older value, its value."""
WAS_HELD: Final = "_was_held"
"""Whether the state held it."""
PART: Final = "_part"

KIND: Final = "_kind"
VERSION: Final = "_version"
KNOWN: Final = "_known"
NEWEST: Final = "_newest"
LATE: Final = "_late"
FRONTIER: Final = "_frontier"
SUBTABLE: Final = "_subtable"
EXPIRED: Final = "_expired"
AGAIN: Final = "_again"
LOST: Final = "_lost"

PART_WINDOW: Final = 0
PART_DIRTY: Final = 1
PART_COUNT: Final = 2


def stream_plan(plan: Plan) -> Plan:
    """The plan with bookkeeping among its partials."""
    partials = (
        Partial(ADDED, "count(1)", f"sum({ADDED})", row="1L"),
        Partial(USED, f"count_if({once(plan)})", f"sum({USED})", row=f"if({once(plan)}, 1L, 0L)"),
        Partial(LATEST, f"max({TS})", f"max({LATEST})", row=TS),
        Partial(DIRTY, "max(false)", f"max({DIRTY})", row="false"),
        Partial(EMITTED, "max(0)", f"max({EMITTED})", row="0"),
        Partial(WAS_HELD, "max(false)", f"max({WAS_HELD})", row="false"),
    )
    return replace(plan, aggregates=(*plan.aggregates, Aggregate("", "", partials, "", BIGINT)))


def valued(plan: Plan, found: DataFrame) -> DataFrame:
    """Whole segments of the plan with bookkeeping, beside their partials the select list in stored types."""
    partials = (partial.column for partial in plan.partials)
    columns = [*(key.column for key in plan.keys), WSTART, WEND, *partials]
    columns += [
        f"{stored(f'({run(plan, output.sql)})', output.type, plan.precision)} AS {output.column}" for output in plan.outputs
    ]
    return found.selectExpr(*columns, f"{PART_WINDOW} AS {PART}")


def once(plan: Plan) -> str:
    """A condition that holds for a row in just one of the windows it lies in: the latest."""
    window = plan.window
    if isinstance(window, IntervalWindow) and window.slides:
        return f"{TS} - {WSTART} < {window.sliding.ticks(plan.precision)}L"
    return "true"


def window_columns(plan: Plan) -> tuple[str, ...]:
    """Columns of a window as the state holds it."""
    partials = (partial.column for partial in plan.partials)
    return (*(key.column for key in plan.keys), WSTART, WEND, *partials, EMITTED)


def held_frame(plan: Plan, held: DataFrame) -> DataFrame:
    """Held windows as segments: nothing new in them."""
    empty = {ADDED: "0L", USED: "0L", LATEST: "CAST(NULL AS BIGINT)", DIRTY: "false", WAS_HELD: "true"}
    return held.selectExpr(*window_columns(plan), *(f"{value} AS {name}" for name, value in empty.items()))


def fresh(plan: Plan, rows: DataFrame, held: DataFrame | None, *, by_subtable: bool) -> DataFrame:
    """Windows after new rows of which none is late: held ones and touched ones, with their values and partials.

    With `by_subtable` there follow rows of part 2: what each subtable's rows were.
    """
    extended = stream_plan(plan)
    prepared = prepare(extended, rows)
    found = segments(extended, prepared, by_row=True)
    if held is not None:
        found = found.unionByName(held_frame(plan, held))
    windows = valued(extended, merge(extended, found.coalesce(1)))
    if not by_subtable:
        return windows
    counts = prepared.groupBy(TBNAME).agg(
        F.expr(f"max({TS})").alias(LATEST), F.expr("count(1)").alias(USED), F.expr("0L").alias(LOST)
    )
    return windows.unionByName(counts.withColumn(PART, F.lit(PART_COUNT)), allowMissingColumns=True)


def classified(plan: Plan, rows: DataFrame, watermark: int, *, expire: bool) -> DataFrame:
    """Segments of rows by window, write, kind and subtable, with `_late` and `_frontier` of what earlier writes had shown."""
    time = plan.time or TS
    written = f"CASE WHEN {KIND} IN {names(WRITTEN)} THEN {time} END"
    before = f"ORDER BY {VERSION} RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    seen = f"greatest({KNOWN}, max({written}) OVER (PARTITION BY {TBNAME} {before}))"
    newest = f"greatest({NEWEST}, max({written}) OVER ({before}))"
    late = f"{KIND} IN {names((*WRITTEN, Kind.BEFORE))} AND coalesce({time} < {seen}, false)"
    keys = (
        Key(KIND, KIND, KIND, INT),
        Key(VERSION, VERSION, VERSION, BIGINT),
        Key(FROM, FROM, FROM, BIGINT),
        Key(TO, TO, TO, BIGINT),
        Key(LATE, LATE, late if expire else "false", BOOL),
        Key(FRONTIER, FRONTIER, f"{newest} - {watermark}L" if expire else "CAST(NULL AS BIGINT)", BIGINT),
        Key(SUBTABLE, SUBTABLE, TBNAME, VARCHAR),
    )
    extended = stream_plan(replace(plan, keys=(*plan.keys, *keys)))
    return segments(extended, prepare(extended, rows))


def names(kinds: Iterable[Kind]) -> str:
    """Kinds as a list of SQL."""
    return f"({', '.join(str(int(kind)) for kind in kinds)})"


def decided(plan: Plan, found: DataFrame, floor: int | None) -> DataFrame:
    """Segments with `_expired`, and `_again`: the write at which their window has to be evaluated again, NULL for never.

    That is the last write that took a row away or changed one; else, of a window that is not held and may have stored rows (it
    starts at or before `floor`), the first that touched it.
    """
    window = f"OVER (PARTITION BY {', '.join((*(key.column for key in plan.keys), WSTART))})"
    marked = f"max(CASE WHEN {KIND} IN {names(REPAIRS)} AND NOT {EXPIRED} THEN {VERSION} END) {window}"
    touched = f"min(CASE WHEN {KIND} = {int(Kind.INPUT)} AND NOT {EXPIRED} THEN {VERSION} END) {window}"
    held = f"max({KIND} = {int(Kind.HELD)}) {window}"
    below = "false" if floor is None else f"{WSTART} <= {floor}L AND NOT {held}"
    judged = found.selectExpr("*", f"coalesce({LATE} AND {WEND} < {FRONTIER}, false) AS {EXPIRED}")
    return judged.selectExpr("*", f"coalesce({marked}, CASE WHEN {below} THEN {touched} END) AS {AGAIN}")


def repaired(plan: Plan, rows: DataFrame, held: DataFrame | None, *, watermark: int, floor: int | None, expire: bool) -> DataFrame:
    """Windows after rows that may be late or make windows be evaluated again: those held and those touched that have rows.

    `rows` carry `_kind`, `_version`, `_known` (largest instant of their subtable in the state), `_newest` (of all), and stored
    ones `_from` and `_to`. There follow rows of part 1, the windows evaluated again, and of part 2, what each subtable's rows
    were: `_used` and `_lost`, which are the expired ones.
    """
    found = classified(plan, rows, watermark, expire=expire)
    if held is not None:
        kind = held_frame(plan, held).withColumn(KIND, F.lit(int(Kind.HELD)))
        found = found.unionByName(kind, allowMissingColumns=True)
    flagged = decided(plan, found, floor)
    extended = stream_plan(plan)
    kept = flagged.where(
        f"CASE {KIND} WHEN {int(Kind.INPUT)} THEN NOT {EXPIRED} AND ({AGAIN} IS NULL OR {VERSION} > {AGAIN}) "
        f"WHEN {int(Kind.STORED)} THEN {FROM} <= {AGAIN} AND {AGAIN} <= {TO} "
        f"WHEN {int(Kind.HELD)} THEN {AGAIN} IS NULL ELSE false END"
    ).withColumn(DIRTY, F.expr(f"{AGAIN} IS NOT NULL"))
    windows = valued(extended, merge(extended, kept))
    keys = [*(key.column for key in plan.keys), WSTART, WEND]
    dirty = flagged.where(f"{AGAIN} IS NOT NULL").groupBy(*keys).agg(F.max(EMITTED).alias(EMITTED))
    counts = (
        flagged.where(f"{KIND} IN {names(WRITTEN)}")
        .groupBy(F.col(SUBTABLE).alias(TBNAME))
        .agg(
            F.max(LATEST).alias(LATEST),
            F.expr(f"sum(if({EXPIRED}, 0, {USED}))").alias(USED),
            F.expr(f"sum(if({EXPIRED}, {USED}, 0))").alias(LOST),
        )
    )
    return windows.unionByName(dirty.withColumn(PART, F.lit(PART_DIRTY)), allowMissingColumns=True).unionByName(
        counts.withColumn(PART, F.lit(PART_COUNT)), allowMissingColumns=True
    )
