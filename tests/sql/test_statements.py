"""Details of parsed statements that their text does not show."""

from __future__ import annotations

import pytest

from headrace.model.expressions import Call, ColumnRef, DurationLiteral, Expression, Literal
from headrace.model.queries import Query
from headrace.model.spans import Span
from headrace.model.statements import CreateStream, CreateTable, Explain, Insert, Now, Select
from headrace.model.streams import StreamOptions, TriggerMode
from headrace.model.time import Duration
from headrace.sql import parse
from tests.sql.expressions_of import expressions_of


def _query(text: str) -> Query:
    statement = parse(text)
    assert isinstance(statement, Select)
    assert isinstance(statement.query, Query)
    return statement.query


def _expression(text: str) -> Expression:
    return next(expressions_of(parse(f"SELECT {text}")))


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("count(*)", "count(*)"),
        ("COUNT( * )", "count( * )"),
        ("_WSTART", "_wstart"),
        ("t.`Ab`", "Ab"),
        ("Max(a)+Sum(b)", "max(a)+sum(b)"),
        ("concat('X', \"Y\", `Z`)", "concat('X', \"Y\", `Z`)"),
        ("(a + b)", "(a + b)"),
        ("now", "now"),
        ("a  as  total", "total"),
        ("a `Total`", "Total"),
    ],
)
def test_a_column_is_named_as_it_is_written(written: str, name: str) -> None:
    assert _query(f"select 1, {written} , 2 from t").items[1].name == name


def test_a_partition_key_is_named_as_it_is_written() -> None:
    keys = _query("select count(*) from t partition by tbname, Ta + 1, tb as g interval(1s)").partition_by
    assert [key.name for key in keys] == ["tbname", "ta + 1", "g"]


def test_a_sign_before_a_number_makes_a_negative_number() -> None:
    assert _expression("- 1.5") == Literal(-1.5)
    assert _expression("-a") == Call("unary-", (ColumnRef("a"),))


def test_a_duration_is_a_literal_of_its_own() -> None:
    assert _expression("now - 1h") == Call("-", (Call("now"), DurationLiteral(Duration(1, "h"))))


def test_spellings_of_one_operator_are_one_function() -> None:
    assert _expression("a <> 1") == _expression("a != 1") == Call("<>", (ColumnRef("a"), Literal(1)))
    assert _expression("a == 1") == _expression("a = 1")
    assert _expression("a regexp 'x'") == _expression("a match 'x'")


def test_a_predicate_holds_all_its_operands() -> None:
    assert _expression("a not between 1 and 2") == Call("not between", (ColumnRef("a"), Literal(1), Literal(2)))
    assert _expression("a in (1, 'x')") == Call("in", (ColumnRef("a"), Literal(1), Literal("x")))


def test_a_comma_joins_without_a_condition() -> None:
    source = _query("select * from a, b").source
    assert source == _query("select * from (a, b)").source
    assert source != _query("select * from a join b on a.ts = b.ts").source


def test_a_stream_has_the_defaults_of_the_language() -> None:
    stream = parse("create stream s into t as select a from r")
    assert isinstance(stream, CreateStream)
    assert stream.options == StreamOptions()
    assert stream.options.trigger is TriggerMode.WINDOW_CLOSE
    assert (stream.columns, stream.tags, stream.subtable) == (None, None, None)


def test_a_stream_carries_its_own_text() -> None:
    text = "create stream s into t as select a from r"
    stream, explained = parse(f" /* mine */ {text} ; "), parse(f"explain {text}")
    assert isinstance(stream, CreateStream)
    assert isinstance(explained, Explain)
    assert isinstance(explained.statement, CreateStream)
    assert stream.text == explained.statement.text == text


def test_names_columns_and_windows_have_spans() -> None:
    text = "create stable db . `T` (ts timestamp, a int comment 'x') tags (g int)"
    table = parse(text)
    assert isinstance(table, CreateTable)
    spans = [table.name.span, *(column.span for column in (*table.columns, *table.tags))]
    assert [_at(text, span) for span in spans] == [
        "db . `T`",
        "ts timestamp",
        "a int comment 'x'",
        "g int",
    ]
    text = "select count(*) from t where a > 1 interval(10s) sliding(5s) fill(prev) limit 1"
    query = _query(text)
    assert query.window is not None
    assert query.fill is not None
    assert [_at(text, span) for span in (query.span, query.window.span, query.fill.span)] == [
        text,
        "interval(10s) sliding(5s)",
        "fill(prev)",
    ]


def _at(text: str, span: Span | None) -> str:
    assert span is not None
    return text[span.start : span.end]


def test_rows_have_spans() -> None:
    text = "insert into d . t values (1, 2) /* and */ ,\n( 3 , 'a)b' )"
    statement = parse(text)
    assert isinstance(statement, Insert)
    assert _at(text, statement.blocks[0].table.span) == "d . t"
    assert [_at(text, span) for span in statement.blocks[0].row_spans] == ["(1, 2)", "( 3 , 'a)b' )"]


def test_now_in_a_row_is_counted_in_nanoseconds() -> None:
    statement = parse("insert into t values (now, now + 1h - 30m, today() - 1d)")
    assert isinstance(statement, Insert)
    assert statement.blocks[0].rows == ((Now(), Now(1_800_000_000_000), Now(-86_400_000_000_000, today=True)),)


def test_a_subtable_that_an_insert_creates_may_exist() -> None:
    statement = parse("insert into d1 using s tags (1) values (1, 2)")
    assert isinstance(statement, Insert)
    using = statement.blocks[0].using
    assert using is not None
    assert (using.name.name, using.using.name, using.if_not_exists) == ("d1", "s", True)
