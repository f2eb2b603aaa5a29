"""Plans that are evaluated with Arrow in this process have the results that Spark has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.compute import evaluate, language
from headrace.compute.columnar import frames, series_tables, table_plans
from headrace.compute.columnar.near import evaluate_locally, is_supported
from headrace.compute.columnar.table_plans import Series, evaluate_tables, reads_batches
from headrace.compute.iotdb.binding import bind_tree
from headrace.compute.iotdb.schema import SeriesTree
from headrace.compute.iotdb.scope import DeviceTable, TreeScope
from headrace.compute.plan import Plan
from headrace.compute.plan_sources import Scan, SeriesRows
from headrace.model.tables import Column, Database
from headrace.model.time import Precision
from headrace.model.tree_statements import TreeSelect
from headrace.model.trees import Device, Timeseries, tree_table
from headrace.model.types import BIGINT, BOOL, DOUBLE, TIMESTAMP, VARCHAR, DataType, TypeKind
from headrace.sql import parse
from headrace.storage.types import rows_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INT, FLOAT = DataType(TypeKind.INT), DataType(TypeKind.FLOAT)
COLUMNS = {"i": INT, "l": BIGINT, "f": FLOAT, "d": DOUBLE, "b": BOOL, "t": VARCHAR, "at": TIMESTAMP}
SERIES = {
    "root.p.g.d1": ("i", "d", "t", "b", "f"),
    "root.p.g.d2": ("i", "d", "l"),
    "root.p.d3": ("i", "l", "f", "at"),
    "root.q.d4": ("i", "d"),
}
DATABASES = {name: Database(name, Precision.MILLISECOND, "UTC") for name in ("root.p", "root.q")}
TABLES = {
    name: replace(tree_table(name), columns=(*tree_table(name).columns, *(Column(*column) for column in COLUMNS.items())))
    for name in DATABASES
}
DEVICES = [
    Device(path[:6], path, tuple(Timeseries(name, COLUMNS[name], name) for name in names), number=number)
    for number, (path, names) in enumerate(SERIES.items())
]
NUMBERS = st.sampled_from([0.0, 1.0, -1.5, 2.25, 1e300, math.nan, math.inf, -math.inf])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3),
    "l": st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    "f": NUMBERS.filter(lambda value: value != 1e300),
    "d": NUMBERS,
    "b": st.booleans(),
    "t": st.sampled_from(["", "a", "b", "ä'\\"]),
    "at": st.integers(-5, 5).map(lambda value: value * 1000),
}
POINTS = st.lists(
    st.sampled_from(sorted(SERIES)).flatmap(
        lambda path: st.tuples(
            st.just(path), st.integers(-5, 40), st.fixed_dictionaries({name: st.none() | VALUES[name] for name in SERIES[path]})
        )
    ),
    min_size=8,
    max_size=40,
)
GROUPS = (
    "([-3, 20), 5ms)",
    "([0, 23), 5ms, 2ms)",
    "([0, 23), 2ms, 7ms)",
    "((-5, 20], 4ms)",
    "([1970-01-01T00:00:00, 1970-03-15T00:00:00), 1mo)",
)
AGGREGATES = (
    "count(i), sum(i), avg(i), min_value(i), max_value(i), count(i) + avg(i)",
    "first_value(i), last_value(i), min_time(i), max_time(i)",
    "stddev(i), variance(i), stddev_pop(i), var_pop(i)",
    "avg(i * 2 - 1), count(i) / count(i), -max_value(i * 1.5), sum(i / i)",
)
BY_DEVICE = (
    *(f"select {items} from root.p.g.*, root.q.d4{{group}} align by device" for items in AGGREGATES),
    "select first_value(t), last_value(b), last_value(f), min_value(d), extreme(d) from root.p.g.d1{group} align by device",
    "select count(i), sum(i) from root.p.** where d > 0 or i <= 1{group} having count(i) >= 1 align by device",
    "select count(at), last_value(at), max_value(l) from root.p.d3{group} order by device desc limit 3 offset 1 align by device",
)
BY_TIME = (
    *(f"select {items} from root.p.g.*, root.q.d4{{group}}" for items in AGGREGATES),
    "select count(i), last_value(d), stddev(i), extreme(f), avg(l) from root.p.**{group}",
    "select count(d1.i) + count(d2.i), avg(d1.i), sum(d2.i + d2.d) from root.p.g{group}",
    "select sum(d1.i + d2.i), count(d1.i) from root.p.g where d1.i > 0{group}",
    "select last_value(t), min_value(f), max_value(f) from root.p.g.d1 where time >= 3 and i != 2{group}",
    "select avg(i), last_value(d) from root.p.g.*, root.q.d4 where time > 0 and time < 17{group} having count(root.p.g.d1.i) > 0",
)
RAW = (
    "select i % 3, d % 2.5 from root.p.g.d1",
    "select i, d from root.p.g.*, root.q.d4 align by device",
    "select i + d, i * 2, -d, i / d from root.p.g.*, root.q.d4 where d >= 0 and i is not null align by device",
    "select i, f, at from root.p.d3 where not (f > 1 or i = 1) align by device",
    "select i, t from root.p.g.d1 where t = 'a' or t in ('b', 'c') or i between 0 and 2 order by i desc align by device",
    "select d from root.p.g.*, root.q.d4 order by d desc, time asc limit 5 align by device",
    "select * from root.p.g.*",
    "select i + 1, d from root.p.g.*, root.q.d4 where time >= 0 and time <= 20",
    "select p.g.d1.i + q.d4.i, p.g.d2.d from root where root.p.g.d1.i > 0 and time < 30",
    "select d1.d, d2.i from root.p.g order by d1.d desc limit 4",
    "select i, d, b from root.p.g.d1 where b = true or d != 1 limit 3 offset 1",
    "select i, case when d > 1 then 'x' when i = 0 then t end from root.p.g.d1",
)


@dataclass(frozen=True)
class Reader:
    """Reads tables in memory, in two batches."""

    tables: dict[str, pa.Table]

    def row_count(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> int:  # noqa: ARG002
        return int(self.tables[scan.database.name].num_rows)

    def batches(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> Iterator[pa.Table]:  # noqa: ARG002
        table = self.tables[scan.database.name].select(list(scan.columns))
        half = table.num_rows // 2
        yield table.slice(half)
        yield table.slice(0, half)

    def subtables(self, scan: Scan) -> pa.Table:
        raise NotImplementedError


def stored_tables(points: Sequence[tuple[str, int, dict[str, Any]]]) -> dict[str, pa.Table]:
    """Return the tables with the last points of each device and instant."""
    unique = {(path, at): values for path, at, values in points}
    tables = {}
    for name, table in TABLES.items():
        own = [
            {"time": at * 1000, **values, "device": path}
            for (path, at), values in unique.items()
            if path.startswith(f"{name}.") and any(value is not None for value in values.values())
        ]
        schema = rows_schema(table, DATABASES[name]).remove_metadata()
        tables[name] = pa.Table.from_pylist([{field.name: row.get(field.name) for field in schema} for row in own], schema)
    return tables


def plan_of(sql: str, **scope: Any) -> Plan:
    statement = parse(sql, "iotdb")
    assert isinstance(statement, TreeSelect)
    tables = {name: DeviceTable(DATABASES[name], TABLES[name]) for name in DATABASES}
    bound = bind_tree(statement.query, TreeScope(language("iotdb"), SeriesTree(DEVICES), tables, **scope))
    assert bound is not None
    return bound.plan


def comparable(table: pa.Table) -> list[tuple[Any, ...]]:
    def plain(value: Any) -> Any:
        return ("NaN" if math.isnan(value) else float(f"{value:.9g}")) if isinstance(value, float) else value

    return [tuple(map(plain, row)) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def check(spark: SparkSession, tables: dict[str, pa.Table], sql: str) -> None:
    plan = plan_of(sql)
    near = evaluate_tables(plan, Reader(tables), 1000)

    def read(scan: Scan) -> DataFrame:
        return spark.createDataFrame(tables[scan.database.name]).coalesce(1)

    assert isinstance(plan.source, SeriesRows)
    plain = evaluate(replace(plan, source=replace(plan.source, stored=())), read).toArrow()
    results = {"near": near}
    if plan.aggregated and plan.source.aligned and len(plan.source.devices) > 1:
        results["by device"] = evaluate(plan, read).toArrow()
    for name, result in results.items():
        assert result.schema.names == plain.schema.names, (name, sql)
        assert result.schema.types == plain.schema.types, (name, sql)
        assert comparable(result) == comparable(plain), (name, sql)


@pytest.mark.drawn(2)
@pytest.mark.spark
@pytest.mark.parametrize("query", [*BY_DEVICE, *BY_TIME])
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(points=POINTS, group=st.sampled_from(["", *(f" group by {group}" for group in GROUPS)]))
def test_aggregates_equal_those_of_spark(
    small: SparkSession, query: str, points: list[tuple[str, int, dict[str, Any]]], group: str
) -> None:
    check(small, stored_tables(points), query.format(group=group))


@pytest.mark.spark
@pytest.mark.parametrize("query", RAW)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(points=POINTS)
def test_rows_equal_those_of_spark(small: SparkSession, query: str, points: list[tuple[str, int, dict[str, Any]]]) -> None:
    check(small, stored_tables(points), query)


SUPPORTED = "select count(i) from root.p.g.* group by ([0, 20), 5ms)"
TABLES_OF_ONE_POINT = stored_tables([("root.p.g.d1", 1, {"i": 1}), ("root.p.g.d2", 2, {"i": 2})])


def run(query: str, max_rows: int = 1000) -> pa.Table | None:
    return evaluate_locally(plan_of(query), Reader(TABLES_OF_ONE_POINT), max_rows)


@pytest.mark.parametrize(
    "query",
    [
        "select mode(i) from root.p.g.d1",
        "select diff(i) from root.p.g.d1",
        "select count(i) from root.p.g.d1 group by session(5ms)",
        "select count(i) from root.p.g.d1 group by variation(i)",
        "select i from root.p.g.d1 fill(previous)",
        "select count(i) from root.p.g.d1 group by ([0, 20), 5ms) fill(previous)",
    ],
)
def test_what_needs_all_rows_in_memory_reads_fewer(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(query)
    assert is_supported(plan)
    assert not reads_batches(plan)
    assert run(query) is not None
    monkeypatch.setattr(table_plans, "MAX_ROWS", 1)
    assert run(query) is None


@pytest.mark.parametrize(
    "query",
    [
        SUPPORTED,
        f"{SUPPORTED} align by device",
        "select i * 2 from root.p.g.* where i > 0",
        "select sin(i) from root.p.g.* align by device",
        "select count(i) from root.p.g.* group by ([0, 20), 5ms), level = 1",
    ],
)
def test_rows_of_series_are_evaluated_in_batches(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_plans, "MAX_ROWS", 1)
    monkeypatch.setattr(table_plans, "MIN_WAITING", 0)
    assert run(query) is not None


@pytest.mark.parametrize(
    "query",
    [
        "select i from root.p.g.d1 where t regexp '(?<=b)a'",
        "select count(i) from root.p.g.d1 group by ([0, 20000), 50ms, 1ms)",
    ],
)
def test_what_only_spark_evaluates_is_left_to_it(query: str) -> None:
    plan = plan_of(query)
    assert not is_supported(plan)
    assert run(query) is None


def test_a_query_over_too_many_rows_is_left_to_spark() -> None:
    result = run(SUPPORTED, 2)
    assert result is not None
    assert result.num_rows == 4
    assert run(SUPPORTED, 1) is None


@pytest.mark.parametrize(
    ("query", "module", "limit"),
    [
        (SUPPORTED, series_tables, "MAX_CELLS"),
        ("select i from root.p.g.*", series_tables, "MAX_CELLS"),
        ("select i from root.p.g.* align by device", frames, "MAX_BYTES"),
    ],
)
def test_what_takes_too_much_memory_is_left_to_spark(
    query: str, module: ModuleType, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(query) is not None
    monkeypatch.setattr(module, limit, 3)
    assert run(query) is None


def test_rows_older_than_the_time_to_live_do_not_count() -> None:
    plan = plan_of(SUPPORTED, ttl_ms={"root.p.g.d1": 5}, now=7)
    result = evaluate_locally(plan, Reader(TABLES_OF_ONE_POINT), 1000)
    assert result is not None
    assert [column.to_pylist() for column in result.columns[1:]] == [[0, 0, 0, 0], [1, 0, 0, 0]]


def test_series_are_aggregated_before_their_windows_are_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_tables, "aligned", None)
    result = run(SUPPORTED)
    assert result is not None
    assert result.column_names == ["Time", "count(root.p.g.d1.i)", "count(root.p.g.d2.i)"]
    assert [column.to_pylist() for column in result.columns[1:]] == [[1, 0, 0, 0], [1, 0, 0, 0]]


@pytest.mark.spark
@pytest.mark.parametrize("query", [SUPPORTED, f"{SUPPORTED} align by device"])
def test_spark_pushes_the_range_down_to_the_files(spark: SparkSession, query: str, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.maxMetadataStringLength", "1000")
    session.createDataFrame(TABLES_OF_ONE_POINT["root.p"]).write.parquet(str(tmp_path / "rows"))
    result = evaluate(plan_of(query), lambda _: session.read.parquet(str(tmp_path / "rows")))
    pushed = result._jdf.queryExecution().executedPlan().toString().partition("PushedFilters: ")[2].splitlines()[0]
    assert "GreaterThanOrEqual(time,1970-01-01" in pushed
    assert "LessThanOrEqual(time,1970-01-01" in pushed
