"""Windows, FILL, functions and expressions over random readings return what a running TDengine returned.

Each line of `queries.jsonl` has a query and its recorded rows, and `setup.sql` has the tables. Instants are epoch milliseconds.
`differences.toml` lists deliberate differences; remove entries that no longer differ.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.sql import parse_script

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

HERE = Path(__file__).parent
CASES = [json.loads(line) for line in (HERE / "queries.jsonl").read_text().splitlines()]
DIFFERENCES = {entry["id"]: entry["why"] for entry in tomllib.loads((HERE / "differences.toml").read_text())["difference"]}
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    home = tmp_path_factory.mktemp("conformance")
    with headrace.connect(home, clock=headrace.ManualClock(1_700_000_000_000)) as opened:
        for statement, _ in parse_script((HERE / "setup.sql").read_text()):
            opened.execute(statement)
        yield opened


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_query_returns_the_recorded_rows(connection: headrace.Connection, case: dict[str, Any]) -> None:
    actual = [[comparable(value) for value in row] for row in connection.execute(case["query"]).fetchall()]
    expected = [[comparable(value) for value in row] for row in case["rows"]]
    if not case.get("ordered", True):
        actual, expected = sorted(actual, key=repr), sorted(expected, key=repr)
    equal = results_match(actual, expected, case.get("tolerance", TOLERANCE))
    if case["id"] in DIFFERENCES:
        assert not equal, f"{case['id']} no longer differs: remove it from differences.toml"
    else:
        assert equal, f"{case['query']}\ngot      {actual}\nexpected {expected}"


def test_few_answers_differ() -> None:
    queries = {name for name in DIFFERENCES if not name.startswith("rec-")}
    assert queries <= {case["id"] for case in CASES}
    assert len(queries) <= len(CASES) * 0.03


def results_match(actual: list[list[Any]], expected: list[list[Any]], tolerance: float) -> bool:
    """Return whether two results are equal up to rounding."""
    if len(actual) != len(expected):
        return False
    return all(
        len(ours) == len(theirs) and all(values_match(*pair, tolerance) for pair in zip(ours, theirs, strict=True))
        for ours, theirs in zip(actual, expected, strict=True)
    )


def values_match(ours: Any, theirs: Any, tolerance: float) -> bool:
    if isinstance(ours, float | int) and isinstance(theirs, float | int):
        return math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=1e-6) or (math.isnan(ours) and math.isnan(theirs))
    return bool(ours == theirs)


def comparable(value: Any) -> Any:
    """Convert instants to epoch milliseconds, decimals to numbers, and binary to text."""
    match value:
        case dt.datetime():
            return round(value.timestamp() * 1000)
        case bytes():
            return value.decode()
        case None | str() | int() | float():
            return value
        case _:
            return float(value)
