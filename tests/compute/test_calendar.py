"""Calendar INTERVALs: months, years, and days and weeks of a time zone, over two years with their clock changes."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from headrace.compute import evaluate
from headrace.compute.columnar.table_plans import evaluate_tables
from headrace.model.time import Precision
from tests.compute.samples import METERS, Reader, answer, frame, plan, scope, to_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIRST = datetime(2023, 1, 1, tzinfo=UTC)


def instants(seed: int) -> list[datetime]:
    """Return half-hours of two years, and those around the clock changes in Berlin."""
    dice = random.Random(seed)
    found = {FIRST + timedelta(minutes=30 * dice.randrange(2 * 365 * 48)) for _ in range(300)}
    for change in (datetime(2023, 3, 26, 1, tzinfo=UTC), datetime(2023, 10, 29, 1, tzinfo=UTC)):
        found |= {change + timedelta(minutes=30 * step) for step in range(-60, 60)}
    return sorted(found)


def local_start(at: datetime, zone: ZoneInfo, unit: str, count: int, offset: timedelta) -> datetime:
    """Return the start of the window on the zone's wall clock."""
    here = at.astimezone(zone).replace(tzinfo=None) - (timedelta() if unit in "ny" else offset)
    if unit in "ny":
        moved = here - offset
        months = (moved.year - 1900) * 12 + moved.month - 1
        months -= months % (count * (12 if unit == "y" else 1))
        start = datetime(1900 + months // 12, months % 12 + 1, 1) + offset
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
        ("18n", "n", 18, timedelta()),
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


def first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return when a clock first shows a time, later by the skipped time if it never does."""
    return wall.replace(tzinfo=zone, fold=0).astimezone(UTC)


def covering(at: datetime, zone: ZoneInfo, length: timedelta, step: timedelta, offset: timedelta) -> set[tuple[int, int]]:
    """Return start and end (milliseconds) of every window that contains an instant, by trying all grid points around it."""
    here, epoch = at.astimezone(zone).replace(tzinfo=None), datetime(1970, 1, 1)
    nearest = (here - epoch - offset) // step
    reach = int((length + timedelta(hours=25)) / step) + 1
    points = [epoch + offset + number * step for number in range(nearest - reach, nearest + reach)]
    ends = {first_instant(point, zone): first_instant(point + length, zone) for point in points}
    return {(int(start.timestamp() * 1000), int(end.timestamp() * 1000)) for start, end in ends.items() if start <= at < end}


HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("interval", "length", "step", "offset"),
    [
        ("(1d, 2h)", DAY, DAY, 2 * HOUR),
        ("(1d, 150m)", DAY, DAY, 2.5 * HOUR),
        ("(1w, 75h)", 7 * DAY, 7 * DAY, 75 * HOUR),
        ("(1d) sliding(12h)", DAY, HOUR * 12, timedelta()),
        ("(1d) sliding(1h)", DAY, HOUR, timedelta()),
        ("(1d) sliding(20m)", DAY, HOUR / 3, timedelta()),
        ("(2d, 30m) sliding(1d)", 2 * DAY, DAY, HOUR / 2),
        ("(3h) sliding(1h)", 3 * HOUR, HOUR, timedelta()),
        ("(1d) sliding(45m)", DAY, HOUR * 3 / 4, timedelta()),
        ("(1d, 10m) sliding(50m)", DAY, HOUR * 5 / 6, HOUR / 6),
    ],
)
@pytest.mark.parametrize(
    ("zone", "changes"),
    [
        ("Europe/Berlin", [datetime(2024, 3, 31, 1, tzinfo=UTC), datetime(2024, 10, 27, 1, tzinfo=UTC)]),
        ("Africa/Cairo", [datetime(2024, 4, 25, 22, tzinfo=UTC), datetime(2024, 10, 31, 21, tzinfo=UTC)]),
    ],
)
def test_on_days_when_the_clock_changes_every_row_is_in_the_windows_that_cover_it(
    small: SparkSession, interval: str, length: timedelta, step: timedelta, offset: timedelta, zone: str, changes: list[datetime]
) -> None:
    check_windows(small, interval, length, step, offset, zone, changes)


@pytest.mark.parametrize(
    ("zone", "change", "interval", "length", "step"),
    [
        ("America/Moncton", datetime(2006, 10, 29, 3, 1, tzinfo=UTC), "(1d)", DAY, DAY),
        ("America/Moncton", datetime(2006, 10, 29, 3, 1, tzinfo=UTC), "(2d) sliding(12h)", 2 * DAY, HOUR * 12),
        ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC), "(1d)", DAY, DAY),
        ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC), "(1d) sliding(6h)", DAY, HOUR * 6),
        ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC), "(2d) sliding(7h)", 2 * DAY, HOUR * 7),
    ],
)
def test_midnights_that_a_clock_repeats_and_days_that_it_skips_keep_rows_in_their_windows(
    small: SparkSession, zone: str, change: datetime, interval: str, length: timedelta, step: timedelta
) -> None:
    check_windows(small, interval, length, step, timedelta(), zone, [change])


def check_windows(
    small: SparkSession, interval: str, length: timedelta, step: timedelta, offset: timedelta, zone: str, changes: list[datetime]
) -> None:
    every = [change + timedelta(minutes=15 * place) for change in changes for place in range(-14, 14)]
    fixed = interval.startswith("(3h")
    wanted: dict[tuple[int, int], int] = {}
    for at in every:
        for window in covering(at, ZoneInfo("UTC" if fixed else zone), length, step, offset):
            wanted[window] = wanted.get(window, 0) + 1
    rows = frame(small, METERS, [{"tbname": "d1", "ts": int(at.timestamp() * 1000)} for at in every])
    sql = f"select cast(_wstart as bigint), cast(_wend as bigint), count(*) from d1 interval{interval}"
    found = evaluate(plan(sql, where=scope(timezone=zone)), rows).collect()
    assert {(start, end): count for start, end, count in found} == wanted
    assert len(found) == len(wanted)


CHANGES = {
    "Europe/Berlin": datetime(2024, 3, 31, 1, tzinfo=UTC),
    "Europe/Paris": datetime(2024, 10, 27, 1, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2024, 10, 5, 15, 30, tzinfo=UTC),
    "Pacific/Apia": datetime(2011, 12, 30, 10, tzinfo=UTC),
    "America/Moncton": datetime(2006, 10, 29, 3, 1, tzinfo=UTC),
}


@pytest.mark.parametrize(
    ("zone", "interval"),
    [
        *(("Europe/Berlin", interval) for interval in ("(1d, 150m)", "(1d) sliding(1h)", "(1d) sliding(20m)", "(1d)")),
        *((zone, f"(1d) sliding({slide})") for zone in CHANGES for slide in ("45m", "7h")),
        ("Europe/Berlin", "(1d, 5m) sliding(25m)"),
        ("Pacific/Apia", "(1d)"),
        ("Pacific/Apia", "(3d, 2h) sliding(1d)"),
        ("America/Moncton", "(1d)"),
    ],
)
@pytest.mark.parametrize("has_range", [True, False])
def test_fill_leaves_no_gap_at_clock_changes(small: SparkSession, zone: str, interval: str, has_range: bool) -> None:
    """It adds the windows that other rows have, between those of two rows, or between the ends of WHERE's range around one."""
    ends = [CHANGES[zone] - timedelta(days=3, minutes=7), CHANGES[zone] + timedelta(days=2, minutes=7)]
    few = [CHANGES[zone] + HOUR * 1.5] if has_range else ends
    many = [ends[0] + HOUR * number / 4 for number in range(4 * 120)] + ends
    first, last = (int(at.timestamp() * 1000) for at in ends)

    def windows(instants: list[datetime], fill: str, *, where: str = "", is_near: bool = False) -> list[tuple[int, ...]]:
        values = [{"tbname": "d1", "ts": int(at.timestamp() * 1000), "a": 1} for at in instants]
        sql = f"select cast(_wstart as bigint), cast(_wend as bigint), sum(a) from d1 {where} interval{interval} {fill}"
        query = plan(sql, where=scope(timezone=zone))
        if is_near:
            columns = evaluate_tables(query, Reader(to_arrow(METERS, values)), 1000).columns
            found = list(zip(*(column.to_pylist() for column in columns), strict=True))
        else:
            found = [tuple(row) for row in evaluate(query, frame(small, METERS, values)).collect()]
        assert len({start for start, *_ in found}) == len(found)
        return sorted(row[:2] for row in found)

    every = windows(many, "")
    where = f"where ts between {first} and {last}" if has_range else ""
    if has_range:
        earliest, latest = windows(few, "")[0], max(window for window in every if window[0] <= last)
        since = min(earliest, max(window for window in every if window[0] <= first))
        every = [window for window in every if since <= window <= latest]
    assert windows(few, "fill(null)", where=where) == every
    if not has_range:
        assert windows(few, "fill(null)", is_near=True) == every


def test_months_with_an_offset_in_days_do_not_overlap(small: SparkSession) -> None:
    every = [FIRST + timedelta(days=number) for number in range(365)]
    rows = frame(small, METERS, [{"tbname": "d1", "ts": int(at.timestamp() * 1000)} for at in every])
    found = answer("select _wstart, _wend, last(ts) from d1 interval(2n, 31d)", rows)
    assert all(end == start for (_, end, _), (start, _, _) in pairwise(found))
    assert all(start <= last < end for start, end, last in found)


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
