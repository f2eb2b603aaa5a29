"""What completion suggests at places of statements: keywords by the grammar, and names by what is expected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headrace
from headrace.service.completion import complete
from headrace.service.completion_names import VisibleNames
from tests.service.conftest import opened_database, with_readings

CHILDREN = {"root.plant": ["line1", "line2"], "root.plant.line1": ["speed", "select"]}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VisibleNames]:
    """Provide the names of a home with tables and a stream, and of a tree."""
    with opened_database(tmp_path_factory.mktemp("completion") / "home") as opened:
        connection: headrace.Connection = with_readings(opened)
        connection.execute("create table `select` (ts timestamp, `group` int)")
        connection.execute("create stream counts into counted as select _wstart, count(*) from readings interval(1m)")
        yield VisibleNames(connection.session.context, lambda path: CHILDREN.get(path, []))


def suggestions(names: VisibleNames, text: str, dialect: str = "tdengine") -> list[str]:
    """Return what is suggested at the mark `|`."""
    found, length = complete(text.replace("|", ""), text.index("|"), dialect, "d", names)
    assert text[text.index("|") - length : text.index("|")].isidentifier() or length == 0
    return [one.text for one in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sel|", ["SELECT"]),
        ("select 1; dro|", ["DROP"]),
        ("select a from readings pa|", ["PARTITION BY"]),
        ("select a from readings where a > 1 a|", ["AND"]),
        ("select * from re|", ["readings"]),
        ("select * from de|", ["dev1", "dev2"]),
        ("select * from d.de|", ["dev1", "dev2"]),
        ("select * from se|", ["`select`"]),
        ("select gr| from `select`", ["`group`", "greatest("]),
        ("select r.| from readings as r, dev1", ["ts", "a", "b", "place", "floor"]),
        ("select | from nowhere where", None),
        ("use |", ["d", "DATABASE"]),
        ("pause stream c|", ["counts"]),
        ("select 'fro|", []),
        ("select a -- fro|", []),
        ("wrong fro|", []),
        ("select 1.|", []),
        ("create stream s into t as select avg(a) from readings inter|", ["INTERVAL"]),
    ],
)
def test_tables_are_completed(names: VisibleNames, text: str, expected: list[str] | None) -> None:
    found = suggestions(names, text)
    if expected is None:
        assert all(name.endswith("(") or name.isupper() or name == "*" for name in found)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("show dev|", ["DEVICE", "DEVICES"]),
        ("select a from ro|", ["root"]),
        ("select a from root.plant.|", ["line1", "line2"]),
        ("select a from root.plant.line2 al|", ["ALIGN BY"]),
        ("select spe| from root.plant.line1", ["speed"]),
        ("select a from root.nowhere.|", []),
    ],
)
def test_trees_are_completed(names: VisibleNames, text: str, expected: list[str]) -> None:
    assert suggestions(names, text, "iotdb") == expected
