"""Each form of a query over trees that verify covers: its result is verified, and one that was tampered with is not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace
from headrace.model.tree_queries import TreeQuery
from headrace.model.tree_statements import TreeSelect
from headrace.service.tree_verification import tree_source
from headrace.settings import load
from headrace.sql import parse
from headrace.trees.scope import tree_scope
from headrace.verify.iotdb import verify_tree
from tests.conformance.results import comparable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

SERIES = (
    "a.d1.v with datatype=INT32 tags(site=north, unit=kW)",
    "a.d1.x with datatype=DOUBLE",
    "a.d2.v with datatype=INT32 tags(site=south, unit=kW)",
    "b.d1.v with datatype=INT32 tags(site=north)",
    "b.d1.word with datatype=TEXT tags(site=west)",
)
VALUES = (5, 5, 0, 0, 0, 9, -3, 4, None, 7, 7, 1, 0, 12, 3)
TIMES = (0, 1, 2, 3, 10, 11, 12, 30, 31, 32, 33, 50, 51, 70, 71)
FORMS = (
    "select count(v), count(word) from root.f.** group by tags(site)",
    "select sum(v) from root.f.a.* group by ([0, 100), 20ms), tags(unit, site) order by time desc fill(7) limit 3",
    "select avg(v), __endTime from root.f.a.d1 group by session(5ms)",
    "select count(v) from root.f.a.*, root.f.b.d1 group by session(2ms) align by device",
    "select count(x) from root.f.a.d1 group by variation(v)",
    "select sum(x) from root.f.a.d1 group by variation(v, 4, ignoreNull=false)",
    "select sum(x), __endTime from root.f.a.d1 group by condition(v > 3, keep >= 2)",
    "select sum(x) from root.f.a.d1 group by count(v, 4)",
    "select count_if(v > 3, 2), count_if(v > 3, keep = 1) from root.f.a.d1",
    "select count_if(v > 3, 1, 'ignoreNull'='false'), count(x) from root.f.a.d1",
    "select count(v) as n, count(v) as again, count(x) from root.f.a.* align by device",
    "select count(v), sum(x) from root.f.a.* where x > 0 and time >= 0 align by device",
    "select count(v) from root.f.a.* where (x > 0 or time >= 0) and v > 0 align by device",
    "select word from root.f.b.d1 where word like '%\\\\we'",
    "select difference(v), non_negative_difference(x), derivative(x), time_difference(v), change_points(v) from root.f.a.d1",
    "select diff(v, 'ignoreNull'='false'), diff(v) from root.f.a.* align by device",
    "select zero_count(v), non_zero_count(v, 'min'='2'), zero_duration(v), non_zero_duration(v) from root.f.a.d1",
    "select top_k(x, 'k'='3'), bottom_k(difference(v), 'k'='2') from root.f.a.d1",
    "select m4(v, 'windowSize'='5'), m4(x, 'timeInterval'='20', 'slidingStep'='10') from root.f.a.d1",
    "select equal_size_bucket_m4_sample(x, 'proportion'='0.5') from root.f.a.d1",
    "select equal_size_bucket_agg_sample(x, 'proportion'='0.25', 'type'='extreme') from root.f.a.d1",
    "select max_value(difference(v)) from root.f.a.d1 group by ([0, 100), 20ms)",
    "select v, x from root.f.a.d1 order by time desc fill(previous, 3ms)",
    "select avg(v) from root.f.a.d1 group by ([0, 100), 10ms) order by time desc fill(linear)",
    "select count(v) from root.f.** group by ([0, 100), 20ms), level = 1 having sum(v) > 10",
    "select const(v, 'value'='3', 'type'='INT32'), pi(v), e(v) from root.f.a.d1",
    "select concat(word, 'target1'='!'), substring(word, 2), trim(word), locate(word, 'target'='n') from root.f.b.d1",
)


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    """A connection to devices with tags: `a.d1` (v, x), `a.d2` (v) and `b.d1` (v, word)."""
    with headrace.connect(tmp_path_factory.mktemp("forms"), dialect="iotdb") as connection:
        for series in SERIES:
            connection.execute(f"create timeseries root.f.{series}")
        for time, value in zip(TIMES, VALUES, strict=True):
            written = "null" if value is None else value
            connection.execute(f"insert into root.f.a.d1(time, v, x) values ({time}, {written}, {time * 37 % 23 - 4.5})")
            connection.execute(f"insert into root.f.a.d2(time, v) values ({time + 5}, {time % 7})")
        connection.execute("insert into root.f.b.d1(time, v, word) values (2, 8, ' on '), (40, null, 'Nine'), (41, 6, 'open')")
        yield connection


def tampered(table: pa.Table) -> Iterator[pa.Table]:
    """Yield a result with another value in each column, without a row, and with a row twice."""
    for name in table.column_names:
        at = next(number for number, value in enumerate(table[name].to_pylist()) if value is not None)
        yield replaced(table, name, at, other(table[name][at].as_py()))
    yield table.slice(1)
    yield pa.concat_tables([table, table.slice(0, 1)])


def replaced(table: pa.Table, name: str, at: int, value: object) -> pa.Table:
    values = table[name].to_pylist()
    values[at] = value
    return table.set_column(table.column_names.index(name), name, pa.array(values, table[name].type))


def other(value: Any) -> object:
    match value:
        case str():
            return value + "x"
        case dt.datetime():
            return value + dt.timedelta(milliseconds=1)
        case _:
            return value + 1


def tree_query(sql: str) -> TreeQuery:
    statement = parse(sql, "iotdb")
    assert isinstance(statement, TreeSelect)
    return statement.query


@pytest.mark.drawn(2)
@pytest.mark.parametrize("sql", FORMS)
def test_a_result_that_was_tampered_with_is_found(farm: headrace.Connection, sql: str) -> None:
    query, context = tree_query(sql), farm.session.context
    source = tree_source(tree_scope(query, context), context)
    result = farm.execute(sql).fetch_arrow_table()
    assert result.num_rows
    assert verify_tree(query, lambda: result, source).equal
    for wrong in tampered(result):
        assert not verify_tree(query, partial(pa.Table.slice, wrong), source).equal


def test_the_rows_behind_a_group_of_tags_are_shown(farm: headrace.Connection) -> None:
    sql = "select sum(v) from root.f.** group by tags(site)"
    assert farm.verify(sql).equal
    query, context = tree_query(sql), farm.session.context
    result = farm.execute(sql).fetch_arrow_table()
    at = result["site"].to_pylist().index("south")
    wrong = replaced(result, "sum(v)", at, 1.0)
    difference = verify_tree(query, lambda: wrong, tree_source(tree_scope(query, context), context)).difference
    assert difference is not None
    assert difference.expected == ("south", float(sum(time % 7 for time in TIMES)))
    assert difference.total == len(TIMES)
    assert {row[1] for row in difference.source.rows} == {'{"site": "south"}'}
    assert [comparable(row[0]) for row in difference.source.rows[:2]] == [5, 6]


@pytest.mark.parametrize(("age", "filled"), [("1mo", 2), ("1mo1h", 3), ("1mo1d", 4), ("1y", 5)])
def test_an_age_in_months_follows_the_calendar(tmp_path: Path, age: str, filled: int) -> None:
    """From noon of February 29: a month later is noon of March 29, and the clocks in Berlin change on March 31."""
    times = ("03-01T00:00:00", "03-29T12:00:00", "03-29T13:00:00", "03-30T12:00:00", "03-31T12:00:00")
    settings = load(home=tmp_path, timezone="Europe/Berlin", dialect="iotdb")
    with headrace.connect(settings=settings) as connection:
        connection.execute("insert into root.m.d(time, v) values (2024-02-29T12:00:00, 7)")
        rows = ", ".join(f"(2024-{time}, 1)" for time in times)
        connection.execute(f"insert into root.m.d(time, x) values {rows}")
        sql = f"select v, x from root.m.d fill(previous, {age})"
        assert [row[1] for row in connection.execute(sql).fetchall()] == [7.0] * (filled + 1) + [None] * (5 - filled)
        assert connection.verify(sql).equal
