"""Queries and streams through the connection, on Spark."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import headrace
from headrace.compute import Scan
from headrace.errors import LimitError, NotSupportedError
from headrace.queries import evaluation
from headrace.runtime.table_maintenance import maintain
from tests.service.conftest import on_spark
from tests.support.drawing import NOTE, is_drawn

START = 1_700_000_000_000
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def at(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


def test_a_query_sees_new_series_with_their_tags_or_not_at_all(readings: headrace.Connection) -> None:
    readings.execute(f"insert into dev1 values ({START}, 1, 1.5)")
    context = readings.session.context
    table, database = context.catalog.tables.get("d", "readings"), context.catalog.databases.get("d")
    frame = evaluation.read_scan(Scan(table, database, None, None, ("ts", "place", "tbname")), context)
    readings.execute(f"insert into dev9 using readings tags ('west', 9) values ({START + 1}, 2, 2.5)")
    assert [(row.tbname, row.place) for row in frame.collect()] == [("dev1", "north")]


def test_rows_come_as_tuples_and_as_arrow(readings: headrace.Connection) -> None:
    readings.execute(f"insert into dev1 values ({START}, 1, 1.5) dev2 values ({START + 1}, 2, null)")
    cursor = readings.execute("select ts, a, b, place, tbname from readings order by ts")
    assert [column[0] for column in cursor.description or []] == ["ts", "a", "b", "place", "tbname"]
    assert cursor.fetch_arrow_table().num_rows == cursor.rowcount == 2
    assert cursor.fetchone() == (at(START), 1, 1.5, "north", "dev1")
    assert cursor.fetchall() == [(at(START + 1), 2, None, "south", "dev2")]


def test_a_stream_is_a_maintained_query(readings: headrace.Connection) -> None:
    query = "select _wstart, count(*) n, sum(a) total, avg(b) mean from readings partition by tbname interval(10s)"
    readings.execute(f"create stream s trigger at_once ignore update 0 ignore expired 0 into out1 as {query}")
    readings.execute(f"insert into dev1 values ({START}, 1, 1) ({START + 9_000}, 2, 2) dev2 values ({START + 30_000}, 3, 3)")
    readings.settle()
    readings.execute(f"insert into dev1 values ({START}, 10, null) ({START + 1_000}, 4, 4)")
    readings.execute(f"delete from dev2 where ts = {START + 30_000}")
    readings.settle()
    maintained = fetch(readings, "select `_wstart`, n, total, mean from out1 order by 1")
    assert maintained == fetch(readings, f"{query} order by 1")
    assert maintained == [(at(START), 3, 16, 3.0)]


def test_streams_feed_streams(readings: headrace.Connection) -> None:
    readings.execute("create stream one trigger at_once into m1 as select _wstart ts, count(*) n from readings interval(10s)")
    readings.execute(
        "create stream two trigger at_once ignore update 0 into m2 as select _wstart ts, sum(n) n from m1 interval(1m)"
    )
    readings.execute("insert into dev1 values " + " ".join(f"({START + position * 5_000}, {position}, 0)" for position in range(6)))
    readings.settle()
    assert [row[1] for row in fetch(readings, "select ts, n from m2")] == [6]


def test_history_is_filled_and_continues_live(readings: headrace.Connection) -> None:
    readings.execute(f"insert into dev1 values ({START}, 1, 0) ({START + 11_000}, 2, 0)")
    readings.execute(
        "create stream s trigger at_once fill_history 1 into out1 as select _wstart, sum(a) t from readings interval(10s)"
    )
    readings.execute(f"insert into dev1 values ({START + 12_000}, 5, 0) ({START + 21_000}, 7, 0)")
    readings.settle()
    assert [row[1] for row in fetch(readings, "select `_wstart`, t from out1 order by 1")] == [1, 7, 7]


def test_a_paused_stream_catches_up_or_skips(readings: headrace.Connection) -> None:
    readings.execute("create stream s trigger at_once into out1 as select _wstart, count(*) n from readings interval(10s)")

    def write_and_count(position: int) -> int:
        readings.execute(f"insert into dev1 values ({START + position * 10_000}, 1, 0)")
        readings.settle()
        return len(fetch(readings, "select n from out1"))

    assert write_and_count(0) == 1
    readings.execute("pause stream s")
    assert write_and_count(1) == 1
    readings.execute("resume stream s")
    assert write_and_count(2) == 3
    readings.execute("pause stream s")
    assert write_and_count(3) == 3
    readings.execute("resume stream ignore untreated s")
    assert write_and_count(4) == 4


def test_every_row_is_accounted_for(readings: headrace.Connection) -> None:
    query = "select _wstart, count(*) n from readings where a > 0 interval(10s)"
    readings.execute(f"create stream s trigger at_once into out1 as {query}")
    readings.execute(f"insert into dev1 values ({START}, 1, 0) ({START + 50_000}, 1, 0) ({START + 51_000}, -1, 0)")
    readings.settle()
    readings.execute(f"insert into dev1 values ({START + 1_000}, 1, 0)")
    readings.settle()
    columns = "rows_in, rows_used, rows_filtered, rows_expired, rows_pending"
    ((rows_in, *parts),) = fetch(readings, f"select {columns} from information_schema.ins_stream_progress")
    assert (rows_in, *parts) == (4, 2, 1, 1, 0)


def test_a_dropped_stream_leaves_its_table(readings: headrace.Connection) -> None:
    readings.execute("create stream s trigger at_once into out1 as select _wstart, count(*) n from readings interval(10s)")
    readings.execute(f"insert into dev1 values ({START}, 1, 0)")
    readings.settle()
    readings.execute("drop stream s")
    assert fetch(readings, "show streams") == []
    assert fetch(readings, "select n from out1") == [(1,)]


def test_a_range_without_ends_is_all_that_is_closed(readings: headrace.Connection) -> None:
    readings.execute("create stream s trigger at_once into out1 as select _wstart, count(*) n from readings session(ts, 5s)")
    readings.execute(f"insert into dev1 values ({START + 60_000}, 1, 0)")
    readings.settle()
    readings.execute(f"insert into dev1 values ({START}, 1, 0)")
    readings.settle()
    assert [row[0] for row in fetch(readings, "select n from out1")] == [1]
    assert readings.backfill(stream="d.s", progress=lambda *_: None) == 1
    assert [row[0] for row in fetch(readings, "select n from out1")] == [1, 1]
    with pytest.raises(headrace.ProgrammingError, match="is empty"):
        readings.backfill(stream="d.s", start="2024-05-02", end="2024-05-01", progress=lambda *_: None)


def test_the_zone_of_the_database_counts_everywhere(connection: headrace.Connection) -> None:
    connection.execute("create database tokyo timezone 'Asia/Tokyo'")
    connection.execute("create table tokyo.x (ts timestamp, a int)")
    query = "select _wstart, sum(a) total from tokyo.x interval(1d)"
    connection.execute(f"create stream tokyo.days trigger at_once into tokyo.by_day as {query}")
    connection.execute(
        "insert into tokyo.x values ('2024-05-01 00:30:00', 1) ('2024-05-01 23:30:00', 2) ('2024-05-02 00:00:00', 4)"
    )
    connection.settle()
    first, second = dt.datetime(2024, 4, 30, 15, tzinfo=dt.UTC), dt.datetime(2024, 5, 1, 15, tzinfo=dt.UTC)
    assert fetch(connection, query) == [(first, 3), (second, 4)]
    assert fetch(connection, "select _wstart, total from tokyo.by_day") == [(first, 3), (second, 4)]
    assert fetch(connection, "select a from tokyo.x where ts < '2024-05-01 12:00:00'") == [(1,)]
    assert fetch(connection, "select timezone() from tokyo.x limit 1") == [("Asia/Tokyo",)]


def test_a_stream_of_sliding_days_counts_each_row_once_and_equals_the_query_where_the_clock_is_put_back(
    connection: headrace.Connection,
) -> None:
    connection.execute("create database berlin timezone 'Europe/Berlin'")
    connection.execute("use berlin")
    connection.execute("create table hours (ts timestamp, v int)")
    query = "select _wstart, _wend, count(*) n from hours interval(1d) sliding(1h)"
    connection.execute(f"create stream s trigger at_once into out1 as {query}")
    change = 1_729_990_800_000
    connection.execute(
        "insert into hours values " + " ".join(f"({change + 900_000 * position}, {position})" for position in range(-8, 8))
    )
    connection.settle()
    assert fetch(connection, "select rows_in, rows_used from information_schema.ins_stream_progress") == [(16, 16)]
    assert fetch(connection, "select _wstart, _wend, n from out1 order by 1") == fetch(connection, f"{query} order by 1")


@pytest.mark.parametrize(
    "query", ["select _wstart, sum(a) from dev1 interval(1s) fill(prev)", "select interp(a) from dev1 every(1s) fill(prev)"]
)
def test_rows_years_apart_are_filled_within_limits_only(readings: headrace.Connection, query: str) -> None:
    readings.execute(f"insert into dev1 values (0, 1, 0) ({START}, 2, 0)")
    with pytest.raises(LimitError, match="would make 1699999999"):
        fetch(readings, query)
    assert len(fetch(readings, query.replace("1s", "7d"))) > 1


@pytest.fixture
def tagless(readings: headrace.Connection) -> headrace.Connection:
    """Return `readings` with rows of dev1, of dev2 whose tags were lost, and of `stranger`, added by another writer."""
    readings.execute(f"insert into dev1 values ({START}, 1, 1.5) dev2 values ({START}, 2, 2.5) ({START + 1}, 3, null)")
    context = readings.session.context
    table = context.catalog.tables.get("d", "readings")
    stored = context.tables.scan(table, tbnames=["dev1"])
    strange = stored.set_column(stored.column_names.index("tbname"), "tbname", pa.array(["stranger"]))
    write_deltalake(str(Path(context.tables.uri) / "d" / "readings" / "rows"), strange, mode="append")
    context.tables.tags.drop(table, ["dev2"])
    return readings


@pytest.mark.parametrize("many", [evaluation.MIN_LARGE_TABLE_ROWS, 1])
def test_rows_of_subtables_without_tags_are_found(tagless: headrace.Connection, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(evaluation, "MIN_LARGE_TABLE_ROWS", many)
    by_name = "select tbname, count(*), sum(a) from readings partition by tbname interval(1d) order by tbname"
    assert fetch(tagless, by_name) == [("dev1", 1, 1), ("dev2", 2, 5), ("stranger", 1, 1)]
    by_tag = "select place, count(*) from readings group by place order by place"
    assert fetch(tagless, by_tag) == [(None, 3), ("north", 1)]
    tagged = "select tbname, place, count(*) from readings partition by tbname, place session(ts, 1s) order by tbname"
    assert fetch(tagless, tagged) == [("dev1", "north", 1), ("dev2", None, 2), ("stranger", None, 1)]
    assert fetch(tagless, "select tbname from readings where floor is null and a = 1") == [("stranger",)]


def test_a_subtable_written_during_a_large_query_keeps_its_name(
    tagless: headrace.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "MIN_LARGE_TABLE_ROWS", 1)
    original = evaluation.Statistics.size
    written: list[Any] = []

    def size_then_write(self: evaluation.Statistics, scan: Any) -> Any:
        statistics = original(self, scan)
        if not written:
            written.append(tagless.execute(f"insert into dev9 using readings tags ('west', 9) values ({START}, 9, 9)"))
        return statistics

    monkeypatch.setattr(evaluation.Statistics, "size", size_then_write)
    with on_spark(tagless) as far:
        names = [row[0] for row in fetch(far, "select tbname, count(*) from readings partition by tbname interval(1d)")]
    assert sorted(names) == ["dev1", "dev2", "dev9", "stranger"]


@pytest.mark.parametrize(
    "repair",
    [
        f"insert into dev2 using readings tags ('south', 2) values ({START + 2}, 4, 4)",
        "create table if not exists dev2 using readings tags ('south', 2)",
        "alter table dev2 set tag place = 'south', floor = 2",
    ],
)
def test_lost_tags_come_back(tagless: headrace.Connection, repair: str) -> None:
    tagless.execute(repair)
    assert fetch(tagless, "select place, floor from readings where tbname = 'dev2' limit 1") == [("south", 2)]
    tagless.execute(f"insert into dev1 using readings tags ('other', 7) values ({START + 2}, 4, 4)")
    assert fetch(tagless, "select distinct place from readings where tbname = 'dev1'") == [("north",)]


def test_delete_reaches_subtables_without_tags(tagless: headrace.Connection) -> None:
    assert tagless.execute("delete from readings where tbname = 'stranger'").rowcount == 1
    assert tagless.execute(f"delete from readings where floor is null and ts = {START}").rowcount == 1
    assert fetch(tagless, "select tbname, a from readings order by tbname") == [("dev1", 1), ("dev2", 3)]


def test_maintenance_registers_subtables_of_other_writers(tagless: headrace.Connection) -> None:
    maintain(tagless.session.context)
    tagless.execute("alter table stranger set tag place = 'east'")
    tagless.execute(f"insert into dev2 using readings tags ('south', 2) values ({START + 2}, 4, 4)")
    names = fetch(tagless, "select tbname, place from readings group by tbname, place order by tbname")
    assert names == [("dev1", "north"), ("dev2", "south"), ("stranger", "east")]


COUNTED = (
    ("select tbname, count(*), sum(a) from readings partition by tbname", [("dev1", 2, 3), ("dev2", 1, 5), ("dev3", 0, None)]),
    ("select tbname, count(b) from readings where a > 1 group by tbname", [("dev1", 1), ("dev2", 0), ("dev3", 0)]),
    ("select place, count(*), avg(a) from readings where a > 100 group by place", [("north", 0, None), ("south", 0, None)]),
    ("select place, count(*) from readings where a > 100 and place = 'south' partition by place", [("south", 0)]),
    ("select place, count(*) from readings where a > 100 and floor > 2 and 1 = 1 partition by place", [("south", 0)]),
    ("select place, count(*) from readings where a > 100 or place = 'south' group by place", [("north", 0), ("south", 1)]),
    (
        "select tbname, place, floor, count(*) + 1 from readings partition by tbname",
        [("dev1", "north", 1, 3), ("dev2", "south", 2, 2), ("dev3", "south", 3, 1)],
    ),
    (
        "select upper(tbname), count(*) n, hyperloglog(a) from readings partition by upper(tbname) having count(*) < 1",
        [("DEV3", 0, 0)],
    ),
    ("select tbname from readings group by tbname having count(*) = 0", [("dev3",)]),
    ("select tbname, count(*) from dev3 partition by tbname", [("dev3", 0)]),
    ("select tbname, sum(a) from readings partition by tbname", [("dev1", 3), ("dev2", 5)]),
    ("select tbname, a, count(*) from readings where a > 2 partition by tbname, a", [("dev2", 5, 1)]),
    ("select tbname, count(*) from readings where a > 2 partition by tbname interval(1d)", [("dev2", 1)]),
    ("select count(*) n from (select tbname, count(*) c from readings partition by tbname)", [(3,)]),
    ("select tbname, count(*) from (select tbname, a from readings) group by tbname", [("dev1", 2), ("dev2", 1)]),
    (
        "select tbname, _group_key(place), count(*) from readings group by tbname",
        [("dev1", "north", 2), ("dev2", "south", 1), ("dev3", None, 0)],
    ),
)


@pytest.mark.parametrize("many", [evaluation.MIN_LARGE_TABLE_ROWS, 1])
def test_a_query_that_counts_has_a_group_for_each_subtable(
    readings: headrace.Connection, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """Count like TDengine: without a window, grouped by tags and `tbname` alone; conditions on these select the subtables."""
    monkeypatch.setattr(evaluation, "MIN_LARGE_TABLE_ROWS", many)
    readings.execute("create table dev3 using readings tags ('south', 3)")
    readings.execute(f"insert into dev1 values ({START}, 1, 1.5) ({START + 1}, 2, 2.5) dev2 values ({START}, 5, null)")
    for query, rows in COUNTED:
        if many > 1:
            assert sorted(fetch(readings, query), key=repr) == rows, query
            assert readings.verify(query).equal, query
        elif is_drawn(query, 3):
            assert sorted(fetch(readings, query), key=repr) == rows, f"{query} ({NOTE})"


def test_tags_have_a_row_for_each_subtable(readings: headrace.Connection) -> None:
    readings.execute("create table dev3 using readings (place) tags ('north')")
    readings.execute("insert into dev1 values (now, 1, 1)")
    assert fetch(readings, "select tags tbname, place from readings order by tbname") == [
        ("dev1", "north"),
        ("dev2", "south"),
        ("dev3", "north"),
    ]
    assert fetch(readings, "select tags upper(place) p from readings where floor is null or tbname = 'dev1'") == [("NORTH",)] * 2
    assert fetch(readings, "select tags place from readings order by tbname desc limit 2") == [("north",), ("south",)]
    assert fetch(readings, "select tags floor from dev2") == [(2,)]
    assert readings.verify("select tags tbname, floor from readings").equal


def test_queries_that_refer_to_their_range_of_time_are_verified(readings: headrace.Connection) -> None:
    readings.execute(f"insert into dev1 values ({START + 7000}, 1, 1) ({START + 9000}, 2, 1) ({START + 18_000}, 3, 1)")
    condition = f"ts between {START + 7000} and {START + 20_000}"
    query = f"select _wstart, _qduration, sum(a) from readings where {condition} interval(10s, auto)"
    assert fetch(readings, query) == [(at(START + 7000), 13_000, 3), (at(START + 17_000), 13_000, 3)]
    assert readings.verify(query).equal
    assert readings.verify(f"select _qstart, _qend, a from readings where ts > {START} and ts < {START + 9000}").equal


def test_explain_analyze_runs_a_query_and_shows_what_it_did(readings: headrace.Connection) -> None:
    readings.execute(f"insert into dev1 values ({START}, 1, 1.5) ({START + 1}, 2, 1.5) dev2 values ({START + 20_000}, 2, null)")
    query = "select _wstart, count(*) from readings where a > 1 interval(10s)"
    with on_spark(readings) as spark:
        far = [row[0] for row in fetch(spark, f"explain analyze {query}")]
    near = [row[0] for row in fetch(readings, f"explain analyze {query}")]
    explained = [row[0] for row in fetch(readings, f"explain {query}")]
    for lines in (far, near):
        assert lines[: len(explained) - 1] == explained[:-1]
        assert [re.sub(r"[\d.]+", "N", line) for line in lines[-2:]] == ["Planning Time: N ms", "Execution Time: N ms"]
    assert far[-4] == "computed by Spark SQL: 2 rows"
    assert re.fullmatch(r"read by Spark: 3 rows of 1 file, [\d,]+ bytes", far[-3])
    assert near[-4] == "computed by this process, with Arrow: 2 rows"


def test_verbose_shows_the_operators_of_spark(readings: headrace.Connection) -> None:
    readings.execute(f"insert into dev1 values ({START}, 1, 1.5) ({START + 1}, 2, 1.5)")
    with on_spark(readings) as far:
        lines = [row[0] for row in fetch(far, "explain analyze verbose true select sum(a) from readings where b > 1 and a = 2")]
    operators = [line for line in lines if "->" in line]
    assert any(re.match(r"->", line) for line in operators)
    assert any(re.search(r" +-> Filter \(rows=1\)", line) for line in operators)
    assert re.search(r" +-> Scan parquet \(rows=2, files=1, bytes=\d+", operators[-1])


@pytest.mark.parametrize("statement", ["delete from dev1", "show tables", "select * from information_schema.ins_tables"])
def test_explain_analyze_executes_nothing_but_queries(readings: headrace.Connection, statement: str) -> None:
    with pytest.raises(NotSupportedError, match="runs only queries"):
        readings.execute(f"explain analyze {statement}")
