"""Series discovery and machine learning: runs of rows, windows in them, and autoregressive models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.library.clusters import Clusters
from headrace.library.discovery import ConsecutiveSequences, ConsecutiveWindows
from headrace.library.learning import AutoregressiveModel
from headrace.udf import ParameterError, Type
from tests.library.calls import call, compute, rows_of
from tests.library.series import random


@pytest.mark.parametrize("attributes", [{}, {"gap": "1s"}])
@pytest.mark.parametrize("batch_rows", [2, 100])
def test_runs_end_at_gaps_and_nulls(attributes: dict[str, Any], batch_rows: int) -> None:
    times = [0, 1000, 2000, 3000, 5000, 6000, 9000, 10_000, 11_000]
    first: list[Any] = [1.0, 1.0, None, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    second: list[Any] = ["a", "a", "a", "a", "a", "", "a", "a", "a"]
    rows, types = rows_of(times, [first, second], [Type.DOUBLE, Type.TEXT]), [Type.DOUBLE, Type.TEXT]
    assert call(ConsecutiveSequences, rows, types, attributes, batch_rows) == [(0, 2), (5000, 2), (9000, 3)]


def test_a_long_series_is_one_run() -> None:
    assert compute(ConsecutiveSequences, [1.0] * 1000) == [(0, 1000)]


@pytest.mark.parametrize("count", [0, 1])
def test_a_short_series_has_no_runs(count: int) -> None:
    assert compute(ConsecutiveSequences, [1.0] * count) == []
    assert compute(ConsecutiveWindows, [1.0] * count, length="5s") == []


def test_the_last_run_is_cut_into_windows() -> None:
    times = [0, 1000, 5000, 6000, 7000, 8000]
    assert compute(ConsecutiveWindows, [1.0] * 6, times, length="2s") == [(0, 2), (5000, 4), (6000, 4)]


def test_a_gap_gives_a_first_point_as_in_iotdb() -> None:
    assert compute(ConsecutiveWindows, [1.0] * 3, gap="1s", length="2s") == [(-1000, 3), (0, 3)]


@pytest.mark.parametrize("attributes", [{}, {"length": "0s"}, {"length": "x"}, {"length": "1s", "gap": "0ms"}])
def test_invalid_durations_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        compute(ConsecutiveWindows, [1.0], **attributes)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_coefficients_solve_the_equations(order: int) -> None:
    values = random().normal(size=200).cumsum()
    points = compute(AutoregressiveModel, values.tolist(), p=str(order))
    r = np.array([values[: 200 - lag] @ values[lag:] / (200 - lag) for lag in range(order + 1)])
    matrix = r[np.abs(np.subtract.outer(np.arange(order), np.arange(order)))]
    assert [time for time, _ in points] == list(range(1, order + 1))
    assert np.allclose(matrix @ [value for _, value in points], r[1:], rtol=1e-6)


def test_gaps_are_filled_on_a_line() -> None:
    values = random().normal(size=30)
    values[[4, 5, 9]] = np.interp([4, 5, 9], [3, 6, 8, 10], values[[3, 6, 8, 10]])
    complete = compute(AutoregressiveModel, values.tolist(), p="2")
    kept = [index for index in range(30) if index not in {4, 5, 9}]
    with_gaps = compute(AutoregressiveModel, values[kept].tolist(), [1000 * index for index in kept], p="2")
    values[[4, 5, 9]] = np.nan
    with_nan = compute(AutoregressiveModel, values.tolist(), p="2")
    for points in (with_gaps, with_nan):
        assert np.allclose([value for _, value in points], [value for _, value in complete])


def test_a_series_of_zeros_has_no_model() -> None:
    assert np.isnan(compute(AutoregressiveModel, [0.0] * 5)[0][1])


@pytest.mark.parametrize(("values", "order"), [([1.0], "1"), ([1.0, 2.0], "2"), ([1.0, 2.0], "0")])
def test_a_model_needs_more_points_than_its_order(values: list[float], order: str) -> None:
    with pytest.raises(ParameterError):
        compute(AutoregressiveModel, values, p=order)


def test_a_series_that_is_far_too_long_with_its_gaps_filled_is_refused() -> None:
    times = [0, 1, 2, 3, 10_000_000_000]
    with pytest.raises(ParameterError, match="100000000"):
        compute(AutoregressiveModel, [1.0] * 5, times)


@pytest.mark.parametrize("method", ["kmeans", "kshape", "medoidshape"])
@pytest.mark.parametrize("norm", ["true", "false"])
def test_windows_of_the_same_shape_are_a_cluster(method: str, norm: str) -> None:
    generator = random()
    rise, peak = np.linspace(-1, 1, 8), np.array([-1.0, -1, -1, 3, 3, -1, -1, -1])
    kinds = np.concatenate([[0, 1], generator.integers(0, 2, 20)])
    values = np.concatenate([(rise, peak)[kind] + generator.normal(size=8) * 0.05 for kind in kinds])
    points = compute(Clusters, [*values.tolist(), 5.0], l="8", k="2", method=method, norm=norm, sample_rate="1")
    assert [time for time, _ in points] == [8000 * index for index in range(22)]
    labels = np.array([label for _, label in points])
    assert (labels == labels[0]).tolist() == (kinds == 0).tolist()


def test_centers_are_the_means() -> None:
    points = compute(Clusters, [0.0, 0.0, 9.0, 9.0, 2.0, 0.0], l="2", k="2", norm="false", output="centroid")
    assert points == [(0, 1.0), (1, 0.0), (2, 9.0), (3, 9.0)]


def test_equal_windows_are_one_cluster_and_leave_the_other_empty() -> None:
    assert {label for _, label in compute(Clusters, [1.0, 2.0] * 6, l="2", k="2")} == {0}


@pytest.mark.parametrize(
    "attributes",
    [
        {"l": "2"},
        {"l": "0", "k": "2"},
        {"l": "2", "k": "1"},
        {"l": "2", "k": "2", "method": "other"},
        {"l": "2", "k": "2", "output": "other"},
        {"l": "2", "k": "2", "maxiter": "0"},
        {"l": "2", "k": "2", "sample_rate": "0"},
        {"l": "2", "k": "3"},
    ],
)
def test_invalid_clusters_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        compute(Clusters, [1.0, 2.0, 3.0, 4.0], **attributes)
