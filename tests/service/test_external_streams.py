"""Streams over Delta tables of other writers: what other engines commit, and in which order, is what the results come to."""

from __future__ import annotations

import datetime as dt
import random
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as F

import headrace
from headrace.model.jobs import JobState
from headrace.settings import load
from tests.service.conftest import on_spark
from tests.support.drawing import SEED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY: Final = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
MINUTES: Final = 60
OPTIONS: Final = "trigger at_once ignore expired 0 ignore update 0"
SESSIONS: Final = (
    f"create stream sessions_s {OPTIONS} fill_history 1 into by_session tags (grp varchar(20)) as "
    "select _wstart ws, count(*) n, sum(`value`) total from readings partition by tbname grp session(ts, 20s)"
)


def rows_at(draw: random.Random, count: int) -> pa.Table:
    """Draw rows, of which some repeat the key of another."""
    return pa.table(
        {
            "event_time": pa.array(
                [DAY + dt.timedelta(seconds=draw.randrange(60 * MINUTES)) for _ in range(count)], pa.timestamp("us", "UTC")
            ),
            "machine": [f"m{draw.randrange(4)}" for _ in range(count)],
            "site": pa.array([draw.choice(["north", "south", None]) for _ in range(count)], pa.string()),
            "value": pa.array([draw.randrange(100) for _ in range(count)], pa.int64()),
        }
    )


def change(location: str, draw: random.Random) -> None:
    """Commit as another writer does."""
    table, low = DeltaTable(location), draw.randrange(60)
    which = draw.choice(["append", "append", "append", "delete", "update", "compact", "merge", "replace", "restore"])
    if which == "append":
        write_deltalake(location, rows_at(draw, draw.randrange(1, 30)), mode="append", schema_mode="merge")
    elif which == "delete":
        table.delete(f"machine = 'm{draw.randrange(4)}' and value < {low}")
    elif which == "update":
        table.update(updates={"value": "value + 1", "site": "'east'"}, predicate=f"value between {low} and {low + 20}")
    elif which == "compact":
        table.optimize.compact()
    elif which == "merge":
        rows = rows_at(draw, 5).group_by("machine").aggregate([(name, "min") for name in ("event_time", "site", "value")])
        rows = rows.rename_columns(["machine", "event_time", "site", "value"])
        merger = table.merge(rows, "t.machine = s.machine and t.value = s.value", source_alias="s", target_alias="t")
        merger.when_matched_delete().when_not_matched_insert_all().execute()
    elif which == "replace":
        write_deltalake(location, rows_at(draw, 20), mode="overwrite", schema_mode="overwrite")
    elif table.version() > 2:
        table.restore(draw.randrange(table.version()))


def change_by_spark(spark: SparkSession, location: str, draw: random.Random) -> None:
    """Commit as a job of Spark does, whose files have times as INT96."""
    table, low = f"delta.`{location}`", draw.randrange(60)
    which = draw.choice(["append", "append", "delete", "update", "optimize", "merge", "replace"])
    rows = spark.createDataFrame(rows_at(draw, draw.randrange(1, 30))).withColumn("day", F.lit(f"d{draw.randrange(3)}"))
    if which == "append":
        rows.write.format("delta").mode("append").save(location)
    elif which == "delete":
        spark.sql(f"DELETE FROM {table} WHERE machine = 'm{draw.randrange(4)}' AND value < {low}")
    elif which == "update":
        spark.sql(f"UPDATE {table} SET value = value + 1, site = 'east' WHERE value BETWEEN {low} AND {low + 20}")
    elif which == "optimize":
        spark.sql(f"OPTIMIZE {table}")
    elif which == "merge":
        rows.dropDuplicates(["machine"]).createOrReplaceTempView("new_rows")
        spark.sql(
            f"MERGE INTO {table} t USING new_rows s ON t.machine = s.machine AND t.value = s.value "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
        )
    else:
        rows.write.format("delta").mode("overwrite").save(location)


def expected(location: str, key: str) -> dict[tuple[Any, Any], tuple[int, int]]:
    """Compute counts and sums by group and minute, row by row."""
    windows: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    for row in DeltaTable(location).to_pyarrow_table().to_pylist():
        windows[row[key], row["event_time"].replace(second=0)].append(row["value"])
    return {group: (len(values), sum(values)) for group, values in windows.items()}


def streams_over(connection: headrace.Connection, location: str, format: str = "delta") -> None:
    """Create streams that count by series and by a tag in which rows of a series differ."""
    connection.execute(
        "create external stable readings (ts from event_time, `value` bigint) tags (machine, site) series (machine) "
        f"using {format} at '{location}'"
    )
    for table, key in (("by_machine", "tbname"), ("by_site", "site")):
        connection.execute(
            f"create stream {table}_s {OPTIONS} fill_history 1 into {table} tags (grp varchar(20)) as "
            f"select _wstart ws, count(*) n, sum(`value`) total from readings partition by {key} grp interval(1m)"
        )


def results(connection: headrace.Connection, table: str) -> dict[tuple[Any, Any], tuple[int, int]]:
    rows = connection.execute(f"select grp, ws, n, total from {table}").fetchall()
    found = {(group, start): (count, total) for group, start, count, total in rows}
    assert len(found) == len(rows)
    return found


def stopped_by(connection: headrace.Connection) -> str:
    """Return why the only stream is stopped."""
    (record,) = connection.session.context.catalog.jobs.all()
    assert (record.state, record.reason and record.reason.code) == (JobState.STOPPED, "HISTORY_GONE")
    return str(record.reason)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("feed", ["true", "false"])
def test_results_are_those_of_the_rows_whatever_is_committed(
    connection: headrace.Connection, tmp_path: Path, feed: str, number: int
) -> None:
    draw, location = random.Random(f"{SEED} {feed} {number}"), str(tmp_path / "lake")
    write_deltalake(location, rows_at(draw, 40), configuration={"delta.enableChangeDataFeed": feed})
    streams_over(connection, location)
    for _ in range(6):
        for _ in range(draw.randrange(1, 4)):
            change(location, draw)
        connection.settle()
        assert results(connection, "by_machine") == expected(location, "machine")
        assert results(connection, "by_site") == expected(location, "site")


def sessions(rows: Iterable[dict[str, Any]]) -> dict[tuple[Any, Any], tuple[int, int]]:
    """Compute counts and sums of rows of a series that follow each other within 20 seconds."""
    rows = sorted(rows, key=lambda row: (row["machine"], row["event_time"]))
    found: dict[tuple[Any, Any], list[int]] = {}
    last: tuple[Any, Any, list[int]] | None = None
    for row in rows:
        machine, time = row["machine"], row["event_time"]
        if last is None or last[0] != machine or time - last[1] > dt.timedelta(seconds=20):
            values = found[machine, time] = []
        else:
            values = last[2]
        values.append(row["value"])
        last = (machine, time, values)
    return {key: (len(values), sum(values)) for key, values in found.items()}


def test_a_series_that_appears_later_has_results(connection: headrace.Connection, tmp_path: Path) -> None:
    location, rows = str(tmp_path / "lake"), rows_at(random.Random(SEED), 30)
    write_deltalake(location, rows.slice(0, 3))
    streams_over(connection, location)
    connection.settle()
    late = rows.set_column(1, "machine", pa.array(["new"] * 20 + ["newer"] * 10))
    write_deltalake(location, late, mode="append")
    connection.settle()
    assert results(connection, "by_machine") == expected(location, "machine")
    DeltaTable(location).delete("machine = 'newer'")
    connection.settle()
    assert results(connection, "by_machine") == expected(location, "machine")


@pytest.mark.parametrize("driver_rows", [7, 500_000], ids=["large", "small"])
@pytest.mark.parametrize("number", range(2))
def test_sessions_and_commits_of_many_rows_are_those_of_the_rows(tmp_path: Path, number: int, driver_rows: int) -> None:
    draw, location = random.Random(f"{SEED} {number} {driver_rows}"), str(tmp_path / "lake")
    write_deltalake(location, rows_at(draw, 40))
    with headrace.connect(settings=load(home=tmp_path / "home", driver_rows=driver_rows)) as connection:
        connection.execute("create database d")
        connection.execute("use d")
        streams_over(connection, location)
        connection.execute(SESSIONS)
        for _ in range(5):
            for _ in range(draw.randrange(1, 3)):
                change(location, draw)
            connection.settle()
            assert results(connection, "by_machine") == expected(location, "machine")
            assert results(connection, "by_site") == expected(location, "site")
            assert results(connection, "by_session") == sessions(DeltaTable(location).to_pyarrow_table().to_pylist())


@pytest.mark.parametrize("partitions", [(), ("day",)], ids=["files", "partitions"])
def test_results_are_those_of_the_rows_that_spark_commits(
    connection: headrace.Connection, spark: SparkSession, tmp_path: Path, partitions: tuple[str, ...]
) -> None:
    draw, location = random.Random(f"{SEED} {partitions}"), str(tmp_path / "lake")
    rows = spark.createDataFrame(rows_at(draw, 40)).withColumn("day", F.lit("d0"))
    rows.write.format("delta").partitionBy(*partitions).save(location)
    streams_over(connection, location)
    for _ in range(4):
        change_by_spark(spark, location, draw)
        connection.settle()
        assert results(connection, "by_machine") == expected(location, "machine")
        assert results(connection, "by_site") == expected(location, "site")
    query = "select ts, tbname, site, `value` from readings where ts >= '2024-05-01 00:10:00' order by ts, tbname, `value`, site"
    with on_spark(connection) as other:
        assert other.execute(query).fetchall() == connection.execute(query).fetchall()


@pytest.mark.parametrize("rule", ["ignore", "stop"])
def test_commits_that_remove_rows_are_ignored_or_stop_the_stream(
    connection: headrace.Connection, tmp_path: Path, rule: str
) -> None:
    location = str(tmp_path / "lake")
    write_deltalake(location, rows_at(random.Random(1), 40))
    connection.execute(f"create external table readings (ts from event_time, `value`) using delta at '{location}' on change {rule}")
    connection.execute(
        f"create stream s {OPTIONS} fill_history 1 into out1 as select _wstart ws, count(*) n from readings interval(1h)"
    )
    connection.settle()
    DeltaTable(location).delete("value < 50")
    if rule == "stop":
        connection.settle()
        assert "ON CHANGE STOP" in stopped_by(connection)
        return
    connection.settle()
    assert connection.execute("select n from out1").fetchall() == [(40,)]
    write_deltalake(location, rows_at(random.Random(2), 1), mode="append")
    connection.settle()
    kept = len(DeltaTable(location).to_pyarrow_table())
    assert connection.execute("select n from out1").fetchall() in ([(41,)], [(kept,)])


def test_a_vacuum_below_the_reader_is_told(connection: headrace.Connection, tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    write_deltalake(location, rows_at(random.Random(1), 40))
    connection.execute(f"create external table readings (ts from event_time, `value`) using delta at '{location}'")
    connection.execute(
        f"create stream s {OPTIONS} fill_history 1 into out1 as select _wstart ws, count(*) n from readings interval(1h)"
    )
    connection.settle()
    table = DeltaTable(location)
    table.delete("value < 50")
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    connection.settle()
    assert "have been removed" in stopped_by(connection)
    connection.execute("reset stream s")
    connection.settle()
    assert connection.execute("select n from out1").fetchall() == [(len(DeltaTable(location).to_pyarrow_table()),)]
