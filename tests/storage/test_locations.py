from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import ConfigurationError, ExistsError, LimitError
from headrace.model.tables import TBNAME, Column, Table, TableKind
from headrace.model.types import DataType, TypeKind
from headrace.settings import load
from headrace.storage import Tables
from headrace.storage.delta.handles import spark_path
from headrace.storage.object_store import delta_options, file_system, object_store, register
from tests.storage.samples import METERS, PLAIN, POWER, TS, CountedLock, open_tables, read, rows

ODD_NAMES = [
    "with space",
    "per%20cent",
    "ünï",
    "a/b",
    "..",
    "Case",
    "case",
    "quo'te",
    "back`tick",
    "x" * 192,
    "x" * 191 + "y",
    "ü" * 192,
]


def test_tables_of_any_names_live_side_by_side(tables: Tables) -> None:
    created = [replace(METERS, name=name) for name in ODD_NAMES]
    for number, table in enumerate(created):
        tables.create(table, POWER)
        tables.writer.write(table, POWER, rows([{"ts": number}]))

    assert [[row["ts"] for row in read(tables.scan(table))] for table in created] == [[number] for number in range(len(created))]


@pytest.mark.parametrize("name", ["count(*)", "_wstart", "a b,c;d=e", 'quo"te', "it's", "back`tick", "a.b", "Ä", "select"])
def test_a_column_may_have_any_name(tables: Tables, name: str) -> None:
    columns = (TS, Column(name, DataType(TypeKind.INT)), Column("s", DataType(TypeKind.VARCHAR, 9)))
    table = Table("power", "odd", columns)
    tables.create(table, POWER)
    tables.writer.write(table, POWER, rows([{"ts": 1, name: 1, "s": "x"}, {"ts": 2, name: 2, "s": "x"}], table))
    tables.writer.write(table, POWER, rows([{"ts": 1, name: 10}], table), update_columns=[name])
    tables.writer.replace(table, POWER, rows([{"ts": 2, name: 20, "s": "y"}], table), None, None)

    assert [(row[name], row["s"]) for row in read(tables.scan(table), table)] == [(10, "x"), (20, "y")]
    assert tables.changes.read(table, 1, 3).num_rows == 6


@pytest.mark.parametrize("name", ["t s", "zeit.punkt", "time"])
def test_the_timestamp_may_have_any_name(tables: Tables, name: str) -> None:
    table = Table("power", "odd", (Column(name, DataType(TypeKind.TIMESTAMP)), Column("a", DataType(TypeKind.INT))))
    tables.create(table, POWER)
    for a in (1, 2):
        tables.writer.write(table, POWER, rows([{name: 1, "a": a}], table))

    assert read(tables.scan(table), table) == [{name: 1, "a": 2, TBNAME: "d1"}]
    assert tables.writer.delete(table, POWER, ranges=[(1, 1)]) == 1


def test_a_table_may_have_many_columns(tables: Tables) -> None:
    columns = (TS, *(Column(f"c{number}", DataType(TypeKind.INT)) for number in range(300)))
    table = Table("power", "wide", columns)
    tables.create(table, POWER)
    for a in (1, 2):
        tables.writer.write(table, POWER, rows([{"ts": 1, "c299": a, TBNAME: "d2"}], table))

    assert tables.scan(table)["c299"].to_pylist() == [2]
    with tables._handles.reader(table).latest() as delta:
        assert f"min.{TBNAME}" in tables._handles.reader(table).files(delta).column_names


@pytest.mark.parametrize("folder", ["a b", "ü", "#1", "what?"])
def test_tables_may_live_in_a_folder_of_such_a_name(tmp_path: Path, folder: str) -> None:
    tables = open_tables(tmp_path / folder)
    tables.create(METERS, POWER)
    for a in (1, 2):
        tables.writer.write(METERS, POWER, rows([{"ts": 1, "a": a}]))

    assert [row["a"] for row in read(tables.scan(METERS))] == [2]
    assert tables.changes.read(METERS, 1, 2).num_rows == 3


def test_a_folder_that_delta_cannot_use_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="reads its % as an escape"):
        Tables(str(tmp_path / "a%20b"), CountedLock(), 1000)


@pytest.mark.parametrize("name", ["TS", "TbName", "A"])
def test_columns_that_differ_by_case_alone_are_refused(tables: Tables, name: str) -> None:
    table = Table("power", "odd", (*METERS.columns, Column(name, DataType(TypeKind.INT))))
    with pytest.raises(LimitError, match=f"and {name}|{name} and"):
        tables.create(table, POWER)
    assert not tables.exists(table)


def test_a_file_uri_is_a_path(tmp_path: Path) -> None:
    tables = Tables(f"{(tmp_path / 'a b').as_uri()}/", CountedLock(), 1000)
    tables.create(METERS, POWER)

    assert tables.exists(METERS)
    assert (tmp_path / "a b/power/meters/rows/_delta_log").is_dir()


def test_an_interrupted_creation_can_be_repeated(tables: Tables) -> None:
    tables.create(METERS, POWER)
    tables.create(METERS, POWER)

    assert tables.version(METERS) == 0


def test_a_folder_with_rows_is_not_adopted(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1}]))

    with pytest.raises(ExistsError, match="there is a Delta table at"):
        meters.create(METERS, POWER)


def test_a_table_of_other_columns_is_replaced_only_if_it_was_never_written(meters: Tables) -> None:
    narrower = replace(METERS, columns=METERS.columns[:2])
    meters.create(narrower, POWER)
    assert meters.scan(narrower).column_names == meters.schema(narrower, POWER).names

    meters.writer.write(narrower, POWER, rows([{"ts": 1}], narrower))
    meters.writer.delete(narrower, POWER)
    with pytest.raises(ExistsError):
        meters.create(METERS, POWER)


def test_a_dropped_table_leaves_nothing_behind(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1}]))
    meters.drop(METERS)

    assert not meters.exists(METERS)
    assert list(Path(meters.uri).iterdir()) == []


def test_dropping_a_table_twice_is_no_error_and_spares_the_others(meters: Tables) -> None:
    meters.create(PLAIN, POWER)
    meters.drop(METERS)
    meters.drop(METERS)

    assert meters.exists(PLAIN)
    assert not meters.exists(METERS)


def test_the_series_key_is_that_of_the_kind_of_table(tables: Tables) -> None:
    tree = Table("power", "tree", METERS.columns, kind=TableKind.TREE)
    assert (tree.primary_key, METERS.primary_key) == (("device", "ts"), (TBNAME, "ts"))
    tables.create(tree, POWER)

    def write(*values: tuple[str, int, int]) -> None:
        written = rows([{"ts": ts, "a": a, "b": 0.5, TBNAME: device} for device, ts, a in values])
        tables.writer.write(tree, POWER, written.rename_columns([name.replace(TBNAME, "device") for name in written.column_names]))

    write(("x", 1, 1), ("y", 1, 2))
    write(("x", 1, 10), ("x", 2, 3))
    assert tables.writer.delete(tree, POWER, tbnames=["y"]) == 1

    stored = tables.scan(tree, tbnames=["x"], columns=["device", "a"])
    assert sorted(map(tuple, (row.values() for row in stored.to_pylist()))) == [("x", 3), ("x", 10)]
    assert tables.scan(tree, tbnames=["y"]).num_rows == 0


@pytest.mark.parametrize("uri", ["s3://bucket/folder", "s3a://bucket/folder/"])
def test_an_object_store_has_one_uri_for_all_libraries(uri: str, tmp_path: Path) -> None:
    settings = load(home=tmp_path, warehouse=uri)
    assert settings.is_on_object_store
    assert settings.tables_uri == "s3://bucket/folder"
    assert spark_path(f"{settings.tables_uri}/db/t/rows") == "s3a://bucket/folder/db/t/rows"
    system, path = file_system(f"{settings.tables_uri}/db")
    assert (system.type_name, path) == ("s3", "bucket/folder/db")


def test_each_root_has_the_credentials_of_its_settings(tmp_path: Path) -> None:
    for number in range(2):
        register(f"s3://bucket/{number}", load(home=tmp_path, s3_access_key_id=f"key{number}", s3_secret_access_key="secret"))
    keys = [object_store(f"s3://bucket/{number}/db").access_key_id for number in range(2)]
    assert keys == ["key0", "key1"]
    assert object_store("s3://bucket/10").access_key_id == ""
    assert delta_options(str(tmp_path)) is None
