"""Tables whose columns change while other processes read and write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.catalog.alterations import with_renamed_column
from headrace.errors import ExistsError, IntegrityError, LimitError, TransientError, TypeMismatchError
from headrace.model.failpoints import FailpointError, armed, calling
from headrace.model.instants import EPOCH
from headrace.model.tables import TBNAME, Column, Table
from headrace.model.types import DataType, TypeKind
from headrace.storage import Tables
from headrace.storage.delta.handles import rows_uri
from headrace.storage.delta.log import CHANGE_TYPE
from tests.storage.samples import METERS, POWER, START, changes_frame, file_locks, open_tables, read, rows
from tests.support.racing import race

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTRA = Column("c", DataType(TypeKind.VARCHAR, 8))
WIDE = replace(METERS, columns=(*METERS.columns, EXTRA))


def widened(tables: Tables) -> Table:
    """Return `power.meters` with a row from before and one from after the column `c`."""
    tables.writer.write(METERS, POWER, rows([{"ts": START, "a": 1, "b": 1.0}]))
    tables.columns.add(METERS, POWER, [EXTRA])
    tables.writer.write(WIDE, POWER, rows([{"ts": START + 1, "a": 2, "c": "new"}], WIDE))
    return WIDE


def columns(tables: Tables) -> list[str]:
    return list(DeltaTable(rows_uri(tables.uri, METERS)).schema().to_arrow().names)


def test_a_column_is_null_in_rows_from_before_it(meters: Tables) -> None:
    wide = widened(meters)
    assert [(row["a"], row["c"]) for row in read(meters.scan(wide), wide)] == [(1, None), (2, "new")]


def test_a_stale_writer_appends_and_updates_without_touching_a_new_column(meters: Tables, tmp_path: Path) -> None:
    stale = open_tables(tmp_path)
    stale.writer.write(METERS, POWER, rows([{"ts": START - 1, "a": 0}]))
    wide = widened(meters)
    stale.writer.write(METERS, POWER, rows([{"ts": START + 2, "a": 3}]))
    stale.writer.write(METERS, POWER, rows([{"ts": START + 1, "a": 20}, {"ts": START + 3, "a": 4}]), update_columns=["ts", "a"])
    stale.writer.replace(METERS, POWER, rows([{"ts": START, "a": 10}, {"ts": START + 4, "a": 5}]), None, None)
    values = read(meters.scan(wide), wide)
    assert [(row["a"], row["c"]) for row in values] == [(0, None), (10, None), (20, "new"), (3, None), (4, None), (5, None)]
    assert stale.scan(METERS).column_names == ["ts", "a", "b", TBNAME]


def test_the_change_feed_is_read_across_an_added_column(meters: Tables) -> None:
    widened(meters)
    changes = meters.changes.read(METERS, 0, meters.version(METERS))
    assert [(row["a"], row["c"], row[CHANGE_TYPE]) for row in changes.to_pylist()] == [(1, None, "insert"), (2, "new", "insert")]
    assert meters.changes.count(METERS, 0, meters.version(METERS)) == 2


def test_an_older_version_has_a_later_column_as_null(meters: Tables) -> None:
    wide = widened(meters)
    rows_before = meters.scan(wide, version=1, columns=["a", "c"])
    assert rows_before.to_pydict() == {"a": [1], "c": [None]}


def test_small_files_from_before_and_after_are_compacted(meters: Tables) -> None:
    wide = widened(meters)
    for number in range(60):
        meters.writer.write(wide, POWER, rows([{"ts": START + 10 + number, "c": str(number)}], wide))
    assert meters.maintenance.compact(wide) > 0
    assert [row["c"] for row in read(meters.scan(wide), wide)][:3] == [None, "new", "0"]


def test_a_writer_with_a_stale_shorter_length_continues(meters: Tables) -> None:
    wide = widened(meters)
    longer = Column("c", DataType(TypeKind.VARCHAR, 64))
    meters.columns.retype(wide, longer)
    assert DeltaTable(rows_uri(meters.uri, METERS)).schema().fields[-1].metadata == {"headrace.type": "VARCHAR(64)"}
    meters.writer.write(wide, POWER, rows([{"ts": START + 5, "c": "5"}], wide))
    meters.writer.write(wide, POWER, rows([{"ts": START + 5, "c": "6"}, {"ts": START + 6, "c": "7"}], wide))
    meters.writer.replace(wide, POWER, rows([{"ts": START + 6, "c": "8"}], wide), rows([{"ts": START + 5}], wide), None)
    assert [row["c"] for row in read(meters.scan(wide), wide)] == [None, "new", "8"]
    assert meters.changes.read(wide, 0, meters.version(wide)).num_rows == 9


def test_a_column_is_added_once(meters: Tables) -> None:
    meters.columns.add(METERS, POWER, [EXTRA])
    version = meters.version(METERS)
    meters.columns.add(METERS, POWER, [EXTRA, METERS.columns[1]])
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
        meters.columns.add(METERS, POWER, [Column("new", DataType(TypeKind.INT)), column])
    assert columns(meters) == ["ts", "a", "b", TBNAME]


def test_the_name_of_a_dropped_column_is_not_used_again(meters: Tables) -> None:
    wide = widened(meters)
    meters.columns.retire(wide, "c", lambda: None)
    with pytest.raises(ExistsError, match="dropped"):
        meters.columns.add(METERS, POWER, [EXTRA])
    assert meters.scan(METERS).num_rows == 2


def rename(tables: Tables, table: Table, old: str, new: str) -> Table:
    """Rename a column, and return the table with it."""
    column = next(column for column in table.columns if column.name == old)
    tables.columns.rename(table, POWER, column, new, lambda: None)
    return with_renamed_column(table, old, new)


def refuse() -> None:
    raise IntegrityError("a stream was created meanwhile")


def no_spark() -> SparkSession:
    raise AssertionError("Spark is not needed")


VALUES: dict[TypeKind, object] = {
    TypeKind.BOOL: True,
    TypeKind.DOUBLE: math.nan,
    TypeKind.FLOAT: -0.0,
    TypeKind.UBIGINT: Decimal(2**64 - 1),
    TypeKind.NCHAR: "ä",
    TypeKind.VARBINARY: b"\0",
    TypeKind.TIMESTAMP: EPOCH,
    TypeKind.DATE: EPOCH.date(),
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_column_of_any_type_is_renamed_with_its_values(tables: Tables, kind: TypeKind) -> None:
    table = replace(METERS, columns=(*METERS.columns[:2], Column('quo"te', DataType(kind))))
    tables.create(table, POWER)
    tables.writer.write(table, POWER, rows([{"ts": START, "a": 1, 'quo"te': VALUES[kind]}, {"ts": START + 1, "a": 2}], table))
    values = tables.scan(table)['quo"te'].to_pylist()
    assert values[0] is not None
    renamed = rename(tables, table, 'quo"te', "it's")
    assert str(tables.scan(renamed)["it's"].to_pylist()) == str(values)
    assert tables.scan(renamed).column_names == ["ts", "a", "it's", TBNAME]
    version = tables.version(renamed)
    rename(tables, table, 'quo"te', "it's")
    assert tables.version(renamed) == version


def test_a_renamed_column_is_written_merged_and_compacted(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": START, "a": 1, "b": 1.0}, {"ts": START + 1, "a": 2, "b": 2.0}]))
    renamed = rename(meters, METERS, "a", "c")
    for number in range(2, 60):
        meters.writer.write(renamed, POWER, rows([{"ts": START + number, "c": number, "b": 0.5}], renamed))
    meters.writer.write(renamed, POWER, rows([{"ts": START, "c": 10}], renamed), update_columns=["c"])
    meters.writer.replace(renamed, POWER, rows([{"ts": START + 1, "c": 20}], renamed), rows([{"ts": START + 2}], renamed), None)
    assert meters.maintenance.compact(renamed) > 0
    values = read(meters.scan(renamed), renamed)
    assert [(row["c"], row["b"]) for row in values][:3] == [(10, 1.0), (20, None), (3, 0.5)]
    changed = meters.changes.read(renamed, 0, meters.version(renamed))
    assert [row["c"] for row in changed.to_pylist() if row["b"] == 1.0] == [None, 1, 10]


def test_a_stale_writer_of_a_renamed_or_dropped_column_is_refused(meters: Tables, tmp_path: Path) -> None:
    stale = open_tables(tmp_path)
    stale.writer.write(METERS, POWER, rows([{"ts": START, "a": 1, "b": 1.0}]))
    renamed = rename(meters, METERS, "a", "c")
    for update_columns in (None, ["ts", "a"]):
        for start in (START, START + 1):
            with pytest.raises(TransientError, match="its column a was dropped or renamed"):
                stale.writer.write(METERS, POWER, rows([{"ts": start, "a": 2}]), update_columns=update_columns)
    stale.writer.write(METERS, POWER, rows([{"ts": START, "b": 5.0}, {"ts": START + 1, "b": 6.0}]), update_columns=["ts", "b"])
    assert [(row["c"], row["b"]) for row in read(meters.scan(renamed), renamed)] == [(1, 5.0), (None, 6.0)]
    meters.columns.retire(renamed, "b", lambda: None)
    with pytest.raises(TransientError, match="its column b was dropped or renamed"):
        stale.writer.write(METERS, POWER, rows([{"ts": START, "b": 7.0}]), update_columns=["ts", "b"])


@pytest.mark.parametrize("small_write_rows", [1, 100])
def test_a_stale_load_of_a_renamed_column_is_refused(meters: Tables, tmp_path: Path, small_write_rows: int) -> None:
    stale, path = open_tables(tmp_path, small_write_rows), tmp_path / "rows.csv"
    renamed = rename(meters, METERS, "a", "c")
    path.write_text(f"tbname,ts,a\nd1,{START},1\nd1,{START + 1},2\n")
    with pytest.raises(TransientError, match="its column a was dropped or renamed"):
        stale.loader(no_spark, METERS, POWER).load([path])
    path.write_text(f"tbname,ts,b\nd1,{START},1\nd1,{START + 1},2\n")
    stale.loader(no_spark, METERS, POWER).load([path])
    assert [(row["c"], row["b"]) for row in read(meters.scan(renamed), renamed)] == [(None, 1.0), (None, 2.0)]


def test_rows_that_are_written_without_the_lock_during_a_rename_are_copied(meters: Tables, tmp_path: Path) -> None:
    stale = Tables(meters.uri, file_locks(tmp_path / "others"), 100)
    meters.writer.write(METERS, POWER, rows([{"ts": START, "a": 1}]))
    write: Callable[[], None] = lambda: (stale.writer.write(METERS, POWER, rows([{"ts": START + 1, "a": 2}])), None)[1]  # noqa: E731
    with calling("storage.column.copied", write):
        renamed = rename(meters, METERS, "a", "c")
    assert [row["c"] for row in read(meters.scan(renamed), renamed)] == [1, 2]


def test_a_refused_rename_or_drop_leaves_the_column(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": START, "a": 1}]))
    with pytest.raises(IntegrityError):
        meters.columns.rename(METERS, POWER, METERS.columns[1], "c", refuse)
    with pytest.raises(IntegrityError):
        meters.columns.retire(METERS, "b", refuse)
    meters.writer.write(METERS, POWER, rows([{"ts": START, "a": 2, "b": 3.0}]))
    with pytest.raises(ExistsError, match="rename that was interrupted"):
        meters.columns.add(METERS, POWER, [Column("c", DataType(TypeKind.INT))])
    renamed = rename(meters, METERS, "a", "c")
    assert [(row["c"], row["b"]) for row in read(meters.scan(renamed), renamed)] == [(2, 3.0)]


def test_a_rename_refuses_names_that_the_delta_table_has(meters: Tables) -> None:
    wide = widened(meters)
    meters.columns.retire(wide, "c", lambda: None)
    foreign = rows([{"ts": START + 2}]).append_column("site", pa.array([1], pa.int32()))
    write_deltalake(rows_uri(meters.uri, METERS), foreign, mode="append", schema_mode="merge")
    version = meters.version(METERS)
    for name, error, message in (
        ("c", ExistsError, "dropped"),
        ("A", LimitError, "case"),
        ("site", ExistsError, "another writer"),
        ("b", ExistsError, "another writer"),
    ):
        with pytest.raises((error, TypeMismatchError), match=message if name != "b" else "type"):
            rename(meters, METERS, "a", name)
    assert meters.version(METERS) == version


def add_many(home: str, racer: int) -> None:
    """Add columns that all processes share, one that only this one has, and write a row after each."""
    tables = open_tables(Path(home))
    for number in range(10):
        names = [f"m{number}", f"m{number + 1}", f"own{racer}_{number}"]
        tables.columns.add(METERS, POWER, [Column(name, DataType(TypeKind.DOUBLE)) for name in names])
        tables.writer.write(METERS, POWER, rows([{"tbname": f"d{racer}", "ts": START + number, "a": number}]))


def test_processes_add_columns_and_rows_at_the_same_time(meters: Tables, tmp_path: Path) -> None:
    race(add_many, [(str(tmp_path), racer) for racer in range(3)])
    shared = {f"m{number}" for number in range(11)}
    own = {f"own{racer}_{number}" for racer in range(3) for number in range(10)}
    assert set(columns(meters)) == {"ts", "a", "b", TBNAME, *shared, *own}
    assert meters.rows(METERS) == 30


def test_an_undeclared_column_of_another_writer_is_ignored(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": START, "a": 1}]))
    uri = rows_uri(meters.uri, METERS)
    foreign = rows([{"ts": START + 1, "a": 2}]).append_column("site", pa.array(["abroad"]))
    write_deltalake(uri, foreign, mode="append", schema_mode="merge")
    meters.writer.write(METERS, POWER, rows([{"ts": START + 2, "a": 3}, {"ts": START, "a": 10}]))
    meters.writer.replace(METERS, POWER, rows([{"ts": START + 3, "a": 4}]), rows([{"ts": START, "a": 0}]), None)
    assert [(row["a"]) for row in read(meters.scan(METERS))] == [2, 3, 4]
    assert meters.changes.read(METERS, 0, meters.version(METERS)).num_rows == 7


# Tags


def tags(**values: object) -> pa.Table:
    return pa.table({TBNAME: ["d1"], **{name: pa.array([value], pa.int32()) for name, value in values.items()}})


def stored_tags(tables: Tables) -> list[dict[str, object]]:
    tags_table: list[dict[str, object]] = tables.tags.read(METERS).to_pylist()
    return tags_table


def test_a_tag_is_added_renamed_and_dropped(meters: Tables) -> None:
    meters.tags.upsert(METERS, tags(site=7))
    meters.tags.add(METERS, POWER, Column("floor", DataType(TypeKind.INT)))
    assert stored_tags(meters) == [{TBNAME: "d1", "site": 7, "floor": None}]
    meters.tags.rename(METERS, "site", "place", lambda: None)
    meters.tags.remove(METERS, "floor")
    meters.tags.remove(METERS, "floor")
    assert stored_tags(meters) == [{TBNAME: "d1", "place": 7}]


def test_tags_that_a_writer_omits_are_kept(meters: Tables) -> None:
    meters.tags.upsert(METERS, tags(site=7))
    meters.tags.add(METERS, POWER, Column("floor", DataType(TypeKind.INT)))
    meters.tags.upsert(METERS, tags(floor=2))
    meters.tags.upsert(METERS, tags(site=8))
    assert stored_tags(meters) == [{TBNAME: "d1", "site": 8, "floor": 2}]


def test_writing_a_dropped_tag_is_an_error(meters: Tables) -> None:
    meters.tags.rename(METERS, "site", "place", lambda: None)
    with pytest.raises(TransientError, match="site"):
        meters.tags.upsert(METERS, tags(site=8))


def test_both_names_have_the_values_during_a_rename_and_a_crash_is_recovered(meters: Tables) -> None:
    meters.tags.upsert(METERS, tags(site=7))
    with armed("storage.tag.copied:1:raise"), pytest.raises(FailpointError):
        meters.tags.rename(METERS, "site", "place", lambda: None)
    assert stored_tags(meters) == [{TBNAME: "d1", "site": 7, "place": 7}]
    meters.tags.upsert(METERS, tags(site=9))
    meters.tags.rename(METERS, "site", "place", lambda: None)
    assert stored_tags(meters) == [{TBNAME: "d1", "place": 9}]


def test_a_tag_left_by_a_crash_is_created_again(meters: Tables) -> None:
    meters.tags.upsert(METERS, tags(site=7))
    with armed("storage.tag.renamed:1:raise"), pytest.raises(FailpointError):
        meters.tags.rename(METERS, "site", "place", lambda: None)
    meters.tags.add(METERS, POWER, Column("site", DataType(TypeKind.INT)))
    assert stored_tags(meters) == [{TBNAME: "d1", "place": 7, "site": None}]


@pytest.mark.spark
def test_spark_reads_rows_and_changes_across_added_columns(meters: Tables, spark: SparkSession) -> None:
    wide = widened(meters)
    newest = meters.version(wide)
    assert sorted(tuple(row) for row in meters.frame(spark, wide).select("a", "c").collect()) == [(1, None), (2, "new")]
    assert [tuple(row) for row in meters.frame(spark, wide, version=1).select("a", "c").collect()] == [(1, None)]
    assert meters.frame(spark, METERS).columns == ["ts", "a", "b", TBNAME]
    changed = changes_frame(spark, meters, METERS, 0, newest).select("a", "c", CHANGE_TYPE).collect()
    assert sorted(tuple(row) for row in changed) == [(1, None, "insert"), (2, "new", "insert")]
    upserts = spark.createDataFrame(rows([{"ts": START + 1, "a": 20}, {"ts": START + 9, "a": 9}]))
    meters.frames.replace(METERS, POWER, upserts, None, None)
    assert [(row["a"], row["c"]) for row in read(meters.scan(wide), wide)] == [(1, None), (20, "new"), (9, None)]
