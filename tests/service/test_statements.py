"""Statements that need no Spark: definitions, writes, SHOW, EXPLAIN."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import (
    DataError,
    ExistsError,
    IntegrityError,
    LimitError,
    NotFoundError,
    NotSupportedError,
    ProgrammingError,
    TypeMismatchError,
)
from headrace.model.spans import Span

START = 1_700_000_000_000


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def stored(connection: headrace.Connection, table: str = "readings") -> list[dict[str, Any]]:
    """Return the stored rows, without Spark."""
    context = connection.session.context
    stored_table = context.catalog.tables.get("d", table)
    rows = context.tables.scan(stored_table)
    return sorted(rows.to_pylist(), key=lambda row: (row["tbname"], row["ts"]))


def test_a_home_is_made_where_it_is_missing_and_stays_usable_after_close(tmp_path: Path) -> None:
    with headrace.connect(tmp_path / "new") as first:
        first.execute("create database kept")
    with headrace.connect(tmp_path / "new") as second:
        assert ("kept", "ms") in fetch(second, "show databases")


def test_statements_that_need_no_spark_do_not_import_it(readings: headrace.Connection) -> None:
    readings.execute("insert into dev1 values (now, 1, 2.5)")
    assert fetch(readings, "show tables") == [("dev1", "readings"), ("dev2", "readings")]
    assert not getattr(readings.session.context.spark, "started", True)


def test_describe_names_columns_and_tags(readings: headrace.Connection) -> None:
    assert fetch(readings, "describe readings") == [
        ("ts", "TIMESTAMP", None, ""),
        ("a", "INT", None, ""),
        ("b", "DOUBLE", None, ""),
        ("place", "VARCHAR", "20", "TAG"),
        ("floor", "INT", None, "TAG"),
    ]


def test_rows_of_several_subtables_are_one_commit(readings: headrace.Connection) -> None:
    tables = readings.session.context.tables
    table = readings.session.context.catalog.tables.get("d", "readings")
    before = tables.version(table)
    cursor = readings.execute(f"insert into dev1 values ({START}, 1, 1.5) ({START + 1}, 2, null) dev2 values ({START}, 3, 3.5)")
    assert cursor.rowcount == 3
    assert tables.version(table) == before + 1
    assert [(row["tbname"], row["a"], row["b"]) for row in stored(readings)] == [
        ("dev1", 1, 1.5),
        ("dev1", 2, None),
        ("dev2", 3, 3.5),
    ]


def test_a_later_row_replaces_the_columns_that_it_gives(readings: headrace.Connection) -> None:
    readings.execute(f"insert into dev1 values ({START}, 1, 1.5)")
    readings.execute(f"insert into dev1 (ts, b) values ({START}, 9.5)")
    assert [(row["a"], row["b"]) for row in stored(readings)] == [(1, 9.5)]


def test_using_creates_the_subtable_once(readings: headrace.Connection) -> None:
    for value in (1, 2):
        readings.execute(f"insert into dev3 using readings tags ('west', 3) values ({START + value}, {value}, 0)")
    assert [row[5] for row in fetch(readings, "show tags from dev3")] == ["west", "3"]
    assert len(stored(readings)) == 2


def test_a_bad_row_refuses_its_statement_and_nothing_is_written(readings: headrace.Connection) -> None:
    with pytest.raises(DataError, match="2147483647"):
        readings.execute(f"insert into dev1 values ({START}, 1, 1) dev2 values ({START}, 99999999999, 1)")
    assert stored(readings) == []


def test_rows_for_a_supertable_ask_for_the_subtable(readings: headrace.Connection) -> None:
    with pytest.raises(ProgrammingError, match="which subtable"):
        readings.execute(f"insert into readings values ({START}, 1, 1)")
    readings.execute(f"insert into readings (tbname, ts, a) values ('dev1', {START}, 7)")
    assert [(row["tbname"], row["a"]) for row in stored(readings)] == [("dev1", 7)]


def test_rows_for_a_supertable_create_subtables_with_the_tags_in_the_list(readings: headrace.Connection) -> None:
    readings.execute("create stable plants (ts timestamp, watts int) tags (site varchar(20), floor int)")
    columns, ts = "(tbname, ts, watts, floor)", START
    readings.execute(f"insert into plants {columns} values ('p1', {ts}, 1, 7) ('p2', {ts}, 2, 8) ('p1', {ts + 1}, 3, 9)")
    readings.execute(f"insert into plants {columns} values ('p1', {ts + 2}, 4, 9) ('p3', {ts}, 5, null)")
    context = readings.session.context
    table = context.catalog.tables.get("d", "plants")
    rows = context.tables.scan(table).select(["tbname", "watts"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [("p1", 1), ("p1", 3), ("p1", 4), ("p2", 2), ("p3", 5)]
    tags = context.tables.tags.read(table).sort_by("tbname").to_pylist()
    assert [(row["tbname"], row["site"], row["floor"]) for row in tags] == [("p1", None, 7), ("p2", None, 8), ("p3", None, None)]
    with pytest.raises(NotFoundError, match="plants has no subtable p4"):
        readings.execute(f"insert into plants (tbname, ts, watts) values ('p4', {ts}, 1)")
    with pytest.raises(headrace.Error, match="now as the value of a tag"):
        readings.execute(f"insert into plants {columns} values ('p5', {ts}, 1, now)")
    with pytest.raises(headrace.Error):
        readings.execute(f"insert into plants {columns} values ('p6', {ts}, 'x', 1)")
    assert [row[0] for row in readings.execute("show tables like 'p%'").fetchall()] == ["p1", "p2", "p3"]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        (f"ts = {START}", [1, 2]),
        (f"ts >= {START + 1} and ts < {START + 2}", [0, 2]),
        (f"ts in ({START}, {START + 2})", [1]),
        (f"ts between {START + 1} and {START + 9}", [0]),
        (f"ts <> {START + 1}", [1]),
        (f"ts < {START + 1} or ts > {START + 1}", [1]),
        (f"not ts > {START}", [1, 2]),
    ],
)
def test_delete_takes_ranges_of_time(readings: headrace.Connection, where: str, left: list[int]) -> None:
    readings.execute("insert into dev1 values " + " ".join(f"({START + position}, {position}, 0)" for position in range(3)))
    readings.execute(f"delete from dev1 where {where}")
    assert [row["a"] for row in stored(readings)] == left


def test_delete_from_a_supertable_chooses_subtables_by_tags(readings: headrace.Connection) -> None:
    readings.execute(f"insert into dev1 values ({START}, 1, 0) dev2 values ({START}, 2, 0)")
    assert readings.execute("delete from readings where place = 'south'").rowcount == 1
    assert [row["tbname"] for row in stored(readings)] == ["dev1"]


def test_delete_by_a_value_is_refused_with_its_place(readings: headrace.Connection) -> None:
    with pytest.raises(headrace.NotSupportedError) as caught:
        readings.execute("delete from dev1 where a = 1")
    assert "line 1, column 24" in str(caught.value)


def test_set_tag_changes_one_tag(readings: headrace.Connection) -> None:
    readings.execute("alter table dev1 set tag floor = 9")
    assert [row[5] for row in fetch(readings, "show tags from dev1")] == ["north", "9"]


def test_dropping_a_subtable_takes_its_rows_and_tags(readings: headrace.Connection) -> None:
    readings.execute(f"insert into dev1 values ({START}, 1, 0) dev2 values ({START}, 2, 0)")
    readings.execute("drop table dev1")
    assert fetch(readings, "show tables") == [("dev2", "readings")]
    assert [row["tbname"] for row in stored(readings)] == ["dev2"]
    readings.execute("create table dev1 using readings tags ('east', 5)")
    assert [row[5] for row in fetch(readings, "show tags from dev1")] == ["east", "5"]


def test_a_dropped_table_can_be_recreated_with_other_columns(connection: headrace.Connection) -> None:
    connection.execute("create table t (ts timestamp, a int)")
    connection.execute(f"insert into t values ({START}, 1)")
    connection.execute("drop table t")
    connection.execute("create table t (ts timestamp, b varchar(5))")
    connection.execute(f"insert into t values ({START}, 'x')")
    assert [row["b"] for row in stored(connection, "t")] == ["x"]


@pytest.mark.parametrize(
    ("sql", "error", "says"),
    [
        ("create database d", ExistsError, "exists already"),
        ("create stable readings (ts timestamp, a int) tags (x int)", ExistsError, "already exists"),
        ("create table dev1 using readings tags ('x', 1)", ExistsError, "already exists"),
        ("create table t (a int, ts timestamp)", TypeMismatchError, "first column"),
        ("create table t (ts timestamp, a int, a int)", ProgrammingError, "twice"),
        ("create table t (ts timestamp, tbname int)", ProgrammingError, "tbname"),
        ("create table t (ts timestamp, a int, b int primary key)", ProgrammingError, "second column"),
        ("create table t using nothing tags (1)", NotFoundError, "nothing"),
        ("create table t using readings tags (1)", ProgrammingError, "1 tag values for 2 tags"),
        ("create table t using readings (height) tags (1)", NotFoundError, "no tag height"),
        ("use nowhere", NotFoundError, "nowhere"),
        ("insert into dev9 values (now, 1, 1)", NotFoundError, "dev9"),
        ("drop table dev9", NotFoundError, "dev9"),
        ("show tags from dev9", NotFoundError, "dev9"),
        ("drop stream s", NotFoundError, "s"),
    ],
)
def test_an_invalid_statement_is_refused_with_its_error(
    readings: headrace.Connection, sql: str, error: type[headrace.Error], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        readings.execute(sql)
    assert caught.value.hint


@pytest.mark.parametrize(
    "sql",
    [
        "create database if not exists d",
        "create stable if not exists readings (ts timestamp, a int) tags (x int)",
        "create table if not exists dev1 using readings tags ('x', 1)",
        "drop table if exists dev9",
        "drop database if exists nowhere",
        "drop stream if exists s",
        "pause stream if exists s",
        "resume stream if exists s",
    ],
)
def test_if_exists_forgives(readings: headrace.Connection, sql: str) -> None:
    readings.execute(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "drop table {}",
        "describe {}",
        "show create table {}",
        "show create stream {}",
        "show create database {}",
        "drop database {}",
        "use {}",
        "drop stream {}",
        "reset stream {}",
        "alter table {} add column x int",
        "insert into {} values (now, 1)",
        "delete from {}",
    ],
)
def test_an_error_shows_the_name_that_does_not_exist(readings: headrace.Connection, sql: str) -> None:
    with pytest.raises(NotFoundError) as raised:
        readings.execute(sql.format("missing"))
    start = sql.index("{}")
    assert raised.value.span == Span(start, start + len("missing"))


@pytest.mark.parametrize(
    "sql", ["select * from readings", "select count(*) from readings", "create stream s into o as select * from t"]
)
def test_a_name_without_a_database_says_so(tmp_path: Path, sql: str) -> None:
    with headrace.connect(tmp_path) as connection, pytest.raises(headrace.NoDatabaseError, match="database"):
        connection.execute(sql)


def test_a_database_takes_its_tables_along(readings: headrace.Connection) -> None:
    readings.execute("drop database d")
    assert fetch(readings, "show databases") == []
    with pytest.raises(ProgrammingError, match="no database"):
        readings.execute("show tables")


def test_a_table_that_a_stream_reads_is_not_dropped(readings: headrace.Connection) -> None:
    readings.execute("create stream s trigger at_once into out1 as select _wstart, count(*) from readings interval(10s)")
    with pytest.raises(IntegrityError, match="stream"):
        readings.execute("drop stable readings")
    assert len(fetch(readings, "show tables")) == 2


def test_explain_describes_create_stream_without_applying_it(readings: headrace.Connection) -> None:
    sql = "create stream s fill_history 1 into out1 as select _wstart, avg(b) from readings partition by tbname interval(1m)"
    lines = [line for (line,) in fetch(readings, f"explain {sql}")]
    assert any(line.startswith("create target d.out1") for line in lines)
    assert any("WINDOW_CLOSE" in line for line in lines)
    assert any("fill history" in line for line in lines)
    assert fetch(readings, "show streams") == []
    assert fetch(readings, "show stables") == [("readings",)]


def test_a_limit_is_named_when_the_statement_is_planned(readings: headrace.Connection) -> None:
    with pytest.raises(LimitError):
        readings.execute(
            "create stream s into out1 as select _wstart, count(*) from readings interval(10s) sliding(10ms)".replace("ms", "a")
        )


def test_system_tables_answer_queries(readings: headrace.Connection) -> None:
    query = 'select table_name from information_schema.ins_tables where db_name = "d" order by 1 desc'
    assert fetch(readings, query) == [("dev2",), ("dev1",)]
    relation = "information_schema.ins_columns"
    assert fetch(readings, f"select count(*) from {relation}") == [(3,)]
    assert fetch(readings, f"select col_name from {relation} where position > 0 order by position desc limit 1") == [("b",)]
    assert fetch(readings, f"select col_name from {relation} where col_type like 'TIME%' or col_name = 'a'") == [("ts",), ("a",)]
    keeps = "select `trigger`.keep from information_schema.ins_databases `trigger` union all select 'it''s' order by 1"
    assert fetch(readings, keeps) == [(None,), ("it's",)]
    assert not getattr(readings.session.context.spark, "started", True)
    with pytest.raises(NotFoundError):
        readings.execute("select nothing from information_schema.ins_tables")
    with pytest.raises(NotSupportedError, match="match is not supported"):
        readings.execute("select 'a' match 'b' from information_schema.ins_tables")


def test_show_create_can_be_executed_again(readings: headrace.Connection) -> None:
    ((_, text),) = fetch(readings, "show create stable readings")
    readings.execute("drop stable readings")
    readings.execute(text)
    assert [row[0] for row in fetch(readings, "describe readings")] == ["ts", "a", "b", "place", "floor"]


def test_closed_things_say_so(tmp_path: Path) -> None:
    connection = headrace.connect(tmp_path)
    cursor = connection.cursor()
    connection.close()
    connection.close()
    with pytest.raises(headrace.InterfaceError, match="closed"):
        cursor.execute("show databases")
    with pytest.raises(headrace.InterfaceError, match="closed"):
        connection.cursor()


def test_the_package_itself_is_light() -> None:
    import subprocess

    code = "import sys, headrace; print([name for name in ('pandas', 'pyspark', 'sqlalchemy', 'pyarrow') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_today_is_midnight_in_the_time_zone_of_the_database(connection: headrace.Connection) -> None:
    connection.execute("create database e timezone 'Asia/Tokyo'")
    connection.execute("create table e.x (ts timestamp, a int)")
    connection.execute("insert into e.x values (today, 1) (today + 1h, 2) (now, 3)")
    assert connection.execute("delete from e.x where ts < today").rowcount == 0
    assert connection.execute("delete from e.x where ts = '2023-11-15 00:00:00'").rowcount == 1
    assert connection.execute("delete from e.x where ts = today + 1h").rowcount == 1


def test_the_tables_of_a_database_are_compacted(readings: headrace.Connection) -> None:
    for second in range(3):
        readings.execute(f"insert into dev1 values ({START + second * 1000}, 1, 1)")
    assert fetch(readings, "explain compact database d")[0] == (
        "compact the tables of database d, and remove files that nothing needs",
    )
    assert fetch(readings, "compact database d") == [("d.readings", 3, 0, "")]
    assert fetch(readings, "select count(*) from readings") == [(3,)]
    readings.execute("flush database d")
    with pytest.raises(NotFoundError):
        readings.execute("flush database e")


def test_the_files_of_a_range_of_time_are_compacted(readings: headrace.Connection) -> None:
    for second in range(5):
        readings.execute(f"insert into dev1 values ({START + second * 1000}, 1, 1)")
    assert fetch(readings, f"explain compact database d end with {START}")[0] == (
        "compact files with rows of a range of time, of the tables of database d, and remove files that nothing needs",
    )
    assert fetch(readings, f"compact database d end with {START - 1}") == [("d.readings", 0, 0, "")]
    statement = f"compact database d start with '2023-11-14 22:13:21' end with {START + 2000}"
    assert fetch(readings, statement) == [("d.readings", 2, 0, "")]
    assert fetch(readings, "compact database d") == [("d.readings", 4, 0, "")]
    with pytest.raises(DataError, match="no instant"):
        readings.execute("compact database d start with 'soon'")
