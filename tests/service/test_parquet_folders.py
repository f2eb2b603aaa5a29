"""Folders in which Parquet files land as sources of queries and streams."""

from __future__ import annotations

import datetime as dt
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace import durable
from headrace.errors import NotSupportedError, ProgrammingError, StorageError
from headrace.model.jobs import JobState
from tests.service.conftest import on_spark

DAY: Final = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
STREAM: Final = (
    "create stream s trigger at_once ignore expired 0 ignore update 0 fill_history 1 into out1 as "
    "select _wstart ws, count(*) n, sum(`value`) total from landed interval(1h)"
)


def rows(first: int, count: int, machine: str = "m1") -> pa.Table:
    times = pa.array([DAY + dt.timedelta(minutes=first + number) for number in range(count)], pa.timestamp("us", "UTC"))
    return pa.table({"at": times, "machine": [machine] * count, "value": pa.array(range(first, first + count), pa.int64())})


def land(path: Path, table: pa.Table) -> None:
    """Write a file as a program does that knows about readers: it appears when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"_{path.name}")
    pq.write_table(table, draft)
    draft.rename(path)


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "it's landing"
    land(folder / "first.parquet", rows(0, 3))
    return folder


def create(connection: headrace.Connection, folder: Path, options: str = "") -> None:
    place = str(folder).replace("'", "\\'")
    connection.execute(f"create external stable landed (ts from at, `value`) tags (machine) using parquet at '{place}' {options}")


def test_what_lands_is_read(connection: headrace.Connection, folder: Path) -> None:
    create(connection, folder)
    assert fetch(connection, "select count(*), sum(`value`) from landed") == [(3, 3)]
    land(folder / "below" / "second 100%.parquet", rows(10, 2, "m2"))
    (folder / "_SUCCESS").touch()
    (folder / "readme.txt").write_text("no data")
    assert fetch(connection, "select tbname, count(*), sum(`value`) from landed partition by tbname order by tbname") == [
        *(("m1", 3, 3), ("m2", 2, 21)),
    ]
    with on_spark(connection) as spark:
        assert fetch(spark, "select count(*), sum(`value`) from landed") == [(5, 24)]
    assert fetch(connection, "show create stable landed")[0][1].endswith("ON CHANGE IGNORE TIMEZONE 'UTC'")


def test_a_stream_counts_each_file_once(connection: headrace.Connection, folder: Path) -> None:
    create(connection, folder)
    connection.execute(STREAM)
    connection.settle()
    for number in range(5):
        land(folder / f"{9 - number}.parquet", rows(10 * number, 10))
        connection.settle()
    assert fetch(connection, "select n, total from out1") == [(53, 3 + sum(range(50)))]
    (folder / "9.parquet").unlink()
    connection.settle()
    assert fetch(connection, "select n from out1") == [(53,)]
    assert fetch(connection, "select count(*) from landed") == [(43,)]


def test_files_that_go_may_stop_a_stream(connection: headrace.Connection, folder: Path) -> None:
    create(connection, folder, "on change stop")
    connection.execute(STREAM)
    connection.settle()
    (folder / "first.parquet").unlink()
    connection.settle()
    (record,) = connection.session.context.catalog.jobs.all()
    assert (record.state, record.reason and record.reason.code) == (JobState.STOPPED, "HISTORY_GONE")


def test_folders_that_name_values_are_partitions(connection: headrace.Connection, tmp_path: Path) -> None:
    for site, day in (("north", "2024-05-01"), ("south", "__HIVE_DEFAULT_PARTITION__"), ("a%2Fb", "2024-05-02")):
        land(tmp_path / "lake" / f"site={site}" / f"day={day}" / "part.parquet", rows(0, 2))
    connection.execute(
        f"create external stable landed (ts from at, `value`) tags (site, day) series (site) using parquet at '{tmp_path / 'lake'}'"
    )
    query = "select site, day, count(*) from landed partition by site, day order by site"
    found = fetch(connection, query)
    assert found == [("a/b", "2024-05-02", 2), ("north", "2024-05-01", 2), ("south", None, 2)]
    with on_spark(connection) as spark:
        assert fetch(spark, query) == found


def test_times_of_pandas_are_read(connection: headrace.Connection, tmp_path: Path) -> None:
    times = pd.to_datetime(["2024-05-01 00:00:00.123456789", "2024-05-01 00:01:00.000000001"])
    frame = pd.DataFrame({"at": times.tz_localize("Europe/Berlin"), "local": times, "n": pd.array([1, 2], "UInt32")})
    frame["kind"] = pd.Categorical(["x", "y"])
    (tmp_path / "lake").mkdir()
    frame.to_parquet(tmp_path / "lake" / "pandas.parquet")
    connection.execute("create database p precision 'us'")
    connection.execute(
        f"create external table p.x (ts from at, local, n, kind) using parquet at '{tmp_path / 'lake'}' timezone 'Europe/Berlin'"
    )
    found = fetch(connection, "select ts, local, n, kind from p.x order by ts")
    first = dt.datetime(2024, 4, 30, 22, 0, 0, 123456, tzinfo=dt.UTC)
    assert found[0] == (first, first, 1, "x")
    with on_spark(connection) as spark:
        assert fetch(spark, "select ts, local, n, kind from p.x order by ts") == found


def test_a_file_that_is_being_written_is_read_later(connection: headrace.Connection, folder: Path) -> None:
    create(connection, folder)
    whole = folder.parent / "whole.parquet"
    pq.write_table(rows(10, 5), whole)
    content = whole.read_bytes()
    (folder / "growing.parquet").write_bytes(content[: len(content) // 2])
    assert fetch(connection, "select count(*) from landed") == [(3,)]
    (folder / "growing.parquet").write_bytes(content)
    assert fetch(connection, "select count(*) from landed") == [(8,)]


def test_a_file_that_stays_broken_is_named(connection: headrace.Connection, folder: Path) -> None:
    create(connection, folder)
    (folder / "broken.parquet").write_bytes(b"PAR1 nothing")
    os.utime(folder / "broken.parquet", (1, 1))
    with pytest.raises(StorageError, match=r"broken\.parquet is no Parquet file"):
        fetch(connection, "select count(*) from landed")
    (folder / "broken.parquet").unlink()
    assert fetch(connection, "select count(*) from landed") == [(3,)]


def test_several_processes_follow_one_folder(connection: headrace.Connection, folder: Path) -> None:
    create(connection, folder)
    home = connection.session.context.settings.home_path
    with headrace.connect(home, database="d") as other, ThreadPoolExecutor(2) as threads:
        readers = [connection, other]
        for number in range(10):
            land(folder / f"{number}.parquet", rows(10 * number, 10))
            counts = list(threads.map(lambda one: fetch(one, "select count(*) from landed"), readers))
            assert counts == [[(13 + 10 * number,)]] * 2


def test_many_versions_are_checkpointed_and_forgotten(connection: headrace.Connection, folder: Path) -> None:
    create(connection, folder)
    log = Path(connection.session.context.tables.uri) / "d" / "landed" / "rows" / "_delta_log"
    for number in range(105):
        land(folder / f"{number:03}.parquet", rows(number, 1))
        assert fetch(connection, "select count(*) from landed") == [(4 + number,)]
    assert (log / "_last_checkpoint").exists()
    for path in log.iterdir():
        os.utime(path, (1, 1))
    connection.execute("compact database d")
    assert len(list(log.glob("*.json"))) < 20
    with headrace.connect(connection.session.context.settings.home_path, database="d") as other:
        assert fetch(other, "select count(*) from landed") == [(108,)]


def test_what_landed_is_synced_before_anything_follows_from_it(
    connection: headrace.Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(connection, folder)
    log = Path(connection.session.context.tables.uri) / "d" / "landed" / "rows" / "_delta_log"
    land(folder / "it is new.parquet", rows(10, 1))
    entries, synced = len(list(log.glob("*.json"))), dict[str, int]()
    sync = durable.sync

    def noted(*paths: str | os.PathLike[str]) -> None:
        sync(*paths)
        synced.update({os.fspath(path): len(list(log.glob("*.json"))) for path in paths})

    monkeypatch.setattr(durable, "sync", noted)
    assert fetch(connection, "select count(*) from landed") == [(4,)]
    assert synced[str(folder / "it is new.parquet")] == entries


def test_dropping_leaves_the_files(connection: headrace.Connection, folder: Path) -> None:
    create(connection, folder)
    context = connection.session.context
    mirror = Path(context.tables.uri) / "d" / "landed"
    assert mirror.exists()
    connection.execute("drop stable landed")
    assert not mirror.exists()
    assert [path.name for path in folder.iterdir()] == ["first.parquet"]
    create(connection, folder)
    assert fetch(connection, "select count(*) from landed") == [(3,)]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ("using parquet at '{}' on change recalculate", NotSupportedError, "ON CHANGE RECALCULATE"),
        ("using parquet at '{}/nothing'", ProgrammingError, "no Parquet file"),
    ],
)
def test_what_a_folder_cannot_give_is_refused(
    connection: headrace.Connection, tmp_path: Path, options: str, error: type[Exception], message: str
) -> None:
    land(tmp_path / "lake" / "first.parquet", rows(0, 3))
    with pytest.raises(error, match=message):
        connection.execute(f"create external table landed (ts from at, `value`) {options.format(tmp_path / 'lake')}")


def test_large_unsigned_numbers_and_times_beyond_the_calendar_are_no_ranges(
    connection: headrace.Connection, tmp_path: Path
) -> None:
    far = pa.array([0, 2**63 - 1], pa.int64()).cast(pa.timestamp("us", "UTC"))
    numbers = pa.array([1, 2**32 - 1], pa.uint32())
    land(tmp_path / "lake" / "far.parquet", pa.table({"at": far, "n": numbers, "seconds": numbers}))
    connection.execute(f"create external table x (ts from at, n) using parquet at '{tmp_path / 'lake'}'")
    connection.execute(f"create external table y (ts from seconds, n) using parquet at '{tmp_path / 'lake'}' unit 's'")
    query = "select count(*) from {} where n > 4000000000"
    assert fetch(connection, query.format("y")) == [(1,)]
    assert fetch(connection, "select n from x") == [(1,)]
    assert fetch(connection, "select count(*) from y where ts > '2100-01-01'") == [(1,)]
    with on_spark(connection) as spark:
        assert fetch(spark, query.format("y")) == [(1,)]
        assert fetch(spark, "select n from x") == [(1,)]
