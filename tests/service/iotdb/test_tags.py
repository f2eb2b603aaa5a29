"""GROUP BY TAGS: groups, columns, windows and refusals, as a running IoTDB answered."""

from __future__ import annotations

from typing import Any

import pytest

import headrace
from headrace.errors import NotSupportedError, ProgrammingError, TypeMismatchError

SERIES = (
    "f1.a.t int32 tags(city=beijing, shop=d1)",
    "f1.a.v double tags(city=beijing, shop=d2)",
    "f1.b.t int32 tags(city=beijing, shop=d2)",
    "f2.a.t int32 tags(city=shanghai, shop=d1)",
    "f2.b.t int32 tags(city=shanghai)",
    "f2.c.t int32",
    "f2.d.name text tags(city=xian)",
    "f2.e.t int32 tags(city=empty)",
    "f2.g.t int64 tags(city=mixed)",
    "f2.h.t int32 tags(city=mixed)",
)
ROWS = (
    "f1.a(time, t, v) values (1, 10, 1.5), (1001, 20, 2.5)",
    "f1.b(time, t) values (3, 30), (2001, 40)",
    "f2.a(time, t) values (2, 5), (1002, 7)",
    "f2.b(time, t) values (1, 100)",
    "f2.c(time, t) values (1, 1000)",
    "f2.d(time, name) values (1, 'x')",
)
INT32 = "root.p.f1.**, root.p.f2.a, root.p.f2.b, root.p.f2.c, root.p.f2.e"


@pytest.fixture(scope="module")
def shops(unchanged: headrace.Connection) -> headrace.Connection:
    """The connection with series of several cities and shops."""
    return with_shops(unchanged)


def with_shops(connection: headrace.Connection) -> headrace.Connection:
    for spec in SERIES:
        connection.execute(f"create timeseries root.p.{spec}")
    for row in ROWS:
        connection.execute(f"insert into root.p.{row}")
    return connection


def answer(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    """The header, then the rows, with times as epoch milliseconds."""
    cursor = connection.execute(sql)
    header = tuple(column[0] for column in cursor.description or ())
    rows = [
        tuple(round(cell.timestamp() * 1000) if hasattr(cell, "timestamp") else cell for cell in row) for row in cursor.fetchall()
    ]
    return [header, *rows]


def test_series_are_aggregated_by_the_value_of_a_tag(shops: headrace.Connection) -> None:
    sql = f"select count(t), avg(t), MAX_VALUE(t), last_value(t), first_value(t) from {INT32} group by tags(city)"
    assert answer(shops, sql) == [
        ("city", "count(t)", "avg(t)", "max_value(t)", "last_value(t)", "first_value(t)"),
        ("beijing", 4, 25.0, 40, 40, 10),
        ("shanghai", 3, pytest.approx(37.333333333333336), 100, 7, 100),
        ("empty", 0, None, None, None, None),
        ("NULL", 1, 1000.0, 1000, 1000, 1000),
    ]


def test_groups_of_several_tags_are_in_the_order_of_iotdb(shops: headrace.Connection) -> None:
    assert answer(shops, "select count(t), avg(v) from root.p.** group by tags(city, shop)") == [
        ("city", "shop", "count(t)", "avg(v)"),
        ("NULL", "NULL", 1, None),
        ("shanghai", "NULL", 1, None),
        ("shanghai", "d1", 2, None),
        ("mixed", "NULL", 0, None),
        ("empty", "NULL", 0, None),
        ("beijing", "d1", 2, None),
        ("beijing", "d2", 2, 2.0),
    ]


def test_a_group_without_a_series_of_a_column_has_null_there(shops: headrace.Connection) -> None:
    assert answer(shops, "select count(*) from root.p.f1.** group by tags(shop)") == [
        ("shop", "count(t)", "count(v)"),
        ("d1", 2, None),
        ("d2", 2, 2),
    ]
    assert answer(shops, "select count(name) from root.p.** group by tags(city)") == [("city", "count(name)"), ("xian", 1)]


def test_windows_hold_all_groups(shops: headrace.Connection) -> None:
    sql = "select count(t), avg(t) from root.p.f1.** group by ([0, 3000), 1s), tags(shop)"
    rows = [
        (0, "d1", 1, 10.0),
        (0, "d2", 1, 30.0),
        (1000, "d1", 1, 20.0),
        (1000, "d2", 0, None),
        (2000, "d1", 0, None),
        (2000, "d2", 1, 40.0),
    ]
    header = ("Time", "shop", "count(t)", "avg(t)")
    assert answer(shops, sql) == [header, *rows]
    assert answer(shops, f"{sql} order by time desc") == [header, *rows[4:], *rows[2:4], *rows[:2]]
    assert answer(shops, f"{sql} limit 1 offset 1") == [header, *rows[2:4]]
    assert answer(shops, f"{sql} fill(7)")[4] == (1000, "d2", 0, 7.0)


def test_times_and_texts_of_groups(shops: headrace.Connection) -> None:
    assert answer(shops, f"select min_time(t), max_time(t) from {INT32} where time > 1 group by tags(city)") == [
        ("city", "min_time(t)", "max_time(t)"),
        ("beijing", 3, 2001),
        ("shanghai", 2, 1002),
        ("empty", None, None),
        ("NULL", None, None),
    ]
    assert answer(shops, "select count(t), max_value(v) from root.p.f1.a group by tags(nope)") == [
        ("nope", "count(t)", "max_value(v)"),
        ("NULL", 2, 2.5),
    ]


def test_paths_of_several_nodes_name_columns_by_their_measurement(shops: headrace.Connection) -> None:
    assert answer(shops, "select avg(a.t) from root.p.* group by tags(city)") == [
        ("city", "avg(t)"),
        ("beijing", 15.0),
        ("shanghai", 6.0),
    ]
    assert answer(shops, "select count(t), count(t) from root.p.f1.** group by tags(city)") == [
        ("city", "count(t)"),
        ("beijing", 4),
    ]
    assert answer(shops, "select count(t) as n from root.p.f1.a group by tags(city)") == [("city", "n"), ("beijing", 2)]


def test_levels_win_over_tags(shops: headrace.Connection) -> None:
    assert answer(shops, "select count(t) from root.p.f1.** group by tags(city), level = 1") == [("count(root.p.*.*.t)",), (4,)]


def test_no_series_give_no_rows(shops: headrace.Connection) -> None:
    assert shops.execute("select last_value(t) from root.nope.** group by tags(city)").fetchall() == []


def test_counts_may_mix_types(connection: headrace.Connection) -> None:
    shops = with_shops(connection)
    shops.execute("insert into root.p.f2.g(time, t) values (1, 3)")
    shops.execute("insert into root.p.f2.h(time, t) values (1, 4), (2, 5)")
    assert answer(shops, "select count(t) from root.p.f2.g, root.p.f2.h group by tags(city)")[1] == ("mixed", 3)
    with pytest.raises(TypeMismatchError, match="one type"):
        shops.execute("select max_value(t) from root.p.f2.g, root.p.f2.h group by tags(city)")


REFUSED = {
    "select count(t) + 1 from root.p.** group by tags(city)": "count(t) + 1 can't be used in group by tag.",
    "select count(t + 1) from root.p.** group by tags(city)": "count(t + 1) can't be used in group by tag.",
    "select max_by(t, v) from root.p.** group by tags(city)": "max_by(t, v) can't be used in group by tag.",
    "select t from root.p.** group by tags(city)": "Common queries and aggregated queries are not allowed",
    "select count_time(*) from root.p.** group by tags(city)": "Count_time aggregation function using with group by tag",
    "select avg(t) from root.p.** group by tags(city) having avg(t) > 5": "Having clause is not supported yet in GROUP BY TAGS",
    "select avg(t) from root.p.** where t > 15 group by tags(city)": "Only time filters are supported in GROUP BY TAGS query",
    "select avg(t) from root.p.** group by tags(city) align by device": "GROUP BY TAGS does not support align by device now.",
    "select avg(t) from root.p.** group by tags(city) order by avg(t)": "GROUP BY TAGS can only be ordered by time",
    "select avg(t) from root.p.** group by tags(city) limit 2": "Limit or slimit are not supported yet in GROUP BY TAGS",
    "select avg(t) from root.p.** group by tags(city) slimit 1": "Limit or slimit are not supported yet in GROUP BY TAGS",
    "select count(t) as n from root.p.** group by tags(city)": "alias 'n' can only be matched with one time series",
    "select avg(t) into root.p.x(a) from root.p.** group by tags(city)": "select into: GROUP BY TAGS clause are not supported.",
    "select avg(t) from root.p.** group by session(1s), tags(city)": "GROUP BY TAGS can only be combined with GROUP BY TIME",
    "select count(t), __endTime from root.p.** group by ([0, 3000), 1s), tags(city)": "__endTime can't be used in group by tag.",
}


@pytest.mark.parametrize(("statement", "message"), REFUSED.items())
def test_what_iotdb_refuses_is_refused(shops: headrace.Connection, statement: str, message: str) -> None:
    with pytest.raises(ProgrammingError) as refused:
        shops.execute(statement)
    assert message in refused.value.message
    assert refused.value.hint


def test_a_fill_that_reads_other_rows_is_refused(shops: headrace.Connection) -> None:
    with pytest.raises(NotSupportedError, match=r"FILL\(PREVIOUS\) cannot be combined with GROUP BY TAGS"):
        shops.execute("select avg(t) from root.p.f1.** group by ([0, 3000), 1s), tags(city) fill(previous)")


def test_the_plan_is_described(shops: headrace.Connection) -> None:
    lines = [row[0] for row in shops.execute("explain select avg(t) from root.p.f1.** group by tags(city)").fetchall()]
    assert any("groups by tags city: 1" in line for line in lines)
