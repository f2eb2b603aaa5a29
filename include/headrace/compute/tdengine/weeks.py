"""Weeks of the year, in the eight ways of counting them."""

from __future__ import annotations


def week_sql(date: str, mode: int) -> str:
    """The week of a date. Bit 0: weeks begin on Monday; bit 1: from 1 to 53, the year's first days may belong to the last year;
    bit 2 (turned over where weeks begin on Sunday): the first week begins with its first weekday, else it has at least 4 days.
    """
    monday, week_year = bool(mode & 1), bool(mode & 2)
    by_weekday = bool(mode & 4) == monday
    year = f"year({date})"
    own = number(date, year, monday, by_weekday)
    if not week_year:
        return f"CAST(greatest({own}, 0) AS BIGINT)"
    last = number(date, f"({year} - 1)", monday, by_weekday)
    following = number(date, f"({year} + 1)", monday, by_weekday)
    return f"CAST(CASE WHEN {own} < 1 THEN {last} WHEN {following} >= 1 THEN 1 ELSE {own} END AS BIGINT)"


def number(date: str, year: str, monday: bool, by_weekday: bool) -> str:
    """How many weeks after the first week of a year began, from 1; 0 or less before it."""
    january = f"make_date({year}, 1, 1)"
    weekday = f"weekday({january})" if monday else f"(dayofweek({january}) - 1)"
    late = f"{weekday} <> 0" if by_weekday else f"{weekday} >= 4"
    first = f"(unix_date({january}) - {weekday} + if({late}, 7, 0))"
    return f"CAST(floor((unix_date({date}) - {first}) / 7) + 1 AS INT)"
