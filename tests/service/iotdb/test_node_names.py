"""Nodes whose names have dots and other special characters: whatever is written and listed is found again."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.code.hosts import current_hosts
from headrace.errors import ExistsError, ProgrammingError
from headrace.model.paths import quote_node
from tests.service.iotdb.conftest import START
from tests.service.iotdb.test_series import fetch

NAMES = (
    "a.b",
    "1.5",
    ".",
    "a..b",
    "a`b",
    "`.`",
    "s*",
    "**",
    "root.x",
    "two words",
    "a,b(c)",
    "'q' \"r\"",
    "a/b\\c",
    "$x${1}",
    "é.日",
)
LOG = """
from headrace.trigger import Trigger

class Log(Trigger):
    def fire(self, tablet):
        for time, value in zip(tablet.timestamps, tablet.values[0]):
            self.insert("root.log.`d.1`", time, {"x.y": value})
        return True
"""


def first(connection: headrace.Connection, sql: str) -> list[object]:
    return [row[0] for row in fetch(connection, sql)]


@pytest.fixture(scope="module")
def dotted(unchanged: headrace.Connection) -> headrace.Connection:
    """A connection to `root.n`, with a device for each pair of names, one of the device and one of the measurement."""
    for name, other in zip(NAMES, NAMES[1:] + NAMES[:1], strict=True):
        columns = f"time, {quote_node(other)}, plain"
        unchanged.execute(f"insert into root.n.{quote_node(name)}({columns}) values (1, 5, 6), (2, 7, 8), (3, null, 9)")
    return unchanged


@pytest.mark.parametrize(("name", "other"), zip(NAMES, NAMES[1:] + NAMES[:1], strict=True))
def test_a_series_of_any_name_is_found_by_every_clause(dotted: headrace.Connection, name: str, other: str) -> None:
    device, series = f"root.n.{quote_node(name)}", quote_node(other)
    path = f"{device}.{series}"
    assert first(dotted, f"show timeseries {path}") == [path]
    assert set(first(dotted, f"show timeseries {device}.*")) == {path, f"{device}.plain"}
    assert first(dotted, f"show devices {device}") == [device]
    assert [row[1] for row in fetch(dotted, f"select {series} from {device}")] == [5.0, 7.0]
    assert [row[1] for row in fetch(dotted, f"select plain from {device} where {series} = 7")] == [8.0]
    assert [row[1] for row in fetch(dotted, f"select plain from {device} where {path} > 5")] == [8.0]
    assert [row[1] for row in fetch(dotted, f"select {series} from {device} order by {series} desc")] == [7.0, 5.0]
    assert [row[2] for row in fetch(dotted, f"select {series} from {device} order by time desc align by device")] == [7.0, 5.0]
    assert fetch(dotted, f"select count({series}), max_value({quote_node(name)}.{series}) from {device}, root.n") == [(2, 7.0)]
    assert [row[1] for row in fetch(dotted, f"select count({series}) from {device} group by ([1, 4), 1ms)")] == [1, 1, 0]
    assert fetch(dotted, f"select sum({series}) from {device} group by level = 0") == [(12.0,)]
    assert [row[1] for row in fetch(dotted, f"select {series}, plain from {device} fill(previous)")] == [5.0, 7.0, 7.0]
    assert [row[1:3] for row in fetch(dotted, f"select last {series} from {device}")] == [(path, "7.0")]


def test_a_series_of_any_name_is_changed_and_deleted(connection: headrace.Connection) -> None:
    nodes = [quote_node(name) for name in NAMES]
    connection.execute(f"insert into root.n.`d.1`.e(time, {', '.join(nodes)}) values (1{', 5' * len(nodes)})")
    connection.execute(f"insert into root.n.`d.1`.e(time, {', '.join(nodes)}) values (2{', 7' * len(nodes)})")
    for number, node in enumerate(nodes):
        path = f"root.n.`d.1`.e.{node}"
        connection.execute(f"alter timeseries {path} upsert alias=`al.{number}` tags('k'='{number}')")
        ((_, alias, *_, tags, _, _, _, _),) = fetch(connection, f"show timeseries {path}")
        assert (alias, tags) == (f"`al.{number}`", f'{{"k":"{number}"}}')
        assert [row[1] for row in fetch(connection, f"select `al.{number}` from root.n.`d.1`.*")] == [5.0, 7.0]
        connection.execute(f"delete from {path} where time = 1")
        assert [row[1] for row in fetch(connection, f"select {node} from root.n.`d.1`.e")] == [7.0]
        connection.execute(f"delete timeseries {path}")
        assert fetch(connection, f"show timeseries {path}") == []
    assert fetch(connection, "show timeseries root.n.**") == []


@pytest.mark.parametrize("name", [name for name in NAMES if "${" not in name])
def test_into_writes_to_series_of_any_name(dotted: headrace.Connection, name: str) -> None:
    node = quote_node(name)
    target = f"root.n.into.{node}.{node}"
    (row,) = fetch(dotted, f"select plain into root.n.into.{node}({node}) from root.n.`a.b`")
    assert row == ("root.n.`a.b`.plain", target, 3)
    assert [row[1] for row in fetch(dotted, f"select {node} from root.n.into.{node}")] == [6.0, 8.0, 9.0]


def test_placeholders_of_into_combine_names(connection: headrace.Connection) -> None:
    connection.execute("insert into root.n.`d 1`(time, `a.b`) values (1, 5)")
    source = "root.n.`d 1`"
    targets = [
        ("root.into.`e.${2}`(`s_${3}`)", "root.into.`e.d 1`.`s_a.b`"),
        ("root.into.${2}(`${3}.${3}`)", "root.into.`d 1`.`a.b.a.b`"),
        ("root.into.t(${3})", "root.into.t.`a.b`"),
    ]
    for target, expected in targets:
        assert fetch(connection, f"select `a.b` into {target} from {source}") == [(f"{source}.`a.b`", expected, 1)]
    (row,) = fetch(connection, f"select `a.b` into ::(`c.1`) from {source} align by device")
    assert row == (source, "`a.b`", f"{source}.`c.1`", 1)
    with pytest.raises(ProgrammingError, match=r"701: s_`a\.b` is illegal, unquoted node name"):
        connection.execute(f"select `a.b` into root.into.t(s_${{3}}) from {source}")


def test_a_template_has_series_of_any_name(connection: headrace.Connection) -> None:
    columns = ", ".join(f"{quote_node(name)} FLOAT" for name in NAMES)
    connection.execute(f"create device template t ({columns})")
    connection.execute("create database root.n")
    connection.execute("set device template t to root.n.`p.1`")
    connection.execute("create timeseries using device template on root.n.`p.1`.`d.1`")
    connection.execute("insert into root.n.`p.1`.`d.2`(time, `a.b`) values (1, 2.5)")
    assert set(first(connection, "show devices root.n.`p.1`.*")) == {"root.n.`p.1`.`d.1`", "root.n.`p.1`.`d.2`"}
    assert fetch(connection, "select count(`a.b`), count(`1.5`) from root.n.`p.1`.`d.2`") == [(1, 0)]
    connection.execute("create timeseries root.n.q.`p.2` FLOAT")
    with pytest.raises(ExistsError, match="timeseries under path"):
        connection.execute("set device template t to root.n.q.`p.2`")
    connection.execute("deactivate device template t from root.n.`p.1`.`d.2`")
    assert first(connection, "show devices root.n.`p.1`.*") == ["root.n.`p.1`.`d.1`"]


def test_files_have_devices_and_series_of_any_name(connection: headrace.Connection, tmp_path: Path) -> None:
    path, rows, columns = (tmp_path / name for name in ("path.csv", "rows.csv", "columns.csv"))
    path.write_text("time,root.n.`d.1`.`a.b`\n1,5\n")
    rows.write_text("time,device,`1.5`\n1,root.n.`d.1`,6\n1,root.n.`d.2`.e,7\n")
    columns.write_text("time,`a.b`,`1.5`\n2,8,9\n")
    connection.load(path, into="root.n")
    connection.load(rows, into="root.n")
    connection.load(columns, into="root.n.`d.1`")
    assert [row[1:] for row in fetch(connection, "select `a.b`, `1.5` from root.n.`d.1`")] == [(5.0, 6.0), (8.0, 9.0)]
    assert [row[1] for row in fetch(connection, "select `1.5` from root.n.`d.2`.e")] == [7.0]


def test_tables_of_the_other_language_have_subtables_and_columns_of_any_name(tmp_path: Path) -> None:
    with headrace.connect(tmp_path / "home") as tables:
        tables.execute("CREATE DATABASE `p.1`")
        tables.execute("CREATE STABLE `p.1`.`m.1` (ts TIMESTAMP, `a.b` INT, c INT) TAGS (k INT)")
        tables.execute("CREATE TABLE `p.1`.`d.1` USING `p.1`.`m.1` TAGS (1)")
        tables.execute("INSERT INTO `p.1`.`d.1` VALUES (1000, 5, 6) (2000, 7, 8)")
    with headrace.connect(tmp_path / "home", dialect="iotdb") as trees:
        assert first(trees, "show timeseries root.`p.1`.`m.1`.`d.1`.`a.b`") == ["root.`p.1`.`m.1`.`d.1`.`a.b`"]
        assert fetch(trees, "select count(`a.b`), sum(c) from root.`p.1`.`m.1`.`d.1`") == [(2, 14.0)]
        assert [row[1] for row in fetch(trees, "select c from root.`p.1`.`m.1`.* where `a.b` = 7")] == [8]
        assert [row[2] for row in fetch(trees, "select last `a.b` from root.`p.1`.`m.1`.`d.1`")] == ["7"]


def test_a_continuous_query_reads_and_writes_series_of_any_name(connection: headrace.Connection) -> None:
    connection.execute(
        "create continuous query `q.1` begin select sum(`a.b`) into root.n.`o.1`(`x.y`) from root.n.`d.1` "
        "where c > 1 group by (1s) end"
    )
    connection.execute(f"insert into root.n.`d.1`(time, `a.b`, c) values ({START + 10}, 5, 2), ({START + 20}, 6, 1)")
    assert isinstance(connection.clock, headrace.ManualClock)
    connection.clock.advance(2000)
    connection.settle()
    assert [row[1] for row in fetch(connection, "select `x.y` from root.n.`o.1`")] == [5.0]


def test_a_trigger_listens_to_and_writes_series_of_any_name(connection: headrace.Connection) -> None:
    folder = connection.session.context.settings.home_path / "ext" / "trigger"
    folder.mkdir(parents=True)
    (folder / "logs.py").write_text(LOG)
    connection.execute("create database root.log")
    connection.execute("create stateless trigger t after insert on root.n.`d.1`.`a.b` as 'logs.Log'")
    connection.execute("insert into root.n.`d.1`(time, `a.b`, c) values (1, 5, 2)")
    connection.execute("insert into root.n.`d.1`.b(time, `a.b`, c) values (2, 6, 2)")
    assert [row[1] for row in fetch(connection, "select `x.y` from root.log.`d.1`")] == [5.0]
    current_hosts().close()


def test_rights_are_on_paths_of_any_name(connection: headrace.Connection, tmp_path: Path) -> None:
    connection.execute("insert into root.n.`d.1`(time, `a.b`, c) values (1, 5, 2)")
    connection.execute("create user vera 'secret12'")
    connection.execute("grant read_data on root.n.`d.1`.`a.b` to user vera")
    with headrace.connect(tmp_path / "home", dialect="iotdb", user="vera", password="secret12") as vera:
        assert [row[1:] for row in fetch(vera, "select * from root.n.`d.1`")] == [(5.0,)]
        assert [row[1] for row in fetch(vera, "select `a.b` from root.n.`d.1`")] == [5.0]
        assert fetch(vera, "select c from root.n.`d.1`") == []


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_queries_over_series_of_any_name_are_verified(dotted: headrace.Connection) -> None:
    nodes = ", ".join(f"count({quote_node(name)})" for name in NAMES)
    verification = dotted.verify(f"select {nodes} from root.n.* where plain < 9 group by ([1, 4), 1ms)")
    assert (verification.equal, verification.rows) == (True, 3)
