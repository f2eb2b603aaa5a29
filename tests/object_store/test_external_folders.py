"""Folders of an object store in which files land, read where they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.settings import load
from tests.support.object_store import Server

STREAM = (
    "create stream s trigger at_once ignore expired 0 ignore update 0 fill_history 1 into out1 as "
    "select _wstart ws, count(*) n, sum(`value`) total from landed interval(1h)"
)
HEADER = b"at,value\n"


def write(server: Server, uri: str, content: bytes) -> None:
    """Write a file, which Arrow compresses by its name."""
    with server.file_system().open_output_stream(uri.removeprefix("s3://")) as file:
        file.write(content)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_lines_that_land_are_read_once(bucket: str, object_store: Server, tmp_path: Path, suffix: str) -> None:
    def land(name: str, lines: bytes) -> None:
        write(object_store, f"{bucket}/site=north/{name}.{suffix}", HEADER + lines)

    land("a", b"2024-05-01 00:00:00,1\n2024-05-01 00:01:00,2\n2024-05-01 00:02:00,x\n")
    with headrace.connect(settings=load(home=tmp_path / "home", warehouse=str(tmp_path / "warehouse"))) as connection:
        for sql in ("create database d", "use d"):
            connection.execute(sql)
        connection.execute(f"create external stable landed (ts from at, `value` int) tags (site) using csv at '{bucket}'")
        connection.execute(STREAM)
        connection.settle()
        land("b", b"2024-05-01 00:03:00,10\n")
        connection.settle()
        assert connection.execute("select n, total from out1").fetchall() == [(3, 13)]
        land("b", b"2024-05-01 00:03:00,20\n2024-05-01 00:04:00,30\n")
        connection.settle()
        assert connection.execute("select n, total from out1").fetchall() == [(4, 53)]
        assert connection.execute("select distinct site from landed").fetchall() == [("north",)]
        shown = connection.execute("show files of landed").fetchall()
        assert sorted(row[:4] for row in shown) == [
            (f"site=north/a.{suffix}", "LOADED", 2, 1),
            (f"site=north/b.{suffix}", "LOADED", 2, 0),
        ]


def test_parquet_files_that_land_are_read_once(bucket: str, object_store: Server, tmp_path: Path) -> None:
    def land(name: str, first: int) -> None:
        rows = pa.table({"at": pa.array([first, first + 1], pa.timestamp("s", "UTC")), "value": [first, first + 1]})
        pq.write_table(rows, f"{bucket}/{name}.parquet".removeprefix("s3://"), filesystem=object_store.file_system())

    land("a", 10)
    with headrace.connect(settings=load(home=tmp_path / "home", warehouse=str(tmp_path / "warehouse"))) as connection:
        for sql in (
            "create database d",
            "use d",
            f"create external table landed (ts from at, `value`) using parquet at '{bucket}'",
        ):
            connection.execute(sql)
        connection.execute(STREAM)
        connection.settle()
        land("b", 20)
        connection.settle()
        assert connection.execute("select n, total from out1").fetchall() == [(4, 62)]
