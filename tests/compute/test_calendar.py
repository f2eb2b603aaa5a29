"""INTERVAL by the calendar: months, years, and days and weeks of a time zone, over two years with their changes of clock."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from headrace.compute import evaluate
from headrace.model.time import Precision
from tests.compute.house import METERS, answer, frame, plan, scope

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIRST = datetime(2023, 1, 1, tzinfo=UTC)


def instants(seed: int) -> list[datetime]:
    """Half-hours of two years, and those around the changes of clock in Berlin."""
    dice = random.Random(seed)
    found = {FIRST + timedelta(minutes=30 * dice.randrange(2 * 365 * 48)) for _ in range(300)}
    for change in (datetime(2023, 3, 26, 1, tzinfo=UTC), datetime(2023, 10, 29, 1, tzinfo=UTC)):
        found |= {change + timedelta(minutes=30 * step) for step in range(-60, 60)}
    return sorted(found)


def local_start(at: datetime, zone: ZoneInfo, unit: str, count: int, offset: timedelta) -> datetime:
    """The start of the window, on the zone's wall clock."""
    here = at.astimezone(zone).replace(tzinfo=None) - (timedelta() if unit in "ny" else offset)
    if unit in "ny":
        moved = here - offset
        months = (moved.year - 1970) * 12 + moved.month - 1
        months -= months % (count * (12 if unit == "y" else 1))
        start = datetime(1970 + months // 12, months % 12 + 1, 1) + offset
    else:
        days = (here - datetime(1970, 1, 1)).days
        days -= days % (count * (7 if unit == "w" else 1))
        start = datetime(1970, 1, 1) + timedelta(days=days) + offset
    return start.replace(tzinfo=zone)


@pytest.mark.parametrize(
    ("interval", "unit", "count", "offset"),
    [
        ("1d", "d", 1, timedelta()),
        ("3d", "d", 3, timedelta()),
        ("1d, 6h", "d", 1, timedelta(hours=6)),
        ("1w", "w", 1, timedelta()),
        ("1n", "n", 1, timedelta()),
        ("5n", "n", 5, timedelta()),
        ("1n, 9d", "n", 1, timedelta(days=9)),
        ("1y", "y", 1, timedelta()),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
def test_windows_follow_the_calendar_of_the_statement(
    small: SparkSession, interval: str, unit: str, count: int, offset: timedelta, zone: str
) -> None:
    wanted: dict[int, int] = {}
    for at in instants(7):
        start = int(local_start(at, ZoneInfo(zone), unit, count, offset).timestamp() * 1000)
        wanted[start] = wanted.get(start, 0) + 1
    rows = frame(small, METERS, [{"tbname": "d1", "ts": int(at.timestamp() * 1000)} for at in instants(7)])
    found = evaluate(
        plan(f"select cast(_wstart as bigint), count(*) from d1 interval({interval})", where=scope(timezone=zone)), rows
    )
    assert dict(map(tuple, found.collect())) == wanted


def test_sliding_windows_of_a_month_start_every_ten_days(small: SparkSession) -> None:
    rows = frame(small, METERS, [{"tbname": "d1", "ts": 31 * 86_400_000}])
    found = answer("select cast(_wstart as bigint), _wduration from d1 interval(1n) sliding(10d)", rows)
    days = [(start // 86_400_000, length // 86_400_000) for start, length in found]
    assert days == [(10, 31), (20, 31), (30, 28)]


def test_microseconds_and_nanoseconds_are_kept_to_the_tick(small: SparkSession) -> None:
    for precision, scale in ((Precision.MICROSECOND, 10**3), (Precision.NANOSECOND, 10**6)):
        base = 1_700_000_000_000 * scale
        rows = frame(small, METERS, [{"tbname": "d1", "ts": base + at, "a": at} for at in (-1, 0, 1)], precision=precision)
        ends = "cast(_wstart as bigint), cast(_wend as bigint)"
        sql = f"select {ends}, count(*), cast(last(ts) as bigint) from d1 where a > -5 interval(1a)"
        found = evaluate(plan(sql, where=scope(precision=precision)), rows).collect()
        assert [tuple(value - base if value > 10**12 else value for value in row) for row in found] == [
            (-scale, 0, 1, -1),
            (0, scale, 2, 1),
        ]
