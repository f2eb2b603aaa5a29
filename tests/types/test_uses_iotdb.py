"""Each type of a tree is sorted, filled, aggregated and copied with its values unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

import headrace
from tests.types.house import House
from tests.types.values import TREE, ColumnType
from tests.types.ways_iotdb import NAMES, TREE_WAYS

pytestmark = pytest.mark.spark

DEVICE: Final = TREE_WAYS[0].device
COMPARED: Final = [type_ for type_ in TREE if type_.sql not in ("BOOLEAN", "TEXT", "BLOB")]
"""Types with a least and a greatest value for the aggregates of IoTDB."""


def answer(house: House, sql: str) -> list[tuple[Any, ...]]:
    return house.tree.execute(sql).fetchall()


@pytest.mark.parametrize("type_", TREE, ids=lambda type_: type_.name)
def test_points_are_sorted_by_a_type(devices: House, type_: ColumnType) -> None:
    sql = f"select {type_.name} from {DEVICE} order by {type_.name} desc, time"
    if type_.sql == "BLOB":
        with pytest.raises(headrace.ProgrammingError, match="BLOB is not comparable"):
            answer(devices, sql)
        return
    rows = answer(devices, sql)
    assert [value for _, value in rows] == sorted(type_.values, reverse=True)


AGGREGATES: Final[dict[str, Callable[[ColumnType], Any]]] = {
    "count": lambda _: 3,
    "first_value": lambda type_: type_.values[0],
    "last_value": lambda type_: type_.values[2],
    "min_value": lambda type_: min(type_.values),
    "max_value": lambda type_: max(type_.values),
}


@pytest.mark.parametrize("function", AGGREGATES)
def test_aggregates_return_values_of_a_type(devices: House, function: str) -> None:
    types = COMPARED if function in ("min_value", "max_value") else TREE
    items = ", ".join(f"{function}({type_.name})" for type_ in types)
    assert answer(devices, f"select {items} from {DEVICE}") == [tuple(AGGREGATES[function](type_) for type_ in types)]


def test_copies_have_the_values_of_every_type(devices: House) -> None:
    items = ", ".join(NAMES)
    devices.tree.execute(f"select {items} into root.copies.d(::) from {DEVICE}")
    assert answer(devices, f"select {items} from root.copies.d") == answer(devices, f"select {items} from {DEVICE}")
    series = answer(devices, "show timeseries root.copies.**")
    assert {tuple(row[:4:3]) for row in series} == {(f"root.copies.d.{type_.name}", type_.sql) for type_ in TREE}


@pytest.mark.parametrize("type_", TREE, ids=lambda type_: type_.name)
def test_empty_cells_are_filled_with_the_previous_value(devices: House, type_: ColumnType) -> None:
    device = f"root.m.gaps_{type_.name}"
    devices.tree.execute(f"create timeseries {device}.x {type_.sql}")
    devices.tree.execute(f"insert into {device}(time, x, k) values (1, {type_.literal(1)}, 1), (2, null, 2)")
    rows = answer(devices, f"select x, k from {device} fill(previous)")
    assert [value for _, value, _ in rows] == [type_.values[1]] * 2
