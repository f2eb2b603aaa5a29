"""Streams behave as TDengine's do, in what its tests assert and in what a running server answered after each step.

Each line of `streams.jsonl` has the tables and streams of a case, and steps: statements, time that passes, statements that are
refused, and queries with cells of their results. `differences.toml` lists deliberate differences; remove entries that no longer
differ. A run plays one of eight cases (`tests/support/drawing.py`).
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import headrace
from tests.conformance.results import TOLERANCE, comparable, values_match
from tests.support.drawing import drawn

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

HERE = Path(__file__).parent
DIFFERENCES = {entry["id"]: entry["why"] for entry in tomllib.loads((HERE / "differences.toml").read_text())["difference"]}
ALL_CASES = [json.loads(line) for line in (HERE / "streams.jsonl").read_text().splitlines()]
CASES = drawn(ALL_CASES, "recorded streams", len(ALL_CASES) // 8)
START_MS = 1_700_000_000_000


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_stream_behaves_as_recorded(case: dict[str, Any], tmp_path: Path) -> None:
    clock = headrace.ManualClock(START_MS)
    with headrace.connect(tmp_path / "home", clock=clock) as connection:
        difference = play(connection, clock, case)
    if case["id"] in DIFFERENCES:
        assert difference is not None, "this case does not differ any more: remove it from differences.toml"
    else:
        assert difference is None, difference


def play(connection: headrace.Connection, clock: headrace.ManualClock, case: dict[str, Any]) -> str | None:
    """Play a case; return its first difference, None if there is none."""
    refused = {step["refused"] for step in case["steps"] if "refused" in step}
    for sql in (*case["setup"], *(sql for sql in case["create"] if sql not in refused)):
        connection.execute(sql)
    for number, step in enumerate(case["steps"]):
        difference = play_step(connection, clock, step)
        if difference is not None:
            return f"step {number}: {difference}"
    return None


def play_step(connection: headrace.Connection, clock: headrace.ManualClock, step: dict[str, Any]) -> str | None:
    if "wait_ms" in step:
        connection.settle()
        clock.advance(step["wait_ms"])
        connection.settle()
    for sql in statements(step):
        connection.execute(sql)
    for _ in range(step.get("repeat", {}).get("times", 0)):
        for sql in step["repeat"]["insert"]:
            connection.execute(sql)
        connection.settle()
        clock.advance(step["repeat"]["every_ms"])
    if "refused" in step and not is_refused(connection, step["refused"]):
        return f"not refused: {step['refused']}"
    return compare(connection, step["expect"]) if "expect" in step else None


def statements(step: dict[str, Any]) -> list[str]:
    """Return the statements of a step."""
    parts = (step.get(verb, []) for verb in ("sql", "insert"))
    return [sql for part in parts for sql in ([part] if isinstance(part, str) else part)]


def is_refused(connection: headrace.Connection, sql: str) -> bool:
    try:
        connection.execute(sql)
    except headrace.Error:
        return True
    return False


def compare(connection: headrace.Connection, expected: dict[str, Any]) -> str | None:
    """Return how the result of a query differs; None if it does not."""
    connection.settle()
    rows = [[comparable(value) for value in row] for row in connection.execute(expected["query"]).fetchall()]
    if not expected.get("ordered"):
        rows.sort(key=lambda row: [(value is not None, isinstance(value, str), value) for value in row[:1]])
    is_long_enough = len(rows) >= expected.get("row_count_min", 0) and len(rows) == expected.get("row_count", len(rows))
    wrong = [cell for cell in expected.get("cells", []) if not has_cell(rows, cell, expected)]
    wrong += [cell for cell in expected.get("cells_not", []) if has_cell(rows, cell, expected)]
    return None if is_long_enough and not wrong else f"{wrong[:3]} of {expected['query']}: {len(rows)} rows, {rows[:12]}"


def has_cell(rows: list[list[Any]], cell: list[Any], expected: dict[str, Any]) -> bool:
    row, column, value = cell
    if row >= len(rows) or column >= len(rows[row]):
        return False
    ours = rows[row][column]
    if isinstance(ours, str) is not isinstance(value, str) and None not in (ours, value):
        ours, value = float(ours), float(value)
    return values_match(ours, value, expected.get("tolerance", TOLERANCE))
