"""The repairing functions keep what is right and repair what is not."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, Final

import numpy as np
import pytest

from headrace.library.repair import FUNCTIONS
from headrace.library.repair.speeds import find_speed_limits
from headrace.library.repair.timestamps import ADDITION_COST, match_times
from headrace.udf import ParameterError, Type
from tests.library.calls import call, compute, rows_of

SEED: Final = 20261124
NAN: Final = math.nan
TIMES, FILL, REPAIR = FUNCTIONS["UDTFTimestampRepair"], FUNCTIONS["UDTFValueFill"], FUNCTIONS["UDTFValueRepair"]


def values_of(points: list[tuple[int, Any]]) -> list[Any]:
    return [value for _, value in points]


def test_regular_times_stay() -> None:
    values = [float(row) for row in range(50)]
    assert compute(TIMES, values) == [(1000 * row, value) for row, value in enumerate(values)]


def test_times_are_moved_and_added() -> None:
    times = [0, 1000, 2010, 3000, 5000, 6000, 7000]
    points = compute(TIMES, [0.0, 1.0, 2.0, 3.0, 5.0, 6.0, 7.0], times, interval="1s")
    assert [time for time, _ in points] == list(range(0, 8000, 1000))
    assert values_of(points) == pytest.approx([0.0, 1.0, 2.0, 3.0, NAN, 5.0, 6.0, 7.0], nan_ok=True)


@pytest.mark.parametrize("seed", range(10))
def test_times_are_matched_at_the_least_cost(seed: int) -> None:
    generator = np.random.default_rng(SEED + seed)
    times = np.sort(generator.choice(2_000_000, 6, replace=False))
    grid = np.arange(0, 2_000_000, 300_000)
    least = np.full((len(grid) + 1, len(times) + 1), 0)
    for i, j in product(range(len(grid) + 1), range(len(times) + 1)):
        options = [least[i - 1, j] + ADDITION_COST] * (i > 0) + [least[i, j - 1] + ADDITION_COST] * (j > 0)
        options += [least[i - 1, j - 1] + abs(times[j - 1] - grid[i - 1])] * (i > 0 and j > 0)
        least[i, j] = min(options, default=0)
    matches = match_times(times, grid)
    moved = sum(abs(times[index] - grid[place]) for place, index in matches)
    assert moved + ADDITION_COST * (len(times) + len(grid) - 2 * len(matches)) == least[-1, -1]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("linear", [2.0, 2.0, 4.0, 5.0, 6.0, 7.0, 7.0]),
        ("previous", [NAN, 2.0, 4.0, 4.0, 4.0, 7.0, 7.0]),
        ("mean", [13 / 3, 2.0, 4.0, 13 / 3, 13 / 3, 7.0, 13 / 3]),
    ],
)
def test_missing_values_are_filled(method: str, expected: list[float]) -> None:
    values = [NAN, 2.0, 4.0, NAN, NAN, 7.0, NAN]
    assert values_of(compute(FILL, values, method=method)) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(("method", "has_first"), [("likelihood", False), ("screen", True)])
def test_a_filled_wave_stays_near(method: str, has_first: bool) -> None:
    wave = 10 + np.sin(np.arange(200) / 10)
    values = wave.copy()
    values[[0, 20, 77, 78, 130]] = NAN
    filled = np.array(values_of(compute(FILL, values, method=method)))
    assert np.isfinite(filled[0]) == has_first
    assert np.abs(filled - wave)[1:].max() < 0.5


def test_an_autoregressive_series_is_continued() -> None:
    values = [8.0, 4.0, 2.0, 1.0, NAN, NAN, 0.125]
    filled = values_of(compute(FILL, values, method="ar"))
    theta = (8 * 4 + 4 * 2 + 2 * 1) / (64 + 16 + 4 + 1)
    error = ((4 - theta * 8) + (2 - theta * 4) + (1 - theta * 2)) / 3
    assert filled[4:6] == pytest.approx([theta + error, theta * (theta + error) + error])


def test_integers_are_rounded() -> None:
    rows = rows_of([0, 1000, 2000, 3000, 4000, 5000], [[0, 10, 20, 900, 40, 50]], [Type.INT32])
    attributes = {"minSpeed": "-0.0113", "maxSpeed": "0.0113"}
    points = call(REPAIR, rows, [Type.INT32], attributes)
    exact = compute(REPAIR, [0, 10, 20, 900, 40, 50], **attributes)
    assert values_of(points) == [math.floor(value + 0.5) for value in values_of(exact)]
    assert max(values_of(points)) < 60


@pytest.mark.parametrize("seed", range(5))
def test_repaired_speeds_are_within_the_limits(seed: int) -> None:
    generator = np.random.default_rng(SEED + seed)
    times = generator.integers(500, 1500, 500).cumsum()
    values = generator.normal(size=500).cumsum()
    values[generator.choice(500, 10)] += 100
    low, high = find_speed_limits(times, values)
    repaired = np.array(values_of(compute(REPAIR, values, times.tolist())))
    speeds = np.diff(repaired) / np.diff(times)
    assert speeds.min() >= low - 1e-9
    assert speeds.max() <= high + 1e-9
    assert np.count_nonzero(repaired == values) > 400


@pytest.mark.parametrize("seed", range(5))
def test_repaired_changes_of_speed_are_within_three_sigma(seed: int) -> None:
    values = np.random.default_rng(SEED + seed).normal(size=200).cumsum()
    values[77] += 40
    repaired = np.array(values_of(compute(REPAIR, values, method="lsgreedy", sigma="0.001")))
    assert np.abs(np.diff(repaired, 2)).max() <= 3.0 + 1e-9
    assert abs(repaired[77] - values[77]) > 20


def test_changes_of_speed_are_reduced_until_none_exceeds_three_sigma() -> None:
    values = np.random.default_rng(SEED).integers(0, 8, size=30).astype(float)
    repaired = np.array(values_of(compute(REPAIR, values, method="lsgreedy", center="-1", sigma="0.001")))
    assert np.abs(np.diff(repaired, 2) / 1000 + 1).max() <= 0.003 + 1e-9


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("UDTFTimestampRepair", {"interval": "0"}),
        ("UDTFTimestampRepair", {"interval": "often"}),
        ("UDTFTimestampRepair", {"method": "guess"}),
        ("UDTFValueFill", {"method": "guess"}),
        ("UDTFValueRepair", {"method": "guess"}),
        ("UDTFValueRepair", {"sigma": "0"}),
        ("UDTFValueRepair", {"minSpeed": "2", "maxSpeed": "1"}),
    ],
)
def test_illegal_attributes_are_refused(name: str, attributes: dict[str, str]) -> None:
    with pytest.raises(ParameterError):
        compute(FUNCTIONS[name], [1.0, 2.0, 3.0], **attributes)
