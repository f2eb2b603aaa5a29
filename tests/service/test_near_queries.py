"""Queries over few rows of tables are evaluated in this process: no JVM is started for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.compute.columnar import series_tables
from headrace.errors import LimitError, OperationalError
from headrace.settings import load

TABLES = (
    "create database plant",
    "use plant",
    "create stable meters (ts timestamp, v int, d double, s varchar(10)) tags (line int, site varchar(8))",
    "insert into m1 using meters tags (1, 'x') values (0, 1, 1.5, 'p') (30000, 2, null, 'q') (70000, 5, 2.5, null)",
    "insert into m2 using meters tags (2, 'y') values (5000, 7, -1, 'p')",
    "create table m3 using meters tags (3, 'z')",
    "create table steps (ts timestamp, k int primary key, v int)",
    "insert into steps values (0, 2, 20) (0, 1, 10) (1000, 2, 40) (1000, 1, 30)",
    "create vtable pair (ts timestamp, v int from m1.v, w int from m2.v)",
)
QUERIES = (
    ("select count(*), sum(v), last(s) from meters", [(4, 15, "q")]),
    ("select tbname, count(*) from meters group by tbname", [("m1", 3), ("m2", 1), ("m3", 0)]),
    ("select site, max(v) from meters where s = 'p' partition by site order by 2 desc", [("y", 7), ("x", 1)]),
    ("select cast(_wstart as bigint), sum(v) from m1 interval(1m)", [(0, 3), (60_000, 5)]),
    (
        "select cast(_wstart as bigint), sum(v) from m1 where ts >= 0 and ts < 90000 interval(30s) fill(prev)",
        [(0, 1), (30_000, 2), (60_000, 5)],
    ),
    ("select diff(v) from m1", [(1,), (3,)]),
    ("select interp(v) from m1 range(0, 30000) every(15s) fill(linear)", [(1,), (1,), (2,)]),
    ("select interp(v) from steps range(0, 1000) every(500a) fill(linear)", [(10,), (20,), (30,)]),
    ("select count(*) from m1 session(ts, 31s)", [(2,), (1,)]),
    ("select count(*) from pair", [(4,)]),
    ("select v, w from pair where w is not null", [(None, 7)]),
    ("select a.v, b.v from m1 a left join m2 b on a.s = b.s and a.v < b.v order by 1", [(1, 7), (2, None), (5, None)]),
    ("select a.v from m1 a join m2 b on a.v > 1 order by 1", [(2,), (5,)]),
    ("select count(*) from m1 a join m1 b on 1 = 1", [(9,)]),
    ("select count(*) from m1 a left join m3 b on a.v > 1", [(3,)]),
    ("select x + 1 from (select sum(v) x from meters partition by tbname) order by 1", [(8.0,), (9.0,)]),
    ("select upper(s) from m2 union all select site from meters where v = 5", [("P",), ("x",)]),
)


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[headrace.Connection]:
    """Provide tables in a process that cannot start Spark."""

    def refuse(*_: object) -> None:
        raise OperationalError("Spark was started")

    monkeypatch.setattr("headrace.runtime.context.open_session", refuse)
    with headrace.connect(tmp_path / "home") as opened:
        for statement in TABLES:
            opened.execute(statement)
        yield opened


@pytest.mark.parametrize(("sql", "rows"), QUERIES)
def test_a_query_over_few_rows_starts_no_spark(connection: headrace.Connection, sql: str, rows: list[tuple[object, ...]]) -> None:
    assert connection.execute(sql).fetchall() == rows


def test_rows_are_inserted_from_a_query_without_spark(connection: headrace.Connection) -> None:
    connection.execute("create table sums (ts timestamp, total bigint)")
    connection.execute("insert into sums (ts, total) select _wstart, sum(v) from meters interval(1m)")
    assert connection.execute("select total from sums").fetchall() == [(10,), (5,)]


def test_series_that_would_fill_too_many_cells_are_left_to_spark(
    connection: headrace.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load(home=connection.session.context.settings.home)
    with headrace.connect(settings=settings, dialect="iotdb") as tree:
        tree.execute("insert into root.hall.a(time, v) values (1, 5), (2, 6)")
        tree.execute("insert into root.hall.b(time, v) values (1, 7)")
        monkeypatch.setattr(series_tables, "MAX_CELLS", 6)  # of two instants: time, and two series
        query = "select count(v) from root.hall.* group by session(1s)"
        assert tree.execute(query).fetchall()[0][1:] == (2, 1)
        monkeypatch.setattr(series_tables, "MAX_CELLS", 5)
        with pytest.raises(OperationalError, match="Spark was started"):
            tree.execute(query)


def test_explain_says_where_a_query_runs(connection: headrace.Connection) -> None:
    near, far = "query in this process with Arrow, or on Spark if it reads many rows", "query on Spark"
    assert connection.execute("explain select count(*) from meters").fetchall()[0] == (near,)
    assert connection.execute("explain select hyperloglog(v) from meters").fetchall()[0] == (far,)


def test_a_setting_has_queries_run_on_spark(connection: headrace.Connection) -> None:
    settings = load(home=connection.session.context.settings.home, local_rows=0)
    with headrace.connect(settings=settings, database="plant") as far, pytest.raises(OperationalError, match="Spark was started"):
        far.execute("select * from meters")


def test_a_value_that_spark_refuses_is_left_to_it(connection: headrace.Connection) -> None:
    with pytest.raises(OperationalError, match="Spark was started"):
        connection.execute("select ts + 106751991167d from meters")


def test_fill_makes_no_more_windows_than_its_limit(connection: headrace.Connection) -> None:
    with pytest.raises(LimitError, match="FILL would make"):
        connection.execute("select count(*) from meters where ts >= 0 and ts < 4102444800000 interval(1a) fill(null)")
