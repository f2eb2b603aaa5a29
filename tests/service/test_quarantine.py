"""Rows in quarantine by statements: listing them, processing them again, and what EXPLAIN says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace

START = "2024-05-01 12:00:00"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[headrace.Connection]:
    """A stream with a row in quarantine that is too far ahead of the clock."""
    with headrace.connect(tmp_path / "home") as connection:
        connection.execute("create database d")
        connection.execute("use d")
        connection.execute("create stable meters (ts timestamp, watts int) tags (site varchar(20))")
        connection.execute(
            "create stream s trigger at_once max_ahead 1h into sums as select _wstart, sum(watts) total from meters interval(1m)"
        )
        connection.execute(f"insert into m1 using meters tags ('north') values ('{START}', 1) ('2099-01-01 00:00:00', 2)")
        connection.settle()
        yield connection


def rows(connection: headrace.Connection, sql: str) -> list[tuple[object, ...]]:
    return connection.execute(sql).fetchall()


def test_rows_in_quarantine_are_listed(guarded: headrace.Connection) -> None:
    message = "its timestamp is more than 3600 s ahead of the clock"
    ((*shown, row, _),) = rows(guarded, "show quarantine from d like 's'")
    assert (shown[0], shown[2], shown[4:]) == ("s", "m1", ["FUTURE", message])
    assert row == '{"ts": "2099-01-01 00:00:00+00:00", "watts": 2}'
    assert rows(guarded, "show quarantine from information_schema") == []
    query = "select stream_name, table_name, reason from information_schema.ins_stream_quarantine"
    assert rows(guarded, query) == [("s", "m1", "FUTURE")]
    progress = "select rows_in, rows_used, rows_quarantined from information_schema.ins_stream_progress"
    assert rows(guarded, progress) == [(2, 1, 1)]


def test_rows_are_processed_again_after_the_stream_was_altered(guarded: headrace.Connection) -> None:
    assert rows(guarded, "explain replay quarantine of stream s")[0] == ("process 1 rows in quarantine of stream d.s again",)
    guarded.execute("alter stream s max_ahead 0s")
    guarded.execute("replay quarantine of stream s")
    guarded.settle()
    assert [total for (total,) in rows(guarded, "select total from sums order by _wstart")] == [1, 2]
    assert rows(guarded, "show quarantine") == []
    guarded.execute("replay quarantine of stream s")
    guarded.execute("replay quarantine of stream if exists missing")
    with pytest.raises(headrace.Error, match="missing"):
        guarded.execute("replay quarantine of stream missing")


def test_rows_are_dropped_from_quarantine(guarded: headrace.Connection) -> None:
    line = "drop 1 rows in quarantine of stream d.s: its results leave them out for good"
    explained = rows(guarded, "explain drop quarantine of stream s")
    assert explained == [(line,), ("needs the right to operate stream d.s",)]
    guarded.execute("drop quarantine of stream s")
    guarded.settle()
    assert rows(guarded, "show quarantine") == []
    progress = "select rows_in, rows_used, rows_quarantined, rows_dropped from information_schema.ins_stream_progress"
    assert rows(guarded, progress) == [(2, 1, 0, 1)]
    guarded.execute("drop quarantine of stream if exists missing")
    with pytest.raises(headrace.Error, match="missing"):
        guarded.execute("drop quarantine of stream missing")


def test_explain_estimates_the_history_and_names_what_computes_it(guarded: headrace.Connection) -> None:
    create = "explain create stream t fill_history 1 into out as select _wstart, count(*) n from meters interval(1m)"
    lines = [str(line) for (line,) in rows(guarded, create)]
    assert any(line.startswith("  micro-batches in the driver, by kernels; commits of more than") for line in lines)
    assert "  state: about 24 bytes for each open window of a group (3 columns)" in lines
    listed = [str(line) for (line,) in rows(guarded, create.replace("count(*)", "percentile(watts, 50)"))]
    assert "  state: about 16 bytes for each open window of a group (3 columns), and the values of its rows" in listed
    (estimate,) = (line for line in lines if "an estimate" in line)
    assert "bytes of files; an estimate: about 1 s of computing at 5,000,000 rows/s" in estimate
    sketch = create.replace("count(*)", "hyperloglog(watts)")
    assert any("micro-batches by Spark SQL, a job each (kernels do not know" in str(line) for (line,) in rows(guarded, sketch))


def test_measurements_are_a_table(guarded: headrace.Connection) -> None:
    query = (
        "select stream_name, db_name, rows_behind, batches, state_windows, quarantined from information_schema.ins_stream_metrics"
    )
    assert rows(guarded, query)[0][:3] == ("s", "d", 0)


def test_rows_of_a_virtual_table_are_set_aside_and_replayed(guarded: headrace.Connection) -> None:
    guarded.execute("create table p (ts timestamp, volts int)")
    guarded.execute("create vtable v (ts timestamp, watts int from m1.watts, volts int from p.volts)")
    create = "create stream w trigger at_once max_ahead 1h into both as select _wstart, sum(watts) a, sum(volts) b from v"
    guarded.execute(f"{create} interval(1m)")
    guarded.execute(f"insert into p values ('{START}', 5) ('2098-01-01 00:00:00', 7)")
    guarded.execute("insert into m1 values ('2098-01-01 00:00:00', 3)")
    guarded.settle()
    assert rows(guarded, "select a, b from both") == [(1, 5)]
    held = "select row_time from information_schema.ins_stream_quarantine where stream_name = 'w'"
    assert len(rows(guarded, held)) == 1
    guarded.execute("alter stream w max_ahead 0s")
    guarded.execute("replay quarantine of stream w")
    guarded.settle()
    assert rows(guarded, "select a, b from both order by _wstart") == [(1, 5), (3, 7)]
    assert rows(guarded, held) == []
