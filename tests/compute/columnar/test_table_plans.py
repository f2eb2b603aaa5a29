"""Queries over few rows of tables have the rows, types and order near that Spark gives them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from headrace.compute import evaluate
from headrace.compute.columnar import UnsupportedError, columns, table_plans
from headrace.compute.columnar.near import evaluate_locally
from headrace.compute.columnar.table_plans import check_tables, evaluate_tables
from tests.compute.samples import METERS, T0, Reader, meters, pairs, plan, to_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = meters(
    ("d1", 0, 1, 10, 1.5, 0.25, True, "on"),
    ("d1", 10_000, 2, None, None, -0.0, None, "Off"),
    ("d1", 20_000, None, 2**62, -2.5, 0.0, False, None),
    ("d1", 50_000, 2, 2**62, 3.0, math.nan, True, ""),
    ("d1", 50_001, 5, -7, 3.0, math.inf, True, "on"),
    ("d2", 5_000, 3, 1, 0.5, 1e300, False, "on"),
    ("d2", 10_000, 3, 2, 0.5, None, False, "x"),
    ("d2", 90_000, -4, 3, 0.5, -1.0, True, "élan"),
)
RANGE = f"ts >= {T0 - 20_000} and ts < {T0 + 120_000}"
POINTS = f"range({T0 - 5000}, {T0 + 60_000}) every(7s)"
QUERIES = (
    "select * from meters",
    "select ts, a from meters where d > 0 or s is null",
    "select distinct d from meters",
    "select distinct site, e from meters order by e desc",
    "select d, count(*) from meters group by d",
    "select s, a from meters order by d desc nulls first, a limit 4 offset 1",
    "select a from meters partition by tbname limit 1",
    "select tbname, sum(a) from meters partition by tbname slimit 1 soffset 1",
    "select count(*), sum(b), avg(a), first(s), last(d), spread(c), stddev(a), mode(s) from meters where a > 100",
    "select percentile(a, 50), percentile(d, 10, 50), irate(a), leastsquares(a, 1, 2), mode(d) from meters partition by tbname",
    "select twa(c), twa(a), increase(c), increase(d), rate(a), rate(d) from meters partition by tbname",
    "select _wstart, twa(c), twa(a) from meters partition by tbname interval(15s)",
    "select site, room, count(*), max(d), min(s) from meters group by site, room having count(*) > 1",
    "select _wstart, _wend, count(*), sum(b) from meters interval(30s)",
    "select _wstart, count(*), last(s) from meters partition by tbname interval(20s) sliding(10s)",
    "select _wstart, sum(a) from meters interval(1n)",
    "select _wstart, count(*) from d1 session(ts, 15s)",
    "select _wstart, _wduration, count(*) from d1 state_window(e)",
    "select _wstart, count(*) from d1 event_window start with a > 1 end with a > 4",
    "select _wstart, count(*) from meters partition by tbname count_window(2, 1)",
    "select _wstart, elapsed(ts), elapsed(ts, 1s) from d1 interval(20s)",
    *(
        f"select _wstart, sum(a), last(b), max(c), last(s) from meters where {RANGE} {keys} interval(10s) fill({mode})"
        for keys in ("", "partition by tbname")
        for mode in ("none", "null", "prev", "next", "linear", "value, 1, 2, 3, 'y'", "null_f")
    ),
    f"select _wstart, count(*) from meters where {RANGE} and a > 100 interval(10s) fill(value_f, 0)",
    *(
        f"select _irowts, _isfilled, interp(a), interp(c) from meters partition by tbname {POINTS} {fill}"
        for fill in ("fill(prev)", "fill(next)", "fill(linear)", "fill(near)", "fill(value, 1, 2)", "fill(null)")
    ),
    f"select _irowts, interp(a), interp(c) from meters {POINTS} fill(linear)",
    "select ts, diff(a) from meters partition by tbname",
    "select diff(b), csum(b) from d1",
    "select ts, derivative(a, 1s, 0) from meters partition by tbname",
    "select ts, csum(d) from d1 where d is not null",
    "select mavg(c, 2) from meters partition by tbname",
    "select statecount(a, 'GT', 1), stateduration(a, 'GT', 1, 1s) from d1",
    "select ts, top(b, 2) from meters",
    "select bottom(d, 2) from meters",
    "select ts, tail(a, 2, 1) from d1",
    "select ts, unique(d) from meters",
    "select _wstart, s from (select _wstart, sum(a) s from meters interval(20s)) where s > 1",
    "select ts, a + 1 x from d1 union all select ts, a from d2 order by x",
    "select a from d1 union select a from d2 order by a",
    "select x.ts, x.a, y.a from d1 x join d2 y on x.ts = y.ts",
    "select x.ts, x.a, y.a from d1 x left join d2 y on x.a = y.a and x.ts > y.ts",
    "select x.a, y.a from d1 x right join d2 y on x.e = y.e",
    "select x.a, y.a from d1 x full join d2 y on x.a = y.a order by 1, 2",
    "select x.ts, x.a from d1 x left semi join d2 y on x.ts = y.ts",
    "select x.ts, y.ts from d1 x left asof join d2 y on x.ts >= y.ts jlimit 2",
    "select x.ts, y.ts from d1 x right asof join d2 y on x.ts < y.ts",
)


@pytest.fixture(scope="module")
def stored() -> pa.Table:
    return to_arrow(METERS, ROWS)


@pytest.fixture(scope="module")
def frame(small: SparkSession, stored: pa.Table) -> DataFrame:
    return small.createDataFrame(stored).coalesce(1).cache()


def comparable(value: Any) -> Any:
    return f"{value:.12g}" if isinstance(value, float) else value


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(map(comparable, row)) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


@pytest.mark.spark
@pytest.mark.parametrize("sql", [*QUERIES, *(ours for ours, _ in pairs("queries.sql") if " union select" not in ours)])
def test_a_query_has_the_rows_of_spark(frame: DataFrame, stored: pa.Table, sql: str) -> None:
    bound, reader = plan(sql), Reader(stored)
    check_tables(bound)
    near = evaluate_tables(bound, reader, 1000)
    far = evaluate(bound, frame, statistics=reader).toArrow()
    assert near.schema.names == far.schema.names
    assert near.schema.types == far.schema.types
    assert rows_of(near) == rows_of(far)


@pytest.mark.parametrize(
    "sql", ["select hyperloglog(a) from meters", "select apercentile(a, 50) from meters", "select sample(a, 1) from d1"]
)
def test_what_only_spark_computes_is_left_to_it(sql: str) -> None:
    with pytest.raises(UnsupportedError):
        check_tables(plan(sql))


def test_a_number_that_no_type_holds_is_left_to_spark(stored: pa.Table) -> None:
    assert evaluate_locally(plan("select a from meters where dayofweek(1e300) > 1"), Reader(stored), 1000) is None


@pytest.mark.parametrize(
    "sql",
    [
        "select x.s, y.s from d1 x join d2 y on x.a < y.a",
        "select x.s, y.s from d1 x left asof join d2 y on x.ts >= y.ts",
        f"select last(s) from meters where {RANGE} interval(1s) fill(prev)",
        f"select interp(s) from d1 {POINTS} fill(prev)",
    ],
)
def test_rows_that_grow_too_large_are_left_to_spark(stored: pa.Table, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    evaluate_tables(plan(sql), Reader(stored), 1000)
    monkeypatch.setattr(columns, "MAX_BYTES", 20)
    with pytest.raises(UnsupportedError, match="too many bytes"):
        evaluate_tables(plan(sql), Reader(stored), 1000)


def test_rows_in_too_many_windows_are_left_to_spark(stored: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    sliding = plan("select count(*) from meters interval(10s) sliding(1s)")
    monkeypatch.setattr(table_plans, "MAX_COPIES", 10 * len(ROWS))
    evaluate_tables(sliding, Reader(stored), 1000)
    monkeypatch.setattr(table_plans, "MAX_COPIES", 10 * len(ROWS) - 1)
    with pytest.raises(UnsupportedError, match="too many windows"):
        evaluate_tables(sliding, Reader(stored), 1000)


def test_what_an_array_cannot_hold_is_left_to_spark(stored: pa.Table) -> None:
    class FullReader(Reader):
        def batches(self, *_: Any, **__: Any) -> Iterator[pa.Table]:
            raise pa.lib.ArrowCapacityError("array cannot contain more than 2147483646 bytes")

    assert evaluate_locally(plan("select a from meters"), FullReader(stored), 1000) is None


def test_a_query_over_too_many_rows_is_left_to_spark(stored: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = plan("select x.a from d1 x join d2 y on x.ts = y.ts")
    assert evaluate_tables(bound, Reader(stored), 2 * len(ROWS)).num_rows == 1
    with pytest.raises(UnsupportedError, match="too many rows"):
        evaluate_tables(bound, Reader(stored), 2 * len(ROWS) - 1)
    monkeypatch.setattr(table_plans, "MAX_ROWS", len(ROWS))
    with pytest.raises(UnsupportedError, match="too many rows"):
        evaluate_tables(bound, Reader(stored), 1000)
