"""Numbers whose exponents no type has: next to zero they are zero, beyond all types they are refused, and none takes long."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

import headrace
from headrace.errors import DataError
from headrace.settings import load

TINY = ("1e-400", "-1e-99999999", "1e-" + "9" * 20, "0e" + "9" * 20, "0.1E-99999999")
HUGE = ("1e400", "-1e99999999", "1e" + "9" * 20)


@pytest.fixture
def connection(tmp_path: Path) -> headrace.Connection:
    connection = headrace.connect(settings=load(home=tmp_path / "home"))
    for sql in ("CREATE DATABASE p", "USE p", "CREATE TABLE t (ts TIMESTAMP, d DOUBLE, f FLOAT, x DECIMAL(10, 3), i INT)"):
        connection.execute(sql)
    return connection


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("number", TINY)
def test_numbers_next_to_zero_are_zero(connection: headrace.Connection, number: str) -> None:
    with connection:
        connection.execute(f"INSERT INTO t VALUES (1, {number}, {number}, {number}, {number})")
        connection.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?)", (2, number, number, number, number))
        connection.execute(f"INSERT INTO t VALUES (3, '{number}', '{number}', '{number}', '{number}')")
        assert connection.execute("SELECT d, f, x, i FROM t").fetchall() == [(0.0, 0.0, Decimal("0.000"), 0)] * 3
        sql = f"SELECT count(*) FROM t WHERE x = {number} AND x = '{number}' AND d = {number} AND NOT i > {number}"
        assert connection.execute(sql).fetchall() == [(3,)]
        sql = f"SELECT CAST('{number}' AS DECIMAL(10, 2)), CAST('{number}' AS DOUBLE), CAST({number} AS DECIMAL(10, 2))"
        assert connection.execute(sql).fetchall() == [(Decimal("0.00"), 0.0, Decimal("0.00"))]


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize("column", ["d", "f", "x", "i"])
def test_numbers_beyond_all_types_are_refused(connection: headrace.Connection, column: str, number: str) -> None:
    with connection, pytest.raises(DataError, match=column):
        connection.execute(f"INSERT INTO t (ts, {column}) VALUES (1, '{number}')")
