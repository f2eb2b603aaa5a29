"""Tablets of several calls: they are written together, and each fails alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headrace
from headrace.doors.gate import Gate
from headrace.doors.iotdb.grouping import TabletCall, write_calls
from headrace.doors.iotdb.tablets import AnyTablet, EncodedTablet, Tablet, TabletColumn
from headrace.errors import PermissionDeniedError, StorageError, TypeMismatchError
from headrace.model.access import Principal
from headrace.model.tables import Table
from headrace.model.trees import TREE_TABLE
from headrace.model.types import DataType, TypeKind
from headrace.pipes.iotdb.messages import InsertTablet
from headrace.storage.delta.commits import WriteMetrics
from tests.doors.iotdb.conftest import authenticate

KINDS = {TypeKind.INT: pa.int32(), TypeKind.DOUBLE: pa.float64(), TypeKind.BOOL: pa.bool_()}
CALLS = 20


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(tmp_path, dialect="iotdb") as connection:
        connection.execute("create database root.plant")
        for device in "ab":
            connection.execute(f"insert into root.plant.{device}(time, v) values (0, 0)")
        yield connection


def tablet(device: str, time: int, value: object, kind: TypeKind = TypeKind.DOUBLE, measurement: str = "v") -> Tablet:
    column = TabletColumn(DataType(kind), pa.array([value], KINDS[kind]))
    *database, name = device.split(".") if "." in device else ("root", "plant", device)
    return Tablet((*database, name), False, np.array([time]), {measurement: column})


def write_together(
    plant: headrace.Connection, tablets: Sequence[AnyTablet], user: str = "root"
) -> list[type[BaseException] | None]:
    """Write tablets by a call each, and return the types of their errors."""
    gate = Gate(plant.session.context, authenticate)
    calls = [TabletCall(gate.create_session(Principal(user), None, "iotdb"), "insertTablet", [one]) for one in tablets]
    write_calls(calls)
    return [None if call.error is None else type(call.error) for call in calls]


def encoded(device: str, times: Sequence[int], columns: dict[str, Sequence[float | None]]) -> EncodedTablet:
    """Return a tablet of DOUBLE values as clients send it."""
    values = b"".join(np.array([value or 0 for value in own], ">f8").tobytes() for own in columns.values())
    if any(None in own for own in columns.values()):
        bits = (np.packbits([value is None for value in own], bitorder="little").tobytes() for own in columns.values())
        values += b"".join(b"\x01" + own + bytes(len(times) // 8 + 1 - len(own)) for own in bits)
    request = InsertTablet(
        prefixPath=f"root.plant.{device}",
        measurements=list(columns),
        values=values,
        timestamps=np.array(times, ">i8").tobytes(),
        types=[4] * len(columns),
        size=len(times),
    )
    return EncodedTablet(request)


def points(plant: headrace.Connection, device: str, database: str = "root.plant") -> dict[int, float]:
    """Return values by time in ms, without the first."""
    rows = plant.execute(f"select v from {database}.{device} where time > 0").fetchall()
    return {round(time.timestamp() * 1000): value for time, value in rows}


def version(plant: headrace.Connection) -> int:
    context = plant.session.context
    return context.tables.version(context.catalog.tables.get("root.plant", TREE_TABLE))


def test_calls_are_one_commit(plant: headrace.Connection) -> None:
    before = version(plant)
    assert write_together(plant, [tablet("ab"[number % 2], number + 1, number) for number in range(CALLS)]) == [None] * CALLS
    assert version(plant) - before == 1
    assert points(plant, "a") == {number + 1: number for number in range(0, CALLS, 2)}
    assert points(plant, "b") == {number + 1: number for number in range(1, CALLS, 2)}


def test_tablets_as_they_were_received_are_stored_like_others(plant: headrace.Connection) -> None:
    """Those with the same measurements are decoded together; NULL, a new series and another type are not."""
    plant.execute("insert into root.plant.a(time, i) values (0, 0)")
    before = version(plant)
    tablets: list[AnyTablet] = [
        encoded("a", [1, 2], {"v": [1.5, 2.5], "i": [1.0, 2.0]}),
        encoded("b", [1], {"v": [3.5]}),
        encoded("a", [3], {"v": [4.5], "i": [3.0]}),
        encoded("a", [4, 5], {"v": [5.5, None]}),
        tablet("b", 2, 6.5),
    ]
    assert write_together(plant, tablets) == [None] * len(tablets)
    assert version(plant) - before == 1
    assert points(plant, "a") == {1: 1.5, 2: 2.5, 3: 4.5, 4: 5.5}
    assert points(plant, "b") == {1: 3.5, 2: 6.5}
    assert write_together(plant, [encoded("a", [6], {"v": [1.0]}), encoded("c", [6], {"new": [2.0]})]) == [None, None]
    assert plant.execute("select new from root.plant.c").fetchall()[0][1] == 2.0


def test_a_device_that_was_dropped_meanwhile_is_created_again(plant: headrace.Connection) -> None:
    one = encoded("a", [1], {"v": [1.0]})
    assert write_together(plant, [one, one]) == [None, None]
    plant.execute("delete timeseries root.plant.a.**")
    assert write_together(plant, [one, encoded("b", [1], {"v": [2.0]})]) == [None, None]
    assert points(plant, "a") == {1: 1.0}


def test_of_calls_for_one_instant_the_last_to_arrive_wins(plant: headrace.Connection) -> None:
    write_together(plant, [tablet("a", 1, number) for number in range(CALLS)])
    assert points(plant, "a") == {1: CALLS - 1}


def test_a_call_with_values_of_another_type_fails_alone(plant: headrace.Connection) -> None:
    wrong = tablet("a", 3, True, TypeKind.BOOL)
    tablets = [tablet("a", 1, 1), tablet("b", 2, 2), wrong, tablet("a", 4, 4), tablet("b", 5, 5)]
    assert write_together(plant, tablets) == [None, None, TypeMismatchError, None, None]
    assert (points(plant, "a"), points(plant, "b")) == ({1: 1, 4: 4}, {2: 2, 5: 5})


def test_calls_that_create_the_same_series_with_two_types_are_as_if_alone(plant: headrace.Connection) -> None:
    first, second = tablet("c", 3, 3), tablet("c", 4, True, TypeKind.BOOL)
    tablets = [tablet("a", 1, 1), tablet("b", 2, 2), first, second, tablet("c", 5, 5)]
    assert write_together(plant, tablets) == [None, None, None, TypeMismatchError, None]
    assert points(plant, "c") == {3: 3, 5: 5}


def test_a_call_without_the_right_to_write_fails_alone(plant: headrace.Connection) -> None:
    plant.execute("create user operator 'secret12'")
    plant.execute("grant write_data on root.plant.a.** to user operator")
    tablets = [tablet("a", 1, 1), tablet("a", 2, 2), tablet("b", 3, 3), tablet("a", 4, 4)]
    assert write_together(plant, tablets, "operator") == [None, None, PermissionDeniedError, None]
    assert (points(plant, "a"), points(plant, "b")) == ({1: 1, 2: 2, 4: 4}, {})


def test_calls_fail_while_the_catalog_cannot_be_read(plant: headrace.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client gets an answer, and the next calls are written."""
    calls: list[AnyTablet] = [encoded("a", [1], {"v": [1.0]}), tablet("b", 1, 2)]
    with monkeypatch.context() as outage:
        outage.setattr(plant.session.context.catalog.pins, "_store", None)
        assert None not in write_together(plant, calls)
    assert write_together(plant, calls) == [None, None]


@dataclass
class Outage:
    """A database whose commits fail, and the number of attempts."""

    attempts: int = 0


@pytest.fixture
def outage(plant: headrace.Connection, monkeypatch: pytest.MonkeyPatch) -> Outage:
    """Have commits to `root.bad` fail."""
    plant.execute("create database root.bad")
    plant.execute("insert into root.bad.d(time, v) values (0, 0)")
    writer, outage = plant.session.context.tables.writer, Outage()
    write = writer.write_points

    def write_points(table: Table, *arguments: Any, **options: Any) -> WriteMetrics:
        if table.database == "root.bad":
            outage.attempts += 1
            raise StorageError("the log is damaged", hint="restore it")
        return write(table, *arguments, **options)

    monkeypatch.setattr(writer, "write_points", write_points)
    return outage


def test_a_database_that_cannot_be_written_fails_only_calls_to_it(plant: headrace.Connection, outage: Outage) -> None:
    tablets = [tablet("a", 1, 1), tablet("root.bad.d", 1, 1), tablet("b", 2, 2), tablet("root.bad.d", 2, 2), tablet("a", 3, 3)]
    assert write_together(plant, tablets) == [None, StorageError, None, StorageError, None]
    assert (points(plant, "a"), points(plant, "b"), points(plant, "d", "root.bad")) == ({1: 1, 3: 3}, {2: 2}, {})
    assert outage.attempts == 1


def test_calls_that_create_series_in_a_database_that_cannot_be_written_fail_at_once(
    plant: headrace.Connection, outage: Outage
) -> None:
    tablets = [tablet("root.bad.d", number, 1, measurement=f"new{number}") for number in range(CALLS)]
    assert write_together(plant, [*tablets, tablet("c", 1, 1)]) == [StorageError] * CALLS + [None]
    assert points(plant, "c") == {1: 1}
    assert outage.attempts == 1


@pytest.mark.parametrize("order", [1, -1])
def test_the_error_of_a_call_to_several_databases_names_those_that_are_written(
    plant: headrace.Connection, outage: Outage, order: int
) -> None:
    gate = Gate(plant.session.context, authenticate)
    tablets = [tablet("root.bad.d", 1, 1), tablet("a", 1, 1)][::order]
    calls = (tablets, [tablet("b", 1, 1)])
    both, good = (TabletCall(gate.create_session(Principal("root"), None, "iotdb"), "insertTablets", own) for own in calls)
    write_calls([both, good])
    assert isinstance(both.error, StorageError)
    assert both.error.message == "the log is damaged; only the points of root.plant are written"
    assert (good.error, points(plant, "a"), points(plant, "b")) == (None, {1: 1}, {1: 1})
    assert outage.attempts == 1
