"""Verification through a connection and the command line: queries on Spark and targets of streams, compared with DuckDB."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.compute import Scan, TableStatistics
from headrace.errors import NotFoundError, NotSupportedError, ProgrammingError
from headrace.queries import evaluation
from tests.service.conftest import on_spark

START = 1_700_000_000_000
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture
def filled(readings: headrace.Connection) -> headrace.Connection:
    readings.execute(
        f"insert into dev1 values ({START}, 1, 1.5) ({START + 9_000}, 2, null) ({START + 70_000}, 5, 2.5)"
        f" dev2 values ({START}, 4, 1.5) ({START + 61_000}, 3, 0.5)"
    )
    return readings


def test_an_answer_is_equal_to_that_of_the_other_engine(filled: headrace.Connection) -> None:
    verification = filled.verify(
        "select place, _wstart, count(*), sum(a), last(b), twa(a) from readings partition by tbname interval(1m) fill(prev)"
    )
    assert verification.equal
    assert verification.rows == 4
    assert filled.verify("select ts, a * b, place from dev1 where b is not null order by ts desc").equal


def test_the_zone_is_that_of_the_source_and_not_of_the_current_database(connection: headrace.Connection) -> None:
    connection.execute("create database tokyo timezone 'Asia/Tokyo'")
    connection.execute("create table tokyo.x (ts timestamp, a int)")
    connection.execute(
        "insert into tokyo.x values ('2024-05-01 00:30:00', 1) ('2024-05-01 23:30:00', 2) ('2024-05-02 00:00:00', 4)"
    )
    assert connection.verify("select _wstart, sum(a) from tokyo.x where ts < '2024-05-02 00:00:00' interval(1d)").equal
    assert connection.verify("select d, timezone() from (select _wstart d from tokyo.x interval(1d))").equal


@pytest.mark.parametrize(("precision", "spacing"), [("ms", 2_970), ("ns", 2_970_000_000)])
def test_queries_over_large_tables_verify(
    connection: headrace.Connection, monkeypatch: pytest.MonkeyPatch, precision: str, spacing: int
) -> None:
    sizes, size = list[TableStatistics | None](), evaluation.Statistics.size
    monkeypatch.setattr(evaluation, "MIN_LARGE_TABLE_ROWS", 10)

    def recorded(self: evaluation.Statistics, scan: Scan) -> TableStatistics | None:
        sizes.append(size(self, scan))
        return sizes[-1]

    monkeypatch.setattr(evaluation.Statistics, "size", recorded)
    connection.execute(f"create database large precision '{precision}'")
    connection.execute("create stable large.r (ts timestamp, a int) tags (place varchar(9))")
    for name in ("north", "south"):
        rows = " ".join(f"('2024-05-01 00:{second // 60:02}:{second % 60:02}', {second // 7 % 3})" for second in range(0, 300, 3))
        connection.execute(f"insert into large.r_{name} using large.r tags ('{name}') values {rows}")
    for window in ("interval(20s)", "interval(20s) sliding(10s)", "session(ts, 2s)", "state_window(a)", "count_window(7)"):
        with on_spark(connection) as far:
            verification = far.verify(f"select tbname, place, _wstart, count(*), sum(a) from large.r partition by tbname {window}")
        assert verification.equal, window
        assert verification.rows > 20, window
    assert {size.spacing for size in sizes if size is not None} == {spacing}


def test_an_unsupported_query_or_unknown_name_is_refused(filled: headrace.Connection) -> None:
    with pytest.raises(NotFoundError, match="column aa does not exist"):
        filled.verify("select aa from readings")
    with pytest.raises(NotSupportedError, match="verify does not support the function rand"):
        filled.verify("select rand() from readings")
    with pytest.raises(NotSupportedError, match="verify takes a SELECT over tables"):
        filled.verify("select * from information_schema.ins_tables")


def test_a_target_equals_its_query_over_the_source(filled: headrace.Connection) -> None:
    filled.execute(
        "create stream by_place trigger at_once fill_history 1 ignore update 0 ignore expired 0 "
        "into places tags (place varchar(20)) as "
        "select _wstart, _wend, count(*) n, sum(a) total from readings partition by place session(ts, 10s)"
    )
    filled.execute(
        "create stream closed ignore expired 0 fill_history 1 into minutes "
        "as select _wstart, avg(b) mean from readings interval(1m)"
    )
    filled.settle()
    filled.execute(f"insert into dev1 values ({START + 5_000}, 7, 1) ({START + 200_000}, 7, 1)")
    filled.execute(f"delete from dev2 where ts = {START}")
    filled.settle()
    for stream in ("by_place", "d.closed"):
        verification = filled.verify(stream=stream)
        assert verification.rows
        assert verification.equal, verification.difference


def test_a_gap_up_to_an_open_window_is_not_mistaken_for_that_of_another_group(filled: headrace.Connection) -> None:
    filled.execute(
        "create stream s watermark 30s ignore expired 0 fill_history 1 into out "
        "as select _wstart, count(*) n from readings partition by place interval(1m) fill(null)"
    )
    later = [START + minutes * 60_000 for minutes in (10, 13, 20)]
    for first, second in ((later[0], later[0]), (later[0] + 60_000, later[1]), (later[2], later[2])):
        filled.execute(f"insert into dev1 values ({first}, 1, 1) dev2 values ({second}, 1, 1)")
    filled.settle()
    verification = filled.verify(stream="s")
    assert verification.equal, verification.difference


def test_a_tampered_window_is_reported_with_its_rows(filled: headrace.Connection, tmp_path: Path) -> None:
    filled.execute(
        "create stream s trigger at_once fill_history 1 into out tags (place varchar(20)) as "
        "select _wstart start, count(*) n from readings partition by place interval(1m)"
    )
    filled.settle()
    ((name, start),) = filled.execute("select tbname, start from out where place = 'north' order by start limit 1").fetchall()
    filled.execute(f"insert into {name} (start, n) values ('{start.isoformat()}', 9)")
    difference = filled.verify(stream="s").difference
    assert difference is not None
    assert difference.columns == ("n",)
    assert difference.total == 2
    filled.close()
    failed = CliRunner().invoke(app, ["verify", "--stream", "d.s", "--home", str(tmp_path / "home")])
    assert failed.exit_code == 1
    assert "4 windows, different: n" in failed.output
    assert "of 2 rows of the source:" in failed.output
    passed = CliRunner().invoke(app, ["verify", "-d", "d", "select count(*) from dev1", "--home", str(tmp_path / "home")])
    assert passed.exit_code == 0
    assert passed.output.startswith("1 row, equal (DuckDB ")
    assert isinstance(CliRunner().invoke(app, ["verify"]).exception, ProgrammingError)


def test_a_stream_that_has_left_rows_out_differs_with_a_remark(filled: headrace.Connection) -> None:
    filled.execute("create stream s ignore update 0 into out as select _wstart, count(*) n from readings interval(1m)")
    filled.execute(f"insert into dev1 values ({START + 500_000}, 1, 1) ({START + 600_000}, 1, 1)")
    filled.settle()
    assert filled.verify(stream="s").equal
    filled.execute(f"insert into dev1 values ({START + 501_000}, 1, 1)")
    filled.settle()
    verification = filled.verify(stream="s")
    assert not verification.equal
    assert verification.remark == "the stream dropped 1 expired rows, which the query includes"


def test_rows_in_quarantine_are_not_compared_and_named(filled: headrace.Connection) -> None:
    filled.execute(
        "create stream s trigger at_once max_ahead 1h fill_history 1 into out "
        "as select _wstart, count(*) n from readings interval(1m)"
    )
    filled.settle()
    filled.execute(f"insert into dev1 values ({START + 500_000}, 1, 1) ('2099-01-01 00:00:00', 1, 1)")
    filled.settle()
    verification = filled.verify(stream="s")
    assert verification.equal, verification.difference
    assert verification.remark == "not compared: 1 rows in quarantine, which SHOW QUARANTINE lists; the query leaves them out too"


def test_a_connection_verifies_and_recomputes(filled: headrace.Connection) -> None:
    filled.execute("create stream s fill_history 1 into out as select _wstart, count(*) n from readings interval(1m)")
    filled.settle()
    assert filled.verify("select count(*) from readings").equal
    assert filled.verify(stream="s").equal
    assert filled.backfill(stream="s") == 1
    assert filled.verify(stream="s").rows > 0
    with pytest.raises(ProgrammingError, match="exactly one"):
        filled.verify("select 1", stream="s")
    with pytest.raises(ProgrammingError, match="exactly one"):
        filled.backfill()
    with pytest.raises(ProgrammingError, match="need a continuous query"):
        filled.verify(stream="s", start="2024-05-01")


@pytest.mark.parametrize(
    "window", ["state_window(a)", "event_window start with a > 0 end with a < 2", "session(ts, 1s)", "interval(1m)"]
)
def test_streams_that_notify_verify(filled: headrace.Connection, window: str) -> None:
    filled.execute(
        "create stream s trigger at_once fill_history 1 into out tags (name varchar(64)) as select _wstart, _wend, max(a) top "
        f"from readings partition by tbname name {window} notify ('http://127.0.0.1:9/') on ('window_open', 'window_close')"
    )
    filled.settle()
    verification = filled.verify(stream="s")
    assert verification.equal, verification.difference
    assert verification.rows > 0
