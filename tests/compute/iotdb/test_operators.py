"""IoTDB's operators and conversions, with NULL, NaN and every type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.errors import TypeMismatchError
from headrace.model.expressions import Case, Cast, Expression, Literal
from headrace.model.types import DataType, TypeKind
from tests.compute.iotdb.samples import DAY, INFINITY, NAN, call, columns, expression, frame, planned, same, types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT, INT32, INT64 = DataType(TypeKind.VARCHAR), DataType(TypeKind.INT), DataType(TypeKind.BIGINT)
BOOLEAN, FLOAT, DOUBLE = DataType(TypeKind.BOOL), DataType(TypeKind.FLOAT), DataType(TypeKind.DOUBLE)


@pytest.mark.spark
def test_arithmetic_is_javas_of_doubles(small: SparkSession) -> None:
    items = (
        call("+", ".i", ".l"),
        call("%", ".f", ".i"),
        call("/", ".d", 0),
        call("%", ".i", 0),
        call("/", ".i", ".i"),
        call("unary-", ".i"),
        call("unary-", ".f"),
        call("*", ".i", 2),
    )
    assert columns(frame(small), *items) == [
        [55.0, -77.0, 77.0, None, 5.0],
        [1.5, -1.5, 1.25, None, None],
        same([INFINITY, -INFINITY, NAN, INFINITY, -INFINITY]),
        ["NaN"] * 5,
        same([1.0, 1.0, 1.0, 1.0, NAN]),
        [-5, 7, -7, -7, 0],
        [-1.5, 1.5, -1.25, None, None],
        [10.0, -14.0, 14.0, 14.0, 0.0],
    ]
    assert types(*items) == ["DOUBLE"] * 5 + ["INT", "FLOAT", "DOUBLE"]


@pytest.mark.spark
def test_comparisons_with_nan_are_false(small: SparkSession) -> None:
    items = (
        call(">", ".d", 0),
        call("=", ".d", ".d"),
        call("<>", ".d", ".d"),
        call("<", ".d", 0),
        call(">=", ".d", ".d"),
        call("<=", 0, ".d"),
        call("between", ".d", 0, 5),
        call("not between", ".d", 0, 5),
        call("in", ".d", 2.5, 10),
        call("not in", ".d", 2.5, 10),
    )
    assert columns(frame(small), *items) == [
        [True, False, False, True, False],
        [True, True, False, True, True],
        [False] * 5,
        [False, True, False, False, True],
        [True, True, False, True, True],
        [True, False, False, True, False],
        [True, False, False, False, False],
        [False, True, True, True, True],
        [True, False, False, True, False],
        [False, True, True, False, True],
    ]


@pytest.mark.spark
def test_a_constant_is_compared_with_a_float_as_one(small: SparkSession) -> None:
    rows = ((1, {"f": 0.1, "d": 0.1}), (2, {"f": 2.5, "d": 2.5}), (3, {"f": 100.1, "d": 100.1}))
    items = (
        call("=", ".f", 0.1),
        call(">", 100.1, ".f"),
        call("<=", ".f", 0.1),
        call("between", ".f", 0.1, 100.1),
        call("in", ".f", 0.1, 100.1),
        call("not in", ".f", *(number + 0.1 for number in range(3000))),
        call("=", ".f", ".d"),
        call("<", ".f", 1e300),
    )
    assert columns(frame(small, rows), *items) == [
        [True, False, False],
        [True, True, False],
        [True, False, False],
        [True, True, True],
        [True, False, True],
        [False, True, False],
        [False, True, False],
        [True, True, True],
    ]


@pytest.mark.spark
def test_bytes_as_text_are_text_or_hexadecimal_digits(small: SparkSession) -> None:
    rows = ((1, {"o": b"abc"}), (2, {"o": b"\x98\xf4"}), (3, {"o": b""}))
    assert columns(frame(small, rows), Cast(expression(".o"), TEXT)) == [["abc", "0x98f4", ""]]


@pytest.mark.spark
def test_comparisons_of_other_types_and_logic_of_three_values(small: SparkSession) -> None:
    positive = call(">", ".i", 0)
    items = (
        call(">", ".t", "b"),
        call("=", ".i", ".l"),
        call(">", ".i", 5.5),
        call("=", ".b", True),
        call("=", ".t", ".s"),
        call(">", ".at", 100),
        call("=", ".da", "2024-01-01"),
        call(">", ".time", 3),
        call("and", ".b", positive),
        call("or", ".b", positive),
        call("not", ".b"),
        call("is null", ".f"),
        call("is not null", ".d"),
    )
    assert columns(frame(small), *items) == [
        [False, True, False, True, False],
        [False, False, False, None, False],
        [False, False, True, True, False],
        [True, None, False, True, True],
        [False] * 5,
        [False, None, True, None, None],
        [True, None, False, None, None],
        [False, False, False, True, True],
        [True, False, False, True, False],
        [True, None, True, True, True],
        [False, None, True, False, False],
        [False, False, False, True, True],
        [True] * 5,
    ]


@pytest.mark.spark
def test_like_takes_the_whole_text_and_regexp_a_part_of_it(small: SparkSession) -> None:
    items = (
        call("like", ".t", "a%"),
        call("like", ".t", "_b"),
        call("like", ".t", r"\%c\_"),
        call("not like", ".t", "a%"),
        call("match", ".t", "a"),
        call("nmatch", ".t", "a+"),
        call("like", ".s", "x_"),
    )
    assert columns(frame(small), *items) == [
        [True, False, True, False, False],
        [False, True, False, False, False],
        [False, False, False, False, True],
        [False, True, False, True, True],
        [True, False, True, False, False],
        [False, True, False, True, True],
        [True, False, False, False, False],
    ]


def case(*branches: tuple[Expression, object], default: object = None, operand: str | None = None) -> Case:
    pairs = tuple((when, expression(then)) for when, then in branches)  # type: ignore[arg-type]
    fallback = None if default is None else expression(default)  # type: ignore[arg-type]
    return Case(pairs, fallback, None if operand is None else expression(operand))


@pytest.mark.spark
def test_case_gives_text_booleans_or_doubles(small: SparkSession) -> None:
    positive, negative = call(">", ".i", 0), call("<", ".i", 0)
    items = (
        case((positive, "pos"), (negative, "neg"), default="zero"),
        case((positive, ".i"), (negative, ".f")),
        case((positive, ".l"), default=".i"),
        case((expression(".b"), True), default=False),
        case((Literal(5), "five"), (Literal(7), "seven"), operand=".i"),
        case((positive, ".da"), default=".da"),
    )
    assert columns(frame(small), *items) == [
        ["pos", "neg", "pos", "pos", "zero"],
        [5.0, -1.5, 7.0, 7.0, None],
        [50.0, -7.0, 70.0, None, 0.0],
        [True, False, False, True, True],
        ["five", None, "seven", "seven", None],
        [20240101.0, None, 20240102.0, None, None],
    ]
    assert types(*items) == ["VARCHAR", "DOUBLE", "DOUBLE", "BOOL", "VARCHAR", "DOUBLE"]


@pytest.mark.spark
def test_cast_rounds_and_shows_numbers_as_java_does(small: SparkSession) -> None:
    kinds = [(".d", INT32), (".d", INT64), (".d", TEXT), (".f", TEXT), (".i", TEXT), (".b", TEXT), (".l", FLOAT)]
    kinds += [(".i", BOOLEAN), (".d", BOOLEAN), (".b", INT32), (".b", DOUBLE), (".da", TEXT), (".at", TEXT), (".da", INT64)]
    items = tuple(Cast(expression(name), type_) for name, type_ in kinds)
    assert columns(frame(small), *items) == [
        [3, -2, 0, 10, -10],
        [3, -2, 0, 10, -10],
        ["2.5", "-2.5", "NaN", "10.0", "-10.0"],
        ["1.5", "-1.5", "1.25", None, None],
        ["5", "-7", "7", "7", "0"],
        ["true", None, "false", "true", "true"],
        [50.0, -70.0, 70.0, None, 5.0],
        [True, True, True, True, False],
        [True] * 5,
        [1, None, 0, 1, 1],
        [1.0, None, 0.0, 1.0, 1.0],
        ["20240101", None, "20240102", None, None],
        ["100", None, "200", None, None],
        [20240101, None, 20240102, None, None],
    ]


@pytest.mark.spark
def test_cast_reads_text(small: SparkSession) -> None:
    rows = [(1, {"t": "1", "s": "1.5"}), (2, {"t": "-20", "s": " 3 "}), (3, {"t": "0", "s": "1e3"}), (4, {})]
    texts = [(1, {"t": "true", "s": "20240101"}), (2, {"t": "FALSE", "s": "2024-01-01"}), (3, {})]
    numbers = tuple(Cast(expression(name), type_) for name, type_ in ((".t", INT32), (".t", INT64), (".s", DOUBLE), (".s", FLOAT)))
    assert columns(frame(small, rows), *numbers) == [[1, -20, 0, None]] * 2 + [[1.5, 3.0, 1000.0, None]] * 2
    others = (Cast(expression(".t"), BOOLEAN), Cast(expression(".s"), DataType(TypeKind.DATE)))
    assert columns(frame(small, texts), *others) == [[True, False, None], [DAY, DAY, None]]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "type_", "message"),
    [
        (".t", INT32, 'For input string: "aa"'),
        (".t", BOOLEAN, "Invalid text input for boolean type: aa"),
        (".l", INT32, "long value 9007199254740993 is out of range of integer value."),
    ],
)
def test_cast_of_what_cannot_be_converted_is_an_error(small: SparkSession, name: str, type_: DataType, message: str) -> None:
    rows = frame(small, [(1, {"t": "aa", "l": 9007199254740993})])
    with pytest.raises(Exception, match=message):
        columns(rows, Cast(expression(name), type_))


NOT_NUMERIC = "701: Invalid input expression data type. actual data type: {}, expected data type(s): [INT32, INT64, FLOAT, DOUBLE]."
REFUSED = [
    (call("+", ".b", 1), NOT_NUMERIC.format("BOOLEAN")),
    (call("+", ".t", 1), NOT_NUMERIC.format("TEXT")),
    (call("-", ".at", ".at"), NOT_NUMERIC.format("TIMESTAMP")),
    (call("unary-", ".s"), NOT_NUMERIC.format("STRING")),
    (call("not", ".i"), "actual data type: INT32, expected data type(s): [BOOLEAN]."),
    (call("and", ".i", ".b"), "actual data type: INT32, expected data type(s): [BOOLEAN]."),
    (call(">", ".t", 1), "actual data type: INT64, expected data type(s): [TEXT, STRING]."),
    (call("=", ".b", 1), "actual data type: INT64, expected data type(s): [BOOLEAN]."),
    (call(">", ".b", False), "301: Unsupported Type"),
    (call("like", ".i", "a"), "actual data type: INT32, expected data type(s): [TEXT, STRING]."),
    (call("match", ".t", "["), "Illegal regex expression"),
    (call("between", ".i", "a", "b"), "actual data type: INT32, expected data type(s): [TEXT, STRING]."),
    (case((call(">", ".i", 0), "a"), default=1), "CASE expression: TEXT and other types cannot exist at the same time"),
    (case((call(">", ".i", 0), ".t"), default=".s"), "CASE expression: TEXT and other types cannot exist"),
    (case((call(">", ".i", 0), True), default=1), "CASE expression: BOOLEAN and other types cannot exist"),
    (case((expression(".i"), 1)), "actual data type: INT32, expected data type(s): [BOOLEAN]."),
    (call("round", ".t"), "Input series of Scalar function [ROUND] only supports numeric data types"),
    (call("replace", ".i", "a", "b"), "Unsupported data type INT32 for function REPLACE."),
    (call("substring", ".t", -1, 2), "beginPosition and length must be greater than 0"),
]


@pytest.mark.parametrize(("node", "message"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_types_that_an_operator_does_not_take_are_refused(node: Expression, message: str) -> None:
    with pytest.raises(TypeMismatchError) as refused:
        planned(node)
    assert message in refused.value.message
    assert refused.value.hint
