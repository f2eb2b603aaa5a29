"""TDengine's series functions, as a table of declarations (see `headrace.compute.functions.series`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.compute.functions.aggregates import ANY, MEASURED, NUMERIC, ORDERED, AggregateArguments, T, X
from headrace.compute.functions.series import FIRST, VALUE, SeriesFunction, SeriesRule, over, value_before
from headrace.compute.nodes import FALSE, NULL, TRUE, Node, Over, bigint, both, call, case, double, if_, integer, negated
from headrace.compute.plan import KEYS, TIES
from headrace.compute.windows.numbering import THROUGH_CURRENT_ROW
from headrace.errors import LimitError, TypeMismatchError
from headrace.model.types import BIGINT, DOUBLE, DataType, TypeKind

PRESENT: Final = X.is_not_null()
LARGEST: Final = call("desc", X)
COMPARED: Final = {"LT": "<", "GT": ">", "LE": "<=", "GE": ">=", "NE": "<>", "EQ": "="}


def sum_type(type_: DataType) -> DataType:
    """Return the type of sums and differences: BIGINT for integers and instants, DOUBLE for everything else."""
    return BIGINT if type_.is_integer or type_.kind is TypeKind.TIMESTAMP else DOUBLE


def unbounded(type_: DataType) -> Node:
    """Return the argument in a type in which sums and differences cannot overflow."""
    return X.cast("decimal(20,0)" if sum_type(type_) == BIGINT else "double")


def fit_type(value: Node, type_: DataType) -> Node:
    """Cast a sum or difference to BIGINT, NULL if out of range. DOUBLE stays as it is."""
    return value.try_cast("bigint") if type_ == BIGINT else value


def whole_number(arguments: AggregateArguments, index: int, minimum: int, maximum: int) -> int:
    """Return a constant whole number in a range, or raise `LimitError`."""
    value = arguments.number(index)
    if value != int(value) or not minimum <= value <= maximum:
        raise LimitError(f"argument {index + 2} of {arguments.function} must be from {minimum} to {maximum}, not {value}")
    return int(value)


def difference(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `diff`. Option 1 omits negative differences, 2 omits rows without a value, 3 both."""
    option = whole_number(arguments, 0, 0, 3) if arguments.constants else 0
    type_, x = sum_type(arguments.type), unbounded(arguments.type)
    value = fit_type(x - value_before(x), type_)
    is_positive = call("coalesce", integer(0) <= VALUE, TRUE)
    keep = both(integer(1) < FIRST, *([is_positive] if option & 1 else []))
    return SeriesRule(type_, value, over("row_number"), PRESENT if option & 2 else None, keep)


def derivative(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `derivative`: change per unit of time. Option 1 omits negative values."""
    unit, positive = arguments.duration(0), whole_number(arguments, 1, 0, 1) if len(arguments.constants) > 1 else 0
    x = X.cast("double")
    units = call("nullif", (T - over("lag", T)) / double(unit), double(0))
    keep = integer(0) <= VALUE if positive else VALUE.is_not_null()
    return SeriesRule(DOUBLE, (x - over("lag", x)) / units, before=PRESENT, keep=keep)


def running_sum(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `csum`, NULL while the sum is out of the range of BIGINT."""
    type_ = sum_type(arguments.type)
    return SeriesRule(type_, fit_type(over("sum", unbounded(arguments.type), frame=THROUGH_CURRENT_ROW), type_), before=PRESENT)


def moving_average(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `mavg`, which omits rows until there are enough values."""
    count = whole_number(arguments, 0, 1, 1000)
    mean = over("avg", X.cast("double"), frame=f"ROWS BETWEEN {count - 1} PRECEDING AND CURRENT ROW")
    return SeriesRule(DOUBLE, mean, over("row_number"), PRESENT, integer(count) <= FIRST)


def condition(arguments: AggregateArguments) -> Node:
    """Return the condition of `statecount` and `stateduration`."""
    sign, value = arguments.string(0).upper(), arguments.number(1)
    if sign not in COMPARED:
        raise TypeMismatchError(f"{arguments.function} takes {', '.join(COMPARED)}, not {sign!r}")
    return call(COMPARED[sign], X.cast("double"), double(value))


def state_count(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `statecount`: for how many consecutive rows a condition holds, -1 if it does not."""
    holds = condition(arguments)
    failure = over("max", if_(negated(holds), FIRST, NULL), frame=THROUGH_CURRENT_ROW)
    value = case([(X.is_null(), NULL), (holds, FIRST - call("coalesce", failure, bigint(0)))], bigint(-1))
    return SeriesRule(BIGINT, value, over("count", X, frame=THROUGH_CURRENT_ROW))


def state_duration(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `stateduration`: for how long a condition has held, in whole units, -1 if it does not."""
    holds = condition(arguments)
    unit = arguments.duration(2) if len(arguments.constants) > 2 else 1
    began = over("max", if_(both(holds, negated(FIRST)), T, NULL), frame=THROUGH_CURRENT_ROW)
    value = case([(X.is_null(), NULL), (holds, call("div", T - began, bigint(unit)))], bigint(-1))
    return SeriesRule(BIGINT, value, call("coalesce", value_before(holds), FALSE))


def extremes(place: Node) -> Callable[[AggregateArguments], SeriesRule]:
    """Return the rule of `top` and `bottom`, whose rows are in the order of `place`. The most extreme row comes last."""

    def rule(arguments: AggregateArguments) -> SeriesRule:
        count = whole_number(arguments, 0, 1, 100)
        rank = Over(call("row_number"), (KEYS,), (place, TIES))
        return SeriesRule(arguments.type, X, rank, PRESENT, integer(count) >= FIRST, -FIRST)

    return rule


def tail(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `tail`: the last rows, latest first. An offset omits the latest."""
    count, offset = whole_number(arguments, 0, 1, 100), whole_number(arguments, 1, 0, 100) if len(arguments.constants) > 1 else 0
    rank = Over(call("row_number"), (KEYS,), (call("desc", T), TIES))
    return SeriesRule(arguments.type, X, rank, None, both(integer(offset) < FIRST, integer(offset + count) >= FIRST), FIRST)


def unique(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `unique`: the first row of each value."""
    return SeriesRule(arguments.type, X, Over(call("row_number"), (KEYS, X), (TIES,)), None, FIRST.equals(integer(1)))


def sample(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of `sample`: pseudo-random rows chosen by a hash, the same each time."""
    count = whole_number(arguments, 0, 1, 1000)
    rank = Over(call("row_number"), (KEYS,), (call("xxhash64", TIES), TIES))
    return SeriesRule(arguments.type, X, rank, PRESENT, integer(count) >= FIRST)


SERIES_TABLE: Final = (
    SeriesFunction("bottom", ORDERED, extremes(X), "the y rows (1 to 100) with the smallest values, the smallest last", 2, 2),
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
    SeriesFunction("top", ORDERED, extremes(LARGEST), "the y rows (1 to 100) with the largest values, the largest last", 2, 2),
    SeriesFunction("unique", ANY, unique, "first row of each distinct value, including NULL"),
)
