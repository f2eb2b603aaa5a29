"""Functions over Arrow arrays give what Spark gives, for texts, numbers and instants at the edges of what there is."""

from __future__ import annotations

import math
import random
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.compute import calendar
from headrace.compute.columnar.expressions import FUNCTIONS, evaluate, type_of
from headrace.compute.expression_context import ExpressionContext
from headrace.compute.nodes import (
    NULL,
    Column,
    Node,
    UnsupportedError,
    Value,
    bigint,
    both,
    call,
    case,
    columns_of,
    double,
    if_,
    integer,
    string,
)
from headrace.compute.tdengine.patterns import like_regex
from headrace.compute.tdengine.scalars_time import week_sql
from headrace.model.time import Precision

pytestmark = pytest.mark.spark

T, U, X, Y, N, J, L, M, F, E, B, D, A, G = map(Column, "tuxyijlmfebdao")
TEXTS = [
    *(
        None,
        "",
        " ",
        "a",
        "Ab",
        "  ab  ",
        "\ta\n",
        "true",
        "F",
        "1",
        "-2",
        "+3",
        " 42 ",
        "1.5",
        "-0",
        ".5",
        "5.",
        "1e3",
        "1e400",
        "NaN",
    ),
    *(
        "nan",
        "Infinity",
        "-inf",
        "0x1p3",
        "1d",
        "9223372036854775807",
        "9223372036854775808",
        "2147483648",
        "a,b,,c",
        "aaa",
        "a.b.c",
    ),
    *(
        "straße",
        "ΑΣ",
        "İ",
        "ı",
        "ﬁ",
        "K",
        "日本語",
        "👍a👍",
        "é",
        "%_\\",
        "$1",
        "a\nb",
        "x'y",
        "2024-01-31",
        "2024-02-30",
        "20240131",
    ),
    *("2024-03-31 02:30:00", "2024-10-27 02:30:00.123456", "2024-01-31T12:00:00Z", "2024-01-31 12:00:00+02:00", "c5d\n", "\u2028"),
]
OBJECTS = [
    *(
        None,
        "{}",
        '{"a": 1}',
        '{"a": "x", "b": null}',
        '{"a": null}',
        '{"a": true, "c": 1.50}',
        '{"b": {"a": 2}}',
        '{"a": "\\u00e9"}',
    ),
    *('{"a": [1]}', '{"a": 1.0}', '{"a": 1, "a": 2}', "[1]", "1", "", "{", '{"A": 1}', '{"a": -12345678901234567890}', '{"a": ""}'),
]
REALS = [
    *(
        None,
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.1,
        1 / 3,
        2.675,
        1.005,
        1e-5,
        1e-7,
        123456.789,
        1e7,
        1e15,
        1e16,
        2.0**53,
        2.0**63,
    ),
    *(-(2.0**63), 1e22, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan, 9.999999, 0.000001, 100.0, 12345678.9, -7.0, 3.0),
]
LONGS = [
    None,
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    -7,
    12,
    1000,
    -1001,
    2**31,
    -(2**31) - 1,
    2**63 - 1,
    -(2**63),
    1_700_000_000_123,
    -62_135_596_800_001,
]
INTS = [None, 0, 1, -1, 2, -2, 3, 5, -5, 11, 100, 2**31 - 1, -(2**31), 20_000, -800]
DAYS = [
    None,
    date(1970, 1, 1),
    date(1969, 12, 31),
    date(2024, 2, 29),
    date(2024, 12, 30),
    date(1, 1, 1),
    date(9999, 12, 31),
    date(2021, 1, 3),
]
INSTANTS = [
    *(None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 3, 31, 0, 59, 59, 999999, tzinfo=UTC)),
    *(datetime(2024, 3, 31, hour, 30, tzinfo=UTC) for hour in (0, 1, 2)),
    *(datetime(2024, 10, 27, hour, 30, 0, 5, tzinfo=UTC) for hour in (0, 1, 2)),
    *(datetime(1900, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 31, 23, 59, 59, 1000, tzinfo=UTC), datetime(1, 6, 1, tzinfo=UTC)),
]
POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "t": (pa.string(), TEXTS),
    "u": (pa.string(), [None, "", "a", ",", "b", " ", "aa", "é", "👍", "A"]),
    "o": (pa.string(), OBJECTS),
    "x": (pa.float64(), REALS),
    "y": (pa.float64(), [None, 0.0, 1.0, -1.5, 2.0, 10.0, math.nan, math.inf, 1e300, -0.0]),
    "i": (pa.int32(), INTS),
    "j": (pa.int32(), [None, 0, 1, 2, -1, -2, 3, 40]),
    "l": (pa.int64(), LONGS),
    "m": (pa.int64(), [None, 0, 1, -1, 3, -3, 1000, 2**62, 60_000]),
    "f": (pa.float32(), [None, 0.0, -0.0, 1.5, -0.25, 0.1, 3e38, 1e-40, math.nan, math.inf, 16777216.0, 123.456]),
    "e": (pa.bool_(), [None, True, False]),
    "b": (pa.binary(), [None, b"", b"abc", b"\xff", "é".encode()]),
    "d": (pa.date32(), DAYS),
    "a": (pa.timestamp("us", "UTC"), INSTANTS),
}
MS, US, NS = Precision
BERLIN = "Europe/Berlin"
PATTERNS = ("%", "a%", "_", "%b", "é", "a\\%", "\\\\", "", "%a_b%", "K", "s%")
EXPRESSIONS = ("^a", "b$", "[0-9]+", "a.b", r"\s", r"^\s*([+-]?[0-9]+)", "(?i)AB", r"a\.b", "a{2,}", "a|b", r"[^a-z]", "^$", r"\d")
FORMATS = ("yyyy-MM-dd HH:mm:ss", "yyyyMMdd", "dd.MM.yy hh 'o''clock' a", "EEE MMM DDD", "EEEE, MMMM", "ss.SSS", "SSSSSS")

TEXT = [
    *(call(name, T) for name in ("lower", "upper", "trim", "ltrim", "rtrim", "reverse", "char_length", "octet_length")),
    *(call(name, T) for name in ("first_byte", "parse_boolean", "unhex")),
    *(call(name, T, U) for name in ("concat", "instr", "locate", "contains", "startswith", "endswith", "strcmp", "surround")),
    *(call(name, U, T) for name in ("trim_both", "trim_leading", "trim_trailing")),
    call("replace", T, U, string("_")),
    call("concat_ws", U, T, U, call("lower", T)),
    *(call(name, T, N, J) for name in ("substr", "substring")),
    call("substring", T, N),
    *(call(name, T, N) for name in ("left", "left_bytes")),
    *(call(name, T, J) for name in ("repeat",)),
    call("lpad", T, J, U),
    call("lpad", L.cast("string"), integer(3), string("0")),
    call("substring_index", T, U, J),
    call("position_in_list", U, T, string(",")),
    call("decode", T.cast("binary"), string("ISO-8859-1")),
    call("has_member", G, string("b")),
    call("crc32", B),
    call("crc32", T),
    call("hex", L),
    call("coalesce", call("unhex", call("hex", L & bigint(2**32 - 1))), Value(b"", "binary")),
    *(call("like", T, string(pattern)) for pattern in PATTERNS),
    *(call("rlike", T, string(like_regex(p, in_bytes=False, ignores_case=c))) for p in PATTERNS for c in ("i", "iu")),
    *(call("matches", T, string(expression)) for expression in EXPRESSIONS),
    *(call("regexp_extract", T, string(expression), integer(0)) for expression in EXPRESSIONS),
    call("regexp_extract", T, string(r"^\s*([+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)"), integer(1)),
    *(call("regexp_replace", T, string(expression), string("-")) for expression in EXPRESSIONS if expression != "^$"),
    call("regexp_replace", T, string(r"^[\x00-\x20]+|[\x00-\x20]+$"), string("")),
]
MATH = [
    *(
        call(name, X)
        for name in (
            "floor",
            "ceil",
            "rint",
            "abs",
            "negative",
            "sqrt",
            "degrees",
            "radians",
            "isnan",
            "signum",
            "sign",
            "is_negative_zero",
        )
    ),
    *(call(name, L) for name in ("floor", "abs", "sign", "negative", "thousandths")),
    *(call("round", X, integer(digits)) for digits in (0, 1, 2, 5, -1, -400, 400, 15)),
    *(call("round", L, integer(digits)) for digits in (0, -1, -3)),
    *(call(sign, X, Y) for sign in ("+", "-", "*", "=", "<", "<=", ">", ">=", "<>", "/", "%", "greatest", "least", "nullif")),
    *(call(sign, L, M) for sign in ("+", "-", "*", "=", "<", "/", "div", "%", "pmod", "greatest", "least", "&", "|", "^")),
    *(call(sign, L, N) for sign in ("+", "-", "*", "=", "<", "div", "%", "greatest", "&")),
    *(call(sign, N, J) for sign in ("+", "-", "*", "/", "div", "%", "pmod", "least")),
    *(call(sign, X, L) for sign in ("+", "*", "=", "<", "/")),
    *(call(name, L, M) for name in ("try_add", "try_subtract", "try_multiply")),
    *(call(name, N, J) for name in ("try_add", "try_subtract", "try_multiply")),
    call("greatest", T, U),
    call("in", X, double(0), double(math.nan), double(1.5)),
    call("in", T, string("a"), string("é")),
    call("between", L, bigint(-1), bigint(1000)),
]
CASTS = [
    *(column.cast("string") for column in (X, F, L, N, E, D, T, B)),
    *(T.try_cast(type_) for type_ in ("int", "bigint", "smallint", "double", "float", "boolean", "decimal(20,0)")),
    *(T.cast(type_) for type_ in ("bigint", "double", "boolean", "binary")),
    *(X.cast(type_) for type_ in ("int", "bigint", "float", "boolean", "tinyint")),
    *(F.cast(type_) for type_ in ("int", "bigint", "double", "boolean")),
    *(number.try_cast(type_) for number in (X, F) for type_ in ("decimal(10,2)", "decimal(20,0)", "decimal(38,20)")),
    *(L.cast(type_) for type_ in ("int", "double", "float", "boolean", "decimal(20,0)", "smallint")),
    *(L.try_cast(type_) for type_ in ("int", "tinyint")),
    *(L.cast("decimal(20,0)").try_cast(type_) for type_ in ("bigint", "int", "double", "string")),
    *(E.cast(type_) for type_ in ("int", "bigint", "double")),
]
CHOICES = [
    if_(call("isnan", X), double(0), call("floor", X)),
    call("coalesce", N, L),
    call("coalesce", F, X),
    if_(E, F, N),
    if_(call("<>", Y, double(0)), X / Y, NULL),
    if_(X.is_null(), NULL, call("raise_error", string("bad")).cast("double")),
    case([(Y.equals(double(0)), double(0)), (X > Y, X / Y)], X),
    call("coalesce", T.try_cast("double"), X, double(1)),
    call(
        "coalesce",
        T.try_cast("double"),
        if_(T.is_null(), NULL, call("raise_error", call("concat", string("no "), T)).cast("double")),
    ),
    if_(both(E, X.is_not_null()), call("upper", T), U),
    if_(NULL.cast("boolean"), T, U),
]
TIMES = [
    *(call(name, A) for name in ("unix_millis", "unix_micros")),
    *(
        call(name, A, string(zone))
        for name in ("from_utc_timestamp", "to_utc_timestamp")
        for zone in (BERLIN, "+05:30", "Asia/Tokyo")
    ),
    *(call(name, D) for name in ("year", "month", "weekday", "dayofweek", "weekofyear", "unix_date")),
    *(call("add_months", D, integer(count)) for count in (1, -1, 13)),
    call("add_months", D, J),
    call("date_format", D, string("yyyyMMdd")),
    *(week_sql(D, mode) for mode in range(8)),
    *(call("format_wall", A, string(pattern)) for pattern in FORMATS),
    *(call("parse_instant", T, string(zone)) for zone in ("UTC", BERLIN)),
    *(call("parse_wall", T, string(pattern)) for pattern in ("yyyy-MM-dd", "yyyyMMdd", "yyyy-MM-dd HH:mm:ss")),
    *(function(L, BERLIN, unit) for function in (calendar.to_local, calendar.to_utc) for unit in Precision),
    *(
        function(L, unit)
        for function in (calendar.months, calendar.days, calendar.day_start, calendar.date_of)
        for unit in Precision
    ),
    *(calendar.month_start(calendar.months(L, unit), unit) for unit in Precision),
    *(calendar.add_months(L, integer(1), unit) for unit in Precision),
    *(ExpressionContext(unit, BERLIN).format_instant(L, "yyyy-MM-dd'T'HH:mm:ss.SSS") for unit in Precision),
    *(ExpressionContext(unit, BERLIN).text_to_ticks(T) for unit in Precision),
]


def rows(count: int) -> pa.Table:
    """Return rows in which each value of each type occurs, beside others by chance."""
    chance = random.Random(count)
    columns = {}
    for name, (type_, pool) in POOLS.items():
        values = [*pool, *chance.choices(pool, k=count - len(pool))]
        chance.shuffle(values)
        columns[name] = pa.array(values, type_)
    return pa.table(columns)


def is_near(node: Node, row: pa.Table) -> bool:
    try:
        evaluate(node, {name: row[name] for name in row.column_names})
    except UnsupportedError:
        return False
    return True


SAMPLE = rows(140)


@pytest.mark.parametrize("group", ["TEXT", "MATH", "CASTS", "CHOICES", "TIMES"])
def test_values_are_those_of_spark(small: SparkSession, group: str) -> None:
    wrong: list[tuple[Any, ...]] = []
    for node in globals()[group]:
        near = [index for index in range(len(SAMPLE)) if is_near(node, SAMPLE.slice(index, 1))]
        table = SAMPLE.take(pa.array(near, pa.int64()))
        actual = evaluate(node, {name: table[name] for name in table.column_names})
        try:
            expected = small.createDataFrame(table).selectExpr(f"{node} AS y").toArrow()["y"]
        except Exception as error:
            wrong.append((str(node), str(error)[:300]))
            continue
        types = {field.name: field.type for field in SAMPLE.schema}
        if not actual.type == expected.type == type_of(node, types):
            wrong.append((str(node), actual.type, expected.type))
        if pa.types.is_date32(actual.type):  # Python has no days beyond the year 9999
            actual, expected = actual.cast(pa.int32()), expected.cast(pa.int32())
        differing = [
            ({name: row[name] for name in columns_of(node)}, one, other)
            for row, one, other in zip(table.to_pylist(), actual.to_pylist(), expected.to_pylist(), strict=True)
            if repr(one) != repr(other)
        ]
        if differing or len(near) < 3:
            wrong.append((str(node)[:200], len(near), differing[:3]))
    assert not wrong, "\n".join(map(str, wrong))


def test_case_is_changed_as_spark_does(small: SparkSession) -> None:
    texts = pa.table({"t": [chr(code) for code in range(0x1F000) if not 0xD800 <= code < 0xE000]})
    for node in (call("lower", T), call("upper", T)):
        expected = small.createDataFrame(texts).selectExpr(f"{node} AS y").toArrow()["y"].to_pylist()
        differing = []
        for text, value in zip(texts["t"].to_pylist(), expected, strict=True):
            try:
                near = evaluate(node, {"t": pa.array([text])})[0].as_py()
            except UnsupportedError:
                continue
            if near != value:
                differing.append((hex(ord(text)), near, value))
        assert not differing


def test_numbers_are_written_as_spark_does(small: SparkSession) -> None:
    chance = random.Random(5)
    short = [float(f"{chance.randrange(10 ** chance.randint(1, 17))}e{chance.randint(-30, 20)}") for _ in range(20_000)]
    for type_ in (pa.float64(), pa.float32()):
        values = pa.array([value for value in short if is_near(X.cast("string"), pa.table({"x": pa.array([value], type_)}))], type_)
        expected = small.createDataFrame(pa.table({"x": values})).selectExpr("CAST(x AS STRING) AS y").toArrow()["y"]
        assert len(values) > 1_000
        texts = evaluate(X.cast("string"), {"x": values}).to_pylist()
        assert [pair for pair in zip(texts, expected.to_pylist(), strict=True) if pair[0] != pair[1]] == []


@pytest.mark.parametrize("last", [call("sin", X), call("*", L, bigint(2**62))])
def test_a_long_choice_takes_no_longer_for_what_only_spark_computes(last: Node) -> None:
    rows = {"x": pa.array([1.0, None]), "l": pa.array([100, None])}
    branches = [(call("=", L, bigint(number)), bigint(number)) for number in range(60)]
    for node in (case(branches, last), call("coalesce", *(if_(condition, L, NULL) for condition, _ in branches), last)):
        with pytest.raises(UnsupportedError):
            evaluate(node, rows)
    assert evaluate(case(branches, bigint(1)), rows).to_pylist() == [1, 1]


def test_values_that_no_row_chooses_are_not_refused() -> None:
    rows = {"l": pa.array([100, None])}
    large = call("*", L, bigint(2**62))
    node = case([(call("=", L, bigint(100)), bigint(5)), (call("=", L, bigint(1)), large)], large)
    assert evaluate(node, rows).to_pylist() == [5, None]
    assert evaluate(call("coalesce", L, large), rows).to_pylist() == [100, None]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("rows", [{}, {"n": pa.nulls(2)}])
def test_functions_of_null_are_evaluated_or_refused(name: str, rows: dict[str, pa.Array]) -> None:
    for count in range(1, 5):
        with suppress(UnsupportedError, TypeError):  # another number of operands
            values = evaluate(call(name, *[N if rows else NULL] * count), rows)
            assert isinstance(values, pa.Scalar | pa.Array)


@pytest.mark.parametrize(("text", "expected"), [("1e" + "9" * 20, None), ("-1e-" + "9" * 20, 0), ("1e-99999999", 0), ("1.5", 1.5)])
def test_texts_with_any_exponent_are_cast_to_decimals(text: str, expected: float | None) -> None:
    values = evaluate(T.try_cast("decimal(10,2)"), {"t": pa.array([text])}).to_pylist()
    assert [None if value is None else float(value) for value in values] == [expected]
