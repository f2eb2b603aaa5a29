"""What is logged of statements that change the schema: what makes the change elsewhere, also if it is run again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.errors import Error
from headrace.model.failpoints import FailpointError, armed
from headrace.settings import load
from headrace.trees import schema_statements

STEPS: list[tuple[str, list[tuple[str, str]]]] = [
    (
        "create database root.db with ttl=900",
        [
            ("schema.database.create", "CREATE DATABASE root.db"),
            ("schema.ttl", "SET TTL TO root.db 900"),
            ("schema.ttl", "SET TTL TO root.db.** 900"),
        ],
    ),
    ("unset ttl from root.db.**", [("schema.ttl", "UNSET TTL FROM root.db.**")]),
    (
        "create timeseries root.db.d1.s1(n) INT32 tags('k'='v') attributes('x'='it''s')",
        [
            (
                "schema.timeseries.ordinary.create",
                "CREATE TIMESERIES root.db.d1.s1(n) INT32 ENCODING=TS_2DIFF COMPRESSION=LZ4 TAGS('k'='v') ATTRIBUTES('x'='it''s')",
            )
        ],
    ),
    (
        "create aligned timeseries root.db.d2(`a.b` TEXT compression=GZIP, f INT64)",
        [
            (
                "schema.timeseries.ordinary.create",
                "CREATE ALIGNED TIMESERIES root.db.d2(`a.b` TEXT ENCODING=PLAIN COMPRESSION=GZIP, "
                "f INT64 ENCODING=TS_2DIFF COMPRESSION=LZ4)",
            )
        ],
    ),
    ("insert into root.db.d3(time, s, t) values (1, 2, 'x')", []),
    (
        "alter timeseries root.db.d1.s1 rename 'k' to 'l'",
        [
            ("schema.timeseries.ordinary.alter", "ALTER TIMESERIES root.db.d1.s1 DROP 'k'"),
            ("schema.timeseries.ordinary.alter", "ALTER TIMESERIES root.db.d1.s1 UPSERT TAGS('l'='v')"),
        ],
    ),
    (
        "alter timeseries root.db.d1.s1 set 'x'='z'",
        [("schema.timeseries.ordinary.alter", "ALTER TIMESERIES root.db.d1.s1 UPSERT ATTRIBUTES('x'='z')")],
    ),
    (
        "alter timeseries root.db.d1.s1 add tags 'x'='1'",
        [("schema.timeseries.ordinary.alter", "ALTER TIMESERIES root.db.d1.s1 UPSERT TAGS('x'='1')")],
    ),
    (
        "alter timeseries root.db.d1.s1 drop 'x'",
        [("schema.timeseries.ordinary.alter", "ALTER TIMESERIES root.db.d1.s1 DROP 'x'")],
    ),
    (
        "alter timeseries root.db.d1.s1 upsert alias=m tags('l'='v', 'q'='r')",
        [
            ("schema.timeseries.ordinary.alter", "ALTER TIMESERIES root.db.d1.s1 UPSERT TAGS('q'='r')"),
            ("schema.timeseries.ordinary.alter", "ALTER TIMESERIES root.db.d1.s1 UPSERT ALIAS=m"),
        ],
    ),
    ("alter timeseries root.db.d1.s1 upsert tags('l'='v')", []),
    ("set ttl to root.db.d1 5000", [("schema.ttl", "SET TTL TO root.db.d1 5000")]),
    ("set ttl to root.db.d1 INF", [("schema.ttl", "SET TTL TO root.db.d1 INF")]),
    (
        "delete timeseries root.db.*.s*",
        [("schema.timeseries.ordinary.drop", "DELETE TIMESERIES root.db.d1.s1, root.db.d3.s")],
    ),
    (
        "create device template t aligned (x INT32)",
        [("schema.timeseries.template.create", "CREATE DEVICE TEMPLATE t ALIGNED (x INT32 ENCODING=TS_2DIFF COMPRESSION=LZ4)")],
    ),
    (
        "alter device template t add (z DOUBLE)",
        [("schema.timeseries.template.alter", "ALTER DEVICE TEMPLATE t ADD (z DOUBLE ENCODING=GORILLA COMPRESSION=LZ4)")],
    ),
    ("set device template t to root.db.t", [("schema.timeseries.template.set", "SET DEVICE TEMPLATE t TO root.db.t")]),
    (
        "create timeseries using device template on root.db.t.d1",
        [("schema.timeseries.template.activate", "CREATE TIMESERIES USING DEVICE TEMPLATE ON root.db.t.d1")],
    ),
    ("insert into root.db.t.d2(time, x, y) aligned values (1, 2, 3)", []),
    (
        "deactivate device template from root.db.t.*",
        [("schema.timeseries.template.deactivate", "DEACTIVATE DEVICE TEMPLATE t FROM root.db.t.d1, root.db.t.d2")],
    ),
    ("unset device template t from root.db.t", [("schema.timeseries.template.unset", "UNSET DEVICE TEMPLATE t FROM root.db.t")]),
    ("drop device template t", [("schema.timeseries.template.drop", "DROP DEVICE TEMPLATE t")]),
    ("insert into root.new.d(time, s) values (1, 2)", [("schema.database.create", "CREATE DATABASE root.new")]),
    (
        "delete database root.*",
        [("schema.database.drop", "DELETE DATABASE root.db"), ("schema.database.drop", "DELETE DATABASE root.new")],
    ),
]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path / "home"), user="ann") as opened:
        yield opened


def test_each_change_is_logged(connection: headrace.Connection) -> None:
    log = connection.session.context.catalog.schema_log
    for statement, expected in STEPS:
        newest = log.newest()
        connection.execute(statement)
        logged = log.after(newest, 10)
        assert [(one.category, one.sql) for one in logged] == expected, statement
        assert {one.owner for one in logged} <= {"ann"}


def test_a_statement_follows_the_rows_that_were_committed_before(connection: headrace.Connection) -> None:
    context = connection.session.context
    connection.execute("create database root.db")
    versions = []
    for number in range(3):
        connection.execute(f"insert into root.db.d(time, s) values ({number}, 1)")
        versions.append(schema_statements.table_version(context, "root.db"))
        connection.execute(f"set ttl to root.db.d 90000000000000{number}")
    assert [one.version for one in context.catalog.schema_log.after(1, 10)] == versions


def test_many_series_are_several_statements(connection: headrace.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_statements, "MAX_PATHS", 2)
    connection.execute("create aligned timeseries root.db.d(a INT32, b INT32, c INT32)")
    connection.execute("delete timeseries root.db.d.*")
    texts = [one.sql for one in connection.session.context.catalog.schema_log.after(2, 10)]
    assert texts == ["DELETE TIMESERIES root.db.d.a, root.db.d.b", "DELETE TIMESERIES root.db.d.c"]


@pytest.mark.parametrize(
    "statement",
    [
        "create timeseries root.db.d.s INT32",
        "delete timeseries root.db.old.s",
        "alter timeseries root.db.old.s add tags 'k'='v'",
        "create device template u (x INT32)",
        "set device template t to root.db.u",
        "create timeseries using device template on root.db.t.d",
        "set ttl to root.db.** 900000000000000",
        "create database root.other",
        "delete database root.db",
    ],
)
def test_a_statement_that_dies_at_its_log_has_no_effect_and_can_be_repeated(
    connection: headrace.Connection, statement: str
) -> None:
    for setup in (
        "create device template t (x INT32)",
        "create timeseries root.db.old.s INT32",
        "set device template t to root.db.t",
    ):
        connection.execute(setup)
    shows = ("databases", "timeseries root.**", "all ttl", "device templates", "paths set device template t")

    def shown() -> list[object]:
        return [connection.execute(f"show {what}").fetchall() for what in shows]

    log = connection.session.context.catalog.schema_log
    before, newest = shown(), log.newest()
    with armed("catalog.statements:1:raise"), pytest.raises((FailpointError, Error)):
        connection.execute(statement)
    assert (shown(), log.newest()) == (before, newest)
    connection.execute(statement)
    assert shown() != before
    texts = [one.sql for one in log.after(newest, 10)]
    unset = ["UNSET DEVICE TEMPLATE t FROM root.db.t"] if statement == "delete database root.db" else []
    assert texts[:-1] == unset
