"""Weeks of the year, in MySQL's eight modes of counting them."""

from __future__ import annotations

from headrace.compute.nodes import Node, spark_sql


def week_sql(date: Node, mode: int) -> Node:
    """Return the week of a date.

    The bits of the mode:

    - 0: weeks begin on Monday instead of Sunday.
    - 1: weeks count from 1 to 53, so that the first days of a year may be in the last week of the year before, instead of from 0.
    - 2 (inverted if weeks begin on Sunday): the first week begins with its first weekday, instead of having at least 4 days.
    """
    monday, week_year = bool(mode & 1), bool(mode & 2)
    by_weekday = bool(mode & 4) == monday
    year = spark_sql("year({})", date)
    own = week_number(date, year, monday, by_weekday)
    if not week_year:
        return spark_sql("CAST(greatest({}, 0) AS BIGINT)", own)
    last = week_number(date, spark_sql("({} - 1)", year), monday, by_weekday)
    following = week_number(date, spark_sql("({} + 1)", year), monday, by_weekday)
    return spark_sql("CAST(CASE WHEN {} < 1 THEN {} WHEN {} >= 1 THEN 1 ELSE {} END AS BIGINT)", own, last, following, own)


def week_number(date: Node, year: Node, monday: bool, by_weekday: bool) -> Node:
    """Return the number of the week counted from the first week of a year, which is 1. Before it, 0 or less."""
    january = spark_sql("make_date({}, 1, 1)", year)
    weekday = spark_sql("weekday({})", january) if monday else spark_sql("(dayofweek({}) - 1)", january)
    is_late = spark_sql("{} <> 0", weekday) if by_weekday else spark_sql("{} >= 4", weekday)
    first = spark_sql("(unix_date({}) - {} + if({}, 7, 0))", january, weekday, is_late)
    return spark_sql("CAST(floor((unix_date({}) - {}) / 7) + 1 AS INT)", date, first)
