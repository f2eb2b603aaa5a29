"""Functions of a row and its neighbors in time, in DuckDB SQL. A query has at most one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.model.expressions import Scalar
from headrace.model.time import Duration, Precision
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, DataType
from headrace.verify.values import Value, duck_type, to_double, unsupported

SIGNS: Final = {"LT": "<", "GT": ">", "LE": "<=", "GE": ">=", "NE": "<>", "EQ": "="}
VALUE: Final = "_s"
RANK: Final = "_rank"


@dataclass(frozen=True, slots=True)
class SeriesExpression:
    """How a function is computed, in this order.

    Attributes:
        value: SQL of `_s`, its value.
        type: The type of its value.
        only: Condition on the rows that it reads.
        rank: SQL of `_rank`, if `value`, `result_filter` or `order` uses one.
        keep: Condition on the rows that it returns.
        order: Order of its rows, if not by time.
    """

    value: str
    type: DataType
    row_filter: str | None = None
    rank: str | None = None
    result_filter: str | None = None
    order: str | None = None


@dataclass(frozen=True, slots=True)
class SeriesCall:
    """One call of a function.

    Attributes:
        function: Its name.
        x: Its first argument, over rows.
        others: The constants after it.
        keys: The columns that partition rows.
        order: The columns that order rows, the instant first.
        precision: The unit of ticks.
    """

    function: str
    x: Value
    constants: tuple[Scalar | Duration, ...]
    keys: tuple[str, ...]
    order: tuple[str, ...]
    precision: Precision

    def over(self, order: str | None = None, frame: str = "") -> str:
        """Return an OVER clause within the partition."""
        partition = f"PARTITION BY {', '.join(self.keys)} " if self.keys else ""
        return f"OVER ({partition}ORDER BY {order or ', '.join(self.order)} {frame})"

    @property
    def before(self) -> str:
        """OVER clause for all earlier rows."""
        return self.over(frame="ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING")

    @property
    def so_far(self) -> str:
        """OVER clause for all rows up to the current one."""
        return self.over(frame="ROWS UNBOUNDED PRECEDING")

    @property
    def present(self) -> str:
        """Condition that the argument has a value."""
        return f"{self.x.sql} IS NOT NULL"

    def number(self, position: int, default: int | None = None) -> float:
        """Return the constant at a position, which must be a number."""
        value = self.constants[position] if position < len(self.constants) else default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise unsupported(f"{self.function} with {value!r}")
        return value

    def ticks(self, position: int) -> int:
        """Return the constant duration at a position in ticks, by default 1."""
        value = self.constants[position] if position < len(self.constants) else 1
        return value.ticks(self.precision) if isinstance(value, Duration) else 1


def summable(use: SeriesCall) -> tuple[str, DataType]:
    """Return the argument in the type of sums and differences: BIGINT for integers and instants, else DOUBLE."""
    if use.x.type is not None and (use.x.type.is_integer or use.x.type == TIMESTAMP):
        return f"CAST({use.x.sql} AS HUGEINT)", BIGINT
    return to_double(use.x), DOUBLE


def diff(use: SeriesCall) -> SeriesExpression:
    """Subtract the last value before; the first row is left out.

    Option 1 leaves out negative differences, 2 rows without a value, 3 both.
    """
    option = int(use.number(0, 0))
    x, type_ = summable(use)
    value = f"TRY_CAST({x} - last_value({x} IGNORE NULLS) {use.before} AS {duck_type(type_)})"
    result_filter = f"{RANK} > 1" + (f" AND ({VALUE} >= 0 OR {VALUE} IS NULL)" if option & 1 else "")
    return SeriesExpression(value, type_, use.present if option & 2 else None, f"row_number() {use.over()}", result_filter)


def derivative(use: SeriesCall) -> SeriesExpression:
    """Divide the change from the previous value by the time since it; rows without a lapse of time are left out."""
    time = use.order[0]
    units = f"nullif(({time} - lag({time}) {use.over()}) / {float(use.ticks(0))!r}, 0)"
    value = f"({to_double(use.x)} - lag({to_double(use.x)}) {use.over()}) / {units}"
    result_filter = f"{VALUE} >= 0" if use.number(1, 0) else f"{VALUE} IS NOT NULL"
    return SeriesExpression(value, DOUBLE, use.present, None, result_filter)


def csum(use: SeriesCall) -> SeriesExpression:
    """Sum the values so far."""
    x, type_ = summable(use)
    return SeriesExpression(f"TRY_CAST(sum({x}) {use.so_far} AS {duck_type(type_)})", type_, use.present)


def mavg(use: SeriesCall) -> SeriesExpression:
    """Average the last `count` values, once there are as many."""
    count = int(use.number(0))
    mean = f"avg({to_double(use.x)}) {use.over(frame=f'ROWS BETWEEN {count - 1} PRECEDING AND CURRENT ROW')}"
    return SeriesExpression(mean, DOUBLE, use.present, f"row_number() {use.over()}", f"{RANK} >= {count}")


def condition(use: SeriesCall) -> str:
    """Compile the condition of `statecount` and `stateduration`."""
    sign = use.constants[0]
    if not isinstance(sign, str) or sign.upper() not in SIGNS:
        raise unsupported(f"{use.function} with {sign!r}")
    return f"({to_double(use.x)} {SIGNS[sign.upper()]} {float(use.number(1))!r})"


def while_held(use: SeriesCall, value: str) -> str:
    """Return `value` while the condition holds, -1 while it does not, NULL for NULL."""
    return f"CASE WHEN {use.x.sql} IS NULL THEN NULL WHEN {condition(use)} THEN {value} ELSE -1 END"


def statecount(use: SeriesCall) -> SeriesExpression:
    """Count the values since the condition last failed; -1 where it fails. `_rank` counts the failures so far."""
    failures = f"count(*) FILTER (NOT {condition(use)}) {use.so_far}"
    run = f"PARTITION BY {', '.join([*use.keys, RANK])} ORDER BY {', '.join(use.order)} ROWS UNBOUNDED PRECEDING"
    return SeriesExpression(
        f"CAST({while_held(use, f'count(*) FILTER ({condition(use)}) OVER ({run})')} AS BIGINT)", BIGINT, None, failures
    )


def stateduration(use: SeriesCall) -> SeriesExpression:
    """Measure the time since the run began for which the condition holds, in whole units."""
    failures = f"count(*) FILTER (NOT {condition(use)}) {use.so_far}"
    run = f"PARTITION BY {', '.join([*use.keys, RANK])} ORDER BY {', '.join(use.order)} ROWS UNBOUNDED PRECEDING"
    run_start = f"min({use.order[0]}) FILTER ({condition(use)}) OVER ({run})"
    return SeriesExpression(
        f"CAST({while_held(use, f'({use.order[0]} - {run_start}) // {use.ticks(2)}')} AS BIGINT)", BIGINT, None, failures
    )


def extremes(direction: str) -> Callable[[SeriesCall], SeriesExpression]:
    """Return the builder of `top` or `bottom`: rows with the greatest or smallest values, the earliest in a tie."""

    def build(use: SeriesCall) -> SeriesExpression:
        rank = f"row_number() {use.over(f'{use.x.sql} {direction}, ' + ', '.join(use.order))}"
        return SeriesExpression(use.x.sql, use.x.type or BIGINT, use.present, rank, f"{RANK} <= {int(use.number(0))}", f"-{RANK}")

    return build


def tail(use: SeriesCall) -> SeriesExpression:
    """Return the last rows, the latest first; an offset skips the latest."""
    count, offset = int(use.number(0)), int(use.number(1, 0))
    rank = f"row_number() {use.over(', '.join([f'{use.order[0]} DESC', *use.order[1:]]))}"
    return SeriesExpression(use.x.sql, use.x.type or BIGINT, None, rank, f"{RANK} > {offset} AND {RANK} <= {offset + count}", RANK)


def unique(use: SeriesCall) -> SeriesExpression:
    """Return the first row of each value."""
    partition = ", ".join([*use.keys, use.x.sql])
    rank = f"row_number() OVER (PARTITION BY {partition} ORDER BY {', '.join(use.order)})"
    return SeriesExpression(use.x.sql, use.x.type or BIGINT, None, rank, f"{RANK} = 1")


SERIES: Final[dict[str, Callable[[SeriesCall], SeriesExpression]]] = {
    "bottom": extremes("ASC"),
    "csum": csum,
    "derivative": derivative,
    "diff": diff,
    "mavg": mavg,
    "statecount": statecount,
    "stateduration": stateduration,
    "tail": tail,
    "top": extremes("DESC"),
    "unique": unique,
}
