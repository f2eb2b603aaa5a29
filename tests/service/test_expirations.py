"""The TTL of tables: `headrace.connect` sets it, maintenance drops what has expired."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.errors import ProgrammingError
from headrace.runtime.table_removal import drop_expired

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(home=tmp_path, clock=headrace.ManualClock(START_MS)) as opened:
        opened.execute("CREATE DATABASE d")
        opened.execute("USE d")
        opened.execute("CREATE STABLE s (ts TIMESTAMP, a INT) TAGS (g INT)")
        yield opened


def after_days(connection: headrace.Connection, days: float) -> list[str]:
    """Maintain the tables after some days; return what was dropped."""
    connection.clock.advance(int(days * DAY_MS))
    return drop_expired(connection.session.context)


def tables(connection: headrace.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT table_name, ttl FROM information_schema.ins_tables ORDER BY table_name").fetchall()


def test_subtables_and_plain_tables_go_when_their_time_has_come(connection: headrace.Connection) -> None:
    connection.execute("CREATE TABLE s1 USING s TAGS (1) TTL 1 s2 USING s TAGS (2) s3 USING s TAGS (3) TTL 1")
    connection.execute("CREATE TABLE plain (ts TIMESTAMP, a INT) TTL 2")
    connection.execute("INSERT INTO s1 VALUES (1, 1) s2 VALUES (1, 2) s3 VALUES (1, 3) plain VALUES (1, 4)")

    assert tables(connection) == [("plain", 2), ("s1", 1), ("s2", 0), ("s3", 1)]
    assert after_days(connection, 0.99) == []
    assert after_days(connection, 0.01) == ["d.s1", "d.s3"]
    assert connection.execute("SELECT tbname, a FROM s").fetchall() == [("s2", 2)]
    assert after_days(connection, 1) == ["d.plain"]
    assert tables(connection) == [("s2", 0)]
    connection.execute("CREATE TABLE s1 USING s TAGS (1)")
    assert after_days(connection, 100) == []


def test_alter_table_sets_the_time_from_now(connection: headrace.Connection) -> None:
    connection.execute("CREATE TABLE s1 USING s TAGS (1)")
    connection.execute("CREATE TABLE plain (ts TIMESTAMP, a INT) TTL 1")
    connection.execute("ALTER TABLE s1 TTL 3")
    connection.execute("ALTER TABLE plain TTL 0 COMMENT 'stays'")

    assert "COMMENT 'stays'" in connection.execute("SHOW CREATE TABLE plain").fetchall()[0][1]
    assert after_days(connection, 2.9) == []
    connection.execute("ALTER TABLE plain TTL 5")
    assert connection.execute("SHOW CREATE TABLE plain").fetchall()[0][1].endswith("TTL 5")
    assert after_days(connection, 0.1) == ["d.s1"]


def test_results_keep_the_rows_of_a_subtable_that_is_removed(connection: headrace.Connection) -> None:
    connection.execute("CREATE TABLE s1 USING s TAGS (1) TTL 1 s2 USING s TAGS (2)")
    connection.execute(
        "CREATE STREAM t TRIGGER AT_ONCE IGNORE EXPIRED 0 IGNORE UPDATE 0 INTO o AS SELECT _wstart, sum(a) a FROM s INTERVAL(1m)"
    )
    connection.execute("INSERT INTO s1 VALUES (1, 1) s2 VALUES (1, 2)")
    connection.settle()
    assert connection.execute("SELECT a FROM o").fetchall() == [(3,)]

    assert after_days(connection, 1) == ["d.s1"]
    connection.settle()
    assert connection.execute("SELECT a FROM o").fetchall() == [(3,)]
    connection.execute("INSERT INTO s2 VALUES (1, 5)")
    connection.settle()
    assert connection.execute("SELECT a FROM o").fetchall() == [(5,)], "a recalculated window has the rows that are stored"


def test_what_a_stream_or_a_virtual_table_uses_is_kept(connection: headrace.Connection, caplog: pytest.LogCaptureFixture) -> None:
    connection.execute("CREATE TABLE s1 USING s TAGS (1) TTL 1 s2 USING s TAGS (2) TTL 1")
    connection.execute("CREATE TABLE plain (ts TIMESTAMP, a INT) TTL 1")
    connection.execute("CREATE STREAM t INTO o AS SELECT _wstart, count(*) n FROM plain INTERVAL(1m)")
    connection.execute("CREATE VTABLE v (ts TIMESTAMP, a INT FROM s1.a)")
    with caplog.at_level(logging.WARNING):
        assert after_days(connection, 1) == ["d.s2"]

    assert [name for name, _ in tables(connection) if name in ("plain", "s1")] == ["plain", "s1"]
    assert {"keeping d.s1, whose TTL has passed", "keeping d.plain, whose TTL has passed"} <= {
        record.message.partition(":")[0] for record in caplog.records
    }
    connection.execute("DROP VTABLE v")
    connection.execute("DROP STREAM t")
    assert after_days(connection, 0) == ["d.plain", "d.s1"]


def test_existing_tables_keep_their_ttl(connection: headrace.Connection) -> None:
    connection.execute("CREATE TABLE s1 USING s TAGS (1)")
    connection.execute("CREATE TABLE IF NOT EXISTS s1 USING s TAGS (1) TTL 1")
    connection.execute("CREATE TABLE plain (ts TIMESTAMP, a INT)")
    connection.execute("CREATE TABLE IF NOT EXISTS plain (ts TIMESTAMP, a INT) TTL 1")

    assert after_days(connection, 2) == []


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("ALTER TABLE v TTL 1", "v is a virtual table, which has no TTL"),
        ("CREATE VTABLE w (s1.a) USING vs TAGS (1) TTL 1", "a virtual table has no TTL"),
        ("ALTER TABLE s TTL 1", "s"),
    ],
)
def test_virtual_tables_and_supertables_have_none(connection: headrace.Connection, sql: str, message: str) -> None:
    connection.execute("CREATE TABLE s1 USING s TAGS (1)")
    connection.execute("CREATE STABLE vs (ts TIMESTAMP, a INT) TAGS (g INT) VIRTUAL 1")
    connection.execute("CREATE VTABLE v (ts TIMESTAMP, a INT FROM s1.a)")
    with pytest.raises((ProgrammingError, headrace.Error), match=message):
        connection.execute(sql)


def test_explain_says_when_a_table_goes(connection: headrace.Connection) -> None:
    connection.execute("CREATE TABLE s1 USING s TAGS (1)")
    plan = "\n".join(row[0] for row in connection.execute("EXPLAIN ALTER TABLE s1 TTL 3").fetchall())
    assert "drop d.s1 3 days from now" in plan
