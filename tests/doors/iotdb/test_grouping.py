"""Tablets of calls that arrive while others are written: they are written together, and each fails alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import headrace
from headrace.doors.gate import Gate
from headrace.doors.iotdb.grouping import MAX_GROUPS, TabletWriter
from headrace.doors.iotdb.tablets import Tablet, TabletColumn
from headrace.errors import PermissionDeniedError, TypeMismatchError
from headrace.model.trees import TREE_TABLE
from headrace.model.types import DataType, TypeKind
from headrace.service.session import Session
from tests.support.waiting import wait_until

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
    return Tablet(("root", "plant", device), False, np.array([time]), {measurement: column})


def has_waiting(writer: TabletWriter, count: int) -> bool:
    return writer.waiting == count


def write_together(plant: headrace.Connection, tablets: Sequence[Tablet], user: str = "root") -> list[Future[None]]:
    """Write tablets by a call each, all but the first of which arrive while a commit is waited for."""
    context, writer = plant.session.context, TabletWriter()
    gate = Gate(context, lambda name, _: name)
    table = context.catalog.tables.get("root.plant", TREE_TABLE)

    def write(one: Tablet) -> None:
        session: Session = gate.create_session(user, None, "iotdb")
        writer.write(session, "insertTablet", [one])

    with ThreadPoolExecutor(len(tablets)) as pool:
        with context.tables.writer.exclusive(context.tables.writer.lock_name(table)):
            futures = []
            for number, one in enumerate(tablets):
                futures.append(pool.submit(write, one))
                wait_until(partial(has_waiting, writer, max(0, number + 1 - MAX_GROUPS)), "the call to wait")
        return futures


def points(plant: headrace.Connection, device: str) -> dict[int, float]:
    """Return values by time in ms, without the first."""
    rows = plant.execute(f"select v from root.plant.{device} where time > 0").fetchall()
    return {round(time.timestamp() * 1000): value for time, value in rows}


def version(plant: headrace.Connection) -> int:
    context = plant.session.context
    return context.tables.version(context.catalog.tables.get("root.plant", TREE_TABLE))


def errors(futures: Sequence[Future[None]]) -> list[type[BaseException] | None]:
    raised = [future.exception() for future in futures]
    return [None if error is None else type(error) for error in raised]


def test_calls_that_wait_are_one_commit(plant: headrace.Connection) -> None:
    before = version(plant)
    futures = write_together(plant, [tablet("ab"[number % 2], number + 1, number) for number in range(CALLS)])
    assert errors(futures) == [None] * CALLS
    assert version(plant) - before == MAX_GROUPS + 1
    assert points(plant, "a") == {number + 1: number for number in range(0, CALLS, 2)}
    assert points(plant, "b") == {number + 1: number for number in range(1, CALLS, 2)}


def test_of_calls_for_one_instant_the_last_to_arrive_wins(plant: headrace.Connection) -> None:
    write_together(plant, [tablet("a", 1, number) for number in range(CALLS)])
    assert points(plant, "a") == {1: CALLS - 1}


def test_a_call_with_values_of_another_type_fails_alone(plant: headrace.Connection) -> None:
    wrong = tablet("a", 3, True, TypeKind.BOOL)
    futures = write_together(plant, [tablet("a", 1, 1), tablet("b", 2, 2), wrong, tablet("a", 4, 4), tablet("b", 5, 5)])
    assert errors(futures) == [None, None, TypeMismatchError, None, None]
    assert (points(plant, "a"), points(plant, "b")) == ({1: 1, 4: 4}, {2: 2, 5: 5})


def test_calls_that_create_the_same_series_with_two_types_are_as_if_alone(plant: headrace.Connection) -> None:
    first, second = tablet("c", 3, 3), tablet("c", 4, True, TypeKind.BOOL)
    futures = write_together(plant, [tablet("a", 1, 1), tablet("b", 2, 2), first, second, tablet("c", 5, 5)])
    assert errors(futures) == [None, None, None, TypeMismatchError, None]
    assert points(plant, "c") == {3: 3, 5: 5}


def test_a_call_without_the_right_to_write_fails_alone(plant: headrace.Connection) -> None:
    plant.execute("create user operator 'secret12'")
    plant.execute("grant write_data on root.plant.a.** to user operator")
    futures = write_together(plant, [tablet("a", 1, 1), tablet("a", 2, 2), tablet("b", 3, 3), tablet("a", 4, 4)], "operator")
    assert errors(futures) == [None, None, PermissionDeniedError, None]
    assert (points(plant, "a"), points(plant, "b")) == ({1: 1, 2: 2, 4: 4}, {})
