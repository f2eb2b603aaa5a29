"""FILL in DuckDB: every window from a group's first to its last, and out to the range of WHERE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.model.expressions import Call, ColumnRef, Expression, walk
from headrace.model.queries import FillClause, FillMode
from headrace.model.types import BIGINT, DataType
from headrace.verify.aggregates import END, START
from headrace.verify.expressions import Compiler
from headrace.verify.frames import ROW_TIME, Frame
from headrace.verify.values import Value, duck_type, instant, unsupported
from headrace.verify.windows import Grid

UNTIL = "_until"
FORCED = (FillMode.NULL_F, FillMode.VALUE_F)
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class FillColumn:
    """A column of the windows: SQL over keys, `_ws` and `_we`, and its type.

    Attributes:
        column: Its name in the relation.
        sql: How it is computed.
        type: Its type.
        fills: True if it depends on rows, so that FILL applies.
        constant: SQL of the constant that FILL(VALUE, …) gives it.
    """

    column: str
    sql: str
    type: DataType
    is_filled: bool = False
    constant: str = "NULL"

    @classmethod
    def of(cls, column: str, value: Value, *, is_filled: bool = False) -> FillColumn:
        """Create the column of a value; a bare NULL counts as BIGINT."""
        return cls(column, value.sql, value.type or BIGINT, is_filled)


@dataclass(frozen=True, slots=True)
class Range:
    """First and last instant, inclusive, that WHERE admits; None if it sets no bound."""

    first: int | None = None
    last: int | None = None


def time_range(where: Expression | None, frame: Frame, compiler: Compiler) -> Range:
    """Return the range of instants that the conjuncts of WHERE admit."""
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
    """Return the conditions that AND joins."""
    match node:
        case None:
            return []
        case Call(function="and", arguments=arguments):
            return [part for argument in arguments for part in conjuncts(argument)]
        case _:
            return [node]


def bounds(node: Expression, frame: Frame, compiler: Compiler) -> list[tuple[str, int]]:
    """Return the inclusive bounds that one condition puts on the timestamp, as `(sign, ticks)`."""
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
    """Return True if an expression is the timestamp column."""
    if not isinstance(node, ColumnRef) or frame.time is None:
        return False
    return node.name in (frame.time.name, *ROW_TIME) and node.table in (None, frame.time.qualifier)


def ticks_of(node: Expression, compiler: Compiler) -> int | None:
    """Return a constant as an instant, or None if it is not constant."""
    if any(isinstance(part, ColumnRef) for part in walk(node)):
        return None
    value = compiler.value(node)
    if not value.is_constant or value.constant is None:
        return None
    ticks = compiler.instant(value).constant
    return ticks if isinstance(ticks, int) else None


def fill_windows(
    fill: FillClause,
    grid: Grid,
    span: Range,
    windows: str,
    keys: Sequence[str],
    columns: Sequence[FillColumn],
    step: Callable[[str, str], str],
    *,
    stream: bool = False,
) -> str:
    """Compute the windows with those that FILL adds, and return the relation: keys, `_ws`, `_we` and the columns.

    A stream adds windows between two existing ones only, from these two alone, and leaves NULLs of existing windows. Its windows
    also have `_until`: the end of the window that has to close before the stream can have it.
    """
    if fill.mode is FillMode.NEAR:
        raise unsupported("FILL(NEAR) of windows")
    all_windows = step("grid", grid_sql(fill, grid, span, windows, keys))
    match = " AND ".join([*(f"g.{key} IS NOT DISTINCT FROM w.{key}" for key in keys), f"g.{START} = w.{START}"])
    values = [output.column for output in columns if output.is_filled]
    selected = [*(f"g.{key}" for key in keys), f"g.{START}", f"g.{END}", f"w.{START} IS NOT NULL AS _there"]
    selected += [f"w.{column}" for column in values]
    joined = step("joined", f"SELECT {', '.join(selected)} FROM {all_windows} g LEFT JOIN {windows} w ON {match}")
    value = stream_value if stream else fill_value
    outputs = [f"{value(fill.mode, output, keys) if output.is_filled else output.sql} AS {output.column}" for output in columns]
    if stream:
        existing_end = f"first_value(CASE WHEN _there THEN {END} END IGNORE NULLS)"
        outputs.append(f"{existing_end} {frames(keys)[1]} AS {UNTIL}")
    return step("filled", f"SELECT {', '.join([*keys, START, END, *outputs])} FROM {joined}")


def frames(keys: Sequence[str]) -> tuple[str, str]:
    """Return the frames of a group's windows up to the present one, and from it on."""
    partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
    ordered = f"OVER ({partition}ORDER BY {START} ROWS BETWEEN"
    return f"{ordered} UNBOUNDED PRECEDING AND CURRENT ROW)", f"{ordered} CURRENT ROW AND UNBOUNDED FOLLOWING)"


def stream_value(mode: FillMode, output: FillColumn, keys: Sequence[str]) -> str:
    """Return a column's SQL at a window of a stream: its own value if the window has rows, else what the mode says."""
    existing = f"CASE WHEN _there THEN {{'v': {output.column}}} END"
    so_far, to_come = frames(keys)
    match mode:
        case FillMode.PREV:
            return f"(last_value({existing} IGNORE NULLS) {so_far}).v"
        case FillMode.NEXT:
            return f"(first_value({existing} IGNORE NULLS) {to_come}).v"
        case FillMode.VALUE | FillMode.VALUE_F:
            return f"CASE WHEN _there THEN {output.column} ELSE {output.constant} END"
        case _:
            return fill_value(mode, output, keys)


def grid_sql(fill: FillClause, grid: Grid, span: Range, windows: str, keys: Sequence[str]) -> str:
    """Return the SELECT of keys, `_ws` and `_we` of every window in the result."""
    wall = grid.latest(START)
    first, last = f"min({wall})", f"max({wall})"
    ends = {
        side: None if ticks is None else grid.covering(instant(ticks).sql)
        for side, ticks in (("first", span.first), ("last", span.last))
    }
    key_list = ", ".join(keys)
    group = f" GROUP BY {key_list}" if keys else " HAVING count(*) > 0"
    lead = f"{key_list}, " if keys else ""
    groups = f"SELECT {lead}{first} AS _first, {last} AS _last FROM {windows}{group}"
    if fill.mode in FORCED and not keys and ends["first"] and ends["last"]:
        groups = f"SELECT {first} AS _first, {last} AS _last FROM {windows}"
    low = f"least(_first, {ends['first']})" if ends["first"] else "_first"
    high = f"greatest(_last, {ends['last']})" if ends["last"] else "_last"
    ranges = f"SELECT {lead}{low} AS _low, {high} AS _high FROM ({groups})"
    walls = f"SELECT {lead}unnest({grid.between('_low', '_high')}) AS _wall FROM ({ranges})"
    borders = f"{grid.clock.instant('_wall')} AS {START}, {grid.end('_wall')} AS {END}"
    return f"SELECT {lead}{borders} FROM ({walls}) WHERE {grid.exists('_wall')}"


def fill_value(mode: FillMode, output: FillColumn, keys: Sequence[str]) -> str:
    """Return a column's SQL at a window: its own value if the window has rows, else what the mode says."""
    column = output.column
    so_far, to_come = frames(keys)
    match mode:
        case FillMode.PREV:
            return f"last_value({column} IGNORE NULLS) {so_far}"
        case FillMode.NEXT:
            return f"first_value({column} IGNORE NULLS) {to_come}"
        case FillMode.VALUE | FillMode.VALUE_F:
            return f"coalesce({column}, {output.constant})"
        case FillMode.LINEAR if output.type.is_number:
            point = f"CASE WHEN _there THEN {{'t': {START}, 'v': {column}}} END"
            before, after = f"(last_value({point} IGNORE NULLS) {so_far})", f"(first_value({point} IGNORE NULLS) {to_come})"
            return f"CASE WHEN _there THEN {column} ELSE {interpolate(before, after, 'v', START, output.type)} END"
        case _:
            return f"CASE WHEN _there THEN {column} END"


def interpolate(before: str, after: str, name: str, instant_sql: str, type_: DataType) -> str:
    """Interpolate linearly between two points (structs of `t` and the value); truncate if the type is an integer."""
    low, high = f"{before}.{name}::DOUBLE", f"{after}.{name}::DOUBLE"
    interpolated = f"{low} + (({high} - {low}) * ({instant_sql} - {before}.t)) / ({after}.t - {before}.t)"
    return f"TRY_CAST({f'trunc({interpolated})' if type_.is_integer else interpolated} AS {duck_type(type_)})"
