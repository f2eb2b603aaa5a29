"""Calendar arithmetic on ticks as Spark SQL that does not depend on the session's time zone."""

from __future__ import annotations

from headrace.compute.instants import is_utc
from headrace.compute.terms import text
from headrace.model.time import Precision


def to_local(sql: str, zone: str, precision: Precision) -> str:
    """The wall clock of a zone at an instant, as ticks counted as if it were UTC."""
    return sql if is_utc(zone) else _moved("from_utc_timestamp", sql, zone, precision)


def to_utc(sql: str, zone: str, precision: Precision) -> str:
    """The instant at which a zone's wall clock shows `sql`."""
    return sql if is_utc(zone) else _moved("to_utc_timestamp", sql, zone, precision)


def _moved(function: str, sql: str, zone: str, precision: Precision) -> str:
    match precision:
        case Precision.MILLISECOND:
            return f"unix_millis({function}(timestamp_millis({sql}), {text(zone)}))"
        case Precision.MICROSECOND:
            return f"unix_micros({function}(timestamp_micros({sql}), {text(zone)}))"
        case _:
            moved = f"unix_micros({function}(timestamp_micros(floor({sql} / 1000)), {text(zone)}))"
            return f"({moved} * 1000L + pmod({sql}, 1000L))"


def date_of(local_ticks: str, precision: Precision) -> str:
    """The date of a wall clock."""
    return f"date_from_unix_date(CAST({days(local_ticks, precision)} AS INT))"


def days(local_ticks: str, precision: Precision) -> str:
    """Days since 1970-01-01 of a wall clock, rounded down."""
    day = precision.ticks_per_second * 86_400
    return f"(({local_ticks} - pmod({local_ticks}, {day}L)) div {day}L)"


def months(local_ticks: str, precision: Precision) -> str:
    """Months since January 1970 of a wall clock."""
    date = date_of(local_ticks, precision)
    return f"CAST(year({date}) * 12 + month({date}) - 23641 AS BIGINT)"


def month_start(month: str, precision: Precision) -> str:
    """The first instant of a month given as a number since January 1970, as a wall clock's ticks."""
    day = precision.ticks_per_second * 86_400
    return f"(CAST(unix_date(add_months(DATE'1970-01-01', CAST({month} AS INT))) AS BIGINT) * {day}L)"


def add_months(local_ticks: str, count: int | str, precision: Precision) -> str:
    """A wall clock moved on by months; the day is cut to the length of the month."""
    day = precision.ticks_per_second * 86_400
    date = f"CAST(unix_date(add_months({date_of(local_ticks, precision)}, {count})) AS BIGINT)"
    return f"({date} * {day}L + pmod({local_ticks}, {day}L))"
