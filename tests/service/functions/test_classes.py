"""Functions that users bring as classes, wherever IoTDB's language calls functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import FunctionError, IntegrityError, NotSupportedError, ProgrammingError, TypeMismatchError

START = 1_700_000_000_000
CODE = '''
import pyarrow.compute as pc
from headrace.udf import *

class Running(UDTF):
    """The sum of all values so far."""
    def validate(self, validator):
        validator.validate_input_series_number(1).validate_input_series_data_type(0, Type.INT32, Type.DOUBLE)
    def before_start(self, parameters, configurations):
        self.sum = parameters.get_double_or_default("start", 0.0)
        configurations.set_output_data_type(Type.DOUBLE)
    def transform(self, row, collector):
        self.sum += row.get_double(0)
        collector.put_double(row.get_time(), self.sum)
    def terminate(self, collector):
        collector.put_double(1000000, -self.sum)

class Twice(UDTF):
    """Twice the value, for many rows at once."""
    def before_start(self, parameters, configurations):
        configurations.set_access_strategy(MappableRowByRowAccessStrategy())
        configurations.set_output_data_type(Type.DOUBLE)
    def transform_batch(self, batch):
        return pc.multiply(pc.cast(batch["x0"], "double"), 2.0)

class Squares(UDAF):
    """The sum of squares, for many rows at once."""
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.DOUBLE)
    def create_state(self):
        return 0.0
    def add_input(self, state, columns, bit_map):
        values = pc.cast(columns[0].array, "double")
        return state + (pc.sum(pc.multiply(values, values)).as_py() or 0.0)
    def combine_state(self, state, other):
        return state + other
    def remove_state(self, state, removed):
        raise AssertionError("it is never called")
    def output_final(self, state, result_value):
        result_value.set_double(state)

class Windows(UDTF):
    """Rejects all windows."""
    def before_start(self, parameters, configurations):
        configurations.set_access_strategy(SlidingSizeWindowAccessStrategy(parameters.get_int("size")))
        configurations.set_output_data_type(Type.DOUBLE)
    def transform(self, window, collector):
        raise ParameterError("no window is wanted")

class Broken(UDTF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.DOUBLE)
    def transform(self, row, collector):
        raise ValueError("no way")
'''


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    folder = tmp_path / "home" / "ext" / "udf"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(CODE)
    with headrace.connect(tmp_path / "home", dialect="iotdb", clock=headrace.ManualClock(START)) as opened:
        opened.execute("create database root.p")
        opened.execute("create timeseries root.p.d1.a with datatype=INT32")
        opened.execute("create timeseries root.p.d1.b with datatype=DOUBLE")
        opened.execute("create timeseries root.p.d2.a with datatype=INT32")
        opened.execute("insert into root.p.d1(time, a, b) values (1, 1, 0.5), (2, 2, null), (3, null, 2.5), (60000, 4, 1.5)")
        opened.execute("insert into root.p.d2(time, a) values (2, 10), (60001, 20)")
        for name in ("Running", "Twice", "Squares", "Windows", "Broken"):
            opened.execute(f"create function {name} as 'mine.{name}'")
        yield opened


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    rows = connection.execute(sql).fetchall()
    return [tuple(round(cell.timestamp() * 1000) if hasattr(cell, "timestamp") else cell for cell in row) for row in rows]


def test_functions_of_series(connection: headrace.Connection) -> None:
    sums = [(1, 1.0), (2, 3.0), (60_000, 7.0), (1_000_000, -7.0)]
    assert fetch(connection, "select running(a) from root.p.d1") == sums
    assert fetch(connection, "select running(a, 'start'='10') + 1 from root.p.d1 where time < 3") == [
        (1, 12.0),
        (2, 14.0),
        (1_000_000, -12.0),
    ]
    assert fetch(connection, "select running(a), twice(b) from root.p.d1 limit 2 offset 1") == [(2, 3.0, None), (3, None, 5.0)]
    assert fetch(connection, "select twice(a) from root.p.* align by device") == [
        (1, "root.p.d1", 2.0),
        (2, "root.p.d1", 4.0),
        (60_000, "root.p.d1", 8.0),
        (2, "root.p.d2", 20.0),
        (60_001, "root.p.d2", 40.0),
    ]
    assert fetch(connection, "select a from root.p.d1 where twice(a) > 2 and twice(b) is null") == [(2, 2)]
    assert fetch(connection, "select running(a) from root.p.d2 where a > 1000") == []


@pytest.mark.drawn(2)
@pytest.mark.spark
def test_nested_calls_and_aggregates(connection: headrace.Connection) -> None:
    assert fetch(connection, "select running(twice(a)) from root.p.d1 limit 2") == [(1, 2.0), (2, 6.0)]
    assert fetch(connection, "select twice(running(a)) from root.p.d2 limit 1") == [(2, 20.0)]
    assert fetch(connection, "select avg(twice(a)), squares(a) from root.p.d1") == [(14 / 3, 21.0)]
    assert fetch(connection, "select twice(sum(a)) from root.p.d1 group by ([0, 120000), 1m)") == [(0, 6.0), (60_000, 8.0)]
    windows = "select squares(a) from root.p.* group by ([0, 180000), 1m) having squares(a) > 6 align by device"
    assert fetch(connection, windows) == [(60_000, "root.p.d1", 16.0), (0, "root.p.d2", 100.0), (60_000, "root.p.d2", 400.0)]
    assert fetch(connection, "select squares(a) from root.p.** group by level = 1") == [(521.0,)]
    overlapping = "select squares(a) from root.p.d1 group by ([0, 180000), 2m, 1m)"
    assert fetch(connection, overlapping) == [(0, 21.0), (60_000, 16.0), (120_000, 0.0)]


@pytest.mark.spark
def test_an_aggregate_of_no_rows_is_a_row(connection: headrace.Connection) -> None:
    assert fetch(connection, "select squares(a) from root.p.d1 where a > 100") == [(0.0,)]
    assert fetch(connection, "select squares(top_k(a, 'k'='1')) from root.p.d1 where a > 100") == [(0.0,)]


@pytest.mark.spark
def test_points_of_aggregates_may_lie_outside_of_their_windows(connection: headrace.Connection) -> None:
    connection.execute("create function integral as 'org.apache.iotdb.library.dprofile.UDAFIntegral'")
    windows = "select integral(count(a)) from root.p.d1 group by ([10, 120010), 1m)"
    assert fetch(connection, windows) == [(0, 30.0)]


@pytest.mark.spark
def test_results_are_written_by_into_and_continuous_queries(connection: headrace.Connection) -> None:
    connection.execute("select running(a) into root.p.sums(running) from root.p.d1 where time < 3")
    assert fetch(connection, "select running from root.p.sums") == [(1, 1.0), (2, 3.0), (1_000_000, -3.0)]
    connection.execute(
        "create continuous query cq resample every 1m begin select squares(a) into root.p.totals(squares) from root.p.d1 "
        "group by (1m) end"
    )
    minute = START // 60_000 * 60_000
    connection.execute(f"insert into root.p.d1(time, a) values ({minute + 1}, 3), ({minute + 2}, 4)")
    connection.clock.advance(120_000)
    connection.settle()
    assert (minute, 25.0) in fetch(connection, "select squares from root.p.totals")
    with pytest.raises(IntegrityError, match="SQUARES cannot be dropped: continuous query cq calls it"):
        connection.execute("drop function squares")


def test_explain_says_where_functions_run(connection: headrace.Connection) -> None:
    lines = [line.strip() for (line,) in fetch(connection, "explain select running(a), twice(a) from root.p.d1 where twice(a) > 1")]
    assert "running runs in a code host, row by row (about 0.25 µs for each)" in lines
    assert "twice runs in a code host, with many rows at once (about 0.04 µs for each)" in lines
    lines = [line.strip() for (line,) in fetch(connection, "explain select squares(a) from root.p.d1")]
    assert "squares runs in a code host, with many rows at once (about 0.04 µs for each)" in lines


def test_errors(connection: headrace.Connection) -> None:
    with pytest.raises(
        FunctionError, match=r"broken\(.*\) failed: ValueError|mine\.Broken failed on .*ValueError: no way at mine\.py:\d+"
    ):
        fetch(connection, "select broken(a) from root.p.d1")
    with pytest.raises(TypeMismatchError, match=r"the number of the input series is not valid\. expected: 1\. actual: 2\."):
        fetch(connection, "select running(a, b) from root.p.d1")
    with pytest.raises(ProgrammingError, match="the function running is not allowed in WHERE"):
        fetch(connection, "select a from root.p.d1 where running(a) > 1")
    with pytest.raises(TypeMismatchError, match=r"301: Parameter windowSize\(0\) should be positive"):
        fetch(connection, "select windows(a, 'size'='0') from root.p.d1")
    with pytest.raises(TypeMismatchError, match="301: no window is wanted"):
        fetch(connection, "select windows(a, 'size'='1') from root.p.d1")
    assert fetch(connection, "select twice(a) from root.p.d1 limit 1") == [(1, 2.0)]


@pytest.mark.drawn(2)
@pytest.mark.spark
@pytest.mark.parametrize(
    ("query", "rows", "remark"),
    [
        ("squares(a), count(a), avg(b) from root.p.d1 group by ([0, 180000), 1m)", 3, "1 of 3 columns"),
        ("squares(a), count(a) from root.p.d1 where b > 1 or a > 1 group by session(1s) having count(a) > 0", 2, "1 of 2 columns"),
        ("running(a), a, b + 1, twice(b) from root.p.*", 5, "3 of 6 columns"),
        ("running(a), a from root.p.* order by a desc align by device", 5, "1 of 2 columns"),
        ("squares(a), count(b) from root.p.* align by device", 1, "1 of 2 columns"),
        ("squares(b), __endTime, count(a) from root.p.* group by ([0, 120000), 1m) limit 3 align by device", 3, "1 of 3 columns"),
        ("squares(a), count(a) from root.p.** group by level = 1", 1, "1 of 2 columns"),
        ("avg(twice(a)) + 1, max_value(a) from root.p.d1", 1, "1 of 2 columns"),
    ],
)
def test_verify_checks_the_columns_that_do_not_rest_on_user_code(
    connection: headrace.Connection, query: str, rows: int, remark: str
) -> None:
    verified = connection.verify(f"select {query}")
    assert verified.equal, verified.difference
    assert verified.rows == rows
    assert verified.remark.startswith(f"not compared: {remark}, which rest on user code (")


@pytest.mark.spark
def test_columns_of_the_function_library_are_not_compared(connection: headrace.Connection) -> None:
    connection.execute("create function spread2 as 'org.apache.iotdb.library.dprofile.UDAFSpread'")
    verified = connection.verify("select spread2(a), a from root.p.d1")
    assert verified.equal
    assert verified.remark == "not compared: 1 of 2 columns, which rest on the function library (SPREAD2)"
    verified = connection.verify("select spread2(a), running(a), b from root.p.d1")
    assert verified.remark == "not compared: 2 of 3 columns, which rest on user code and the function library (RUNNING, SPREAD2)"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("running(a), twice(b) from root.p.d1", "cannot check a result that rests on user code: RUNNING, TWICE"),
        ("a from root.p.d1 where twice(a) > 1", "cannot check a result that rests on user code: TWICE"),
        ("count(a) from root.p.d1 having squares(a) > 1", "cannot check a result that rests on user code: SQUARES"),
        ("a from root.p.d1 order by twice(a)", "cannot check a result that rests on user code: TWICE"),
        ("a, running(a) from root.p.d1 limit 3", "cannot check LIMIT, OFFSET and FILL of rows that rest on user code: RUNNING"),
        (
            "a, running(a) from root.p.d1 fill(previous)",
            "cannot check LIMIT, OFFSET and FILL of rows that rest on user code: RUNNING",
        ),
        ("squares(a), count(b) from root.p.* limit 1 align by device", "cannot check LIMIT, OFFSET and FILL of rows"),
        ("squares(a), count(b) from root.p.d1 group by session(1s)", "cannot check windows that rest on user code: SQUARES"),
        ("count(twice(a)), count(a) from root.p.d1 group by count(a, 2)", "cannot check windows that rest on user code: TWICE"),
    ],
)
def test_verify_says_that_a_result_rests_on_user_code(connection: headrace.Connection, query: str, message: str) -> None:
    with pytest.raises(NotSupportedError, match=message):
        connection.verify(f"select {query}")


@pytest.mark.spark
def test_verify_checks_what_a_continuous_query_wrote_without_user_code(connection: headrace.Connection) -> None:
    connection.execute(
        "create cq cq resample every 1m begin select squares(a), count(a), max_value(b) into root.p.totals(squares, n, high) "
        "from root.p.d1 group by (20s) end"
    )
    minute = START // 60_000 * 60_000
    connection.execute(f"insert into root.p.d1(time, a, b) values ({minute + 1}, 3, 1), ({minute + 30_000}, 4, null)")
    connection.clock.advance(60_000)
    connection.settle()
    verified = connection.verify(cq="cq")
    assert (verified.equal, verified.rows) == (True, 3)
    assert verified.remark == "not compared: 1 of 3 columns, which rest on user code (SQUARES)"
    connection.execute(f"insert into root.p.totals(time, n) values ({minute}, 77)")
    verified = connection.verify(cq="cq")
    assert not verified.equal
    assert verified.remark.startswith("not compared: 1 of 3 columns, which rest on user code (SQUARES); in the execution over [")
    connection.execute("create cq alone begin select squares(a) into root.p.alone(squares) from root.p.d1 group by (20s) end")
    connection.clock.advance(60_000)
    connection.settle()
    with pytest.raises(NotSupportedError, match="cannot check a result that rests on user code: SQUARES"):
        connection.verify(cq="alone")
