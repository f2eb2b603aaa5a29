"""Functions of a row and its neighbours in time, in DuckDB. A query has one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.model.expressions import Scalar
from headrace.model.time import Duration, Precision
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, DataType
from headrace.verify.values import Value, duck_type, real, unknown

SIGNS: Final = {"LT": "<", "GT": ">", "LE": "<=", "GE": ">=", "NE": "<>", "EQ": "="}
VALUE: Final = "_s"
PLACE: Final = "_place"


@dataclass(frozen=True, slots=True)
class Series:
    """One use, over rows: those for which `only` holds, with `_place` (where the function has one) and `_s`, then kept by `keep`.

    `order` is how they come, where it is not by time.
    """

    value: str
    type: DataType
    only: str | None = None
    place: str | None = None
    keep: str | None = None
    order: str | None = None


@dataclass(frozen=True, slots=True)
class SeriesUse:
    """One use of a function: its argument, the constants after it, and the columns that part and order rows (instant first)."""

    function: str
    x: Value
    others: tuple[Scalar | Duration, ...]
    keys: tuple[str, ...]
    order: tuple[str, ...]
    precision: Precision

    def over(self, order: str | None = None, frame: str = "") -> str:
        partition = f"PARTITION BY {', '.join(self.keys)} " if self.keys else ""
        return f"OVER ({partition}ORDER BY {order or ', '.join(self.order)} {frame})"

    @property
    def before(self) -> str:
        return self.over(frame="ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING")

    @property
    def so_far(self) -> str:
        return self.over(frame="ROWS UNBOUNDED PRECEDING")

    @property
    def present(self) -> str:
        return f"{self.x.sql} IS NOT NULL"

    def number(self, place: int, default: int | None = None) -> float:
        value = self.others[place] if place < len(self.others) else default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise unknown(f"{self.function} with {value!r}")
        return value

    def ticks(self, place: int) -> int:
        value = self.others[place] if place < len(self.others) else 1
        return value.ticks(self.precision) if isinstance(value, Duration) else 1


def summed(use: SeriesUse) -> tuple[str, DataType]:
    """The argument as what sums and differences are of: whole numbers and instants are BIGINT, all else DOUBLE."""
    if use.x.type is not None and (use.x.type.is_integer or use.x.type == TIMESTAMP):
        return f"CAST({use.x.sql} AS HUGEINT)", BIGINT
    return real(use.x), DOUBLE


def diff(use: SeriesUse) -> Series:
    """From the last value before; the first row has none. Option 1: no negative ones, 2: no rows without a value, 3: both."""
    option = int(use.number(0, 0))
    x, type_ = summed(use)
    value = f"TRY_CAST({x} - last_value({x} IGNORE NULLS) {use.before} AS {duck_type(type_)})"
    keep = f"{PLACE} > 1" + (f" AND ({VALUE} >= 0 OR {VALUE} IS NULL)" if option & 1 else "")
    return Series(value, type_, use.present if option & 2 else None, f"row_number() {use.over()}", keep)


def derivative(use: SeriesUse) -> Series:
    """Change from the value before by unit of time; none where no time lies between."""
    time = use.order[0]
    units = f"nullif(({time} - lag({time}) {use.over()}) / {float(use.ticks(0))!r}, 0)"
    value = f"({real(use.x)} - lag({real(use.x)}) {use.over()}) / {units}"
    keep = f"{VALUE} >= 0" if use.number(1, 0) else f"{VALUE} IS NOT NULL"
    return Series(value, DOUBLE, use.present, None, keep)


def csum(use: SeriesUse) -> Series:
    x, type_ = summed(use)
    return Series(f"TRY_CAST(sum({x}) {use.so_far} AS {duck_type(type_)})", type_, use.present)


def mavg(use: SeriesUse) -> Series:
    """The mean of so many values, from where there are so many."""
    count = int(use.number(0))
    mean = f"avg({real(use.x)}) {use.over(frame=f'ROWS BETWEEN {count - 1} PRECEDING AND CURRENT ROW')}"
    return Series(mean, DOUBLE, use.present, f"row_number() {use.over()}", f"{PLACE} >= {count}")


def condition(use: SeriesUse) -> str:
    sign = use.others[0]
    if not isinstance(sign, str) or sign.upper() not in SIGNS:
        raise unknown(f"{use.function} with {sign!r}")
    return f"({real(use.x)} {SIGNS[sign.upper()]} {float(use.number(1))!r})"


def held(use: SeriesUse, value: str) -> str:
    return f"CASE WHEN {use.x.sql} IS NULL THEN NULL WHEN {condition(use)} THEN {value} ELSE -1 END"


def statecount(use: SeriesUse) -> Series:
    """Values since the condition last failed, -1 where it fails; `_place` counts the failures so far."""
    place = f"count(*) FILTER (NOT {condition(use)}) {use.so_far}"
    run = f"PARTITION BY {', '.join([*use.keys, PLACE])} ORDER BY {', '.join(use.order)} ROWS UNBOUNDED PRECEDING"
    return Series(f"CAST({held(use, f'count(*) FILTER ({condition(use)}) OVER ({run})')} AS BIGINT)", BIGINT, None, place)


def stateduration(use: SeriesUse) -> Series:
    """Time since the first value of the run for which the condition holds, in whole units."""
    place = f"count(*) FILTER (NOT {condition(use)}) {use.so_far}"
    run = f"PARTITION BY {', '.join([*use.keys, PLACE])} ORDER BY {', '.join(use.order)} ROWS UNBOUNDED PRECEDING"
    began = f"min({use.order[0]}) FILTER ({condition(use)}) OVER ({run})"
    return Series(f"CAST({held(use, f'({use.order[0]} - {began}) // {use.ticks(2)}')} AS BIGINT)", BIGINT, None, place)


def extremes(direction: str) -> Callable[[SeriesUse], Series]:
    """So many rows with the greatest or least values; the earlier of equal ones."""

    def build(use: SeriesUse) -> Series:
        place = f"row_number() {use.over(f'{use.x.sql} {direction}, ' + ', '.join(use.order))}"
        return Series(use.x.sql, use.x.type or BIGINT, use.present, place, f"{PLACE} <= {int(use.number(0))}", f"-{PLACE}")

    return build


def tail(use: SeriesUse) -> Series:
    """The last rows, the latest first; an offset leaves out the latest."""
    count, offset = int(use.number(0)), int(use.number(1, 0))
    place = f"row_number() {use.over(', '.join([f'{use.order[0]} DESC', *use.order[1:]]))}"
    return Series(use.x.sql, use.x.type or BIGINT, None, place, f"{PLACE} > {offset} AND {PLACE} <= {offset + count}", PLACE)


def unique(use: SeriesUse) -> Series:
    """The first row of each value."""
    partition = ", ".join([*use.keys, use.x.sql])
    place = f"row_number() OVER (PARTITION BY {partition} ORDER BY {', '.join(use.order)})"
    return Series(use.x.sql, use.x.type or BIGINT, None, place, f"{PLACE} = 1")


SERIES: Final[dict[str, Callable[[SeriesUse], Series]]] = {
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
