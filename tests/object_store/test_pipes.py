"""The sink `delta-sink` onto an object store, beside another writer of its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import headrace
from headrace.settings import load
from headrace.storage.object_store import delta_options


def stored(uri: str) -> list[tuple[Any, ...]]:
    """Return what the table has, by device and time."""
    table = DeltaTable(uri, storage_options=delta_options(uri)).to_pyarrow_table()
    rows = table.sort_by([("device", "ascending"), ("time", "ascending")]).to_pylist()
    return [(row["device"], round(row["time"].timestamp() * 1000), row["a"], row.get("b")) for row in rows]


def test_a_table_in_s3_has_what_was_written_and_not_deleted_while_it_is_compacted(bucket: str, tmp_path: Path) -> None:
    uri = f"{bucket}/plant"
    settings = load(home=tmp_path / "home", warehouse=f"{bucket}/tables")
    with headrace.connect(dialect="iotdb", settings=settings) as connection:
        connection.execute("insert into root.plant.d1(time, a) values (1, 1), (2, 2)")
        source = "'path'='root.plant.**', 'inclusion'='data'"
        connection.execute(f"create pipe out with source ({source}) with sink ('sink'='delta-sink', 'uri'='{uri}')")
        connection.settle()
        connection.execute("insert into root.plant.d2(time, a, b) values (86400000, 5, 0.5)")
        connection.execute("insert into root.plant.d1(time, a) values (2, 20)")
        connection.settle()
        DeltaTable(uri, storage_options=delta_options(uri)).optimize.compact()
        connection.execute("delete from root.plant.d1.a where time = 1")
        connection.settle()

    assert stored(uri) == [("root.plant.d1", 2, 20.0, None), ("root.plant.d2", 86_400_000, 5.0, 0.5)]
    table = DeltaTable(uri, storage_options=delta_options(uri))
    assert table.metadata().partition_columns == ["day"]


def test_a_bucket_that_does_not_exist_fails_the_statement(bucket: str, tmp_path: Path) -> None:
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path / "home")) as connection:
        with pytest.raises(headrace.Error, match="cannot be read or written"):
            connection.execute(f"create pipe out with sink ('sink'='delta-sink', 'uri'='{bucket}-missing/plant')")
        assert connection.execute("show pipes").fetchall() == []
