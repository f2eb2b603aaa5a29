"""Databases, series and their values: what is created, written, deleted and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import DataError, Error, ExistsError, NotFoundError, ProgrammingError, TypeMismatchError
from headrace.model.failpoints import armed
from headrace.model.trees import TREE_TABLE
from tests.service.iotdb.conftest import START


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def stored(connection: headrace.Connection, database: str = "root.plant") -> dict[tuple[str, int], dict[str, Any]]:
    """Values that are not NULL by device and epoch milliseconds, as the Delta table has them."""
    context = connection.session.context
    table = context.catalog.tables.get(database, TREE_TABLE)
    rows = context.tables.scan(table).to_pylist()
    return {
        (row["device"], round(row["time"].timestamp() * 1000)): {
            name: value for name, value in row.items() if value is not None and name not in ("time", "device")
        }
        for row in rows
    }


def test_values_are_stored_in_one_table_of_the_database(plant: headrace.Connection) -> None:
    plant.execute("insert into root.plant.line1(time, s1, s2) values (1, 5, 2.5), (2, null, 3)")
    plant.execute("insert into root.plant.line2(time, s1) values (1, 7)")
    assert stored(plant) == {
        ("root.plant.line1", 1): {"s1": 5, "s2": 2.5},
        ("root.plant.line1", 2): {"s2": 3.0},
        ("root.plant.line2", 1): {"s1": 7},
    }


def test_null_changes_no_value_and_makes_no_row(plant: headrace.Connection) -> None:
    plant.execute("insert into root.plant.line1(time, s1, s2) values (1, 5, 2.5)")
    plant.execute("insert into root.plant.line1(time, s1, s2) values (1, null, 4), (2, null, null)")
    assert stored(plant) == {("root.plant.line1", 1): {"s1": 5, "s2": 4.0}}


def test_rows_of_one_instant_in_one_statement_are_combined(plant: headrace.Connection) -> None:
    plant.execute("insert into root.plant.line1(time, s1, s2) values (1, 5, null), (1, null, 2.5), (1, 6, null)")
    assert stored(plant) == {("root.plant.line1", 1): {"s1": 6, "s2": 2.5}}


def test_missing_series_are_created_with_types_of_their_first_value(connection: headrace.Connection) -> None:
    connection.execute("insert into root.new.d(time, a, b, c, d) values (1, true, 5, 2.5, 'x')")
    types = {row[0]: row[3] for row in fetch(connection, "show timeseries root.new.**")}
    assert types == {
        "root.new.d.a": "BOOLEAN",
        "root.new.d.b": "DOUBLE",
        "root.new.d.c": "DOUBLE",
        "root.new.d.d": "TEXT",
    }
    assert [row[0] for row in fetch(connection, "show databases")] == ["root.new"]


def test_a_row_without_time_is_of_now(plant: headrace.Connection) -> None:
    plant.execute("insert into root.plant.line1(s1) values (5)")
    assert list(stored(plant)) == [("root.plant.line1", START)]


@pytest.mark.parametrize("value", ["'abc'", "2147483648", "1.5", "true"])
def test_a_value_of_another_type_refuses_the_whole_statement(plant: headrace.Connection, value: str) -> None:
    with pytest.raises(TypeMismatchError, match="registered type INT32"):
        plant.execute(f"insert into root.plant.line1(time, s2, s1) values (1, 2.5, {value})")
    assert stored(plant) == {}


def test_an_insert_creates_no_series_that_is_aligned_unlike_its_device(connection: headrace.Connection) -> None:
    connection.execute("create aligned timeseries root.plant.line1(s1 INT32)")
    with pytest.raises(ProgrammingError, match="507: time series under this device is aligned"):
        connection.execute("insert into root.plant.line1(time, s2) values (1, 5), (2, 6)")
    connection.execute("insert into root.plant.line1(time, s1) values (1, 5)")
    assert connection.execute("count timeseries root.plant.**").fetchall() == [(1,)]


def test_a_time_out_of_range_is_refused(plant: headrace.Connection) -> None:
    with pytest.raises(DataError, match="out of range"):
        plant.execute(f"insert into root.plant.line1(time, s1) values ({2**62}, 1)")


def test_a_measurement_may_have_different_types_on_different_devices(plant: headrace.Connection) -> None:
    plant.execute("create timeseries root.plant.line3.s1 with datatype=TEXT")
    plant.execute("insert into root.plant.line3(time, s1) values (1, 'on')")
    plant.execute("insert into root.plant.line1(time, s1) values (1, 5)")
    assert stored(plant) == {("root.plant.line3", 1): {"s1_2": "on"}, ("root.plant.line1", 1): {"s1": 5}}


def test_measurements_that_delta_cannot_name_are_stored_under_other_names(connection: headrace.Connection) -> None:
    connection.execute("insert into root.odd.d(time, P, p, `a b`, `time`) values (1, 1, 2, 3, 4)")
    assert stored(connection, "root.odd") == {("root.odd.d", 1): {"P": 1.0, "p_2": 2.0, "a_b": 3.0, "time_2": 4.0}}
    names = [row[0] for row in fetch(connection, "show timeseries root.odd.**")]
    assert len(names) == 4
    assert "root.odd.d.`a b`" in names


def test_deleting_a_range_clears_values_and_empty_rows(plant: headrace.Connection) -> None:
    plant.execute("insert into root.plant.line1(time, s1, s2) values (1, 1, 1), (2, 2, null), (3, 3, 3)")
    plant.execute("delete from root.plant.line1.s1 where time >= 1 and time < 3")
    assert stored(plant) == {("root.plant.line1", 1): {"s2": 1.0}, ("root.plant.line1", 3): {"s1": 3, "s2": 3.0}}
    plant.execute("delete from root.plant.**")
    assert stored(plant) == {}


def test_the_range_of_a_delete_may_be_written_as_instants(plant: headrace.Connection) -> None:
    plant.execute(f"insert into root.plant.line1(time, s1) values ({START - 7_200_000}, 1), ({START - 60_000}, 2), ({START}, 3)")
    plant.execute("delete from root.plant.line1.s1 where time < now() - 1h")
    assert [row["s1"] for row in stored(plant).values()] == [2, 3]
    plant.execute("delete from root.plant.line1.s1 where time >= 2023-11-14T22:13:20.000Z")
    assert [row["s1"] for row in stored(plant).values()] == [2]


def test_a_condition_on_values_cannot_delete(plant: headrace.Connection) -> None:
    with pytest.raises(ProgrammingError, match="where clause can only contain"):
        plant.execute("delete from root.plant.line1.s1 where s1 > 5")


def test_a_dropped_series_takes_its_values_along(plant: headrace.Connection) -> None:
    plant.execute("insert into root.plant.line1(time, s1, s2) values (1, 1, 1)")
    plant.execute("delete timeseries root.plant.line1.s1")
    plant.execute("create timeseries root.plant.line1.s1 with datatype=INT32")
    assert stored(plant) == {("root.plant.line1", 1): {"s2": 1.0}}


def test_what_exists_is_not_created_again(plant: headrace.Connection) -> None:
    with pytest.raises(ExistsError, match=r"503: Path \[root.plant.line1.s1\] already exist"):
        plant.execute("create timeseries root.plant.line1.s1 with datatype=INT32")
    with pytest.raises(ExistsError, match="already been created as database"):
        plant.execute("create database root.plant")
    with pytest.raises(ExistsError, match="already been created as database"):
        plant.execute("create database root.plant.line9")


def test_what_is_missing_is_not_dropped(plant: headrace.Connection) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        plant.execute("delete timeseries root.plant.line1.nope")
    with pytest.raises(NotFoundError, match="does not exist"):
        plant.execute("delete database root.nope")


def test_a_database_goes_with_its_devices(plant: headrace.Connection) -> None:
    plant.execute("insert into root.plant.line1(time, s1) values (1, 1)")
    plant.execute("delete database root.plant")
    assert fetch(plant, "show databases") == []
    assert fetch(plant, "show devices") == []
    plant.execute("insert into root.plant.line1(time, s1) values (1, 1)")
    assert stored(plant) == {("root.plant.line1", 1): {"s1": 1.0}}


@pytest.mark.parametrize("point", ["service.tree.database", "service.tree.columns"])
def test_what_a_crash_leaves_is_completed_by_the_same_statement(connection: headrace.Connection, point: str) -> None:
    insert = "insert into root.new.d(time, a) values (1, 5)"
    with armed(f"{point}:1:raise"), pytest.raises(Error, match="failpoint"):
        connection.execute(insert)
    connection.execute(insert)
    assert stored(connection, "root.new") == {("root.new.d", 1): {"a": 5.0}}


def test_another_connection_sees_new_series(plant: headrace.Connection, tmp_path: Path) -> None:
    with headrace.connect(tmp_path / "home", dialect="iotdb", clock=headrace.ManualClock(START)) as other:
        assert len(fetch(other, "show timeseries")) == 3
        plant.execute("insert into root.plant.line1(time, extra) values (1, 5)")
        other.execute("insert into root.plant.line1(time, s1, extra) values (2, 6, 7)")
        assert stored(other)[("root.plant.line1", 2)] == {"s1": 6, "extra": 7.0}


def test_the_series_of_many_devices_are_deleted_in_several_commits(
    connection: headrace.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.storage.delta.deletion.MAX_CLEARED_DEVICES", 2)
    for device in range(5):
        connection.execute(f"insert into root.many.d{device}(time, a, b) values (1, 1, 1), (2, 2, null)")
    connection.execute("delete timeseries root.many.*.a")
    cursor = connection.cursor()
    cursor.execute("select * from root.many.* align by device")
    assert [tuple(row[1:]) for row in cursor.fetchall()] == [(f"root.many.d{device}", 1.0) for device in range(5)]
