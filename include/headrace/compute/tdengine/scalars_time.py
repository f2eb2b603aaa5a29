"""TDengine's single-row functions of time, in the zone of the statement, with their formats and weeks."""

from __future__ import annotations

import re
from typing import Final

from headrace.compute import calendar
from headrace.compute.functions.scalars import Build, ScalarArguments, ScalarFunction
from headrace.compute.instants import is_utc, load_zone
from headrace.compute.nodes import NULL, Node, bigint, call, case, if_, integer, string
from headrace.compute.tdengine.operators import timestamp
from headrace.compute.terms import Term, instant_literal, to_string
from headrace.compute.types import is_text
from headrace.errors import LimitError, TypeMismatchError
from headrace.model.instants import parse_instant
from headrace.model.time import Precision
from headrace.model.types import BIGINT, TIMESTAMP, VARCHAR

TOKENS: Final = {
    "hh24": "HH",
    "hh12": "hh",
    "hh": "hh",
    "yyyy": "yyyy",
    "yyy": "yyyy",
    "yy": "yy",
    "month": "MMMM",
    "mon": "MMM",
    "mm": "MM",
    "mi": "mm",
    "ms": "SSS",
    "us": "SSSSSS",
    "ns": "SSSSSSSSS",
    "ss": "ss",
    "day": "EEEE",
    "ddd": "DDD",
    "dy": "EEE",
    "dd": "dd",
    "am": "a",
    "pm": "a",
    "a.m.": "a",
    "p.m.": "a",
}
_TOKEN: Final = re.compile(
    "|".join([r'"(?P<quoted>[^"]*)"', *(re.escape(token) for token in sorted(TOKENS, key=len, reverse=True))]), re.IGNORECASE
)


def java_pattern(format_: str) -> str:
    """Translate the tokens of a format. Everything else is literal text."""
    parts, end = [], 0
    for match in _TOKEN.finditer(format_):
        parts.append(quote_text(format_[end : match.start()]))
        literal = match["quoted"]
        parts.append(quote_text(literal) if literal is not None else TOKENS[match[0].lower()])
        end = match.end()
    return "".join([*parts, quote_text(format_[end:])])


def quote_text(text: str) -> str:
    """Quote literal text. Punctuation needs no quotes."""
    if not any(character.isalpha() or character in "'[]{}#" for character in text):
        return text
    return "'" + text.replace("'", "''") + "'"


def week_sql(date: Node, mode: int) -> Node:
    """Return the week of a date.

    The bits of the mode:

    - 0: weeks begin on Monday instead of Sunday.
    - 1: weeks count from 1 to 53, so that the first days of a year may be in the last week of the year before, instead of from 0.
    - 2 (inverted if weeks begin on Sunday): the first week begins with its first weekday, instead of having at least 4 days.
    """
    monday, week_year = bool(mode & 1), bool(mode & 2)
    by_weekday = bool(mode & 4) == monday
    year = call("year", date)
    own = week_number(date, year, monday, by_weekday)
    if not week_year:
        return call("greatest", own, integer(0)).cast("bigint")
    last = week_number(date, year - integer(1), monday, by_weekday)
    following = week_number(date, year + integer(1), monday, by_weekday)
    return case([(own < integer(1), last), (following >= integer(1), integer(1))], own).cast("bigint")


def week_number(date: Node, year: Node, monday: bool, by_weekday: bool) -> Node:
    """Return the number of the week counted from the first week of a year, which is 1. Before it, 0 or less."""
    january = call("make_date", year, integer(1), integer(1))
    weekday = call("weekday", january) if monday else call("dayofweek", january) - integer(1)
    is_late = call("<>", weekday, integer(0)) if by_weekday else weekday >= integer(4)
    first = call("unix_date", january) - weekday + if_(is_late, integer(7), integer(0))
    return (call("floor", (call("unix_date", date) - first) / integer(7)) + integer(1)).cast("int")


DIGITS: Final = {Precision.MILLISECOND: 3, Precision.MICROSECOND: 6, Precision.NANOSECOND: 9}
ZONE: Final = re.compile(r"[zZ]|[+-]\d{2}(:?\d{2})?")


def instant_argument(arguments: ScalarArguments, index: int = 0) -> Node:
    """Return an argument as ticks: a timestamp, a number of ticks, or text."""
    term = arguments.terms[index]
    if term.type is not None and is_text(term.type) and term.constant is None:
        return arguments.expression_context.text_to_ticks(term.node)
    return timestamp(term, arguments.expression_context.timezone, arguments.expression_context.precision).node


def truncate_time(arguments: ScalarArguments) -> Term:
    """Build `timetruncate(ts, unit[, zoned])`: the start of the unit.

    Days and longer units start in the statement's zone unless `zoned` is 0.
    """
    unit, precision = arguments.duration(1), arguments.expression_context.precision
    if unit.count != 1:
        raise LimitError(f"timetruncate takes one unit such as 1m, not {unit}")
    at = instant_argument(arguments)
    zoned = len(arguments.terms) < 3 or arguments.integer(2) != 0
    name = arguments.expression_context.timezone if zoned and unit.unit in "dwny" else "UTC"
    wall = calendar.to_local(at, name, precision)
    if unit.is_calendar:
        month = calendar.months(wall, precision)
        month = month if unit.unit == "n" else month - call("pmod", month, bigint(12))
        return Term(calendar.to_utc(calendar.month_start(month, precision), name, precision), TIMESTAMP)
    step = unit.ticks(precision)
    start = calendar.to_utc(wall - call("pmod", wall, bigint(step)), name, precision) if step > 1 else at
    return Term(start, TIMESTAMP)


def difference(arguments: ScalarArguments) -> Term:
    """Build `timediff(a, b[, unit])`: whole units from b to a, fractions truncated."""
    unit = arguments.duration(2) if len(arguments.terms) > 2 else None
    if unit is not None and unit.is_calendar:
        raise LimitError(f"timediff: {unit} has no fixed length", hint="use weeks, days or shorter units")
    step = 1 if unit is None else unit.ticks(arguments.expression_context.precision)
    if step < 1:
        raise LimitError(f"timediff: {unit} is shorter than the tick of the database")
    end, start = instant_argument(arguments), instant_argument(arguments, 1)
    return Term(call("div", end - start, bigint(step)), BIGINT)


def to_unixtimestamp(arguments: ScalarArguments) -> Term:
    type_ = TIMESTAMP if len(arguments.terms) > 1 and arguments.integer(1) else BIGINT
    value = arguments.terms[0].constant_value
    arguments.text(0)
    if isinstance(value, str):
        instant = parse_instant(value, arguments.expression_context.timezone, arguments.expression_context.precision)
        if instant is None:
            return Term(NULL.cast("bigint"), type_)
        return Term(bigint(instant), type_, instant_literal(instant).constant)
    return Term(arguments.expression_context.text_to_ticks(arguments.text(0)), type_)


def to_iso8601(arguments: ScalarArguments) -> Term:
    """Build `to_iso8601(ts[, zone])`. The zone is Z, +hh, +hhmm or +hh:mm, and appears in the result as written."""
    at, expression_context = instant_argument(arguments), arguments.expression_context
    name, offset = expression_context.timezone, ""
    if len(arguments.terms) > 1:
        offset = arguments.string(1)
        if not ZONE.fullmatch(offset):
            raise TypeMismatchError(f"to_iso8601 does not take the time zone {offset!r}", hint="write Z, +08, +0800 or +08:00")
        name = "UTC" if offset in "zZ" else offset if ":" in offset else f"{offset[:3]}:{offset[3:] or '00'}"
    pattern = f"yyyy-MM-dd'T'HH:mm:ss.{'S' * min(DIGITS[expression_context.precision], 6)}"
    local_text = expression_context.format_instant(at, pattern, name)
    if expression_context.precision is Precision.NANOSECOND:
        local_text = call("concat", local_text, digits_of(call("pmod", at, bigint(1000)), 3))
    return Term(call("concat", local_text, string(offset) if offset else offset_text(at, arguments)), VARCHAR)


def digits_of(number: Node, count: int) -> Node:
    return call("lpad", number.cast("string"), integer(count), string("0"))


def offset_text(at: Node, arguments: ScalarArguments) -> Node:
    """Return the offset of the statement's zone at an instant, such as +0800."""
    expression_context = arguments.expression_context
    if is_utc(expression_context.timezone):
        return string("+0000")
    minute = expression_context.precision.ticks_per_second * 60
    minutes = call("div", expression_context.local(at) - at, bigint(minute))
    parts = [digits_of(call(sign, call("abs", minutes), integer(60)), 2) for sign in ("div", "%")]
    return call("concat", if_(minutes < integer(0), string("-"), string("+")), *parts)


def to_char(arguments: ScalarArguments) -> Term:
    return Term(
        arguments.expression_context.format_instant(instant_argument(arguments), java_pattern(arguments.string(1))), VARCHAR
    )


def to_timestamp(arguments: ScalarArguments) -> Term:
    """Build `to_timestamp(text, format)`, NULL if the text is invalid."""
    expression_context, pattern = arguments.expression_context, string(java_pattern(arguments.string(1)))
    wall = call("timestamp_micros", call("parse_wall", to_string(arguments.terms[0]), pattern))
    micros = call("unix_micros", call("to_utc_timestamp", wall, string(expression_context.timezone)))
    return Term(expression_context.from_micros(micros), TIMESTAMP)


def date_function(function: str) -> Build:
    return lambda arguments: Term(
        call(function, arguments.expression_context.date(instant_argument(arguments))).cast("bigint"), BIGINT
    )


def week(arguments: ScalarArguments) -> Term:
    mode = arguments.integer(1) if len(arguments.terms) > 1 else 0
    if not 0 <= mode <= 7:
        raise LimitError(f"week takes a mode from 0 to 7, not {mode}")
    return Term(week_sql(arguments.expression_context.date(instant_argument(arguments)), mode), BIGINT)


def timezone(arguments: ScalarArguments) -> Term:
    load_zone(arguments.expression_context.timezone)
    return Term(string(arguments.expression_context.timezone), VARCHAR)


TIME_TABLE: Final = (
    ScalarFunction("dayofweek", 1, 1, date_function("dayofweek"), "day of the week; Sunday is 1"),
    ScalarFunction("timediff", 2, 3, difference, "time from y to x in units z (default: one tick), truncated", unit=2),
    ScalarFunction(
        *(
            "timetruncate",
            2,
            3,
            truncate_time,
            "x truncated to the unit y; days and longer units follow the time zone, unless z is 0",
        ),
        unit=1,
    ),
    ScalarFunction("timezone", 0, 0, timezone, "name of the time zone"),
    ScalarFunction("to_char", 2, 2, to_char, "timestamp as text in the format y"),
    ScalarFunction("to_iso8601", 1, 2, to_iso8601, "timestamp as ISO 8601 text, in the time zone y (`Z`, `+02:00`)"),
    ScalarFunction("to_timestamp", 2, 2, to_timestamp, "text in the format y as a timestamp; NULL if it is invalid"),
    ScalarFunction("to_unixtimestamp", 1, 2, to_unixtimestamp, "ISO 8601 text as ticks since 1970, or with y = 1 as a timestamp"),
    ScalarFunction("week", 1, 2, week, "week of the year; y is a mode from 0 to 7, as in MySQL"),
    ScalarFunction("weekday", 1, 1, date_function("weekday"), "day of the week; Monday is 0"),
    ScalarFunction("weekofyear", 1, 1, date_function("weekofyear"), "ISO week of the year"),
)
