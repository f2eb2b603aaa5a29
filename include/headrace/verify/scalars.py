"""Functions of one row in DuckDB, in one table by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.model.time import Duration, Precision
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, VARCHAR, DataType, TypeKind
from headrace.verify import values
from headrace.verify.values import Value, floored, real, text, unknown, whole
from headrace.verify.zones import Clock, floor_to


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a function is called with; `durations` holds arguments that are written as such."""

    function: str
    given: tuple[Value, ...]
    durations: tuple[Duration | None, ...]
    precision: Precision
    timezone: str

    def number(self, place: int) -> int:
        found = self.given[place].constant
        if not isinstance(found, int) or isinstance(found, bool):
            raise unknown(f"{self.function} with an argument {place + 1} that is no constant whole number")
        return found

    def instant(self, place: int = 0) -> str:
        """An argument as ticks."""
        found = self.given[place]
        if found.is_text:
            raise unknown(f"{self.function} of text")
        return whole(found)

    @property
    def clock(self) -> Clock:
        return Clock(self.timezone, self.precision)


Build = Callable[[Arguments], Value]


def finite(sql: str) -> Value:
    """A DOUBLE, NULL where a function is out of its domain."""
    return Value(f"(CASE WHEN isfinite({sql}) THEN {sql} END)", DOUBLE)


def mathematical(sql: str) -> Build:
    return lambda given: finite(sql.format(*(real(value) for value in given.given)))


def keeping(sql: str) -> Build:
    """The result has the argument's type."""

    def build(given: Arguments) -> Value:
        value = given.given[0]
        type_ = value.type or DOUBLE
        if type_.is_integer:
            return Value(f"CAST({sql.format(f'CAST({value.sql} AS HUGEINT)')} AS {values.duck_type(type_)})", type_)
        return Value(f"CAST({sql.format(real(value))} AS {values.duck_type(type_)})", type_)

    return build


def integral(given: Arguments, sql: str) -> Value:
    """Makes fractions whole; whole numbers stay, FLOAT and DOUBLE keep their type."""
    value = given.given[0]
    if value.type is not None and (value.type.is_integer or value.type.kind is TypeKind.BOOL):
        return value
    type_ = value.type or DOUBLE
    return Value(f"CAST({sql.format(real(value))} AS {values.duck_type(type_)})", type_)


def rounded(given: Arguments) -> Value:
    digits = given.number(1) if len(given.given) > 1 else 0
    if digits:
        raise unknown("round to digits, which depends on how numbers are written")
    return integral(given, "round({0})")


def truncated(given: Arguments) -> Value:
    scale = repr(10.0 ** given.number(1))
    return integral(given, f"trunc({{0}} * CAST({scale} AS DOUBLE)) / CAST({scale} AS DOUBLE)")


def logarithm(given: Arguments) -> Value:
    base = f" / ln({real(given.given[1])})" if len(given.given) > 1 else ""
    return finite(f"ln({real(given.given[0])}){base}")


def modulo(given: Arguments) -> Value:
    return Value(f"({real(given.given[0])} % nullif({real(given.given[1])}, 0))", DOUBLE)


def extreme(function: str) -> Build:
    """`greatest` and `least`: NULL where an argument is."""

    def build(given: Arguments) -> Value:
        type_ = values.common([value.type for value in given.given]) or DOUBLE
        shown = [values.converted(value, type_) for value in given.given]
        missing = " OR ".join(f"{each} IS NULL" for each in shown)
        return Value(f"(CASE WHEN NOT ({missing}) THEN {function}({', '.join(shown)}) END)", type_)

    return build


def text_type(given: Arguments) -> DataType:
    return DataType(TypeKind.NCHAR) if any(value.of_kind(TypeKind.NCHAR) for value in given.given) else VARCHAR


def textual(sql: str) -> Build:
    return lambda given: Value(sql.format(*(text(value) for value in given.given)), text_type(given))


def measured(sql: str) -> Build:
    return lambda given: Value(f"CAST({sql.format(*(text(value) for value in given.given))} AS BIGINT)", BIGINT)


def concatenated(given: Arguments) -> Value:
    return Value("(" + " || ".join(text(value) for value in given.given) + ")", text_type(given))


def joined(given: Arguments) -> Value:
    mark, *others = (text(value) for value in given.given)
    shown = ", ".join(others)
    return Value(f"(CASE WHEN coalesce({shown}) IS NOT NULL THEN concat_ws({mark}, {shown}) END)", text_type(given))


def part(given: Arguments) -> Value:
    """`substr(text, position[, length])` of a constant position: from 1, from the end where it is negative, nothing of 0."""
    at = given.number(1)
    value = text(given.given[0])
    if at == 0:
        return Value(f"(CASE WHEN {value} IS NOT NULL THEN '' END)", text_type(given))
    if at < 0 and len(given.given) > 2:
        raise unknown(f"{given.function} from the end with a length")
    start = str(at) if at > 0 else f"greatest(length({value}) + 1 - {-at}, 1)"
    length = f", greatest({whole(given.given[2])}, 0)" if len(given.given) > 2 else ""
    return Value(f"substr({value}, {start}{length})", text_type(given))


def byte_length(given: Arguments) -> Value:
    value = given.given[0]
    return Value(f"CAST({'octet_length' if value.of_kind(TypeKind.VARBINARY) else 'strlen'}({value.sql}) AS BIGINT)", BIGINT)


def first_byte(given: Arguments) -> Value:
    """The first byte in UTF-8, 0 of empty text."""
    value = text(given.given[0])
    byte = f"CAST('0x' || left(hex(encode({value})), 2) AS BIGINT)"
    return Value(f"(CASE WHEN {value} = '' THEN 0 ELSE {byte} END)", BIGINT)


def repeated(given: Arguments) -> Value:
    return Value(f"repeat({text(given.given[0])}, greatest({whole(given.given[1])}, 0))", text_type(given))


def difference(given: Arguments) -> Value:
    """Whole units, fractions cut off."""
    unit = given.durations[2].ticks(given.precision) if len(given.given) > 2 and given.durations[2] else 1
    return Value(f"(({given.instant(0)} - {given.instant(1)}) // {unit})", BIGINT)


def truncated_time(given: Arguments) -> Value:
    """The start of the unit: of days and longer by the wall clock, unless the third argument is 0."""
    unit = given.durations[1]
    if unit is None or unit.count != 1:
        raise unknown(f"timetruncate to {unit}")
    zoned = len(given.given) < 3 or given.number(2) != 0
    clock = Clock(given.timezone if zoned and unit.unit in "dwny" else "UTC", given.precision)
    here = clock.wall(given.instant())
    if not unit.is_calendar:
        return Value(clock.instant(floor_to(here, max(unit.ticks(given.precision), 1))), TIMESTAMP)
    word = "month" if unit.unit == "n" else "year"
    start = clock.ticks(f"epoch_us(CAST(date_trunc('{word}', {clock.timestamp(here)}) AS TIMESTAMP))")
    return Value(clock.instant(start), TIMESTAMP)


def of_clock(sql: str) -> Build:
    """A whole number read off the wall clock."""

    def build(given: Arguments) -> Value:
        clock = given.clock
        return Value(f"CAST({sql.format(clock.timestamp(clock.wall(given.instant())))} AS BIGINT)", BIGINT)

    return build


def iso(given: Arguments) -> Value:
    """ISO 8601 with the fraction of the database's precision and the zone's offset."""
    if len(given.given) > 1 or given.precision is Precision.NANOSECOND:
        raise unknown("to_iso8601 with a zone, or of nanoseconds")
    at, clock = given.instant(), given.clock
    here = clock.wall(at)
    minute = given.precision.ticks_per_second * 60
    minutes = f"(({here} - {at}) // {minute})"
    sign = f"CASE WHEN {minutes} < 0 THEN '-' ELSE '+' END"
    offset = (
        f"({sign}) || lpad(CAST(abs({minutes}) // 60 AS VARCHAR), 2, '0') || lpad(CAST(abs({minutes}) % 60 AS VARCHAR), 2, '0')"
    )
    digits = 3 if given.precision is Precision.MILLISECOND else 6
    fraction = f"lpad(CAST({floored(here, given.precision.ticks_per_second)} AS VARCHAR), {digits}, '0')"
    return Value(f"(strftime({clock.timestamp(here)}, '%Y-%m-%dT%H:%M:%S.') || {fraction} || {offset})", VARCHAR)


def zone_name(given: Arguments) -> Value:
    return values.constant(given.timezone)


SCALARS: Final[dict[str, Build]] = {
    "abs": keeping("abs({0})"),
    "acos": mathematical("acos({0})"),
    "ascii": first_byte,
    "asin": mathematical("asin({0})"),
    "atan": mathematical("atan({0})"),
    "ceil": lambda given: integral(given, "ceil({0})"),
    "char_length": measured("length({0})"),
    "concat": concatenated,
    "concat_ws": joined,
    "cos": mathematical("cos({0})"),
    "dayofweek": of_clock("dayofweek({0}) + 1"),
    "degrees": mathematical("degrees({0})"),
    "exp": mathematical("exp({0})"),
    "floor": lambda given: integral(given, "floor({0})"),
    "greatest": extreme("greatest"),
    "least": extreme("least"),
    "length": byte_length,
    "ln": logarithm,
    "log": logarithm,
    "lower": textual("lower({0})"),
    "ltrim": textual("ltrim({0}, ' ')"),
    "mod": modulo,
    "pi": lambda _: Value("pi()", DOUBLE),
    "position": measured("instr({1}, {0})"),
    "pow": mathematical("pow({0}, {1})"),
    "power": mathematical("pow({0}, {1})"),
    "radians": mathematical("radians({0})"),
    "repeat": repeated,
    "replace": textual("replace({0}, {1}, {2})"),
    "round": rounded,
    "rtrim": textual("rtrim({0}, ' ')"),
    "sign": keeping("sign({0})"),
    "sin": mathematical("sin({0})"),
    "sqrt": mathematical("sqrt({0})"),
    "substr": part,
    "substring": part,
    "tan": mathematical("tan({0})"),
    "timediff": difference,
    "timetruncate": truncated_time,
    "timezone": zone_name,
    "to_iso8601": iso,
    "trim": lambda given: textual("trim({0}, ' ')")(given) if len(given.given) == 1 else trimmed_otherwise(given),
    "trunc": truncated,
    "truncate": truncated,
    "upper": textual("upper({0})"),
    "weekday": of_clock("isodow({0}) - 1"),
    "weekofyear": of_clock("weekofyear({0})"),
}


def trimmed_otherwise(given: Arguments) -> Value:
    raise unknown(f"{given.function} of other characters")
