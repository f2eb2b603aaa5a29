"""Calendar arithmetic on ticks as Spark SQL that does not depend on the time zone of the Spark session."""

from __future__ import annotations

from headrace.compute.instants import is_utc
from headrace.compute.nodes import Node, spark_sql, string_sql
from headrace.model.time import Precision


def to_local(sql: Node, zone: str, precision: Precision) -> Node:
    """Return the wall clock of a zone at an instant, as ticks counted as if it were UTC."""
    return sql if is_utc(zone) else _convert_zone("from_utc_timestamp", sql, zone, precision)


def to_utc(sql: Node, zone: str, precision: Precision) -> Node:
    """Return the instant at which the wall clock of a zone shows `sql`."""
    return sql if is_utc(zone) else _convert_zone("to_utc_timestamp", sql, zone, precision)


def _convert_zone(function: str, sql: Node, zone: str, precision: Precision) -> Node:
    match precision:
        case Precision.MILLISECOND:
            return spark_sql("unix_millis({}(timestamp_millis({}), {}))", function, sql, string_sql(zone))
        case Precision.MICROSECOND:
            return spark_sql("unix_micros({}(timestamp_micros({}), {}))", function, sql, string_sql(zone))
        case _:
            micros = spark_sql("unix_micros({}(timestamp_micros(floor({} / 1000)), {}))", function, sql, string_sql(zone))
            return spark_sql("({} * 1000L + pmod({}, 1000L))", micros, sql)


def date_of(local_ticks: Node, precision: Precision) -> Node:
    return spark_sql("date_from_unix_date(CAST({} AS INT))", days(local_ticks, precision))


def days(local_ticks: Node, precision: Precision) -> Node:
    """Return the days from 1970-01-01 to a wall clock, rounded down."""
    day = precision.ticks_per_second * 86_400
    return spark_sql("(({} - pmod({}, {}L)) div {}L)", local_ticks, local_ticks, day, day)


def day_start(local_ticks: Node, precision: Precision) -> Node:
    """Return the midnight before a wall clock."""
    day = precision.ticks_per_second * 86_400
    return spark_sql("({} - pmod({}, {}L))", local_ticks, local_ticks, day)


def months(local_ticks: Node, precision: Precision) -> Node:
    """Return the months from January 1970 to a wall clock."""
    date = date_of(local_ticks, precision)
    return spark_sql("CAST(year({}) * 12 + month({}) - 23641 AS BIGINT)", date, date)


def month_start(month: Node, precision: Precision) -> Node:
    """Return the first instant of a month, as ticks of a wall clock. `month` counts from January 1970."""
    day = precision.ticks_per_second * 86_400
    return spark_sql("(CAST(unix_date(add_months(DATE'1970-01-01', CAST({} AS INT))) AS BIGINT) * {}L)", month, day)


def add_months(local_ticks: Node, count: int | str, precision: Precision) -> Node:
    """Add months to a wall clock. The day is clamped to the length of the month."""
    day = precision.ticks_per_second * 86_400
    date = spark_sql("CAST(unix_date(add_months({}, {})) AS BIGINT)", date_of(local_ticks, precision), count)
    return spark_sql("({} * {}L + pmod({}, {}L))", date, day, local_ticks, day)
