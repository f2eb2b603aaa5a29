"""TDengine's series functions, as a table of declarations (see `headrace.compute.functions.series`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.compute.functions.aggregates import ANY, MEASURED, NUMERIC, ORDERED, AggregateArguments
from headrace.compute.functions.series import SeriesFunction, SeriesRule
from headrace.compute.windows.numbering import BEFORE_CURRENT_ROW, THROUGH_CURRENT_ROW
from headrace.errors import LimitError, TypeMismatchError
from headrace.model.types import BIGINT, DOUBLE, DataType, TypeKind

PRESENT: Final = "{x} IS NOT NULL"
COMPARED: Final = {"LT": "<", "GT": ">", "LE": "<=", "GE": ">=", "NE": "<>", "EQ": "="}


def sum_type(type_: DataType) -> DataType:
    """Return the type of sums and differences: BIGINT for integers and instants, DOUBLE for everything else."""
    return BIGINT if type_.is_integer or type_.kind is TypeKind.TIMESTAMP else DOUBLE


def as_type(type_: DataType) -> str:
    """Return the argument cast to a type."""
    return f"CAST({{x}} AS {type_.kind.value})"


def unbounded(type_: DataType) -> str:
    """Return the argument in a type in which sums and differences cannot overflow."""
    return "CAST({x} AS DECIMAL(20, 0))" if sum_type(type_) == BIGINT else as_type(DOUBLE)


def fit_type(sql: str, type_: DataType) -> str:
    """Cast a sum or difference to BIGINT, NULL if out of range. DOUBLE stays as it is."""
    return f"try_cast({sql} AS BIGINT)" if type_ == BIGINT else sql


def whole_number(arguments: AggregateArguments, index: int, minimum: int, maximum: int) -> int:
    """Return a constant whole number in a range, or raise `LimitError`."""
    value = arguments.number(index)
    if value != int(value) or not minimum <= value <= maximum:
        raise LimitError(f"argument {index + 2} of {arguments.function} must be from {minimum} to {maximum}, not {value}")
    return int(value)


def difference(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `diff`. Option 1 omits negative differences, 2 omits rows without a value, 3 both."""
    option = whole_number(arguments, 0, 0, 3) if arguments.constants else 0
    type_ = sum_type(arguments.type)
    x = unbounded(arguments.type)
    value = fit_type(f"{x} - last({x}, true) OVER ({{over}} {BEFORE_CURRENT_ROW})", type_)
    keep = "{first} > 1" + (" AND coalesce({value} >= 0, true)" if option & 1 else "")
    return SeriesRule(type_, value, "row_number() OVER ({over})", PRESENT if option & 2 else None, keep)


def derivative(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `derivative`: change per unit of time. Option 1 omits negative values."""
    unit, positive = arguments.duration(0), whole_number(arguments, 1, 0, 1) if len(arguments.constants) > 1 else 0
    change = "CAST({x} AS DOUBLE) - lag(CAST({x} AS DOUBLE)) OVER ({over})"
    units = f"nullif(({{t}} - lag({{t}}) OVER ({{over}})) / {float(unit)!r}D, 0D)"
    keep = "{value} >= 0" if positive else "{value} IS NOT NULL"
    return SeriesRule(DOUBLE, f"({change}) / {units}", before=PRESENT, keep=keep)


def running_sum(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `csum`, NULL while the sum is out of the range of BIGINT."""
    type_ = sum_type(arguments.type)
    return SeriesRule(
        type_, fit_type(f"sum({unbounded(arguments.type)}) OVER ({{over}} {THROUGH_CURRENT_ROW})", type_), before=PRESENT
    )


def moving_average(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `mavg`, which omits rows until there are enough values."""
    count = whole_number(arguments, 0, 1, 1000)
    frame = f"ROWS BETWEEN {count - 1} PRECEDING AND CURRENT ROW"
    mean = f"avg(CAST({{x}} AS DOUBLE)) OVER ({{over}} {frame})"
    return SeriesRule(DOUBLE, mean, "row_number() OVER ({over})", PRESENT, f"{{first}} >= {count}")


def condition(arguments: AggregateArguments) -> str:
    """Return the condition of `statecount` and `stateduration` as Spark SQL."""
    sign, value = arguments.string(0).upper(), arguments.number(1)
    if sign not in COMPARED:
        raise TypeMismatchError(f"{arguments.function} takes {', '.join(COMPARED)}, not {sign!r}")
    return f"(CAST({{x}} AS DOUBLE) {COMPARED[sign]} {float(value)!r}D)"


def state_count(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `statecount`: for how many consecutive rows a condition holds, -1 if it does not."""
    holds = condition(arguments)
    last_failure = f"coalesce(max(if(NOT {holds}, {{first}}, NULL)) OVER ({{over}} {THROUGH_CURRENT_ROW}), 0L)"
    value = f"CASE WHEN {{x}} IS NULL THEN NULL WHEN {holds} THEN {{first}} - {last_failure} ELSE -1L END"
    return SeriesRule(BIGINT, value, f"count({{x}}) OVER ({{over}} {THROUGH_CURRENT_ROW})")


def state_duration(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `stateduration`: for how long a condition has held, in whole units, -1 if it does not."""
    holds = condition(arguments)
    unit = arguments.duration(2) if len(arguments.constants) > 2 else 1
    began = f"max(if({holds} AND NOT {{first}}, {{t}}, NULL)) OVER ({{over}} {THROUGH_CURRENT_ROW})"
    value = f"CASE WHEN {{x}} IS NULL THEN NULL WHEN {holds} THEN ({{t}} - {began}) div {unit}L ELSE -1L END"
    return SeriesRule(BIGINT, value, f"coalesce(last({holds}, true) OVER ({{over}} {BEFORE_CURRENT_ROW}), false)")


def extremes(direction: str) -> Callable[[AggregateArguments], SeriesRule]:
    """Return the rule of `top` and `bottom`. The most extreme row comes last."""

    def rule(arguments: AggregateArguments) -> SeriesRule:
        count = whole_number(arguments, 0, 1, 100)
        rank = f"row_number() OVER (PARTITION BY {{keys}} ORDER BY {{x}} {direction}, {{ties}})"
        return SeriesRule(arguments.type, "{x}", rank, PRESENT, f"{{first}} <= {count}", "-{first}")

    return rule


def tail(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `tail`: the last rows, latest first. An offset omits the latest."""
    count, offset = whole_number(arguments, 0, 1, 100), whole_number(arguments, 1, 0, 100) if len(arguments.constants) > 1 else 0
    rank = "row_number() OVER (PARTITION BY {keys} ORDER BY {t} DESC, {ties})"
    return SeriesRule(arguments.type, "{x}", rank, None, f"{{first}} > {offset} AND {{first}} <= {offset + count}", "{first}")


def unique(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `unique`: the first row of each value."""
    return SeriesRule(arguments.type, "{x}", "row_number() OVER (PARTITION BY {keys}, {x} ORDER BY {ties})", None, "{first} = 1")


def sample(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `sample`: pseudo-random rows chosen by a hash, the same each time."""
    count = whole_number(arguments, 0, 1, 1000)
    rank = "row_number() OVER (PARTITION BY {keys} ORDER BY xxhash64({ties}), {ties})"
    return SeriesRule(arguments.type, "{x}", rank, PRESENT, f"{{first}} <= {count}")


SERIES_TABLE: Final = (
    SeriesFunction("bottom", ORDERED, extremes("ASC"), "the y rows (1 to 100) with the smallest values, the smallest last", 2, 2),
    SeriesFunction("csum", NUMERIC, running_sum, "cumulative sum; rows with NULL are omitted"),
    SeriesFunction(
        "derivative",
        NUMERIC,
        derivative,
        "change from the previous value, per time unit y such as `1s`; z = 1 omits negative changes",
        2,
        3,
    ),
    SeriesFunction(
        "diff",
        MEASURED | {TypeKind.BOOL},
        difference,
        "difference from the previous value; y = 1 omits negative differences, 2 omits rows with NULL, 3 omits both",
        1,
        2,
    ),
    SeriesFunction(
        "mavg",
        NUMERIC,
        moving_average,
        "moving average of the last y values (1 to 1000); rows before the y-th value are omitted",
        2,
        2,
    ),
    SeriesFunction("sample", ANY, sample, "y random rows (1 to 1000), the same ones each time", 2, 2),
    SeriesFunction(
        "statecount",
        NUMERIC,
        state_count,
        "number of consecutive rows for which `x y z` is true, or -1 if it is false; y is one of `'LT' 'GT' 'LE' 'GE' 'NE' 'EQ'`",
        3,
        3,
    ),
    SeriesFunction(
        "stateduration",
        NUMERIC,
        state_duration,
        "duration for which `x y z` has been true, in whole units u (default: one tick), or -1 if it is false",
        3,
        4,
    ),
    SeriesFunction("tail", ANY, tail, "the last y rows (1 to 100), latest first; skips the z latest rows", 2, 3),
    SeriesFunction("top", ORDERED, extremes("DESC"), "the y rows (1 to 100) with the largest values, the largest last", 2, 2),
    SeriesFunction("unique", ANY, unique, "first row of each distinct value, including NULL"),
)
