"""Results that the query does not have any more: a backfill and RESET STREAM retract them, and leave those of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace

SETUP = (
    "create database d",
    "use d",
    "create stable m (ts timestamp, v int) tags (site varchar(20))",
    "create table m1 using m tags ('north') m2 using m tags ('south')",
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(tmp_path) as opened:
        for sql in SETUP:
            opened.execute(sql)
        yield opened


def rows(connection: headrace.Connection, sql: str) -> list[tuple[object, ...]]:
    return sorted(connection.execute(sql).fetchall(), key=repr)


@pytest.mark.parametrize("window", ["state_window(v)", "event_window start with v = 1 end with v = 3"])
def test_a_backfill_retracts_a_window_that_began_before_the_stream(connection: headrace.Connection, window: str) -> None:
    connection.execute("insert into m1 values (1000, 1)")
    connection.execute(
        "create stream s trigger at_once into o tags (p varchar(40)) subtable(p) as "
        f"select _wstart ws, count(*) n from m partition by tbname p {window}"
    )
    connection.execute("insert into m1 values (2000, 1) (3000, 3) (4000, 1) (60000, 3) (70000, 2)")
    connection.settle()
    before = rows(connection, "select cast(ws as bigint), n from o")
    connection.backfill(stream="d.s")
    after = rows(connection, "select cast(ws as bigint), n from o")
    first = (2000, before[0][1] if before else None)
    assert (first[1] is not None, before.count(first), after.count(first)) == (True, 1, 0)
    assert after == rows(connection, f"select cast(_wstart as bigint), count(*) from m partition by tbname {window}")


def test_a_backfill_leaves_open_windows_to_the_live_stream(connection: headrace.Connection) -> None:
    connection.execute("insert into m1 values (1000, 1)")
    connection.execute(
        "create stream s trigger at_once into o tags (p varchar(40)) subtable(p) as "
        "select _wstart ws, count(*) n from m partition by tbname p state_window(v)"
    )
    connection.execute("insert into m1 values (2000, 1)")
    connection.settle()
    before = rows(connection, "select ws, n from o")
    connection.backfill(stream="d.s")
    assert (len(before), rows(connection, "select ws, n from o")) == (1, before)


@pytest.mark.parametrize(
    ("how", "fill"), [("reset", ""), ("backfill", ""), ("backfill", " fill(next)"), ("backfill", " fill(value, 9)")]
)
@pytest.mark.parametrize("naming", ["", " tags (p varchar(20)) subtable(concat('o_', p))"])
def test_results_of_a_group_without_rows_go_and_others_stay(
    connection: headrace.Connection, how: str, fill: str, naming: str
) -> None:
    """With IGNORE UPDATE 1 the earlier results stay when the tag changes."""
    by_site = f"select _wstart ws, sum(v) total from m partition by site p interval(1s){fill}"
    connection.execute(f"create stream s ignore update 1 trigger at_once into o{naming} as {by_site}")
    connection.execute("insert into m1 values (1000, 1) (9000, 2) m2 values (1000, 4) (4000, 4)")
    connection.settle()
    tag = "'x'" if naming else "5"
    connection.execute(f"create table by_hand using o tags ({tag})")
    connection.execute("insert into by_hand values (1000, 99)")
    connection.execute("alter table m2 set tag site = 'north'")
    connection.execute("insert into m1 values (20000, 8)")
    connection.settle()
    assert (4,) in rows(connection, "select total from o")
    connection.execute("reset stream s") if how == "reset" else connection.backfill(stream="d.s")
    connection.settle()
    assert rows(connection, "select ws, total from o where total <> 99") == rows(connection, by_site)
    assert rows(connection, "select total from by_hand") == [(99,)]


@pytest.mark.parametrize("fill", ["", " fill(null)"])
@pytest.mark.parametrize("left", [0, 1])
def test_a_backfill_retracts_the_results_of_a_dropped_subtable(connection: headrace.Connection, fill: str, left: int) -> None:
    """Without a backfill, they stay."""
    by_name = f"select _wstart ws, sum(v) total from m partition by tbname interval(1s){fill}"
    connection.execute(f"create stream s trigger at_once into o as {by_name}")
    connection.execute("insert into m2 values (1000, 4) (4000, 4) (20000, 1)" + " m1 values (10000, 1) (20000, 2)" * left)
    connection.settle()
    before = rows(connection, "select ws, total from o")
    connection.execute("drop table m2")
    connection.settle()
    assert rows(connection, "select ws, total from o") == before
    connection.backfill(stream="d.s")
    after = rows(connection, "select cast(ws as bigint), total from o where cast(ws as bigint) < 20000")
    expected = rows(connection, by_name.replace("_wstart ws", "cast(_wstart as bigint) ws"))
    assert after == [row for row in expected if row < (20000,)]
