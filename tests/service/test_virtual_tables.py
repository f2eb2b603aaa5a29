"""Virtual tables over SQL: their statements, what they refuse, queries, streams and verification."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.errors import Error, IntegrityError, NotSupportedError, ProgrammingError
from headrace.model.statements import Select
from headrace.sql import parse

START = 1_700_000_000_000


@pytest.fixture
def devices(readings: headrace.Connection) -> headrace.Connection:
    """The connection with the tables of `with_devices`."""
    return with_devices(readings)


@pytest.fixture(scope="module")
def unchanged_devices(unchanged_readings: headrace.Connection) -> headrace.Connection:
    """Provide what `devices` does to tests that change nothing."""
    return with_devices(unchanged_readings)


def with_devices(readings: headrace.Connection) -> headrace.Connection:
    """Create a plain table `pump`, the virtual table `device`, and `devices` with the subtables `v1` and `v2`."""
    for statement in (
        "create table pump (t timestamp, v int, name varchar(10))",
        "create vtable device (ts timestamp, a int from dev1.a, b double from d.dev2.b, v int from pump.v, note varchar(10))",
        "create stable devices (ts timestamp, a int, v int) tags (place varchar(20), n int) virtual 1",
        "create vtable v1 (a from dev1.a, v from pump.v) using devices tags ('north', 1)",
        "create vtable v2 (dev2.a, pump.v) using devices (n) tags (2)",
    ):
        readings.execute(statement)
    return readings


def write(connection: headrace.Connection) -> None:
    """Insert rows at 0, 1, 2 and 12 seconds."""
    connection.execute(f"insert into dev1 values ({START}, 1, 0.5) ({START + 12_000}, 2, null)")
    connection.execute(f"insert into dev2 values ({START}, 10, 1.5) ({START + 1000}, 20, 2.5)")
    connection.execute(f"insert into pump values ({START}, 100, 'p') ({START + 2000}, 200, null)")


def rows(connection: headrace.Connection, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in connection.execute(sql).fetchall()]


def test_virtual_tables_are_listed_and_described(devices: headrace.Connection) -> None:
    assert rows(devices, "show vtables") == [("device", None), ("v1", "devices"), ("v2", "devices")]
    assert rows(devices, "show normal vtables") == [("device", None)]
    assert rows(devices, "show child d.vtables like '%2'") == [("v2", "devices")]
    assert sorted(rows(devices, "show tables")) == [("dev1", "readings"), ("dev2", "readings"), ("pump", None)]
    types = rows(devices, "select table_name, type from information_schema.ins_tables where type like 'VIRTUAL%' order by 1")
    assert types == [("device", "VIRTUAL_NORMAL_TABLE"), ("v1", "VIRTUAL_CHILD_TABLE"), ("v2", "VIRTUAL_CHILD_TABLE")]
    assert rows(devices, "describe device")[1:3] == [("a", "INT", None, "", "d.dev1.a"), ("b", "DOUBLE", None, "", "d.dev2.b")]
    assert [row[-1] for row in rows(devices, "describe v2")] == [None, "d.dev2.a", "d.pump.v", None, None]
    assert rows(devices, "show tags from v2")[-1][-1] == "2"


@pytest.mark.parametrize("name", ["device", "v1", "v2"])
def test_the_shown_statement_creates_the_same_table(devices: headrace.Connection, name: str) -> None:
    ((_, text),) = rows(devices, f"show create vtable {name}")
    before = rows(devices, f"describe {name}"), rows(devices, f"show tags from {name}") if name != "device" else None
    devices.execute(f"drop vtable {name}")
    devices.execute(str(text))
    assert (rows(devices, f"describe {name}"), rows(devices, f"show tags from {name}") if name != "device" else None) == before
    ((_, stable),) = rows(devices, "show create stable devices")
    assert str(stable).endswith("VIRTUAL 1")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("insert into device values (now, 1, 1.0, 1, 'x')", "device is a virtual table"),
        ("insert into v1 values (now, 1, 1)", "is a virtual table"),
        ("insert into v3 using devices tags ('x', 1) values (now, 1, 1)", "is a virtual table"),
        ("create table v3 using devices tags ('x', 1)", "devices is a virtual supertable"),
        ("create vtable dev3 (dev1.a) using readings tags ('x', 1)", "readings is not a virtual supertable"),
        ("delete from device", "device is a virtual table"),
        ("delete from v1 where ts > now", "v1 is a virtual table"),
        ("drop table device", "device is a virtual table"),
        ("drop vtable pump", "pump is not a virtual table"),
        ("alter table device add column c int", "device is a virtual table"),
        ("alter vtable pump add column c int", "pump is not a virtual table"),
        ("alter vtable v1 add column c int", "v1 is a subtable"),
        ("alter table v1 set tag n = 3", "v1 is a virtual table"),
        ("create vtable w (ts timestamp, a bigint from dev1.a)", "a is BIGINT, but dev1.a is INT"),
        ("create vtable w (ts timestamp, a int from readings.a)", "readings is a supertable"),
        ("create vtable w (ts timestamp, a int from device.a)", "device is a virtual table itself"),
        ("create vtable w (ts timestamp, a int from dev1.floor)", "no column floor"),
        ("create vtable w (ts timestamp, a int from dev1.c)", "no column or tag c"),
        ("create vtable w (ts timestamp, a int from dev9.a)", "table d.dev9 does not exist"),
        ("create vtable w (ts timestamp, a timestamp from dev1.ts)", "ts is the timestamp of readings"),
        ("create vtable w (ts timestamp from dev1.ts, a int)", "ts has the instants of all origins"),
        ("create vtable w (dev1.a, pump.v, pump.v) using devices tags ('x', 1)", "devices has only 2 columns"),
        ("create vtable w (a from dev1.a, a from dev2.a) using devices tags ('x', 1)", "column a has two origins"),
        ("create vtable device (ts timestamp, a int)", "already exists"),
        ("create stream s into devices as select _wstart, count(*) from dev1 interval(1s)", "devices is a virtual table"),
    ],
)
def test_what_virtual_tables_refuse(unchanged_devices: headrace.Connection, statement: str, message: str) -> None:
    with pytest.raises(Error, match=message):
        unchanged_devices.execute(statement)


@pytest.mark.parametrize("table", ["device", "v1", "devices"])
def test_files_are_not_loaded_into_virtual_tables(devices: headrace.Connection, tmp_path: Path, table: str) -> None:
    (tmp_path / "rows.csv").write_text("ts,tbname,a\n2024-01-01,v1,1\n")
    with pytest.raises(ProgrammingError, match=f"{table} is a virtual table"):
        devices.load(tmp_path / "rows.csv", table)


def test_columns_of_another_precision_and_of_tables_with_a_composite_key_are_refused(devices: headrace.Connection) -> None:
    devices.execute("create database nano precision 'ns'")
    devices.execute("create table nano.t (ts timestamp, a int)")
    with pytest.raises(Error, match="nano has timestamps in ns, d in ms"):
        devices.execute("create vtable w (ts timestamp, a int from nano.t.a)")
    devices.execute("create table keyed (ts timestamp, k int primary key, a int)")
    with pytest.raises(Error, match="primary key includes k"):
        devices.execute("create vtable w (ts timestamp, a int from keyed.a)")
    with pytest.raises(Error, match="cannot have a composite key"):
        devices.execute("create stable w (ts timestamp, k int primary key, a int) tags (x int) virtual 1")


@pytest.mark.parametrize(
    "statement", ["drop table pump", "drop table dev1", "drop stable readings", "alter table pump drop column v", "drop database o"]
)
def test_what_a_virtual_table_refers_to_cannot_be_dropped(devices: headrace.Connection, statement: str) -> None:
    devices.execute("create database o")
    devices.execute("create table o.other (ts timestamp, a int)")
    devices.execute("create vtable w (ts timestamp, a int from o.other.a)")
    with pytest.raises(IntegrityError, match=r"columns of virtual tables refer to it: d\.") as caught:
        devices.execute(statement)
    assert "ALTER COLUMN" in caught.value.hint


def test_origins_can_be_dropped_once_nothing_refers_to_them(devices: headrace.Connection) -> None:
    devices.execute("alter vtable device alter column v set null")
    devices.execute("alter vtable v1 alter column v set dev1.a")
    devices.execute("drop vtable v2")
    devices.execute("alter table pump drop column name")
    devices.execute("drop table pump")
    assert [row[-1] for row in rows(devices, "describe v1")][:3] == [None, "d.dev1.a", "d.dev1.a"]


def test_columns_are_added_renamed_widened_and_dropped(devices: headrace.Connection) -> None:
    devices.execute("alter vtable device add column name varchar(10) from pump.name")
    devices.execute("alter vtable device rename column v flow")
    devices.execute("alter vtable device modify column note varchar(20)")
    devices.execute("alter vtable device drop column b")
    assert [(row[0], row[2], row[4]) for row in rows(devices, "describe device")] == [
        ("ts", None, None),
        ("a", None, "d.dev1.a"),
        ("flow", None, "d.pump.v"),
        ("note", "20", None),
        ("name", "10", "d.pump.name"),
    ]
    with pytest.raises(Error, match="a length can only grow"):
        devices.execute("alter vtable device modify column note varchar(5)")
    devices.execute("alter stable devices drop column v")
    assert rows(devices, "show create vtable v1")[0][1] == "CREATE VTABLE d.v1 (a FROM d.dev1.a) USING d.devices TAGS ('north', 1)"


def test_explain_names_the_origins(devices: headrace.Connection) -> None:
    text = "\n".join(str(row[0]) for row in rows(devices, "explain select a, v from device"))
    assert "align by time d.device: ts, a, v, tbname" in text
    assert "scan d.readings: a" in text
    assert "scan d.pump: v" in text
    stream = "explain create stream s into out as select _wstart, sum(v) sv from devices partition by tbname interval(1s)"
    assert ("maintain stream d.s on changes of d.pump",) in rows(devices, stream)
    created = rows(devices, "explain create vtable w (ts timestamp, a int from dev1.a)")
    assert created[:2] == [("create virtual table d.w: 2 columns",), ("  a from d.dev1.a",)]
    assert "read table d.dev1" in str(created[-1][0])


def test_what_a_stream_reads_cannot_be_changed(devices: headrace.Connection) -> None:
    devices.execute("create stream s into out as select _wstart, sum(v) sv, sum(b) sb from device interval(10s)")
    devices.execute("alter vtable device alter column v set null")
    for statement, message in (
        ("alter vtable device drop column b", "needed by stream"),
        ("alter vtable device rename column b bb", "needed by stream"),
        ("drop vtable device", "cannot be dropped: stream d.s"),
        ("alter table pump drop column v", "needed by stream"),
    ):
        with pytest.raises(IntegrityError, match=message):
            devices.execute(statement)
    devices.execute("drop vtable v1")
    devices.execute("drop vtable v2")
    with pytest.raises(IntegrityError, match="cannot be dropped: stream"):
        devices.execute("drop table pump")
    with pytest.raises(Error, match="no column of the virtual table device"):
        devices.execute("create stream t into out2 as select _wstart, last(note) n from device interval(10s)")
    devices.execute("drop stream s")
    devices.execute("drop table pump")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_queries_have_the_rows_of_the_columns_that_they_name(devices: headrace.Connection) -> None:
    write(devices)
    assert rows(devices, "select a, b, v, note from device order by ts") == [
        (1, 1.5, 100, None),
        (None, 2.5, None, None),
        (None, None, 200, None),
        (2, None, None, None),
    ]
    assert rows(devices, "select v, a from device order by ts") == [(100, 1), (200, None), (None, 2)]
    assert rows(devices, "select count(*) from device") == [(4,)]
    assert rows(devices, "select tbname, place, count(*), sum(v) from devices partition by tbname, place order by 1") == [
        ("v1", "north", 2, 300),
        ("v2", None, 2, 300),
    ]
    assert rows(devices, "select x.a, y.a from v1 x, v2 y where x.ts = y.ts and x.v = 100") == [(1, 10)]
    assert rows(devices, "select count(*) from devices where n = 2 and v is null") == [(0,)]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_streams_follow_all_origins_and_are_verified(devices: headrace.Connection) -> None:
    write(devices)
    query = "select _wstart, count(*) n, sum(a) sa, sum(v) sv from devices partition by tbname interval(10s)"
    devices.execute(f"create stream s trigger at_once watermark 1h fill_history 1 into out as {query}")
    devices.settle()
    assert rows(devices, "select n, sa, sv from out order by _wstart, sa") == [(2, 1, 300), (3, 30, 300), (1, 2, None)]
    devices.execute(f"insert into pump values ({START + 12_000}, 7, null)")
    devices.execute(f"insert into dev2 values ({START + 12_000}, 70, null)")
    devices.settle()
    devices.execute(f"delete from dev1 where ts = {START}")
    devices.settle()
    result = rows(devices, "select n, sa, sv from out order by _wstart, sa")
    assert result == [(2, None, 300), (3, 30, 300), (1, 2, 7), (1, 70, 7)]
    assert devices.verify(stream="s").equal


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "query",
    [
        "select * from device",
        "select ts, v from device where a > 0 or v > 100",
        "select tbname, _wstart, count(*), last(a) from devices partition by tbname interval(10s)",
        "select count(*) from v2",
    ],
)
def test_queries_are_verified(devices: headrace.Connection, query: str) -> None:
    write(devices)
    assert isinstance(parse(query), Select)
    assert devices.verify(query).equal


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_query_that_reads_different_columns_is_not_verified(devices: headrace.Connection) -> None:
    with pytest.raises(NotSupportedError, match="with different columns"):
        devices.verify("select x.a from device x, device y where x.ts = y.ts and y.v = 1")
