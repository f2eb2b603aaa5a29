"""TDengine's functions of neighbors in one table, as `headrace.compute.functions.series` declares them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.compute.functions.aggregates import ANY, MEASURED, NUMERIC, ORDERED, Given
from headrace.compute.functions.series import SeriesFunction, SeriesRule
from headrace.compute.windows.numbering import BEFORE, SO_FAR
from headrace.errors import LimitError, TypeMismatchError
from headrace.model.types import BIGINT, DOUBLE, DataType, TypeKind

PRESENT: Final = "{x} IS NOT NULL"
COMPARED: Final = {"LT": "<", "GT": ">", "LE": "<=", "GE": ">=", "NE": "<>", "EQ": "="}


def summed(type_: DataType) -> DataType:
    """Integers and instants give BIGINT, everything else DOUBLE."""
    return BIGINT if type_.is_integer or type_.kind is TypeKind.TIMESTAMP else DOUBLE


def as_type(type_: DataType) -> str:
    return f"CAST({{x}} AS {type_.kind.value})"


def unbounded(type_: DataType) -> str:
    """The argument as what can be summed and subtracted without leaving a range."""
    return "CAST({x} AS DECIMAL(20, 0))" if summed(type_) == BIGINT else as_type(DOUBLE)


def fitting(sql: str, type_: DataType) -> str:
    """A sum or difference as BIGINT, NULL if it is invalid, or as it is."""
    return f"try_cast({sql} AS BIGINT)" if type_ == BIGINT else sql


def whole(given: Given, place: int, least: int, most: int) -> int:
    """A constant whole number within limits."""
    value = given.number(place)
    if value != int(value) or not least <= value <= most:
        raise LimitError(f"argument {place + 2} of {given.function} must be from {least} to {most}, not {value}")
    return int(value)


def difference(given: Given) -> SeriesRule:
    """From the last value before; option 1 leaves out negative ones, 2 rows without a value, 3 both."""
    option = whole(given, 0, 0, 3) if given.constants else 0
    type_ = summed(given.type)
    x = unbounded(given.type)
    value = fitting(f"{x} - last({x}, true) OVER ({{over}} {BEFORE})", type_)
    keep = "{first} > 1" + (" AND coalesce({value} >= 0, true)" if option & 1 else "")
    return SeriesRule(type_, value, "row_number() OVER ({over})", PRESENT if option & 2 else None, keep)


def derivative(given: Given) -> SeriesRule:
    """Change by unit of time from the last value before; with option 1 negative ones are left out."""
    unit, positive = given.duration(0), whole(given, 1, 0, 1) if len(given.constants) > 1 else 0
    change = "CAST({x} AS DOUBLE) - lag(CAST({x} AS DOUBLE)) OVER ({over})"
    units = f"nullif(({{t}} - lag({{t}}) OVER ({{over}})) / {float(unit)!r}D, 0D)"
    keep = "{value} >= 0" if positive else "{value} IS NOT NULL"
    return SeriesRule(DOUBLE, f"({change}) / {units}", before=PRESENT, keep=keep)


def running_sum(given: Given) -> SeriesRule:
    """Where it leaves the range of BIGINT it is NULL, and a value again where it comes back."""
    type_ = summed(given.type)
    return SeriesRule(type_, fitting(f"sum({unbounded(given.type)}) OVER ({{over}} {SO_FAR})", type_), before=PRESENT)


def moving_average(given: Given) -> SeriesRule:
    """Of so many values; there is none before so many have come."""
    count = whole(given, 0, 1, 1000)
    frame = f"ROWS BETWEEN {count - 1} PRECEDING AND CURRENT ROW"
    mean = f"avg(CAST({{x}} AS DOUBLE)) OVER ({{over}} {frame})"
    return SeriesRule(DOUBLE, mean, "row_number() OVER ({over})", PRESENT, f"{{first}} >= {count}")


def condition(given: Given) -> str:
    sign, value = given.words(0).upper(), given.number(1)
    if sign not in COMPARED:
        raise TypeMismatchError(f"{given.function} knows {', '.join(COMPARED)}, not {sign!r}")
    return f"(CAST({{x}} AS DOUBLE) {COMPARED[sign]} {float(value)!r}D)"


def state_count(given: Given) -> SeriesRule:
    """How many rows in a row satisfy a condition; -1 where it does not hold."""
    holds = condition(given)
    broken = f"coalesce(max(if(NOT {holds}, {{first}}, NULL)) OVER ({{over}} {SO_FAR}), 0L)"
    value = f"CASE WHEN {{x}} IS NULL THEN NULL WHEN {holds} THEN {{first}} - {broken} ELSE -1L END"
    return SeriesRule(BIGINT, value, f"count({{x}}) OVER ({{over}} {SO_FAR})")


def state_duration(given: Given) -> SeriesRule:
    """For how long a condition has held, in whole units; -1 where it does not hold."""
    holds = condition(given)
    unit = given.duration(2) if len(given.constants) > 2 else 1
    began = f"max(if({holds} AND NOT {{first}}, {{t}}, NULL)) OVER ({{over}} {SO_FAR})"
    value = f"CASE WHEN {{x}} IS NULL THEN NULL WHEN {holds} THEN ({{t}} - {began}) div {unit}L ELSE -1L END"
    return SeriesRule(BIGINT, value, f"coalesce(last({holds}, true) OVER ({{over}} {BEFORE}), false)")


def extremes(direction: str) -> Callable[[Given], SeriesRule]:
    """The rows with the greatest or least values; the farthest of them comes last."""

    def rule(given: Given) -> SeriesRule:
        count = whole(given, 0, 1, 100)
        place = f"row_number() OVER (PARTITION BY {{keys}} ORDER BY {{x}} {direction}, {{ties}})"
        return SeriesRule(given.type, "{x}", place, PRESENT, f"{{first}} <= {count}", "-{first}")

    return rule


def tail(given: Given) -> SeriesRule:
    """The last rows, the latest first; an offset leaves out the latest."""
    count, offset = whole(given, 0, 1, 100), whole(given, 1, 0, 100) if len(given.constants) > 1 else 0
    place = "row_number() OVER (PARTITION BY {keys} ORDER BY {t} DESC, {ties})"
    return SeriesRule(given.type, "{x}", place, None, f"{{first}} > {offset} AND {{first}} <= {offset + count}", "{first}")


def unique(given: Given) -> SeriesRule:
    """The first row of each value."""
    return SeriesRule(given.type, "{x}", "row_number() OVER (PARTITION BY {keys}, {x} ORDER BY {ties})", None, "{first} = 1")


def sample(given: Given) -> SeriesRule:
    """So many rows, chosen by a hash: at random, but the same each time."""
    count = whole(given, 0, 1, 1000)
    place = "row_number() OVER (PARTITION BY {keys} ORDER BY xxhash64({ties}), {ties})"
    return SeriesRule(given.type, "{x}", place, PRESENT, f"{{first}} <= {count}")


SERIES_TABLE: Final = (
    SeriesFunction("bottom", ORDERED, extremes("ASC"), "the y rows (1 to 100) with the least values, the least last", 2, 2),
    SeriesFunction("csum", NUMERIC, running_sum, "sum so far; rows without a value are left out"),
    SeriesFunction(
        "derivative",
        NUMERIC,
        derivative,
        "change from the value before, by the time y such as `1s`; with z = 1 negative changes are left out",
        2,
        3,
    ),
    SeriesFunction(
        "diff",
        MEASURED | {TypeKind.BOOL},
        difference,
        "difference from the value before; y = 1 leaves out negative ones, 2 rows without a value, 3 both",
        1,
        2,
    ),
    SeriesFunction("mavg", NUMERIC, moving_average, "mean of the last y values (1 to 1000); no row before there are so many", 2, 2),
    SeriesFunction("sample", ANY, sample, "y rows (1 to 1000) at random, each time the same", 2, 2),
    SeriesFunction(
        "statecount",
        NUMERIC,
        state_count,
        "for how many rows `x y z` has held, -1 where it does not; y is one of `'LT' 'GT' 'LE' 'GE' 'NE' 'EQ'`",
        3,
        3,
    ),
    SeriesFunction(
        "stateduration",
        NUMERIC,
        state_duration,
        "for how long `x y z` has held, in whole units u (of one tick by default), -1 where it does not",
        3,
        4,
    ),
    SeriesFunction("tail", ANY, tail, "the last y rows (1 to 100), the latest first; z latest ones are left out", 2, 3),
    SeriesFunction("top", ORDERED, extremes("DESC"), "the y rows (1 to 100) with the greatest values, the greatest last", 2, 2),
    SeriesFunction("unique", ANY, unique, "first row of each value; NULL is one"),
)
