"""Folders in which CSV and NDJSON files land as sources of queries and streams."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import random
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import headrace
from headrace.errors import DataError, ProgrammingError
from headrace.model.failpoints import calling
from headrace.runtime.table_maintenance import maintain_table
from headrace.storage.delta import text_folders
from tests.service.conftest import on_spark
from tests.service.test_parquet_folders import STREAM, fetch, land, rows
from tests.support.drawing import SEED, drawn

HEADER: Final = "at,machine,value"
DAY: Final = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


def lines(first: int, count: int, machine: str = "m1") -> list[str]:
    return [f"2024-05-01 00:{first + number:02d}:00,{machine},{first + number}" for number in range(count)]


def write(path: Path, *text: str, age_s: float = 60, encoding: str = "utf-8") -> None:
    """Write a file that was complete some time ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in text).encode(encoding)
    if path.suffix == ".gz":
        content = gzip.compress(content)
    if path.suffix == ".zst":
        content = pa.compress(content, "zstd", asbytes=True)
    path.write_bytes(content)
    os.utime(path, ns=(0, int((dt.datetime.now().timestamp() - age_s) * 1e9)))


def create(connection: headrace.Connection, folder: Path, format: str = "csv", columns: str = "ts from at, `value`") -> None:
    connection.execute(f"create external stable landed ({columns}) tags (machine) using {format} at '{folder}'")


def files(connection: headrace.Connection) -> list[tuple[Any, ...]]:
    return [
        (name, state, count, bad, message) for name, state, count, bad, _, _, message in fetch(connection, "show files of landed")
    ]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.csv.zst", "below/a.tsv"])
def test_what_lands_is_read(connection: headrace.Connection, lake: Path, name: str) -> None:
    separator = "\t" if "tsv" in name else ","
    write(lake / name, *(line.replace(",", separator) for line in (HEADER, *lines(0, 3))))
    create(connection, lake)
    assert fetch(connection, "select ts, `value`, tbname from landed order by ts")[0] == (DAY, 0, "m1")
    assert fetch(connection, "describe landed")[1][1] == "BIGINT"
    write(lake / "b.csv", HEADER.replace(",", ";"), *(line.replace(",", ";") for line in lines(10, 2, "m2")))
    (lake / "_draft.csv").write_text("no data")
    query = "select tbname, count(*), sum(`value`) from landed partition by tbname order by tbname"
    assert fetch(connection, query) == [("m1", 3, 3), ("m2", 2, 21)]
    with on_spark(connection) as spark:
        assert fetch(spark, query) == [("m1", 3, 3), ("m2", 2, 21)]
    assert sorted(files(connection)) == sorted([(name, "LOADED", 3, 0, None), ("b.csv", "LOADED", 2, 0, None)])


def test_objects_of_json_with_parts_and_folders_that_name_values(connection: headrace.Connection, lake: Path) -> None:
    objects = [{"at": f"2024-05-01T00:0{n}:00Z", "payload": {"value": n / 2, "more": [n]}} for n in range(3)]
    write(lake / "site=north" / "a.ndjson.gz", *map(json.dumps, objects), "", "[1]", '{"at": "2024-05-01T00:09:00Z"}')
    connection.execute(
        f"create external stable landed (ts from at, v float from payload.value) tags (site) using ndjson at '{lake}'"
    )
    found = fetch(connection, "select ts, v, site from landed order by ts")
    assert [(row[1], row[2]) for row in found] == [(0, "north"), (0.5, "north"), (1, "north"), (None, "north")]
    assert [file[1:4] for file in files(connection)] == [("LOADED", 4, 1)]
    assert "a JSON object" in files(connection)[0][4]


def test_a_stream_counts_each_file_once_and_what_is_written_again_anew(connection: headrace.Connection, lake: Path) -> None:
    write(lake / "first.csv", HEADER, *lines(0, 3), age_s=600)
    create(connection, lake)
    connection.execute(STREAM)
    connection.settle()
    for number in range(3):
        write(lake / f"{9 - number}.csv", HEADER, *lines(10 * number, 10))
        connection.settle()
    assert fetch(connection, "select n, total from out1") == [(33, 3 + sum(range(30)))]
    (lake / "first.csv").unlink()
    connection.settle()
    assert fetch(connection, "select n, total from out1") == [(33, 3 + sum(range(30)))]
    write(lake / "9.csv", HEADER, *lines(0, 1), age_s=30)
    connection.settle()
    assert fetch(connection, "select n, total from out1") == [(24, 3 + sum(range(10, 30)))]
    assert connection.verify(stream="s").equal


def test_rows_that_cannot_be_read_are_left_out_and_named(connection: headrace.Connection, lake: Path) -> None:
    good = lines(0, 9)
    bad = [
        "2024-05-01 00:10:00,m1,many",
        "yesterday,m1,1",
        "2024-05-01 00:11:00,m1",
        ",m1,3",
        'x,"m1,4',
        "2024-05-01 00:12:00,m1,5,6",
    ]
    mixed = [line for pair in zip(good, [*bad, "", "", ""], strict=True) for line in pair]
    write(lake / "a.csv", HEADER, *mixed)
    create(connection, lake, columns="ts from at, `value` int")
    assert fetch(connection, "select count(*), sum(`value`) from landed") == [(9, 36)]
    ((_, state, count, rejected, message),) = files(connection)
    assert (state, count, rejected) == ("LOADED", 9, len(bad))
    assert "a.csv, row 6" in message
    assert "one value for each of the 3 names" in message


def test_a_file_that_fails_can_be_written_again(connection: headrace.Connection, lake: Path) -> None:
    write(lake / "a.csv", HEADER, *lines(0, 2))
    create(connection, lake)
    write(lake / "b.csv", HEADER, *lines(2, 2), encoding="utf-16")
    write(lake / "c.csv", "time,machine,value", *lines(4, 2))
    (lake / "d.csv.gz").write_bytes(gzip.compress(b"at,machine,value\n" * 99)[:30])
    os.utime(lake / "d.csv.gz", (1, 1))
    assert fetch(connection, "select count(*) from landed") == [(2,)]
    listed = {name: (state, message) for name, state, _, _, message in files(connection)}
    assert [listed[name][0] for name in ("a.csv", "b.csv", "c.csv", "d.csv.gz")] == ["LOADED", "FAILED", "FAILED", "FAILED"]
    assert listed["b.csv"][1] == "b.csv is text in UTF-16"
    assert listed["c.csv"][1] == "c.csv has no column at"
    assert listed["d.csv.gz"][1].startswith("d.csv cannot be read")
    for number, name in enumerate(("b.csv", "c.csv", "d.csv.gz")):
        write(lake / name, HEADER, *lines(2 + 2 * number, 2), age_s=30)
    assert fetch(connection, "select count(*), sum(`value`) from landed") == [(8, 28)]
    assert {file[1] for file in files(connection)} == {"LOADED"}


@pytest.mark.parametrize("precision", ["ms", "us", "ns"])
def test_times_are_read_in_their_zone_or_unit(connection: headrace.Connection, lake: Path, precision: str) -> None:
    connection.execute(f"create database p precision '{precision}'")
    write(lake / "local" / "a.csv", "at,n", "2024-05-01 02:00:00.123,1", "2024-05-01 02:01:00,2")
    write(lake / "zoned" / "a.csv", "at,n", "2024-05-01T02:00:00.123+02:00,1", "2024-05-01T02:01:00+02:00,2")
    write(lake / "unit" / "a.csv", "at,n", "1714521600123,1", "1714521660000,2")
    for name, options in (("local", "timezone 'Europe/Berlin'"), ("zoned", ""), ("unit", "unit 'ms'")):
        connection.execute(f"create external table p.{name} (ts from at, n) using csv at '{lake / name}' {options}")
        expected: list[tuple[Any, ...]] = [(DAY + dt.timedelta(milliseconds=123), 1), (DAY + dt.timedelta(minutes=1), 2)]
        if precision == "ns":
            expected = [(1_714_521_600_123_000_000, 1), (1_714_521_660_000_000_000, 2)]
        assert fetch(connection, f"select ts, n from p.{name} order by ts") == expected
        with on_spark(connection) as spark:
            assert fetch(spark, f"select ts, n from p.{name} order by ts") == expected
        assert fetch(connection, f"select n from p.{name} where ts > '2024-05-01 00:00:30'") == [(2,)]


def test_a_file_that_may_be_growing_is_read_later(
    connection: headrace.Connection, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lake / "a.csv", HEADER, *lines(0, 1))
    create(connection, lake)
    monkeypatch.setattr(text_folders, "QUIET_S", 3600)
    write(lake / "b.csv", HEADER, *lines(1, 1), age_s=0)
    os.utime(lake / "a.csv", (1, 1))
    assert fetch(connection, "select count(*) from landed") == [(1,)]
    monkeypatch.setattr(text_folders, "QUIET_S", 0)
    assert fetch(connection, "select count(*) from landed") == [(2,)]


def test_two_processes_that_convert_a_file_at_once_have_its_rows_once(connection: headrace.Connection, lake: Path) -> None:
    write(lake / "a.csv", HEADER, *lines(0, 2), age_s=600)
    create(connection, lake)
    query = "select count(*), sum(`value`) from landed"
    with headrace.connect(settings=connection.session.context.settings, database="d") as other:
        for number in range(1, 4):
            write(lake / "b.csv", HEADER, *lines(10, number), age_s=60 - number)
            found: list[tuple[Any, ...]] = []
            with calling("storage.mirror.read", lambda found=found: found.extend(fetch(other, query))):  # type: ignore[misc]
                expected = [(2 + number, 1 + sum(range(10, 10 + number)))]
                assert fetch(connection, query) == expected
            assert found == expected
            assert fetch(other, query) == expected


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_lines_end_as_the_first_of_them_does(
    connection: headrace.Connection, lake: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(text_folders, "SAMPLE_BYTES", 100)
    for name, text in (("a.csv", [HEADER, *lines(0, 20)]), ("b.csv.gz", [HEADER, *lines(20, 5), "", "2024-05-01 00:59:00,m1,x"])):
        content = end.join((*text, "")).encode()
        (lake / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        os.utime(lake / name, (1, 1 + len(text)))
    create(connection, lake)
    assert fetch(connection, "describe landed")[1][1] == "BIGINT"
    assert fetch(connection, "select count(*), sum(`value`) from landed") == [(25, sum(range(25)))]
    assert sorted(file[2:4] for file in files(connection)) == [(5, 1), (20, 0)]


def test_maintenance_keeps_converted_files_and_removes_replaced_ones(connection: headrace.Connection, lake: Path) -> None:
    write(lake / "a.csv", HEADER, *lines(0, 2), age_s=600)
    write(lake / "b.csv", HEADER, *lines(2, 2))
    create(connection, lake)
    assert fetch(connection, "select count(*) from landed") == [(4,)]
    write(lake / "a.csv", HEADER, *lines(0, 1), age_s=30)
    assert fetch(connection, "select count(*) from landed") == [(3,)]
    context = connection.session.context
    table = context.catalog.tables.get("d", "landed")
    converted = next(context.settings.home_path.rglob(text_folders.CONVERTED))
    assert len(list(converted.iterdir())) == 3
    assert maintain_table(context, table, 0).removed == 1
    assert len(list(converted.iterdir())) == 2
    assert fetch(connection, "select count(*) from landed") == [(3,)]


def test_large_files_are_converted_in_parts(connection: headrace.Connection, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.storage.loading.splits.SPLIT_BYTES", 100)
    monkeypatch.setattr("headrace.storage.loading.splits.split_files.__defaults__", (100,))
    monkeypatch.setattr(text_folders, "MAX_FILES", 2)
    for number in range(5):
        write(lake / f"{number}.csv", HEADER, *lines(10 * number, 10), "2024-05-01 00:00:00,m1,none")
    create(connection, lake, columns="ts from at, `value` int")
    assert fetch(connection, "select count(*), sum(`value`) from landed") == [(50, sum(range(50)))]
    assert [file[2:4] for file in files(connection)] == [(10, 1)] * 5
    assert all("row 11" in file[4] for file in files(connection))


@pytest.mark.parametrize("seed", drawn(range(20), "text folders", 3))
def test_random_lines_are_rows_or_rejected(connection: headrace.Connection, lake: Path, seed: int) -> None:
    draw = random.Random(f"{SEED} {seed}")
    expected, rejected = [], 0
    for number in range(draw.randrange(1, 4)):
        text = [HEADER]
        for _ in range(draw.randrange(40)):
            value = draw.randrange(100)
            minute = draw.randrange(60)
            line = draw.choice(
                (f"2024-05-01 00:{minute:02d}:00,m,{value}",) * 6 + ("x,m,1", '2024-05-01,"m,1', "a,b", ",,,", "\0", "é,m,1")
            )
            text.append(line)
            if line.startswith("2024-05-01 00"):
                expected.append(value)
            else:
                rejected += 1
        write(lake / f"{number}.csv", *text)
    write(lake / "types.csv", HEADER, "2024-05-01 00:00:00,m,0", age_s=1)
    os.utime(lake / "types.csv")
    create(connection, lake)
    os.utime(lake / "types.csv", (1, 1))
    found = [value for (value,) in fetch(connection, "select `value` from landed")]
    assert sorted(found) == sorted([*expected, 0])
    assert sum(file[3] for file in files(connection)) == rejected


def test_what_is_refused(connection: headrace.Connection, lake: Path) -> None:
    with pytest.raises(ProgrammingError, match="there is no CSV file below"):
        create(connection, lake)
    write(lake / "a.csv", HEADER, *lines(0, 2))
    with pytest.raises(ProgrammingError, match=r"has no column at2"):
        create(connection, lake, columns="ts from at2, `value`")
    with pytest.raises(headrace.Error, match="USING NDJSON"):
        create(connection, lake, format="json")
    write(lake / "b.csv", HEADER, encoding="utf-16", age_s=1)
    with pytest.raises(DataError, match=r"b\.csv is text in UTF-16"):
        create(connection, lake)
    connection.execute("create table plain (ts timestamp, v int)")
    with pytest.raises(ProgrammingError, match="plain is not an external table"):
        connection.execute("show files of plain")


def test_files_of_other_formats_are_listed(connection: headrace.Connection, lake: Path) -> None:
    land(lake / "a.parquet", rows(0, 3))
    create(connection, lake, "parquet")
    assert files(connection) == [("a.parquet", "LOADED", 3, 0, None)]
