"""FILL: windows without rows, made from their neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.compute import calendar
from headrace.compute.plan import WEND, WSTART, FillPlan, IntervalWindow, Output, Plan
from headrace.compute.running import refusal, run
from headrace.compute.terms import ticks
from headrace.compute.types import of_double, spark_type
from headrace.compute.windows import intervals
from headrace.compute.windows.numbering import SO_FAR, over
from headrace.errors import LimitError
from headrace.model.queries import FillMode
from headrace.model.time import Precision

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_FILLED_WINDOWS: Final = 10_000_000
"""More windows than that in the range of WHERE are a slip, such as a year in the wrong century."""

STEP: Final = "_step"
NEXT: Final = "_next"
HERE: Final = "_here"
THERE: Final = "_there"
LOW: Final = "_low"
HIGH: Final = "_high"
FORCED: Final = (FillMode.NULL_F, FillMode.VALUE_F)


def fill_windows(plan: Plan, fill: FillPlan, window: IntervalWindow, found: DataFrame) -> DataFrame:
    """Finished windows with those that are missing: between the windows of a group, and to the ends of WHERE's range.

    `found` has keys, `_wstart`, `_wend` and the outputs, instants as ticks; so has the result. A group without any window stays
    without, but for `NULL_F` and `VALUE_F` of a query without keys.
    """
    keys = [key.column for key in plan.keys]
    first, last = ends(plan, window)
    if fill.mode in FORCED and not keys and bounded(plan) and first is not None:
        found = with_one_row(plan, found, first)
    values = [output for output in (*plan.outputs, *plan.hidden) if output.fills]
    beside = found.selectExpr("*", *add_neighbors(fill, keys, values))
    stepped = with_steps(window, plan.precision, beside, first, last)
    point = intervals.moved(window, HERE, STEP, plan.precision)
    moved = calendar.to_utc(point, window.zone or "UTC", plan.precision)
    placed = stepped.selectExpr("*", f"if({STEP} = 0L, {WSTART}, {moved}) AS _at")
    if intervals.broken(window, plan.precision):
        placed = placed.where(f"{STEP} = 0L OR {intervals.wall(window, '_at', plan.precision)} = {point}")
    names = {output.column: value(fill, output, number) for number, output in enumerate(values)}
    chosen = placed.selectExpr(*keys, f"_at AS {WSTART}", *(f"{sql} AS {name}" for name, sql in names.items()))
    ended = chosen.selectExpr("*", f"{intervals.end(window, WSTART, plan.precision)} AS {WEND}")
    columns = [f"{output.column if output.fills else output.sql} AS {output.column}" for output in (*plan.outputs, *plan.hidden)]
    return ended.selectExpr(*keys, WSTART, WEND, *(run(plan, column) for column in columns))


def bounded(plan: Plan) -> bool:
    """Whether WHERE has a range with two ends and something between them."""
    first, last = plan.range
    return first is not None and last is not None and first <= last


def ends(plan: Plan, window: IntervalWindow) -> tuple[str | None, str | None]:
    """The first and the last window start of WHERE's range."""
    first, last = plan.range
    if first is not None and last is not None and not window.sliding.is_calendar:
        count = (last - first) // window.sliding.ticks(plan.precision)
        if count > MAX_FILLED_WINDOWS:
            raise LimitError(f"FILL would make {count} windows in each group", hint="narrow the range of timestamps in WHERE")
    starts = [None if end is None else intervals.start(window, ticks(end), plan.precision) for end in (first, last)]
    return starts[0], starts[1]


def with_one_row(plan: Plan, found: DataFrame, first: str) -> DataFrame:
    """The windows, or where there are none one of NULLs at the range's start, which the rest is then made from."""
    nulls = [f"CAST(NULL AS {spark_type(output.type)}) AS {output.column}" for output in (*plan.outputs, *plan.hidden)]
    single = found.sparkSession.range(1).selectExpr(f"{first} AS {WSTART}", f"{first} AS {WEND}", *nulls, "true AS _made")
    both = found.selectExpr("*", "false AS _made").unionByName(single)
    counted = both.selectExpr("*", "count_if(NOT _made) OVER () AS _real")
    return counted.where("NOT _made OR _real = 0").drop("_made", "_real")


def add_neighbors(fill: FillPlan, keys: list[str], values: list[Output]) -> list[str]:
    """Where the next window of the group starts, whether this is the first, and the values that are filled in."""
    order = [WSTART]
    columns = [f"lead({WSTART}) {over(keys, order)} AS {NEXT}", f"lag({WSTART}) {over(keys, order)} IS NULL AS _first"]
    for output in values:
        match fill.mode:
            case FillMode.PREV:
                columns.append(f"last({output.column}, true) {over(keys, order, SO_FAR)} AS {beside(output)}")
            case FillMode.NEXT:
                columns.append(f"lead({output.column}) IGNORE NULLS {over(keys, order)} AS {beside(output)}")
            case FillMode.LINEAR:
                columns.append(f"lead({output.column}) {over(keys, order)} AS {beside(output)}")
    return columns


def beside(output: Output) -> str:
    return f"_n_{output.column}"


def with_steps(window: IntervalWindow, precision: Precision, beside: DataFrame, first: str | None, last: str | None) -> DataFrame:
    """The windows, each repeated for those that are made from it, with the slides to them (0: itself), and its wall as `_here`.

    What is made of what stands in columns of its own: inside one another, the expressions of a calendar would be megabytes.
    """
    bounds = {LOW: first, HIGH: last}
    placed = beside.selectExpr("*", *(f"{start} AS {name}" for name, start in bounds.items() if start is not None))
    instants = {HERE: WSTART, THERE: NEXT} | {f"{name}_wall": name for name, start in bounds.items() if start is not None}
    walls = placed.selectExpr("*", *(f"{intervals.wall(window, at, precision)} AS {name}" for name, at in instants.items()))
    before, after = step_counts(window, precision, first is not None, last is not None)
    counted = walls.selectExpr("*", f"{before} AS _before", f"{after} AS _after")
    return counted.selectExpr("*", f"explode({step_numbers('_before', '_after')}) AS {STEP}")


def step_numbers(before: str, after: str) -> str:
    """The slides from a window to those that are made from it, itself among them; too many end the query."""
    message = f"concat('FILL would make ', {before} + {after}, ' windows from one')"
    return f"if({before} + {after} > {MAX_FILLED_WINDOWS}L, {refusal(message)}, sequence(-{before}, {after}))"


def step_counts(window: IntervalWindow, precision: Precision, low: bool, high: bool) -> tuple[str, str]:
    """How many windows are missing before and after a window that is there; `low` and `high`: whether WHERE's range has the end."""
    before = f"if(_first, greatest({steps(window, f'{LOW}_wall', HERE, precision)}, 0L), 0L)" if low else "0L"
    tail = f"greatest({steps(window, HERE, f'{HIGH}_wall', precision)}, 0L)" if high else "0L"
    return before, f"if({NEXT} IS NULL, {tail}, {steps(window, HERE, THERE, precision)} - 1L)"


def steps(window: IntervalWindow, here: str, there: str, precision: Precision) -> str:
    """How many slides lie between two window starts, given as what the wall clock shows."""
    if window.sliding.is_calendar:
        count = f"({calendar.months(there, precision)} - {calendar.months(here, precision)})"
        return f"({count} div {window.sliding.months}L)"
    return f"(({there} - {here}) div {ticks(window.sliding.ticks(precision))})"


def value(fill: FillPlan, output: Output, number: int) -> str:
    """An output at a window: of one that is there its own (or the neighbour's where it is NULL), else what the mode says."""
    own, other = output.column, beside(output)
    match fill.mode:
        case FillMode.PREV:
            return f"if({STEP} < 0L, NULL, {other})"
        case FillMode.NEXT:
            return f"if({STEP} > 0L, {other}, coalesce({own}, {other}))"
        case FillMode.VALUE | FillMode.VALUE_F:
            return f"if({STEP} = 0L, coalesce({own}, {fill.values[number]}), {fill.values[number]})"
        case FillMode.LINEAR if output.type.is_number:
            line = f"({own} + (CAST({other} AS DOUBLE) - {own}) * (_at - {WSTART}) / nullif({NEXT} - {WSTART}, 0L))"
            return f"CASE WHEN {STEP} = 0L THEN {own} WHEN {STEP} > 0L THEN {of_double(line, output.type)} END"
        case _:
            return f"if({STEP} = 0L, {own}, NULL)"
