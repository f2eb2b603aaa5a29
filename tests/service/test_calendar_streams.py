"""Streams of months, years, weeks and days: their history, late, corrected and deleted rows, against rows read one by one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import headrace
from tests.support.drawing import drawn

pytestmark = pytest.mark.spark

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def groups_of_months(count: int, shift: timedelta = timedelta()) -> Callable[[datetime], datetime]:
    """Return the start of the group of months that an instant is in; groups are counted from January 1900."""

    def start(at: datetime) -> datetime:
        moved = at - shift
        months = (moved.year - 1900) * 12 + moved.month - 1
        months -= months % count
        return datetime(1900 + months // 12, months % 12 + 1, 1, tzinfo=UTC) + shift

    return start


def whole_days(count: int) -> Callable[[datetime], datetime]:
    return lambda at: EPOCH + (at - EPOCH) // (count * DAY) * (count * DAY)


WINDOWS = {
    "1n": groups_of_months(1),
    "9n": groups_of_months(9),
    "18n": groups_of_months(18),
    "1y": groups_of_months(12),
    "1n, 3d": groups_of_months(1, 3 * DAY),
    "1w": whole_days(7),
    "2d": whole_days(2),
}


def test_streams_of_calendar_windows_equal_their_rows_read_one_by_one(tmp_path: Path) -> None:
    values = {datetime(2023, 12, 31, 23, tzinfo=UTC) + number * timedelta(days=13, hours=5): number for number in range(40)}
    with headrace.connect(tmp_path, clock=headrace.ManualClock(int(NOW.timestamp() * 1000))) as connection:
        connection.execute("CREATE DATABASE d")
        connection.execute("USE d")
        connection.execute("CREATE TABLE t (ts TIMESTAMP, v INT)")

        def write(rows: dict[datetime, int]) -> None:
            values.update(rows)
            texts = " ".join(f"({int(at.timestamp() * 1000)}, {value})" for at, value in rows.items())
            connection.execute(f"INSERT INTO t VALUES {texts}")

        write(values)
        options = "TRIGGER AT_ONCE IGNORE EXPIRED 0 IGNORE UPDATE 0 FILL_HISTORY 1"
        windows = drawn(list(WINDOWS), "calendar windows", 4)
        for number, window in enumerate(windows):
            query = f"SELECT _wstart w, sum(v) s, count(*) n FROM t INTERVAL({window})"
            connection.execute(f"CREATE STREAM s{number} {options} INTO o{number} AS {query}")
        connection.settle()
        first, second, *_ = values
        write({NOW - 3 * DAY: 1000, first - 400 * DAY: 100, second: -7})
        removed = [at for at in values if datetime(2024, 5, 1, tzinfo=UTC) <= at < datetime(2024, 7, 1, tzinfo=UTC)]
        connection.execute("DELETE FROM t WHERE ts >= '2024-05-01' AND ts < '2024-07-01'")
        for at in removed:
            del values[at]
        connection.settle()
        for number, window in enumerate(windows):
            start_of = WINDOWS[window]
            wanted: dict[datetime, tuple[int, int]] = {}
            for at, value in values.items():
                total, count = wanted.get(start_of(at), (0, 0))
                wanted[start_of(at)] = (total + value, count + 1)
            rows = connection.execute(f"SELECT w, s, n FROM o{number}").fetchall()
            assert {start: (total, count) for start, total, count in rows} == wanted, window
