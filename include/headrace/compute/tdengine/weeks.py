"""Weeks of the year, in MySQL's eight modes of counting them."""

from __future__ import annotations


def week_sql(date: str, mode: int) -> str:
    """Return the week of a date.

    The bits of the mode:

    - 0: weeks begin on Monday instead of Sunday.
    - 1: weeks count from 1 to 53, so that the first days of a year may be in the last week of the year before, instead of from 0.
    - 2 (inverted if weeks begin on Sunday): the first week begins with its first weekday, instead of having at least 4 days.
    """
    monday, week_year = bool(mode & 1), bool(mode & 2)
    by_weekday = bool(mode & 4) == monday
    year = f"year({date})"
    own = week_number(date, year, monday, by_weekday)
    if not week_year:
        return f"CAST(greatest({own}, 0) AS BIGINT)"
    last = week_number(date, f"({year} - 1)", monday, by_weekday)
    following = week_number(date, f"({year} + 1)", monday, by_weekday)
    return f"CAST(CASE WHEN {own} < 1 THEN {last} WHEN {following} >= 1 THEN 1 ELSE {own} END AS BIGINT)"


def week_number(date: str, year: str, monday: bool, by_weekday: bool) -> str:
    """Return the number of the week counted from the first week of a year, which is 1. Before it, 0 or less."""
    january = f"make_date({year}, 1, 1)"
    weekday = f"weekday({january})" if monday else f"(dayofweek({january}) - 1)"
    is_late = f"{weekday} <> 0" if by_weekday else f"{weekday} >= 4"
    first = f"(unix_date({january}) - {weekday} + if({is_late}, 7, 0))"
    return f"CAST(floor((unix_date({date}) - {first}) / 7) + 1 AS INT)"
