"""Functions of one row in the TDengine language, in a table by name."""

from __future__ import annotations

from typing import Final

from headrace.model.time import Precision
from headrace.model.types import BIGINT, DOUBLE, SIGNED, TIMESTAMP, VARCHAR, DataType, TypeKind
from headrace.verify.expressions import Arguments, Rule
from headrace.verify.steps import floor_to
from headrace.verify.tdengine.conversions import decimal_arithmetic, to_bigint, to_double, to_text, unify
from headrace.verify.tdengine.decimals import exact_truncation
from headrace.verify.values import Value, constant, duck_type, floored_mod, unsupported
from headrace.verify.zones import Clock


def _finite(sql: str) -> Value:
    """Return a DOUBLE, NULL if the argument is outside the function's domain."""
    return Value(f"(CASE WHEN isfinite({sql}) THEN {sql} END)", DOUBLE)


def _math(sql: str) -> Rule:
    return lambda use: _finite(sql.format(*map(to_double, use.values)))


def _of_text(sql: str) -> Rule:
    return lambda use: Value(sql.format(*map(to_text, use.values)), _text_type(use))


def _measure(sql: str) -> Rule:
    return lambda use: Value(f"CAST({sql.format(*map(to_text, use.values))} AS BIGINT)", BIGINT)


def _text_type(use: Arguments) -> DataType:
    return DataType(TypeKind.NCHAR) if any(value.is_kind(TypeKind.NCHAR) for value in use.values) else VARCHAR


def _exact(value: Value) -> str:
    """Return a DECIMAL as it is, and other numbers as DOUBLE."""
    return value.sql if value.is_kind(TypeKind.DECIMAL) else to_double(value)


def _same_type(sql: str) -> Rule:
    def rule(use: Arguments) -> Value:
        value = use.values[0]
        type_ = value.type or DOUBLE
        number = f"CAST({value.sql} AS HUGEINT)" if type_.is_integer else _exact(value)
        result = f"CAST({sql.format(number)} AS {duck_type(type_)})"
        if type_.kind in SIGNED:
            # The least integer has no opposite in its type.
            result = f"coalesce(TRY_CAST({sql.format(number)} AS {duck_type(type_)}), {value.sql})"
        return Value(result, type_)

    return rule


def _integral(sql: str) -> Rule:
    """Return the rule of a function that rounds fractions; integers stay as they are, other types are kept."""

    def rule(use: Arguments) -> Value:
        value = use.values[0]
        if value.type is not None and (value.type.is_integer or value.is_kind(TypeKind.BOOL)):
            return value
        type_ = value.type or DOUBLE
        return Value(f"CAST({sql.format(_exact(value))} AS {duck_type(type_)})", type_)

    return rule


def _mod(use: Arguments) -> Value:
    if any(value.is_kind(TypeKind.DECIMAL) for value in use.values):
        return decimal_arithmetic("%", *use.values)
    return Value(f"({to_double(use.values[0])} % nullif({to_double(use.values[1])}, 0))", DOUBLE)


def _round(use: Arguments) -> Value:
    if len(use.values) > 1 and use.whole_number(1):
        raise unsupported("round to digits, which depends on how numbers are written")
    return _integral("round({0})")(use)


def _truncate(use: Arguments) -> Value:
    if use.values[0].is_kind(TypeKind.DECIMAL):
        return exact_truncation(use.values[0], use.whole_number(1))
    scale = f"CAST({10.0 ** use.whole_number(1)!r} AS DOUBLE)"
    return _integral(f"(CASE WHEN isfinite({{0}} * {scale}) THEN trunc({{0}} * {scale}) / {scale} ELSE {{0}} END)")(use)


def _log(use: Arguments) -> Value:
    base = f" / ln({to_double(use.values[1])})" if len(use.values) > 1 else ""
    return _finite(f"ln({to_double(use.values[0])}){base}")


def _extreme(function: str) -> Rule:
    def rule(use: Arguments) -> Value:
        type_, converted = unify(use.values)
        any_null = " OR ".join(f"{sql} IS NULL" for sql in converted) or "true"
        return Value(f"(CASE WHEN NOT ({any_null}) THEN {function}({', '.join(converted) or 'NULL'}) END)", type_ or DOUBLE)

    return rule


def _concat(use: Arguments) -> Value:
    return Value("(" + " || ".join(map(to_text, use.values)) + ")", _text_type(use))


def _concat_with_separator(use: Arguments) -> Value:
    separator, *texts = map(to_text, use.values)
    text_list = ", ".join(texts)
    return Value(f"(CASE WHEN coalesce({text_list}) IS NOT NULL THEN concat_ws({separator}, {text_list}) END)", _text_type(use))


def _substring(use: Arguments) -> Value:
    """Compile `substr(text, position[, length])`: positions count from 1, negative ones from the end; 0 gives an empty text."""
    position = use.whole_number(1)
    value = to_text(use.values[0])
    if position == 0:
        return Value(f"(CASE WHEN {value} IS NOT NULL THEN '' END)", _text_type(use))
    if position < 0 and len(use.values) > 2:
        raise unsupported(f"{use.call.function} from the end with a length")
    start = str(position) if position > 0 else f"greatest(length({value}) + 1 - {-position}, 1)"
    length = f", greatest({to_bigint(use.values[2])}, 0)" if len(use.values) > 2 else ""
    return Value(f"substr({value}, {start}{length})", _text_type(use))


def _trim(use: Arguments) -> Value:
    if len(use.values) > 1:
        raise unsupported(f"{use.call.function} of other characters")
    return _of_text("trim({0}, ' ')")(use)


def _byte_length(use: Arguments) -> Value:
    value = use.values[0]
    if value.is_kind(TypeKind.NCHAR):
        return Value(f"CAST(4 * length({value.sql}) AS BIGINT)", BIGINT)
    return Value(f"CAST({'octet_length' if value.is_kind(TypeKind.VARBINARY) else 'strlen'}({value.sql}) AS BIGINT)", BIGINT)


def _repeat(use: Arguments) -> Value:
    return Value(f"repeat({to_text(use.values[0])}, greatest({to_bigint(use.values[1])}, 0))", _text_type(use))


def _ticks(use: Arguments, position: int = 0) -> str:
    value = use.values[position]
    if value.is_text:
        raise unsupported(f"{use.call.function} of text")
    return to_bigint(value)


def _time_difference(use: Arguments) -> Value:
    unit = use.duration(2)
    divisor = unit.ticks(use.compiler.precision) if unit else 1
    return Value(f"(({_ticks(use, 0)} - {_ticks(use, 1)}) // {divisor})", BIGINT)


def _truncate_time(use: Arguments) -> Value:
    """Compile TIMETRUNCATE; days and longer units follow the wall clock unless the third argument is 0."""
    unit = use.duration(1)
    if unit is None or unit.count != 1:
        raise unsupported(f"timetruncate to {unit}")
    zoned = len(use.values) < 3 or use.whole_number(2) != 0
    clock = Clock(use.compiler.timezone if zoned and unit.unit in "dwny" else "UTC", use.compiler.precision)
    wall = clock.wall(_ticks(use))
    if not unit.is_calendar:
        return Value(clock.instant(floor_to(wall, max(unit.ticks(use.compiler.precision), 1))), TIMESTAMP)
    name = "month" if unit.unit == "n" else "year"
    start = clock.ticks(f"epoch_us(CAST(date_trunc('{name}', {clock.timestamp(wall)}) AS TIMESTAMP))")
    return Value(clock.instant(start), TIMESTAMP)


def _clock_field(sql: str) -> Rule:
    def rule(use: Arguments) -> Value:
        clock = Clock(use.compiler.timezone, use.compiler.precision)
        return Value(f"CAST({sql.format(clock.timestamp(clock.wall(_ticks(use))))} AS BIGINT)", BIGINT)

    return rule


def _to_iso8601(use: Arguments) -> Value:
    precision = use.compiler.precision
    if len(use.values) > 1 or precision is Precision.NANOSECOND:
        raise unsupported("to_iso8601 with a zone, or of nanoseconds")
    ticks, clock = _ticks(use), Clock(use.compiler.timezone, precision)
    wall = clock.wall(ticks)
    minutes = f"(({wall} - {ticks}) // {precision.ticks_per_second * 60})"
    sign = f"CASE WHEN {minutes} < 0 THEN '-' ELSE '+' END"
    hours, rest = (f"lpad(CAST(abs({minutes}) {part} AS VARCHAR), 2, '0')" for part in ("// 60", "% 60"))
    digits = 3 if precision is Precision.MILLISECOND else 6
    fraction = f"lpad(CAST({floored_mod(wall, precision.ticks_per_second)} AS VARCHAR), {digits}, '0')"
    text = f"strftime({clock.timestamp(wall)}, '%Y-%m-%dT%H:%M:%S.') || {fraction} || (({sign}) || {hours} || {rest})"
    return Value(f"({text})", VARCHAR)


FUNCTIONS: Final[dict[str, Rule]] = {
    **{
        name: _math(f"{name}({{0}})") for name in ("acos", "asin", "atan", "cos", "degrees", "exp", "radians", "sin", "sqrt", "tan")
    },
    **dict.fromkeys(("pow", "power"), _math("pow({0}, {1})")),
    **dict.fromkeys(("ln", "log"), _log),
    **dict.fromkeys(("trunc", "truncate"), _truncate),
    **dict.fromkeys(("substr", "substring"), _substring),
    **{name: _same_type(f"{name}({{0}})") for name in ("abs", "sign")},
    **{name: _integral(f"{name}({{0}})") for name in ("ceil", "floor")},
    **{name: _of_text(f"{name}({{0}})") for name in ("lower", "upper")},
    **{name: _of_text(f"{name}({{0}}, ' ')") for name in ("ltrim", "rtrim")},
    **{name: _extreme(name) for name in ("greatest", "least")},
    # The first byte in UTF-8.
    "ascii": _measure("CASE WHEN {0} = '' THEN 0 ELSE CAST('0x' || left(hex(encode({0})), 2) AS BIGINT) END"),
    "char_length": _measure("length({0})"),
    "concat": _concat,
    "concat_ws": _concat_with_separator,
    "dayofweek": _clock_field("dayofweek({0}) + 1"),
    "length": _byte_length,
    "mod": _mod,
    "pi": lambda _: Value("pi()", DOUBLE),
    "position": _measure("instr({1}, {0})"),
    "repeat": _repeat,
    "replace": _of_text("replace({0}, {1}, {2})"),
    "round": _round,
    "timediff": _time_difference,
    "timetruncate": _truncate_time,
    "timezone": lambda use: constant(use.compiler.timezone),
    "to_iso8601": _to_iso8601,
    "trim": _trim,
    "weekday": _clock_field("isodow({0}) - 1"),
    "weekofyear": _clock_field("weekofyear({0})"),
}
