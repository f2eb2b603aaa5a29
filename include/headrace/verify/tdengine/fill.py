"""FILL in DuckDB: every window from a group's first to its last, and out to the range of WHERE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.model.expressions import Call, ColumnRef, Expression, columns_of, conjuncts
from headrace.model.queries import FillClause, FillMode
from headrace.model.types import BIGINT, DataType
from headrace.verify.expressions import MIRRORED, Compiler
from headrace.verify.steps import END, START, Partition, Steps
from headrace.verify.tdengine.conversions import to_instant
from headrace.verify.tdengine.frames import ROW_TIME, Frame
from headrace.verify.tdengine.windows import Grid
from headrace.verify.values import Value, duck_type, instant, unsupported

UNTIL: Final = "_until"
FORCED: Final = (FillMode.NULL_F, FillMode.VALUE_F)


@dataclass(frozen=True, slots=True)
class Range:
    """First and last instant, inclusive, that WHERE admits; None if it sets no bound."""

    first: int | None = None
    last: int | None = None


def time_range(where: Expression | None, frame: Frame, compiler: Compiler) -> Range:
    """Return the range of instants that the conjuncts of WHERE admit."""
    bounds = [bound for condition in conjuncts(where) for bound in _bounds(condition, frame, compiler)]
    firsts = [ticks for sign, ticks in bounds if sign in (">=", "=")]
    lasts = [ticks for sign, ticks in bounds if sign in ("<=", "=")]
    return Range(max(firsts, default=None), min(lasts, default=None))


def _bounds(node: Expression, frame: Frame, compiler: Compiler) -> list[tuple[str, int]]:
    """Return the inclusive bounds that one condition puts on the timestamp, as `(sign, ticks)`."""
    match node:
        case Call(function="between", arguments=(subject, low, high)) if _is_time(subject, frame):
            ends = (ticks_of(low, compiler), ticks_of(high, compiler))
            return [(">=", ends[0]), ("<=", ends[1])] if ends[0] is not None and ends[1] is not None else []
        case Call(function=sign, arguments=(left, right)) if sign in MIRRORED:
            if _is_time(right, frame) and not _is_time(left, frame):
                left, right, sign = right, left, MIRRORED[sign]
            ticks = ticks_of(right, compiler) if _is_time(left, frame) else None
            return [] if ticks is None else [{"<": ("<=", ticks - 1), ">": (">=", ticks + 1)}.get(sign, (sign, ticks))]
    return []


def _is_time(node: Expression, frame: Frame) -> bool:
    if not isinstance(node, ColumnRef) or frame.time is None:
        return False
    return node.name in (frame.time.name, *ROW_TIME) and node.table in (None, frame.time.qualifier)


def ticks_of(node: Expression, compiler: Compiler) -> int | None:
    """Return a constant as an instant, or None if it is not constant."""
    if columns_of(node):
        return None
    value = compiler.value(node)
    if not value.is_constant or value.constant is None:
        return None
    ticks = to_instant(compiler, value).constant
    return ticks if isinstance(ticks, int) else None


@dataclass(frozen=True, slots=True)
class FillColumn:
    """A column of the windows: SQL over keys, `_ws` and `_we`, and its type.

    `is_filled` if it depends on rows, so that FILL applies; `constant` is what FILL(VALUE, …) gives it.
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

    @property
    def selected(self) -> str:
        return f"{self.sql} AS {self.column}"


def fill_windows(
    steps: Steps,
    fill: FillClause,
    grid: Grid,
    span: Range,
    windows: str,
    keys: tuple[str, ...],
    columns: Sequence[FillColumn],
    *,
    stream: bool = False,
) -> str:
    """Compute the windows with those that FILL adds, and return the relation: keys, `_ws`, `_we` and the columns.

    A stream adds windows between two existing ones only, from these two alone, and leaves NULLs of existing windows. Its windows
    also have `_until`: the end of the window that has to close before the stream can have it.
    """
    if fill.mode is FillMode.NEAR:
        raise unsupported("FILL(NEAR) of windows")
    all_windows = steps.step("grid", _grid_sql(fill, grid, span, windows, keys))
    match = " AND ".join([*(f"g.{key} IS NOT DISTINCT FROM w.{key}" for key in keys), f"g.{START} = w.{START}"])
    selected = [*(f"g.{key}" for key in keys), f"g.{START}", f"g.{END}", f"w.{START} IS NOT NULL AS _there"]
    selected += [f"w.{output.column}" for output in columns if output.is_filled]
    joined = steps.step("joined", f"SELECT {', '.join(selected)} FROM {all_windows} g LEFT JOIN {windows} w ON {match}")
    rows = Partition(keys, (START,))
    outputs = [
        f"{_value(fill.mode, output, rows, stream=stream) if output.is_filled else output.sql} AS {output.column}"
        for output in columns
    ]
    if stream:
        outputs.append(f"{rows.neighbors(END, START, '_there')[1]}.v AS {UNTIL}")
    return steps.step("filled", f"SELECT {', '.join([*keys, START, END, *outputs])} FROM {joined}")


def _grid_sql(fill: FillClause, grid: Grid, span: Range, windows: str, keys: Sequence[str]) -> str:
    """Return the SELECT of keys, `_ws` and `_we` of every window in the result."""
    first, last = (None if ticks is None else grid.latest_start(instant(ticks).sql) for ticks in (span.first, span.last))
    key_list = ", ".join(keys)
    group = f" GROUP BY {key_list}" if keys else " HAVING count(*) > 0"
    if fill.mode in FORCED and not keys and first and last:
        group = ""
    lead = f"{key_list}, " if keys else ""
    groups = f"SELECT {lead}min({START}) AS _first, max({START}) AS _last FROM {windows}{group}"
    low = f"least(_first, {first})" if first else "_first"
    high = f"greatest(_last, {last})" if last else "_last"
    ranges = f"SELECT {lead}{low} AS _low, {high} AS _high FROM ({groups})"
    walls = f"SELECT {lead}_low, _high, unnest({grid.between('_low', '_high')}) AS _wall FROM ({ranges})"
    borders = f"{grid.clock.instant('_wall')} AS {START}, {grid.end('_wall')} AS {END}"
    return f"SELECT {lead}{borders} FROM ({walls}) WHERE {grid.exists('_wall')} AND {START} BETWEEN _low AND _high"


def _value(mode: FillMode, output: FillColumn, rows: Partition, *, stream: bool) -> str:
    column = output.column
    own = "_there" if stream or mode is FillMode.LINEAR else f"{column} IS NOT NULL"
    before, after = rows.neighbors(column, START, own)
    match mode:
        case FillMode.PREV:
            return f"{before}.v"
        case FillMode.NEXT:
            return f"{after}.v"
        case FillMode.VALUE | FillMode.VALUE_F:
            return f"CASE WHEN {own} THEN {column} ELSE {output.constant} END"
        case FillMode.LINEAR if output.type.is_number:
            return f"CASE WHEN {own} THEN {column} ELSE {interpolate(before, after, 'v', START, output.type)} END"
    return column


def interpolate(before: str, after: str, name: str, instant_sql: str, type_: DataType) -> str:
    """Interpolate linearly between two points (structs of `t` and the value); truncate if the type is an integer."""
    low, high = f"{before}.{name}::DOUBLE", f"{after}.{name}::DOUBLE"
    interpolated = f"{low} + (({high} - {low}) * ({instant_sql} - {before}.t)) / ({after}.t - {before}.t)"
    return f"TRY_CAST({f'trunc({interpolated})' if type_.is_integer else interpolated} AS {duck_type(type_)})"
