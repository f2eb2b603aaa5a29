"""Data matching: against definitions written out, merged states, and edges."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.code.aggregate_calls import serialize
from headrace.library.matching import (
    Covariance,
    CrossCorrelation,
    DynamicTimeWarping,
    PearsonCorrelation,
    SymmetricPattern,
)
from headrace.library.patterns import DtwMatch, PatternMatch, round_half_up
from headrace.library.series import Values
from headrace.udf import UDAF, UDTF, BitMap, Column, ParameterError, Parameters, ResultValue, Type, UDAFConfigurations, Validator
from tests.library.calls import Points, call, compute, rows_of
from tests.library.series import random, random_walk

TWO = [Type.DOUBLE, Type.DOUBLE]
NAN = float("nan")


def compute_two(function: type[UDTF], x: list[Any], y: list[Any], batch_rows: int = 1000) -> Points:
    return call(function, rows_of(list(range(len(x))), [x, y], TWO), TWO, {}, batch_rows)


def aggregate(function: type[UDAF], values: list[Any], attributes: dict[str, Any], parts: int = 1, kind: Type = Type.DOUBLE) -> Any:
    """Return the value of an aggregate, whose rows are added in parts to states that are sent and merged."""
    parameters, configurations = Parameters([kind], attributes), UDAFConfigurations()
    instance = function()
    instance.validate(Validator(parameters))
    instance.before_start(parameters, configurations)
    assert configurations.output_data_type == Type.TEXT
    total = instance.create_state()
    for rows in reversed(np.array_split(np.arange(len(values)), parts)):
        state = instance.create_state()
        column = pa.array([values[row] for row in rows], kind.arrow, from_pandas=False)
        times = pa.array(rows * 10, pa.int64())
        instance.add_input(state, [Column(column, kind), Column(times, Type.INT64)], BitMap(len(rows)))
        instance.combine_state(total, pickle.loads(serialize(state)))
    result = ResultValue()
    instance.output_final(total, result)
    return result.value


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_statistics_are_those_of_numpy(batch_rows: int) -> None:
    generator = random()
    x, y = 1e6 + generator.normal(size=50), generator.normal(size=50)
    y += x - 1e6
    rows = [*x.tolist(), NAN, 3.0, None], [*y.tolist(), 1.0, float("inf"), 2.0]
    assert compute_two(Covariance, *rows, batch_rows) == [(0, pytest.approx(np.cov(x, y, ddof=0)[0, 1], rel=1e-9))]
    assert compute_two(PearsonCorrelation, *rows, batch_rows) == [(0, pytest.approx(np.corrcoef(x, y)[0, 1], rel=1e-9))]


@pytest.mark.parametrize("batch_rows", [1, 3, 1000])
def test_windows_with_values_that_are_not_finite_have_no_symmetry(batch_rows: int) -> None:
    rows = rows_of(range(7), [[1.0, 2.0, 4.0, NAN, 3.0, 3.0, 5.0]], [Type.DOUBLE])

    def symmetries(window: str) -> Points:
        return call(SymmetricPattern, rows, [Type.DOUBLE], {"window": window}, batch_rows)

    assert symmetries("3") == [(0, 9.0), (4, 4.0)]
    assert symmetries("2") == [(0, 1.0), (1, 4.0), (4, 0.0), (5, 4.0)]
    assert symmetries("1") == [(time, 0.0) for time in range(7)]


@pytest.mark.parametrize("function", [Covariance, PearsonCorrelation])
def test_no_pairs_have_no_statistics(function: type[UDTF]) -> None:
    [(time, value)] = compute_two(function, [1.0, None], [None, 2.0])
    assert (time, np.isnan(value)) == (0, True)


def test_a_series_that_does_not_vary_has_no_correlation() -> None:
    assert np.isnan(compute_two(PearsonCorrelation, [0.1, 0.1, 0.1], [1.0, 2.0, 3.0])[0][1])


def distance_by_cells(x: Values, y: Values) -> float:
    distances = np.full((len(x) + 1, len(y) + 1), np.inf)
    distances[0, 0] = 0
    for i in range(len(x)):
        for j in range(len(y)):
            nearest = min(distances[i, j], distances[i + 1, j], distances[i, j + 1])
            distances[i + 1, j + 1] = abs(x[i] - y[j]) + nearest
    return float(distances[-1, -1])


@pytest.mark.parametrize("count", [0, 1, 2, 3, 25])
def test_warped_distance_is_that_of_all_cells(count: int) -> None:
    generator = random()
    x, y = generator.normal(size=count), generator.normal(size=count)
    assert compute_two(DynamicTimeWarping, x.tolist(), y.tolist()) == [(0, pytest.approx(distance_by_cells(x, y)))]


def test_a_null_is_zero_and_nan_is_left_out_for_warping() -> None:
    assert compute_two(DynamicTimeWarping, [5.0, NAN], [None, 1.0]) == [(0, 5.0)]


@pytest.mark.parametrize("count", [1, 2, 9])
def test_cross_correlation_is_the_sum(count: int) -> None:
    generator = random()
    x, y = generator.normal(size=count), generator.normal(size=count)
    expected = [sum(x[i] * y[count - s + i] for i in range(s)) / s for s in range(1, count + 1)]
    expected += [sum(x[s + i] * y[i] for i in range(count - s)) / count for s in range(1, count)]
    points = compute_two(CrossCorrelation, x.tolist(), y.tolist())
    assert [time for time, _ in points] == list(range(2 * count - 1))
    assert np.allclose([value for _, value in points], expected)


def test_cross_correlation_of_nothing_is_empty() -> None:
    assert compute_two(CrossCorrelation, [], []) == []


@pytest.mark.parametrize("batch_rows", [1, 3, 100])
def test_symmetric_windows_end_as_they_begin(batch_rows: int) -> None:
    rows = rows_of(list(range(6)), [[1.0, 2.0, 3.0, 2.0, 1.0, NAN]], [Type.DOUBLE])
    points = call(SymmetricPattern, rows, [Type.DOUBLE], {"window": "3", "threshold": "0"}, batch_rows)
    assert points == [(1, 0.0)]


@pytest.mark.parametrize("attributes", [{"window": "0"}, {"threshold": "-1"}])
def test_invalid_windows_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        compute(SymmetricPattern, [1.0], **attributes)


@pytest.mark.parametrize("parts", [1, 3])
def test_windows_near_a_pattern_match(parts: int) -> None:
    values = random_walk(random(), 60)
    pattern = np.array([0.0, 0.2, 0.1, 0.3])
    expected: list[dict[str, Any]] = []
    for start in range(len(values) - 3):
        window = values[start : start + 4]
        distance = np.float32(distance_by_cells(window[1:], pattern[1:]))
        if distance <= np.float32(0.5):
            expected.append({"distance": distance, "startTime": start * 10, "endTime": start * 10 + 30})
    text = aggregate(DtwMatch, values.tolist(), {"pattern": "0,0.2,0.1,0.3", "threshold": "0.5"}, parts)
    matches = json.loads(text) if text else []
    assert [(match["startTime"], match["endTime"]) for match in matches] == [
        (match["startTime"], match["endTime"]) for match in expected
    ]
    assert np.allclose([match["distance"] for match in matches], [match["distance"] for match in expected], atol=1e-6)


def test_matches_are_written_as_json() -> None:
    text = aggregate(DtwMatch, [None, 1.0, 2.0, 9.0], {"pattern": "0,1.5", "threshold": "1"})
    assert text == '[{"distance":0.500000,"startTime":10,"endTime":20}]'


def test_booleans_match() -> None:
    text = aggregate(DtwMatch, [True, False], {"pattern": "1,0", "threshold": "0"}, kind=Type.BOOLEAN)
    assert text == '[{"distance":0.000000,"startTime":0,"endTime":10}]'


@pytest.mark.parametrize("parts", [1, 4])
def test_a_shape_matches_where_a_server_finds_it(parts: int) -> None:
    ticks = np.arange(60)
    waves = np.round(np.sin(ticks / 3) * 3 + np.sin(ticks / 1.1) * 2 + ticks * 0.05, 2)
    attributes = {"timePattern": "0,1,2,3,4,5", "valuePattern": "0,3,1,4,2,0", "threshold": "3"}
    text = aggregate(PatternMatch, waves.tolist(), attributes, parts)
    assert text == '[{"distance":1.33,"startTime":0,"endTime":120}]'


def test_a_shape_that_does_not_occur_is_looked_for_by_warping() -> None:
    attributes = {"timePattern": "0,1,2", "valuePattern": "1,3,1", "threshold": "0.1"}
    assert aggregate(PatternMatch, [1.0, 3.0, 1.0], attributes) is not None
    assert aggregate(PatternMatch, [5.0, 5.0, 5.0], attributes) is None
    assert aggregate(PatternMatch, [], attributes) is None


@pytest.mark.parametrize(
    "attributes",
    [
        {"timePattern": "1,2", "valuePattern": "1,2"},
        {"timePattern": "1", "valuePattern": "1", "threshold": "1"},
        {"timePattern": "1,1", "valuePattern": "1,2", "threshold": "1"},
        {"timePattern": "1,2", "valuePattern": "1,2,3", "threshold": "1"},
        {"timePattern": "a,b", "valuePattern": "1,2", "threshold": "1"},
    ],
)
def test_invalid_patterns_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        aggregate(PatternMatch, [1.0], attributes)


@pytest.mark.parametrize(("number", "text"), [(0.125, "0.13"), (0.375, "0.38"), (2.0, "2.00"), (1e-9, "0.00")])
def test_halves_are_rounded_up(number: float, text: str) -> None:
    assert round_half_up(number, 2) == text
