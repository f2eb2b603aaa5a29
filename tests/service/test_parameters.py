"""Values for `?` in statements, whose types are kept."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace.compute import Plan
from headrace.errors import DataError, ProgrammingError
from headrace.model.statements import Insert
from headrace.sql import parse
from headrace.sql.parameters import literal_sql, render_many, split_template

NOON = datetime(2024, 5, 1, 12, 0, 0, 123456)
IN_TOKYO = NOON.replace(tzinfo=timezone(timedelta(hours=9)))


@pytest.fixture
def typed(connection: headrace.Connection) -> headrace.Connection:
    connection.execute(
        "create table t (ts timestamp, i int, big bigint, d double, m decimal(20, 2), s varchar(200), b bool,"
        " x varbinary(9), at timestamp)"
    )
    return connection


def render(sql: str, *parameters: Any) -> str:
    return split_template(sql, "tdengine").render(parameters)


@pytest.mark.parametrize(
    ("sql", "parameters", "expected"),
    [
        ("select ?", (None,), "select NULL"),
        ("select ?, ?", (True, 7), "select TRUE, 7"),
        ("select a-?", (-1,), "select a- -1"),
        ("select ?", (1e-7,), "select 1e-07"),
        ("select ?", ('it\'s \\ "so"\n',), "select 'it''s \\\\ \"so\"\\n'"),
        ("select ?", (Decimal("1.50"),), "select 1.50"),
        ("insert into t values (?)", (Decimal("1E+3"),), "insert into t values ('1000')"),
        ("insert into t values (?)", (b"\x00\xff",), "insert into t values ('\\x00ff')"),
        ("select ?", (NOON,), "select TIMESTAMP '2024-05-01 12:00:00.123456'"),
        ("insert into t values (?)", (IN_TOKYO,), "insert into t values ('2024-05-01 03:00:00.123456+00:00')"),
        ("create table a using t tags (?)", (NOON,), "create table a using t tags ('2024-05-01 12:00:00.123456')"),
        ("select ?", (date(2024, 5, 1),), "select TIMESTAMP '2024-05-01'"),
        ("select ?", (pd.Timestamp("2024-05-01 00:00:00.000000007"),), "select TIMESTAMP '2024-05-01 00:00:00.000000007'"),
        ("select ?, ?", (pd.NaT, np.datetime64("NaT")), "select NULL, NULL"),
        ("select ?, ?, ?", (np.int64(3), np.float32(0.5), np.bool_(True)), "select 3, 0.5, TRUE"),
        ("select ?", (np.datetime64("2024-05-01T00:00:01"),), "select TIMESTAMP '2024-05-01 00:00:01'"),
        ("select '?', `?`, \"?\", ? -- ?\n /* ? */", (1,), "select '?', `?`, \"?\", 1 -- ?\n /* ? */"),
    ],
)
def test_a_value_is_written_as_a_literal(sql: str, parameters: tuple[Any, ...], expected: str) -> None:
    assert render(sql, *parameters) == expected


@pytest.mark.parametrize(
    ("sql", "parameters", "error", "message", "start"),
    [
        ("select ?, ?", (1,), ProgrammingError, "the statement has 2 parameters, 1 given", 10),
        ("select '?', ?", (1, 2), ProgrammingError, "the statement has 1 parameter, 2 given", 13),
        ("select 1", ("x",), ProgrammingError, "the statement has 0 parameters, 1 given", 8),
        ("select 1, ?", (float("nan"),), DataError, "parameter 1: nan is not a finite number", 10),
        ("select ?", (Decimal("Infinity"),), DataError, "parameter 1: Infinity is not a finite number", 7),
        ("select ?", (object(),), ProgrammingError, "parameter 1: values of type object have no literal", 7),
        ("select ?", ([1],), ProgrammingError, "parameter 1: values of type list have no literal", 7),
    ],
)
def test_a_value_without_a_literal_is_refused_with_its_position(
    connection: headrace.Connection, sql: str, parameters: tuple[Any, ...], error: type[headrace.Error], message: str, start: int
) -> None:
    with pytest.raises(error) as raised:
        connection.execute(sql, parameters)
    assert raised.value.message == message
    assert raised.value.sql == sql
    assert raised.value.span is not None
    assert raised.value.span.start == start


@pytest.mark.parametrize("parameters", ["x", b"x", {"a": 1}, 5])
def test_parameters_are_a_sequence(connection: headrace.Connection, parameters: Any) -> None:
    with pytest.raises(ProgrammingError, match="not a sequence"):
        connection.execute("select ?", parameters)


@given(text=st.text(st.characters(codec="utf-8")))
def test_any_text_round_trips(text: str) -> None:
    statement = parse(f"insert into t values (0, {literal_sql(text, 'tdengine', is_data=True)})")
    assert isinstance(statement, Insert)
    assert statement.blocks[0].rows[0][1] == text


@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.none())
)
def test_any_number_round_trips(values: list[Any]) -> None:
    statement = parse(render(f"insert into t values (0{', ?' * len(values)})", *values))
    assert isinstance(statement, Insert)
    (block,) = statement.blocks
    assert block.rows[0][1:] == tuple(values)


def test_parameters_are_stored_unchanged(typed: headrace.Connection) -> None:
    row = (NOON, -7, 2**62, 0.1, Decimal("123456789012345678.25"), 'it\'s -- ? \\ "ü"', False, b"\x00\\'", IN_TOKYO)
    typed.execute("insert into t values (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    table = typed.session.context.catalog.tables.get("d", "t")
    (stored,) = typed.session.context.tables.scan(table).to_pylist()
    assert stored["ts"] == NOON.replace(microsecond=123000, tzinfo=UTC)
    assert stored["at"] == IN_TOKYO.replace(microsecond=123000)
    assert [stored[name] for name in ("i", "big", "d", "m", "s", "b", "x")] == list(row[1:8])


def test_a_naive_time_is_in_the_zone_and_precision_of_the_database(connection: headrace.Connection) -> None:
    connection.execute("create database tokyo timezone 'Asia/Tokyo' precision 'us'")
    connection.execute("create table tokyo.t (ts timestamp, i int)")
    connection.execute("insert into tokyo.t values (?, 1)", [NOON])
    catalog = connection.session.context.catalog
    (row,) = connection.session.context.tables.scan(catalog.tables.get("tokyo", "t")).to_pylist()
    assert row["ts"] == IN_TOKYO
    (stage,) = connection.session.stages(render("select i from tokyo.t where ts >= ? and ts <= ?", NOON, IN_TOKYO))
    assert isinstance(stage.plan, Plan)
    tick = round(IN_TOKYO.timestamp() * 1_000_000)
    assert stage.plan.range == (tick, tick)
    assert connection.execute("delete from tokyo.t where ts < ?", [NOON]).rowcount == 0
    assert connection.execute("delete from tokyo.t where ts = ?", [IN_TOKYO]).rowcount == 1


@pytest.mark.parametrize(
    ("sql", "rows", "expected"),
    [
        ("insert into t values (?, 1) ;", [(1,), (2,)], "insert into t values (1, 1) (2, 1)"),
        ("insert into t (a, b) values (?, ?) -- ?", [(1, "x")], "insert into t (a, b) values (1, 'x')"),
        (
            "insert into a using s tags (?) values (?, 1)",
            [("n", 1), ("m", 2)],
            "insert into a using s tags ('n') values (1, 1) a using s tags ('m') values (2, 1)",
        ),
        (
            "insert into a values (?, 1) b values (?, 1)",
            [(1, 2), (3, 4)],
            "insert into a values (1, 1) b values (2, 1) a values (3, 1) b values (4, 1)",
        ),
        ("insert into t values (?)", [], None),
        ("delete from t where ts = ?", [(1,)], None),
    ],
)
def test_rows_of_an_insert_become_one_statement(sql: str, rows: list[tuple[Any, ...]], expected: str | None) -> None:
    assert render_many(sql, rows, "tdengine") == expected


def test_the_module_has_the_constructors_and_types_of_pep_249(typed: headrace.Connection) -> None:
    noon = headrace.Timestamp(2024, 5, 1, 12)
    assert headrace.TimestampFromTicks(1_714_564_800) == noon.replace(tzinfo=UTC)
    assert headrace.DateFromTicks(1_714_564_800) == headrace.Date(2024, 5, 1)
    assert headrace.TimeFromTicks(1_714_564_800) == headrace.Time(12, tzinfo=UTC)
    typed.execute("insert into t (ts, x) values (?, ?)", (noon, headrace.Binary(b"x")))
    columns = typed.execute("select stream_name, lag_ms, create_time from information_schema.ins_stream_progress").description
    assert columns is not None
    assert [kind for _, kind, *_ in columns] == [headrace.STRING, headrace.NUMBER, headrace.DATETIME]
    assert headrace.BINARY not in [kind for _, kind, *_ in columns]
    assert headrace.STRING != headrace.NUMBER


def test_executemany_is_one_commit(typed: headrace.Connection) -> None:
    table = typed.session.context.catalog.tables.get("d", "t")
    before = typed.session.context.tables.version(table)
    cursor = typed.cursor().executemany("insert into t (ts, i) values (?, ?)", ((n, n * 2) for n in range(1000)))
    assert cursor.rowcount == 1000
    assert typed.session.context.tables.version(table) == before + 1
    assert typed.session.context.tables.rows(table) == 1000


def test_executemany_writes_all_rows_or_none(typed: headrace.Connection) -> None:
    table = typed.session.context.catalog.tables.get("d", "t")
    with pytest.raises(ProgrammingError, match="row 2: the statement has 2 parameters, 1 given"):
        typed.cursor().executemany("insert into t (ts, i) values (?, ?)", [(1, 1), (2,)])
    with pytest.raises(DataError, match="row 3: 'x' is not valid for i"):
        typed.cursor().executemany("insert into t (ts, i) values (?, ?)", [(1, 1), (2, 2), (3, "x")])
    assert typed.session.context.tables.rows(table) == 0


def test_executemany_of_another_statement_executes_each(typed: headrace.Connection) -> None:
    typed.cursor().executemany("insert into t (ts, i) values (?, ?)", [(n, n) for n in range(5)])
    assert typed.cursor().executemany("delete from t where ts = ?", [(1,), (2,)]).rowcount == 2
    assert typed.cursor().executemany("delete from t where ts = ?", []).rowcount == -1


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_query_takes_parameters(typed: headrace.Connection) -> None:
    typed.cursor().executemany("insert into t (ts, s) values (?, ?)", [(NOON, "it's"), (NOON + timedelta(seconds=1), "b")])
    assert typed.execute("select s from t where s = ? and ts between ? and ?", ("it's", NOON - timedelta(1), NOON)).fetchall() == [
        ("it's",)
    ]
    assert typed.execute("select ?, ? - 1h, -?", ("x", NOON.replace(tzinfo=UTC), -1)).fetchall()[0][0] == "x"
