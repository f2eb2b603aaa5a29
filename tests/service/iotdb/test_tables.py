"""Tables of the other language, which are seen as devices and only read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import NotFoundError, NotSupportedError

METERS = """
CREATE DATABASE power;
CREATE STABLE power.meters (ts TIMESTAMP, current FLOAT, voltage INT, phase TINYINT UNSIGNED, big BIGINT UNSIGNED, note NCHAR(10),
    seen TIMESTAMP) TAGS (location VARCHAR(20), grp INT);
CREATE TABLE power.d1001 USING power.meters TAGS ('oslo', 1);
CREATE TABLE power.d1002 USING power.meters TAGS ('rome', 2);
CREATE TABLE power.`odd name` USING power.meters TAGS ('rome', NULL);
INSERT INTO power.d1001 VALUES (1000, 1.5, 220, 1, 18446744073709551615, 'a', 5000) (2000, 2.5, 221, 2, 7, NULL, NULL);
INSERT INTO power.d1002 VALUES (1000, 3.5, 230, 3, 8, 'b', 6000);
INSERT INTO power.`odd name` VALUES (3000, 4.5, 240, 4, 9, 'c', 7000);
CREATE TABLE power.log (ts TIMESTAMP, level INT);
INSERT INTO power.log VALUES (1000, 5);
CREATE TABLE power.keyed (ts TIMESTAMP, k INT PRIMARY KEY, v INT);
"""


@pytest.fixture
def power(tmp_path: Path) -> Iterator[headrace.Connection]:
    """A connection of the IoTDB language to a home that has tables and a device of its own."""
    with headrace.connect(tmp_path / "home") as tables:
        for statement in METERS.strip().split(";\n"):
            tables.execute(statement)
    with headrace.connect(tmp_path / "home", dialect="iotdb") as opened:
        opened.execute("insert into root.plant.line1(time, voltage) values (1000, 7), (9000, 8)")
        yield opened


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    """The rows, with times as epoch milliseconds."""
    return [tuple(map(plain, row)) for row in connection.execute(sql).fetchall()]


def plain(cell: Any) -> Any:
    return round(cell.timestamp() * 1000) if isinstance(cell, datetime) else cell


def first(connection: headrace.Connection, sql: str) -> list[Any]:
    return [row[0] for row in fetch(connection, sql)]


def test_a_subtable_is_a_device_and_its_columns_are_series(power: headrace.Connection) -> None:
    cursor = power.execute("select * from root.power.meters.d1001")
    names = [column[0].rpartition(".")[2] for column in cursor.description or ()][1:]
    row = dict(zip(names, map(plain, cursor.fetchall()[0][1:]), strict=True))
    assert row == {"current": 1.5, "voltage": 220, "phase": 1, "big": 18446744073709551615.0, "note": "a", "seen": 5000}


def test_devices_and_series_are_shown_with_types_and_tags(power: headrace.Connection) -> None:
    assert sorted(fetch(power, "show devices root.power.meters.* with database")) == [
        ("root.power.meters.`odd name`", "root.power.meters", "true", None, "INF"),
        ("root.power.meters.d1001", "root.power.meters", "true", None, "INF"),
        ("root.power.meters.d1002", "root.power.meters", "true", None, "INF"),
    ]
    shown = {row[0]: (row[3], row[6]) for row in fetch(power, "show timeseries root.power.meters.d1001.*")}
    tags = '{"grp":"1","location":"oslo"}'
    types = {"current": "FLOAT", "voltage": "INT32", "phase": "INT32", "big": "DOUBLE", "note": "STRING", "seen": "TIMESTAMP"}
    assert shown == {f"root.power.meters.d1001.{name}": (type_, tags) for name, type_ in types.items()}
    assert first(power, "count timeseries root.power.**") == [19]
    assert first(power, "show devices root.power.log") == ["root.power.log"]
    assert first(power, "show devices root.power.** where time >= 3000") == ["root.power.meters.`odd name`"]
    assert first(power, "show timeseries root.power.**.voltage where tags(location) = 'oslo'") == [
        "root.power.meters.d1001.voltage"
    ]
    assert sorted(first(power, "show child paths root.power.meters")) == sorted(first(power, "show devices root.power.meters.*"))


def test_queries_of_all_kinds_read_tables(power: headrace.Connection) -> None:
    rows = fetch(power, "select voltage from root.power.meters.* where voltage > 220 align by device")
    assert rows == [
        (3000, "root.power.meters.`odd name`", 240),
        (2000, "root.power.meters.d1001", 221),
        (1000, "root.power.meters.d1002", 230),
    ]
    assert fetch(power, "select level + 1 from root.power.log") == [(1000, 6.0)]
    assert fetch(power, "select last voltage from root.power.meters.d1001") == [
        (2000, "root.power.meters.d1001.voltage", "221", "INT32")
    ]
    assert fetch(power, "select count(voltage) from root.power.meters.** group by level = 2") == [(4,)]
    assert sorted(fetch(power, "select count(voltage), sum(phase) from root.power.meters.* group by tags(location)")) == [
        ("oslo", 2, 3.0),
        ("rome", 2, 7.0),
    ]
    assert fetch(power, "select avg(current) from root.power.meters.d1001 group by ([0, 4000), 2s)") == [(0, 1.5), (2000, 2.5)]


def test_tables_and_devices_are_read_together(power: headrace.Connection) -> None:
    sql = "select voltage from root.power.meters.d1001, root.plant.line1"
    assert fetch(power, sql) == [(1000, 220, 7.0), (2000, 221, None), (9000, None, 8.0)]
    power.execute("select voltage into root.plant.copy(v) from root.power.meters.d1001")
    assert fetch(power, "select v from root.plant.copy") == [(1000, 220), (2000, 221)]


def test_patterns_have_to_name_the_database_of_tables(power: headrace.Connection) -> None:
    assert first(power, "show devices") == ["root.plant.line1"]
    assert first(power, "show databases") == ["root.plant"]
    assert first(power, "show databases root.power.*") == ["root.power.keyed", "root.power.log", "root.power.meters"]
    assert [column[0] for column in power.execute("select voltage from root.**").description or ()] == [
        "Time",
        "root.plant.line1.voltage",
    ]


def test_a_table_with_a_composite_key_is_not_read(power: headrace.Connection) -> None:
    with pytest.raises(NotSupportedError, match=r"power\.keyed has a composite key"):
        power.execute("select v from root.power.keyed")


WRITES = (
    "insert into root.power.meters.d1001(time, voltage) values (1, 2)",
    "insert into root.power.other(time, voltage) values (1, 2)",
    "create database root.power",
    "create database root.power.sub",
    "create timeseries root.power.x.s with datatype=INT32",
    "create aligned timeseries root.power.x(s INT32)",
    "delete from root.power.meters.d1001.voltage",
    "delete from root.power.**",
    "delete timeseries root.power.meters.d1001.voltage",
    "delete database root.power",
    "alter timeseries root.power.meters.d1001.voltage upsert alias=v",
    "set ttl to root.power.meters.d1001 1000",
    "set device template t to root.power.meters",
    "create timeseries using device template on root.power.meters.d1001",
    "deactivate device template from root.power.**",
    "select voltage into root.power.copy(v) from root.plant.line1",
)


@pytest.mark.parametrize("statement", WRITES)
def test_this_language_does_not_write_to_tables(power: headrace.Connection, statement: str) -> None:
    power.execute("create device template t (s1 INT32)")
    with pytest.raises(NotSupportedError, match=r"root\.power is the database power of the tdengine dialect") as refused:
        power.execute(statement)
    assert refused.value.hint
    assert first(power, "show databases") == ["root.plant"]
    assert first(power, "count devices root.power.**") == [4]


def test_a_tree_of_the_same_name_is_read_instead(power: headrace.Connection, tmp_path: Path) -> None:
    with headrace.connect(tmp_path / "home") as tables:
        tables.execute("CREATE DATABASE plant")
        tables.execute("CREATE TABLE plant.log (ts TIMESTAMP, v INT)")
    assert first(power, "show devices root.plant.**") == ["root.plant.line1"]
    power.execute("insert into root.plant.log(time, v) values (1, 2)")
    with pytest.raises(NotFoundError, match="does not exist"):
        power.execute("delete timeseries root.plant.nope.v")


def test_a_database_of_another_precision_is_not_read_with_others(power: headrace.Connection, tmp_path: Path) -> None:
    with headrace.connect(tmp_path / "home") as tables:
        tables.execute("CREATE DATABASE fine PRECISION 'us'")
        tables.execute("CREATE TABLE fine.log (ts TIMESTAMP, v INT)")
        tables.execute("INSERT INTO fine.log VALUES (1000001, 5)")
    assert fetch(power, "select v from root.fine.log where time > 1000000")[0][1:] == (5,)
    with pytest.raises(NotSupportedError, match="databases of different precision"):
        power.execute("select * from root.fine.log, root.power.log")
