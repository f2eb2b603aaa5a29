"""TDengine's Python functions in queries and streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import DataError, FunctionError, NotSupportedError, TypeMismatchError

START = 1_700_000_000_000
SCALAR = """
def init(): pass
def destroy(): pass
def process(block):
    rows, columns = block.shape()
    return [None if block.data(i, 0) is None else sum(block.data(i, j) or 0 for j in range(columns)) * 10 for i in range(rows)]
"""
TEXT = """
def init(): pass
def destroy(): pass
def process(block):
    return [None if block.data(i, 0) is None else block.data(i, 0).decode().upper() for i in range(block.shape()[0])]
"""
AGGREGATE = """
import pickle
def init(): pass
def destroy(): pass
def start(): return pickle.dumps((0, 0))
def reduce(block, buf):
    total, nulls = pickle.loads(buf)
    values = [block.data(i, 0) for i in range(block.shape()[0])]
    return pickle.dumps((total + sum(v * v for v in values if v is not None), nulls + values.count(None)))
def finish(buf):
    total, nulls = pickle.loads(buf)
    return total + nulls / 1000
"""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    home = tmp_path / "home"
    folder = home / "ext" / "udf"
    folder.mkdir(parents=True)
    for name, code in (("tenfold", SCALAR), ("shout", TEXT), ("squares", AGGREGATE)):
        (folder / f"{name}.py").write_text(code)
    with headrace.connect(home, dialect="tdengine", clock=headrace.ManualClock(START)) as opened:
        opened.execute("CREATE DATABASE d")
        opened.execute("USE d")
        opened.execute("CREATE TABLE t (ts TIMESTAMP, a INT, b DOUBLE, s VARCHAR(10))")
        opened.execute(
            f"INSERT INTO t VALUES ({START}, 1, 2, 'x') ({START + 1000}, NULL, 3, NULL) ({START + 61000}, 4, NULL, 'yz')"
        )
        opened.execute("CREATE FUNCTION tenfold AS 'tenfold.py' OUTPUTTYPE BIGINT LANGUAGE 'Python'")
        opened.execute("CREATE FUNCTION shout AS 'shout.py' OUTPUTTYPE VARCHAR(10) LANGUAGE 'Python'")
        opened.execute("CREATE AGGREGATE FUNCTION squares AS 'squares.py' OUTPUTTYPE DOUBLE BUFSIZE 1000 LANGUAGE 'Python'")
        yield opened


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


@pytest.mark.drawn(2)
@pytest.mark.spark
def test_functions_stand_where_built_in_ones_may(connection: headrace.Connection) -> None:
    assert fetch(connection, "SELECT tenfold(a), tenfold(a, b) + 1, shout(s) FROM t") == [
        (10, 31, "X"),
        (None, None, None),
        (40, 41, "YZ"),
    ]
    assert fetch(connection, "SELECT a FROM t WHERE tenfold(a) > 10 AND shout(s) = 'YZ'") == [(4,)]
    assert fetch(connection, "SELECT squares(a), squares(b) FROM t") == [(17.001, 13.001)]
    windows = "SELECT squares(tenfold(a)), tenfold(count(*)), sum(tenfold(a)) FROM t INTERVAL(1m)"
    assert fetch(connection, windows) == [(100.001, 20, 10), (1600.0, 10, 40)]


@pytest.mark.drawn(2)
@pytest.mark.spark
def test_a_stream_that_calls_functions_equals_its_query(connection: headrace.Connection) -> None:
    condition = "tenfold(b) IS NULL OR tenfold(b) > 5"
    query = f"SELECT _wstart, squares(a) q, sum(tenfold(a)) s, max(shout(s)) m FROM t WHERE {condition} INTERVAL(1m)"
    connection.execute(f"CREATE STREAM s TRIGGER AT_ONCE FILL_HISTORY 1 IGNORE EXPIRED 0 IGNORE UPDATE 0 INTO r AS {query}")
    connection.settle()
    connection.execute(
        f"INSERT INTO t VALUES ({START + 62000}, 5, 1, 'b') ({START + 2000}, 6, 1, 'z') ({START + 200000}, 7, 1, 'c')"
    )
    connection.settle()
    assert fetch(connection, "SELECT _wstart, q, s, m FROM r ORDER BY 1") == fetch(connection, query)
    assert len(fetch(connection, query)) == 3


@pytest.mark.drawn(2)
@pytest.mark.spark
def test_verify_checks_what_does_not_rest_on_user_code(connection: headrace.Connection) -> None:
    connection.execute(
        "CREATE STREAM s TRIGGER AT_ONCE FILL_HISTORY 1 INTO r AS SELECT _wstart, count(*) n, squares(a) q FROM t INTERVAL(1m)"
    )
    connection.settle()
    verified = connection.verify(stream="d.s")
    assert verified.equal
    assert verified.remark == "not compared: 1 of 3 columns, which rest on user code (squares)"
    verified = connection.verify("SELECT tenfold(a), *, shout(s) FROM t")
    assert verified.equal
    assert verified.remark == "not compared: 2 of 6 columns, which rest on user code (shout, tenfold)"
    with pytest.raises(NotSupportedError, match="rests on user code: tenfold"):
        connection.verify("SELECT a FROM t WHERE tenfold(a) > 10")


@pytest.mark.spark
def test_errors_name_the_function_and_leave_the_host_working(connection: headrace.Connection) -> None:
    folder = Path(str(connection.session.context.settings.home)) / "ext" / "udf"
    (folder / "broken.py").write_text(SCALAR.replace("rows, columns", "1 / 0\n    rows, columns"))
    connection.execute("CREATE FUNCTION broken AS 'broken.py' OUTPUTTYPE BIGINT LANGUAGE 'Python'")
    connection.execute("CREATE FUNCTION small AS 'tenfold.py' OUTPUTTYPE TINYINT LANGUAGE 'Python'")
    with pytest.raises(FunctionError, match=r"broken.*ZeroDivisionError.*broken\.py:"):
        fetch(connection, "SELECT broken(a) FROM t")
    with pytest.raises(DataError, match="no TINYINT"):
        fetch(connection, "SELECT small(a * 1000) FROM t")
    connection.execute("CREATE AGGREGATE FUNCTION tight AS 'squares.py' OUTPUTTYPE DOUBLE BUFSIZE 3 LANGUAGE 'Python'")
    with pytest.raises(TypeMismatchError, match="BUFSIZE"):
        fetch(connection, "SELECT tight(a) FROM t")
    assert fetch(connection, "SELECT tenfold(a) FROM t LIMIT 1") == [(10,)]
