"""Delta tables whose log says more than their files: columns under other names, and rows that are gone from files that stay."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

import headrace
from headrace.errors import EgressDeniedError, HistoryGoneError
from tests.service.conftest import on_spark
from tests.service.test_external_streams import results, rows_at, stopped_by, streams_over
from tests.support.drawing import SEED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VECTORS: Final = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "4"}
NAMES: Final = {"delta.columnMapping.mode": "name"}
IDS: Final = {"delta.columnMapping.mode": "id"}
FEED: Final = {"delta.enableChangeDataFeed": "true"}
KINDS: Final[dict[str, tuple[dict[str, str], str]]] = {
    "vectors": (VECTORS, ""),
    "vectors-feed": (VECTORS | FEED, ""),
    "vectors-v2": (VECTORS | {"delta.checkpointPolicy": "v2"}, "machine"),
    "names": (NAMES, "day"),
    "names-feed": (NAMES | FEED, ""),
    "names-vectors": (NAMES | VECTORS, "day"),
    "ids-vectors": (IDS | VECTORS, ""),
}
"""Properties of tables, and by what they are partitioned."""
COLUMNS: Final = "event_time TIMESTAMP, machine STRING, site STRING, value BIGINT, day STRING, note STRING"
READINGS: Final = "select ts, tbname, site, `value` from readings {} order by ts, tbname, `value`, site"
LATER: Final = "where ts >= '2024-05-01 00:10:00' and ts < '2024-05-01 00:40:00'"


def create(spark: SparkSession, location: str, properties: dict[str, str], partition: str = "") -> None:
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    more = f"TBLPROPERTIES ({listed})" if listed else ""
    by = f"PARTITIONED BY ({partition})" if partition else ""
    spark.sql(f"CREATE TABLE delta.`{location}` ({COLUMNS}) USING delta {by} {more}")


def drawn_rows(spark: SparkSession, draw: random.Random, count: int) -> DataFrame:
    return spark.createDataFrame(rows_at(draw, count)).withColumn("day", F.lit(f"d{draw.randrange(3)}"))


def append(spark: SparkSession, location: str, draw: random.Random, count: int = 30) -> None:
    drawn_rows(spark, draw, count).coalesce(1).write.format("delta").mode("append").save(location)


def change(spark: SparkSession, location: str, draw: random.Random, *, is_mapped: bool) -> None:
    """Commit as a job of Spark does."""
    table, low = f"delta.`{location}`", draw.randrange(90)
    which = draw.choice(["append", "delete", "delete", "update", "optimize", "merge", "restore", *["rename"] * is_mapped])
    if which == "append":
        append(spark, location, draw)
    elif which == "delete":
        spark.sql(f"DELETE FROM {table} WHERE value BETWEEN {low} AND {low + 5}")
    elif which == "update":
        spark.sql(f"UPDATE {table} SET value = value + 1, site = 'east' WHERE value BETWEEN {low} AND {low + 5}")
    elif which == "optimize":
        spark.sql(f"OPTIMIZE {table}")
    elif which == "restore":
        spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {max(1, DeltaTable(location).version() - draw.randrange(1, 4))}")
    elif which == "rename":
        names = [field.name for field in spark.read.format("delta").load(location).schema]
        pair = ("note", "remark") if "note" in names else ("remark", "note")
        spark.sql(f"ALTER TABLE {table} RENAME COLUMN {pair[0]} TO {pair[1]}")
    else:
        drawn_rows(spark, draw, 10).dropDuplicates(["machine"]).createOrReplaceTempView("new_rows")
        spark.sql(
            f"MERGE INTO {table} t USING new_rows s ON t.machine = s.machine AND t.value BETWEEN {low} AND {low + 5} "
            "WHEN MATCHED AND t.value % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET value = t.value + 100 "
            "WHEN NOT MATCHED THEN INSERT (event_time, machine, site, value, day) "
            "VALUES (s.event_time, s.machine, s.site, s.value, s.day)"
        )


def stored(spark: SparkSession, location: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.read.format("delta").load(location).collect()]


def expected(rows: list[dict[str, Any]], key: str) -> dict[tuple[Any, Any], tuple[int, int]]:
    """Compute counts and sums by group and minute, row by row."""
    windows: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    for row in rows:
        windows[row[key], int(row["event_time"].timestamp()) // 60].append(row["value"])
    return {group: (len(values), sum(values)) for group, values in windows.items()}


def found(connection: headrace.Connection, table: str) -> dict[tuple[Any, Any], tuple[int, int]]:
    return {(group, int(start.timestamp()) // 60): values for (group, start), values in results(connection, table).items()}


def entries(location: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the actions of a log with their versions."""
    for file in sorted(Path(location, "_delta_log").glob("*.json")):
        with suppress(ValueError):
            yield from ((int(file.stem), json.loads(line)) for line in file.read_text().splitlines())


def vectors(location: str) -> list[tuple[int, dict[str, Any]]]:
    actions = ((version, action["add"]) for version, action in entries(location) if "add" in action)
    return [(version, added) for version, added in actions if added.get("deletionVector")]


@pytest.mark.spark
@pytest.mark.drawn(4)
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_those_of_the_rows_that_spark_commits(
    connection: headrace.Connection, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    properties, partition = KINDS[kind]
    draw, location = random.Random(f"{SEED} {kind}"), str(tmp_path / "lake")
    create(spark, location, properties, partition)
    append(spark, location, draw, 60)
    streams_over(connection, location)
    for step in range(3):
        for _ in range(draw.randrange(1, 3)):
            change(spark, location, draw, is_mapped="delta.columnMapping.mode" in properties)
        spark.sql(f"DELETE FROM delta.`{location}` WHERE value % 11 = {step}")
        connection.settle()
        rows = stored(spark, location)
        assert found(connection, "by_machine") == expected(rows, "machine")
        assert found(connection, "by_site") == expected(rows, "site")
        assert connection.execute("select count(*) from readings").fetchall() == [(len(rows),)]
    assert bool(vectors(location)) is ("vectors" in kind)
    for condition in ("", LATER):
        query = READINGS.format(condition)
        near = connection.execute(query).fetchall()
        with on_spark(connection) as other:
            assert other.execute(query).fetchall() == near
        # A process that begins now reads the log from its checkpoint.
        with headrace.connect(settings=connection.session.context.settings, database="d") as later:
            assert later.execute(query).fetchall() == near


@pytest.mark.spark
def test_features_may_begin_later(connection: headrace.Connection, spark: SparkSession, tmp_path: Path) -> None:
    draw, location = random.Random(f"{SEED} later"), str(tmp_path / "lake")
    create(spark, location, {})
    append(spark, location, draw)
    streams_over(connection, location)
    for name, value in (NAMES | VECTORS).items():
        spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('{name}' = '{value}')")
        spark.sql(f"DELETE FROM delta.`{location}` WHERE value BETWEEN {len(value)} AND 30")
        append(spark, location, draw)
        connection.settle()
        assert found(connection, "by_machine") == expected(stored(spark, location), "machine")
    spark.sql(f"DELETE FROM delta.`{location}` WHERE value < 50")
    connection.settle()
    assert vectors(location)
    assert found(connection, "by_site") == expected(stored(spark, location), "site")


@pytest.mark.spark
def test_a_column_is_the_one_that_has_its_name_now(connection: headrace.Connection, spark: SparkSession, tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    create(spark, location, NAMES)
    append(spark, location, random.Random(1), 3)
    define = f"create external stable {{}} (ts from event_time, `value`) tags (machine) using delta at '{location}'"
    connection.execute(define.format("readings"))
    spark.sql(f"ALTER TABLE delta.`{location}` RENAME COLUMN value TO before")
    with pytest.raises(HistoryGoneError, match=r"column value of .* does not exist any more"):
        connection.execute("select sum(`value`) from readings")
    spark.sql(f"ALTER TABLE delta.`{location}` ADD COLUMN value BIGINT")
    spark.sql(f"INSERT INTO delta.`{location}` (event_time, machine, value) VALUES (TIMESTAMP '2024-05-02 00:00:00', 'm9', 7)")
    query = "select tbname, `value` from readings order by ts"
    assert [value for _, value in connection.execute(query).fetchall()] == [None, None, None, 7]
    with on_spark(connection) as other:
        assert other.execute(query).fetchall() == connection.execute(query).fetchall()
    table = connection.session.context.catalog.tables.get("d", "readings")
    tables, columns = connection.session.context.tables, ["ts", "value", "tbname"]
    for version in (1, 2, 3, 4):
        near = tables.scan(table, columns=columns, version=version).sort_by("ts").to_pylist()
        far = tables.frame(spark, table, version=version).select(*columns).toArrow().sort_by("ts").to_pylist()
        assert near == far
        assert [row["value"] for row in near] == [None, None, None, *[7] * (version == 4)]


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["none", "name"])
def test_commits_before_a_mapping_was_removed_are_told(
    connection: headrace.Connection, spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    location = str(tmp_path / "lake")
    create(spark, location, NAMES)
    append(spark, location, random.Random(1))
    connection.execute(f"create external table readings (ts from event_time, `value`) using delta at '{location}'")
    connection.execute("create stream s fill_history 1 into out1 as select _wstart ws, count(*) n from readings interval(1h)")
    connection.settle()
    append(spark, location, random.Random(2))
    for later in dict.fromkeys(("none", mode)):
        spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('delta.columnMapping.mode' = '{later}')")
    connection.settle()
    assert "column mapping that was removed" in stopped_by(connection)
    connection.execute("reset stream s")
    connection.settle()
    assert connection.execute("select sum(n) from out1").fetchall() == [(60,)]


@pytest.mark.spark
def test_a_vector_elsewhere_is_not_read(connection: headrace.Connection, spark: SparkSession, tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    create(spark, location, VECTORS)
    append(spark, location, random.Random(1))
    connection.execute(f"create external table readings (ts from event_time, `value`) using delta at '{location}'")
    spark.sql(f"DELETE FROM delta.`{location}` WHERE value < 50")
    ((version, added),) = vectors(location)
    (vector,) = Path(location).glob("deletion_vector_*.bin")
    secret = vector.rename(tmp_path / vector.name)
    elsewhere = {**added["deletionVector"], "storageType": "p", "pathOrInlineDv": f"file://{secret}"}
    actions = [{"remove": {**added, "deletionTimestamp": 0}}, {"add": {**added, "deletionVector": elsewhere}}]
    entry = Path(location, "_delta_log", f"{version + 1:020}.json")
    entry.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    query = "select sum(`value`) from readings"
    with pytest.raises(EgressDeniedError, match="has a file outside of"):
        connection.execute(query)
    with on_spark(connection) as other, pytest.raises(EgressDeniedError, match="has a file outside of"):
        other.execute(query)


@pytest.mark.spark
def test_a_vector_that_was_vacuumed_is_told(connection: headrace.Connection, spark: SparkSession, tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    create(spark, location, VECTORS)
    append(spark, location, random.Random(1))
    connection.execute(f"create external table readings (ts from event_time, `value`) using delta at '{location}'")
    connection.execute("create stream s fill_history 1 into out1 as select _wstart ws, count(*) n from readings interval(1h)")
    connection.settle()
    spark.sql(f"DELETE FROM delta.`{location}` WHERE value < 30")
    (old,) = Path(location).glob("deletion_vector_*.bin")
    spark.sql(f"DELETE FROM delta.`{location}` WHERE value < 60")
    old.unlink()
    connection.settle()
    assert "have been removed" in stopped_by(connection)
