"""Streams whose tables gain and lose columns while they run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import headrace
from headrace.errors import IntegrityError
from headrace.history import backfill
from headrace.model.tables import Column
from headrace.model.types import DataType, TypeKind
from headrace.storage.delta.handles import rows_uri
from tests.streams.environment import READINGS, START, StreamEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXTRA = Column("c", DataType(TypeKind.DOUBLE))
WIDE = replace(READINGS, columns=(*READINGS.columns, EXTRA))
SUMS = "create stream s trigger at_once ignore update 0 into out as select _wstart, count(*) n, sum(a) total from readings"
SUMS += " partition by g interval(10s)"


@pytest.fixture
def other(env: StreamEnvironment) -> Iterator[headrace.Connection]:
    """A connection to the same home, with handles and a catalog of its own, as another process has."""
    with headrace.connect(env.context.settings.home) as opened:
        opened.execute("use db")
        yield opened


def insert(connection: headrace.Connection, subtable: str, offset: int, columns: str, values: str) -> None:
    connection.execute(f"insert into {subtable} (ts, {columns}) values ({START + offset}, {values})")


def sums(env: StreamEnvironment) -> list[tuple[Any, ...]]:
    return env.query("select _wstart, count(*) n, sum(a) total, g from readings partition by g interval(10s)")


@pytest.mark.parametrize("restarted", [False, True])
def test_a_stream_continues_while_its_source_gains_and_loses_columns(
    env: StreamEnvironment, other: headrace.Connection, restarted: bool
) -> None:
    plan = env.create(SUMS)
    env.insert([("d0", 0, 1, "x"), ("d2", 11_000, 2, None)])
    env.settle()
    for change in ("add column c double", "add tag owner varchar(8)", "drop column b"):
        other.execute(f"alter table readings {change}")
        if restarted:
            env.restart()
        insert(other, "d1", 12_000, "a, c" if change == "add column c double" else "a", "5, 0.5" if "c double" in change else "6")
        insert(other, "d0", 1_000, "a", "7")
        env.settle()
        assert [(row[0], row[1], row[2]) for row in env.results(plan)] == [(row[0], row[1], row[2]) for row in sums(env)]
    other.execute(f"delete from d0 where ts = {START + 1_000}")
    env.settle()
    assert [row[:3] for row in env.results(plan)] == [(0, 1, 1), (10_000, 1, 2), (10_000, 1, 6)]
    assert env.record(plan).reason is None


@pytest.mark.parametrize("restarted", [False, True])
def test_star_selects_the_columns_that_the_stream_was_created_with(
    env: StreamEnvironment, other: headrace.Connection, restarted: bool
) -> None:
    plan = env.create("create stream s trigger at_once into copies as select * from d0")
    env.insert([("d0", 0, 1, "x")])
    env.settle()
    other.execute("alter stable readings add column c double")
    insert(other, "d0", 1, "a, b, c", "2, 'y', 0.5")
    if restarted:
        env.restart()
    env.settle()
    insert(other, "d0", 0, "c", "1.5")
    env.settle()
    assert [row[:3] for row in env.results(plan)] == [(0, 1, "x"), (1, 2, "y")]
    later = env.create("create stream t trigger at_once into more as select * from d0")
    insert(other, "d0", 2, "a, c", "3, 2.5")
    env.settle()
    assert [row[:4] for row in env.results(later)] == [(2, 3, None, 2.5)]


def test_a_stream_that_lags_reads_its_changes_across_an_added_column(env: StreamEnvironment, other: headrace.Connection) -> None:
    plan = env.create(SUMS)
    env.insert([("d0", 0, 1, "x")])
    other.execute("alter stable readings add column c double")
    insert(other, "d0", 1, "a, c", "2, 0.5")
    insert(other, "d0", 0, "a", "10")
    env.settle()
    assert [row[:3] for row in env.results(plan)] == [(0, 2, 12)]


def test_a_target_may_gain_a_column(env: StreamEnvironment, other: headrace.Connection) -> None:
    plan = env.create(SUMS)
    env.insert([("d0", 0, 1, "x")])
    env.settle()
    other.execute("alter stable out add column note varchar(8)")
    for restarted in (False, True):
        if restarted:
            env.restart()
        env.insert([("d0", 1 + restarted, 1, None), ("d2", 20_000 + 10_000 * restarted, 1, None)])
        env.settle()
    wide = env.catalog.tables.get("db", "out")
    found = env.tables.scan(wide).sort_by("_wstart")
    assert found["n"].to_pylist() == [3, 1, 1]
    assert found["note"].to_pylist() == [None, None, None]
    assert [row[:3] for row in env.results(plan)] == [(0, 3, 3), (20_000, 1, 1), (30_000, 1, 1)]


def test_a_text_does_not_grow_under_a_stream_that_copies_it(env: StreamEnvironment, other: headrace.Connection) -> None:
    env.create("create stream s trigger at_once into copies as select ts, b from readings partition by tbname")
    with pytest.raises(IntegrityError, match=r"column b of db\.readings is needed by stream db\.s"):
        other.execute("alter stable readings modify column b varchar(40)")
    other.execute("alter stable copies modify column b varchar(40)")


def test_a_history_is_filled_at_its_boundary_after_a_column_was_added(env: StreamEnvironment, other: headrace.Connection) -> None:
    for number in range(5):
        env.insert([("d0", number * 10_000, number, "x")])
    other.execute("alter stable readings add column c double")
    plan = env.create(SUMS.replace("trigger", "fill_history 1 trigger"))
    other.execute("alter stable readings add column later double")
    insert(other, "d0", 40_005, "a, later", "100, 0.5")
    for chunk in backfill.plan_chunks(env.context, plan.id, rows=2):
        backfill.fill_chunk(env.context, plan.id, backfill.HISTORY, chunk.number)
    backfill.activate(env.context, plan.id)
    backfill.go_live(env.context, plan.id)
    env.settle()
    assert [row[:3] for row in env.results(plan)] == [*((n * 10_000, 1, n) for n in range(4)), (40_000, 2, 104)]


def test_a_column_of_another_writer_breaks_neither_queries_nor_streams(env: StreamEnvironment, other: headrace.Connection) -> None:
    plan = env.create(SUMS)
    env.insert([("d0", 0, 1, "x")])
    env.settle()
    uri = rows_uri(env.tables.uri, READINGS)
    rows = pa.table(
        {
            "ts": pa.array([(START + 1) * 1000], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "a": pa.array([5], pa.int32()),
            "b": ["y"],
            "tbname": ["d1"],
            "g": ["a column with the name of a tag"],
        }
    )
    write_deltalake(uri, rows, mode="append", schema_mode="merge")
    insert(other, "d0", 2, "a", "2")
    insert(other, "d0", 0, "a", "4")
    env.settle()
    assert [row[:3] for row in env.results(plan)] == [(0, 3, 11)]
    assert other.execute("select sum(a), count(*) from readings where g = 1").fetchall() == [(11, 3)]
    assert other.execute("select * from d1").fetchall()[0][1:] == (5, "y")
    other.execute("alter stable readings add column found varchar(40)")
    env.restart()
    env.insert([("d0", 3, 1, "x")])
    env.settle()
    assert [row[:3] for row in env.results(plan)] == [(0, 4, 12)]


def test_a_column_that_another_writer_made_is_declared_with_its_values(
    env: StreamEnvironment, other: headrace.Connection, spark: SparkSession
) -> None:
    del spark
    rows = pa.table(
        {"ts": pa.array([START * 1000], pa.int64()).cast(pa.timestamp("us", "UTC")), "tbname": ["d1"], "c": pa.array([0.5])}
    )
    write_deltalake(rows_uri(env.tables.uri, READINGS), rows, mode="append", schema_mode="merge")
    other.execute("alter stable readings add column c double")
    assert other.execute("select c from readings").fetchall() == [(0.5,)]
