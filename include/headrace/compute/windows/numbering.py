"""Numbering of windows that depend on neighboring rows: column `_window` says which window of its partition a row belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headrace.compute.plan import FIRST_ROW, IS_END, IS_START, KEY, ROW_COUNT, SERIES_KEY, STATE, TS, WEND, WSTART
from headrace.compute.window_plans import CountWindow, EventWindow, SessionWindow, StateWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW_NUMBER: Final = "_window"
THROUGH_CURRENT_ROW: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
BEFORE_CURRENT_ROW: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
FROM_CURRENT_ROW: Final = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
RowOrderedWindow = StateWindow | EventWindow | CountWindow
OrderedWindow = SessionWindow | RowOrderedWindow


def over(keys: Sequence[str], order: Sequence[str], frame: str = "") -> str:
    """Return an OVER clause."""
    partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
    return f"OVER ({partition}ORDER BY {', '.join(order)} {frame})"


def number_segments(window: OrderedWindow, rows: DataFrame, keys: list[str], apart: str | None = None) -> DataFrame:
    """Add the window number to segments. Segments of a session may overlap; those of other windows are disjoint in time.

    Consecutive segments that both meet the condition `apart` are separate runs of a state even if their states are equal.
    """
    order = [WSTART, WEND]
    match window:
        case SessionWindow(gap=gap):
            last_end = f"max({WEND}) {over(keys, order, BEFORE_CURRENT_ROW)}"
            return number_by_breaks(rows, keys, order, f"{WSTART} > {last_end} + {gap}L")
        case StateWindow():
            both = f" OR ({apart} AND lag({apart}) {over(keys, order)})" if apart else ""
            return number_by_breaks(rows, keys, order, f"{STATE} <> lag({STATE}) {over(keys, order)}{both}")
        case EventWindow():
            return number_events(rows, keys, order, None)
        case CountWindow():
            return number_count_segments(window, rows, keys, order)


def number_rows(window: RowOrderedWindow, prepared: DataFrame, keys: list[str], *, unique: bool) -> DataFrame:
    ties = [] if unique else [column for column in (SERIES_KEY, KEY) if column in prepared.columns]
    order = [TS, *ties]
    match window:
        case StateWindow():
            return number_by_breaks(prepared, keys, order, f"{STATE} <> lag({STATE}) {over(keys, order)}")
        case EventWindow():
            return number_events(prepared, keys, order, TS if unique else None)
        case CountWindow():
            position = f"CAST(row_number() {over(keys, order)} - 1 AS BIGINT)"
            counted = prepared.selectExpr("*", f"{position} AS {FIRST_ROW}", f"1L AS {ROW_COUNT}")
            return counted.selectExpr("*", f"{window_number(FIRST_ROW, window.count, window.sliding)} AS {WINDOW_NUMBER}")


def number_by_breaks(rows: DataFrame, keys: list[str], order: list[str], condition: str) -> DataFrame:
    """Number windows that begin where a condition on a row and its predecessors holds."""
    marked = rows.selectExpr("*", f"if({condition}, 1L, 0L) AS _break")
    return marked.selectExpr("*", f"sum(_break) {over(keys, order, THROUGH_CURRENT_ROW)} AS {WINDOW_NUMBER}").drop("_break")


def number_events(rows: DataFrame, keys: list[str], order: list[str], position: str | None) -> DataFrame:
    """Number event windows. A row is in one if there is a START since the last END before it.

    `position` is a column that orders the rows of a partition without ties, if there is one.
    """
    ranked = rows.selectExpr("*", f"{position or f'row_number() {over(keys, order)}'} AS _rank")
    opened = f"max(if({IS_START}, _rank, NULL)) {over(keys, order, THROUGH_CURRENT_ROW)}"
    closed = f"max(if({IS_END}, _rank, NULL)) {over(keys, order, BEFORE_CURRENT_ROW)}"
    numbered = ranked.selectExpr("*", f"{opened} AS _opened", f"{closed} AS {WINDOW_NUMBER}")
    return numbered.where(f"_opened > coalesce({WINDOW_NUMBER}, _opened - 1)").drop("_opened", "_rank")


def number_count_segments(window: CountWindow, rows: DataFrame, keys: list[str], order: list[str]) -> DataFrame:
    """Number windows of a fixed number of rows. New rows continue the count of the carried windows."""
    carried_rows = f"coalesce(max({FIRST_ROW} + {ROW_COUNT}) OVER ({f'PARTITION BY {chr(44).join(keys)}' if keys else ''}), 0L)"
    position = f"sum(if({FIRST_ROW} IS NULL, {ROW_COUNT}, 0L)) {over(keys, order, THROUGH_CURRENT_ROW)} - {ROW_COUNT}"
    others = [column for column in rows.columns if column != FIRST_ROW]
    counted = rows.selectExpr(
        *others, f"{FIRST_ROW} AS _carried", f"coalesce({FIRST_ROW}, {carried_rows} + {position}) AS {FIRST_ROW}"
    )
    carried = f"array({FIRST_ROW} div {window.sliding}L)"
    all_windows = f"if(_carried IS NULL, {window_numbers(FIRST_ROW, window.count, window.sliding)}, {carried})"
    return counted.selectExpr("*", f"explode({all_windows}) AS {WINDOW_NUMBER}").drop("_carried")


def window_number(position: str, length: int, step: int) -> str:
    """Return the numbers of the windows that a position is in, exploded if there may be several. One starts every `step`."""
    return f"({position} div {step}L)" if step == length else f"explode({window_numbers(position, length, step)})"


def window_numbers(position: str, length: int, step: int) -> str:
    """Return what `window_number` does as an array."""
    latest = f"({position} div {step}L)"
    if step == length:
        return f"array({latest})"
    earliest = f"greatest(0L, ({position} - {length}L) div {step}L + if({position} >= {length}L, 1L, 0L))"
    return f"if({earliest} <= {latest}, sequence({earliest}, {latest}), array())"
