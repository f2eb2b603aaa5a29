"""The functions of the library that return one value, as aggregates of the TDengine dialect."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.errors import DataError, NotSupportedError, TypeMismatchError

START = 1_700_000_040_000
ROWS = 180
"""Rows of each subtable, one a second: three windows of a minute."""
SQUARES = """
def init(): pass
def destroy(): pass
def start(): return b'7'
def reduce(block, buf): return buf
def finish(buf): return float(buf)
"""


def value_of(series: int, row: int) -> int:
    return (row * 37 + series * 11) % 50


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    home = tmp_path_factory.mktemp("library") / "home"
    (home / "ext" / "udf").mkdir(parents=True)
    (home / "ext" / "udf" / "skew.py").write_text(SQUARES)
    with headrace.connect(home, dialect="tdengine", clock=headrace.ManualClock(START)) as opened:
        opened.execute("CREATE DATABASE d")
        opened.execute("USE d")
        opened.execute("CREATE STABLE m (ts TIMESTAMP, v INT, w DOUBLE, u BIGINT UNSIGNED, t VARCHAR(9)) TAGS (g INT)")
        for series in (1, 2):
            opened.execute(f"CREATE TABLE m{series} USING m TAGS ({series})")
            rows = (
                f"({START + row * 1000}, {value_of(series, row)}, {value_of(series, row) ** 1.5}, {value_of(series, row)}, 'x')"
                for row in range(ROWS)
            )
            opened.execute(f"INSERT INTO m{series} VALUES {' '.join(rows)}")
        yield opened


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def values_of(series: int, window: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([float(value_of(series, row)) for row in range(window * 60, window * 60 + 60)])


@pytest.mark.spark
def test_a_function_returns_a_value_for_each_window_and_partition(connection: headrace.Connection) -> None:
    rows = fetch(
        connection,
        "SELECT tbname, mad(v), median(v + 1), quantile(v, 0.75), pearson(v, w), integral(v, 1m), completeness(v), spread(v) "
        "FROM m PARTITION BY tbname INTERVAL(1m) ORDER BY tbname, _wstart",
    )
    assert len(rows) == 6
    for row, (series, window) in zip(rows, ((series, window) for series in (1, 2) for window in range(3)), strict=True):
        values = values_of(series, window)
        median = np.median(values)
        assert row[0] == f"m{series}"
        assert row[1] == np.median(np.abs(values - median))
        assert row[2] == median + 1
        assert row[3] == np.sort(values)[44]
        assert row[4] == pytest.approx(np.corrcoef(values, values**1.5)[0, 1])
        assert row[5] == pytest.approx(np.trapezoid(values) / 60)
        assert row[6] == 1.0
        assert row[7] == np.ptp(values)


@pytest.mark.spark
def test_functions_stand_where_aggregates_may(connection: headrace.Connection) -> None:
    all_values = {series: [value_of(series, row) for row in range(ROWS)] for series in (1, 2)}
    medians = {series: np.median(values) for series, values in all_values.items()}
    expected = [(series, np.median(np.abs(np.array(values) - medians[series])) + 1) for series, values in all_values.items()]
    assert fetch(connection, "SELECT g, mad(v) + 1 FROM m GROUP BY g HAVING mad(v) > 0 ORDER BY g") == expected
    total = "SELECT sum(x) FROM (SELECT median(v) AS x FROM m PARTITION BY tbname)"
    assert fetch(connection, total) == [(medians[1] + medians[2],)]
    assert fetch(connection, "SELECT median(u), quantile(u, 'rank=1') FROM m1") == [(medians[1], 49.0)]
    assert fetch(connection, "SELECT completeness(t), skew(v) FROM m1 WHERE ts < 0 OR v > 1000 INTERVAL(1m)") == []
    (similar,) = fetch(connection, "SELECT dtw_match(v, '11,48,35', 'threshold=0') FROM m1")
    assert '"startTime"' in similar[0]


@pytest.mark.spark
def test_a_group_without_values_has_no_result(connection: headrace.Connection) -> None:
    connection.execute("CREATE TABLE n (ts TIMESTAMP, a INT, b DOUBLE)")
    connection.execute(f"INSERT INTO n VALUES ({START}, 1, NULL) ({START + 1000}, 3, NULL)")
    assert fetch(connection, "SELECT median(a), median(b), integral(b), consistency(a) FROM n") == [(2.0, None, None, None)]
    (pairs,) = fetch(connection, "SELECT pearson(a, b) FROM n")
    assert pairs[0] is None or math.isnan(pairs[0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("mad(v, 2)", TypeMismatchError, "error has to be"),
        ("mad(v, 'eror=0.1')", TypeMismatchError, "mad has no option eror"),
        ("mad(v, 0.1, 0.2)", TypeMismatchError, "mad takes 1 parameter, not 2"),
        ("mad(v, NULL)", TypeMismatchError, "must not be NULL"),
        ("quantile(v, 0.1, 'rank=0.2')", TypeMismatchError, "rank of quantile is written twice"),
        ("integral(v, 1n)", TypeMismatchError, "1n has no fixed length"),
        ("pearson(v)", TypeMismatchError, "pearson takes 2 arguments, not 1"),
        ("mad(v, w)", TypeMismatchError, "mad takes 1 argument, not 2"),
        ("mad(t)", TypeMismatchError, "data type"),
        ("mad(ts)", TypeMismatchError, "data type"),
        ("validity(v, '10')", TypeMismatchError, "validity takes 0 parameters, not 1"),
        ("fft(v)", NotSupportedError, "fft returns a series"),
        ("avg(zscore(v))", NotSupportedError, "zscore returns a series"),
    ],
)
def test_wrong_calls_say_what_is_wrong(connection: headrace.Connection, call: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        connection.execute(f"SELECT {call} FROM m1 INTERVAL(1m)" if "fft" not in call else f"SELECT {call} FROM m1")


@pytest.mark.spark
def test_a_score_of_rows_with_equal_times_is_refused(connection: headrace.Connection) -> None:
    with pytest.raises((TypeMismatchError, DataError), match="two rows have the same time"):
        fetch(connection, "SELECT completeness(v) FROM m")


@pytest.mark.drawn(2)
@pytest.mark.spark
def test_a_stream_equals_its_query_and_keeps_its_functions(connection: headrace.Connection) -> None:
    query = "SELECT _wstart, skew(v) s, quantile(w, 0.9) q, validity(v) y FROM m PARTITION BY tbname INTERVAL(1m)"
    connection.execute(f"CREATE STREAM s TRIGGER AT_ONCE FILL_HISTORY 1 IGNORE EXPIRED 0 IGNORE UPDATE 0 INTO r AS {query}")
    connection.settle()
    connection.execute("CREATE AGGREGATE FUNCTION skew AS 'skew.py' OUTPUTTYPE DOUBLE LANGUAGE 'Python'")
    assert fetch(connection, "SELECT skew(v) FROM m1") == [(7.0,)]
    connection.execute(f"INSERT INTO m1 VALUES ({START + 61_500}, 90, 1, 1, NULL) ({START + 500_000}, 9, 1, 1, NULL)")
    connection.settle()
    written = fetch(connection, "SELECT tbname, s, q, y FROM r ORDER BY tbname, _wstart")
    connection.execute("DROP FUNCTION skew")
    assert len(written) == 7
    assert sorted(row[1:] for row in written if row[3] is not None) == sorted(
        row[1:] for row in fetch(connection, query) if row[3] is not None
    )
    verified = connection.verify("SELECT _wstart, count(*), mad(v) FROM m INTERVAL(1m)")
    assert verified.equal
    assert "mad" in verified.remark


@pytest.mark.spark
def test_explain_says_where_a_function_runs(connection: headrace.Connection) -> None:
    text = "\n".join(str(row) for row in fetch(connection, "EXPLAIN SELECT mad(v) FROM m"))
    assert "function library" in text
