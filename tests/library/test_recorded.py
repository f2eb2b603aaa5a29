"""The functions of the library give what an IoTDB 1.3.4 has answered, or its guide shows.

`recorded/series.jsonl` has the series by device, and a file for each family has calls over them, with their points or the message
of their error.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from headrace.udf import UDTF, ParameterError, Type
from tests.library.calls import call, is_same, rows_of

RECORDED: Final = Path(__file__).parent / "recorded"
FAMILIES: Final = sorted(path.stem for path in RECORDED.glob("*.jsonl") if path.stem != "series")


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text().splitlines()]


@cache
def devices() -> dict[str, dict[str, Any]]:
    return {device["device"]: device for device in read("series")}


CALLS: Final = [pytest.param(family, case, id=f"{family}-{case['id']}") for family in FAMILIES for case in read(family)]


def play(family: str, case: dict[str, Any], batch_rows: int = 1 << 20) -> list[tuple[int, Any]]:
    """Return the points of a recorded call."""
    function: type[UDTF] = import_module(f"headrace.library.{family}").FUNCTIONS[case["class"]]
    device = devices()[case["device"]]
    series = [device["series"][name] for name in case["inputs"]]
    types = [Type(one["type"]) for one in series]
    rows = rows_of(device["times"], [one["values"] for one in series], types)
    return call(function, rows, types, case["attributes"], batch_rows)


@pytest.mark.parametrize(("family", "case"), CALLS)
def test_a_recorded_call_gives_the_recorded_points(family: str, case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(ParameterError):
            play(family, case)
        return
    points, expected, tolerance = play(family, case), case["points"], case.get("tolerance", 1e-6)
    assert [time for time, _ in points] == [time for time, _ in expected]
    differing = [
        (time, value, other)
        for (time, value), (_, other) in zip(points, expected, strict=True)
        if not is_same(value, other, tolerance)
    ]
    assert not differing


@pytest.mark.parametrize(("family", "case"), CALLS)
def test_rows_in_small_batches_give_the_same_points(family: str, case: dict[str, Any]) -> None:
    if "error" in case or "reservoir" in case["attributes"].get("method", ""):
        return
    whole, in_parts = play(family, case), play(family, case, batch_rows=7)
    assert [time for time, _ in in_parts] == [time for time, _ in whole]
    assert all(is_same(value, other, 1e-12) for (_, value), (_, other) in zip(in_parts, whole, strict=True))
