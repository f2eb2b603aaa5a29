"""Tables and files of other writers as databases of paths: CREATE EXTERNAL DATABASE, what reads them, and what is refused."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import headrace
from headrace.errors import Error, ExistsError, NotFoundError, NotSupportedError, PermissionDeniedError, ProgrammingError
from headrace.settings import load
from tests.pipes.receivers import Points, apply_events
from tests.pipes.recording import RECORDERS, recording_sinks
from tests.pipes.test_running import run
from tests.service.iotdb.conftest import START
from tests.service.iotdb.test_tables import fetch, first

CREATE: Final = (
    "create external database root.lake.plant (time from at, temperature from celsius, pressure INT64) "
    "tags (site, machine) using delta at '{}'"
)
PIPE: Final = "create pipe out with source ({}) with sink ('sink'='recording-sink', 'name'='plant')"


def rows(*readings: tuple[int, str, str | None, float | None, int]) -> pa.Table:
    """Return rows of seconds since the start, site, machine, temperature and pressure."""
    times, sites, machines, temperatures, pressures = zip(*readings, strict=True)
    at = [dt.datetime.fromtimestamp(START / 1000 + second, dt.UTC) for second in times]
    return pa.table(
        {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "site": pa.array(sites, pa.string()),
            "machine": pa.array(machines, pa.string()),
            "celsius": pa.array(temperatures, pa.float64()),
            "pressure": pa.array(pressures, pa.int32()),
        }
    )


@pytest.fixture
def location(tmp_path: Path) -> str:
    folder = str(tmp_path / "lake")
    north = ((0, "north", "m1", 1.5, 1), (10, "north", "m1", None, 2), (0, "north", "m 2", 3.5, 3))
    write_deltalake(folder, rows(*north, (20, "south", "m1", 4.5, 4)))
    write_deltalake(folder, rows((30, "south", None, 9.5, 9)), mode="append")
    return folder


@pytest.fixture
def lake(connection: headrace.Connection, location: str) -> headrace.Connection:
    """The connection with an external database, whose devices have two nodes, and a tree beside it."""
    connection.execute(CREATE.format(location))
    connection.execute(f"insert into root.own.line1(time, temperature) values ({START}, 7)")
    return connection


def seconds(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows with their times in seconds since the start."""
    return [((row[0] - START) // 1000, *row[1:]) for row in found]


def test_it_is_shown_as_a_database_with_devices_and_series(lake: headrace.Connection) -> None:
    assert first(lake, "show databases") == ["root.own", "root.lake.plant"]
    assert first(lake, "count databases root.lake.**") == [1]
    devices = ["root.lake.plant.north.`m 2`", "root.lake.plant.north.m1", "root.lake.plant.south.m1"]
    assert sorted(first(lake, "show devices root.lake.**")) == devices
    assert sorted(first(lake, "show devices")) == [*devices, "root.own.line1"]
    assert first(lake, "show devices root.lake.plant.south.*") == ["root.lake.plant.south.m1"]
    shown = fetch(lake, "show timeseries root.lake.plant.south.m1.*")
    assert [(row[0].rpartition(".")[2], row[2], row[3]) for row in shown] == [
        ("temperature", "root.lake.plant", "DOUBLE"),
        ("pressure", "root.lake.plant", "INT64"),
    ]
    assert shown[0][6] == '{"site":"south","machine":"m1"}'
    assert first(lake, "count timeseries root.lake.plant.**") == [6]
    assert first(lake, "show child paths root.lake.plant") == ["root.lake.plant.north", "root.lake.plant.south"]
    assert ("root.lake.plant", "DATABASE") in fetch(lake, "show child paths root.lake")


def test_queries_of_all_kinds_read_it(lake: headrace.Connection) -> None:
    sql = "select temperature, pressure from root.lake.plant.** align by device"
    expected = [
        (0, "root.lake.plant.north.`m 2`", 3.5, 3),
        (0, "root.lake.plant.north.m1", 1.5, 1),
        (10, "root.lake.plant.north.m1", None, 2),
        (20, "root.lake.plant.south.m1", 4.5, 4),
    ]
    assert sorted(seconds(fetch(lake, sql)), key=str) == sorted(expected, key=str)
    context = lake.session.context
    with headrace.connect(settings=context.settings.replace({"local_rows": 0}), dialect="iotdb", clock=lake.clock) as spark:
        assert sorted(seconds(fetch(spark, sql)), key=str) == sorted(expected, key=str)
    assert seconds(fetch(lake, "select pressure from root.lake.plant.north.m1")) == [(0, 1), (10, 2)]
    windows = f"select sum(pressure) from root.lake.plant.north.m1 group by ([{START}, {START + 20_000}), 10s)"
    assert seconds(fetch(lake, windows)) == [(0, 1.0), (10, 2.0)]
    assert fetch(lake, "select count(pressure) from root.lake.plant.** group by level = 3") == [(1, 3)]
    assert sorted(fetch(lake, "select sum(pressure) from root.lake.plant.** group by tags(machine)")) == [("m 2", 3.0), ("m1", 7.0)]
    assert fetch(lake, "select last pressure from root.lake.plant.south.m1")[0][1:3] == ("root.lake.plant.south.m1.pressure", "4")
    assert fetch(lake, "select count(temperature) from root.** group by level = 0") == [(1, 3)]


def test_new_rows_and_devices_are_read(lake: headrace.Connection, location: str) -> None:
    assert first(lake, "count devices root.lake.**") == [3]
    write_deltalake(location, rows((40, "east.hall", "m9", 5.5, 5)), mode="append")
    assert seconds(fetch(lake, "select pressure from root.lake.plant.east.hall.m9")) == [(40, 5)]
    assert first(lake, "count devices root.lake.**") == [4]


def test_a_continuous_query_and_a_stream_read_it(lake: headrace.Connection, location: str, tmp_path: Path) -> None:
    lake.execute(
        "create cq sums resample every 10s range 30s begin select sum(pressure) into root.own.${3}_${4}(total) "
        "from root.lake.plant.*.m1 group by (10s) align by device end"
    )
    with headrace.connect(tmp_path / "home", clock=lake.clock) as tables:
        tables.execute("create database d")
        tables.execute(
            "create stream d.s trigger at_once fill_history 1 into d.out1 as "
            "select _wstart, count(*) n, sum(pressure) total from `root.lake.plant`.devices partition by site interval(1h)"
        )
        write_deltalake(location, rows((25, "south", "m1", 4.5, 40)), mode="append")
        lake.clock.advance(30_000)
        lake.settle()
        assert seconds(fetch(lake, "select total from root.own.south_m1")) == [(20, 44.0)]
        tables.settle()
        assert sorted(row[1:] for row in tables.execute("select _wstart, n, total from d.out1").fetchall()) == [(2, 44), (3, 6)]
        assert tables.verify(stream="d.s").equal


def test_a_pipe_reads_it_by_the_source_of_tables(lake: headrace.Connection, location: str) -> None:
    with recording_sinks():
        RECORDERS.pop("plant", None)
        with pytest.raises(NotSupportedError, match=r"root\.lake\.plant is no tree, so iotdb-source does not read it") as refused:
            lake.execute(PIPE.format("'path'='root.lake.plant.**'"))
        assert "'source.table'='devices'" in str(refused.value.hint)
        source = "'source'='table-source', 'source.database'='root.lake.plant', 'source.table'='devices', 'inclusion'='data'"
        lake.execute(PIPE.format(source))
        run(lake, "out")
        write_deltalake(location, rows((40, "west", "m9", None, 5)), mode="append")
        run(lake, "out")
        points: Points = {}
        apply_events(points, RECORDERS["plant"].events())
    assert points["root.lake.plant.west.m9", START + 40_000, "pressure"] == 5
    assert points["root.lake.plant.north.`m 2`", START, "temperature"] == 3.5
    assert len(points) == 8


WRITES: Final = (
    "insert into root.lake.plant.north.m1(time, pressure) values (1, 2)",
    "insert into root.lake.plant.new(time, pressure) values (1, 2)",
    "create timeseries root.lake.plant.north.m1.s with datatype=INT32",
    "create aligned timeseries root.lake.plant.x(s INT32)",
    "delete from root.lake.plant.north.m1.pressure",
    "delete from root.lake.plant.**",
    "delete timeseries root.lake.plant.north.m1.pressure",
    "alter timeseries root.lake.plant.north.m1.pressure upsert alias=v",
    "set ttl to root.lake.plant 1000",
    "set device template t to root.lake.plant",
    "create timeseries using device template on root.lake.plant.north.m1",
    "deactivate device template from root.lake.plant.**",
    "select temperature into root.lake.plant.copy(t) from root.own.line1",
)


@pytest.mark.parametrize("statement", WRITES)
def test_nothing_is_written(lake: headrace.Connection, location: str, statement: str) -> None:
    lake.execute("create device template t (s1 INT32)")
    with pytest.raises(ProgrammingError, match=r"root\.lake\.plant is an external database, which is only read") as refused:
        lake.execute(statement)
    assert refused.value.hint
    assert DeltaTable(location).version() == 1
    assert first(lake, "count devices root.lake.**") == [3]


def test_what_matches_it_among_trees_changes_these_alone(lake: headrace.Connection, location: str) -> None:
    lake.execute("delete from root.** where time < 9999999999999")
    assert first(lake, "count devices root.lake.**") == [3]
    assert fetch(lake, "select temperature from root.own.line1") == []
    assert DeltaTable(location).version() == 1


@pytest.mark.parametrize(
    "statement",
    [
        "create database root.lake",
        "create database root.lake.plant",
        "create database root.lake.plant.sub",
        "insert into root.lake.other(time, s) values (1, 2)",
        "create external database root.own.sub (time from at, pressure) using delta at '{}'",
        "create external database root.lake (time from at, pressure) using delta at '{}'",
    ],
)
def test_databases_are_not_nested(lake: headrace.Connection, location: str, statement: str) -> None:
    with pytest.raises(Error, match=r"already been created as database|is an external database"):
        lake.execute(statement.format(location))
    assert first(lake, "show databases") == ["root.own", "root.lake.plant"]


def test_databases_beside_it_have_as_many_nodes_as_they_are_created_with(lake: headrace.Connection) -> None:
    lake.execute("create database root.lake.other")
    lake.execute("insert into root.lake.other.d(time, s) values (1, 2)")
    assert first(lake, "show databases") == ["root.lake.other", "root.own", "root.lake.plant"]


def test_a_dropped_database_leaves_its_files(lake: headrace.Connection, location: str) -> None:
    before = fetch(lake, "select pressure from root.lake.plant.** align by device")
    lake.execute("delete database root.lake.plant")
    assert first(lake, "show databases") == ["root.own"]
    assert fetch(lake, "select * from root.lake.plant.**") == []
    assert len(DeltaTable(location).to_pyarrow_table()) == 5
    lake.execute(CREATE.format(location))
    assert fetch(lake, "select pressure from root.lake.plant.** align by device") == before
    lake.execute("drop database root.lake.*")
    lake.execute("insert into root.lake.plant.north.m1(time, pressure) values (1, 2)")
    assert first(lake, "show databases") == ["root.lake", "root.own"]


def test_the_other_language_reads_it_and_leaves_it(lake: headrace.Connection, tmp_path: Path) -> None:
    with headrace.connect(tmp_path / "home") as tables:
        names = tables.execute("select distinct tbname from `root.lake.plant`.devices order by tbname").fetchall()
        assert names == [("north.m 2",), ("north.m1",), ("south.m1",)]
        ((_, sql),) = tables.execute("show create stable `root.lake.plant`.devices").fetchall()
        assert "TAGS (site VARCHAR FROM site, machine VARCHAR FROM machine) SERIES (site, machine)" in sql
        with pytest.raises(NotSupportedError, match=r"external database root\.lake\.plant"):
            tables.execute("drop stable `root.lake.plant`.devices")
        tables.execute("create database lake")
        tables.execute("create table lake.plant (ts timestamp, a int)")
    assert first(lake, "show timeseries root.lake.plant.south.**") == [
        "root.lake.plant.south.m1.temperature",
        "root.lake.plant.south.m1.pressure",
    ]


def test_a_database_of_the_other_language_is_not_hidden(connection: headrace.Connection, location: str, tmp_path: Path) -> None:
    with headrace.connect(tmp_path / "home") as tables:
        tables.execute("create database lake")
    with pytest.raises(NotSupportedError, match=r"root\.lake is the database lake of the tdengine dialect"):
        connection.execute(CREATE.format(location))


def test_without_tags_it_is_one_device(connection: headrace.Connection, location: str) -> None:
    sql = f"create external database if not exists root.door (time from at, pressure) using delta at '{location}'"
    connection.execute(sql)
    connection.execute(sql)
    with pytest.raises(ExistsError):
        connection.execute(sql.replace("if not exists ", ""))
    assert first(connection, "show devices") == ["root.door"]
    assert fetch(connection, "select sum(pressure) from root.door") == [(19.0,)]


def test_folders_of_files_are_databases_too(connection: headrace.Connection, tmp_path: Path) -> None:
    (tmp_path / "landed").mkdir()
    (tmp_path / "landed" / "a.csv").write_text("time,line,speed\n1000,line1.motor,5\n2000,line2,6\n")
    connection.execute(
        f"create external database root.landed (time, speed INT32) tags (line) using csv at '{tmp_path / 'landed'}' unit 'ms'"
    )
    os.utime(tmp_path / "landed" / "a.csv", (1, 1))
    assert sorted(first(connection, "show devices root.landed.**")) == ["root.landed.line1.motor", "root.landed.line2"]
    assert fetch(connection, "select speed from root.landed.line1.*") == [(1000, 5)]
    connection.execute("drop database root.landed")
    assert (tmp_path / "landed" / "a.csv").exists()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("root.l (time from nothing, pressure)", "has no column nothing"),
        ("root.l (time from at)", "besides its timestamp"),
        ("root.l.* (time from at, pressure)", "not a legal path"),
        ("root (time from at, pressure)", "not a legal path"),
        ("root.l (time from at, celsius DATE)", "celsius is DOUBLE in the source, not DATE"),
    ],
)
def test_a_definition_that_does_not_fit_is_refused(connection: headrace.Connection, location: str, sql: str, message: str) -> None:
    with pytest.raises(Error, match=message):
        connection.execute(f"create external database {sql} using delta at '{location}'")
    assert first(connection, "show databases") == []


def test_who_was_granted_it_creates_it_and_reads_by_paths(location: str, tmp_path: Path) -> None:
    settings = load(home=tmp_path / "home", external_locations=location)
    with headrace.connect(settings=settings, dialect="iotdb") as root:
        root.execute("create user vera 'secret12'")
        with headrace.connect(settings=settings, dialect="iotdb", user="vera", password="secret12") as vera:
            for privilege in ("USE_EXTERNAL", "MANAGE_DATABASE"):
                with pytest.raises(PermissionDeniedError, match=f"add privilege {privilege}"):
                    vera.execute(CREATE.format(location))
                root.execute(f"grant {privilege} on root.** to user vera")
            vera.execute(CREATE.format(location))
            assert fetch(vera, "select * from root.lake.plant.**") == []
            root.execute("grant READ on root.lake.plant.north.** to user vera")
            assert sorted(first(vera, "show devices root.lake.**")) == ["root.lake.plant.north.`m 2`", "root.lake.plant.north.m1"]
            assert seconds(fetch(vera, "select pressure from root.lake.plant.*.m1")) == [(0, 1), (10, 2)]
            root.execute("revoke USE_EXTERNAL on root.** from user vera")
            vera.execute("drop database root.lake.plant")
            with pytest.raises(NotFoundError):
                vera.execute("drop database root.lake.plant")
