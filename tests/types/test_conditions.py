"""Conditions on a value find its rows, whatever way these came in and however the constant is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.drawing import TAKES_ALL, drawn
from tests.types.conditions import FORMS, Condition, conditions
from tests.types.house import House
from tests.types.values import TDENGINE, TREE
from tests.types.ways import STORED
from tests.types.ways_iotdb import TREE_STORED

pytestmark = pytest.mark.spark

CONDITIONS = {form: list(conditions(TDENGINE, [form])) for form in FORMS}
COUNT = 30
"""Conditions of each form that a run tries in WHERE."""
TEXTS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "s like 'a_\\%''%'": ("s", lambda text: text.startswith("a_%'")),
    "s not like 'a%'": ("s", lambda text: not text.startswith("a")),
    "s like 'ää%'": ("s", lambda text: text.startswith("ää")),
    "s match '^a.%'": ("s", lambda text: text == "a_%'\""),
    "s nmatch '[[:alpha:]]'": ("s", lambda text: text == ""),
    "n like 'a\\\\b'": ("n", lambda text: text == "a\\b"),
    "n like '_ä%'": ("n", lambda text: text == "𝄞ä' "),
    "n match '^𝄞'": ("n", lambda text: text == "𝄞ä' "),
}
"""Conditions on patterns, and the texts that meet them."""


@pytest.mark.drawn(2)
@pytest.mark.parametrize("form", FORMS)
def test_conditions_find_the_rows_of_a_value(table: House, form: str) -> None:
    wrong = []
    for condition in drawn(CONDITIONS[form], f"conditions {form}", COUNT):
        found = table.times(condition.sql, condition.parameters)
        if found != condition.times(STORED):
            wrong.append(f"{condition}: {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("form", FORMS)
def test_conditions_have_a_truth_for_each_value(table: House, form: str) -> None:
    """All conditions are items of a select list. None is true of NULL."""
    asked = CONDITIONS[form]
    items = ", ".join(condition.sql for condition in asked)
    parameters = [value for condition in asked for value in condition.parameters]
    rows = table.rows(f"select {items} from literals order by _ts", parameters)
    values = list(STORED.values())[: len(rows)]
    wrong = [
        f"{condition}: {truths}" for condition, *truths in zip(asked, *rows, strict=True) if truths != truth(condition, values)
    ]
    assert not wrong, "\n".join(wrong)


def truth(condition: Condition, rows: list[dict[str, object]]) -> list[bool]:
    return [(value := row[condition.type.name]) is not None and condition.is_met(value) for row in rows]


@pytest.mark.parametrize("sql", TEXTS)
def test_patterns_find_texts(table: House, sql: str) -> None:
    name, is_met = TEXTS[sql]
    assert table.times(sql) == [time for time, row in STORED.items() if row[name] is not None and is_met(row[name])]


def test_null_is_found_by_is_null_alone(table: House) -> None:
    for type_ in TDENGINE if TAKES_ALL else drawn(TDENGINE, "null", 6):
        missing = [time for time, row in STORED.items() if row[type_.name] is None]
        assert table.times(f"{type_.name} is null") == missing, type_.name
        assert table.times(f"{type_.name} = null") == [], type_.name
        assert table.times(f"{type_.name} is not null") == [time for time in STORED if time not in missing], type_.name


def test_conditions_find_the_points_of_a_value(devices: House) -> None:
    wrong = []
    asked = list(conditions(TREE, ["literals"]))
    for condition in drawn(asked, "points", COUNT):
        cursor = devices.tree.execute(f"select i32 from root.m.* where {condition.sql} align by device")
        found = sorted(row[0].timestamp() * 1000 for row in cursor.fetchall())
        if found != condition.times(TREE_STORED):
            wrong.append(f"{condition}: {found}")
    assert not wrong, "\n".join(wrong)
