"""What is said of the trigger of a stream: by EXPLAIN, by ins_streams, and by verify."""

from __future__ import annotations

import pytest

import headrace

AS = "into {} as select _wstart, count(*) n from readings partition by tbname interval(10s)"
TRIGGERS = [
    ("at_once", "at once", "results whenever a window changes"),
    ("window_close", "window close", "results when event time closes a window, and again when it changes"),
    ("max_delay 5s", "max delay", "results when event time closes a window, and at the latest 5s after it has changed"),
    ("continuous_window_close", "", "results when event time closes a window; later changes after 60m"),
    (
        "force_window_close",
        "force window close",
        "results by the clock, once, at the end of each window plus the watermark delay",
    ),
]


@pytest.mark.parametrize(("trigger", "shown", "explained"), TRIGGERS)
def test_a_trigger_is_explained_and_listed(readings: headrace.Connection, trigger: str, shown: str, explained: str) -> None:
    cursor = readings.cursor()
    cursor.execute(f"explain create stream s trigger {trigger} {AS.format('t')}")
    assert explained in [str(row[0]).strip() for row in cursor.fetchall()]
    cursor.execute(f"create stream s trigger {trigger} {AS.format('t')}")
    cursor.execute("select `trigger` from information_schema.ins_streams")
    assert cursor.fetchall() == [(shown,)]


def test_a_stream_that_the_clock_closes_cannot_be_verified(readings: headrace.Connection) -> None:
    readings.execute(f"create stream s trigger force_window_close {AS.format('t')}")
    readings.settle()
    with pytest.raises(headrace.NotSupportedError, match="FORCE_WINDOW_CLOSE"):
        readings.verify(stream="s")


@pytest.mark.parametrize("sql", ["reset stream s", f"create or replace stream s trigger force_window_close {AS.format('other')}"])
def test_a_stream_that_the_clock_closes_cannot_be_computed_again(readings: headrace.Connection, sql: str) -> None:
    readings.execute(f"create stream s trigger force_window_close {AS.format('t')}")
    readings.settle()
    with pytest.raises(headrace.NotSupportedError, match="windows are computed once"):
        readings.execute(sql)
    with pytest.raises(headrace.NotSupportedError, match="windows are computed once"):
        readings.backfill(stream="d.s")


def test_a_trigger_without_history_does_not_fill_it(readings: headrace.Connection) -> None:
    cursor = readings.cursor()
    cursor.execute(f"explain create stream s trigger force_window_close fill_history 1 {AS.format('t')}")
    assert not any("fill history" in str(row[0]) for row in cursor.fetchall())
