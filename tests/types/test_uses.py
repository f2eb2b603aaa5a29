"""Each type is sorted, grouped, filled, used as a state and as a tag, aggregated and streamed with its values unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

import headrace
from tests.types.house import House
from tests.types.values import CHOICES, TDENGINE, ColumnType
from tests.types.ways import COLUMNS, STORED

pytestmark = pytest.mark.spark

ORDERED: Final = [type_ for type_ in TDENGINE if type_.is_ordered]
STATES: Final = frozenset(("BOOL", "VARCHAR(10)", "NCHAR(4)"))
"""Types of states, beside the whole numbers."""
NOT_AGGREGATED: Final = frozenset(("VARBINARY(4)", "GEOMETRY(60)"))
"""Types without a least and a greatest value."""


def is_state(type_: ColumnType) -> bool:
    return type_.sql in STATES or type_.name[0] in "iu"


@pytest.mark.drawn(3)
@pytest.mark.parametrize("type_", ORDERED, ids=lambda type_: type_.name)
def test_rows_are_sorted_by_a_type(table: House, type_: ColumnType) -> None:
    rows = table.rows(f"select {type_.name} from literals order by {type_.name} desc, _ts")
    assert [value for (value,) in rows] == [*sorted(type_.values, reverse=True), None]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("type_", TDENGINE, ids=lambda type_: type_.name)
def test_rows_are_grouped_by_a_type(table: House, type_: ColumnType) -> None:
    expected: dict[Any, int] = {}
    for row in STORED.values():
        expected[row[type_.name]] = expected.get(row[type_.name], 0) + 1
    for clause in ("partition by", "group by"):
        rows = table.rows(f"select {type_.name}, count(*) from t {clause} {type_.name}")
        assert dict(rows) == expected
        assert len(rows) == len(expected)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("type_", TDENGINE, ids=lambda type_: type_.name)
def test_states_are_values_of_a_type(table: House, type_: ColumnType) -> None:
    sql = f"select first({type_.name}), count(*) from literals state_window({type_.name})"
    if not is_state(type_):
        with pytest.raises(headrace.ProgrammingError):
            table.rows(sql)
        return
    runs: list[tuple[Any, int]] = []
    for value in type_.values:
        if runs and runs[-1][0] == value:
            runs[-1] = value, runs[-1][1] + 1
        else:
            runs.append((value, 1))
    assert table.rows(sql) == runs


@pytest.mark.drawn(3)
@pytest.mark.parametrize("type_", TDENGINE, ids=lambda type_: type_.name)
def test_tags_have_values_of_a_type(table: House, type_: ColumnType) -> None:
    name = f"tagged_{type_.name}"
    table.connection.execute(f"create stable {name} (ts timestamp, i int) tags (x {type_.sql})")
    for place, choice in enumerate(CHOICES):
        table.connection.execute(
            f"insert into {name}_{place} using {name} tags ({type_.literal(choice)}) values ({place}, {place})"
        )
    assert table.rows(f"select i, x from {name} order by i") == [
        (place, type_.value(choice)) for place, choice in enumerate(CHOICES)
    ]
    for choice in range(3):
        equal = [place for place in range(3) if type_.values[place] == type_.values[choice]]
        assert table.rows(f"select i from {name} where x = {type_.literal(choice)} order by i") == [(place,) for place in equal]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("type_", TDENGINE, ids=lambda type_: type_.name)
def test_windows_without_rows_are_filled_with_values_of_a_type(table: House, type_: ColumnType) -> None:
    name, first, last = type_.name, type_.values[0], type_.values[2]
    window = f"select first({name}) from literals where _ts >= 0 and _ts < 3 and i8 != 7 interval(1a)"
    assert table.rows(f"{window} fill(prev)") == [(first,), (first,), (last,)]
    assert table.rows(f"{window} fill(next)") == [(first,), (last,), (last,)]
    assert table.rows(f"{window} fill(null)") == [(first,), (None,), (last,)]
    if type_.sql.startswith("GEOMETRY"):
        with pytest.raises(headrace.ProgrammingError, match="VARCHAR cannot be cast to GEOMETRY"):
            table.rows(f"{window} fill(value, {type_.literal(1)})")
        return
    assert table.rows(f"{window} fill(value, {type_.literal(1)})") == [(first,), (type_.values[1],), (last,)]


AGGREGATES: Final[dict[str, Callable[[ColumnType], Any]]] = {
    "count": lambda _: 3,
    "first": lambda type_: type_.values[0],
    "last": lambda type_: type_.values[2],
    "last_row": lambda _: None,
    "min": lambda type_: min(type_.values),
    "max": lambda type_: max(type_.values),
    "hyperloglog": lambda type_: len(set(type_.values)),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("function", AGGREGATES)
def test_aggregates_return_values_of_a_type(table: House, function: str) -> None:
    """They ignore NULL, save `last_row`."""
    types = [type_ for type_ in TDENGINE if function not in ("min", "max") or type_.sql not in NOT_AGGREGATED]
    items = ", ".join(f"{function}({type_.name})" for type_ in types)
    assert table.rows(f"select {items} from literals") == [tuple(AGGREGATES[function](type_) for type_ in types)]


@pytest.mark.drawn(3)
def test_streams_write_values_of_every_type(table: House) -> None:
    lasts = ", ".join(f"last({type_.name}) {type_.name}" for type_ in TDENGINE)
    for target, query in {
        "out_rows": f"select _ts, {COLUMNS} from literals",
        "out_windows": f"select _wstart, {lasts} from literals interval(1a)",
    }.items():
        table.connection.execute(f"create stream to_{target} trigger at_once fill_history 1 into {target} as {query}")
    table.connection.settle()
    expected = [tuple(type_.value(choice) for type_ in TDENGINE) for choice in CHOICES]
    assert table.rows(f"select {COLUMNS} from out_rows order by _ts") == expected
    assert table.rows(f"select {COLUMNS} from out_windows order by _wstart") == expected
