"""Scalar functions in DuckDB SQL, in a table by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.model.time import Duration, Precision
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, VARCHAR, DataType, TypeKind
from headrace.verify import values
from headrace.verify.values import Value, floored_mod, to_bigint, to_double, to_text, unsupported
from headrace.verify.zones import Clock, floor_to


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a function call; `durations` holds those written as durations."""

    function: str
    args: tuple[Value, ...]
    durations: tuple[Duration | None, ...]
    precision: Precision
    timezone: str

    def number(self, position: int) -> int:
        """Return the argument at a position, which must be a constant integer."""
        value = self.args[position].constant
        if not isinstance(value, int) or isinstance(value, bool):
            raise unsupported(f"{self.function} with an argument {position + 1} that is not a constant integer")
        return value

    def instant(self, position: int = 0) -> str:
        """Return an argument as ticks."""
        value = self.args[position]
        if value.is_text:
            raise unsupported(f"{self.function} of text")
        return to_bigint(value)

    @property
    def clock(self) -> Clock:
        """The wall clock of the query's time zone."""
        return Clock(self.timezone, self.precision)


Builder = Callable[[Arguments], Value]


def finite(sql: str) -> Value:
    """Return a DOUBLE, NULL if the argument is outside the function's domain."""
    return Value(f"(CASE WHEN isfinite({sql}) THEN {sql} END)", DOUBLE)


def math_function(sql: str) -> Builder:
    """Return a builder that formats the arguments as DOUBLE into `sql`."""
    return lambda call: finite(sql.format(*(to_double(value) for value in call.args)))


def type_preserving(sql: str) -> Builder:
    """Return a builder whose result has the type of its argument."""

    def build(call: Arguments) -> Value:
        value = call.args[0]
        type_ = value.type or DOUBLE
        if type_.is_integer:
            return Value(f"CAST({sql.format(f'CAST({value.sql} AS HUGEINT)')} AS {values.duck_type(type_)})", type_)
        return Value(f"CAST({sql.format(to_double(value))} AS {values.duck_type(type_)})", type_)

    return build


def integral(call: Arguments, sql: str) -> Value:
    """Round a fraction by `sql`; integers stay as they are, FLOAT and DOUBLE keep their type."""
    value = call.args[0]
    if value.type is not None and (value.type.is_integer or value.type.kind is TypeKind.BOOL):
        return value
    type_ = value.type or DOUBLE
    return Value(f"CAST({sql.format(to_double(value))} AS {values.duck_type(type_)})", type_)


def round_number(call: Arguments) -> Value:
    """Compile ROUND."""
    digits = call.number(1) if len(call.args) > 1 else 0
    if digits:
        raise unsupported("round to digits, which depends on how numbers are written")
    return integral(call, "round({0})")


def truncate(call: Arguments) -> Value:
    """Compile TRUNCATE."""
    scale = repr(10.0 ** call.number(1))
    return integral(call, f"trunc({{0}} * CAST({scale} AS DOUBLE)) / CAST({scale} AS DOUBLE)")


def logarithm(call: Arguments) -> Value:
    """Compile LOG, natural without a base."""
    base = f" / ln({to_double(call.args[1])})" if len(call.args) > 1 else ""
    return finite(f"ln({to_double(call.args[0])}){base}")


def modulo(call: Arguments) -> Value:
    """Compile MOD, NULL if the divisor is 0."""
    return Value(f"({to_double(call.args[0])} % nullif({to_double(call.args[1])}, 0))", DOUBLE)


def extreme(function: str) -> Builder:
    """Return the builder of `greatest` or `least`, NULL if an argument is."""

    def build(call: Arguments) -> Value:
        type_ = values.common_type([value.type for value in call.args]) or DOUBLE
        converted = [values.convert(value, type_) for value in call.args]
        any_null = " OR ".join(f"{sql} IS NULL" for sql in converted)
        return Value(f"(CASE WHEN NOT ({any_null}) THEN {function}({', '.join(converted)}) END)", type_)

    return build


def text_type(call: Arguments) -> DataType:
    """Return NCHAR if an argument has that type, else VARCHAR."""
    return DataType(TypeKind.NCHAR) if any(value.is_kind(TypeKind.NCHAR) for value in call.args) else VARCHAR


def text_function(sql: str) -> Builder:
    """Return a builder that formats the arguments as text into `sql`."""
    return lambda call: Value(sql.format(*(to_text(value) for value in call.args)), text_type(call))


def text_measure(sql: str) -> Builder:
    """Return a builder of an integer that measures text."""
    return lambda call: Value(f"CAST({sql.format(*(to_text(value) for value in call.args))} AS BIGINT)", BIGINT)


def concat(call: Arguments) -> Value:
    """Compile CONCAT."""
    return Value("(" + " || ".join(to_text(value) for value in call.args) + ")", text_type(call))


def concat_with_separator(call: Arguments) -> Value:
    """Compile CONCAT_WS."""
    separator, *texts = (to_text(value) for value in call.args)
    text_list = ", ".join(texts)
    return Value(f"(CASE WHEN coalesce({text_list}) IS NOT NULL THEN concat_ws({separator}, {text_list}) END)", text_type(call))


def substring(call: Arguments) -> Value:
    """Compile `substr(to_text, position[, length])` with a constant position.

    Positions count from 1, negative ones from the end; 0 gives an empty text.
    """
    position = call.number(1)
    value = to_text(call.args[0])
    if position == 0:
        return Value(f"(CASE WHEN {value} IS NOT NULL THEN '' END)", text_type(call))
    if position < 0 and len(call.args) > 2:
        raise unsupported(f"{call.function} from the end with a length")
    start = str(position) if position > 0 else f"greatest(length({value}) + 1 - {-position}, 1)"
    length = f", greatest({to_bigint(call.args[2])}, 0)" if len(call.args) > 2 else ""
    return Value(f"substr({value}, {start}{length})", text_type(call))


def byte_length(call: Arguments) -> Value:
    """Compile LENGTH, in bytes."""
    value = call.args[0]
    return Value(f"CAST({'octet_length' if value.is_kind(TypeKind.VARBINARY) else 'strlen'}({value.sql}) AS BIGINT)", BIGINT)


def first_byte(call: Arguments) -> Value:
    """Compile ASCII: the first byte in UTF-8, 0 for empty text."""
    value = to_text(call.args[0])
    byte = f"CAST('0x' || left(hex(encode({value})), 2) AS BIGINT)"
    return Value(f"(CASE WHEN {value} = '' THEN 0 ELSE {byte} END)", BIGINT)


def repeat_text(call: Arguments) -> Value:
    """Compile REPEAT."""
    return Value(f"repeat({to_text(call.args[0])}, greatest({to_bigint(call.args[1])}, 0))", text_type(call))


def time_difference(call: Arguments) -> Value:
    """Compile TIMEDIFF, in whole units, fractions truncated."""
    unit = call.durations[2].ticks(call.precision) if len(call.args) > 2 and call.durations[2] else 1
    return Value(f"(({call.instant(0)} - {call.instant(1)}) // {unit})", BIGINT)


def truncate_time(call: Arguments) -> Value:
    """Compile TIMETRUNCATE; days and longer units follow the wall clock unless the third argument is 0."""
    unit = call.durations[1]
    if unit is None or unit.count != 1:
        raise unsupported(f"timetruncate to {unit}")
    zoned = len(call.args) < 3 or call.number(2) != 0
    clock = Clock(call.timezone if zoned and unit.unit in "dwny" else "UTC", call.precision)
    wall = clock.wall(call.instant())
    if not unit.is_calendar:
        return Value(clock.instant(floor_to(wall, max(unit.ticks(call.precision), 1))), TIMESTAMP)
    unit_name = "month" if unit.unit == "n" else "year"
    start = clock.ticks(f"epoch_us(CAST(date_trunc('{unit_name}', {clock.timestamp(wall)}) AS TIMESTAMP))")
    return Value(clock.instant(start), TIMESTAMP)


def clock_field(sql: str) -> Builder:
    """Return a builder of an integer that the wall clock shows."""

    def build(call: Arguments) -> Value:
        clock = call.clock
        return Value(f"CAST({sql.format(clock.timestamp(clock.wall(call.instant())))} AS BIGINT)", BIGINT)

    return build


def to_iso8601(call: Arguments) -> Value:
    """Compile TO_ISO8601, with the fraction of the database's precision and the zone's offset."""
    if len(call.args) > 1 or call.precision is Precision.NANOSECOND:
        raise unsupported("to_iso8601 with a zone, or of nanoseconds")
    ticks, clock = call.instant(), call.clock
    wall = clock.wall(ticks)
    minute = call.precision.ticks_per_second * 60
    minutes = f"(({wall} - {ticks}) // {minute})"
    sign = f"CASE WHEN {minutes} < 0 THEN '-' ELSE '+' END"
    offset = (
        f"({sign}) || lpad(CAST(abs({minutes}) // 60 AS VARCHAR), 2, '0') || lpad(CAST(abs({minutes}) % 60 AS VARCHAR), 2, '0')"
    )
    digits = 3 if call.precision is Precision.MILLISECOND else 6
    fraction = f"lpad(CAST({floored_mod(wall, call.precision.ticks_per_second)} AS VARCHAR), {digits}, '0')"
    return Value(f"(strftime({clock.timestamp(wall)}, '%Y-%m-%dT%H:%M:%S.') || {fraction} || {offset})", VARCHAR)


def zone_name(call: Arguments) -> Value:
    """Compile TIMEZONE."""
    return values.constant(call.timezone)


SCALARS: Final[dict[str, Builder]] = {
    "abs": type_preserving("abs({0})"),
    "acos": math_function("acos({0})"),
    "ascii": first_byte,
    "asin": math_function("asin({0})"),
    "atan": math_function("atan({0})"),
    "ceil": lambda call: integral(call, "ceil({0})"),
    "char_length": text_measure("length({0})"),
    "concat": concat,
    "concat_ws": concat_with_separator,
    "cos": math_function("cos({0})"),
    "dayofweek": clock_field("dayofweek({0}) + 1"),
    "degrees": math_function("degrees({0})"),
    "exp": math_function("exp({0})"),
    "floor": lambda call: integral(call, "floor({0})"),
    "greatest": extreme("greatest"),
    "least": extreme("least"),
    "length": byte_length,
    "ln": logarithm,
    "log": logarithm,
    "lower": text_function("lower({0})"),
    "ltrim": text_function("ltrim({0}, ' ')"),
    "mod": modulo,
    "pi": lambda _: Value("pi()", DOUBLE),
    "position": text_measure("instr({1}, {0})"),
    "pow": math_function("pow({0}, {1})"),
    "power": math_function("pow({0}, {1})"),
    "radians": math_function("radians({0})"),
    "repeat": repeat_text,
    "replace": text_function("replace({0}, {1}, {2})"),
    "round": round_number,
    "rtrim": text_function("rtrim({0}, ' ')"),
    "sign": type_preserving("sign({0})"),
    "sin": math_function("sin({0})"),
    "sqrt": math_function("sqrt({0})"),
    "substr": substring,
    "substring": substring,
    "tan": math_function("tan({0})"),
    "timediff": time_difference,
    "timetruncate": truncate_time,
    "timezone": zone_name,
    "to_iso8601": to_iso8601,
    "trim": lambda call: text_function("trim({0}, ' ')")(call) if len(call.args) == 1 else refuse_trim(call),
    "trunc": truncate,
    "truncate": truncate,
    "upper": text_function("upper({0})"),
    "weekday": clock_field("isodow({0}) - 1"),
    "weekofyear": clock_field("weekofyear({0})"),
}


def refuse_trim(call: Arguments) -> Value:
    """Refuse TRIM with more than one argument."""
    raise unsupported(f"{call.function} of other characters")
