"""Single-row functions of time, in the zone of the statement."""

from __future__ import annotations

import re
from typing import Final

from headrace.compute import calendar
from headrace.compute.functions.scalars import Arguments, Build, ScalarFunction
from headrace.compute.instants import is_utc, zone
from headrace.compute.tdengine.operators import timestamp
from headrace.compute.tdengine.patterns import java_pattern
from headrace.compute.tdengine.weeks import week_sql
from headrace.compute.terms import Term, moment, string, text, ticks
from headrace.compute.types import is_text
from headrace.errors import LimitError, TypeMismatchError
from headrace.model.instants import parse_instant
from headrace.model.time import Precision
from headrace.model.types import BIGINT, TIMESTAMP, VARCHAR

DIGITS: Final = {Precision.MILLISECOND: 3, Precision.MICROSECOND: 6, Precision.NANOSECOND: 9}
ZONE: Final = re.compile(r"[zZ]|[+-]\d{2}(:?\d{2})?")


def moment_of(given: Arguments, place: int = 0) -> str:
    """The SQL of an argument as ticks: a timestamp, a number of ticks, or text."""
    term = given.terms[place]
    if term.type is not None and is_text(term.type) and term.constant is None:
        return given.expression_context.parsed(term.sql)
    return timestamp(term, given.expression_context.timezone, given.expression_context.precision).sql


def truncated(given: Arguments) -> Term:
    """`timetruncate(ts, unit[, zoned])`: the start of the unit; of days and more in the statement's zone unless `zoned` is 0."""
    unit, precision = given.duration(1), given.expression_context.precision
    if unit.count != 1:
        raise LimitError(f"timetruncate takes one unit such as 1m, not {unit}")
    at = moment_of(given)
    zoned = len(given.terms) < 3 or given.integer(2) != 0
    name = given.expression_context.timezone if zoned and unit.unit in "dwny" else "UTC"
    here = calendar.to_local(at, name, precision)
    if unit.is_calendar:
        month = calendar.months(here, precision)
        month = month if unit.unit == "n" else f"({month} - pmod({month}, 12L))"
        return Term(calendar.to_utc(calendar.month_start(month, precision), name, precision), TIMESTAMP)
    step = unit.ticks(precision)
    return Term(calendar.to_utc(f"({here} - pmod({here}, {ticks(step)}))", name, precision) if step > 1 else at, TIMESTAMP)


def difference(given: Arguments) -> Term:
    """`timediff(a, b[, unit])`: whole units from b to a, fractions cut off."""
    step = given.duration(2).ticks(given.expression_context.precision) if len(given.terms) > 2 else 1
    if step < 1:
        raise LimitError(f"timediff: {given.durations[2]} is shorter than the tick of the database")
    return Term(f"(({moment_of(given)} - {moment_of(given, 1)}) div {ticks(step)})", BIGINT)


def epoch(given: Arguments) -> Term:
    """`to_unixtimestamp(text[, as_timestamp])`."""
    type_ = TIMESTAMP if len(given.terms) > 1 and given.integer(1) else BIGINT
    value = given.terms[0].constant
    given.text(0)
    if value is not None and isinstance(value.value, str):
        found = parse_instant(value.value, given.expression_context.timezone, given.expression_context.precision)
        return Term("CAST(NULL AS BIGINT)", type_) if found is None else Term(ticks(found), type_, moment(found).constant)
    return Term(given.expression_context.parsed(given.text(0)), type_)


def iso(given: Arguments) -> Term:
    """`to_iso8601(ts[, zone])`: the zone is Z, +hh, +hhmm or +hh:mm, and is written as given."""
    at, expression_context = moment_of(given), given.expression_context
    name, shown = expression_context.timezone, ""
    if len(given.terms) > 1:
        shown = given.words(1)
        if not ZONE.fullmatch(shown):
            raise TypeMismatchError(f"{shown!r} is no time zone of to_iso8601", hint="write Z, +08, +0800 or +08:00")
        name = "UTC" if shown in "zZ" else shown if ":" in shown else f"{shown[:3]}:{shown[3:] or '00'}"
    pattern = f"yyyy-MM-dd'T'HH:mm:ss.{'S' * min(DIGITS[expression_context.precision], 6)}"
    written = expression_context.shown(at, pattern, name)
    if expression_context.precision is Precision.NANOSECOND:
        written = f"concat({written}, lpad(CAST(pmod({at}, 1000L) AS STRING), 3, '0'))"
    return Term(f"concat({written}, {text(shown) if shown else offset_text(at, given)})", VARCHAR)


def offset_text(at: str, given: Arguments) -> str:
    """The offset of the statement's zone at an instant, such as +0800."""
    expression_context = given.expression_context
    if is_utc(expression_context.timezone):
        return "'+0000'"
    minute = expression_context.precision.ticks_per_second * 60
    minutes = f"(({expression_context.local(at)} - {at}) div {minute}L)"
    parts = f"lpad(CAST(abs({minutes}) div 60 AS STRING), 2, '0'), lpad(CAST(abs({minutes}) % 60 AS STRING), 2, '0')"
    return f"concat(if({minutes} < 0, '-', '+'), {parts})"


def formatted(given: Arguments) -> Term:
    """`to_char(ts, format)`."""
    return Term(given.expression_context.shown(moment_of(given), java_pattern(given.words(1))), VARCHAR)


def scanned(given: Arguments) -> Term:
    """`to_timestamp(text, format)`; NULL if the text is invalid."""
    expression_context = given.expression_context
    read = f"try_to_timestamp({string(given.terms[0])}, {text(java_pattern(given.words(1)))})"
    wall = f"unix_micros(from_utc_timestamp({read}, current_timezone()))"
    return Term(
        expression_context.from_micros(
            f"unix_micros(to_utc_timestamp(timestamp_micros({wall}), {text(expression_context.timezone)}))"
        ),
        TIMESTAMP,
    )


def of_date(sql: str) -> Build:
    """A whole number read off the date."""
    return lambda given: Term(f"CAST({sql.format(d=given.expression_context.date(moment_of(given)))} AS BIGINT)", BIGINT)


def week(given: Arguments) -> Term:
    """`week(ts[, mode])`, modes 0 to 7."""
    mode = given.integer(1) if len(given.terms) > 1 else 0
    if not 0 <= mode <= 7:
        raise LimitError(f"week takes a mode from 0 to 7, not {mode}")
    return Term(week_sql(given.expression_context.date(moment_of(given)), mode), BIGINT)


def zone_name(given: Arguments) -> Term:
    zone(given.expression_context.timezone)
    return Term(text(given.expression_context.timezone), VARCHAR)


TIME_TABLE: Final = (
    ScalarFunction("dayofweek", 1, 1, of_date("dayofweek({d})"), "day of the week, Sunday is 1"),
    ScalarFunction("timediff", 2, 3, difference, "from y to x in whole units z (of one tick by default), fractions cut off"),
    ScalarFunction("timetruncate", 2, 3, truncated, "start of the unit y; days and longer in the time zone, unless z is 0"),
    ScalarFunction("timezone", 0, 0, zone_name, "name of the time zone"),
    ScalarFunction("to_char", 2, 2, formatted, "timestamp as text by the format y"),
    ScalarFunction("to_iso8601", 1, 2, iso, "timestamp as ISO 8601 text, in the zone y (`Z`, `+02:00`)"),
    ScalarFunction("to_timestamp", 2, 2, scanned, "text as timestamp by the format y; NULL if it is invalid"),
    ScalarFunction("to_unixtimestamp", 1, 2, epoch, "ISO 8601 text as ticks since 1970; with y = 1 as timestamp"),
    ScalarFunction("week", 1, 2, week, "week of the year; y from 0 to 7 says when weeks and the first one begin, as in MySQL"),
    ScalarFunction("weekday", 1, 1, of_date("weekday({d})"), "day of the week, Monday is 0"),
    ScalarFunction("weekofyear", 1, 1, of_date("weekofyear({d})"), "ISO week of the year"),
)
