"""Appending a program's rows, and results as Arrow, pandas and polars."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import headrace
from headrace.errors import DataError, InterfaceError, NotFoundError, ProgrammingError

ROWS: list[dict[str, Any]] = [
    {"ts": datetime(2024, 5, 1, 0, 0, second), "a": second, "b": second / 2 if second else None} for second in range(3)
]
MAKERS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "dictionaries": lambda rows: rows,
    "table": pa.Table.from_pylist,
    "batch": lambda rows: pa.RecordBatch.from_pylist(rows),
    "reader": lambda rows: pa.Table.from_pylist(rows).to_reader(),
    "pandas": pd.DataFrame,
    "pandas with an index": lambda rows: pd.DataFrame(rows).set_index("ts"),
    "polars": pl.DataFrame,
}


def stored(connection: headrace.Connection, name: str = "readings") -> list[dict[str, Any]]:
    context = connection.session.context
    rows = context.tables.scan(context.catalog.tables.get("d", name))
    return sorted(rows.to_pylist(), key=lambda row: (row["tbname"], row["ts"]))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_rows_are_appended_by_the_names_of_their_columns(readings: headrace.Connection, make: Callable[..., Any]) -> None:
    table = readings.session.context.catalog.tables.get("d", "readings")
    version = readings.session.context.tables.version(table)
    assert readings.append(make(ROWS), "d.dev1") == 3
    assert readings.session.context.tables.version(table) == version + 1
    assert stored(readings) == [{**row, "ts": row["ts"].replace(tzinfo=UTC), "tbname": "dev1"} for row in ROWS]


def test_a_column_names_the_subtables_and_others_their_tags(readings: headrace.Connection) -> None:
    rows = [{**ROWS[0], "tbname": "dev1"}, {**ROWS[1], "tbname": "dev9", "place": "east"}]
    assert readings.append(rows, "readings") == 2
    assert [row["tbname"] for row in stored(readings)] == ["dev1", "dev9"]
    assert ("dev9", "east") in [(row[0], row[5]) for row in readings.execute("show tags from dev9").fetchall()]
    assert readings.append(ROWS, "readings", subtable="dev2") == 3


def test_values_are_checked_like_those_of_insert(readings: headrace.Connection) -> None:
    with pytest.raises(DataError, match="data, row 2: 'x' is not valid for a, which is INT") as raised:
        readings.append(pa.table({"ts": [1, 2], "a": ["1", "x"]}), "dev1")
    assert "a whole number from" in str(raised.value)
    with pytest.raises(DataError, match="rows cannot be read as columns: column a"):
        readings.append([{"ts": 1, "a": 1}, {"ts": 2, "a": "x"}], "dev1")
    with pytest.raises(NotFoundError, match="readings has no column 'c'"):
        readings.append([{"ts": 1, "c": 1}], "dev1")
    with pytest.raises(ProgrammingError, match="data has no column ts"):
        readings.append([{"a": 1}], "dev1")
    assert stored(readings) == []


@pytest.mark.parametrize("data", [5, "text", [1, 2], None])
def test_an_object_without_rows_is_refused(readings: headrace.Connection, data: Any) -> None:
    with pytest.raises(InterfaceError, match="cannot read rows from"):
        readings.append(data, "dev1")


def test_many_rows_go_into_files_of_the_table(connection: headrace.Connection) -> None:
    connection.execute("create table t (ts timestamp, a int)")
    count = connection.session.context.settings.small_write_rows + 1
    assert connection.append(pa.table({"ts": range(count), "a": range(count)}), "t") == count
    table = connection.session.context.catalog.tables.get("d", "t")
    assert connection.session.context.tables.rows(table) == count


def test_files_are_loaded(readings: headrace.Connection, tmp_path: Path) -> None:
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text(f"ts,a\n2024-05-0{1 if name == 'one.csv' else 2},1\n")
    seen: list[tuple[int, int]] = []
    assert readings.load(tmp_path / "one.csv", "dev1", progress=lambda done, total: seen.append((done, total))) == 1
    assert {total for _, total in seen} == {(tmp_path / "one.csv").stat().st_size}
    assert readings.load([str(tmp_path / "one.csv"), str(tmp_path / "two.csv")], "d.readings", subtable="dev2") == 2
    with pytest.raises(NotFoundError, match="does not exist"):
        readings.load(tmp_path / "none.csv", "dev1")


def test_a_closed_connection_takes_no_rows(tmp_path: Path) -> None:
    connection = headrace.connect(tmp_path / "h")
    connection.close()
    with pytest.raises(InterfaceError, match="the connection is closed"):
        connection.append([{"ts": 1}], "t")


def test_results_come_as_arrow_pandas_and_polars(readings: headrace.Connection) -> None:
    cursor = readings.execute("select table_name, columns, uid from information_schema.ins_tables order by table_name")
    assert next(cursor)[0] == "dev1"
    assert cursor.fetch_arrow_table().column("table_name").to_pylist() == ["dev1", "dev2"]
    assert cursor.fetch_df()["table_name"].tolist() == ["dev1", "dev2"]
    assert cursor.fetch_polars()["columns"].to_list() == [3, 3]
    assert [row[0] for row in cursor] == ["dev2"]
    with pytest.raises(StopIteration):
        next(cursor)
    for fetch in (cursor.fetch_df, cursor.fetch_polars):
        cursor.execute("use d")
        with pytest.raises(InterfaceError, match="the last statement has no rows"):
            fetch()


def test_polars_need_not_be_installed(readings: headrace.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InterfaceError, match="polars is not installed") as raised:
        readings.execute("show tables").fetch_polars()
    assert "fetch_df" in raised.value.hint


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_appended_values_round_trip(connection: headrace.Connection) -> None:
    connection.execute("create table t (ts timestamp, d decimal(10, 2), u bigint unsigned, s nchar(9), x varbinary(9), b bool)")
    rows = [{"ts": datetime(2024, 5, 1, tzinfo=UTC), "d": Decimal("1.25"), "u": 2**63, "s": "ü", "x": b"\x00", "b": True}]
    unsigned = pa.Table.from_pylist([{**rows[0], "u": 0}]).schema
    unsigned = unsigned.set(unsigned.get_field_index("u"), pa.field("u", pa.uint64()))
    for data in (pd.DataFrame(rows), pl.DataFrame(rows), pa.Table.from_pylist(rows, schema=unsigned)):
        connection.append(data, "t")
        assert connection.execute("select * from t").fetchall() == [tuple(rows[0].values())]
    frame = connection.execute("select * from t").fetch_polars()
    assert frame["ts"].to_list() == [rows[0]["ts"]]
    assert connection.append(frame, "t") == 1
