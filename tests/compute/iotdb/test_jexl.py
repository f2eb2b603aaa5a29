"""JEXL lambdas: the figures are what a running server 1.3.4 answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.errors import TypeMismatchError
from tests.compute.iotdb.samples import Rows, call, columns, frame, planned, types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS: list[tuple[str, list[object]]] = [
    ("x -> {x + 1}", [6.0, -6.0, 8.0, 1.0]),
    ("x -> {x/2}", [2.0, -3.0, 3.0, 0.0]),
    ("x -> {x % 3}", [2.0, -1.0, 1.0, 0.0]),
    ("x -> {-x}", [-5.0, 7.0, -7.0, 0.0]),
    ("x -> {-(x) % 3}", [-2.0, 1.0, -1.0, 0.0]),
    ("x -> {x*1.5}", [7.5, -10.5, 10.5, 0.0]),
    ("x -> {x * 1.0 / 2}", [2.5, -3.5, 3.5, 0.0]),
    ("x -> {1 / 2}", [0.0, 0.0, 0.0, 0.0]),
    ("x -> {x - 1 - 1}", [3.0, -9.0, 5.0, -2.0]),
    ("x -> {2 + x * 3 - 4}", [13.0, -23.0, 19.0, -2.0]),
    ("x -> x + 1", [6.0, -6.0, 8.0, 1.0]),
    ("(x) -> { x + 1; }", [6.0, -6.0, 8.0, 1.0]),
    ("function(x) { x + 1 }", [6.0, -6.0, 8.0, 1.0]),
    ("x -> {var y = x * 2; y + 1}", [11.0, -13.0, 15.0, 1.0]),
    ("x -> { if (x > 1) { return 1; } else { return 2; } }", [1.0, 2.0, 1.0, 2.0]),
    ("x -> {if (x > 0) return 1; 2}", [1.0, 2.0, 1.0, 2.0]),
    ("x -> {x div 2 + x mod 2}", [3.0, -4.0, 4.0, 0.0]),
    ("(x, y) -> {x + 1}", [6.0, -6.0, 8.0, 1.0]),
    ("x -> {x > 3}", [True, False, True, False]),
    ("x -> {x > 0 and x < 6}", [True, False, False, False]),
    ("x -> {x == 5 || x eq 7}", [True, False, True, False]),
    ("x -> {not (x gt 5)}", [True, True, False, True]),
    ('x -> {x>3?"a":"b"}', ["a", "b", "a", "b"]),
    ('x -> {x == 0 ? "z" : x > 0 ? "p" : "n"}', ["p", "n", "p", "z"]),
    ('x -> {x == "0"}', [False, False, False, True]),
    ("x -> {'q'}", ["q", "q", "q", "q"]),
]


@pytest.mark.spark
def test_lambdas_of_a_number(small: SparkSession) -> None:
    rows: Rows = tuple((at, {"i": value, "e": 1}) for at, value in enumerate((5, -7, 7, 0, None)))
    results = columns(frame(small, rows), *(call("jexl", ".i", expr=source) for source, _ in NUMBERS))
    assert results == [[*expected, None] for _, expected in NUMBERS]


@pytest.mark.spark
def test_lambdas_of_text_truth_and_fractions(small: SparkSession) -> None:
    rows: Rows = (
        (1, {"f": 1.1, "i": 2, "t": "3", "d": 0.1, "b": True}),
        (2, {"f": 0.0, "i": 0, "t": "", "d": 0.0, "b": False}),
        (3, {"f": -2.5, "i": -7, "t": "x", "d": 1e300, "b": True}),
    )
    items = [
        (call("jexl", ".t", expr='x -> {x + "q"}'), ["3q", "q", "xq"]),
        (call("jexl", ".t", expr="x -> {x + 1}"), ["31", "1", "x1"]),
        (call("jexl", ".t", expr="x -> {x == 3}"), [True, False, False]),
        (call("jexl", ".t", expr='x -> {x < "5"}'), [True, True, False]),
        (call("jexl", ".t", expr='x -> {x =~ "[0-9]+"}'), [True, False, False]),
        (call("jexl", ".d", expr='x -> {x + ""}'), ["0.1", "0.0", "1.0E300"]),
        (call("jexl", ".f", expr="x -> {x + 1}"), [2.1, 1.0, -1.5]),
        (call("jexl", ".f", expr='x -> {x * 3 + ""}'), ["3.3000000000000003", "0.0", "-7.5"]),
        (call("jexl", ".b", expr="x -> {!x && true}"), [False, True, False]),
        (call("jexl", ".b", expr="x -> {x ? 1 : 0}"), [1.0, 0.0, 1.0]),
        (call("jexl", ".b", expr='x -> {x + "a"}'), ["truea", "falsea", "truea"]),
        (call("jexl", ".i", ".d", expr="(a, b) -> {a / 2 + b}"), [1.1, 0.0, 1e300]),
        (call("jexl", ".i", ".t", expr="(x,y) -> {x + y}"), ["23", "0", "-7x"]),
    ]
    assert columns(frame(small, rows), *(node for node, _ in items)) == [expected for _, expected in items]


@pytest.mark.spark
def test_a_divisor_of_zero_is_an_error(small: SparkSession) -> None:
    with pytest.raises(Exception, match="by zero in JEXL"):
        columns(frame(small, [(1, {"i": 0})]), call("jexl", ".i", expr="x -> {1 / x}"))


def test_results_are_doubles_text_or_truth() -> None:
    sources = ("x -> {x + 1}", "x -> {x > 1}", 'x -> {x + "a"}')
    assert types(*(call("jexl", ".i", expr=source) for source in sources)) == ["DOUBLE", "BOOL", "VARCHAR"]


REFUSED = [
    ("x ->", "701: JEXL: parsing error at the end"),
    ("x + 1", "begins no lambda"),
    ("x -> {x ** 2}", "parsing error in '*'"),
    ("x -> {x / 0}", "JEXL error : / error"),
    ("x -> {x + y}", "variable 'y' is undefined"),
    ("x -> {math.abs(x)}", "the call or member math.… is not supported"),
    ("x -> {x.getClass()}", "the call or member x.… is not supported"),
    ('x -> {new("java.lang.Double", 1)}', "the call or member new(… is not supported"),
    ("x -> {x['a']}", "the call or member x[… is not supported"),
    ("x -> {while (true) {}}", "the call or member while(… is not supported"),
    ('x -> {x > 0 ? 1 : "a"}', "a choice between values of different types is not supported"),
    ("x -> {x; 1}", "a statement whose value is not used is not supported"),
    ("x -> {x # 1}", "parsing error in '#'"),
    ("x -> {x} 1", "parsing error in '1'"),
    ('x -> {"a" * 2}', "arithmetic of text is not supported"),
]


@pytest.mark.parametrize(("source", "message"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_what_the_subset_has_not_is_refused_by_name(source: str, message: str) -> None:
    with pytest.raises(TypeMismatchError) as refused:
        planned(call("jexl", ".i", expr=source))
    assert message in refused.value.message
    assert refused.value.hint


def test_inputs_are_checked() -> None:
    with pytest.raises(TypeMismatchError, match='attribute "expr" is required'):
        planned(call("jexl", ".i"))
    with pytest.raises(TypeMismatchError, match="actual: STRING"):
        planned(call("jexl", ".s", expr="x -> {x}"))
    with pytest.raises(TypeMismatchError, match="the lambda takes 1 inputs, not 2"):
        planned(call("jexl", ".i", ".l", expr="x -> {x}"))


def test_text_cannot_leave_its_quotes() -> None:
    (output,) = planned(call("jexl", ".t", expr="x -> {x + \"' || 1 || '\"}")).outputs
    assert "'\\' || 1 || \\''" in str(output.node)
