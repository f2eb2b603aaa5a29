"""Privileges on the subtables whose tags meet a condition: the others are as if they did not exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.errors import Error, NotFoundError, PermissionDeniedError, ProgrammingError
from headrace.runtime.owner_rights import OwnerRights
from tests.support.interpreted import interpret_plans

interpret_plans()

START = 1_700_000_000_000
PASSWORD = "secret12"
SETUP = (
    *("create database power", "create user vera pass 'secret12'"),
    "create stable power.meters (ts timestamp, v int) tags (groupid int, place varchar(20))",
    "create table power.d1 using power.meters tags (1, 'here') power.d2 using power.meters tags (2, 'hidden')",
    "create table power.d3 using power.meters tags (1, 'there')",
    "insert into power.d1 values (1, 10) (2, 11) power.d2 values (1, 20) power.d3 values (3, 30)",
)
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(tmp_path / "home", clock=headrace.ManualClock(START)) as connection:
        for sql in SETUP:
            connection.execute(sql)
        yield connection


@pytest.fixture
def vera(root: headrace.Connection) -> Iterator[headrace.Connection]:
    """Provide a connection of vera, who may read the meters of group 1."""
    root.execute("grant read on power.meters with groupid = 1 to vera")
    with connect(root) as connection:
        yield connection


def connect(root: headrace.Connection, password: str = PASSWORD) -> headrace.Connection:
    home = root.session.context.settings.home_path
    return headrace.connect(home, clock=root.clock, user="vera", password=password, database="power")


def rows(connection: headrace.Connection, sql: str) -> list[tuple[object, ...]]:
    return connection.execute(sql).fetchall()


def refusal(connection: headrace.Connection, sql: str) -> str:
    """Return how a statement is refused."""
    with pytest.raises(PermissionDeniedError) as raised:
        connection.execute(sql)
    return str(raised.value).replace(sql, "")


def test_queries_read_the_subtables_of_a_condition(root: headrace.Connection, vera: headrace.Connection) -> None:
    assert rows(vera, "select count(*), sum(v) from meters") == [(3, 51)]
    assert sorted(rows(vera, "select tbname, v from meters where v > 10 or v < 100")) == [("d1", 10), ("d1", 11), ("d3", 30)]
    assert rows(vera, "select s from (select sum(v) s from meters)") == [(51,)]
    assert rows(vera, "select v from d1 where v = 11 union all select v from meters where v = 20") == [(11,)]
    assert "hidden" not in str(rows(vera, "select tags place from meters"))
    assert "d2" not in str(rows(vera, "explain select * from meters"))
    root.execute("grant read on power.meters with place = 'hidden' to vera")
    assert rows(vera, "select sum(v) from meters") == [(71,)]
    root.execute("alter table power.d3 set tag groupid = 5")
    assert rows(vera, "select sum(v) from meters") == [(41,)]
    root.execute("revoke read on power.meters with groupid = 1 from vera")
    assert rows(vera, "select sum(v) from meters") == [(20,)]


def test_other_subtables_are_as_if_they_did_not_exist(vera: headrace.Connection) -> None:
    for sql in (
        "select v from {}",
        "explain select v from {}",
        "insert into {} values (5, 'x')",
        "describe {}",
        "show tags from {}",
    ):
        assert refusal(vera, sql.format("d2")) == refusal(vera, sql.format("d9")).replace("d9", "d2"), sql
    assert [name for name, *_ in rows(vera, "show tables")] == ["d1", "d3"]
    assert rows(vera, "show stables") == [("meters",)]
    for sql in (
        "show tags from meters",
        "select * from information_schema.ins_tags",
        "select * from information_schema.ins_tables",
    ):
        shown = str(rows(vera, sql))
        assert "d1" in shown
        assert "d2" not in shown
        assert "hidden" not in shown


@pytest.mark.parametrize(
    "sql",
    [
        "explain analyze select * from meters",
        "select a.v from meters a join meters b on a.ts = b.ts",
        "select v from meters union all select a.v from meters a left join d1 b on a.ts = b.ts",
        "insert into d1 values (5, 5)",
        "create stream s into out1 as select _wstart, count(*) from meters interval(1m)",
        "create vtable w (ts timestamp, v int from d1.v)",
        "alter stable meters add column c int",
        "delete from meters",
    ],
)
def test_what_reads_or_writes_more_is_refused(root: headrace.Connection, vera: headrace.Connection, sql: str) -> None:
    table = root.session.context.catalog.tables.get("power", "meters")
    version = root.session.context.tables.version(table)
    refusal(vera, sql)
    with pytest.raises(PermissionDeniedError):
        vera.verify("select count(*) from meters")
    assert root.session.context.tables.version(table) == version


def test_writes_go_to_the_subtables_of_a_condition(root: headrace.Connection) -> None:
    root.execute("grant write on power.meters with groupid = 1 to vera")
    with connect(root) as vera:
        assert vera.execute("insert into d1 values (5, 5) d3 values (5, 6)").rowcount == 2
        assert vera.execute("insert into meters (tbname, ts, v) values ('d3', 6, 7)").rowcount == 1
        for sql in (
            "insert into d2 values (5, 5)",
            "insert into d1 values (7, 5) d2 values (5, 5)",
            "insert into meters (tbname, ts, v) values ('d1', 8, 1), ('d2', 8, 1)",
            "insert into d4 using meters tags (1, 'new') values (5, 5)",
            "alter table d1 set tag groupid = 2",
            "drop table d1",
            "insert into d1 select ts, v from d3",
            "delete from d2",
            "select * from meters",
        ):
            refusal(vera, sql)
        with pytest.raises(PermissionDeniedError):
            vera.append([{"ts": 9, "v": 1}], "d1")
        assert vera.execute("delete from meters where ts <= 3").rowcount == 3
    remaining = rows(root, "select tbname, v from power.meters order by tbname, v")
    assert remaining == [("d1", 5), ("d2", 20), ("d3", 6), ("d3", 7)]


def test_a_privilege_on_a_subtable_is_one_on_a_part_of_its_supertable(root: headrace.Connection) -> None:
    root.execute("grant read on power.d1 to vera")
    assert rows(root, "show user privileges") == [("vera", "read", "power", "meters", "tbname = 'd1'", "")]
    with connect(root) as vera:
        assert rows(vera, "select count(*) from d1") == rows(vera, "select count(*) from meters") == [(2,)]
        assert [name for name, *_ in rows(vera, "show tables")] == ["d1"]
        refusal(vera, "select * from d3")
    root.execute("revoke all on power.d1 from vera")
    assert rows(root, "show user privileges") == []


def test_a_token_to_read_keeps_the_condition(root: headrace.Connection, vera: headrace.Connection) -> None:
    assert vera
    token = root.session.context.catalog.tokens.create("vera", "dashboard", reads_only=True)
    with connect(root, token) as program:
        assert rows(program, "select count(*) from meters") == [(3,)]


def test_a_stream_whose_owner_may_read_a_part_only_stops(root: headrace.Connection) -> None:
    root.execute("grant all on power.* to vera")
    with connect(root) as vera:
        vera.execute("create stream s into out1 as select _wstart, count(*) from meters interval(1m)")
    root.execute("revoke all on power.* from vera")
    root.execute("grant write on power.* to vera")
    root.execute("grant read on power.meters with groupid = 1 to vera")
    (record,) = root.session.context.catalog.jobs.all()
    with pytest.raises(PermissionDeniedError, match=r"READ on power\.meters"):
        OwnerRights(root.session.context.catalog).check(record.definition)


def test_a_condition_whose_tag_is_gone_permits_nothing(root: headrace.Connection, vera: headrace.Connection) -> None:
    root.execute("alter stable power.meters rename tag groupid team")
    with pytest.raises(Error):
        vera.execute("select count(*) from meters")
    assert rows(vera, "show tables") == []


def test_conditions_are_shown_and_checked(root: headrace.Connection) -> None:
    root.execute("grant all on power.meters with groupid = 1 and place <> 'x' to vera")
    (first, second) = rows(root, "show user privileges")
    assert first == ("vera", "read", "power", "meters", "groupid = 1 AND place <> 'x'", "")
    assert second[1] == "write"
    for sql, kind in (
        ("grant read on power.meters with v = 1 to vera", NotFoundError),
        ("grant read on power.meters with nothing = 1 to vera", NotFoundError),
        ("grant read on power.meters with groupid + to vera", ProgrammingError),
        ("grant read on power.meters with count(groupid) = 1 to vera", Error),
        ("grant read on power.d1 with groupid = 1 to vera", ProgrammingError),
        ("grant read on power.* with groupid = 1 to vera", ProgrammingError),
    ):
        with pytest.raises(kind):
            root.execute(sql)
    with pytest.raises(ProgrammingError):
        root.execute("revoke read on power.meters with groupid = 7 from vera")
    root.execute("revoke all on power.meters from vera")
    assert rows(root, "show user privileges") == []
