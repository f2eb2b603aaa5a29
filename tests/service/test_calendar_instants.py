"""Instants moved by months: in conditions, ranges, FILL and DELETE of both languages."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import headrace

NOW = datetime(2024, 3, 31, 12, tzinfo=UTC)
DAYS = [(1, 15), (2, 28), (2, 29), (3, 1), (3, 2), (3, 5), (3, 30), (3, 31)]


def clock() -> headrace.ManualClock:
    return headrace.ManualClock(int(NOW.timestamp() * 1000))


def days(cursor: headrace.Cursor) -> list[tuple[int, int]]:
    return [(at.month, at.day) for at, *_ in cursor.fetchall()]


def from_day(month: int, day: int) -> list[tuple[int, int]]:
    return [other for other in DAYS if other >= (month, day)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> headrace.Connection:
    connection = headrace.connect(tmp_path_factory.mktemp("table"), clock=clock())
    connection.execute("CREATE DATABASE d")
    connection.execute("USE d")
    connection.execute("CREATE TABLE t (ts TIMESTAMP, v INT)")
    connection.execute("INSERT INTO t VALUES " + " ".join(f"('2024-{month}-{day}', 1)" for month, day in DAYS))
    return connection


@pytest.mark.parametrize(
    ("condition", "first"),
    [
        ("ts >= now - 1n", (3, 1)),
        ("ts >= today() - 1n", (2, 29)),
        ("ts >= today() - 1n - 1d", (2, 28)),
        ("ts >= now - 1n - 12h and ts < now + 1n", (2, 29)),
        ("ts >= '2025-02-28' - 1y", (2, 28)),
        ("ts + 1n >= '2024-03-29'", (2, 29)),
        ("ts >= '2024-01-31' + 1n", (2, 29)),
    ],
)
def test_months_in_a_condition_are_those_of_the_calendar(
    table: headrace.Connection, condition: str, first: tuple[int, int]
) -> None:
    assert days(table.execute(f"SELECT ts FROM t WHERE {condition} ORDER BY ts")) == from_day(*first)


def test_delete_counts_months_by_the_calendar(table: headrace.Connection) -> None:
    table.execute("CREATE TABLE u (ts TIMESTAMP, v INT)")
    table.execute("INSERT INTO u SELECT * FROM t")
    for condition, first in (("ts < today() - 1n - 1d", (2, 28)), ("ts < '2024-03-31' - 1n", (2, 29)), ("ts < now - 1n", (3, 1))):
        table.execute(f"DELETE FROM u WHERE {condition}")
        assert days(table.execute("SELECT ts FROM u ORDER BY ts")) == from_day(*first)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> headrace.Connection:
    connection = headrace.connect(tmp_path_factory.mktemp("tree"), dialect="iotdb", clock=clock())
    rows = ", ".join(f"(2024-{month:02}-{day:02}T00:00:00Z, 1)" for month, day in DAYS)
    connection.execute(f"INSERT INTO root.sg.d(time, b) VALUES {rows}")
    connection.execute("INSERT INTO root.sg.d(time, a) VALUES (2024-02-29T00:00:00Z, 5)")
    return connection


@pytest.mark.parametrize(
    ("bound", "first"),
    [
        ("now() - 1mo", (3, 1)),
        ("now() - 1mo12h", (2, 29)),
        ("2024-03-31T00:00:00Z - 1mo", (2, 29)),
        ("2024-01-31T00:00:00Z + 1mo", (2, 29)),
        ("2025-02-28T00:00:00Z - 1y", (2, 29)),
    ],
)
def test_months_of_the_tree_language_are_those_of_the_calendar(
    tree: headrace.Connection, bound: str, first: tuple[int, int]
) -> None:
    assert days(tree.execute(f"SELECT b FROM root.sg.d WHERE time >= {bound}")) == from_day(*first)
    counted = tree.execute(f"SELECT count(b) FROM root.sg.d GROUP BY ([{bound}, 2025-01-01T00:00:00Z), 10mo)").fetchall()
    assert [count for _, count in counted] == [len(from_day(*first)), *([0] if len(counted) > 1 else [])]


def test_fill_looks_back_by_the_calendar(tree: headrace.Connection) -> None:
    def filled(age: str) -> list[tuple[int, int]]:
        rows = tree.execute(f"SELECT a, b FROM root.sg.d FILL(PREVIOUS, {age})").fetchall()
        return [(at.month, at.day) for at, a, _ in rows if a == 5]

    assert filled("1mo") == [(2, 29), (3, 1), (3, 2), (3, 5)]
    assert filled("1mo1d") == [(2, 29), (3, 1), (3, 2), (3, 5), (3, 30)]
    assert filled("1y") == [(2, 29), (3, 1), (3, 2), (3, 5), (3, 30), (3, 31)]


def test_delete_of_the_tree_language_counts_months_by_the_calendar(tmp_path: Path) -> None:
    with headrace.connect(tmp_path, dialect="iotdb", clock=clock()) as connection:
        rows = ", ".join(f"(2024-{month:02}-{day:02}T00:00:00Z, 1)" for month, day in DAYS)
        connection.execute(f"INSERT INTO root.sg.d(time, b) VALUES {rows}")
        connection.execute("DELETE FROM root.sg.d.b WHERE time < now() - 1mo")
        assert days(connection.execute("SELECT b FROM root.sg.d")) == from_day(3, 1)
        connection.execute("DELETE FROM root.sg.d.b WHERE time < now() - 1y")
        assert days(connection.execute("SELECT b FROM root.sg.d")) == from_day(3, 1)
