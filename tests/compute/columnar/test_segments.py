"""Kernels give the same segments, windows and results as Spark SQL."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace.compute import Plan, merge, prepare, to_segments
from headrace.compute.columnar import SegmentKernel
from tests.compute.samples import METERS, select, to_arrow

pytestmark = pytest.mark.spark

SELECTED = (
    "count(*), count(a), avg(a), sum(a), sum(b), sum(c), min(a), max(c), min(c), max(d), min(s), max(e), spread(d), first(s), "
    "last(d), last_row(a), stddev(c), var_samp(a)"
)
QUERIES = (
    f"select {SELECTED} from meters partition by tbname interval(3s)",
    f"select {SELECTED} from meters partition by site, e interval(4s) sliding(3s)",
    f"select {SELECTED} from meters where a > 2 and c < 2.5 interval(4s) sliding(1s)",
    "select count(*), max(a), b from meters partition by tbname interval(5s, 1s)",
    f"select {SELECTED} from meters partition by tbname session(ts, 1s)",
    f"select {SELECTED} from d1 where s = 'x' or e session(ts, 1s)",
    f"select {SELECTED} from meters partition by tbname state_window(a)",
    "select count(*), sum(b), last(a) from meters where a is not null partition by tbname state_window(s)",
    "select count(*), first(a) from meters partition by tbname state_window(e)",
    f"select {SELECTED} from meters partition by tbname event_window start with a > 2 end with c < 1",
    "select count(*), sum(b) from d1 event_window start with e end with s = 'y' or a in (1, 2)",
    f"select {SELECTED} from meters partition by tbname count_window(3)",
    f"select {SELECTED} from meters partition by tbname count_window(5, 2)",
    "select count(*), sum(a) from d1 where a & 1 = 1 count_window(4, 1)",
    "select site, count(*), avg(d) from meters group by site",
    "select max(upper(s)), min(concat(s, '-', cast(a as varchar(9)))), sum(floor(d)), sum(round(c, 1)), sum(a % 3), "
    "max(cast(c as varchar(9))) from meters where s like '%X%' or substr(s, 1, 1) = 'y' partition by tbname interval(3s)",
    "select count(*), first(to_iso8601(ts)), last(trim(s)), max(abs(a)), max(weekofyear(ts)) from meters "
    "partition by lower(s), length(s) interval(1n)",
    "select count(*), max(timetruncate(ts, 1n)) from meters partition by tbname state_window(replace(s, 'x', 'y'))",
)
SMALL = st.none() | st.integers(-3, 3)
DOUBLES = st.none() | st.sampled_from([0.0, 1.5, -2.0, 2.5, math.nan, math.inf, 1e300])
READING = st.fixed_dictionaries(
    {
        "tbname": st.sampled_from(["d1", "d2", "d3"]),
        "ts": st.integers(-10_000, 10_000),
        "a": SMALL,
        "b": st.none() | st.sampled_from([0, 1, -1, 2**40, -(2**62), 2**62, 2**63 - 1]),
        "c": st.none() | st.sampled_from([0.5, 2.5, -1.0, math.nan]),
        "d": DOUBLES,
        "e": st.none() | st.booleans(),
        "s": st.sampled_from([None, "", "x", "y", "é"]),
    }
)


def rows_of(readings: list[dict[str, Any]], *, of_d1: bool) -> pa.Table:
    """Return rows in the order of the readings, which have distinct instants."""
    distinct = {reading["ts"]: reading for reading in readings}.values()
    sites = {"d1": "north", "d2": "south", "d3": None}
    rows = [reading | {"site": sites[reading["tbname"]]} for reading in distinct if not of_d1 or reading["tbname"] == "d1"]
    return to_arrow(METERS, rows)


def types_of(rows: pa.Table) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in rows.schema}


def comparable(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows as tuples, in one order, with rounded numbers."""
    return sorted((tuple(rounded(value) for value in row.values()) for row in rows.to_pylist()), key=repr)


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(rounded(part) for part in value.values())
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(f"{value:.10g}") + 0.0
    return value


def spark_segments(small: SparkSession, plan: Plan, rows: pa.Table) -> Any:
    return to_segments(plan, prepare(plan, small.createDataFrame(rows)), by_row=True)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=12, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
@given(readings=st.lists(READING, min_size=1, max_size=40), is_ordered=st.booleans(), parts=st.integers(1, 3))
def test_windows_of_kernels_equal_those_of_spark(
    small: SparkSession, query: str, readings: list[dict[str, Any]], is_ordered: bool, parts: int
) -> None:
    plan, rows = select(query), rows_of(readings, of_d1="from d1" in query)
    if is_ordered:
        rows = rows.sort_by([("tbname", "ascending"), ("ts", "ascending")])
    if rows.num_rows == 0:
        return
    kernel = SegmentKernel.compile(plan, types_of(rows))
    expected = merge(plan, spark_segments(small, plan, rows)).select(*kernel.schema.names).toArrow()
    windows = kernel.segments(rows)
    assert comparable(windows) == comparable(expected)
    assert windows.schema.types == expected.cast(kernel.schema).schema.types
    rows_by_part = np.array_split(np.arange(rows.num_rows), parts)
    pieces = [kernel.row_segments(rows.take(pa.array(part, pa.int64()))) for part in rows_by_part]
    assert comparable(kernel.merge(pa.concat_tables(pieces))) == comparable(expected)
