"""IoTDB's functions of one row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from headrace.errors import TypeMismatchError
from headrace.model.expressions import Expression
from tests.compute.iotdb.samples import NAN, Rows, call, columns, frame, planned, same, types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_numbers(small: SparkSession) -> None:
    names = [("sin", ".i"), ("tan", ".f"), ("asin", ".d"), ("atan", ".d"), ("sinh", ".i"), ("cosh", ".f"), ("degrees", ".d")]
    names += [("sign", ".d"), ("ceil", ".d"), ("floor", ".f"), ("exp", ".f"), ("ln", ".d"), ("log10", ".d"), ("sqrt", ".d")]
    assert columns(frame(small), *(call(*item) for item in names)) == [
        [-0.958924275, -0.656986599, 0.656986599, 0.656986599, 0.0],
        [14.1014199, -14.1014199, 3.00956967, None, None],
        ["NaN"] * 5,
        [1.19028995, -1.19028995, "NaN", 1.47112767, -1.47112767],
        [74.2032106, -548.316123, 548.316123, 548.316123, 0.0],
        [2.35240962, 2.35240962, 1.88842388, None, None],
        [143.239449, -143.239449, "NaN", 572.957795, -572.957795],
        [1.0, -1.0, "NaN", 1.0, -1.0],
        [3.0, -2.0, "NaN", 10.0, -10.0],
        [1.0, -2.0, 1.0, None, None],
        [4.48168907, 0.22313016, 3.49034296, None, None],
        [0.916290732, "NaN", "NaN", 2.30258509, "NaN"],
        [0.397940009, "NaN", "NaN", 1.0, "NaN"],
        [1.58113883, "NaN", "NaN", 3.16227766, "NaN"],
    ]


@pytest.mark.spark
def test_abs_keeps_the_type_and_zero_has_a_logarithm(small: SparkSession) -> None:
    items = [call("abs", name) for name in (".i", ".l", ".f", ".d")]
    assert types(*items) == ["INT", "BIGINT", "FLOAT", "DOUBLE"]
    assert columns(frame(small), *items)[:2] == [[5, 7, 7, 7, 0], [50, 70, 70, None, 5]]
    zero = frame(small, [(1, {"d": 0.0, "l": 2**62 + 1})])
    assert columns(zero, call("ln", ".d"), call("abs", ".l"), call("ceil", ".l")) == [
        [-math.inf],
        [2**62 + 1],
        [float(f"{2.0**62:.9g}")],
    ]


@pytest.mark.spark
def test_constants_have_a_value_where_an_input_has_one(small: SparkSession) -> None:
    items = (
        call("const", ".f", ".i", value="7", type="INT32"),
        call("const", ".f", value="x", type="TEXT"),
        call("const", ".b", value="true", type="BOOLEAN"),
        call("const", ".i", value="1.5", type="FLOAT"),
        call("pi", ".f", ".da"),
        call("e", ".f"),
    )
    third = [round(math.pi, 8)] * 3 + [None] * 2
    assert columns(frame(small), *items) == [
        [7] * 5,
        ["x"] * 3 + [None] * 2,
        [True, None, True, True, True],
        [1.5] * 5,
        third,
        [round(math.e, 8)] * 3 + [None] * 2,
    ]
    assert types(*items) == ["INT", "VARCHAR", "BOOL", "FLOAT", "DOUBLE", "DOUBLE"]


@pytest.mark.spark
def test_ranges_and_rounding(small: SparkSession) -> None:
    items = (
        call("in_range", ".i", lower="0", upper="6"),
        call("in_range", ".d", lower="-3", upper="3"),
        call("on_off", ".i", threshold="5"),
        call("on_off", ".d", threshold="2.5"),
        call("round", ".d"),
        call("round", ".f", 1),
        call("round", ".i", -1),
        call("round", ".l", -1),
    )
    assert columns(frame(small), *items) == [
        [True, False, False, False, True],
        [True, True, False, False, False],
        [True, False, True, True, False],
        [True, False, False, True, False],
        same([2.0, -2.0, NAN, 10.0, -10.0]),
        [1.5, -1.5, 1.2, None, None],
        [0.0, -10.0, 10.0, 10.0, 0.0],
        [50.0, -70.0, 70.0, None, 0.0],
    ]


TEXTS: Rows = (
    (1, {"t": "1test1", "s": " a\tb "}),
    (2, {"t": "22test22", "s": "2222test"}),
    (3, {"s": "x"}),
    (4, {"t": "", "s": ""}),
)


@pytest.mark.spark
def test_text(small: SparkSession) -> None:
    items = (
        call("string_contains", ".t", s="test"),
        call("string_matches", ".t", regex="1.*"),
        call("string_matches", ".t", regex="1"),
        call("length", ".t"),
        call("locate", ".t", target="t"),
        call("locate", ".t", target="t", reverse="true"),
        call("locate", ".t", target="st", reverse="true"),
        call("locate", ".t", target="q"),
        call("startswith", ".t", target="1"),
        call("endswith", ".t", target="22"),
        call("upper", ".t"),
        call("lower", ".s"),
        call("trim", ".s"),
        call("replace", ".t", "t", "T"),
        call("replace", ".t", "", "-"),
        call("substring", ".t", 1, 2),
        call("substring", ".t", 3),
        call("substring", ".t", 0, 1),
        call("substring", ".t", 7, 10),
    )
    assert columns(frame(small, TEXTS), *items) == [
        [True, True, None, False],
        [True, False, None, False],
        [False, False, None, False],
        [6, 8, None, 0],
        [1, 2, None, -1],
        [4, 5, None, -1],
        [3, 4, None, -1],
        [-1, -1, None, -1],
        [True, False, None, False],
        [False, True, None, False],
        ["1TEST1", "22TEST22", None, ""],
        [" a\tb ", "2222test", "x", ""],
        ["a\tb", "2222test", "x", ""],
        ["1TesT1", "22TesT22", None, ""],
        ["-1-t-e-s-t-1-", "-2-2-t-e-s-t-2-2-", None, "-"],
        ["1t", "22", None, ""],
        ["est1", "test22", None, ""],
        ["", "", None, ""],
        ["", "22", None, ""],
    ]


@pytest.mark.spark
def test_texts_of_several_series(small: SparkSession) -> None:
    rows: Rows = (
        (1, {"t": "1test1"}),
        (2, {"t": "22test22", "s": "2222test"}),
        (3, {"e": 1}),
        (4, {"t": "aa", "s": "xx"}),
        (5, {"t": "ab", "s": "abc"}),
    )
    items = (
        call("concat", ".t", ".s", target1="IoT", target2="DB", series_behind="true"),
        call("concat", ".t", ".s", target1="-"),
        call("concat", ".t"),
        call("strcmp", ".t", ".s"),
    )
    assert columns(frame(small, rows), *items) == [
        ["IoTDB1test1", "IoTDB22test222222test", "IoTDB", "IoTDBaaxx", "IoTDBababc"],
        ["1test1-", "22test222222test-", "-", "aaxx-", "ababc-"],
        ["1test1", "22test22", "", "aa", "ab"],
        [None, 66, None, -23, -1],
    ]


NUMBERS = "[INT32, INT64, FLOAT, DOUBLE]"
REFUSED = [
    (call("sin", ".t"), f"701: the data type of the input series (index: 0) is not valid. expected: {NUMBERS}. actual: TEXT."),
    (call("abs", ".b"), f"expected: {NUMBERS}. actual: BOOLEAN."),
    (call("sin", ".at"), "actual: TIMESTAMP."),
    (call("sin", ".i", ".l"), "the number of the input series is not valid. expected: 1. actual: 2."),
    (call("strcmp", ".t"), "the number of the input series is not valid. expected: 2. actual: 1."),
    (call("strcmp", ".t", ".i"), "(index: 1) is not valid. expected: [TEXT, STRING]. actual: INT32."),
    (call("string_contains", ".t"), 'attribute "s" is required but was not provided.'),
    (call("string_contains", ".s", s="a"), "expected: TEXT. actual: STRING."),
    (call("length", ".o"), "expected: [TEXT, STRING]. actual: BLOB."),
    (call("locate", ".t"), 'attribute "target" is required'),
    (call("const", ".i", value="7"), 'attribute "type" is required but was not provided.'),
    (call("const", ".i", value="7", type="OBJECT"), "the given value type is not supported."),
    (call("const", ".i", value="a", type="INT32"), 'For input string: "a"'),
    (call("const", ".i", value="3000000000", type="INT32"), 'For input string: "3000000000"'),
    (call("in_range", ".i", lower="6", upper="0"), "Upper can not be smaller than lower."),
    (call("in_range", ".i", lower="6"), 'attribute "upper" is required'),
    (call("on_off", ".b", threshold="1"), f"expected: {NUMBERS}. actual: BOOLEAN."),
]


@pytest.mark.parametrize(("node", "message"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_inputs_and_attributes_that_do_not_fit_are_refused(node: Expression, message: str) -> None:
    with pytest.raises(TypeMismatchError) as refused:
        planned(node)
    assert message in refused.value.message
    assert refused.value.hint
