"""Files loaded into trees: their forms, types, what is refused, and that repeating a load changes nothing."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace
from headrace.errors import DataError, NotFoundError, ProgrammingError
from headrace.model.loads import LoadRequest
from headrace.model.tables import Column
from headrace.model.types import BOOL
from headrace.service.topics.loads import plan_load
from headrace.settings import load as load_settings
from tests.service.iotdb.conftest import START
from tests.service.iotdb.test_series import fetch, stored

Writing = Callable[[str, str], Path]


@pytest.fixture
def file(tmp_path: Path) -> Writing:
    """Return a function that writes a file and returns its path."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture(params=[100_000, 1, 0], ids=["in memory", "through files", "by Spark"])
def sized(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[headrace.Connection]:
    """A connection for each way in which a load is written."""
    settings = load_settings(home=tmp_path / "home", small_write_rows=request.param)
    with headrace.connect(dialect="iotdb", settings=settings, clock=headrace.ManualClock(START)) as opened:
        yield opened


def types(connection: headrace.Connection, database: str = "root.plant") -> dict[str, str]:
    return {row[0]: row[3] for row in fetch(connection, f"show timeseries {database}.**")}


@pytest.mark.spark
def test_a_file_of_several_devices_names_them_in_a_column(sized: headrace.Connection, file: Writing) -> None:
    text = "time,device,s1,s2\n1,root.plant.d1,1.5,hot\n1,root.plant.d2,,cold\n2,root.plant.d1,2,\n"
    assert sized.load(file("a.csv", text), into="root.plant") == 3
    assert stored(sized) == {
        ("root.plant.d1", 1): {"s1": 1.5, "s2": "hot"},
        ("root.plant.d1", 2): {"s1": 2.0},
        ("root.plant.d2", 1): {"s2": "cold"},
    }
    assert types(sized) == {"root.plant.d1.s1": "DOUBLE", "root.plant.d1.s2": "TEXT", "root.plant.d2.s2": "TEXT"}


def test_all_rows_may_be_of_one_device(connection: headrace.Connection, file: Writing) -> None:
    path = file("a.csv", "Time,s1\n2024-05-01T12:00:00Z,true\n1714564801000,false\n")
    connection.load(path, into="root.plant", device="root.plant.d1")
    assert stored(connection) == {
        ("root.plant.d1", 1714564800000): {"s1": True},
        ("root.plant.d1", 1714564801000): {"s1": False},
    }


def test_a_path_below_a_database_is_the_device(plant: headrace.Connection, file: Writing) -> None:
    plant.load(file("a.csv", "time,s1\n1,5\n"), into="root.plant.line2")
    assert stored(plant) == {("root.plant.line2", 1): {"s1": 5}}


def test_the_table_of_a_database_names_the_tree_too(plant: headrace.Connection, file: Writing) -> None:
    plant.load(file("a.csv", "time,device,s1\n1,root.plant.line2,5\n"), into="`root.plant`.devices")
    assert stored(plant) == {("root.plant.line2", 1): {"s1": 5}}


@pytest.mark.spark
def test_exports_of_iotdb_by_time_are_loaded(sized: headrace.Connection, file: Writing) -> None:
    text = (
        "Time,root.plant.d1.s1(INT32),root.plant.d2.s1(FLOAT),root.plant.d2.note(TEXT)\n"
        '1970-01-01T08:00:00.001+08:00,7,,"say \\"hi\\"\\, twice"\n'
        "1970-01-01T08:00:00.002+08:00,,2.5,\n"
        "1970-01-01T08:00:00.003+08:00,,,\n"
    )
    assert sized.load(file("dump0.csv", text), into="root.plant") == 3
    assert stored(sized) == {
        ("root.plant.d1", 1): {"s1": 7},
        ("root.plant.d2", 1): {"note": 'say "hi", twice'},
        ("root.plant.d2", 2): {"s1_2": 2.5},
    }
    assert types(sized) == {"root.plant.d1.s1": "INT32", "root.plant.d2.s1": "FLOAT", "root.plant.d2.note": "TEXT"}


def test_exports_of_iotdb_by_device_are_loaded(connection: headrace.Connection, file: Writing) -> None:
    text = (
        "Time,Device,b(BOOLEAN),i(INT64),f(FLOAT),x(BLOB),d(DATE),t(TIMESTAMP),s(STRING)\n"
        '5,root.plant.d1,true,9007199254740993,1.5,0x00ff,2024-05-01,1970-01-01T00:00:07.000Z,"a\\\\b"\n'
    )
    connection.load(file("dump0.csv", text), into="root.plant")
    ((_, values),) = stored(connection).items()
    moment = values.pop("t")
    assert values == {"b": True, "i": 9007199254740993, "f": 1.5, "x": b"\x00\xff", "d": dt.date(2024, 5, 1), "s": "a\\b"}
    assert moment.timestamp() == 7
    assert types(connection)["root.plant.d1.s"] == "STRING"


def test_json_has_the_types_that_insert_would_infer(connection: headrace.Connection, file: Writing) -> None:
    text = '{"time": 1, "device": "root.plant.d1", "a": true, "b": 5}\n{"time": 1, "device": "root.plant.d2", "b": "five"}\n'
    connection.load(file("a.ndjson", text), into="root.plant")
    assert types(connection) == {"root.plant.d1.a": "BOOLEAN", "root.plant.d1.b": "DOUBLE", "root.plant.d2.b": "TEXT"}
    assert stored(connection) == {("root.plant.d1", 1): {"a": True, "b": 5.0}, ("root.plant.d2", 1): {"b_2": "five"}}


def test_parquet_keeps_its_types(connection: headrace.Connection, tmp_path: Path) -> None:
    columns = {
        "time": pa.array([1, 2]),
        "device": pa.array(["root.plant.d1"] * 2).dictionary_encode(),
        "i": pa.array([1, None], pa.int32()),
        "f": pa.array([0.5, 1.5], pa.float32()),
        "x": pa.array([b"x", None]),
        "empty": pa.array([None, None], pa.int64()),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    connection.load(tmp_path / "a.parquet", into="root.plant")
    assert types(connection) == {"root.plant.d1.i": "INT32", "root.plant.d1.f": "FLOAT", "root.plant.d1.x": "BLOB"}


def test_the_type_of_a_series_that_exists_counts(plant: headrace.Connection, file: Writing) -> None:
    text = "time,device,s1(DOUBLE)\n1,root.plant.line1,4\n1,root.plant.line3,4\n"
    plant.load(file("a.csv", text), into="root.plant")
    assert types(plant)["root.plant.line1.s1"] == "INT32"
    assert types(plant)["root.plant.line3.s1"] == "DOUBLE"
    assert stored(plant) == {("root.plant.line1", 1): {"s1": 4}, ("root.plant.line3", 1): {"s1_2": 4.0}}


def test_a_new_series_has_the_type_of_the_first_value_of_all_files(connection: headrace.Connection, file: Writing) -> None:
    first, second = file("a.csv", "time,s1\n1,\n2,\n"), file("b.csv", "time,s1\n3,five\n4,6\n")
    connection.load([first, second], into="root.plant", device="root.plant.d")
    assert types(connection) == {"root.plant.d.s1": "TEXT"}


@pytest.mark.spark
def test_rows_of_one_instant_are_combined_and_null_replaces_nothing(sized: headrace.Connection, file: Writing) -> None:
    sized.execute("insert into root.plant.d(time, a, b) values (1, 1, 1), (2, 2, 2)")
    first = file("a.csv", "time,a,b\n1,5,\n1,,6\n3,7,\n2,,9\n")
    second = file("b.csv", "time,a,b\n3,,8\n3,9,\n4,,\n")
    assert sized.load([first, second], into="root.plant", device="root.plant.d") == 3
    expected = {1: {"a": 5.0, "b": 6.0}, 2: {"a": 2.0, "b": 9.0}, 3: {"a": 9.0, "b": 8.0}}
    assert {time: values for (_, time), values in stored(sized).items()} == expected


@pytest.mark.spark
def test_loading_a_file_twice_changes_nothing(sized: headrace.Connection, file: Writing) -> None:
    path = file("a.csv", "time,device,a\n" + "".join(f"{n},root.plant.d{n % 3},{n / 2}\n" for n in range(60)))
    assert sized.load(path, into="root.plant") == 60
    before = stored(sized), fetch(sized, "show timeseries root.**")
    assert sized.load(path, into="root.plant") == 60
    assert (stored(sized), fetch(sized, "show timeseries root.**")) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,device,s1\n1,root.plant.line1,4\n2,root.plant.line1,hot\n", "row 2: 'hot' is not valid for root.plant.line1.s1"),
        ("time,device,s1\n1,root.plant.line1,1.5\n", "row 1: '1.5' is not valid for root.plant.line1.s1, which is INT32"),
        ("time,device,s1\n1,root.plant.line1,2147483648\n", "which is INT32; give it a whole number from"),
        ("time,device,s9\n1,root.plant.line1,1\n2,root.plant.line1,x\n", "row 2: 'x' is not valid for root.plant.line1.s9"),
        ("time,device,s1\n1,root.other.d,4\n", "row 1: 'root.other.d' is not valid for device; give it a device below root.plant"),
        ("time,device,s1\n1,root.plant.a-b,4\n", "row 1: 'root.plant.a-b' is not valid for device"),
        ("time,device,s1\n1,,4\n", "row 1: NULL is not valid for device"),
        ("time,device,s1\n,root.plant.line1,4\n", "row 1: NULL is not valid for time"),
        ("time,device,s1\nnoon,root.plant.line1,4\n", "row 1: 'noon' is not valid for time"),
        ("time,device,s1\n1,root.plant.line1\n", "row 1: 2 values"),
    ],
)
def test_one_bad_row_refuses_the_load(plant: headrace.Connection, file: Writing, text: str, message: str) -> None:
    before = fetch(plant, "show timeseries root.**")
    with pytest.raises(DataError) as refused:
        plant.load(file("a.csv", text), into="root.plant")
    assert message in refused.value.message
    assert "nothing was loaded" in refused.value.message
    assert (stored(plant), fetch(plant, "show timeseries root.**")) == ({}, before)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("device,s1", "a.csv has no column time"),
        ("time,s1", "a.csv names no device"),
        ("time,device,root.plant.d.s1", "both in the column device and in root.plant.d.s1"),
        ("time,root.other.d.s1", "root.other.d.s1 is not below root.plant"),
        ("time,device,s-1", "s-1 is not the name of a measurement"),
        ("time,device,s1(INT)", "INT is not a type"),
        ("time,device,s1,s1(TEXT)", "'s1(TEXT)' and 's1' are one column"),
    ],
)
def test_headers_that_no_tree_has_are_refused(plant: headrace.Connection, file: Writing, header: str, message: str) -> None:
    path = file("a.csv", header + "\n")
    with pytest.raises(ProgrammingError) as refused:
        plant.load(path, into="root.plant")
    assert message in refused.value.message


def test_the_device_must_lie_in_the_database(plant: headrace.Connection, file: Writing) -> None:
    path = file("a.csv", "time,s1\n1,1\n")
    with pytest.raises(ProgrammingError, match=r"root\.other\.d does not lie in root\.plant"):
        plant.load(path, into="root.plant", device="root.other.d")
    with pytest.raises(NotFoundError, match=r"database root\.new\.line1 does not exist"):
        plant.load(path, into="root.new.line1")
    with pytest.raises(ProgrammingError, match="has no devices"):
        plant.load(path, into="plain.table", device="root.plant.d")


def test_a_load_into_a_tree_is_explained(plant: headrace.Connection, file: Writing) -> None:
    session = plant.session
    stages = plan_load(session, LoadRequest([file("a.csv", "time,s1\n1,1\n")], "root.plant", device="root.plant.line1"))
    assert session.explain(stages) == [
        "load 1 file of 12 bytes into device root.plant.line1: all rows or none",
        "create the series that are missing",
        "needs the right to WRITE_DATA on root.plant.line1.**, WRITE_SCHEMA on root.plant.line1.**",
    ]


def test_frames_of_a_program_are_appended(connection: headrace.Connection) -> None:
    rows: list[dict[str, Any]] = [{"time": 1, "device": "root.plant.d1", "s1": 1.5}, {"time": 2, "device": "root.plant.d1"}]
    assert connection.append(rows, into="root.plant") == 1
    assert connection.append([{"time": 3, "s1": 2.5}], into="root.plant", device="root.plant.d1") == 1
    assert stored(connection) == {("root.plant.d1", 1): {"s1": 1.5}, ("root.plant.d1", 3): {"s1": 2.5}}


def test_new_devices_may_be_aligned(connection: headrace.Connection, file: Writing) -> None:
    connection.load(file("a.csv", "time,s1\n1,1\n"), into="root.plant", device="root.plant.d1", aligned=True)
    assert [row[1] for row in fetch(connection, "show devices root.plant.**")] == ["true"]


def test_progress_reaches_the_size_of_the_files(connection: headrace.Connection, file: Writing) -> None:
    reports: list[tuple[int, int]] = []
    paths = [file("a.csv", "time,device,s\n1,root.plant.d,1\n"), file("b.csv", "time,device,s\n2,root.plant.d,1\n")]
    connection.load(paths, into="root.plant", progress=lambda done, total: reports.append((done, total)))
    size = sum(path.stat().st_size for path in paths)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    assert {total for _, total in reports} == {size}
    assert (size // 2 in [done for done, _ in reports], reports[-1][0]) == (True, size)


def test_a_column_that_only_the_files_of_the_table_have_is_worked_around(plant: headrace.Connection, file: Writing) -> None:
    """A crash between the two steps of creating a series leaves a column that the catalog does not know."""
    context = plant.session.context
    table, database = context.catalog.tables.get("root.plant", "devices"), context.catalog.databases.get("root.plant")
    context.tables.columns.add(table, database, [Column("s7", BOOL, comment="s7")])
    plant.load(file("a.csv", "time,device,s7\n1,root.plant.d,1.5\n"), into="root.plant")
    assert stored(plant) == {("root.plant.d", 1): {"s7_2": 1.5}}
    assert [row[-1] for row in fetch(plant, "select s7 from root.plant.d")] == [1.5]


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": st.sampled_from([None, True, False]),
    "b": st.one_of(st.none(), st.integers(-5, 5), st.floats(-2, 2, width=16)),
    "c": st.sampled_from([None, "x", 'say "y"', "1", "true", "a,b"]),
}
ROWS = st.lists(
    st.fixed_dictionaries({"time": st.integers(0, 4), "device": st.sampled_from(["root.plant.d1", "root.plant.`d-2`"]), **VALUES}),
    max_size=12,
)


@pytest.mark.drawn(2)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=ROWS, form=st.sampled_from(["ndjson", "csv"]))
def test_a_load_writes_what_insert_writes(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], form: str) -> None:
    folder = tmp_path_factory.mktemp("loads")
    if form == "csv":
        # A text that looks like a number is one in CSV, and 'c' is about text.
        rows = [{**row, "c": row["c"] and f"_{row['c']}"} for row in rows]
    path = folder / f"rows.{form}"
    path.write_text(csv_text(rows) if form == "csv" else "".join(json.dumps(row) + "\n" for row in rows))
    with (
        headrace.connect(folder / "loaded", dialect="iotdb") as loaded,
        headrace.connect(folder / "inserted", dialect="iotdb") as inserted,
    ):
        inserted.execute("create database root.plant")
        loaded.load(path, into="root.plant")
        for row in rows:
            values = [row["time"], *(row[name] for name in VALUES)]
            inserted.execute(f"insert into {row['device']}(time, a, b, c) values (?, ?, ?, ?)", values)
        assert stored(loaded) == stored(inserted)
        assert types(loaded) == types(inserted)


def csv_text(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV, NULL as an empty field."""
    lines = io.StringIO()
    writer = csv.DictWriter(lines, ["time", "device", *VALUES])
    writer.writeheader()
    writer.writerows(rows)
    return lines.getvalue()


def test_a_load_below_a_device_template_uses_its_measurements(plant: headrace.Connection, file: Writing) -> None:
    plant.execute("create device template t aligned (s1 INT64, s2 FLOAT)")
    plant.execute("set device template t to root.plant.west")
    plant.execute("create timeseries using device template on root.plant.west.d0")
    text = (
        "time,device,s1,s3\n1,root.plant.west.d1,5,on\n1,root.plant.west.d2,6,7\n2,root.plant.west.d0,7,\n3,root.plant.east,8,9\n"
    )
    plant.load(file("a.csv", text), into="root.plant")
    template = {"s1": "INT64", "s2": "FLOAT", "s3": "TEXT"}
    expected = {f"root.plant.west.{device}.{name}": type_ for device in ("d0", "d1", "d2") for name, type_ in template.items()}
    expected |= {"root.plant.east.s1": "DOUBLE", "root.plant.east.s3": "DOUBLE"}
    loaded = types(plant)
    assert {path: loaded[path] for path in expected} == expected
    assert fetch(plant, "show devices root.plant.west.**") == [
        (f"root.plant.west.{device}", "true", "t", "INF") for device in ("d0", "d1", "d2")
    ]
    assert {row[0]: row[1] for row in fetch(plant, "show nodes in device template t")} == template
    rows = fetch(plant, "select s1, s2, s3 from root.plant.west.* align by device")
    assert [row[1:] for row in rows] == [
        ("root.plant.west.d0", 7, None, None),
        ("root.plant.west.d1", 5, None, "on"),
        ("root.plant.west.d2", 6, None, "7"),
    ]
    assert [row[1:] for row in fetch(plant, "select s1, s3 from root.plant.east")] == [(8.0, 9.0)]


def test_a_value_that_a_device_template_cannot_hold_is_refused(plant: headrace.Connection, file: Writing) -> None:
    plant.execute("create device template t (s1 INT64)")
    plant.execute("set device template t to root.plant.west")
    with pytest.raises(DataError, match=r"root.plant.west.d1.s1"):
        plant.load(file("a.csv", "time,s1\n1,5\n2,high\n"), into="root.plant.west.d1")
    assert fetch(plant, "show devices root.plant.west.**") == []
