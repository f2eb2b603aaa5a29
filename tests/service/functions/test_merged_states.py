"""Aggregates whose states are merged: in streams, in tasks, and in both dialects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import IntegrityError

START = 1_700_000_040_000
CODE = """
import sys
from headrace.udf import *

class Spread(UDAF):
    # The range of the values, and how many there are.
    def before_start(self, parameters, configurations):
        self.weight = parameters.get_double_or_default("weight", 1.0)
        configurations.set_output_data_type(Type.DOUBLE)
    def create_state(self):
        return (float("inf"), float("-inf"), 0)
    def add_row(self, state, row):
        value = row.get_double(0)
        print("row", flush=True)
        return (min(state[0], value), max(state[1], value), state[2] + 1)
    def combine_state(self, state, other):
        return (min(state[0], other[0]), max(state[1], other[1]), state[2] + other[2])
    def output_final(self, state, result_value):
        if state[2]:
            result_value.set_double((state[1] - state[0]) * self.weight + state[2] / 1000)
"""
WINDOWS = (
    "INTERVAL(1m)",
    "INTERVAL(1m) SLIDING(20s)",
    "SESSION(ts, 5s)",
    "STATE_WINDOW(k)",
    "EVENT_WINDOW START WITH v > 4 END WITH v < 3",
)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    home = tmp_path_factory.mktemp("states")
    folder = home / "ext" / "udf"
    folder.mkdir(parents=True)
    (folder / "ranges.py").write_text(CODE)
    with headrace.connect(home, dialect="iotdb") as trees:
        trees.execute("CREATE FUNCTION value_range AS 'ranges.Spread'")
    with headrace.connect(home, dialect="tdengine", clock=headrace.ManualClock(START)) as opened:
        opened.execute("CREATE DATABASE d")
        opened.execute("USE d")
        opened.execute("CREATE TABLE t (ts TIMESTAMP, v INT, k TINYINT)")
        yield opened


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def rows_seen(connection: headrace.Connection) -> int:
    """How many rows the function has seen, in all processes."""
    folder = Path(str(connection.session.context.settings.code_log_folder))
    return sum(path.read_text().count("row") for path in folder.iterdir())


@pytest.mark.drawn(2)
@pytest.mark.spark
@pytest.mark.parametrize("window", WINDOWS)
def test_a_stream_keeps_states_and_equals_its_query(connection: headrace.Connection, window: str) -> None:
    connection.execute("DELETE FROM t")
    query = f"SELECT _wstart, value_range(v) a, value_range(v, 'weight=10') b, value_range(k) c FROM t {window}"
    trigger = "TRIGGER AT_ONCE IGNORE EXPIRED 0 IGNORE UPDATE 0"
    connection.execute(f"CREATE STREAM s {trigger} INTO r AS {query}")
    for second, value in ((1, 5), (2, 9), (3, 4), (30, 7), (61, 1), (62, 2), (90, 8)):
        connection.execute(f"INSERT INTO t VALUES ({START + second * 1000}, {value}, {second // 30})")
        connection.settle()
    before = rows_seen(connection)
    connection.execute(f"INSERT INTO t VALUES ({START + 91000}, 20, 3)")
    connection.settle()
    if window == "INTERVAL(1m)":
        assert rows_seen(connection) - before == 3, "each call sees the new row alone"
    connection.execute(f"INSERT INTO t VALUES ({START + 2000}, 90, 0) ({START + 1500}, 3, 0)")
    connection.settle()
    assert fetch(connection, "SELECT _wstart, a, b, c FROM r ORDER BY 1") == fetch(connection, query)
    home = connection.session.context.settings.home
    with (
        headrace.connect(str(home), dialect="iotdb") as trees,
        pytest.raises(IntegrityError, match=r"VALUE_RANGE cannot be dropped: stream d\.s calls it"),
    ):
        trees.execute("DROP FUNCTION value_range")
    connection.execute("DROP STREAM s")
    connection.execute("DROP STABLE r")
