"""Functions of instants and days over Arrow arrays, with the values that Spark's have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import TIMESTAMP, Numbers, Values, by_array, by_row, refuse
from headrace.compute.nodes import UnsupportedError
from headrace.model import instants
from headrace.model.calendar_windows import add_months, first_days, months_of
from headrace.model.remembering import remembered
from headrace.model.zones import ZoneClock, zone_clock

SECOND: Final = 1_000_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_MOVED: Final = 2**62
MAX_DAYS: Final = 2_932_896
MIN_DAYS: Final = -719_162
"""The days of the years 1 to 9999; in texts, Spark writes others with a sign."""


def to_ticks(microseconds: int) -> Callable[[Values], Values]:
    """Return the conversion of timestamps to ticks, rounding down."""
    return by_array(lambda values: values // microseconds, pa.int64())


def to_timestamp(microseconds: int) -> Callable[[Values], Values]:
    """Return the conversion of ticks to timestamps."""
    return lambda values: pc.cast(pc.multiply_checked(pc.cast(values, pa.int64()), microseconds), TIMESTAMP)


def zone_function(convert: Callable[[ZoneClock, Numbers], Numbers]) -> Callable[[Values, Values], Values]:
    """Return the conversion between instants and what the clock of a constant zone shows."""

    def apply(values: Values, zone: Values) -> Values:
        name = str(zone.as_py()) if isinstance(zone, pa.Scalar) and zone.is_valid else ""
        refuse(instants.find_zone(name) is None, "a zone that Spark judges")
        clock = zone_clock(name)
        refuse(pc.greater_equal(pc.abs_checked(pc.cast(values, pa.int64())), MAX_MOVED), "an instant at the end of time")
        moved = by_array(lambda times: convert(clock, times // SECOND) * SECOND + times % SECOND, pa.int64())(values)
        return pc.cast(moved, TIMESTAMP)

    return apply


def thousandths(values: Numbers) -> Numbers:
    # Spark divides as DOUBLE.
    whole: Numbers = np.floor(values.astype(np.float64) / 1000).astype(np.int64)
    return whole


def week_of_year(days: Numbers) -> Numbers:
    """Return the week of ISO 8601: that of the year that has its Thursday."""
    thursday = days.astype(np.int64) - (days + 3) % 7 + 3
    return np.asarray((thursday - first_days(months_of(thursday) // 12 * 12)) // 7 + 1)


def make_date(year: Values, month: Values, day: Values) -> Values:
    found = by_array(lambda y, m, d: first_days((y.astype(np.int64) - 1970) * 12 + m - 1) + d - 1, pa.int64())(year, month, day)
    is_plain = pc.and_(pc.and_(pc.equal(day, 1), pc.greater_equal(month, 1)), pc.less_equal(month, 12))
    refuse(pc.invert(pc.and_(is_plain, pc.less(pc.abs(year), 10_000))), "a date")
    return pc.cast(pc.cast(found, pa.int32()), pa.date32())


def date_function(function: Callable[..., Numbers]) -> Callable[..., Values]:
    """Return the kernel of a function of days that gives days."""
    days = by_array(lambda *values: function(*(part.astype(np.int64) for part in values)), pa.int64())
    return lambda *values: pc.cast(pc.cast(days(*values), pa.int32()), pa.date32())


def of_days(function: Callable[[Numbers], Numbers]) -> Callable[[Values], Values]:
    return by_array(lambda days: function(days.astype(np.int64)), pa.int32())


def check_written(days: int) -> None:
    refuse(not MIN_DAYS <= days <= MAX_DAYS, "a year that is written with a sign")


def format_date(days: int, pattern: str) -> str:
    return format_wall(days * 86_400 * SECOND, pattern)


def format_wall(micros: int, pattern: str) -> str:
    """Return what a clock shows by a pattern of Java."""
    check_written(micros // (86_400 * SECOND))
    wall = EPOCH + timedelta(microseconds=micros)
    return "".join(FORMATS[token](wall) if token in FORMATS else literal for token, literal in tokens(pattern))


@remembered(1_000)
def tokens(pattern: str) -> tuple[tuple[str, str], ...]:
    """Return each part of a pattern of Java as a token or, with an empty one, as literal text."""
    return tuple(split_pattern(pattern))


def split_pattern(pattern: str) -> Iterator[tuple[str, str]]:
    for part in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']", pattern):
        text = part[0]
        if text[0] == "'":
            yield "", part[1].replace("''", "'") or "'"
        elif text[0].isascii() and text[0].isalpha():
            refuse(text not in FORMATS, f"the format {text}")
            yield text, ""
        else:
            yield "", text


def fraction(count: int, wall: datetime) -> str:
    return f"{wall.microsecond:06}000"[:count]


DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
FORMATS: Final[dict[str, Callable[[datetime], str]]] = {
    "yyyy": lambda wall: f"{wall.year:04}",
    "yy": lambda wall: f"{wall.year % 100:02}",
    "MM": lambda wall: f"{wall.month:02}",
    "MMM": lambda wall: MONTHS[wall.month - 1][:3],
    "MMMM": lambda wall: MONTHS[wall.month - 1],
    "dd": lambda wall: f"{wall.day:02}",
    "DDD": lambda wall: f"{wall.timetuple().tm_yday:03}",
    "EEE": lambda wall: DAYS[wall.weekday()][:3],
    "EEEE": lambda wall: DAYS[wall.weekday()],
    "HH": lambda wall: f"{wall.hour:02}",
    "hh": lambda wall: f"{wall.hour % 12 or 12:02}",
    "mm": lambda wall: f"{wall.minute:02}",
    "ss": lambda wall: f"{wall.second:02}",
    **{"S" * count: partial(fraction, count) for count in range(1, 10)},
    "a": lambda wall: "AM" if wall.hour < 12 else "PM",
}
INSTANT: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?)?(Z|[+-]\d{2}:\d{2})?", re.ASCII
)
NUMBER: Final = re.compile(r"[\x00-\x20]*(?:[+-]?[0-9]|T)")
"""What a text begins with that Spark may read as a timestamp."""
PARSED: Final = {"yyyy": r"(?P<year>\d{4})", "MM": r"(?P<month>\d{2})", "dd": r"(?P<day>\d{2})", "HH": r"(?P<hour>\d{2})"} | {
    "mm": r"(?P<minute>\d{2})",
    "ss": r"(?P<second>\d{2})",
    "SSS": r"(?P<millisecond>\d{3})",
}


def parse_instant(text: str, zone: str) -> int | None:
    """Return the microseconds of a text, in a zone unless it names an offset. Raise `UnsupportedError` for unusual texts."""
    match = INSTANT.fullmatch(text)
    if match is None and text.isascii() and not NUMBER.match(text):
        return None
    nanoseconds = None if match is None or (match[8] and not match[4]) else instants.nanoseconds(text, zone if match[8] else "UTC")
    if nanoseconds is None or match is None or text.startswith("0000"):
        raise UnsupportedError("a text that is no usual timestamp")
    micros = nanoseconds // 1000
    if match[8]:
        return micros
    return int(zone_clock(zone).instants(np.array([micros // SECOND]))[0]) * SECOND + micros % SECOND


@remembered(1_000)
def parser(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the expressions of the usual texts of a pattern, and of all that Java may read."""
    parts = [PARSED.get(token) if token else re.escape(literal) for token, literal in tokens(pattern)]
    refuse(None in parts or PARSED["yyyy"] not in parts, pattern)
    usual = "".join(part for part in parts if part is not None)
    return re.compile(usual, re.ASCII), re.compile(usual.replace(r"\d{4}", r"[+-]?\d{4,}"), re.IGNORECASE)


def parse_wall(text: str, pattern: str) -> int | None:
    """Return the microseconds that a text shows by a pattern of Java. Raise `UnsupportedError` for unusual texts."""
    usual, readable = parser(pattern)
    match = usual.fullmatch(text)
    refuse(match is None and readable.fullmatch(text), "a text that Java judges")
    if match is None:
        return None
    numbers = {name: int(value) for name, value in match.groupdict().items()}
    micros = 1000 * numbers.pop("millisecond", 0)
    try:
        wall = datetime(**({"month": 1, "day": 1} | numbers), tzinfo=UTC) - EPOCH
    except ValueError:
        return None
    return (wall.days * 86_400 + wall.seconds) * SECOND + micros


def date_format(dates: Values, pattern: Values) -> Values:
    return by_row(format_date, pa.string())(pc.cast(dates, pa.int32()), pattern)


TIME_FUNCTIONS: Final[dict[str, tuple[str, Callable[..., Values]]]] = {
    "unix_millis": ("T", to_ticks(1000)),
    "unix_micros": ("T", to_ticks(1)),
    "timestamp_millis": ("l", to_timestamp(1000)),
    "timestamp_micros": ("l", to_timestamp(1)),
    "from_utc_timestamp": ("Tt", zone_function(ZoneClock.wall)),
    "to_utc_timestamp": ("Tt", zone_function(ZoneClock.instants)),
    "thousandths": ("l", by_array(thousandths, pa.int64())),
    "date_from_unix_date": ("i", lambda days: pc.cast(days, pa.date32())),
    "unix_date": ("D", lambda dates: pc.cast(dates, pa.int32())),
    "year": ("D", of_days(lambda days: months_of(days) // 12 + 1970)),
    "month": ("D", of_days(lambda days: months_of(days) % 12 + 1)),
    "weekday": ("D", of_days(lambda days: (days + 3) % 7)),
    "dayofweek": ("D", of_days(lambda days: (days + 4) % 7 + 1)),
    "weekofyear": ("D", of_days(week_of_year)),
    "add_months": ("Di", date_function(add_months)),
    "make_date": ("i", make_date),
    "date_format": ("Dt", date_format),
    "format_wall": ("Tt", lambda times, pattern: by_row(format_wall, pa.string())(pc.cast(times, pa.int64()), pattern)),
    "parse_instant": ("t", by_row(parse_instant, pa.int64())),
    "parse_wall": ("t", by_row(parse_wall, pa.int64())),
}
"""The types of the operands (see `OPERANDS`) and the kernel of each function."""
