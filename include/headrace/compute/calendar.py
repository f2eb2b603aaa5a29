"""Calendar arithmetic on ticks that does not depend on the time zone of the Spark session."""

from __future__ import annotations

from datetime import date
from typing import Final

from headrace.compute.instants import is_utc
from headrace.compute.nodes import Node, Value, bigint, call, integer, string
from headrace.compute.types import from_ticks, to_ticks
from headrace.model.time import Precision

EPOCH: Final = Value(date(1970, 1, 1), "date")


def to_local(sql: Node, zone: str, precision: Precision) -> Node:
    """Return the wall clock of a zone at an instant, as ticks counted as if it were UTC."""
    return sql if is_utc(zone) else _convert_zone("from_utc_timestamp", sql, zone, precision)


def to_utc(sql: Node, zone: str, precision: Precision) -> Node:
    """Return the instant at which the wall clock of a zone shows `sql`."""
    return sql if is_utc(zone) else _convert_zone("to_utc_timestamp", sql, zone, precision)


def _convert_zone(function: str, ticks: Node, zone: str, precision: Precision) -> Node:
    if precision is not Precision.NANOSECOND:
        return to_ticks(call(function, from_ticks(ticks, precision), string(zone)), precision)
    micros = call("unix_micros", call(function, call("timestamp_micros", call("thousandths", ticks)), string(zone)))
    return micros * bigint(1000) + call("pmod", ticks, bigint(1000))


def date_of(local_ticks: Node, precision: Precision) -> Node:
    return call("date_from_unix_date", days(local_ticks, precision).cast("int"))


def days(local_ticks: Node, precision: Precision) -> Node:
    """Return the days from 1970-01-01 to a wall clock, rounded down."""
    return call("div", day_start(local_ticks, precision), ticks_per_day(precision))


def day_start(local_ticks: Node, precision: Precision) -> Node:
    """Return the midnight before a wall clock."""
    return local_ticks - call("pmod", local_ticks, ticks_per_day(precision))


def ticks_per_day(precision: Precision) -> Node:
    return bigint(precision.ticks_per_second * 86_400)


def months(local_ticks: Node, precision: Precision) -> Node:
    """Return the months from January 1970 to a wall clock."""
    day = date_of(local_ticks, precision)
    return (call("year", day) * integer(12) + call("month", day) - integer(23641)).cast("bigint")


def month_start(month: Node, precision: Precision) -> Node:
    """Return the first instant of a month, as ticks of a wall clock. `month` counts from January 1970."""
    return call("unix_date", call("add_months", EPOCH, month.cast("int"))).cast("bigint") * ticks_per_day(precision)


def add_months(local_ticks: Node, count: Node, precision: Precision) -> Node:
    """Add months to a wall clock. The day is clamped to the length of the month."""
    day = ticks_per_day(precision)
    moved = call("unix_date", call("add_months", date_of(local_ticks, precision), count)).cast("bigint")
    return moved * day + call("pmod", local_ticks, day)
