"""Aggregates and functions of the points that time-series functions return, as a running IoTDB answered."""

from __future__ import annotations

from typing import Any

import pytest

import headrace
from tests.support.drawing import NOTE, is_drawn

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

POINTS = {
    1: 7, 2: 6, 4: 8, 18: 2, 20: 5, 23: -1, 56: -2, 60: 6, 82: -2, 96: 2, 98: 0, 100: 9, 104: 9, 105: 11, 109: 1, 113: -4,
}  # fmt: skip
DIFFERENCES = "count(difference(a)), min_time(difference(a)), sum(difference(a))"


@pytest.fixture
def filled(connection: headrace.Connection) -> headrace.Connection:
    """The connection with `a` of `root.plant.d1`, and of `d2` with the same values in reverse."""
    for device, values in (("d1", POINTS.values()), ("d2", reversed(POINTS.values()))):
        connection.execute(f"create timeseries root.plant.{device}.a with datatype=INT32")
        rows = ", ".join(f"({time}, {value})" for time, value in zip(POINTS, values, strict=True))
        connection.execute(f"insert into root.plant.{device}(time, a) values {rows}")
    return connection


def answer(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    """The rows, with times as epoch milliseconds; verify agrees, which each run checks for a part of the queries."""
    assert not is_drawn(sql, 3) or connection.verify(sql).equal, NOTE
    rows = connection.execute(sql).fetchall()
    return [tuple(round(cell.timestamp() * 1000) if hasattr(cell, "timestamp") else cell for cell in row) for row in rows]


def test_a_function_sees_only_the_rows_of_the_range_that_is_grouped(filled: headrace.Connection) -> None:
    sql = f"select {DIFFERENCES} from root.plant.d1 group by ([56, 106), 20ms)"
    assert answer(filled, sql) == [(56, 1, 60, 8.0), (76, 1, 82, -8.0), (96, 5, 96, 13.0)]
    runs = "select count(non_zero_count(difference(a), 'min'='2')) from root.plant.d1 group by ([0, 106), 20ms)"
    assert [row[1] for row in answer(filled, runs)] == [1, 0, 0, 0, 0, 0]


def test_a_function_sees_no_rows_between_windows(filled: headrace.Connection) -> None:
    sql = f"select {DIFFERENCES} from root.plant.d1 group by ([56, 106), 5ms, 20ms)"
    assert answer(filled, sql) == [(56, 1, 60, 8.0), (76, 0, None, None), (96, 3, 96, 3.0)]


def test_a_function_sees_only_the_rows_of_calendar_windows(filled: headrace.Connection) -> None:
    sql = "select count(difference(a)) from root.plant.d1 group by ((1969-12-01T00:00:00Z, 1970-02-01T00:00:00Z], 1mo)"
    assert [row[1] for row in answer(filled, sql)] == [0, 15]
    later = "select count(difference(a)) from root.plant.d1 group by ([1970-01-01T00:00:00.019Z, 1970-03-01T00:00:00Z), 1mo)"
    assert [row[1] for row in answer(filled, later)] == [11, 0]


def test_a_function_of_a_whole_series_takes_the_points_of_another_one_by_device(filled: headrace.Connection) -> None:
    values = "select bottom_k(a, 'k'='1') from root.plant.* align by device"
    assert answer(filled, values) == [(113, "root.plant.d1", -4), (1, "root.plant.d2", -4)]
    sql = "select top_k(difference(a), 'k'='2') from root.plant.* align by device"
    assert answer(filled, sql) == [
        (60, "root.plant.d1", 8),
        (100, "root.plant.d1", 9),
        (4, "root.plant.d2", 10),
        (82, "root.plant.d2", 8),
    ]
