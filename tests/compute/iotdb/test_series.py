"""IoTDB's functions of a point and its neighbors; rows without the series lie between its points."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import TypeMismatchError
from headrace.model.expressions import Expression
from tests.compute.iotdb.samples import NAN, Rows, call, columns, frame, planned, same, types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_differences_and_change_points(small: SparkSession) -> None:
    names = [("difference", ".i"), ("difference", ".l"), ("difference", ".f"), ("difference", ".d"), ("time_difference", ".b")]
    names += [("time_difference", ".at"), ("non_negative_difference", ".l"), ("derivative", ".i"), ("derivative", ".l")]
    names += [("non_negative_derivative", ".i"), ("change_points", ".i"), ("change_points", ".d"), ("change_points", ".b")]
    names += [("change_points", ".t"), ("difference", ".e")]
    items = [call(*item) for item in names]
    assert columns(frame(small), *items) == [
        [None, -12, 14, 0, -7],
        [None, -120, 140, None, -65],
        [None, -3.0, 2.75, None, None],
        same([None, -5.0, NAN, NAN, -20.0]),
        [None, None, 2, 1, 2],
        [None, None, 2, None, None],
        [None, 120, 140, None, 65],
        [None, -12.0, 14.0, 0.0, -3.5],
        [None, -120.0, 140.0, None, -21.6666667],
        [None, 12.0, 14.0, 0.0, 3.5],
        [5, -7, 7, None, 0],
        same([2.5, -2.5, NAN, 10.0, -10.0]),
        [True, None, False, True, None],
        ["aa", "bb", "aa", "cc", "%c_"],
        [None] * 5,
    ]
    kinds = [
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "BIGINT",
        "BIGINT",
        "BIGINT",
        "DOUBLE",
        "DOUBLE",
        "DOUBLE",
        "INT",
        "DOUBLE",
        "BOOL",
    ]
    assert types(*items) == [*kinds, "VARCHAR", "INT"]
    assert all(series.sparse for series in planned(*items).series.calls)


@pytest.mark.spark
def test_diff_takes_null_for_a_row(small: SparkSession) -> None:
    rows: Rows = ((1, {"i": 1, "l": 1}), (2, {"i": 2}), (3, {"i": 5, "l": 3}), (4, {"l": 4}))
    items = (call("diff", ".i"), call("diff", ".l", ignoreNull="false"), call("diff", ".l", ignoreNull="true"))
    assert columns(frame(small, rows), *items) == [[None, 1.0, 3.0, None], [None, None, None, 1.0], [None, None, 2.0, 1.0]]
    assert not any(series.sparse for series in planned(*items).series.calls)


@pytest.mark.spark
def test_runs_of_zeros_and_of_other_values(small: SparkSession) -> None:
    counts = [call("zero_count", ".i"), call("non_zero_count", ".i"), call("zero_count", ".b"), call("non_zero_count", ".b")]
    durations = [call("zero_duration", ".i"), call("non_zero_duration", ".i"), call("non_zero_duration", ".b")]
    limits = [
        call("non_zero_count", ".d"),
        call("non_zero_count", ".i", min="2"),
        call("non_zero_duration", ".i", min="1", max="2"),
    ]
    assert columns(frame(small), *counts, *durations, *limits) == [
        [None, None, None, None, 1],
        [4, None, None, None, None],
        [None, None, 1, None, None],
        [1, None, None, 2, None],
        [None, None, None, None, 0],
        [3, None, None, None, None],
        [0, None, None, 2, None],
        [5, None, None, None, None],
        [4, None, None, None, None],
        [None] * 5,
    ]


@pytest.mark.spark
def test_runs_of_the_guide(small: SparkSession) -> None:
    rows = [(at, {"i": value, "d": float(value)}) for at, value in enumerate((0, 1, 1, 0, 1, 0, 0, 1))]
    items = (call("zero_count", ".i"), call("non_zero_count", ".i"), call("zero_duration", ".d"), call("non_zero_duration", ".d"))
    assert columns(frame(small, rows), *items) == [
        [1, None, None, 1, None, 2, None, None],
        [None, 2, None, None, 1, None, None, 1],
        [0, None, None, 0, None, 1, None, None],
        [None, 1, None, None, 0, None, None, 0],
    ]


@pytest.mark.spark
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from([None, 0, 1, 2]), min_size=1, max_size=14))
def test_runs_and_changes_equal_a_plain_oracle(small: SparkSession, values: list[int | None]) -> None:
    points = [(at, value) for at, value in enumerate(values) if value is not None]
    runs = [(zero, [at for at, _ in run]) for zero, run in groupby(points, key=lambda point: point[1] == 0)]
    counts = {run[0]: len(run) for zero, run in runs if not zero}
    changes = {run[0][0]: run[0][1] for run in (list(group) for _, group in groupby(points, key=lambda point: point[1]))}
    rows = [(at, {"i": value, "e": 1}) for at, value in enumerate(values)]
    results = columns(frame(small, rows), call("non_zero_count", ".i"), call("change_points", ".i"))
    assert results == [[counts.get(at) for at in range(len(values))], [changes.get(at) for at in range(len(values))]]


REFUSED = [
    (
        call("difference", ".b"),
        "701: the data type of the input series (index: 0) is not valid. expected: [INT32, INT64, FLOAT, DOUBLE]",
    ),
    (call("difference", ".i", ".l"), "the number of the input series is not valid. expected: 1. actual: 2."),
    (call("zero_count", ".t"), "expected: [INT32, INT64, FLOAT, DOUBLE, BOOLEAN]. actual: TEXT."),
    (call("zero_count", ".i", min="0"), "min can not be smaller than 1."),
    (call("zero_duration", ".i", min="-1"), "min can not be smaller than 0."),
    (call("zero_count", ".i", min="3", max="2"), "max can not be smaller than min."),
    (call("diff", ".t"), "Input series of Scalar function [DIFF] only supports numeric data types [INT32, INT64, FLOAT, DOUBLE]"),
]


@pytest.mark.parametrize(("node", "message"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_inputs_that_do_not_fit_are_refused(node: Expression, message: str) -> None:
    with pytest.raises(TypeMismatchError) as refused:
        planned(node)
    assert message in refused.value.message
    assert refused.value.hint
