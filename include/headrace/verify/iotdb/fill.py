"""FILL over the rows of a result, in their order."""

from __future__ import annotations

from datetime import date

from headrace.model.expressions import Call, Expression, Literal
from headrace.model.tree_queries import CompoundDuration, TreeFill, TreeFillMode
from headrace.model.types import TEXTS, DataType, TypeKind
from headrace.verify.iotdb.conversions import NUMBERS
from headrace.verify.iotdb.spans import fixed_ticks
from headrace.verify.steps import Partition
from headrace.verify.values import FLOATS, duck_type, quoted, unsupported
from headrace.verify.zones import Clock


def filled(fill: TreeFill, column: str, type_: DataType | None, rows: Partition, clock: Clock) -> str:
    """Return a column with its gaps filled, as SQL over rows with `_time`. Months are those of a clock's calendar."""
    if type_ is None:
        return column
    previous, following = rows.neighbors(column, "_time")
    match fill.mode:
        case TreeFillMode.CONSTANT:
            value = _constant(fill.value, type_)
            return column if value is None else f"coalesce({column}, {value})"
        case TreeFillMode.PREVIOUS:
            if fill.max_age is None:
                return f"{previous}.v"
            # In descending order, the row before is later.
            earlier, later = (f"{name}(_time, {previous}.t)" for name in ("least", "greatest"))
            return f"CASE WHEN {later} <= {_moved(earlier, fill.max_age, clock)} THEN {previous}.v END"
        case TreeFillMode.LINEAR:
            return _linear(column, type_, previous, following)


def _moved(instant: str, age: CompoundDuration, clock: Clock) -> str:
    """Return the instant an age later, as SQL: months of the calendar, and the rest, in which a year has 365 days."""
    months = sum(part.count for part in age if part.unit == "n")
    ticks = fixed_ticks(tuple(part for part in age if part.unit != "n"), clock.precision)
    return f"({clock.instant(clock.later(clock.wall(instant), str(months))) if months else instant} + {ticks})"


def _linear(column: str, type_: DataType, previous: str, following: str) -> str:
    """Return a column with gaps on the line between the points around them; whole numbers are truncated."""
    if type_.kind not in NUMBERS:
        return column
    share = f"coalesce(CAST(_time - {previous}.t AS DOUBLE) / nullif({following}.t - {previous}.t, 0), 0)"
    value = f"({previous}.v + (CAST({following}.v AS DOUBLE) - {previous}.v) * {share})"
    value = value if type_.kind in FLOATS else f"trunc({value})"
    return f"coalesce({column}, CAST({value} AS {duck_type(type_)}))"


def _constant(node: Expression | None, type_: DataType) -> str | None:
    """Return a constant as SQL of a type; None if the type cannot hold it, so that its gaps remain."""
    match node:
        case Call(function="-" | "unary-", arguments=(Literal(value=int() | float() as number),)):
            node = Literal(-number)
    if not isinstance(node, Literal) or not isinstance(node.value, int | float | str):
        raise unsupported(f"FILL with {node}")
    value = node.value
    written = str(value).lower() if isinstance(value, bool) else str(value)
    if type_.kind in TEXTS:
        return quoted(written)
    if type_.kind is TypeKind.DATE:
        return _date(value)
    match value:
        case bool():
            fits = type_.kind is TypeKind.BOOL
        case int():
            in_range = type_.kind is not TypeKind.INT or -(2**31) <= value < 2**31
            fits = in_range and type_.kind in (*NUMBERS, TypeKind.TIMESTAMP)
        case _:
            fits = isinstance(value, float) and type_.kind in FLOATS
    return f"CAST({quoted(written)} AS {duck_type(type_)})" if fits else None


def _date(value: float | str) -> str | None:
    """Return a day such as 2024-05-01 or 20240501 as SQL; None if there is no such day."""
    written = str(value)
    if isinstance(value, int):
        written = f"{written[:-4]}-{written[-4:-2]}-{written[-2:]}"
    try:
        return f"DATE {quoted(str(date.fromisoformat(written)))}"
    except ValueError:
        return None
