"""Queries whose windows kernels compute return what Spark SQL returns, however the rows are stored."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

import headrace
from headrace.compute.columnar import UnsupportedError
from headrace.errors import NotSupportedError
from headrace.model.tables import TBNAME, Table
from headrace.queries import evaluation
from headrace.settings import load
from headrace.storage.delta import share_planning, staged_files
from headrace.streams.sources import shares as sources
from tests.support.drawing import TAKES_ALL

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

NUMBERS = count()
SUBTABLES = ("d1", "d2", "d3", "no_tags")
COLUMNS = "ts TIMESTAMP, a INT, b BIGINT, c FLOAT, d DOUBLE, e BOOL, s VARCHAR(8)"
SELECTED = "_wstart, _wend, count(*), count(a), avg(a), sum(b), min(c), max(d), min(s), first(s), last(d), last_row(a), spread(d)"
BY_SERIES = (
    "interval(3s)",
    "interval(4s) sliding(1s)",
    "interval(1n, 2s)",
    "session(ts, 1s)",
    "state_window(a)",
    "event_window start with a > 1 end with c < 1",
    "count_window(3)",
    "count_window(5, 2)",
)
QUERIES = (
    *(f"select tbname, {SELECTED} from {{table}} partition by tbname {window}" for window in BY_SERIES),
    *(f"select {SELECTED} from {{table}} where a > 0 or d < 1.5 {window}" for window in ("interval(4s, 1s)", "session(ts, 500a)")),
    f"select site, tbname, {SELECTED} from {{table}} where site <> 2 partition by site, tbname state_window(s)",
    "select tbname, concat(tbname, '!'), _wstart, count(*), site from {table} where ts > 0 and ts <= 9000 "
    "partition by tbname, site session(ts, 2s)",
    "select tbname, _wstart, count(*) n from {table} partition by tbname interval(2s) having count(*) > 1 "
    "order by n desc, 2, 1 limit 5",
    "select tbname, _wstart, sum(a) from {table} partition by tbname count_window(2) limit 2",
    "select tbname, _wstart, sum(a) from {table} where ts >= -5000 and ts < 5000 partition by tbname interval(2s) fill(prev)",
    "select site, count(*), sum(n) from (select site, count(*) n from {table} partition by tbname, site interval(3s)) "
    "group by site order by site",
    "select _wstart, count(*), avg(d) from d1 event_window start with e end with s = 'y'",
)
DRAWN_QUERIES = len(QUERIES) if TAKES_ALL else 6
READING = st.fixed_dictionaries(
    {
        TBNAME: st.sampled_from(SUBTABLES),
        "ts": st.integers(-10_000, 20_000),
        "a": st.none() | st.integers(-3, 3),
        "b": st.none() | st.sampled_from([0, 1, -1, 2**40, -(2**62), 2**63 - 1]),
        "c": st.none() | st.sampled_from([0.5, 2.5, -1.0, math.nan]),
        "d": st.none() | st.sampled_from([0.0, 1.5, -2.0, 2.5, math.nan]),
        "e": st.none() | st.booleans(),
        "s": st.sampled_from([None, "", "x", "y", "é"]),
    }
)
COMMITS = st.lists(st.lists(READING, min_size=1, max_size=40), min_size=1, max_size=5)


@dataclass(frozen=True)
class Sides:
    """The same tables, read by kernels and by Spark SQL."""

    kernels: headrace.Connection
    spark: headrace.Connection

    def create(self) -> Table:
        """Create a supertable with three subtables."""
        name = f"m{next(NUMBERS)}"
        for subtable in SUBTABLES[:3]:
            self.spark.execute(f"drop table if exists {subtable}")
        self.spark.execute(f"create stable {name} ({COLUMNS}) tags (site int)")
        for number, subtable in enumerate(SUBTABLES[:3]):
            self.spark.execute(f"create table {subtable} using {name} tags ({number})")
        return self.spark.session.context.catalog.tables.get("db", name)

    def write(self, table: Table, readings: Sequence[dict[str, Any]]) -> None:
        """Commit readings."""
        context = self.spark.session.context
        database = context.catalog.databases.get("db")
        unique = {(row[TBNAME], row["ts"]): row for row in readings}.values()
        schema = context.tables.schema(table, database)
        values = {name: pa.array([row.get(name) for row in unique], schema.field(name).type) for name in schema.names[1:]}
        times = pa.array([row["ts"] * 1000 for row in unique], pa.int64()).cast(schema.field("ts").type)
        context.tables.writer.write(table, database, pa.table({"ts": times, **values}))

    def check(self, query: str) -> None:
        """Compare both results, and their order."""
        expected, actual = (side.execute(query).fetchall() for side in (self.spark, self.kernels))
        assert list(map(repr, actual)) == list(map(repr, expected)), query


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    home = tmp_path_factory.mktemp("kernels")
    opened = [headrace.connect(settings=load(home=home, kernels=use, local_rows=0)) for use in ("always", "never")]
    opened[1].execute("create database db")
    for side in opened:
        side.execute("use db")
    yield Sides(*opened)
    for side in opened:
        side.close()


# An example takes seconds, so it is not made smaller.
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
@given(
    commits=COMMITS,
    compacted=st.integers(0, 5),
    group_rows=st.sampled_from([4, 1000]),
    by_windows=st.booleans(),
    order_value=st.sampled_from([0, math.inf]),
    queries=st.lists(st.sampled_from(QUERIES), min_size=DRAWN_QUERIES, max_size=DRAWN_QUERIES, unique=True),
)
def test_kernels_and_spark_sql_give_equal_results(
    sides: Sides,
    monkeypatch: pytest.MonkeyPatch,
    commits: list[list[dict[str, Any]]],
    compacted: int,
    group_rows: int,
    by_windows: bool,
    order_value: float,
    queries: list[str],
) -> None:
    monkeypatch.setattr(share_planning, "MIN_WINDOW_ROWS", 0 if by_windows else math.inf)
    monkeypatch.setattr(share_planning, "MAX_SLOWDOWN", math.inf)
    monkeypatch.setattr(share_planning, "ORDER_VALUE", order_value)
    monkeypatch.setattr(staged_files, "ROW_GROUP_ROWS", group_rows)
    monkeypatch.setattr(share_planning, "TARGET_ROWS", 15)
    table = sides.create()
    for number, readings in enumerate(commits):
        sides.write(table, readings)
        if number + 1 == compacted:
            sides.spark.session.context.tables.maintenance.compact(table)
    for query in queries:
        sides.check(query.format(table=table.name))


def test_columns_that_older_files_lack_are_null(sides: Sides) -> None:
    table = sides.create()
    sides.write(table, [{TBNAME: "d1", "ts": at * 100, "a": at} for at in range(10)])
    sides.spark.execute(f"alter stable {table.name} add column f double")
    table = sides.spark.session.context.catalog.tables.get("db", table.name)
    sides.write(table, [{TBNAME: "d1", "ts": 1000 + at * 100, "a": at, "f": 0.5 * at} for at in range(10)])
    sides.check(f"select tbname, _wstart, count(f), sum(f), max(a) from {table.name} partition by tbname interval(500a)")


def test_unordered_files_are_merged_by_time_if_windows_can_be(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_planning, "MAX_READS", 0.5)
    table = sides.create()
    for start in range(3):
        sides.write(table, [{TBNAME: f"d{1 + at % 3}", "ts": start * 1000 + at * 130, "a": at} for at in range(20)])
    for window in ("interval(500a)", "session(ts, 200a)"):
        sides.check(f"select tbname, _wstart, count(*), sum(a) from {table.name} partition by tbname {window}")
    with pytest.raises(NotSupportedError, match="not ordered by series"):
        sides.kernels.execute(f"select count(*) from {table.name} partition by tbname count_window(2)")


class FailingShare:
    """A share with a value that kernels do not handle."""

    by_series = True

    def read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        raise UnsupportedError(f"a value of {columns[0]}")


class FailingShares(sources.TableShares):
    """Shares of which every one fails in its task."""

    def shares(self, *_: Any, **__: Any) -> Sequence[Any]:
        return [FailingShare()]


def test_a_value_that_kernels_do_not_handle_is_left_to_spark_sql(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    table = sides.create()
    sides.write(table, [{TBNAME: "d1", "ts": at, "a": at} for at in range(3)])
    # Spark's workers cannot import the tests.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    monkeypatch.setattr(evaluation, "TableShares", FailingShares)
    assert sides.kernels.execute("select count(*), sum(a) from d1 interval(1s)").fetchall() == [(3, 3)]


def test_what_kernels_cannot_compute_is_refused_only_if_they_are_forced(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MIN_ROWS", 1)
    table = sides.create()
    sides.write(table, [{TBNAME: "d1", "ts": at, "a": at} for at in range(5)])
    query = f"select tbname, hyperloglog(a) from {table.name} partition by tbname interval(1s)"
    with pytest.raises(NotSupportedError, match="kernels cannot compute the windows"):
        sides.kernels.execute(query)
    with headrace.connect(settings=load(home=sides.spark.session.context.settings.home, local_rows=0)) as auto:
        auto.execute("use db")
        assert auto.execute(query).fetchall() == sides.spark.execute(query).fetchall() == [("d1", 5)]


NEAR = "query in this process with Arrow, or on Spark if it reads many rows"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("partition by tbname count_window(2)", f"{NEAR}, windows by kernels from 1,000,000 rows on"),
        ("count_window(2)", f"{NEAR}, windows by Spark SQL: windows across series that depend on single rows"),
        ("interval(1n)", f"{NEAR}, windows by kernels from 1,000,000 rows on"),
        ("", NEAR),
    ],
)
def test_explain_says_what_computes_the_windows(sides: Sides, query: str, expected: str) -> None:
    table = sides.create()
    lines = sides.spark.execute(f"explain select count(*) from {table.name} {query}").fetchall()
    assert lines[0] == (expected,)


def test_explain_analyze_says_that_kernels_have_computed_a_query(sides: Sides) -> None:
    table = sides.create()
    sides.write(table, [{TBNAME: name, "ts": 0} for name in ("d1", "d2")])
    query = f"explain analyze select _wstart, count(*) from {table.name} partition by tbname count_window(2)"
    lines = [line for (line,) in sides.kernels.execute(query).fetchall()]
    assert re.fullmatch(r"computed by kernels in \d tasks? of Spark: 2 rows", lines[-4])
    assert lines[-3] == "read by kernels: row groups of 1 file"
