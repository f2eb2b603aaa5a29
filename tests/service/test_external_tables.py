"""Delta tables of other writers as sources: their rows, what is refused, and that nothing is written to them."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import headrace
from headrace.errors import (
    EgressDeniedError,
    Error,
    HistoryGoneError,
    NotSupportedError,
    ProgrammingError,
    TypeMismatchError,
)
from headrace.settings import load
from tests.service.conftest import on_spark

DAY: Final = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
CREATE: Final = (
    "create external stable readings (ts from event_time, temperature, pressure) tags (machine, site) series (machine) "
    "using delta at '{}'"
)


def minutes(*numbers: float) -> pa.Array:
    return pa.array([DAY + dt.timedelta(minutes=number) for number in numbers], pa.timestamp("us", "UTC"))


def write_readings(folder: Path, **options: Any) -> str:
    """Write six rows of two machines, the second of which has moved."""
    rows = {
        "event_time": minutes(0, 1, 2, 3, 4, 5),
        "machine": ["m1", "m2", "m1", "m2", "m1", None],
        "site": ["north", "north", "north", "south", "north", "south"],
        "temperature": [1.5, 2.5, None, 4.5, 5.5, 6.5],
        "pressure": pa.array([1, 2, 3, 4, 5, 6], pa.int32()),
        "day": ["a", "a", "a", "b", "b", "b"],
    }
    write_deltalake(str(folder), pa.table(rows), **options)
    return str(folder)


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


@pytest.fixture(params=[None, ["day"], ["machine", "day"]], ids=["files", "by-day", "by-series"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return write_readings(tmp_path / "lake" / "it's 100%", partition_by=request.param)


@pytest.fixture
def readings(connection: headrace.Connection, location: str) -> headrace.Connection:
    connection.execute(CREATE.format(location.replace("'", "\\'")))
    return connection


def test_rows_are_read_by_their_own_columns_and_tags(readings: headrace.Connection) -> None:
    rows = fetch(readings, "select ts, temperature, pressure, tbname, site from readings order by ts")
    assert rows == [
        (DAY, 1.5, 1, "m1", "north"),
        (DAY + dt.timedelta(minutes=1), 2.5, 2, "m2", "north"),
        (DAY + dt.timedelta(minutes=2), None, 3, "m1", "north"),
        (DAY + dt.timedelta(minutes=3), 4.5, 4, "m2", "south"),
        (DAY + dt.timedelta(minutes=4), 5.5, 5, "m1", "north"),
    ]
    assert not getattr(readings.session.context.spark, "started", True)


@pytest.mark.parametrize(
    "query",
    [
        "select ts, temperature, pressure, tbname, machine, site from readings order by ts",
        "select site, count(*), sum(pressure) from readings partition by site order by site",
        "select _wstart, tbname, count(*), max(temperature) from readings partition by tbname interval(2m) order by tbname, 1",
        "select ts, pressure from m1 where ts > '2024-05-01 00:00:00' order by ts",
        "select tbname, last(temperature) from readings where site = 'north' partition by tbname order by tbname",
        "select count(*) from readings where ts >= '2024-05-01 00:02:00' and ts < '2024-05-01 00:04:00' and tbname = 'm2'",
        "select _wstart, count(*) from readings session(ts, 90s)",
    ],
)
def test_queries_near_are_those_on_spark_and_verified(readings: headrace.Connection, query: str) -> None:
    near = fetch(readings, query)
    assert near
    with on_spark(readings) as spark:
        assert fetch(spark, query) == near
    assert readings.verify(query).difference is None


@pytest.mark.spark
@pytest.mark.parametrize("kernels", ["always", "never"])
@pytest.mark.parametrize(
    "query",
    [
        "select _wstart, tbname, count(*), max(temperature) from readings partition by tbname interval(2m) order by tbname, 1",
        "select _wstart, site, count(*), sum(pressure) from readings partition by site interval(2m) order by site, 1",
        "select _wstart, tbname, count(*) from readings where pressure > 1 partition by tbname session(ts, 90s) order by 2, 1",
        "select _wstart, tbname, count(*) from readings partition by tbname state_window(cast(pressure / 3 as int)) order by 2, 1",
        "select _wstart, count(*), first(site) from readings where site = 'north' interval(1m) order by 1",
    ],
)
def test_windows_are_the_same_by_kernels_and_by_spark_sql(
    connection: headrace.Connection, location: str, query: str, kernels: str
) -> None:
    settings = connection.session.context.settings.replace({"local_rows": 0, "kernels": kernels})
    connection.execute(CREATE.format(location.replace("'", "\\'")))
    with headrace.connect(settings=settings, database="d") as spark:
        assert fetch(spark, query) == fetch(connection, query)


def test_series_are_subtables(readings: headrace.Connection) -> None:
    assert fetch(readings, "show tables") == [("m1", "readings"), ("m2", "readings")]
    assert ("m2", "d", "readings", "site", "VARCHAR", "south") in fetch(readings, "show tags from readings")
    types = fetch(readings, "select table_name, type from information_schema.ins_tables where db_name = 'd'")
    assert types == [("m1", "EXTERNAL_CHILD_TABLE"), ("m2", "EXTERNAL_CHILD_TABLE")]


def test_maintenance_registers_new_series_and_leaves_the_table_alone(readings: headrace.Connection, location: str) -> None:
    row = {"event_time": minutes(9), "machine": ["m3"], "site": ["east"], "temperature": [1.0], "day": ["c"]}
    write_deltalake(location, pa.table(row | {"pressure": pa.array([1], pa.int32())}), mode="append")
    version = DeltaTable(location).version()
    readings.execute("compact database d")
    assert fetch(readings, "select pressure from m3") == [(1,)]
    assert DeltaTable(location).version() == version


def test_show_create_makes_the_same_table(readings: headrace.Connection, location: str) -> None:
    ((_, sql),) = fetch(readings, "show create stable readings")
    before = fetch(readings, "select * from readings order by ts")
    readings.execute("drop stable readings")
    assert DeltaTable(location).version() == 0
    readings.execute(sql)
    assert fetch(readings, "show create stable readings") == [("readings", sql)]
    assert fetch(readings, "select * from readings order by ts") == before


@pytest.mark.parametrize(
    "sql",
    [
        "insert into m1 values (now, 1, 1)",
        "insert into m9 using readings tags ('m9', 'x') values (now, 1, 1)",
        "insert into readings (tbname, ts, pressure) values ('m1', now, 1)",
        "delete from readings where ts < now",
        "delete from m1",
        "drop table m1",
        "alter stable readings add column c int",
        "alter stable readings drop column pressure",
        "alter stable readings comment 'x'",
        "alter table m1 set tag site = 'x'",
        "alter table m1 ttl 5",
        "create table m9 using readings tags ('a', 'b')",
    ],
)
def test_nothing_is_written(readings: headrace.Connection, location: str, sql: str) -> None:
    with pytest.raises(ProgrammingError, match="is an external table, which is only read"):
        readings.execute(sql)
    assert DeltaTable(location).version() == 0


@pytest.mark.parametrize(
    ("into", "error"),
    [
        ("create stream s into readings as select _wstart, count(*) from other interval(1m)", ProgrammingError),
        ("select ts, a, b into readings from other", Error),
    ],
)
def test_it_is_no_target(readings: headrace.Connection, into: str, error: type[Error]) -> None:
    readings.execute("create table other (ts timestamp, a double, b int)")
    with pytest.raises(error):
        readings.execute(into)


def test_one_series_needs_no_tags(connection: headrace.Connection, tmp_path: Path) -> None:
    location = write_readings(tmp_path / "lake")
    connection.execute(f"create external table door (ts from event_time, pressure) using delta at '{location}'")
    assert fetch(connection, "select count(*), sum(pressure) from door") == [(6, 21)]
    assert fetch(connection, "show create table door")[0][1].startswith("CREATE EXTERNAL TABLE d.door")


def test_several_tags_name_a_series_together(connection: headrace.Connection, tmp_path: Path) -> None:
    location = write_readings(tmp_path / "lake")
    connection.execute(f"create external stable r (ts from event_time, pressure) tags (site, machine) using delta at '{location}'")
    assert fetch(connection, "select tbname, count(*) from r partition by tbname order by tbname") == [
        *(("north_m1", 3), ("north_m2", 1), ("south_m2", 1)),
    ]


TIMES: Final = {
    "zoned": (pa.array([DAY], pa.timestamp("us", "UTC")), "", DAY),
    "local": (pa.array([dt.datetime(2024, 5, 1)], pa.timestamp("us")), "timezone 'Europe/Berlin'", DAY - dt.timedelta(hours=2)),
    "repeated": (
        *(pa.array([dt.datetime(2024, 10, 27, 2, 30)], pa.timestamp("us")), "timezone 'Europe/Berlin'"),
        dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC),
    ),
    "skipped": (
        *(pa.array([dt.datetime(2024, 3, 31, 2, 30)], pa.timestamp("us")), "timezone 'Europe/Berlin'"),
        dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC),
    ),
    "date": (pa.array([dt.date(2024, 5, 1)]), "timezone '+05:30'", DAY - dt.timedelta(hours=5, minutes=30)),
    "seconds": (pa.array([1714521600], pa.int64()), "unit 's'", DAY),
    "int32": (pa.array([1714521600], pa.int32()), "unit 's'", DAY),
    "milliseconds": (pa.array([1714521600123], pa.int64()), "unit 'ms'", DAY + dt.timedelta(milliseconds=123)),
    "microseconds": (pa.array([1714521600123456], pa.int64()), "unit 'us'", DAY + dt.timedelta(microseconds=123456)),
    "nanoseconds": (pa.array([1714521600123456789], pa.int64()), "unit 'ns'", DAY + dt.timedelta(microseconds=123456)),
    "before-1970": (pa.array([-1], pa.int64()), "unit 'ns'", dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)),
}


NANOSECONDS: Final = {"nanoseconds": 1714521600123456789, "before-1970": -1}
"""What a database of nanoseconds has of times with fractions of a microsecond."""


@pytest.mark.drawn(3)
@pytest.mark.parametrize("precision", ["ms", "us", "ns"])
@pytest.mark.parametrize("kind", TIMES)
def test_times_become_instants_of_the_precision(connection: headrace.Connection, tmp_path: Path, kind: str, precision: str) -> None:
    times, option, expected = TIMES[kind]
    location = str(tmp_path / "lake")
    write_deltalake(location, pa.table({"t": times, "v": pa.array([7], pa.int64())}))
    connection.execute(f"create database p precision '{precision}'")
    connection.execute(f"create external table p.x (ts from t, v) using delta at '{location}' {option}")
    ticks = int((expected - EPOCH) / dt.timedelta(microseconds=1))
    ticks = {"ms": ticks // 1000, "us": ticks, "ns": NANOSECONDS.get(kind, ticks * 1000)}[precision]
    query = "select cast(ts as bigint), v from p.x"
    assert fetch(connection, query) == [(ticks, 7)]
    assert fetch(connection, f"select v from p.x where ts = {ticks}") == [(7,)]
    assert fetch(connection, f"select v from p.x where ts > {ticks} or ts < {ticks}") == []
    with on_spark(connection) as spark:
        assert fetch(spark, query) == [(ticks, 7)]


@pytest.mark.spark
@pytest.mark.drawn(3)
@pytest.mark.parametrize("precision", ["ms", "us", "ns"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_rows_of_times_beyond_the_calendar_are_left_out(
    connection: headrace.Connection, tmp_path: Path, unit: str, precision: str
) -> None:
    location = str(tmp_path / "lake")
    times = pa.array([1714521600, 2**63 - 1, -(2**63), None, 2**62, 5], pa.int64())
    write_deltalake(location, pa.table({"t": times, "v": pa.array(range(6), pa.int64())}))
    connection.execute(f"create database p precision '{precision}'")
    connection.execute(f"create external table p.x (ts from t, v) using delta at '{location}' unit '{unit}'")
    query = "select v from p.x order by v"
    near = fetch(connection, query)
    assert {(0,), (5,)} <= set(near)
    assert near == [(0,), (5,)] or unit == "ns"
    with on_spark(connection) as spark:
        assert fetch(spark, query) == near


def test_columns_of_all_types_keep_their_values(connection: headrace.Connection, tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    nested = pa.array([{"x": {"y": 1.25}, "z": "deep"}], pa.struct([("x", pa.struct([("y", pa.float64())])), ("z", pa.string())]))
    columns = {
        "t": minutes(0),
        "flag": [True],
        "tiny": pa.array([-128], pa.int8()),
        "small": pa.array([-32768], pa.int16()),
        "int": pa.array([2**31 - 1], pa.int32()),
        "long": pa.array([-(2**63)], pa.int64()),
        "single": pa.array([0.5], pa.float32()),
        "price": pa.array([Decimal("12345678901234567890.123")], pa.decimal128(38, 3)),
        "text": ["Grüße"],
        "bytes": pa.array([b"\x00\xff"]),
        "local": pa.array([dt.datetime(2024, 1, 1, 12)], pa.timestamp("us")),
        "date": pa.array([dt.date(2024, 1, 1)]),
        "Payload": nested,
    }
    write_deltalake(location, pa.table(columns))
    connection.execute(
        "create external table x (ts from t, flag, tiny, small, `int`, wide bigint from `int`, `long`, single, price, text, "
        f"bytes, local, date, y from payload.x.y, z from payload.z) using delta at '{location}' timezone 'Europe/Berlin'"
    )
    query = "select flag, tiny, small, `int`, wide, `long`, single, price, text, bytes, local, date, y, z from x"
    near = fetch(connection, query)
    noon, midnight = dt.datetime(2024, 1, 1, 11, tzinfo=dt.UTC), dt.datetime(2023, 12, 31, 23, tzinfo=dt.UTC)
    assert near == [
        (
            *(True, -128, -32768, 2**31 - 1, 2**31 - 1, -(2**63), 0.5, Decimal("12345678901234567890.123"), "Grüße", b"\x00\xff"),
            *(noon, midnight, 1.25, "deep"),
        )
    ]
    with on_spark(connection) as spark:
        assert fetch(spark, query) == near


@pytest.mark.parametrize(
    ("sql", "message", "error"),
    [
        ("(ts from nothing, pressure) tags (site)", "has no column nothing", ProgrammingError),
        ("(ts from event_time, presurre) tags (site)", "has no column presurre", ProgrammingError),
        ("(ts from site, pressure) tags (site)", "site is string|ts is string", TypeMismatchError),
        ("(ts from pressure, temperature) tags (site)", "whole number", TypeMismatchError),
        ("(ts from event_time, pressure smallint) tags (site)", "pressure is INT in the source, not SMALLINT", TypeMismatchError),
        ("(ts from event_time, pressure) tags (temperature)", "cannot name a series", TypeMismatchError),
        ("(ts from event_time, pressure) tags (site) series (machine)", "machine is not a tag", ProgrammingError),
        ("(ts from event_time, pressure, pressure) tags (site)", "specified twice", ProgrammingError),
        ("(ts from event_time) tags (site)", "besides its timestamp", ProgrammingError),
        ("(ts from event_time, pressure) tags (site from pressure.x)", "has no column pressure.x", ProgrammingError),
    ],
)
def test_a_definition_that_does_not_fit_is_refused(
    connection: headrace.Connection, tmp_path: Path, sql: str, message: str, error: type[Error]
) -> None:
    location = write_readings(tmp_path / "lake")
    with pytest.raises(error, match=message) as raised:
        connection.execute(f"create external stable readings {sql} using delta at '{location}'")
    assert raised.value.span is not None
    assert fetch(connection, "show stables") == []


@pytest.mark.parametrize(
    ("location", "error"),
    [("/nowhere/at/all", ProgrammingError), ("{home}/tables/d/own/rows", Error), ("http://example.com/x", ProgrammingError)],
)
def test_a_place_without_a_table_of_others_is_refused(
    connection: headrace.Connection, tmp_path: Path, location: str, error: type[Error]
) -> None:
    connection.execute("create table own (ts timestamp, a int)")
    with pytest.raises(error):
        connection.execute(f"create external table x (ts, a) using delta at '{location.format(home=tmp_path / 'home')}'")


def test_what_files_alone_do_not_say_is_refused(connection: headrace.Connection, tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    rows = pa.table({"t": minutes(0), "a": [1], "p": pa.array([Decimal("1.5")])})
    write_deltalake(location, rows, partition_by=["p"])
    with pytest.raises(NotSupportedError, match="partitioned by p"):
        connection.execute(f"create external table x (ts from t, a) using delta at '{location}'")


def test_a_table_that_is_made_again_is_told(connection: headrace.Connection, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    connection.execute(CREATE.format(write_readings(folder)))
    assert fetch(connection, "select count(*) from readings") == [(5,)]
    folder.rename(tmp_path / "old")
    write_readings(folder)
    with pytest.raises(HistoryGoneError, match="has been made again"):
        fetch(connection, "select count(*) from readings")


def test_a_column_that_is_gone_is_told_and_a_new_one_is_ignored(connection: headrace.Connection, tmp_path: Path) -> None:
    location = write_readings(tmp_path / "lake")
    connection.execute(CREATE.format(location))
    more = {"event_time": minutes(7), "machine": ["m1"], "site": ["north"], "temperature": [1.0], "day": ["a"], "new": [1]}
    write_deltalake(location, pa.table(more | {"pressure": pa.array([9], pa.int32())}), mode="append", schema_mode="merge")
    assert fetch(connection, "select sum(pressure) from readings") == [(24,)]
    less = pa.table({"event_time": minutes(0), "machine": ["m1"], "site": ["north"]})
    write_deltalake(location, less, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(HistoryGoneError, match=r"column temperature of .* does not exist any more"):
        fetch(connection, "select sum(temperature) from readings")


@pytest.mark.parametrize("path", ["file://{secret}", "../secret/{name}", "link/{name}"])
def test_files_of_other_places_are_not_read(connection: headrace.Connection, tmp_path: Path, path: str) -> None:
    folder, secret = tmp_path / "lake", tmp_path / "secret"
    connection.execute(CREATE.format(write_readings(folder)))
    write_readings(secret)
    (file,) = secret.glob("*.parquet")
    (folder / "link").symlink_to(secret)
    action = {
        "path": path.format(secret=file, name=file.name),
        "partitionValues": {},
        "size": file.stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
    }
    (folder / "_delta_log" / "00000000000000000001.json").write_text(json.dumps({"add": action}) + "\n")
    with pytest.raises(EgressDeniedError, match="has a file outside of"):
        fetch(connection, "select count(temperature) from readings")
    with on_spark(connection) as spark, pytest.raises(EgressDeniedError, match="has a file outside of"):
        fetch(spark, "select count(temperature) from readings")


def test_a_folder_that_has_become_a_link_is_not_read(connection: headrace.Connection, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    connection.execute(CREATE.format(write_readings(folder)))
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    with pytest.raises(EgressDeniedError, match="has a file outside of"):
        fetch(connection, "select count(temperature) from readings")


def test_places_are_checked_whenever_a_process_opens_a_table(connection: headrace.Connection, tmp_path: Path) -> None:
    connection.execute(CREATE.format(write_readings(tmp_path / "lake")))
    home = connection.session.context.settings.home_path
    for allowed, is_allowed in ((tmp_path / "lake", True), (tmp_path / "other", False), (tmp_path, True)):
        with headrace.connect(settings=load(home=home, external_locations=str(allowed)), database="d") as other:
            if is_allowed:
                assert fetch(other, "select count(*) from readings") == [(5,)]
            else:
                with pytest.raises(EgressDeniedError, match="HEADRACE_EXTERNAL_LOCATIONS"):
                    fetch(other, "select count(*) from readings")
