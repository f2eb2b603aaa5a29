"""Every statement and call through every door, for a user without the right: nothing happens, and nothing leaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from headrace.model.statements import Explain, Show, Statement
from headrace.model.tree_statements import TreeShow
from headrace.service.dispatch import TOPICS, WORD_START
from headrace.service.system_tables import RELATIONS
from headrace.service.topics.shows import READERS
from headrace.service.topics.trees.shows import SHOWS
from headrace.sql import parse
from tests.doors.matrix import DOORS, Home, opened_home
from tests.support.statement_cases import STATEMENTS, TREE_STATEMENTS

SYSTEM_TABLES: Final = tuple(f"select * from information_schema.{name}" for name in RELATIONS)
MORE: Final = (
    *SYSTEM_TABLES,
    *("select * from information_schema.ins_nothing", "show users", "show user privileges", "show stables", "show vtables"),
    *("show normal vtables", "show child vtables", "show tags from dev1", "show tags from readings", "show jobs"),
    *("show quarantine", "show functions", "show snodes", "show create vtable v", "show create table plain"),
    *("show tables from other", "drop quarantine of stream s", "create user eve0 pass 'secret12'", "drop user otto"),
    *("alter user otto pass 'secret34'", "grant read on d.* to vera", "revoke read on d.seen from vera"),
    *("drop database other", "use other", "drop database nowhere", "insert into seen values (1, 1)"),
    *("create stream mine into mine1 as select _wstart, count(*) from seen interval(1m)", "select a from seen where b > 1"),
    *("select b from readings", "select a from readings where nothing > 1", "insert into dev1 values (now, 'x', 1.5)"),
    *("insert into dev1 (ts, nothing) values (now, 1)", "create table readings (ts timestamp)", "create database other"),
    "create table if not exists plain (ts timestamp, a int)",
    *("drop table if exists plain", "drop stream if exists s", "create database if not exists other"),
    "create stream if not exists s into out1 as select _wstart, count(*) from seen interval(1m)",
    "alter table seen add column c int",
)
MORE_OF_TREE: Final = (
    *("show databases", "show timeseries", "show latest timeseries", "show version", "show current_timestamp", "show functions"),
    *("show child paths root", "show child nodes root.plant", "show nodes in device template t1", "show cqs", "show triggers"),
    *("show paths set device template t1", "show paths using device template t1", "show pipe copies", "show all ttl"),
    *("show ttl on root.plant.line1.**", "count databases", "count devices", "count timeseries", "count nodes root.** level=1"),
    *("show audit log", "create stateless trigger t after insert on root.plant.** as 'first.First'", "drop trigger t"),
    *("start trigger t", "stop trigger t", "grant READ on d.* to vera", "select * from root.**", "select last * from root.**"),
    *("show timeseries where timeseries contains 'line'", "show timeseries root.plant.** where unit='rpm'"),
    *("select nothing from root.plant.line1", "insert into root.plant.line1(time, s1) values (1, 'x')"),
    *("create timeseries root.plant.line1.s1 with datatype=TEXT", "select s1 from root.plant.line1 align by device"),
    *("select count(*) from root.** group by level = 1", "select s1 + 1 from root.plant.line1 where s1 > 0"),
    *("explain analyze select * from root.**", "select part(label, 'regex'='a', 'index'='1') from root.plant.line1"),
    *("create database root.plant", "create database root.plant.line1", "insert into root.seen.a(time, s1) values (2, 2)"),
    *("delete from root.**", "delete timeseries root.**", "delete database root.**", "select a from root.d.plain"),
    *("select * from root.d.**", "show devices root.d.**", "select s1 into root.seen.a(s2) from root.plant.line1"),
    "select s1 into root.seen.b(s2) from root.seen.a",
)
CASES: Final = {"tdengine": (*STATEMENTS, *MORE), "iotdb": (*TREE_STATEMENTS, *MORE_OF_TREE)}
OWN: Final = ("alter user vera set password 'secret34'", "select 1")
"""What vera may do, and all may who reach Spark."""
READING_TIMES: Final = ("show devices where time > 1", "show latest timeseries", "select count(*) from root.** group by level = 1")
"""Statements that take longer, so one door has to do."""
NUMBERED: Final = re.compile("(show|explain) (queries|connections|analyze)")
"""Statements whose answers have numbers of connections and processes, or durations."""


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Home]]:
    """Provide the full home, and the one that has only what vera may read."""
    folder = tmp_path_factory.mktemp("matrix")
    with opened_home(folder / "full", full=True) as full, opened_home(folder / "less", full=False) as less:
        yield full, less


def statements_of(dialect: str, door: str) -> list[str]:
    """Return the statements for a door, and for the first one those that are particular to no door."""
    cases = [sql for sql in CASES[dialect] if sql not in OWN]
    if door != "embedded":
        return [sql for sql in cases if sql not in READING_TIMES]
    return [*cases, *(f"explain {sql}" for sql in cases if not sql.startswith("explain"))]


def parsed(dialect: str) -> list[Statement]:
    statements = [parse(sql, dialect) for sql in CASES[dialect]]
    return [*statements, *(statement.statement for statement in statements if isinstance(statement, Explain))]


def test_every_statement_has_a_case() -> None:
    kinds = {WORD_START.sub("_", type(one).__name__).lower() for dialect in CASES for one in parsed(dialect)}
    assert {name for names in TOPICS.values() for name in names.split()} - kinds == set()
    shown = {one.what for one in parsed("tdengine") if isinstance(one, Show)}
    assert {*READERS, "queries", "connections"} - shown == set()
    assert set(SHOWS) - {one.what for one in parsed("iotdb") if isinstance(one, TreeShow)} == set()


def comparable(sql: str, answer: object) -> str:
    text = repr(answer)
    return re.sub(r"(\\x\w\w|\d)+(\.\d+)?", "0", text) if NUMBERED.match(sql) else text


@pytest.mark.parametrize(("door", "dialect"), [(door, dialect) for door, (_, dialects) in DOORS.items() for dialect in dialects])
def test_no_statement_does_or_reveals_anything(homes: tuple[Home, Home], door: str, dialect: str) -> None:
    full, less = homes
    ask, before = DOORS[door][0], full.state()
    differing = {}
    for sql in statements_of(dialect, door):
        answers = [comparable(sql, ask(home, dialect, sql)) for home in homes]
        if answers[0] != answers[1]:
            differing[sql] = answers
    assert differing == {}
    after = full.state()
    assert {name: rows for name, rows in after.items() if rows != before[name]} == {}
