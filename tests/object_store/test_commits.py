"""Writers of all kinds on one object store: commits exclude each other, and checkpoints are written at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace.errors import Error
from headrace.model.positions import Position
from headrace.settings import load
from headrace.storage import Tables
from headrace.storage.loading import loader
from headrace.storage.loading.loader import LoadOptions
from headrace.storage.spark.session import class_archive, launch_conf, session_conf
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.state.store import StateStore
from headrace.streams.state.tables import StateTable
from tests.storage.samples import METERS, POWER, read, rows
from tests.storage.test_races import act
from tests.support.object_store import PASSWORD, Server
from tests.support.racing import race

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Fewer than the attempts of a load, which has no lock here that would keep others from being faster.
APPENDS = 30


@pytest.fixture
def tables(bucket: str) -> Tables:
    """Tables whose writers have no common lock, so that all depends on the commits."""
    opened = Tables(f"{bucket}/tables", lambda _: nullcontext(), 1_000)
    opened.create(METERS, POWER)
    return opened


def test_processes_that_write_at_once_lose_no_write_and_double_no_key(tables: Tables, bucket: str) -> None:
    race(act, [(bucket, False, writer) for writer in (1, 2, 3)])
    stored = read(tables.scan(METERS))
    assert len({row["ts"] for row in stored}) == len(stored)
    written = {row["a"] // 1000 for row in stored if row["a"] is not None} | {
        int(row["b"]) // 1000 for row in stored if row["b"] is not None
    }
    assert 2 in written
    assert written & {1, 3}
    changes = tables.changes.read(METERS, 1, tables.version(METERS))
    assert changes.num_rows == tables.changes.count(METERS, 1, tables.version(METERS))


@pytest.mark.spark
def test_loads_by_spark_and_small_writes_at_once_lose_nothing(
    tables: Tables, bucket: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's writer of Delta replaces a commit of another writer on S3, so that Spark must only write the files."""
    monkeypatch.setattr(loader, "MAX_ROWS_MERGED_IN_DRIVER", 0)
    loading = Tables(f"{bucket}/tables", lambda _: nullcontext(), 0)
    loading.writer.write(METERS, POWER, rows([{"ts": 0, "a": 0}]))

    def load() -> None:
        for number in range(3):
            file = tmp_path / f"{number}.csv"
            file.write_text("ts,a,b\n" + "".join(f"{ts},{number},0.5\n" for ts in range(5)))
            loading.loader(lambda: spark, METERS, POWER).load([file], options=LoadOptions(tbname="d1"))

    with ThreadPoolExecutor(1) as pool:
        loads = pool.submit(load)
        for number in range(APPENDS):
            tables.writer.write(METERS, POWER, rows([{"ts": 100 + number, "a": number}]))
        loads.result()
    stored = {row["ts"]: row["a"] for row in read(tables.scan(METERS))}
    assert stored == dict.fromkeys(range(5), 2) | {100 + number: number for number in range(APPENDS)}
    handle = tables._handles.reader(METERS)
    with handle.latest() as delta:
        writers = {entry.get("engineInfo", entry.get("clientVersion", "")).partition(".")[0] for entry in delta.history()}
    assert all(writer.startswith("delta-rs") for writer in writers), writers


def test_a_dropped_table_leaves_no_object_and_is_noticed(tables: Tables, bucket: str, object_store: Server) -> None:
    other = Tables(f"{bucket}/tables", lambda _: nullcontext(), 1_000)
    tables.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}]))
    assert other.rows(METERS) == 1
    tables.drop(METERS)
    assert object_store.objects(f"{bucket}/tables") == []
    with pytest.raises(Error, match="no Delta table"):
        other.rows(METERS)
    tables.create(METERS, POWER)
    other.writer.write(METERS, POWER, rows([{"ts": 2, "a": 2}]))
    assert [row["ts"] for row in read(tables.scan(METERS))] == [2]


def test_a_checkpoint_is_one_object(bucket: str, object_store: Server) -> None:
    store = StateStore(f"{bucket}/tables/.streams", "job", 3)
    for batch in range(6):
        windows = StateTable.of(pa.table({"_wstart": [batch]}), [])
        store.write(StreamState(Position(batch, {}), windows=windows), batch)
    assert store.batches() == [3, 4, 5]
    state = store.read(5)
    assert state is not None
    assert state.windows is not None
    assert state.windows.to_table()["_wstart"].to_pylist() == [5]
    assert len(object_store.objects(f"{bucket}/tables/.streams")) == 3
    store.clear()
    assert store.batches() == []
    assert object_store.objects(bucket) == []


def test_the_connector_is_on_the_class_path_only_if_tables_are_on_an_object_store(bucket: str, tmp_path: Path) -> None:
    paths = [launch_conf(settings)["spark.driver.extraClassPath"] for settings in (load(home=tmp_path), load(warehouse=bucket))]
    assert ["hadoop-aws" in path for path in paths] == [False, True]
    assert paths[1].startswith(paths[0])
    assert class_archive(s3=True) != class_archive()


def test_no_secret_is_on_a_command_line(bucket: str) -> None:
    settings = load(warehouse=bucket)
    assert settings.s3_secret_access_key.reveal() == PASSWORD
    assert PASSWORD in session_conf(settings).values()
    assert PASSWORD not in str(launch_conf(settings))
    assert PASSWORD not in str(settings.display_values())
