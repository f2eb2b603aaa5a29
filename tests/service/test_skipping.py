"""RESUME STREAM IGNORE UNTREATED over SQL, by the connection's own driver."""

from __future__ import annotations

import pytest

import headrace

START = 1_700_000_000_000
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def test_pause_insert_and_resume_in_a_row_skip_what_was_inserted(readings: headrace.Connection) -> None:
    readings.execute("create stream s trigger at_once into out as select _wstart, sum(a) total from readings interval(10s)")
    readings.execute(f"insert into dev1 values ({START}, 1, null)")
    readings.settle()
    readings.execute("pause stream s")
    readings.execute(f"insert into dev1 values ({START + 1}, 2, null)")
    readings.execute("resume stream ignore untreated s")
    readings.settle()
    assert readings.execute("select total from out").fetchall() == [(1,)]
    assert readings.execute("select lag_ms from information_schema.ins_stream_progress").fetchall() == [(0,)]
    readings.execute(f"insert into dev1 values ({START + 2}, 4, null)")
    readings.settle()
    assert readings.execute("select total from out").fetchall() == [(5,)]
