"""ALTER TABLE and ALTER STABLE: effects, refusals, and recovery from crashes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import (
    Error,
    ExistsError,
    IntegrityError,
    LimitError,
    NotFoundError,
    NotSupportedError,
    ProgrammingError,
    TransientError,
    TypeMismatchError,
)
from headrace.model.failpoints import FailpointError, armed, calling
from tests.service.conftest import START
from tests.support.racing import race

Rows = list[tuple[Any, ...]]


def fetch(connection: headrace.Connection, sql: str) -> Rows:
    return connection.execute(sql).fetchall()


def describe_columns(connection: headrace.Connection, table: str = "readings") -> list[str]:
    return [" ".join(str(part) for part in row if part) for row in fetch(connection, f"describe {table}")]


def stored(connection: headrace.Connection, table: str = "readings") -> list[dict[str, Any]]:
    """Return the stored rows, without Spark."""
    context = connection.session.context
    rows = context.tables.scan(context.catalog.tables.get("d", table))
    return sorted(rows.drop_columns(["ts", "tbname"]).to_pylist(), key=str)


@pytest.fixture
def other(readings: headrace.Connection, tmp_path: Path) -> Iterator[headrace.Connection]:
    """Return another connection to the same home, whose handles have read the table before it changes."""
    assert describe_columns(readings), "the table exists before it is opened here"
    with headrace.connect(tmp_path / "home", clock=headrace.ManualClock(START)) as opened:
        opened.execute("use d")
        opened.execute(f"insert into dev2 values ({START}, 0, 0)")
        yield opened


def test_a_column_is_added_for_all_connections(readings: headrace.Connection, other: headrace.Connection) -> None:
    readings.execute("alter stable readings add column c varchar(8)")
    assert describe_columns(other) == ["ts TIMESTAMP", "a INT", "b DOUBLE", "c VARCHAR 8", "place VARCHAR 20 TAG", "floor INT TAG"]
    other.execute(f"insert into dev1 values ({START}, 1, 1.5, 'new')")
    readings.execute(f"insert into dev1 (ts, a) values ({START}, 2) ({START + 1}, 3)")
    assert (
        stored(readings)
        == stored(other)
        == [
            {"a": 0, "b": 0.0, "c": None},
            {"a": 2, "b": 1.5, "c": "new"},
            {"a": 3, "b": None, "c": None},
        ]
    )


def test_files_are_loaded_into_an_added_column(readings: headrace.Connection, other: headrace.Connection, tmp_path: Path) -> None:
    readings.execute("alter table readings add column c varchar(8)")
    path = tmp_path / "rows.csv"
    path.write_text(f"tbname,ts,a,b,c\ndev1,{START},1,2,loaded\n")
    other.load([path], "readings", progress=lambda *_: None)
    assert {"a": 1, "b": 2.0, "c": "loaded"} in stored(readings)


def test_the_name_of_a_dropped_column_cannot_be_reused(readings: headrace.Connection, other: headrace.Connection) -> None:
    readings.execute("alter table readings drop column b")
    assert stored(other) == [{"a": 0}]
    other.execute(f"insert into dev1 values ({START}, 7)")
    assert stored(readings) == [{"a": 0}, {"a": 7}]
    with pytest.raises(ProgrammingError):
        other.execute(f"insert into dev1 (ts, b) values ({START}, 1)")
    with pytest.raises(ExistsError, match="dropped"):
        other.execute("alter table readings add column b double")


def test_a_lengthened_text_column_is_checked_by_its_new_length(readings: headrace.Connection, other: headrace.Connection) -> None:
    readings.execute("create table notes (ts timestamp, a varchar(2))")
    with pytest.raises(Error, match="'long'"):
        other.execute(f"insert into notes values ({START}, 'long')")
    readings.execute("alter table notes modify column a varchar(4)")
    other.execute(f"insert into notes values ({START}, 'long')")
    assert stored(readings, "notes") == [{"a": "long"}]


def test_tags_are_added_renamed_widened_and_dropped(readings: headrace.Connection, other: headrace.Connection) -> None:
    readings.execute("alter stable readings add tag owner nchar(4)")
    other.execute("alter table dev1 set tag owner = 'ann', floor = 3")
    readings.execute("alter stable readings rename tag place `Site`")
    other.execute("alter stable readings modify tag `Site` varchar(40)")
    readings.execute("alter stable readings drop tag floor")
    other.execute("create table dev3 using readings tags ('a place with a long name', 'bob')")
    rows = [row[3:] for row in fetch(other, "show tags from readings")]
    assert sorted(rows, key=str) == sorted(
        [
            ("Site", "VARCHAR(40)", "north"),
            ("owner", "NCHAR(4)", "ann"),
            ("Site", "VARCHAR(40)", "south"),
            ("owner", "NCHAR(4)", None),
            ("Site", "VARCHAR(40)", "a place with a long name"),
            ("owner", "NCHAR(4)", "bob"),
        ],
        key=str,
    )


def test_a_column_of_a_plain_table_is_renamed(readings: headrace.Connection, other: headrace.Connection, tmp_path: Path) -> None:
    readings.execute("create table plain (ts timestamp, a int, b double, c varchar(4))")
    other.execute(f"insert into plain values ({START}, 1, 1.5, 'one') ({START + 1}, 2, null, 'two')")
    readings.execute("alter table plain rename column a `Watts`")
    assert describe_columns(other, "plain") == ["ts TIMESTAMP", "Watts INT", "b DOUBLE", "c VARCHAR 4"]
    assert "(ts TIMESTAMP, `Watts` INT, b DOUBLE, c VARCHAR(4))" in fetch(other, "show create table plain")[0][1]
    other.execute(f"insert into plain values ({START + 2}, 3, 3.5, 'tree')")
    other.execute(f"insert into plain (ts, `Watts`) values ({START}, 10) ({START + 3}, 4)")
    path = tmp_path / "rows.csv"
    path.write_text(f"ts,Watts,b\n{START + 4},5,5.5\n{START + 1},20,\n")
    other.load([path], "plain", progress=lambda *_: None)
    other.execute(f"delete from plain where ts = {START + 3}")
    listed = [(10, 1.5, "one"), (20, None, "two"), (3, 3.5, "tree"), (5, 5.5, None)]
    rows = [dict(zip(("Watts", "b", "c"), values, strict=True)) for values in listed]
    for connection in (readings, other):
        assert stored(connection, "plain") == sorted(rows, key=str)
    with pytest.raises(ProgrammingError, match="a"):
        other.execute(f"insert into plain (ts, a) values ({START}, 7)")
    with pytest.raises(ExistsError, match="dropped"):
        readings.execute("alter table plain rename column `Watts` a")
    readings.execute("alter table plain modify column c varchar(9)")
    readings.execute("alter table plain rename column c d")
    readings.execute("alter table plain drop column b")
    assert describe_columns(other, "plain") == ["ts TIMESTAMP", "Watts INT", "d VARCHAR 9"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_queries_read_a_renamed_column(readings: headrace.Connection) -> None:
    readings.execute("create table plain (ts timestamp, a int, b double)")
    readings.execute(f"insert into plain values ({START}, 1, 1.5) ({START + 1}, 2, 2.5)")
    readings.execute("alter table plain rename column a c")
    assert fetch(readings, "select c, b from plain where c > 1") == [(2, 2.5)]
    assert fetch(readings, "select sum(c), count(b) from plain interval(1m)") == [(3, 2)]
    assert [row[1:] for row in fetch(readings, "select * from plain")] == [(1, 1.5), (2, 2.5)]


def test_a_comment_is_shown_until_it_is_removed(readings: headrace.Connection, other: headrace.Connection) -> None:
    readings.execute("create table plain (ts timestamp, a int) comment 'one of its kind'")
    readings.execute("alter stable readings comment 'all of them'")
    comments = "select table_name, table_comment from information_schema.ins_tables where db_name = 'd' and type = 'NORMAL_TABLE'"
    assert fetch(other, comments) == [("plain", "one of its kind")]
    assert fetch(other, "select stable_name, table_comment from information_schema.ins_stables") == [("readings", "all of them")]
    assert fetch(other, "show create stable readings")[0][1].endswith("COMMENT 'all of them'")
    other.execute("alter table plain comment ''")
    readings.execute("alter stable readings ttl 0")
    assert fetch(readings, comments) == [("plain", None)]
    assert "all of them" in fetch(readings, "show create stable readings")[0][1]


def test_options_of_a_database_are_changed_and_shown(readings: headrace.Connection, other: headrace.Connection) -> None:
    readings.execute("create database e precision 'us' keep 3650 vgroups 2 timezone 'Europe/Oslo'")
    readings.execute("alter database e keep 10d,20d cachemodel 'both'")
    shown = "CREATE DATABASE e PRECISION 'us' KEEP 10d,20d VGROUPS 2 CACHEMODEL 'both' TIMEZONE 'Europe/Oslo'"
    assert fetch(other, "show create database e") == [("e", shown)]
    other.execute("create database other" + shown.partition(" e")[2])
    assert fetch(other, "select name, keep from information_schema.ins_databases where keep is not null order by 1") == [
        ("e", "10d,20d"),
        ("other", "10d,20d"),
    ]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("alter database d keep «2n»", LimitError, "no fixed length"),
        ("alter table «dev1» comment 'x'", ProgrammingError, "subtable"),
        ("alter stable «plain» comment 'x'", ProgrammingError, "plain table"),
        ("alter table readings add column «a int»", ExistsError, "column a already"),
        ("alter table readings add column «floor int»", ExistsError, "tag floor already"),
        ("alter table readings add tag «b int»", ExistsError, "column b already"),
        ("alter table readings add column «`A` int»", LimitError, "ignores case"),
        ("alter table readings add column «tbname int»", ProgrammingError, "tbname"),
        ("alter table readings drop column «ts»", IntegrityError, "key"),
        ("alter table readings drop column «c»", NotFoundError, "no column or tag c"),
        ("alter table readings drop column «floor»", NotFoundError, "no column floor"),
        ("alter table readings drop tag «a»", NotFoundError, "no tag a"),
        ("alter table readings modify column «a bigint»", NotSupportedError, "cannot become BIGINT"),
        ("alter table readings modify tag «place varchar(5)»", TypeMismatchError, "only grow"),
        ("alter table readings rename column «a c»", NotSupportedError, "supertable"),
        ("alter stable «plain» rename column a c", ProgrammingError, "plain table"),
        ("alter table plain rename column «ts time»", IntegrityError, "key"),
        ("alter table plain rename column «a a»", ExistsError, "column a already"),
        ("alter table plain rename column «a ts»", ExistsError, "column ts already"),
        ("alter table plain rename column «a `A`»", LimitError, "ignores case"),
        ("alter table plain rename column «a tbname»", ProgrammingError, "tbname"),
        ("alter table plain rename column «c d»", NotFoundError, "no column or tag c"),
        ("alter table readings rename tag «floor place»", ExistsError, "tag place already"),
        ("alter table «dev1» add column c int", ProgrammingError, "subtable"),
        ("alter table «nothing» add column c int", NotFoundError, "nothing"),
        ("alter stable «plain» add column c int", ProgrammingError, "plain table"),
        ("alter table «plain» add tag c int", ProgrammingError, "plain table"),
        ("alter table plain drop column «a»", IntegrityError, "only column"),
    ],
)
def test_an_impossible_alteration_is_refused_with_its_span(
    unchanged_readings: headrace.Connection, sql: str, error: type[Error], message: str
) -> None:
    readings = unchanged_readings
    readings.execute("create table if not exists plain (ts timestamp, a int)")
    text = sql.replace("«", "").replace("»", "")
    before = describe_columns(readings)
    with pytest.raises(error, match=message) as caught:
        readings.execute(text)
    assert caught.value.span is not None
    assert (caught.value.span.start, caught.value.span.end) == (sql.index("«"), sql.index("»") - 1)
    assert caught.value.hint
    assert describe_columns(readings) == before


def test_explain_describes_alterations(readings: headrace.Connection) -> None:
    texts = [
        fetch(readings, f"explain alter stable readings {change}")[0][0]
        for change in ("comment 'x'", "add column c int", "drop column b", "modify tag place varchar(30)", "rename tag floor level")
    ]
    assert texts == [
        "change the comment of d.readings",
        "add column c INT to d.readings, NULL so far",
        "drop column b of d.readings; its values stay in the Delta table, hidden",
        "change tag place of d.readings to VARCHAR(30)",
        "rename tag floor of d.readings to level",
    ]
    readings.execute("create table plain (ts timestamp, a int)")
    assert fetch(readings, "explain alter table plain rename column a c")[0] == (
        "rename column a of d.plain to c: copy its values; those of a stay in the Delta table, hidden",
    )
    assert fetch(readings, "explain alter database d keep 3 buffer 8")[0] == ("set KEEP 3, BUFFER 8 of database d",)


# Crashes


@pytest.mark.parametrize(
    ("statement", "point"),
    [
        ("add column c int", "storage.columns.added"),
        ("add column c int", "service.alter.stored"),
        ("drop column b", "storage.column.retired"),
        ("modify column s varchar(9)", "service.alter.stored"),
        ("add tag t int", "service.alter.stored"),
        ("drop tag floor", "service.alter.recorded"),
        ("rename tag floor level", "storage.tag.copied"),
        ("rename tag floor level", "storage.tag.renamed"),
    ],
)
def test_a_crash_leaves_a_usable_table_and_the_statement_can_be_repeated(
    connection: headrace.Connection, statement: str, point: str
) -> None:
    connection.execute("create stable readings (ts timestamp, a int, b double, s varchar(4)) tags (place varchar(20), floor int)")
    connection.execute("create table dev1 using readings tags ('north', 1)")
    with armed(f"{point}:1:raise"), pytest.raises((FailpointError, Error)):
        connection.execute(f"alter stable readings {statement}")
    connection.execute(f"insert into dev1 (ts, a) values ({START}, 1)")
    connection.execute("alter table dev1 set tag place = 'west'")
    try:
        connection.execute(f"alter stable readings {statement}")
    except (NotFoundError, ExistsError):  # the catalog had the change
        assert point in ("service.alter.recorded", "storage.tag.renamed")
    connection.execute(f"insert into dev2 using readings (place) tags ('east') (ts, a) values ({START}, 2)")
    assert [row["a"] for row in stored(connection)] == [1, 2]
    tags = connection.session.context.tables.tags.read(connection.session.context.catalog.tables.get("d", "readings"))
    assert dict(zip(tags["tbname"].to_pylist(), tags["place"].to_pylist(), strict=True)) == {"dev1": "west", "dev2": "east"}


@pytest.mark.parametrize(
    ("point", "is_marked"),
    [
        ("storage.columns.added", False),
        ("storage.file.copied", False),
        ("storage.column.copied", False),
        ("storage.column.retired", True),
    ],
)
def test_a_rename_that_crashed_is_repeated_without_loss(connection: headrace.Connection, point: str, is_marked: bool) -> None:
    connection.execute("create table plain (ts timestamp, a int, b double)")
    connection.execute(f"insert into plain values ({START}, 1, 1.5) ({START + 1}, null, 2.5)")
    with armed(f"{point}:1:raise"), pytest.raises((FailpointError, Error)):
        connection.execute("alter table plain rename column a c")
    assert stored(connection, "plain") == [{"a": 1, "b": 1.5}, {"a": None, "b": 2.5}]
    connection.execute(f"insert into plain (ts, b) values ({START + 2}, 3.5)")
    insert = f"insert into plain values ({START}, null, 1.5) ({START + 1}, 7, 2.5)"
    if is_marked:
        with pytest.raises(TransientError, match="column a was dropped or renamed"):
            connection.execute(insert)
    else:
        connection.execute(insert)
    with pytest.raises(ExistsError):
        connection.execute("alter table plain add column c int")
    with pytest.raises(ExistsError):
        connection.execute("alter table plain rename column b c")
    connection.execute("alter table plain rename column a c")
    first, second = (1, None) if is_marked else (None, 7)
    expected = [{"c": first, "b": 1.5}, {"c": second, "b": 2.5}, {"c": None, "b": 3.5}]
    assert stored(connection, "plain") == sorted(expected, key=str)


def test_an_insert_that_was_planned_before_a_rename_is_refused(readings: headrace.Connection, other: headrace.Connection) -> None:
    readings.execute("create table plain (ts timestamp, a int, b double)")
    planned = readings.session.stages(f"insert into plain values ({START}, 1, 1.5)")
    other.execute("alter table plain rename column a c")
    with pytest.raises(TransientError, match="column a was dropped or renamed"):
        readings.session.run(planned)
    readings.execute(f"insert into plain values ({START}, 1, 1.5)")
    assert stored(other, "plain") == [{"c": 1, "b": 1.5}]


# Races


def add_all(home: str, racer: int) -> int:
    """Return those of ten columns that this process added; other processes add the rest."""
    won = 0
    with headrace.connect(Path(home)) as connection:
        connection.execute("use d")
        for number in range(10):
            try:
                connection.execute(f"alter table readings add column c{number} int")
                won += 1
            except ExistsError:
                pass
            connection.execute(f"insert into dev{racer} (ts, c{number}) values ({START + number}, {racer})")
    return won


def test_processes_that_add_the_same_columns_agree(readings: headrace.Connection, tmp_path: Path) -> None:
    readings.execute("create table dev0 using readings tags ('east', 0)")
    won = race(add_all, [(str(tmp_path / "home"), racer) for racer in range(3)])
    assert sum(won) == 10
    assert len(stored(readings)) == 30
    assert len(describe_columns(readings)) == 5 + 10


def test_new_measurements_become_columns_once(connection: headrace.Connection) -> None:
    """Add columns as a table for measurements does: in the Delta table, then in the catalog, any number of times."""
    from headrace.model.tables import Column
    from headrace.model.types import DataType, TypeKind

    connection.execute("create table tree (ts timestamp, a int)")
    catalog, tables = connection.session.context.catalog, connection.session.context.tables
    database, table = catalog.databases.get("d"), catalog.tables.get("d", "tree")
    columns = [Column("m1", DataType(TypeKind.DOUBLE)), Column("m2", DataType(TypeKind.INT))]
    for new_columns in (columns[:1], columns, columns):
        tables.columns.add(table, database, new_columns)
        grown = catalog.tables.add_columns("d", "tree", new_columns)
    assert [column.name for column in grown.columns] == ["ts", "a", "m1", "m2"]
    with pytest.raises(TypeMismatchError):
        catalog.tables.add_columns("d", "tree", [Column("m3", DataType(TypeKind.INT)), Column("m1", DataType(TypeKind.INT))])
    assert catalog.tables.get("d", "tree") == grown


# Streams


def test_columns_that_a_stream_needs_are_protected(readings: headrace.Connection) -> None:
    readings.execute(
        "create stream s into sums tags (place varchar(20)) as select _wstart, sum(a) total, count(*) n from readings "
        "partition by place interval(1m)"
    )
    for change in (
        "readings drop column a",
        "readings drop tag place",
        "readings rename tag place site",
        "readings modify tag place varchar(40)",
        "sums drop column total",
        "sums rename tag place site",
    ):
        with pytest.raises(IntegrityError, match=r"stream d\.s") as caught:
            readings.execute(f"alter stable {change}")
        assert caught.value.hint == "DROP STREAM d.s first"
    readings.execute("alter stable readings drop column b")
    readings.execute("alter stable readings drop tag floor")
    readings.execute("alter stable sums add column note varchar(10)")
    readings.execute("alter stable sums drop column note")
    readings.execute("drop stream s")
    readings.execute("alter stable readings rename tag place site")


def test_a_table_that_is_read_has_no_renamed_columns(readings: headrace.Connection) -> None:
    readings.execute("create table plain (ts timestamp, a int, b double)")
    readings.execute("create table other (ts timestamp, a int)")
    readings.execute("create stream s into sums as select _wstart, sum(a) total from plain interval(1m)")
    readings.execute("create vtable v (ts timestamp, w int from plain.a, x int from other.a)")
    with pytest.raises(IntegrityError, match=r"column b of d\.plain .* used by stream d\.s, virtual table d\.v\n") as caught:
        readings.execute("alter table plain rename column b c")
    assert caught.value.hint.startswith("DROP these first")
    assert caught.value.span is not None
    readings.execute("drop stream s")
    with pytest.raises(IntegrityError, match=r"used by virtual table d\.v\n"):
        readings.execute("alter table other rename column a b")
    readings.execute("drop vtable v")
    readings.execute("alter table plain rename column b c")
    readings.execute("create stream s into sums as select _wstart, sum(c) total from plain interval(1m)")


def test_a_stream_that_is_created_during_a_rename_keeps_its_column(
    readings: headrace.Connection, other: headrace.Connection
) -> None:
    readings.execute("create table plain (ts timestamp, a int)")
    readings.execute(f"insert into plain values ({START}, 1)")
    sql = "create stream s into sums as select _wstart, sum(a) total from plain interval(1m)"
    create: Callable[[], None] = lambda: (other.execute(sql), None)[1]  # noqa: E731
    with calling("storage.column.retired", create), pytest.raises(IntegrityError, match=r"stream d\.s"):
        readings.execute("alter table plain rename column a b")
    readings.execute(f"insert into plain values ({START}, 2)")
    other.execute("drop stream s")
    readings.execute("alter table plain rename column a b")
    assert stored(other, "plain") == [{"b": 2}]


def test_a_stream_of_all_columns_needs_all(readings: headrace.Connection) -> None:
    readings.execute("create stream s trigger at_once into copies as select * from readings partition by tbname")
    with pytest.raises(IntegrityError, match=r"stream d\.s"):
        readings.execute("alter stable readings drop column b")
    readings.execute("alter stable readings add column c int")
    readings.execute("alter stable readings drop column c")


def test_a_column_dropped_while_a_stream_is_created_is_seen(readings: headrace.Connection, other: headrace.Connection) -> None:
    drop: Callable[[], None] = lambda: (other.execute("alter stable readings drop column a"), None)[1]  # noqa: E731
    with calling("streams.create.prepared", drop), pytest.raises(NotFoundError, match="no column a any more"):
        readings.execute("create stream s into sums as select _wstart, sum(a) total from readings interval(1m)")
    assert fetch(readings, "show streams") == []
