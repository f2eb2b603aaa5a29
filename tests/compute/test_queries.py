"""SELECT without windows, compared with DuckDB over random rows; order and limits by hand."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from headrace.compute import evaluate
from headrace.errors import LimitError
from headrace.model.tables import TBNAME
from tests.compute.samples import KEYED, METERS, T0, WIDE, answer, collect_rows, frame, meters, pairs, plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def random_rows(seed: int) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    choices: list[list[Any]] = [[None, *range(6)], [None, *range(100)], [None], [None, 1.5, -2.25], [None], [None, "on", "Off", ""]]
    points = [(subtable, at) for subtable in ("d1", "d2") for at in dice.sample(range(0, 120_000, 2_000), 40)]
    dice.shuffle(points)
    return meters(*((*point, *[dice.choice(values) for values in choices]) for point in points))


ROWS = random_rows(5)


@pytest.fixture(scope="module")
def rows(small: SparkSession) -> DataFrame:
    return frame(small, METERS, ROWS).cache()


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    """Return DuckDB with the same rows, instants as BIGINT milliseconds."""
    connection = duckdb.connect()
    names = [column.name for column in (*METERS.columns, *METERS.tags)]
    found = pa.table({name: [row.get(name) for row in ROWS] for name in (*names, TBNAME)})
    connection.register("meters", found)
    return connection


def comparable(value: Any) -> Any:
    if value is None:
        return (0, "")
    return (1, f"{value:.9g}") if isinstance(value, float | int) and not isinstance(value, bool) else (2, str(value))


def sorted_rows(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(comparable(value) for value in row) for row in found)


@pytest.mark.parametrize(("ours", "theirs"), pairs("queries.sql"))
def test_a_query_gives_what_duckdb_gives(rows: DataFrame, duck: duckdb.DuckDBPyConnection, ours: str, theirs: str) -> None:
    found = collect_rows(evaluate(plan(ours), rows))
    wanted = duck.sql(theirs)
    instants = {n for n, name in enumerate(wanted.columns) if name == "ts" or "ts //" in name}
    moved = [tuple(v - T0 if n in instants else v for n, v in enumerate(row)) for row in wanted.fetchall()]
    assert sorted_rows(found) == sorted_rows(moved)


def test_order_by_takes_names_positions_aliases_and_expressions(rows: DataFrame) -> None:
    key = lambda row: (-row["b"] if row["b"] is not None else math.inf, row["ts"])  # noqa: E731
    by_hand = [row["ts"] - T0 for row in sorted((row for row in ROWS if row[TBNAME] == "d1"), key=key)]
    for order in ("b desc, ts", "2 desc, 1", "x desc, ts", "b + 0 desc, ts", "-b, ts nulls last"):
        sql = f"select ts, b x from d1 order by {order}"
        nulls_last = [row[0] for row in answer(sql, rows)]
        if order.startswith("-b"):
            present = {row["ts"] - T0 for row in ROWS if row["b"] is not None and row[TBNAME] == "d1"}
            assert [at for at in nulls_last if at in present] == [at for at in by_hand if at in present]
        else:
            assert nulls_last == by_hand, order


def test_null_comes_first_in_ascending_and_last_in_descending_order(small: SparkSession) -> None:
    found = frame(small, METERS, meters(("d1", 0, 2), ("d1", 1), ("d1", 2, 1)))
    assert answer("select a from d1 order by a", found) == [(None,), (1,), (2,)]
    assert answer("select a from d1 order by a desc", found) == [(2,), (1,), (None,)]
    assert answer("select a from d1 order by a nulls last", found) == [(1,), (2,), (None,)]


def test_rows_without_order_by_come_by_time_and_windows_by_group_and_start(rows: DataFrame) -> None:
    instants = [row[0] for row in answer("select ts from d1", rows)]
    assert instants == sorted(instants)
    windows = answer("select tbname, _wstart, count(*) from meters partition by tbname interval(10s)", rows)
    assert [row[:2] for row in windows] == sorted(row[:2] for row in windows)


def test_limit_takes_the_first_rows_and_of_a_partitioned_query_those_of_each_partition(rows: DataFrame) -> None:
    every = answer("select tbname, ts from meters partition by tbname", rows)
    first, second = ([row for row in every if row[0] == name] for name in ("d1", "d2"))
    everything = answer("select tbname, ts from meters order by ts, tbname", rows)
    assert answer(f"select tbname, ts from meters order by ts, tbname limit {2**31} offset 1", rows) == everything[1:]
    assert answer(f"select tbname, ts from meters order by ts, tbname limit {2**31 - 1} offset 1", rows) == everything[1:]
    with pytest.raises(LimitError, match=f"OFFSET is at most {2**31 - 1}"):
        answer(f"select tbname, ts from meters limit 1 offset {2**31}", rows)
    assert answer("select tbname, ts from meters partition by tbname limit 2 offset 1", rows) == first[1:3] + second[1:3]
    assert (
        answer("select tbname, ts from meters partition by tbname order by ts desc, tbname limit 3", rows)
        == sorted(every, key=lambda row: (-row[1], row[0]))[:3]
    )
    assert answer("select tbname, ts from meters partition by tbname slimit 1 soffset 1", rows) == second
    assert [row[0] for row in answer("select ts from d1 limit 5, 3", rows)] == [at for _, at in first][5:8]


def test_a_sub_query_keeps_its_order_and_its_limit(rows: DataFrame) -> None:
    inner = answer("select ts, a from d1 order by b desc, ts limit 7", rows)
    assert answer("select * from (select ts, a from d1 order by b desc, ts limit 7)", rows) == inner
    assert answer("select count(*) from (select ts from meters limit 4)", rows) == [(4,)]


def test_a_query_without_a_table_gives_one_row(rows: DataFrame) -> None:
    assert answer("select 1 + 1 x, upper('a')", rows) == [(2.0, "A")]


def test_results_have_the_stored_types_of_their_declared_types(small: SparkSession) -> None:
    found = evaluate(plan("select ts, u8, u64, at, m, j, u8 > 1 t from wide"), frame(small, WIDE, [{"ts": T0}]))
    assert [type_ for _, type_ in found.dtypes] == [
        "timestamp",
        "smallint",
        "decimal(20,0)",
        "timestamp",
        "decimal(10,0)",
        "binary",
        "boolean",
    ]


def test_two_columns_may_have_one_name(rows: DataFrame) -> None:
    found = evaluate(plan("select a, a, count(*), count(*) from d1 group by a"), rows)
    assert found.columns == ["a", "a", "count(*)", "count(*)"]


def test_rows_of_one_instant_are_ordered_by_the_composite_key(small: SparkSession) -> None:
    rows = frame(small, KEYED, [{"ts": T0, "k": k, "v": 10 - k} for k in (3, 1, 2)])
    assert answer("select first(v), last(v) from keyed", rows) == [(9, 7)]
    assert answer("select _wstart, count(*), first(v) from keyed count_window(2)", rows) == [(0, 2, 9), (0, 1, 7)]


def test_columns_may_be_named_like_internal_ones(small: SparkSession) -> None:
    rows = frame(small, METERS, meters(("d1", 0, 1, 5), ("d1", 1, 2, 7)))
    sql = "select p0, _ts, x0, diff(x0) from (select ts _ts, a p0, b x0 from d1) partition by p0 + 0"
    assert answer(sql.replace(", diff(x0)", ""), rows) == [(1, 0, 5), (2, 1, 7)]
    assert answer("select o0, sum(p0) from (select ts, a o0, b p0 from d1) group by o0", rows) == [(1, 5), (2, 7)]


def test_the_range_of_time_in_where_is_a_constant(rows: DataFrame) -> None:
    condition = f"ts > {T0 + 999} and ts <= {T0 + 40_000}"
    found = answer(f"select _qstart, _qend, _qduration, _qduration / 2 half, count(*) from meters where {condition}", rows)
    count = answer(f"select count(*) from meters where {condition}", rows)[0][0]
    assert found == [(1000, 40_000, 39_000, 19_500.0, count)]
    names = [output.name for output in plan(f"select _qstart, _qend s from meters where {condition}").outputs]
    assert names == ["_qstart", "s"]


def test_the_offset_auto_lets_windows_begin_where_the_range_begins(rows: DataFrame) -> None:
    condition = f"where ts >= {T0 + 3000}"
    for sliding in ("", " sliding(5s)"):
        ours = answer(f"select _wstart, count(*) from meters {condition} interval(10s, auto){sliding}", rows)
        offset = (T0 + 3000) % (5000 if sliding else 10_000)
        assert ours == answer(f"select _wstart, count(*) from meters {condition} interval(10s, {offset}a){sliding}", rows)


@pytest.mark.parametrize("condition", ["", f"where ts < {T0 + 60_000}", f"where ts >= {T0 + 3000} or a > 2"])
def test_the_offset_auto_is_none_without_the_start_of_a_range(rows: DataFrame, condition: str) -> None:
    query = f"select _wstart, count(*) from meters {condition} interval(7s"
    assert answer(f"{query}, auto)", rows) == answer(f"{query})", rows)
    assert plan("select count(*) from meters interval(1n, auto)") == plan("select count(*) from meters interval(1n)")
