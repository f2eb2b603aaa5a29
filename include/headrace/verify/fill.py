"""FILL in DuckDB: all windows of the grid from a group's first to its last, and to the ends of WHERE's range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.model.expressions import Call, ColumnRef, Expression, walk
from headrace.model.queries import FillClause, FillMode
from headrace.model.types import BIGINT, DataType
from headrace.verify.aggregates import END, START
from headrace.verify.expressions import Compiler
from headrace.verify.frames import ROW_TIME, Frame
from headrace.verify.values import Value, duck_type, instant, unknown
from headrace.verify.windows import Grid

FORCED = (FillMode.NULL_F, FillMode.VALUE_F)
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class Filled:
    """A column of the windows: its SQL over keys, `_ws` and `_we`, its type, and whether it depends on rows and is to be filled."""

    column: str
    sql: str
    type: DataType
    fills: bool = False
    constant: str = "NULL"

    @classmethod
    def of(cls, column: str, value: Value, *, fills: bool = False) -> Filled:
        """A column of a value; a bare NULL counts as BIGINT."""
        return cls(column, value.sql, value.type or BIGINT, fills)


@dataclass(frozen=True, slots=True)
class Range:
    """First and last instant, inclusive, that WHERE lets through; None where it does not say."""

    first: int | None = None
    last: int | None = None


def time_range(where: Expression | None, frame: Frame, compiler: Compiler) -> Range:
    """The range of instants that the conditions of WHERE, joined by AND, leave of the time line."""
    firsts: list[int] = []
    lasts: list[int] = []
    for condition in conjuncts(where):
        for sign, ticks in bounds(condition, frame, compiler):
            if sign in (">=", "="):
                firsts.append(ticks)
            if sign in ("<=", "="):
                lasts.append(ticks)
    return Range(max(firsts, default=None), min(lasts, default=None))


def conjuncts(node: Expression | None) -> list[Expression]:
    match node:
        case None:
            return []
        case Call(function="and", arguments=arguments):
            return [part for argument in arguments for part in conjuncts(argument)]
        case _:
            return [node]


def bounds(node: Expression, frame: Frame, compiler: Compiler) -> list[tuple[str, int]]:
    """The inclusive bounds that one condition puts on the time line."""
    match node:
        case Call(function="between", arguments=(subject, low, high)) if is_time(subject, frame):
            ends = (ticks_of(low, compiler), ticks_of(high, compiler))
            return [(">=", ends[0]), ("<=", ends[1])] if ends[0] is not None and ends[1] is not None else []
        case Call(function=sign, arguments=(left, right)) if sign in MIRRORED:
            if is_time(right, frame) and not is_time(left, frame):
                left, right, sign = right, left, MIRRORED[sign]
            ticks = ticks_of(right, compiler) if is_time(left, frame) else None
            if ticks is None:
                return []
            return [{"<": ("<=", ticks - 1), ">": (">=", ticks + 1)}.get(sign, (sign, ticks))]
    return []


def is_time(node: Expression, frame: Frame) -> bool:
    if not isinstance(node, ColumnRef) or frame.time is None:
        return False
    return node.name in (frame.time.name, *ROW_TIME) and node.table in (None, frame.time.qualifier)


def ticks_of(node: Expression, compiler: Compiler) -> int | None:
    """A constant as an instant; None where it is none."""
    if any(isinstance(part, ColumnRef) for part in walk(node)):
        return None
    value = compiler.value(node)
    if not value.known or value.constant is None:
        return None
    found = compiler.instant(value).constant
    return found if isinstance(found, int) else None


def filled(
    fill: FillClause,
    grid: Grid,
    span: Range,
    windows: str,
    keys: Sequence[str],
    columns: Sequence[Filled],
    step: Callable[[str, str], str],
) -> str:
    """The name of a relation with keys, `_ws`, `_we` and the columns, windows without rows among them."""
    if fill.mode is FillMode.NEAR:
        raise unknown("FILL(NEAR) of windows")
    every = step("grid", grid_sql(fill, grid, span, windows, keys))
    match = " AND ".join([*(f"g.{key} IS NOT DISTINCT FROM w.{key}" for key in keys), f"g.{START} = w.{START}"])
    values = [each.column for each in columns if each.fills]
    selected = [*(f"g.{key}" for key in keys), f"g.{START}", f"g.{END}", f"w.{START} IS NOT NULL AS _there"]
    selected += [f"w.{column}" for column in values]
    beside = step("beside", f"SELECT {', '.join(selected)} FROM {every} g LEFT JOIN {windows} w ON {match}")
    shown = [f"{value(fill.mode, each, keys) if each.fills else each.sql} AS {each.column}" for each in columns]
    return step("filled", f"SELECT {', '.join([*keys, START, END, *shown])} FROM {beside}")


def grid_sql(fill: FillClause, grid: Grid, span: Range, windows: str, keys: Sequence[str]) -> str:
    """Keys, `_ws` and `_we` of every window that there is to be."""
    wall = grid.latest(START)
    first, last = f"min({wall})", f"max({wall})"
    ends = {
        place: None if ticks is None else grid.covering(instant(ticks).sql)
        for place, ticks in (("first", span.first), ("last", span.last))
    }
    shown = ", ".join(keys)
    group = f" GROUP BY {shown}" if keys else " HAVING count(*) > 0"
    lead = f"{shown}, " if keys else ""
    groups = f"SELECT {lead}{first} AS _first, {last} AS _last FROM {windows}{group}"
    if fill.mode in FORCED and not keys and ends["first"] and ends["last"]:
        groups = f"SELECT {first} AS _first, {last} AS _last FROM {windows}"
    low = f"least(_first, {ends['first']})" if ends["first"] else "_first"
    high = f"greatest(_last, {ends['last']})" if ends["last"] else "_last"
    placed = f"SELECT {lead}{low} AS _low, {high} AS _high FROM ({groups})"
    spread = f"SELECT {lead}unnest({grid.between('_low', '_high')}) AS _wall FROM ({placed})"
    borders = f"{grid.clock.instant('_wall')} AS {START}, {grid.end('_wall')} AS {END}"
    return f"SELECT {lead}{borders} FROM ({spread}) WHERE {grid.exists('_wall')}"


def value(mode: FillMode, each: Filled, keys: Sequence[str]) -> str:
    """A column at a window: its own value where the window has one, else what the mode says."""
    column = each.column
    partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
    so_far = f"OVER ({partition}ORDER BY {START} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    to_come = f"OVER ({partition}ORDER BY {START} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"
    match mode:
        case FillMode.PREV:
            return f"last_value({column} IGNORE NULLS) {so_far}"
        case FillMode.NEXT:
            return f"first_value({column} IGNORE NULLS) {to_come}"
        case FillMode.VALUE | FillMode.VALUE_F:
            return f"coalesce({column}, {each.constant})"
        case FillMode.LINEAR if each.type.is_number:
            point = f"CASE WHEN _there THEN {{'t': {START}, 'v': {column}}} END"
            before, after = f"(last_value({point} IGNORE NULLS) {so_far})", f"(first_value({point} IGNORE NULLS) {to_come})"
            return f"CASE WHEN _there THEN {column} ELSE {line(before, after, 'v', START, each.type)} END"
        case _:
            return f"CASE WHEN _there THEN {column} END"


def line(before: str, after: str, name: str, at: str, type_: DataType) -> str:
    """The value at an instant on the line between two points (structs of `t` and the value); of whole numbers cut off."""
    low, high = f"{before}.{name}::DOUBLE", f"{after}.{name}::DOUBLE"
    found = f"{low} + (({high} - {low}) * ({at} - {before}.t)) / ({after}.t - {before}.t)"
    return f"TRY_CAST({f'trunc({found})' if type_.is_integer else found} AS {duck_type(type_)})"
