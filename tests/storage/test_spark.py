"""Spark and delta-rs read what the other wrote, and results that executors write commit like small ones."""

from __future__ import annotations

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.errors import DataError, FencedError, NotFoundError, NotSupportedError
from headrace.model.tables import TBNAME, Column, Database, Table
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.storage import Bounds, Commit, Tables
from headrace.storage.delta import spark_writes, staging
from headrace.storage.delta.commits import stream_app
from headrace.storage.loading import loader
from headrace.storage.spark.functions import F
from tests.storage.samples import METERS, POWER, TS, Row, changes_frame, open_tables, read, rows
from tests.support.racing import race

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
ODD = Table(
    "power", "odd one", (TS, Column("count(*)", DataType(TypeKind.UBIGINT)), Column("quo`te", DataType(TypeKind.VARCHAR, 9)))
)


def frame(spark: SparkSession, table_rows: list[Row], table: Table = METERS) -> DataFrame:
    return spark.createDataFrame(rows(table_rows, table))


def keys(spark: SparkSession, *table_rows: int) -> DataFrame:
    return frame(spark, [{"ts": ts} for ts in table_rows]).select(TBNAME, "ts")


def stored(tables: Tables) -> dict[int, int]:
    return {row["ts"]: row["a"] for row in read(tables.scan(METERS))}


def unreferenced_files(tables: Tables) -> set[str]:
    """Return the data files that no version of the table refers to."""
    folder = Path(tables.uri) / "power/meters/rows"
    handle = tables._handles.reader(METERS)
    named = {uri for version in range(tables.version(METERS) + 1) for uri in handle.at(version).file_uris()}
    return {str(path) for path in folder.rglob("*.parquet") if "_change_data" not in path.parts} - {
        uri.removeprefix("file://") for uri in named
    }


@pytest.mark.parametrize("precision", list(Precision))
def test_spark_reads_rows_and_changes_that_delta_rs_wrote(spark: SparkSession, tables: Tables, precision: Precision) -> None:
    database = Database("power", precision)
    tables.create(METERS, database)
    tables.writer.write(METERS, database, rows([{"ts": 1_000_001, "a": 1}, {"ts": 2_000_002, "a": 2}], database=database))
    tables.writer.write(METERS, database, rows([{"ts": 2_000_002, "a": 20}], database=database))
    tables.writer.delete(METERS, database, ranges=[(1_000_001, 1_000_001)])

    for version in (1, 3):
        found = tables.frame(spark, METERS, version=version).toArrow().cast(tables.schema(METERS, database))
        assert read(found, database=database) == read(tables.scan(METERS, version=version), database=database)
    ours, theirs = (
        tables.changes.read(METERS, 1, 3),
        changes_frame(spark, tables, METERS, 1, 3).toArrow().cast(tables.changes.read(METERS, 1, 3).schema),
    )
    order = [("_commit_version", "ascending"), ("_change_type", "ascending"), ("ts", "ascending")]
    assert theirs.sort_by(order).equals(ours.sort_by(order))


def test_delta_rs_counts_and_reads_changes_that_spark_wrote(spark: SparkSession, meters: Tables) -> None:
    frame(spark, [{"ts": ts, "a": ts, "b": None} for ts in range(10)]).write.format("delta").mode("append").save(
        f"{meters.uri}/power/meters/rows"
    )
    path = f"{meters.uri}/power/meters/rows"
    spark.sql(f"UPDATE delta.`{path}` SET a = 100 WHERE a < 3")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE a = 9")

    feed = meters.changes.read(METERS, 1, 3)
    assert Counter(feed["_change_type"].to_pylist()) == {"insert": 10, "update_preimage": 3, "update_postimage": 3, "delete": 1}
    assert [meters.changes.count(METERS, version, version) for version in (1, 2, 3)] == [10, 6, 1]
    assert [meters.changes.size(METERS, version).written for version in (1, 2, 3)] == [10, 3, 0]
    assert meters.writer.write(METERS, POWER, rows([{"ts": 5, "a": 50}])).updated == 1
    assert meters.maintenance.compact(METERS) >= 0
    assert tables_agree(spark, meters)


def test_spark_reads_versions_that_are_older_than_the_history_that_others_may_expect(spark: SparkSession, meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}]))
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 2}]))
    log = Path(meters.uri) / "power/meters/rows/_delta_log"
    for entry in log.glob("*.json"):
        os.utime(entry, (time.time() - 30 * 24 * 3_600,) * 2)

    assert meters.frame(spark, METERS, version=1).collect()[0]["a"] == 1
    assert changes_frame(spark, meters, METERS, 1, 1).count() == 1


def tables_agree(spark: SparkSession, tables: Tables) -> bool:
    theirs = tables.frame(spark, METERS).toArrow().cast(tables.schema(METERS, POWER))
    return read(theirs) == read(tables.scan(METERS))


def test_a_table_with_deletion_vectors_is_refused_rather_than_read_wrongly(spark: SparkSession, meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": ts, "a": ts} for ts in range(5)]))
    path = f"{meters.uri}/power/meters/rows"
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE a = 2")

    with pytest.raises(NotSupportedError, match="uses deletionVectors of Delta Lake"):
        meters.scan(METERS)
    with pytest.raises(NotSupportedError):
        meters.writer.write(METERS, POWER, rows([{"ts": 3, "a": 1}]))


def test_spark_does_not_see_a_compaction_as_a_change(spark: SparkSession, meters: Tables) -> None:
    for ts in range(5):
        meters.writer.write(METERS, POWER, rows([{"ts": ts, "a": ts}]))
    meters.maintenance.compact(METERS)

    assert changes_frame(spark, meters, METERS, 1, 6).count() == 5
    assert tables_agree(spark, meters)


def test_results_of_executors_are_appended_where_their_keys_are_new(spark: SparkSession, meters: Tables) -> None:
    found = frame(spark, [{"ts": ts, "a": ts} for ts in range(100)])
    written = meters.frames.replace(METERS, POWER, found, None, Commit.of_stream("s", 5, None, 1))

    assert written is not None
    assert (written.version, written.inserted) == (1, 100)
    assert stored(meters) == {ts: ts for ts in range(100)}
    assert meters.transaction(METERS, stream_app("s")) == 5
    assert tables_agree(spark, meters)
    assert meters.bounds(METERS) == Bounds(0, 99_999)
    assert meters.writer.write(METERS, POWER, rows([{"ts": 7, "a": 70}])).updated == 1


def test_results_of_executors_replace_and_retract_in_one_commit(spark: SparkSession, meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": ts, "a": ts} for ts in range(6)]))
    found = frame(spark, [{"ts": 2, "a": 20}, {"ts": 3, "a": 3}, {"ts": 9, "a": 9}])
    written = meters.frames.replace(METERS, POWER, found, keys(spark, 0, 0, 2, 77), Commit.of_stream("s", 1, None, 1))

    assert written is not None
    assert (written.version, written.inserted, written.updated, written.deleted) == (2, 1, 1, 1)
    assert stored(meters) == {1: 1, 2: 20, 3: 3, 4: 4, 5: 5, 9: 9}
    assert unreferenced_files(meters) == set()


def test_results_of_executors_commit_once_and_only_under_their_lease(spark: SparkSession, meters: Tables) -> None:
    commit = Commit.of_stream("s", 1, None, 1)
    meters.frames.replace(METERS, POWER, frame(spark, [{"ts": 1, "a": 1}]), None, commit)

    assert meters.frames.replace(METERS, POWER, frame(spark, [{"ts": 1, "a": 2}]), None, commit) is None
    meters.writer.fence(METERS, "s", 2)
    with pytest.raises(FencedError):
        meters.frames.replace(METERS, POWER, frame(spark, [{"ts": 2, "a": 2}]), None, Commit.of_stream("s", 2, 1, 1))
    assert stored(meters) == {1: 1}
    assert unreferenced_files(meters) == set()


def test_results_of_executors_without_effect_are_recorded(spark: SparkSession, meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}]))
    nothing = frame(spark, [{"ts": 1, "a": 1}])
    meters.frames.replace(METERS, POWER, nothing, keys(spark, 5), Commit.of_stream("s", 1, None, 1))
    meters.frames.replace(METERS, POWER, nothing.limit(0), None, Commit.of_stream("s", 2, 1, 1))

    assert meters.transaction(METERS, stream_app("s")) == 2
    assert meters.changes.read(METERS, 2, meters.version(METERS)).num_rows == 0


def test_results_of_executors_fit_odd_names_and_types(spark: SparkSession, tables: Tables) -> None:
    tables.create(ODD, POWER)
    found = spark.createDataFrame([(1, 2**63 - 1, "x", "d1")], ["ts", "count(*)", "quo`te", TBNAME])
    found = found.selectExpr("timestamp_millis(ts) AS ts", "`count(*)`", "`quo``te`", TBNAME)
    for _ in range(2):
        tables.frames.replace(ODD, POWER, found, None, None)

    assert tables.scan(ODD).drop_columns(["ts"]).to_pylist() == [{"count(*)": 2**63 - 1, "quo`te": "x", TBNAME: "d1"}]


def test_spark_finds_tables_in_a_folder_of_an_odd_name(spark: SparkSession, tmp_path: Path) -> None:
    tables = open_tables(tmp_path / "a b ü #1")
    tables.create(METERS, POWER)
    for a in (1, 2):
        tables.frames.replace(METERS, POWER, frame(spark, [{"ts": 1, "a": a}]), None, None)

    assert tables.frame(spark, METERS).count() == 1
    assert changes_frame(spark, tables, METERS, 1, 2).count() == 3


@pytest.fixture
def large(tmp_path: Path) -> Tables:
    """Return tables for which every load is large."""
    tables = open_tables(tmp_path, small_write_rows=0)
    tables.create(METERS, POWER)
    return tables


def csv(folder: Path, name: str, lines: list[str]) -> Path:
    path = folder / name
    path.write_text("\n".join(["ts,a,tbname", *lines]) + "\n")
    return path


def test_a_large_load_is_converted_by_workers_and_added_in_one_commit(spark: SparkSession, large: Tables, tmp_path: Path) -> None:
    path = csv(tmp_path, "a.csv", [f"{ts},{ts},d{ts % 3}" for ts in range(1000)])
    loaded = large.loader(lambda: spark, METERS, POWER).load([path])

    assert (loaded.version, loaded.inserted) == (1, 1000)
    assert stored(large) == {ts: ts for ts in range(1000)}
    again = large.loader(lambda: spark, METERS, POWER).load([path])
    assert (again.inserted, again.updated, large.rows(METERS)) == (0, 1000, 1000)


def test_an_invalid_row_of_a_large_load_is_named(spark: SparkSession, large: Tables, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv, row 2: 'x' is not valid for a"):
        large.loader(lambda: spark, METERS, POWER).load([csv(tmp_path, "a.csv", ["1,1,d1", "2,x,d1"])])
    unknown = tmp_path / "a.ndjson"
    unknown.write_text('{"ts": 1, "other": 2, "tbname": "d1"}\n')
    with pytest.raises(NotFoundError, match="no column 'other'"):
        large.loader(lambda: spark, METERS, POWER).load([unknown])
    assert large.version(METERS) == 0


def test_a_load_too_large_for_memory_is_deduplicated_and_merged_by_spark(
    spark: SparkSession, large: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "MAX_ROWS_COMPARED_IN_MEMORY", 10)
    monkeypatch.setattr(loader, "MAX_ROWS_MERGED_IN_DRIVER", 10)
    large.writer.write(METERS, POWER, rows([{"ts": ts, "a": -1, "b": 1.0} for ts in range(10)]))
    first = csv(tmp_path, "a.csv", [f"{ts},1,d1" for ts in range(50)])
    second = csv(tmp_path, "b.csv", [f"{ts},2,d1" for ts in range(25, 75)])
    loaded = large.loader(lambda: spark, METERS, POWER).load([first, second])

    assert (loaded.version, loaded.inserted, loaded.updated) == (2, 65, 10)
    assert stored(large) == {ts: 1 if ts < 25 else 2 for ts in range(75)}
    assert [row["b"] for row in read(large.scan(METERS))] == [1.0] * 10 + [None] * 65
    assert pa.compute.count_distinct(large.scan(METERS)["ts"]).as_py() == 75
    assert tables_agree(spark, large)


def test_a_condition_on_many_columns_with_aliases_is_planned(spark: SparkSession) -> None:
    """Spark would infer 2^20 constraints from it, each as long as the condition."""
    names = [f"c{number}" for number in range(20)]
    frame = spark.createDataFrame([tuple(range(20))], names).where(" OR ".join(f"{name} > 0" for name in names))
    doubled = frame.selectExpr(*(f"{name} AS {name}_{copy}" for name in names for copy in "ab"))
    sums = doubled.groupBy("c0_a").agg(*(F.sum(name) for name in doubled.columns))

    assert sums.where(" OR ".join(f"`sum({name}_b)` > 1" for name in names)).count() == 1


def replace_rows(home: str, count: int) -> None:
    """Replace two rows, and add one, again and again."""
    tables = open_tables(Path(home))
    for number in range(count):
        batch = [{"ts": 0, "a": number}, {"ts": 7, "a": number}, {"ts": 1_000 + number, "a": number}]
        tables.writer.replace(METERS, POWER, rows(batch), None, None)


def test_merges_of_spark_and_small_replacements_at_once_lose_nothing(
    spark: SparkSession, large: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's writer of Delta replaces a local log entry that another process creates at the same moment: the lock prevents it."""
    monkeypatch.setattr(loader, "MAX_ROWS_MERGED_IN_DRIVER", 0)
    large.writer.write(METERS, POWER, rows([{"ts": ts, "a": -1} for ts in range(1, 5)]))
    replaced = 60
    with ThreadPoolExecutor(1) as pool:
        racing = pool.submit(race, replace_rows, [(str(tmp_path), replaced)])
        for number in range(3):
            large.loader(lambda: spark, METERS, POWER).load(
                [csv(tmp_path, f"{number}.csv", [f"{ts},{number},d1" for ts in range(1, 6)])]
            )
        racing.result()
    expected = dict.fromkeys(range(1, 6), 2) | {0: replaced - 1, 7: replaced - 1} | {1_000 + n: n for n in range(replaced)}
    assert stored(large) == expected
    assert large.version(METERS) == 1 + 3 + replaced
    assert tables_agree(spark, large)


def test_files_that_executors_write_are_ordered_by_series_and_time(
    spark: SparkSession, meters: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_writes, "ROW_GROUP_ROWS", 100)
    unordered = [{TBNAME: f"d{at % 7}", "ts": (at * 7919) % 1000, "a": at} for at in range(1000)]
    meters.frames.replace(METERS, POWER, frame(spark, unordered), None, None)
    for path in meters._handles.reader(METERS).at(1).file_uris():
        written = pq.read_table(path, columns=[TBNAME, "ts"])
        assert written.equals(written.sort_by([(TBNAME, "ascending"), ("ts", "ascending")]))
        assert max(pq.read_metadata(path).row_group(0).num_rows, 100) == 100
