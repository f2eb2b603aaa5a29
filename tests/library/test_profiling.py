"""The profiling functions agree with their definitions, computed by NumPy and SciPy or value by value."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest
from scipy import stats

from headrace.library.profiling import FUNCTIONS
from headrace.library.profiling.segments import fit_error
from headrace.udf import ParameterError, Type
from tests.library.calls import call, compute, rows_of

SEED: Final = 20261124
LONG: Final = 6_001
"""Rows of a series whose sums of products are computed by a Fourier transform."""


def draw(rows: int, seed: int = SEED) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return a random walk around a wave."""
    generator = np.random.default_rng(seed)
    return np.sin(np.arange(rows) / 7) * 5 + generator.normal(size=rows).cumsum() / 10


def values_of(points: list[tuple[int, Any]]) -> list[Any]:
    return [value for _, value in points]


def test_figures_of_finite_values_are_those_of_numpy_and_scipy() -> None:
    values = draw(501)
    with_special = [*values[:100], math.nan, *values[100:], math.inf]
    figures = {
        "UDAFMedian": np.median(values),
        "UDAFMad": stats.median_abs_deviation(values),
        "UDAFSkew": stats.skew(values),
        "UDAFSpread": np.ptp(values),
    }
    for name, expected in figures.items():
        assert compute(FUNCTIONS[name], with_special) == [(0, pytest.approx(expected))]
    assert values_of(compute(FUNCTIONS["UDTFZScore"], with_special)) == pytest.approx(stats.zscore(values))


@pytest.mark.parametrize("rows", range(1, 12))
def test_equal_values_have_no_deviation(rows: int) -> None:
    values = [0.1] * rows
    for name in ("UDAFSkew", "UDTFZScore"):
        assert all(math.isnan(value) for value in values_of(compute(FUNCTIONS[name], values))), name
    assert all(math.isnan(value) for value in values_of(compute(FUNCTIONS["UDTFPACF"], values))[1:])


def test_scaled_values_stay_at_their_times() -> None:
    points = compute(FUNCTIONS["UDTFMinMax"], [2.0, math.nan, 6.0, math.inf, 4.0])
    assert points == [(0, 0.0), (2000, 1.0), (4000, 0.5)]


@pytest.mark.parametrize("rows", [1, 2, 50, LONG])
def test_autocorrelations_are_sums_of_products(rows: int) -> None:
    values = draw(rows)
    points = dict(compute(FUNCTIONS["UDTFACF"], values))
    assert len(points) == 2 * rows - 1
    for lag in {0, rows // 3, rows - 1}:
        products = float(values[: rows - lag] @ values[lag:])
        assert points[rows - 1 - lag] == pytest.approx(products / (rows - lag), rel=1e-6, abs=1e-6)
        assert points[rows - 1 + lag] == pytest.approx(products / rows, rel=1e-6, abs=1e-6)


def test_the_partial_autocorrelation_solves_the_yule_walker_equations() -> None:
    from scipy.linalg import solve, toeplitz

    values = draw(300)
    partial = values_of(compute(FUNCTIONS["UDTFPACF"], values, lag="6"))
    x = values - values.mean()
    covariances = np.array([x[: len(x) - lag] @ x[lag:] / (len(x) - lag) for lag in range(7)])
    expected = [solve(toeplitz(covariances[:order]), covariances[1 : order + 1])[-1] for order in range(1, 7)]
    assert partial == pytest.approx([1.0, *expected])


@pytest.mark.parametrize("rows", [400, LONG])
def test_the_period_of_a_wave_is_found(rows: int) -> None:
    wave = np.tile([0.0, 3.0, 7.0, 4.0, 1.0, -2.0, -5.0, -3.0, -1.0], rows)[:rows] + 1000
    assert compute(FUNCTIONS["UDAFPeriod"], wave) == [(0, 9)]


def test_noise_passes_the_ljung_box_test_and_a_wave_does_not() -> None:
    noise = np.random.default_rng(SEED).normal(size=500)
    assert dict(compute(FUNCTIONS["UDTFQLB"], noise, lag="10"))[10] > 0.05
    assert dict(compute(FUNCTIONS["UDTFQLB"], stats.zscore(draw(500)), lag="10"))[10] < 1e-9


def test_the_histogram_is_that_of_numpy() -> None:
    values = draw(1000)
    expected, _ = np.histogram(values.clip(-4, 3.999), bins=16, range=(-4, 4))
    assert values_of(compute(FUNCTIONS["UDTFHistogram"], values, min="-4", max="4", count="16")) == expected.tolist()


def test_the_median_deviation_is_estimated_within_its_error() -> None:
    for seed in range(50):
        values = draw(200, seed) + seed - 25
        (exact,) = values_of(compute(FUNCTIONS["UDAFMad"], values))
        (estimate,) = values_of(compute(FUNCTIONS["UDAFMad"], values, error="0.001"))
        assert estimate == pytest.approx(exact, rel=0.05)


def test_the_median_adds_the_middle_values_in_their_type() -> None:
    low, high = np.float32(0.1), np.float32(1.7)
    rows = rows_of([1, 2], [[low, high]], [Type.FLOAT])
    assert call(FUNCTIONS["UDAFMedian"], rows, [Type.FLOAT], {}) == [(0, float(low + high) / 2)]
    assert float(low + high) != float(low) + float(high)
    rows = rows_of([1, 2], [[2**31 - 1, 2**31 - 3]], [Type.INT32])
    assert call(FUNCTIONS["UDAFMedian"], rows, [Type.INT32], {}) == [(0, 2**31 - 2)]


@pytest.mark.parametrize("data_type", [Type.INT32, Type.INT64, Type.FLOAT, Type.DOUBLE])
def test_percentiles_keep_type_and_last_time(data_type: Type) -> None:
    rows = rows_of([10, 20, 30, 40], [[5, 7, 5, 1]], [data_type])
    assert call(FUNCTIONS["UDAFPercentile"], rows, [data_type], {"rank": "0.25"}) == [(30, 5)]
    assert call(FUNCTIONS["UDAFQuantile"], rows, [data_type], {"rank": "0.75"}) == [(0, 5)]


def test_large_integers_are_exact() -> None:
    values = [2**60 + 1, 2**60 + 3, 2**60]
    rows = rows_of([1, 2, 3], [values], [Type.INT64])
    assert call(FUNCTIONS["UDAFSpread"], rows, [Type.INT64], {}) == [(0, 3)]
    assert call(FUNCTIONS["UDAFQuantile"], rows, [Type.INT64], {"rank": "0.7"}) == [(0, 2**60 + 1)]
    assert values_of(call(FUNCTIONS["UDTFDistinct"], rows, [Type.INT64], {})) == sorted(values)


@pytest.mark.parametrize("method", ["reservoir", "isometric", "triangle"])
@pytest.mark.parametrize("k", [1, 2, 3, 10, 99, 200])
def test_a_sample_has_points_of_the_series_in_order(method: str, k: int) -> None:
    values = draw(100)
    points = compute(FUNCTIONS["UDTFSample"], values, method=method, k=str(k))
    assert len(points) == min(k, 100)
    assert all(before < after for (before, _), (after, _) in pairwise(points))
    assert all(values[time // 1000] == value for time, value in points)


def test_triangles_keep_a_peak() -> None:
    values = [0.0] * 500
    values[333] = 9.0
    assert (333_000, 9.0) in compute(FUNCTIONS["UDTFSample"], values, method="triangle", k="20")


@pytest.mark.parametrize("seed", range(5))
def test_segments_cannot_be_joined_within_the_error(seed: int) -> None:
    values = draw(301, seed)
    starts = [time // 1000 for time, _ in compute(FUNCTIONS["UDTFSegment"], values, error="0.3")]
    bounds = [*starts, len(values)]
    assert all(fit_error(values[first:end]) < 0.3 for first, end in pairwise(bounds))
    assert all(fit_error(values[first:end]) >= 0.3 for first, end in zip(bounds, bounds[2:], strict=False))


def test_a_spline_passes_through_the_values() -> None:
    values = draw(30)
    points = compute(FUNCTIONS["UDTFSpline"], values, points="30")
    assert values_of(points) == pytest.approx(values)
    line = compute(FUNCTIONS["UDTFSpline"], [2.0 * row for row in range(10)], points="19")
    assert values_of(line) == pytest.approx(np.arange(19.0))


@pytest.mark.parametrize(
    ("aggregate", "expected"), [("mean", 3.0), ("max", 6.0), ("min", 1.0), ("first", 2.0), ("last", 6.0), ("median", 2.0)]
)
def test_resampling_aggregates_each_interval(aggregate: str, expected: float) -> None:
    points = compute(FUNCTIONS["UDTFResample"], [2.0, 1.0, 6.0, 4.0, 4.0, 4.0], every="3s", aggr=aggregate)
    assert points == [(0, expected), (3000, 4.0)]


def test_resampling_within_a_range_fills_its_ends() -> None:
    attributes = {"every": "1s", "start": "1970-01-01 00:00:01", "end": "1970-01-01 00:00:06", "interp": "linear"}
    assert compute(FUNCTIONS["UDTFResample"], [1.0, 2.0], [3000, 4000], **attributes) == [
        (1000, -1.0),
        (2000, 0.0),
        (3000, 1.0),
        (4000, 2.0),
        (5000, 3.0),
    ]
    with pytest.raises(ParameterError, match="every has to be longer"):
        compute(FUNCTIONS["UDTFResample"], [1.0, 2.0], [0, 10**9], every="1ms")


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("UDTFHistogram", {"count": "0"}),
        ("UDTFHistogram", {"min": "2", "max": "1"}),
        ("UDTFMinMax", {"compute": "stream"}),
        ("UDTFMinMax", {"compute": "other"}),
        ("UDTFZScore", {"sd": "0"}),
        ("UDTFMvAvg", {"window": "0"}),
        ("UDAFPercentile", {"rank": "1.5"}),
        ("UDAFQuantile", {"K": "99"}),
        ("UDAFMedian", {"error": "1"}),
        ("UDAFIntegral", {"unit": "1"}),
        ("UDTFResample", {}),
        ("UDTFResample", {"every": "1s", "aggr": "sum"}),
        ("UDTFSample", {"k": "0"}),
        ("UDTFSegment", {"error": "-1"}),
        ("UDTFSpline", {}),
        ("UDTFQLB", {"lag": "-1"}),
    ],
)
def test_illegal_attributes_are_refused(name: str, attributes: dict[str, str]) -> None:
    with pytest.raises(ParameterError):
        compute(FUNCTIONS[name], [1.0, 2.0, 3.0], **attributes)
