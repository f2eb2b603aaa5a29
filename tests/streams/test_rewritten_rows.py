"""IGNORE UPDATE 1: a rewritten row counts once more in its window, of any kind; borders follow the stored rows."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.model.failpoints import FailpointError, armed
from tests.streams.environment import StreamEnvironment

pytestmark = pytest.mark.spark

SELECT = "select _wstart ws, count(*) n, sum(a) total from readings partition by tbname"
CLAUSES = {
    "interval": "interval(10s)",
    "session": "session(ts, 2s)",
    "state": "state_window(b)",
    "event": "event_window start with a > 5 end with a < 3",
    "count": "count_window(4)",
    "sliding": "count_window(4, 2)",
}
ROWS = [("d0", 0, 7, "x"), ("d0", 1000, 4, "x"), ("d0", 2000, 5, "x"), ("d0", 3000, 1, "x")]


def stream(env: StreamEnvironment, kind: str, trigger: str = "at_once") -> Any:
    expired = int(kind in ("count", "sliding"))
    options = f"watermark 100s ignore expired {expired} ignore update 1"
    return env.create(f"create stream s_{kind} trigger {trigger} {options} into out_{kind} as {SELECT} {CLAUSES[kind]}")


def rows(env: StreamEnvironment, plan: Any) -> list[tuple[Any, ...]]:
    assert env.record(plan).reason is None
    return [row[:3] for row in env.results(plan)]


@pytest.mark.parametrize("polled", [True, False], ids=["polled", "at-once"])
def test_a_row_that_is_written_again_counts_once_more_in_every_kind_of_window(env: StreamEnvironment, polled: bool) -> None:
    plans = {kind: stream(env, kind) for kind in CLAUSES}
    # A row inside, the same row, and the last one; `a` changes, but neither START nor END.
    for write in (ROWS, [("d0", 1000, 5, "x")], [("d0", 1000, 3, "x")], [("d0", 3000, 2, "x")]):
        env.insert(write)
        if polled:
            env.settle()
    env.settle()
    again = (0, 7, 7 + 4 + 5 + 1 + 5 + 3 + 2)
    assert {kind: rows(env, plan) for kind, plan in plans.items()} == {
        **{kind: [again] for kind in CLAUSES},
        "sliding": [again, (2000, 3, 5 + 1 + 2)],
    }


@pytest.mark.parametrize("polled", [True, False], ids=["polled", "at-once"])
def test_a_row_that_moves_borders_has_its_windows_recalculated_and_is_in_them_once(env: StreamEnvironment, polled: bool) -> None:
    plans = {kind: stream(env, kind) for kind in ("state", "event")}
    for write in (ROWS, [("d0", 1000, 4, "x")], [("d0", 2000, 2, "y")]):
        env.insert(write)
        if polled:
            env.settle()
    env.settle()
    assert rows(env, plans["state"]) == [(0, 2, 11), (2000, 1, 2), (3000, 1, 1)]
    assert rows(env, plans["event"]) == [(0, 3, 13)]


def test_windows_beside_recalculated_ones_keep_what_was_counted_again(env: StreamEnvironment) -> None:
    plan = stream(env, "count")
    env.insert([("d0", instant, 1, "x") for instant in range(0, 12_000, 1000)])
    env.settle()
    env.insert([("d0", 9500, 1, "x")])
    env.insert([("d0", 1000, 1, "x")])
    env.insert([("d0", 9000, 1, "x")])
    env.settle()
    assert rows(env, plan) == [(0, 5, 5), (11_000, 1, 1), (4000, 4, 4), (8000, 5, 5)]


def test_a_closed_window_is_written_again_with_a_row_that_counts_once_more(env: StreamEnvironment) -> None:
    plan = stream(env, "state", "window_close")
    env.insert([*ROWS, ("d0", 200_000, 1, "y")])
    env.settle()
    assert rows(env, plan) == [(0, 4, 17)]
    env.insert([("d0", 3000, 1, "x")])
    env.settle()
    assert rows(env, plan) == [(0, 5, 18)]


@pytest.mark.parametrize("point", [None, "streams.state.written", "streams.target.committed"])
def test_a_window_that_closed_before_the_history_ended_is_read_again_with_each_row_once(tmp_path: Path, point: str | None) -> None:
    """Whether or not a driver dies in between."""
    windows = ("interval(10s)", "session(ts, 3s)", "state_window(g)", "event_window start with g = 1 end with g = 3")
    options = "trigger at_once ignore expired 0 ignore update 1 fill_history 1"
    connection = headrace.connect(tmp_path)
    for sql in ("create database d", "use d", "create table m (ts timestamp, g int, v int)"):
        connection.execute(sql)
    connection.execute("insert into m values (1000, 1, 1) (2000, 1, 2) (4000, 3, 4) (100000, 2, 0) (200000, 1, 0)")
    queries = [f"select _wstart ws, count(*) n, sum(v) total from m {window}" for window in windows]
    for number, query in enumerate(queries):
        connection.execute(f"create stream s{number} {options} into o{number} as {query}")
    connection.settle()
    connection.execute("insert into m values (2000, 1, 20)")
    if point is not None:
        with armed(f"{point}:1:raise"), suppress(FailpointError, headrace.Error):
            connection.settle()
        connection.close()
        connection = headrace.connect(tmp_path)
        connection.execute("use d")
    connection.settle()
    for number, query in enumerate(queries):
        expected = [row for row in connection.execute(query).fetchall() if row[0].timestamp() < 50]
        assert connection.execute(f"select ws, n, total from o{number} where ws < 50000 order by ws").fetchall() == expected, query
    connection.close()


@pytest.mark.parametrize("condition", ["", " where v < 50"])
@pytest.mark.parametrize("by", ["", " partition by g"])
def test_a_row_of_another_state_leaves_the_windows_of_its_old_one(tmp_path: Path, by: str, condition: str) -> None:
    """Also if its new version is in another group, or in none."""
    query = f"select _wstart ws, count(*) n, sum(v) total from m{condition}{by} state_window(g)"
    with headrace.connect(tmp_path) as connection:
        for sql in ("create database d", "use d", "create table m (ts timestamp, g int, v int)"):
            connection.execute(sql)
        connection.execute(f"create stream s trigger at_once ignore expired 0 ignore update 1 into o as {query}")
        connection.execute("insert into m values (1000, 3, 1) (2000, 3, 2) (3000, 1, 4) (4000, 2, 8)")
        connection.settle()
        connection.execute("insert into m values (1000, 1, 50) (4000, null, 8)")
        connection.settle()
        found = connection.execute("select ws, n, total from o").fetchall()
        assert sorted(found) == sorted(connection.execute(query).fetchall())
