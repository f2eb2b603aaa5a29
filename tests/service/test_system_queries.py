"""Queries of system tables: what they may ask DuckDB for, and that they end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import headrace
from headrace.errors import LimitError, NotFoundError, NotSupportedError, OperationalError
from headrace.model.access import Principal
from headrace.model.expressions import Call, Expression, Literal
from headrace.queries.running import RunningQueries
from headrace.service import system_queries
from headrace.service.session import Session
from headrace.storage.sandbox import open_database

USERS = "information_schema.ins_users"
ENDLESS = f"SELECT count(*) FROM {USERS} a0" + "".join(f", {USERS} a{number}" for number in range(1, 14))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with headrace.connect(tmp_path, dialect="tdengine") as connection:
        for number in range(9):
            connection.execute(f"CREATE USER user{number} PASS 'secret12'")
        context = connection.session.context
        yield Session(context, "tdengine", principal=Principal("root", is_trusted=True), queries=RunningQueries(context))


@pytest.mark.parametrize(
    "relation",
    ["pg_settings", "duckdb_settings", "sqlite_master", "pg_catalog.pg_class", "information_schema.tables", "main.ins_users"],
)
def test_only_system_tables_are_read(session: Session, relation: str) -> None:
    with pytest.raises(NotFoundError):
        session.execute(f"SELECT count(*) FROM {USERS} a, {relation} b")
    with pytest.raises(NotFoundError):
        session.execute(f"SELECT count(*) FROM {USERS} a, (SELECT * FROM {relation}) b")


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        (f"SELECT nam FROM {USERS}", "there is no column nam in ins_users", "did you mean name?"),
        (f"SELECT name FROM {USERS} WHERE zone = 1", "there is no column zone in ins_users", "the columns are create_time, enable"),
    ],
)
def test_a_column_that_does_not_exist_is_shown(session: Session, sql: str, message: str, hint: str) -> None:
    with pytest.raises(NotFoundError) as raised:
        session.execute(sql)
    assert (raised.value.message, raised.value.span is not None) == (message, True)
    assert raised.value.hint.startswith(hint)


def test_columns_without_alias_have_the_names_of_other_queries(session: Session) -> None:
    sql = f"SELECT count(*), upper(name), super FROM {USERS} WHERE name = 'root' GROUP BY name, super"
    rows = session.execute(f"{sql} UNION {sql}").rows
    assert isinstance(rows, pa.Table)
    assert rows.to_pylist() == [{"count(*)": 1, "upper(name)": "ROOT", "super": 1}]


def test_parts_of_deep_expressions_come_in_order() -> None:
    deep: Expression = Literal(0)
    for number in range(10_000):
        deep = Call("abs", (deep, Literal(number)))
    calls = [part.arguments[1] for part in system_queries.parts_of(((), deep)) if isinstance(part, Call)]
    assert calls == [Literal(number) for number in reversed(range(10_000))]


@pytest.mark.parametrize(
    "expression",
    [
        "repeat(name, 9)",
        "lpad(name, 9, 'x')",
        "read_text('/etc/passwd')",
        "getenv('HOME')",
        "current_setting('threads')",
    ],
)
@pytest.mark.parametrize(
    "query", ["SELECT {} FROM {}", "SELECT name FROM {1} WHERE {0} = 1", "SELECT name FROM {1} ORDER BY lower({0})"]
)
def test_only_known_functions_are_called(session: Session, expression: str, query: str) -> None:
    with pytest.raises(NotSupportedError, match=r"is not supported in queries of system tables"):
        session.execute(query.format(expression, USERS))


def test_known_functions_are_those_of_duckdb() -> None:
    with open_database() as database:
        known = {name for (name,) in database.execute("SELECT function_name FROM duckdb_functions()").fetchall()}
    assert system_queries.NAMES - known == {"coalesce", "ifnull", "nullif", "substring", "position"} - known


def test_known_functions_are_called(session: Session) -> None:
    rows = session.execute(f"SELECT max(length(concat(name, 'x'))) FROM {USERS} WHERE NOT name LIKE 'r%' AND super IS NOT NULL")
    assert list(rows.tuples()) == [(6,)]


def test_memory_is_limited(session: Session) -> None:
    wide = f"concat({', '.join(['name'] * 1_000)})"
    with pytest.raises(LimitError, match="needs more than"):
        session.execute(
            f"SELECT DISTINCT w FROM (SELECT concat(b.name, c.name, d.name, e.name, {wide.replace('name', 'a.name')}) w "
            f"FROM {', '.join(f'{USERS} {name}' for name in 'abcde')}) q"
        )


@pytest.mark.parametrize("end", ["kill", "cancel"])
def test_they_are_listed_and_end_when_they_are_ended(session: Session, end: str) -> None:
    queries = session.queries
    assert queries is not None
    session.label = "mine"

    def run() -> None:
        with pytest.raises(OperationalError, match="the query was "):
            session.execute(ENDLESS)

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        for query in queries.all():
            assert query.sql == ENDLESS
            queries.kill(query.id) if end == "kill" else queries.cancel("root", "mine")
        thread.join(0.05)
    assert queries.all() == []


def test_they_end_after_the_time_of_queries(session: Session) -> None:
    settings = session.context.settings.replace({"query_timeout_s": 1})
    session.queries = RunningQueries(replace(session.context, settings=settings))
    with pytest.raises(LimitError, match="1 s"):
        session.execute(ENDLESS)
