"""Calendar arithmetic on ticks as Spark SQL that does not depend on the time zone of the Spark session."""

from __future__ import annotations

from headrace.compute.instants import is_utc
from headrace.compute.terms import string_sql
from headrace.model.time import Precision


def to_local(sql: str, zone: str, precision: Precision) -> str:
    """Return the wall clock of a zone at an instant, as ticks counted as if it were UTC."""
    return sql if is_utc(zone) else _convert_zone("from_utc_timestamp", sql, zone, precision)


def to_utc(sql: str, zone: str, precision: Precision) -> str:
    """Return the instant at which the wall clock of a zone shows `sql`."""
    return sql if is_utc(zone) else _convert_zone("to_utc_timestamp", sql, zone, precision)


def _convert_zone(function: str, sql: str, zone: str, precision: Precision) -> str:
    match precision:
        case Precision.MILLISECOND:
            return f"unix_millis({function}(timestamp_millis({sql}), {string_sql(zone)}))"
        case Precision.MICROSECOND:
            return f"unix_micros({function}(timestamp_micros({sql}), {string_sql(zone)}))"
        case _:
            micros = f"unix_micros({function}(timestamp_micros(floor({sql} / 1000)), {string_sql(zone)}))"
            return f"({micros} * 1000L + pmod({sql}, 1000L))"


def date_of(local_ticks: str, precision: Precision) -> str:
    """Return the date of a wall clock."""
    return f"date_from_unix_date(CAST({days(local_ticks, precision)} AS INT))"


def days(local_ticks: str, precision: Precision) -> str:
    """Return the days from 1970-01-01 to a wall clock, rounded down."""
    day = precision.ticks_per_second * 86_400
    return f"(({local_ticks} - pmod({local_ticks}, {day}L)) div {day}L)"


def months(local_ticks: str, precision: Precision) -> str:
    """Return the months from January 1970 to a wall clock."""
    date = date_of(local_ticks, precision)
    return f"CAST(year({date}) * 12 + month({date}) - 23641 AS BIGINT)"


def month_start(month: str, precision: Precision) -> str:
    """Return the first instant of a month, as ticks of a wall clock. `month` counts from January 1970."""
    day = precision.ticks_per_second * 86_400
    return f"(CAST(unix_date(add_months(DATE'1970-01-01', CAST({month} AS INT))) AS BIGINT) * {day}L)"


def add_months(local_ticks: str, count: int | str, precision: Precision) -> str:
    """Add months to a wall clock. The day is clamped to the length of the month."""
    day = precision.ticks_per_second * 86_400
    date = f"CAST(unix_date(add_months({date_of(local_ticks, precision)}, {count})) AS BIGINT)"
    return f"({date} * {day}L + pmod({local_ticks}, {day}L))"
