"""ASOF joins equal a search for the closest rows, row by row."""

from __future__ import annotations

import operator
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.errors import LimitError, NotSupportedError
from tests.compute.samples import METERS, T0, answer, frame, meters, plan

pytestmark = pytest.mark.spark

Row = tuple[str, int, int | None, int]
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, ">": operator.gt, "=": operator.eq, "<": operator.lt, "<=": operator.le,
}  # fmt: skip


def random_rows() -> list[Row]:
    dice = Random(7)
    times = {(name, dice.randrange(0, 40) * 500) for name in ("d1", "d2") for _ in range(25)}
    return [
        (name, ts // 1000, dice.choice([None, 1, 2]), number) for number, (name, ts) in enumerate(sorted(times)) if ts % 1000 == 0
    ]


def closest(rows: list[Row], sides: tuple[str, str], sign: str, limit: int, *, keyed: bool) -> list[tuple[Any, ...]]:
    """Return the number of each row of the first side with those of the closest rows of the second one."""
    found: list[tuple[Any, ...]] = []
    for _, at, key, number in (row for row in rows if row[0] == sides[0]):
        others = [
            (other, own)
            for name, other, other_key, own in rows
            if name == sides[1] and OPERATORS[sign](at, other) and (not keyed or (key is not None and key == other_key))
        ]
        nearest: list[int | None] = [own for _, own in sorted(others, key=lambda pair: abs(pair[0] - at))[:limit]]
        found.extend((number, own) for own in nearest or [None])
    return sorted(found, key=repr)


@pytest.mark.parametrize(
    ("join", "sides", "sign", "limit", "keyed"),
    [
        ("x left asof join d2 y", ("d1", "d2"), ">=", 1, False),
        ("x left asof join d2 y on x.ts > y.ts and y.a = x.a jlimit 2", ("d1", "d2"), ">", 2, True),
        ("x left asof join d2 y on y.ts >= x.ts jlimit 3", ("d1", "d2"), "<=", 3, False),
        ("x right asof join d2 y on x.a = y.a and x.ts > y.ts", ("d2", "d1"), "<", 1, True),
        ("x left asof join d2 y on x.ts = y.ts and x.a = y.a jlimit 2", ("d1", "d2"), "=", 2, True),
    ],
)
def test_an_asof_join_takes_the_closest_rows(
    small: SparkSession, join: str, sides: tuple[str, str], sign: str, limit: int, keyed: bool
) -> None:
    rows = random_rows()
    stored = frame(small, METERS, meters(*((name, at, key, number) for name, at, key, number in rows)))
    own, other = ("x", "y") if sides[0] == "d1" else ("y", "x")
    found = answer(f"select {own}.b, {other}.b from d1 {join}", stored)
    assert sorted(found, key=repr) == closest(rows, sides, sign, limit, keyed=keyed)


def test_truncated_timestamps_are_compared_and_the_closest_is_the_latest(small: SparkSession) -> None:
    rows = frame(small, METERS, meters(("d1", 2500, 1, 1), ("d2", 200, 1, 2), ("d2", 1900, 1, 3), ("d2", 2400, 1, 4)))
    sql = "select x.b, y.b from d1 x left asof join d2 y on timetruncate(x.ts, 1s) > timetruncate(y.ts, 1s)"
    assert answer(sql, rows) == [(1, 3)]
    sql = f"select count(*), max(y.b) from d1 x left asof join d2 y where x.ts > {T0} and y.a = 1 interval(1m)"
    assert answer(sql, rows) == [(1, 4)]


@pytest.mark.parametrize(
    ("source", "error", "says"),
    [
        ("d1 x left asof join d2 y jlimit 0", LimitError, "JLIMIT takes 1 to 1024 rows, not 0"),
        ("d1 x left asof join d2 y on x.ts > y.ts and x.ts < y.ts", NotSupportedError, "compares timestamps once"),
        ("d1 x left asof join d2 y on x.a > y.a", NotSupportedError, "takes one comparison of timestamps"),
        ("d1 x left asof join d2 y on x.a = 1", NotSupportedError, "takes one comparison of timestamps"),
        ("d1 x left asof join d2 y on x.a = y.s", NotSupportedError, "a is INT, and s is VARCHAR"),
        ("d1 x left asof join (select ts, a from d2) y", NotSupportedError, "takes two tables"),
    ],
)
def test_other_conditions_are_refused(source: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        plan(f"select x.a from {source}")
