"""To which window a row or segment belongs, where that depends on its neighbours in time: a number `_window` a partition."""

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
    SessionWindow,
    StateWindow,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NUMBER: Final = "_window"
SO_FAR: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
BEFORE: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
ByRow = StateWindow | EventWindow | CountWindow
Ordered = SessionWindow | ByRow


def over(keys: Sequence[str], order: Sequence[str], frame: str = "") -> str:
    """An OVER clause."""
    partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
    return f"OVER ({partition}ORDER BY {', '.join(order)} {frame})"


def number_segments(window: Ordered, found: DataFrame, keys: list[str], apart: str | None = None) -> DataFrame:
    """Segments with the number of their window. Segments of a session may overlap; of other windows they follow each other.

    Neighbors that both meet the condition `apart` are not one run of a state, whatever is missing between them.
    """
    order = [WSTART, WEND]
    match window:
        case SessionWindow(gap=gap):
            reached = f"max({WEND}) {over(keys, order, BEFORE)}"
            return breaks(found, keys, order, f"{WSTART} > {reached} + {gap}L")
        case StateWindow():
            both = f" OR ({apart} AND lag({apart}) {over(keys, order)})" if apart else ""
            return breaks(found, keys, order, f"{STATE} <> lag({STATE}) {over(keys, order)}{both}")
        case EventWindow():
            return events(found, keys, order, None)
        case CountWindow():
            return counted_segments(window, found, keys, order)


def number_rows(window: ByRow, prepared: DataFrame, keys: list[str], *, unique: bool) -> DataFrame:
    """Prepared rows with the number of their window."""
    ties = [] if unique else [column for column in (SERIES, KEY) if column in prepared.columns]
    order = [TS, *ties]
    match window:
        case StateWindow():
            return breaks(prepared, keys, order, f"{STATE} <> lag({STATE}) {over(keys, order)}")
        case EventWindow():
            return events(prepared, keys, order, TS if unique else None)
        case CountWindow():
            position = f"CAST(row_number() {over(keys, order)} - 1 AS BIGINT)"
            placed = prepared.selectExpr("*", f"{position} AS {FIRST}", f"1L AS {ROWS}")
            return placed.selectExpr("*", f"{windows_of(window)} AS {NUMBER}")


def breaks(found: DataFrame, keys: list[str], order: list[str], condition: str) -> DataFrame:
    """Windows that end where a condition on a row and its predecessors holds."""
    marked = found.selectExpr("*", f"if({condition}, 1L, 0L) AS _break")
    return marked.selectExpr("*", f"sum(_break) {over(keys, order, SO_FAR)} AS {NUMBER}").drop("_break")


def events(found: DataFrame, keys: list[str], order: list[str], place: str | None) -> DataFrame:
    """Event windows: a row belongs to one if there was a START since the last END before it.

    `place` is a column that tells rows of a partition apart in their order, where there is one.
    """
    ranked = found.selectExpr("*", f"{place or f'row_number() {over(keys, order)}'} AS _rank")
    opened = f"max(if({START}, _rank, NULL)) {over(keys, order, SO_FAR)}"
    closed = f"max(if({END}, _rank, NULL)) {over(keys, order, BEFORE)}"
    numbered = ranked.selectExpr("*", f"{opened} AS _opened", f"{closed} AS {NUMBER}")
    return numbered.where(f"_opened > coalesce({NUMBER}, _opened - 1)").drop("_opened", "_rank")


def counted_segments(window: CountWindow, found: DataFrame, keys: list[str], order: list[str]) -> DataFrame:
    """Windows of so many rows: new rows are counted on from what the carried windows reach."""
    reached = f"coalesce(max({FIRST} + {ROWS}) OVER ({f'PARTITION BY {chr(44).join(keys)}' if keys else ''}), 0L)"
    position = f"sum(if({FIRST} IS NULL, {ROWS}, 0L)) {over(keys, order, SO_FAR)} - {ROWS}"
    others = [column for column in found.columns if column != FIRST]
    placed = found.selectExpr(*others, f"{FIRST} AS _carried", f"coalesce({FIRST}, {reached} + {position}) AS {FIRST}")
    carried = f"array({FIRST} div {window.sliding}L)"
    all_windows = f"if(_carried IS NULL, {window_array(window)}, {carried})"
    return placed.selectExpr("*", f"explode({all_windows}) AS {NUMBER}").drop("_carried")


def windows_of(window: CountWindow) -> str:
    """The numbers of the windows that a row lies in."""
    if window.sliding == window.count:
        return f"({FIRST} div {window.count}L)"
    return f"explode({window_array(window)})"


def window_array(window: CountWindow) -> str:
    if window.sliding == window.count:
        return f"array({FIRST} div {window.count}L)"
    earliest = f"greatest(0L, ({FIRST} - {window.count}L) div {window.sliding}L + if({FIRST} >= {window.count}L, 1L, 0L))"
    return f"sequence({earliest}, {FIRST} div {window.sliding}L)"
