"""Anomaly detection: against definitions written out point by point, and at the edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.library.anomaly import (
    DistanceOutlier,
    InterquartileRange,
    KSigma,
    MissingDetection,
    OutOfRange,
    TwoSidedFilter,
)
from headrace.library.outlier_factor import LocalOutlierFactor, reachability, reachability_on_line
from headrace.udf import UDTF, ParameterError, Type
from tests.library.calls import Points, call, compute, rows_of
from tests.library.series import random, random_times, random_walk

ALL: list[tuple[type[UDTF], dict[str, Any]]] = [
    (DistanceOutlier, {"w": "3", "s": "2"}),
    (InterquartileRange, {}),
    (KSigma, {}),
    (LocalOutlierFactor, {}),
    (MissingDetection, {}),
    (OutOfRange, {"lower_bound": "-1", "upper_bound": "1"}),
    (TwoSidedFilter, {}),
]


@pytest.mark.parametrize(("function", "attributes"), ALL)
def test_an_empty_series_has_no_points(function: type[UDTF], attributes: dict[str, Any]) -> None:
    assert compute(function, [], **attributes) == []


@pytest.mark.parametrize(("function", "attributes"), ALL)
@pytest.mark.parametrize("values", [[0.5], [float("nan")], [0.5, float("nan"), float("inf")]])
def test_short_series_have_no_anomalies(function: type[UDTF], attributes: dict[str, Any], values: list[float]) -> None:
    points = compute(function, values, **attributes)
    if function is OutOfRange:
        assert [value for _, value in points] == [value for value in values if value > 1]
    elif function is MissingDetection:
        assert [value for _, value in points] == [False] * len(values)
    elif function is not TwoSidedFilter:
        assert points == []


@pytest.mark.parametrize(
    ("function", "attributes"),
    [
        (DistanceOutlier, {"w": "0"}),
        (InterquartileRange, {"compute": "other"}),
        (InterquartileRange, {"q1": "2", "q3": "1"}),
        (InterquartileRange, {"compute": "stream", "q1": "0"}),
        (KSigma, {"k": "0"}),
        (KSigma, {"window": "0"}),
        (LocalOutlierFactor, {"k": "0"}),
        (MissingDetection, {"minlen": "9"}),
        (OutOfRange, {"lower_bound": "0"}),
        (OutOfRange, {"lower_bound": "zero", "upper_bound": "1"}),
        (TwoSidedFilter, {"len": "0"}),
    ],
)
def test_invalid_attributes_are_refused(function: type[UDTF], attributes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        compute(function, [1.0], **attributes)


@pytest.mark.parametrize("function", [KSigma, OutOfRange, TwoSidedFilter])
def test_large_integers_are_returned_exactly(function: type[UDTF]) -> None:
    values = [2**60 + 1, 2**59 + 1, 2**58 + 1, 2**57 + 1, 2**56 + 1, 2**56 + 1]
    rows = rows_of(list(range(0, 6000, 1000)), [values], [Type.INT64])
    attributes = {"lower_bound": "0", "upper_bound": "1", "k": "0.1", "threshold": "10"}
    points = call(function, rows, [Type.INT64], attributes)
    assert {value for _, value in points} <= set(values)
    assert points


@pytest.mark.parametrize("window", [2, 5, 40, 500])
def test_k_sigma_compares_with_the_window_that_ends_with_a_point(window: int) -> None:
    values = random_walk(random(), 120)
    expected = []
    for index, value in enumerate(values):
        end = max(index + 1, min(window, len(values)))
        near = values[max(end - window, 0) : end]
        if abs(value - near.mean()) > 1.5 * near.std(ddof=1) + 1e-12:
            expected.append(1000 * index)
    for batch_rows in (7, 1000):
        rows = rows_of(list(range(0, 120_000, 1000)), [values.tolist()], [Type.DOUBLE])
        points = call(KSigma, rows, [Type.DOUBLE], {"k": "1.5", "window": str(window)}, batch_rows)
        assert [time for time, _ in points] == expected


def test_k_sigma_is_exact_for_large_values_and_after_an_extreme_one() -> None:
    values = np.full(300, 1e9)
    values[1::2] += 1e-3
    values[100] = 1e15
    values[250] += 4e-3
    points = compute(KSigma, values.tolist(), window="10", k="2")
    assert [time for time, _ in points] == [100_000, 250_000]


def test_a_factor_is_that_of_the_definition() -> None:
    values, k = random_walk(random(), 60), 4
    distances = np.abs(values[:, None] - values)
    sums = np.maximum(distances, np.sort(distances, axis=1)[:, [k]]).sum(axis=1)
    points = compute(LocalOutlierFactor, values.tolist(), k=str(k))
    assert np.allclose([value for _, value in points], sums.sum() / sums / k)


def test_points_on_a_line_have_the_same_sums_as_points_in_a_plane() -> None:
    values = random_walk(random(), 500)
    plane = np.stack([values, np.zeros(500)], axis=1)
    for k in (1, 3, 50, 499):
        assert np.allclose(reachability_on_line(values, k), reachability(plane, k))


def test_subsequences_have_factors_without_a_window() -> None:
    values = [0.0, 1.0] * 10 + [9.0] + [0.0, 1.0] * 10
    points = compute(LocalOutlierFactor, values, method="series")
    assert [time for time, _ in points] == list(range(0, 37_000, 1000))
    lowest = min(points, key=lambda point: point[1])
    assert 16_000 <= lowest[0] <= 20_000


def test_straight_stretches_are_found() -> None:
    noise = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
    level, slope = [7.5] * 14, [10 + 0.3 * index for index in range(20)]
    points = compute(MissingDetection, [*noise, *level, *noise, *slope, *noise])
    flags = [value for _, value in points]
    assert flags == [False] * 8 + [True] * 14 + [False] * 8 + [True] * 20 + [False] * 8


def test_a_value_that_is_not_finite_ends_a_stretch() -> None:
    values = [1.0] * 12 + [float("nan")] + [1.0] * 12
    flags = [value for _, value in compute(MissingDetection, values)]
    assert flags == [True] * 12 + [False] + [True] * 12


@pytest.mark.parametrize("length", [2, 12])
def test_flat_stretches_of_a_random_series_have_equal_values(length: int) -> None:
    generator = random()
    values = np.round(generator.normal(size=400) * 0.4)
    values[100 : 100 + 3 * length] = 17
    flags = np.array([value for _, value in compute(MissingDetection, values.tolist(), minlen="10")])
    assert flags[100 + length : 100 + 2 * length].all() == (3 * length > 10)


@pytest.mark.parametrize(("radius", "k", "window", "step"), [(0.1, 3, 10, 5), (0.3, 1, 7, 7), (0.5, 9, 20, 30), (0.1, 50, 20, 5)])
def test_outliers_have_few_neighbors(radius: float, k: int, window: int, step: int) -> None:
    values = random_walk(random(), 151)
    expected = set()
    for start in range(0, len(values) - window, step):
        part = values[start : start + window]
        counts = (np.abs(part[:, None] - part) <= radius).sum(axis=1)
        expected |= {1000 * int(index) for index in start + np.flatnonzero(counts < k)}
    points = compute(DistanceOutlier, values.tolist(), r=str(radius), k=str(k), w=str(window), s=str(step))
    assert [time for time, _ in points] == sorted(expected)


@pytest.mark.parametrize("length", ["3", "2.5"])
def test_a_filtered_point_agrees_with_one_side(length: str) -> None:
    generator = random()
    values, times, size = random_walk(generator, 80), random_times(generator, 80), float(length)
    expected = []
    for index, value in enumerate(values):
        before = [v for j, v in enumerate(values) if 0 < index - j <= np.ceil(size) and times[index] - times[j] <= 1000 * size]
        after = [v for j, v in enumerate(values) if 0 < j - index <= size and times[j] - times[index] <= 1000 * size]
        means = [sum(side) / size for side in (before, after)]
        with np.errstate(divide="ignore"):
            if any(abs(mean - value) / np.float64(max(mean, value) + 1) < 0.4 for mean in means):
                expected.append(int(times[index]))
    points = compute(TwoSidedFilter, values.tolist(), times.tolist(), len=length)
    assert [time for time, _ in points] == expected


def test_quartiles_can_be_passed() -> None:
    attributes: dict[str, Any] = {"compute": "STREAM", "q1": "0", "q3": "2"}
    points: Points = compute(InterquartileRange, [1.0, 5.0, 5.1, -3.0, -3.1], **attributes)
    assert points == [(2000, 5.1), (4000, -3.1)]
