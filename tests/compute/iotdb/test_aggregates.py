"""IoTDB's aggregates over NULL, NaN, ties, one row and none."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.compute import language
from headrace.compute.functions.aggregates import AggregateFunction, StreamUse
from headrace.compute.iotdb.aggregates import normalize_count_if
from headrace.errors import TypeMismatchError
from headrace.model.expressions import Expression, Star
from tests.compute.iotdb.samples import DAY, NAN, NEXT_DAY, Rows, answer, call, frame, planned, types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IOTDB = language("iotdb")


@pytest.mark.spark
def test_aggregates_over_values_null_and_nan(small: SparkSession) -> None:
    figures: list[tuple[Expression, Any]] = [
        (call("count", ".b"), 4),
        (call("count", ".e"), 0),
        (call("count", ".o"), 3),
        (call("count_time", Star()), 5),
        (call("sum", ".i"), 12.0),
        (call("sum", ".f"), 1.25),
        (call("sum", ".d"), "NaN"),
        (call("sum", ".e"), None),
        (call("avg", ".i"), 2.4),
        (call("avg", ".f"), 0.416666667),
        (call("min_value", ".i"), -7),
        (call("max_value", ".i"), 7),
        (call("min_value", ".d"), -10.0),
        (call("max_value", ".d"), 10.0),
        (call("max_value", ".s"), "zz"),
        (call("min_value", ".da"), DAY),
        (call("extreme", ".i"), 7),
        (call("extreme", ".l"), 70),
        (call("extreme", ".d"), 10.0),
        (call("extreme", ".f"), 1.5),
        (call("extreme", ".e"), None),
        (call("first_value", ".b"), True),
        (call("last_value", ".d"), -10.0),
        (call("last_value", ".da"), NEXT_DAY),
        (call("min_time", ".b"), 1),
        (call("max_time", ".da"), 3),
        (call("time_duration", ".b"), 5),
        (call("time_duration", ".e"), None),
        (call("stddev", ".i"), 5.98331012),
        (call("stddev_pop", ".i"), 5.35163526),
        (call("variance", ".i"), 35.8),
        (call("var_pop", ".i"), 28.64),
        (call("stddev_samp", ".f"), 1.66458203),
        (call("mode", ".t"), "aa"),
        (call("mode", ".i"), 7),
        (call("max_by", ".t", ".i"), "aa"),
        (call("max_by", ".time", ".i"), 3),
        (call("min_by", ".b", ".i"), None),
        (call("max_by", ".t", ".d"), "cc"),
        (call("max_by", ".i", ".time"), 0),
        (call("max_by", ".i", ".da"), 7),
        (call("+", call("avg", ".i"), 1), 3.4),
    ]
    (results,) = answer(frame(small), *(node for node, _ in figures))
    assert list(results) == [value for _, value in figures]


def test_results_have_the_types_of_the_server() -> None:
    items = [("sum", ".i"), ("avg", ".l"), ("count", ".t"), ("extreme", ".f"), ("min_time", ".d"), ("time_duration", ".d")]
    items += [("mode", ".t"), ("first_value", ".o"), ("max_value", ".da")]
    results = types(*(call(*item) for item in items), call("max_by", ".time", ".d"), call("max_by", ".f", ".d"))
    assert results == ["DOUBLE", "DOUBLE", "BIGINT", "FLOAT", "BIGINT", "BIGINT", "VARCHAR", "VARBINARY", "DATE", "BIGINT", "FLOAT"]


@pytest.mark.spark
def test_one_row_and_none(small: SparkSession) -> None:
    names = ("count", "sum", "avg", "stddev", "stddev_pop", "variance", "var_samp", "extreme", "mode", "first_value", "min_time")
    items = [*(call(name, ".i") for name in names), call("max_by", ".l", ".i"), call("count_if", ".b", 1)]
    (one,) = answer(frame(small), *items, where=call("=", ".time", 1))
    assert one == (1, 5.0, 5.0, None, 0.0, None, None, 5, 5, 5, 1, 50, 1)
    (none,) = answer(frame(small), *items, where=call(">", ".i", 100))
    assert none == (0, *[None] * 11, 0)
    assert answer(frame(small, [(1, {"i": 1})]), call("sum", ".i"), where=call(">", ".i", 100)) == [(None,)]


TIES: Rows = (
    (1, {"i": 5, "d": 2.0, "b": True, "t": "a", "l": -5}),
    (2, {"i": -5, "d": -2.0, "b": False, "t": "b", "l": 5}),
    (3, {"i": 3, "d": 0.0, "b": False, "t": "b", "l": 1}),
    (4, {"i": 5, "d": 0.0, "b": True, "t": "a", "l": 1}),
)


@pytest.mark.spark
def test_ties_go_to_the_positive_or_the_earliest(small: SparkSession) -> None:
    modes = [call("mode", name) for name in (".i", ".d", ".b", ".t", ".l")]
    extremes = [call("extreme", name) for name in (".i", ".d", ".l")]
    picks = [call("max_by", ".time", ".i"), call("min_by", ".time", ".i"), call("max_by", ".time", ".l")]
    assert answer(frame(small, TIES), *modes, *extremes, *picks) == [(5, 0.0, True, "a", 1, 5, 2.0, 5, 1, 2, 2)]


@pytest.mark.spark
def test_the_least_integer_is_never_the_extreme_of_several(small: SparkSession) -> None:
    least = ((1, {"i": -(2**31), "l": -(2**63)}), (2, {"i": 5, "l": 2**63 - 1}))
    extremes = [call("extreme", name) for name in (".i", ".l")]
    assert answer(frame(small, least), *extremes) == [(5, 2**63 - 1)]
    assert answer(frame(small, least[:1]), *extremes) == [(-(2**31), -(2**63))]


@pytest.mark.spark
def test_nan_is_left_out_unless_there_is_nothing_else(small: SparkSession) -> None:
    rows: Rows = ((2, {"d": 1.0}), (3, {"d": 2.0}), (4, {"d": NAN}))
    items = [call(name, ".d") for name in ("min_value", "max_value", "extreme", "sum")]
    items += [call("max_by", ".time", ".d"), call("min_by", ".time", ".d")]
    assert answer(frame(small, rows), *items) == [(1.0, 2.0, 2.0, "NaN", 3, 2)]
    assert answer(frame(small, [(1, {"d": NAN})]), *items) == [("NaN", "NaN", "NaN", "NaN", 1, 1)]


RUNS: Rows = tuple((at + 1, {"b": value, "e": 1}) for at, value in enumerate((True, None, True, False, None, True, True)))


@pytest.mark.spark
def test_count_if_counts_runs_of_a_length(small: SparkSession) -> None:
    keeps = (1, 2, 3, "keep = 2", "KEEP=1", "<= 1", "keep>1", "keep != 2")
    results = answer(frame(small, RUNS), *(call("count_if", ".b", keep) for keep in keeps))
    assert results == [(2, 2, 0, 2, 0, 0, 2, 0)]
    both = call("and", ".b", call("=", ".e", 1))
    strict = [call("count_if", both, keep, ignoreNull="false") for keep in (1, 2, "keep=1")]
    assert answer(frame(small, RUNS), *strict) == [(3, 1, 2)]


def test_keep_is_no_path() -> None:
    changes = [
        (call("count_if", ".b", call(">=", ".KEEP", 2)), call("count_if", ".b", "KEEP >= 2")),
        (call("+", call("count_if", ".b", call("=", ".keep", 1)), 1), call("+", call("count_if", ".b", "KEEP = 1"), 1)),
        (call("count_if", ".b", 2, ignoreNull="false"), call("count_if", ".b", 2, ignoreNull="false")),
        (call("count_if", ".b", call(">", ".kept", 2)), call("count_if", ".b", call(">", ".kept", 2))),
        (call("max_by", ".b", call(">", ".keep", 2)), call("max_by", ".b", call(">", ".keep", 2))),
    ]
    assert [normalize_count_if(written) for written, _ in changes] == [normal for _, normal in changes]


@pytest.mark.spark
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from([None, -2, 0, 1, 2]), st.sampled_from([None, True, False])), min_size=1, max_size=12))
def test_mode_extreme_and_runs_equal_a_plain_oracle(small: SparkSession, pairs: list[tuple[int | None, bool | None]]) -> None:
    rows = [(at, {"i": value, "b": flag, "e": 1}) for at, (value, flag) in enumerate(pairs)]
    values = [value for value, _ in pairs if value is not None]
    flags = [flag for _, flag in pairs if flag is not None]
    mode = max(Counter(values).items(), key=lambda item: (item[1], -values.index(item[0])))[0] if values else None
    extreme = max(values, key=lambda value: (abs(value), value)) if values else None
    lengths = [len(list(run)) for flag, run in groupby(flags) if flag]
    results = answer(frame(small, rows), call("mode", ".i"), call("extreme", ".i"), call("count_if", ".b", 2))
    assert results == [(mode, extreme, sum(length >= 2 for length in lengths))]


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(function.name for function in IOTDB.functions_of_type(AggregateFunction)))
def test_partials_of_halves_merge_to_the_whole(small: SparkSession, name: str) -> None:
    from headrace.compute.windows.segments import finish_as_ticks, merge, prepare, to_segments

    arguments: dict[str, tuple[Expression | str | int, ...]] = {
        "count_if": (call(">", ".i", 0), 2),
        "count_time": (Star(),),
        "max_by": (".t", ".i"),
        "min_by": (".b", ".d"),
    }
    plan = planned(call(name, *arguments.get(name, (".i",))))
    prepared = prepare(plan, frame(small))
    halves = [to_segments(plan, prepared.where(condition)) for condition in ("_ts <= 2", "_ts > 2")]
    merged = finish_as_ticks(plan, merge(plan, halves[0].union(halves[1]))).collect()
    whole = finish_as_ticks(plan, to_segments(plan, prepared)).collect()
    assert [row["o0"] for row in merged] == pytest.approx([row["o0"] for row in whole])


def test_every_function_that_a_stream_may_use_keeps_partials_of_bounded_size() -> None:
    functions = list(IOTDB.functions_of_type(AggregateFunction))
    assert len(functions) == 22
    assert {function.name for function in functions if function.streams is StreamUse.NONE} == {"count_if", "mode"}
    assert all(function.bounded for function in functions if function.streams is not StreamUse.NONE)


NUMERIC_ONLY = (
    "701: Aggregate functions [AVG, SUM, EXTREME, STDDEV, STDDEV_POP, STDDEV_SAMP, VARIANCE, VAR_POP, VAR_SAMP] only support"
)
REFUSED = [
    (call("sum", ".b"), NUMERIC_ONLY),
    (call("avg", ".s"), NUMERIC_ONLY),
    (call("extreme", ".da"), NUMERIC_ONLY),
    (call("var_pop", ".at"), NUMERIC_ONLY),
    (
        call("min_value", ".t"),
        "Aggregate functions [MIN_VALUE, MAX_VALUE] only support data types [INT32, INT64, FLOAT, DOUBLE, STRING",
    ),
    (call("max_value", ".b"), "Aggregate functions [MIN_VALUE, MAX_VALUE] only support data types"),
    (call("count_if", ".i", 2), "Input series of Aggregation function [count_if] only supports data type [BOOLEAN]"),
    (call("count_if", ".b"), "Error size of input expressions. expression: count_if, actual size: 1, expected size: [2]."),
    (call("count_if", ".b", "keep"), "For input string"),
    (call("count_if", ".b", 2.5), "For input string"),
    (call("sum", ".i", ".i"), "Error size of input expressions. expression: sum, actual size: 2, expected size: [1]."),
    (call("max_by", ".i", ".t"), "301: Unsupported dataType: Unsupported data type in MaxBy/MinBy: TEXT"),
    (call("max_by", ".i", ".b"), "Unsupported data type in MaxBy/MinBy: BOOLEAN"),
    (call("mode", ".o"), "BLOB"),
]


@pytest.mark.parametrize(("node", "message"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_types_that_an_aggregate_does_not_take_are_refused(node: Expression, message: str) -> None:
    with pytest.raises(TypeMismatchError) as refused:
        planned(node)
    assert message in refused.value.message
    assert refused.value.hint
