"""IoTDB's functions over a whole series: the figures are what a running server 1.3.4 answers, ties included."""

from __future__ import annotations

import pickle
import re
from heapq import nlargest
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.compute import language
from headrace.compute.columnar.series_points import process_part
from headrace.compute.functions.arrow import SeriesArrowArguments, SeriesArrowFunction, SeriesArrowRule
from headrace.compute.iotdb.outliers import OUTLIERS
from headrace.compute.iotdb.samples import AGGREGATIONS
from headrace.errors import TypeMismatchError
from headrace.model.time import Precision
from headrace.model.tree_types import TREE_TYPES

IOTDB = language("iotdb")
ARROW = {
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "BOOLEAN": pa.bool_(),
}
NAN = float("nan")

Points = list[tuple[int, Any]]
WHOLE: Points = list(enumerate((5, 5, 7, 5, 7, 1, 9, 7, 5, 1, 7), start=1))
PARTS: Points = list(enumerate((1.0, 1.0, 2.0, 3.0, 2.0, 1.0, 0.5, 0.5, 2.0, 4.0, 1.5), start=1))
GUIDE: Points = [(1, 5.0), (2, 15.0), (5, 10.0), (8, 8.0), (10, 30.0), (20, 20.0), (25, 8.0), (27, 20.0), (30, 40.0), (33, 9.0)]
GUIDE += [(35, 10.0), (40, 20.0), (45, 30.0), (52, 8.0), (54, 18.0), (120, 8.0)]


def applied(function: str, *types: str, **attributes: object) -> Any:
    entry = IOTDB.functions[function]
    assert isinstance(entry, SeriesArrowFunction)
    pairs = tuple((name, str(value)) for name, value in attributes.items())
    return entry.make_rule(SeriesArrowArguments(function, tuple(TREE_TYPES[name] for name in types), pairs, Precision.MILLISECOND))


def points_of_series(rule: SeriesArrowRule, rows: pa.Table) -> pa.Table:
    """The points that a function makes of one series, in order of time."""
    ticks = rows["time"].to_numpy()
    inputs = [rows[name].combine_chunks() for name in rows.column_names[1:]]
    points = process_part(rule.open(), np.zeros(len(ticks), np.int64), ticks, inputs, more=False)
    return pa.table({"time": points.ticks, "value": points.values})


def answer(function: str, points: Points, type_: str = "INT32", **attributes: object) -> Points:
    """The points that a function makes of one series; sent through pickle, as Spark does."""
    rule = pickle.loads(pickle.dumps(applied(function, type_, **attributes)))
    rows = pa.table({"time": pa.array([at for at, _ in points], pa.int64()), "x0": pa.array([x for _, x in points], ARROW[type_])})
    results = points_of_series(rule, rows)
    return list(zip(results["time"].to_pylist(), results["value"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("function", "points", "type_", "count", "times"),
    [
        ("top_k", WHOLE, "INT32", 1, [7]),
        ("top_k", WHOLE, "INT32", 2, [5, 7]),
        ("top_k", WHOLE, "INT32", 3, [3, 5, 7]),
        ("top_k", WHOLE, "INT32", 5, [3, 5, 7, 8, 11]),
        ("bottom_k", WHOLE, "INT32", 3, [2, 6, 10]),
        ("bottom_k", PARTS, "DOUBLE", 2, [7, 8]),
        ("bottom_k", PARTS, "DOUBLE", 4, [1, 2, 7, 8]),
        ("top_k", [(1, "aa"), (2, "bb"), (3, "aa"), (4, "cc"), (6, "%c_")], "TEXT", 2, [2, 4]),
        ("bottom_k", [(1, 2.5), (2, -2.5), (3, NAN), (4, 10.0), (6, -10.0)], "DOUBLE", 3, [2, 3, 6]),
        ("top_k", [(1, 2.5), (2, -2.5), (3, NAN), (4, 10.0), (6, -10.0)], "DOUBLE", 3, [1, 3, 4]),
        ("top_k", [(1, None), (2, 3), (3, None)], "INT32", 2, [2]),
        ("top_k", [], "INT32", 2, []),
    ],
)
def test_the_k_greatest_and_least_are_those_of_the_server(
    function: str, points: Points, type_: str, count: int, times: list[int]
) -> None:
    results = answer(function, points, type_, k=count)
    assert [at for at, _ in results] == times
    assert [value for _, value in results] == pytest.approx([dict(points)[at] for at in times], nan_ok=type_ == "DOUBLE")


@given(st.lists(st.integers(-3, 3)), st.integers(1, 6))
def test_top_k_has_the_values_of_a_sorted_list(values: list[int], count: int) -> None:
    results = answer("top_k", list(enumerate(values)), k=count)
    assert sorted(value for _, value in results) == sorted(nlargest(count, values))
    assert all(values[at] == value for at, value in results)


@pytest.mark.parametrize(
    ("points", "attributes", "times"),
    [
        (WHOLE, {"windowSize": 4}, [1, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        (WHOLE, {"windowSize": 4, "slidingStep": 5}, [1, 3, 4, 6, 7, 9, 11]),
        (PARTS, {"timeInterval": 4}, [1, 4, 5, 8, 9, 10, 11]),
        (PARTS, {"timeInterval": 4, "displayWindowBegin": 3, "displayWindowEnd": 8}, [3, 4, 6, 7]),
        (PARTS, {"timeInterval": 4, "displayWindowBegin": 0}, [1, 3, 4, 7, 8, 10, 11]),
        (PARTS, {"timeInterval": 4, "displayWindowBegin": -20}, [1, 3, 4, 7, 8, 10, 11]),
        (PARTS, {"timeInterval": 2, "slidingStep": 4, "displayWindowBegin": 0}, [1, 4, 5, 8, 9]),
        (GUIDE, {"windowSize": 10}, [1, 30, 33, 35, 45, 120]),
        (GUIDE[:-1], {"windowSize": 10}, [1, 30, 33, 35, 45, 52, 54]),
        (GUIDE, {"timeInterval": 25, "displayWindowBegin": 75, "displayWindowEnd": 150}, [120]),
        (GUIDE, {"timeInterval": 25, "displayWindowBegin": 0, "displayWindowEnd": 150}, [1, 10, 20, 25, 30, 45, 52, 54, 120]),
        ([(at, 1) for at in range(100)], {"timeInterval": 25, "displayWindowEnd": 100}, [0, 24, 25, 49, 50, 74, 75, 99]),
        ([(7, 3)], {"windowSize": 2}, [7]),
        ([], {"windowSize": 2}, []),
        ([], {"timeInterval": 2}, []),
        ([(10, 3)], {"timeInterval": 2, "displayWindowEnd": 5}, []),
    ],
)
def test_m4(points: Points, attributes: dict[str, int], times: list[int]) -> None:
    whole = all(isinstance(value, int) for _, value in points)
    assert answer("m4", points, "INT32" if whole else "DOUBLE", **attributes) == [(at, dict(points)[at]) for at in times]


def test_m4_of_windows_that_overlap_gives_each_point_once() -> None:
    assert [at for at, _ in answer("m4", WHOLE, windowSize=6, slidingStep=2)] == [1, 3, 5, 6, 7, 8, 9, 10, 11]


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0, NAN]), min_size=1, max_size=20), st.integers(1, 6))
def test_m4_equals_a_plain_loop(values: list[float], size: int) -> None:
    expected = []
    for start in range(0, len(values), size):
        window = values[start : start + size]
        low = high = 0
        for at, value in enumerate(window):
            low = at if value < window[low] else low
            high = at if value > window[high] else high
        smaller, larger, last = min(low, high), max(low, high), len(window) - 1
        inner = [at for at, limit in ((smaller, 0), (larger, smaller)) if at > limit and window[at] != window[last]]
        expected += sorted({start, *(start + at for at in inner), start + last})
    assert [at for at, _ in answer("m4", list(enumerate(values)), "DOUBLE", windowSize=size)] == expected


AGGREGATED = [
    (WHOLE, "INT32", {}, [(1, 17 / 3), (4, 13 / 3), (7, 7.0), (10, 4.0)]),
    (WHOLE, "INT32", {"type": "sum"}, [(1, 17), (4, 13), (7, 21), (10, 8)]),
    (WHOLE, "INT32", {"type": "min"}, [(1, 5), (4, 1), (7, 5), (10, 1)]),
    (WHOLE, "INT32", {"type": "MAX"}, [(1, 7), (4, 7), (7, 9), (10, 7)]),
    (WHOLE, "INT32", {"type": "extreme"}, [(1, 7), (4, 7), (7, 9), (10, 7)]),
    ([(1, -7), (2, 3), (3, -2)], "INT32", {"type": "extreme"}, [(1, 3)]),
    (PARTS, "DOUBLE", {"type": "variance"}, [(1, 2 / 9), (4, 2 / 3), (7, 0.5), (10, 1.5625)]),
    ([], "DOUBLE", {"type": "avg"}, []),
]


@pytest.mark.parametrize(("points", "type_", "attributes", "expected"), AGGREGATED)
def test_one_value_of_each_bucket(points: Points, type_: str, attributes: dict[str, str], expected: Points) -> None:
    results = answer("equal_size_bucket_agg_sample", points, type_, proportion=0.3, **attributes)
    assert [at for at, _ in results] == [at for at, _ in expected]
    assert [value for _, value in results] == pytest.approx([value for _, value in expected])


@pytest.mark.parametrize(
    ("function", "points", "attributes", "times"),
    [
        ("m4_sample", WHOLE, {"proportion": 0.5}, [1, 6, 7, 8, 9, 10, 11]),
        ("m4_sample", WHOLE, {"proportion": 0.3}, [1, 6, 7, 11]),
        ("m4_sample", [(at, 1) for at in range(9)], {"proportion": 0.5}, [0, 1, 6, 7, 8]),
        ("m4_sample", [], {}, []),
        ("outlier_sample", WHOLE, {"proportion": 0.4, "type": "avg", "number": 2}, [2, 3, 6, 7, 10, 11]),
        ("outlier_sample", WHOLE, {"proportion": 0.2, "type": "stendis", "number": 2}, [7, 8, 11]),
        ("outlier_sample", WHOLE, {"proportion": 0.2, "type": "cos", "number": 2}, [6, 7, 11]),
        ("outlier_sample", PARTS, {"proportion": 0.2, "type": "prenextdis", "number": 2}, [4, 9, 11]),
        ("outlier_sample", PARTS, {"proportion": 0.25, "type": "cos", "number": 3}, [4, 8, 10]),
        ("outlier_sample", PARTS, {"proportion": 0.4}, [1, 2, 4, 7, 8, 10]),
        ("outlier_sample", [], {}, []),
        ("outlier_sample", [(4, 1.0)], {}, [4]),
    ],
)
def test_points_of_each_bucket(function: str, points: Points, attributes: dict[str, object], times: list[int]) -> None:
    type_ = "INT32" if all(isinstance(value, int) for _, value in points) else "DOUBLE"
    results = answer(f"equal_size_bucket_{function}", points, type_, **attributes)
    assert results == [(at, dict(points)[at]) for at in times]


def test_a_point_at_random_of_each_bucket_is_the_same_each_time() -> None:
    points = [(at, at * 10) for at in range(35)]
    results = answer("equal_size_bucket_random_sample", points, proportion=0.1)
    assert [at // 10 for at, _ in results] == [0, 1, 2, 3]
    assert results == [(at, at * 10) for at, _ in results] == answer("equal_size_bucket_random_sample", points, proportion=0.1)
    assert answer("equal_size_bucket_random_sample", []) == []


TYPED: list[tuple[str, str, dict[str, object], str]] = [
    ("top_k", "TEXT", {"k": 1}, "VARCHAR"),
    ("m4", "FLOAT", {"windowSize": 3}, "FLOAT"),
    ("equal_size_bucket_agg_sample", "INT32", {"type": "max"}, "INT"),
    ("equal_size_bucket_agg_sample", "INT32", {}, "DOUBLE"),
    ("equal_size_bucket_outlier_sample", "INT64", {}, "BIGINT"),
]


@pytest.mark.parametrize(("function", "input_type", "attributes", "type_"), TYPED)
def test_results_have_the_types_of_the_server(function: str, input_type: str, attributes: dict[str, object], type_: str) -> None:
    assert str(applied(function, input_type, **attributes).type) == type_


def test_rows_without_values_are_no_points() -> None:
    rule = applied("m4", "DOUBLE", windowSize=2)
    rows = pa.table({"time": [1, 3, 4, 5], "x0": pa.array([3.0, None, 2.0, 1.0])})
    assert points_of_series(rule, rows).to_pydict() == {"time": [1, 4, 5], "value": [3.0, 2.0, 1.0]}


def test_large_series_are_vectorized() -> None:
    """What takes a Python loop a row would take minutes."""
    generator = np.random.default_rng(1)
    rows = pa.table({"time": np.arange(1_000_000), "x0": generator.normal(size=1_000_000)})
    cases: tuple[tuple[str, dict[str, object]], ...] = (
        ("top_k", {"k": 1000}),
        ("m4", {"windowSize": 10}),
        ("equal_size_bucket_outlier_sample", {}),
    )
    for name, attributes in cases:
        assert points_of_series(applied(name, "DOUBLE", **attributes), rows).num_rows > 0


REFUSED: list[tuple[str, str, dict[str, object], str]] = [
    ("top_k", "BOOLEAN", {"k": 2}, "expected: [INT32, INT64, FLOAT, DOUBLE, TEXT, STRING, DATE, TIMESTAMP]. actual: BOOLEAN."),
    ("top_k", "INT32", {}, 'attribute "k" is required but was not provided.'),
    ("top_k", "INT32", {"k": 0}, "701: k has to be greater than 0 and less than or equal to 1000."),
    ("bottom_k", "INT32", {"k": 1001}, "k has to be greater than 0 and less than or equal to 1000."),
    ("top_k", "INT32", {"k": "a"}, 'For input string: "a"'),
    ("m4", "INT32", {}, 'attribute "windowSize"/"timeInterval" is required but was not provided.'),
    ("m4", "INT32", {"windowSize": 2, "timeInterval": 3}, 'use attribute "windowSize" or "timeInterval" only one at a time.'),
    ("m4", "INT32", {"windowSize": 0}, "301: Parameter windowSize(0) should be positive."),
    ("m4", "INT32", {"timeInterval": 4, "slidingStep": 0}, "Parameter slidingStep(0) should be positive."),
    (
        "m4",
        "INT32",
        {"timeInterval": 4, "displayWindowBegin": 9, "displayWindowEnd": 8},
        "displayWindowEnd(8) < displayWindowBegin(9)",
    ),
    ("m4", "TEXT", {"windowSize": 2}, "expected: [INT32, INT64, FLOAT, DOUBLE]. actual: TEXT."),
    (
        "equal_size_bucket_random_sample",
        "INT32",
        {"proportion": 0},
        "Illegal sample proportion. proportion > 0 and proportion <= 1",
    ),
    ("equal_size_bucket_agg_sample", "INT32", {"type": "foo"}, "Illegal aggregation method."),
    ("equal_size_bucket_outlier_sample", "INT32", {"type": "foo"}, "Illegal outlier method."),
    ("equal_size_bucket_outlier_sample", "INT32", {"number": 0}, "Illegal number. Number should be greater than 0."),
]


@pytest.mark.parametrize(("function", "type_", "attributes", "message"), REFUSED)
def test_inputs_and_attributes_that_do_not_fit_are_refused(
    function: str, type_: str, attributes: dict[str, object], message: str
) -> None:
    with pytest.raises(TypeMismatchError, match=re.escape(message)) as refused:
        applied(function, type_, **attributes)
    assert refused.value.hint


VARIANTS: dict[str, list[dict[str, object]]] = {
    "equal_size_bucket_agg_sample": [{"type": name} for name in AGGREGATIONS],
    "equal_size_bucket_outlier_sample": [{"type": name} for name in OUTLIERS],
    "m4": [{"windowSize": 2}],
    "top_k": [{"k": 2}],
    "bottom_k": [{"k": 2}],
}


@pytest.mark.parametrize("type_", ["INT32", "INT64", "FLOAT", "DOUBLE"])
@pytest.mark.parametrize("points", [[], [(1, 5), (2, 7), (3, 5)]])
def test_values_have_the_declared_type_also_if_a_series_is_empty(type_: str, points: Points) -> None:
    for function in IOTDB.functions_of_type(SeriesArrowFunction):
        types = [type_] * function.min_arguments
        for attributes in VARIANTS.get(function.name, [{}]):
            rule = applied(function.name, *types, **attributes)
            inputs = {f"x{number}": pa.array([x for _, x in points], ARROW[type_]) for number in range(len(types))}
            results = points_of_series(rule, pa.table({"time": pa.array([at for at, _ in points], pa.int64())} | inputs))
            declared = {tree_type: name for name, tree_type in TREE_TYPES.items()}[rule.type]
            assert results["value"].type == ARROW[declared], (function.name, attributes)
