"""Functions of a row and its neighbors in time, in DuckDB SQL. A query has at most one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.model.time import Duration
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, DataType
from headrace.verify.tdengine.aggregates import RowsCall
from headrace.verify.tdengine.conversions import to_double
from headrace.verify.values import duck_type, unsupported

SIGNS: Final = {"LT": "<", "GT": ">", "LE": "<=", "GE": ">=", "NE": "<>", "EQ": "="}
VALUE: Final = "_s"
RANK: Final = "_rank"


@dataclass(frozen=True, slots=True)
class _SeriesExpression:
    """How a function is computed: `row_filter`, then `_rank`, the value `_s`, and `result_filter`; `order` if not by time."""

    value: str
    type: DataType
    row_filter: str | None = None
    rank: str | None = None
    result_filter: str | None = None
    order: str | None = None


Rule = Callable[[RowsCall], _SeriesExpression]


def _unit(use: RowsCall, position: int) -> int:
    value = use.constants[position] if position < len(use.constants) else 1
    return value.ticks(use.compiler.precision) if isinstance(value, Duration) else 1


def _summable(use: RowsCall) -> tuple[str, DataType]:
    """Return the argument in the type of sums and differences: BIGINT for integers and instants, else DOUBLE."""
    if use.x.type is not None and (use.x.type.is_integer or use.x.type == TIMESTAMP):
        return f"CAST({use.x.sql} AS HUGEINT)", BIGINT
    return to_double(use.x), DOUBLE


def _diff(use: RowsCall) -> _SeriesExpression:
    """Subtract the last value before; the first row is left out.

    Option 1 leaves out negative differences, 2 rows without a value, 3 both.
    """
    option = int(use.number(0, 0))
    x, type_ = _summable(use)
    value = f"TRY_CAST({x} - last_value({x} IGNORE NULLS) {use.rows.before} AS {duck_type(type_)})"
    result_filter = f"{RANK} > 1" + (f" AND ({VALUE} >= 0 OR {VALUE} IS NULL)" if option & 1 else "")
    return _SeriesExpression(value, type_, use.present if option & 2 else None, f"row_number() {use.rows.over()}", result_filter)


def _derivative(use: RowsCall) -> _SeriesExpression:
    """Divide the change from the previous value by the time since it; rows without a lapse of time are left out."""
    time, over = use.rows.order[0], use.rows.over()
    units = f"nullif(({time} - lag({time}) {over}) / {float(_unit(use, 0))!r}, 0)"
    value = f"({to_double(use.x)} - lag({to_double(use.x)}) {over}) / {units}"
    result_filter = f"{VALUE} >= 0" if use.number(1, 0) else f"{VALUE} IS NOT NULL"
    return _SeriesExpression(value, DOUBLE, use.present, None, result_filter)


def _csum(use: RowsCall) -> _SeriesExpression:
    x, type_ = _summable(use)
    return _SeriesExpression(f"TRY_CAST(sum({x}) {use.rows.so_far} AS {duck_type(type_)})", type_, use.present)


def _mavg(use: RowsCall) -> _SeriesExpression:
    """Average the last `count` values, once there are as many."""
    count = int(use.number(0))
    mean = f"avg({to_double(use.x)}) {use.rows.over(f'ROWS BETWEEN {count - 1} PRECEDING AND CURRENT ROW')}"
    return _SeriesExpression(mean, DOUBLE, use.present, f"row_number() {use.rows.over()}", f"{RANK} >= {count}")


def _while_held(value: Callable[[RowsCall, str], str]) -> Rule:
    """Return the rule of a value while a condition holds, -1 while it does not, NULL for NULL. `_rank` counts the failures so far.

    `value` takes the call, and the FILTER and OVER clauses of the rows since the condition last failed.
    """

    def rule(use: RowsCall) -> _SeriesExpression:
        sign = use.constants[0]
        if not isinstance(sign, str) or sign.upper() not in SIGNS:
            raise unsupported(f"{use.function} with {sign!r}")
        condition = f"({to_double(use.x)} {SIGNS[sign.upper()]} {float(use.number(1))!r})"
        run = f"FILTER ({condition}) {use.rows.over('ROWS UNBOUNDED PRECEDING', keys=(RANK,))}"
        held = f"CASE WHEN {use.x.sql} IS NULL THEN NULL WHEN {condition} THEN {value(use, run)} ELSE -1 END"
        return _SeriesExpression(f"CAST({held} AS BIGINT)", BIGINT, None, f"count(*) FILTER (NOT {condition}) {use.rows.so_far}")

    return rule


def _since_start(use: RowsCall, run: str) -> str:
    time = use.rows.order[0]
    return f"({time} - min({time}) {run}) // {_unit(use, 2)}"


def _extremes(direction: str) -> Rule:
    """Return the rule of `top` or `bottom`: rows with the greatest or smallest values, the earliest in a tie."""

    def rule(use: RowsCall) -> _SeriesExpression:
        rank = f"row_number() {use.rows.over(order=(f'{use.x.sql} {direction}', *use.rows.order))}"
        return _SeriesExpression(use.x.sql, use.x.type or BIGINT, use.present, rank, f"{RANK} <= {int(use.number(0))}", f"-{RANK}")

    return rule


def _tail(use: RowsCall) -> _SeriesExpression:
    """Return the last rows, the latest first; an offset skips the latest."""
    count, offset = int(use.number(0)), int(use.number(1, 0))
    time, *ties = use.rows.order
    rank = f"row_number() {use.rows.over(order=(f'{time} DESC', *ties))}"
    return _SeriesExpression(use.x.sql, use.x.type or BIGINT, None, rank, f"{RANK} > {offset} AND {RANK} <= {offset + count}", RANK)


def _unique(use: RowsCall) -> _SeriesExpression:
    rank = f"row_number() {use.rows.over(keys=(use.x.sql,))}"
    return _SeriesExpression(use.x.sql, use.x.type or BIGINT, None, rank, f"{RANK} = 1")


SERIES: Final[dict[str, Rule]] = {
    "bottom": _extremes("ASC"),
    "csum": _csum,
    "derivative": _derivative,
    "diff": _diff,
    "mavg": _mavg,
    "statecount": _while_held(lambda _, run: f"count(*) {run}"),
    "stateduration": _while_held(_since_start),
    "tail": _tail,
    "top": _extremes("DESC"),
    "unique": _unique,
}
