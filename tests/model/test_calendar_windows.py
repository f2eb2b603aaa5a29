"""Windows of the calendar, against a plain evaluator that tries every window around an instant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.calendar_windows import CalendarGrid
from headrace.model.time import Duration, Precision
from headrace.model.zones import clock_changes, zone_clock

ZONES = (
    *("UTC", "Europe/Berlin", "America/Moncton", "America/St_Johns", "Pacific/Apia", "Asia/Kolkata", "America/Sao_Paulo"),
    *("Africa/Cairo", "Australia/Lord_Howe", "Africa/Casablanca", "America/Juneau"),
)
FIXED = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(days=7)}
MONTHS = {"n": 1, "y": 12}
SLIDES = st.sampled_from((Duration(1, "d"), Duration(7, "h"), Duration(150, "m")))
Window = tuple[datetime, datetime]


def durations(units: str, most: int) -> st.SearchStrategy[Duration]:
    return st.builds(Duration, st.integers(1, most), st.sampled_from(units))


@st.composite
def grids(draw: st.DrawFn) -> CalendarGrid:
    """Return windows of days, weeks, months or years, with any offset and slide that INTERVAL takes."""
    length = draw(st.one_of(durations("d", 1), durations("dw", 5), durations("n", 20), durations("y", 4)))
    is_calendar, is_sliding = length.unit in "ny", draw(st.booleans())
    # INTERVAL has at most a hundred windows at once.
    sliding = Duration(draw(st.sampled_from((1, 7))) * (1 + length.months // 3), "d") if is_calendar else draw(SLIDES)
    if not is_sliding:
        sliding = length
    offset = draw(st.one_of(st.just(Duration(0, "n" if is_calendar else "h")), durations("h", 23), durations("m", 59)))
    if is_calendar and not is_sliding and draw(st.booleans()):
        offset = Duration(draw(st.integers(0, length.months - 1)), "n") if draw(st.booleans()) else draw(durations("d", 27))
    return CalendarGrid(length, sliding, offset, draw(st.sampled_from(ZONES)), Precision.MILLISECOND)


@st.composite
def instants(draw: st.DrawFn, zone: str) -> list[datetime]:
    """Return instants of many years, many of them close to changes of the clock."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    around = [epoch + timedelta(seconds=change.at) for change in clock_changes(zone) if -2e9 < change.at < 4e9] or [epoch]
    near = st.builds(lambda at, minutes: at + timedelta(minutes=minutes), st.sampled_from(around), st.integers(-3000, 3000))
    far = st.builds(lambda seconds: epoch + timedelta(seconds=seconds), st.integers(-2_000_000_000, 15_000_000_000))
    return draw(st.lists(st.one_of(near, near, far), min_size=1, max_size=12, unique=True))


def shifted(wall: datetime, duration: Duration, count: int = 1) -> datetime:
    if duration.unit in FIXED:
        return wall + count * duration.count * FIXED[duration.unit]
    year, month = divmod(wall.year * 12 + wall.month - 1 + count * duration.count * MONTHS[duration.unit], 12)
    following = datetime(year + (month + 1) // 12, (month + 1) % 12 + 1, 1) - timedelta(days=1)
    return wall.replace(year=year, month=month + 1, day=min(wall.day, following.day))


def first_shown(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return when a clock first shows a time, later by the skipped time if it never does."""
    return wall.replace(tzinfo=zone, fold=0).astimezone(UTC)


def windows_around(grid: CalendarGrid, at: datetime) -> Iterator[Window]:
    """Yield the windows of the grid points around an instant; of two that start at once, the later one."""
    zone, wall = ZoneInfo(grid.zone), at.astimezone(ZoneInfo(grid.zone)).replace(tzinfo=None)
    origin = shifted(datetime(1900 if grid.sliding.is_calendar else 1970, 1, 1), grid.offset)
    step = (
        FIXED[grid.sliding.unit] * grid.sliding.count
        if grid.sliding.unit in FIXED
        else timedelta(days=30.436875 * grid.sliding.months)
    )
    reach = int(timedelta(days=31 * grid.length.months + 7 * 5 + 3) / step) + 3 if grid.overlaps else 4
    nearest = (wall - origin) // step
    by_start = {}
    for number in range(nearest - reach, nearest + reach):
        if grid.offset.unit in FIXED and grid.sliding.is_calendar:
            first = datetime(1900, 1, 1)
            point, end = (shifted(shifted(first, grid.sliding, count), grid.offset) for count in (number, number + 1))
        else:
            point = shifted(origin, grid.sliding, number)
            end = shifted(point, grid.length) if grid.overlaps else shifted(origin, grid.sliding, number + 1)
        by_start[first_shown(point, zone)] = first_shown(end, zone)
    yield from ((start, end) for start, end in by_start.items() if start < end)


def ticks(at: datetime) -> int:
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_every_row_is_in_the_windows_that_cover_it(data: st.DataObject) -> None:
    grid = data.draw(grids())
    moments = data.draw(instants(grid.zone))
    rows, starts = grid.assign(np.array([ticks(at) for at in moments], np.int64))
    index = np.arange(len(moments)) if rows is None else rows
    found = sorted(zip(index.tolist(), starts.tolist(), grid.lasts(starts).tolist(), strict=True))
    wanted = sorted(
        (row, ticks(start), ticks(end) - 1)
        for row, at in enumerate(moments)
        for start, end in windows_around(grid, at)
        if start <= at < end
    )
    assert found == wanted


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_windows_follow_one_another(data: st.DataObject) -> None:
    grid = data.draw(grids())
    (at, *_) = data.draw(instants(grid.zone))
    first = grid.first_open(ticks(at))
    assert grid.end(first) > ticks(at)
    starts = [first]
    while len(starts) < 6:
        starts.append(grid.next_start(starts[-1]))
    wanted = {ticks(start) for start, _ in windows_around(grid, at)}
    assert set(starts[:2]) <= wanted or starts[0] in wanted
    gap, between = grid.between(np.array([starts[0], starts[2]], np.int64), np.array([starts[2], starts[5]], np.int64))
    assert list(zip(gap.tolist(), between.start.tolist(), strict=True)) == [(0, starts[1]), (1, starts[3]), (1, starts[4])]
    assert between.last.tolist() == [grid.end(starts[number]) - 1 for number in (1, 3, 4)]
    assert grid.max_between(np.array(starts[:1], np.int64), np.array(starts[5:], np.int64)) >= 4
    ended = grid.ended(first, grid.end(starts[3]), 10)
    assert (
        ended.start.tolist()[: len(starts)]
        == [start for start in starts if grid.end(start) <= grid.end(starts[3])][: len(ended.start)]
    )


@pytest.mark.parametrize("name", ZONES)
def test_clocks_are_those_of_the_zone_database(name: str) -> None:
    zone, clock, epoch = ZoneInfo(name), zone_clock(name), datetime(1970, 1, 1)
    for change in (*clock_changes(name)[:8], *clock_changes(name)[-900::37], *clock_changes(name)[-3:]):
        seconds = np.array([change.at + shift for shift in (-90_000, -3_601, -1, 0, 1, 1_799, 3_600, 90_000)], np.int64)
        for second, wall in zip(seconds.tolist(), clock.wall(seconds).tolist(), strict=True):
            shown = (epoch.replace(tzinfo=UTC) + timedelta(seconds=second)).astimezone(zone).replace(tzinfo=None)
            assert epoch + timedelta(seconds=wall) == shown
        walls = seconds + change.before
        for wall, instant in zip(walls.tolist(), clock.instants(walls).tolist(), strict=True):
            assert first_shown(epoch + timedelta(seconds=wall), zone) == epoch.replace(tzinfo=UTC) + timedelta(seconds=instant)
