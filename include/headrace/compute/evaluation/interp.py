"""INTERP: values at points in time, made from the rows before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.compute.plan import TS, Argument, Bound, InterpPlan, Plan
from headrace.compute.running import refusal, run
from headrace.compute.terms import ticks
from headrace.compute.types import of_double
from headrace.compute.windows.numbering import over
from headrace.errors import LimitError
from headrace.model.queries import FillMode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_POINTS: Final = 10_000_000
AT: Final = "_at"
FILLED: Final = "_filled"
NEXT: Final = "_next"
ALWAYS: Final = (FillMode.VALUE, FillMode.VALUE_F, FillMode.NULL, FillMode.NULL_F)


def interpolated(plan: Plan, interp: InterpPlan, prepared: DataFrame) -> DataFrame:
    """Keys, the points as `_at`, whether each was made (`_filled`), and the outputs; instants as ticks."""
    keys = [key.column for key in plan.keys]
    if interp.skip_nulls:
        prepared = prepared.where(" AND ".join(f"{argument.column} IS NOT NULL" for argument in plan.arguments))
    following = [f"lead({column}) {over(keys, [TS])} AS _n_{column}" for column in (argument.column for argument in plan.arguments)]
    beside = prepared.selectExpr(
        "*", f"lead({TS}) {over(keys, [TS])} AS {NEXT}", f"lag({TS}) {over(keys, [TS])} IS NULL AS _first", *following
    )
    points = beside.selectExpr("*", f"{start(plan, interp.first, 'min')} AS _from", f"{start(plan, interp.last, 'max')} AS _to")
    spread = points.where("_from <= _to").selectExpr("*", f"explode({places(interp)}) AS {AT}")
    values = [f"{value(interp, argument, number)} AS i{number}" for number, argument in enumerate(plan.arguments)]
    made = spread.where(kept(interp.mode)).selectExpr(*keys, AT, f"{AT} <> {TS} AS {FILLED}", *values)
    columns = [f"{output.sql} AS {output.column}" for output in (*plan.outputs, *plan.hidden)]
    return made.selectExpr(*keys, AT, *(run(plan, column) for column in columns))


def start(plan: Plan, bound: Bound | None, default: str) -> str:
    """An end of the range, by default that of the data."""
    return f"{default}({TS}) OVER ()" if bound is None else ticks(bound.at(plan.present))


def places(interp: InterpPlan) -> str:
    """The points from a row to the next one; of the first row also those before it."""
    step = ticks(interp.every)
    first = f"if(_first, 0L, greatest(CAST(ceil(({TS} - _from) / {float(interp.every)!r}D) AS BIGINT), 0L))"
    end = f"if({NEXT} IS NULL, _to, least(_to, {NEXT} - 1L))"
    last = f"CAST(floor(({end} - _from) / {float(interp.every)!r}D) AS BIGINT)"
    message = f"concat('INTERP would make ', {last} - {first}, ' points between two rows')"
    sequence = f"transform(sequence({first}, {last}), i -> _from + i * {step})"
    many = f"if({last} - {first} > {MAX_POINTS}L, {refusal(message)}, {sequence})"
    return f"if({last} >= {first}, {many}, array())"


def kept(mode: FillMode) -> str:
    """Which points there are: those that can be made by the mode."""
    match mode:
        case FillMode.PREV:
            return f"{AT} >= {TS}"
        case FillMode.NEXT:
            return f"{AT} <= {TS} OR {NEXT} IS NOT NULL"
        case FillMode.LINEAR:
            return f"{AT} = {TS} OR ({AT} > {TS} AND {NEXT} IS NOT NULL)"
        case mode if mode in (*ALWAYS, FillMode.NEAR):
            return "true"
        case _:
            return f"{AT} = {TS}"


def value(interp: InterpPlan, argument: Argument, number: int) -> str:
    """The value of an argument at a point."""
    own, other = argument.column, f"_n_{argument.column}"
    match interp.mode:
        case FillMode.NEXT:
            return f"if({AT} <= {TS}, {own}, {other})"
        case FillMode.NEAR:
            return f"if({NEXT} IS NOT NULL AND {AT} > {TS} AND {NEXT} - {AT} < {AT} - {TS}, {other}, {own})"
        case FillMode.LINEAR if argument.type.is_number:
            line = f"({own} + (CAST({other} AS DOUBLE) - {own}) * ({AT} - {TS}) / nullif({NEXT} - {TS}, 0L))"
            return f"if({AT} = {TS}, {own}, {of_double(line, argument.type)})"
        case FillMode.VALUE | FillMode.VALUE_F:
            return f"if({AT} = {TS}, {own}, {interp.values[number]})"
        case FillMode.PREV | FillMode.NONE:
            return own
        case _:
            return f"if({AT} = {TS}, {own}, NULL)"


def check_points(first: int | None, last: int | None, every: int) -> None:
    """Refuse ranges of more points than anyone can mean."""
    if first is not None and last is not None and (last - first) // every > MAX_POINTS:
        raise LimitError(f"INTERP would make {(last - first) // every} points", hint="narrow RANGE, or make EVERY longer")
