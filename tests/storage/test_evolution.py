"""Tables whose columns change while other processes read and write them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.errors import ExistsError, LimitError, TransientError, TypeMismatchError
from headrace.model.failpoints import FailpointError, armed
from headrace.model.tables import TBNAME, Column, Table
from headrace.model.types import DataType, TypeKind
from headrace.storage import Tables
from headrace.storage.delta.handles import rows_uri
from headrace.storage.delta.log import CHANGE_TYPE
from tests.storage.samples import METERS, POWER, START, open_tables, read, rows
from tests.support.racing import race

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTRA = Column("c", DataType(TypeKind.VARCHAR, 8))
WIDE = replace(METERS, columns=(*METERS.columns, EXTRA))


def widened(tables: Tables) -> Table:
    """Return `power.meters` with a row from before and one from after the column `c`."""
    tables.write(METERS, POWER, rows([{"ts": START, "a": 1, "b": 1.0}]))
    tables.add_columns(METERS, POWER, [EXTRA])
    tables.write(WIDE, POWER, rows([{"ts": START + 1, "a": 2, "c": "new"}], WIDE))
    return WIDE


def columns(tables: Tables) -> list[str]:
    return list(DeltaTable(rows_uri(tables.uri, METERS)).schema().to_arrow().names)


def test_a_column_is_null_in_rows_from_before_it(meters: Tables) -> None:
    wide = widened(meters)
    assert [(row["a"], row["c"]) for row in read(meters.scan(wide, POWER), wide)] == [(1, None), (2, "new")]


def test_a_stale_writer_appends_and_updates_without_touching_a_new_column(meters: Tables, tmp_path: Path) -> None:
    stale = open_tables(tmp_path)
    stale.write(METERS, POWER, rows([{"ts": START - 1, "a": 0}]))
    wide = widened(meters)
    stale.write(METERS, POWER, rows([{"ts": START + 2, "a": 3}]))
    stale.write(METERS, POWER, rows([{"ts": START + 1, "a": 20}, {"ts": START + 3, "a": 4}]), update_columns=["ts", "a"])
    stale.replace(METERS, POWER, rows([{"ts": START, "a": 10}, {"ts": START + 4, "a": 5}]), None, None)
    values = read(meters.scan(wide, POWER), wide)
    assert [(row["a"], row["c"]) for row in values] == [(0, None), (10, None), (20, "new"), (3, None), (4, None), (5, None)]
    assert stale.scan(METERS, POWER).column_names == ["ts", "a", "b", TBNAME]


def test_the_change_feed_is_read_across_an_added_column(meters: Tables) -> None:
    widened(meters)
    changes = meters.changes(METERS, 0, meters.version(METERS))
    assert [(row["a"], row["c"], row[CHANGE_TYPE]) for row in changes.to_pylist()] == [(1, None, "insert"), (2, "new", "insert")]
    assert meters.change_rows(METERS, 0, meters.version(METERS)) == 2


def test_an_older_version_has_a_later_column_as_null(meters: Tables) -> None:
    wide = widened(meters)
    rows_before = meters.scan(wide, POWER, version=1, columns=["a", "c"])
    assert rows_before.to_pydict() == {"a": [1], "c": [None]}


def test_small_files_from_before_and_after_are_compacted(meters: Tables) -> None:
    wide = widened(meters)
    for number in range(60):
        meters.write(wide, POWER, rows([{"ts": START + 10 + number, "c": str(number)}], wide))
    assert meters.compact(wide) > 0
    assert [row["c"] for row in read(meters.scan(wide, POWER), wide)][:3] == [None, "new", "0"]


def test_a_writer_with_a_stale_shorter_length_continues(meters: Tables) -> None:
    wide = widened(meters)
    longer = Column("c", DataType(TypeKind.VARCHAR, 64))
    meters.modify_column(wide, longer)
    assert DeltaTable(rows_uri(meters.uri, METERS)).schema().fields[-1].metadata == {"headrace.type": "VARCHAR(64)"}
    meters.write(wide, POWER, rows([{"ts": START + 5, "c": "5"}], wide))
    meters.write(wide, POWER, rows([{"ts": START + 5, "c": "6"}, {"ts": START + 6, "c": "7"}], wide))
    meters.replace(wide, POWER, rows([{"ts": START + 6, "c": "8"}], wide), rows([{"ts": START + 5}], wide), None)
    assert [row["c"] for row in read(meters.scan(wide, POWER), wide)] == [None, "new", "8"]
    assert meters.changes(wide, 0, meters.version(wide)).num_rows == 9


def test_a_column_is_added_once(meters: Tables) -> None:
    meters.add_columns(METERS, POWER, [EXTRA])
    version = meters.version(METERS)
    meters.add_columns(METERS, POWER, [EXTRA, METERS.columns[1]])
    assert meters.version(METERS) == version


@pytest.mark.parametrize(
    ("column", "error"),
    [
        (Column("a", DataType(TypeKind.DOUBLE)), TypeMismatchError),
        (Column("A", DataType(TypeKind.INT)), LimitError),
        (Column("TBNAME", DataType(TypeKind.INT)), LimitError),
    ],
)
def test_a_column_of_another_type_is_refused(meters: Tables, column: Column, error: type[Exception]) -> None:
    with pytest.raises(error):
        meters.add_columns(METERS, POWER, [Column("new", DataType(TypeKind.INT)), column])
    assert columns(meters) == ["ts", "a", "b", TBNAME]


def test_the_name_of_a_dropped_column_is_not_used_again(meters: Tables) -> None:
    wide = widened(meters)
    meters.drop_column(wide, "c")
    with pytest.raises(ExistsError, match="dropped"):
        meters.add_columns(METERS, POWER, [EXTRA])
    assert meters.scan(METERS, POWER).num_rows == 2


def add_many(home: str, racer: int) -> None:
    """Add columns that all processes share, one that only this one has, and write a row after each."""
    tables = open_tables(Path(home))
    for number in range(10):
        names = [f"m{number}", f"m{number + 1}", f"own{racer}_{number}"]
        tables.add_columns(METERS, POWER, [Column(name, DataType(TypeKind.DOUBLE)) for name in names])
        tables.write(METERS, POWER, rows([{"tbname": f"d{racer}", "ts": START + number, "a": number}]))


def test_processes_add_columns_and_rows_at_the_same_time(meters: Tables, tmp_path: Path) -> None:
    race(add_many, [(str(tmp_path), racer) for racer in range(3)])
    shared = {f"m{number}" for number in range(11)}
    own = {f"own{racer}_{number}" for racer in range(3) for number in range(10)}
    assert set(columns(meters)) == {"ts", "a", "b", TBNAME, *shared, *own}
    assert meters.rows(METERS) == 30


def test_an_undeclared_column_of_another_writer_is_ignored(meters: Tables) -> None:
    meters.write(METERS, POWER, rows([{"ts": START, "a": 1}]))
    uri = rows_uri(meters.uri, METERS)
    foreign = rows([{"ts": START + 1, "a": 2}]).append_column("site", pa.array(["abroad"]))
    write_deltalake(uri, foreign, mode="append", schema_mode="merge")
    meters.write(METERS, POWER, rows([{"ts": START + 2, "a": 3}, {"ts": START, "a": 10}]))
    meters.replace(METERS, POWER, rows([{"ts": START + 3, "a": 4}]), rows([{"ts": START, "a": 0}]), None)
    assert [(row["a"]) for row in read(meters.scan(METERS, POWER))] == [2, 3, 4]
    assert meters.changes(METERS, 0, meters.version(METERS)).num_rows == 7


# Tags


def tags(**values: object) -> pa.Table:
    return pa.table({TBNAME: ["d1"], **{name: pa.array([value], pa.int32()) for name, value in values.items()}})


def stored_tags(tables: Tables) -> list[dict[str, object]]:
    tags_table: list[dict[str, object]] = tables.read_tags(METERS).to_pylist()
    return tags_table


def test_a_tag_is_added_renamed_and_dropped(meters: Tables) -> None:
    meters.upsert_tags(METERS, tags(site=7))
    meters.add_tag(METERS, POWER, Column("floor", DataType(TypeKind.INT)))
    assert stored_tags(meters) == [{TBNAME: "d1", "site": 7, "floor": None}]
    meters.rename_tag(METERS, "site", "place", lambda: None)
    meters.drop_tag(METERS, "floor")
    meters.drop_tag(METERS, "floor")
    assert stored_tags(meters) == [{TBNAME: "d1", "place": 7}]


def test_tags_that_a_writer_omits_are_kept(meters: Tables) -> None:
    meters.upsert_tags(METERS, tags(site=7))
    meters.add_tag(METERS, POWER, Column("floor", DataType(TypeKind.INT)))
    meters.upsert_tags(METERS, tags(floor=2))
    meters.upsert_tags(METERS, tags(site=8))
    assert stored_tags(meters) == [{TBNAME: "d1", "site": 8, "floor": 2}]


def test_writing_a_dropped_tag_is_an_error(meters: Tables) -> None:
    meters.rename_tag(METERS, "site", "place", lambda: None)
    with pytest.raises(TransientError, match="site"):
        meters.upsert_tags(METERS, tags(site=8))


def test_both_names_have_the_values_during_a_rename_and_a_crash_is_recovered(meters: Tables) -> None:
    meters.upsert_tags(METERS, tags(site=7))
    with armed("storage.tag.copied:1:raise"), pytest.raises(FailpointError):
        meters.rename_tag(METERS, "site", "place", lambda: None)
    assert stored_tags(meters) == [{TBNAME: "d1", "site": 7, "place": 7}]
    meters.upsert_tags(METERS, tags(site=9))
    meters.rename_tag(METERS, "site", "place", lambda: None)
    assert stored_tags(meters) == [{TBNAME: "d1", "place": 9}]


def test_a_tag_left_by_a_crash_is_created_again(meters: Tables) -> None:
    meters.upsert_tags(METERS, tags(site=7))
    with armed("storage.tag.renamed:1:raise"), pytest.raises(FailpointError):
        meters.rename_tag(METERS, "site", "place", lambda: None)
    meters.add_tag(METERS, POWER, Column("site", DataType(TypeKind.INT)))
    assert stored_tags(meters) == [{TBNAME: "d1", "place": 7, "site": None}]


@pytest.mark.spark
def test_spark_reads_rows_and_changes_across_added_columns(meters: Tables, spark: SparkSession) -> None:
    wide = widened(meters)
    newest = meters.version(wide)
    assert sorted(tuple(row) for row in meters.frame(spark, wide).select("a", "c").collect()) == [(1, None), (2, "new")]
    assert [tuple(row) for row in meters.frame(spark, wide, version=1).select("a", "c").collect()] == [(1, None)]
    assert meters.frame(spark, METERS).columns == ["ts", "a", "b", TBNAME]
    changed = meters.changes_frame(spark, METERS, 0, newest).select("a", "c", CHANGE_TYPE).collect()
    assert sorted(tuple(row) for row in changed) == [(1, None, "insert"), (2, "new", "insert")]
    upserts = spark.createDataFrame(rows([{"ts": START + 1, "a": 20}, {"ts": START + 9, "a": 9}]))
    meters.replace_frame(spark, METERS, POWER, upserts, None, None)
    assert [(row["a"], row["c"]) for row in read(meters.scan(wide, POWER), wide)] == [(1, None), (20, "new"), (9, None)]
