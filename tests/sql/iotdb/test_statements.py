"""What statements become: the parts of the model that no text shows, and what errors carry."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from headrace.errors import NotSupportedError, SqlSyntaxError
from headrace.model.expressions import Call, Cast, ColumnRef, DurationLiteral, Expression, Literal
from headrace.model.paths import PathPattern
from headrace.model.statements import Now
from headrace.model.time import Duration
from headrace.model.tree_queries import GroupByCondition, GroupByTime, TimeRange, TreeQuery
from headrace.model.tree_statements import CreateContinuousQuery, CreateTimeseries, TreeInsert, TreeSelect, TreeShow
from headrace.model.types import TIMESTAMP, DataType, TypeKind
from headrace.sql import parse, parse_script
from headrace.sql.parameters import render_many, split_template


def _query(text: str) -> TreeQuery:
    statement = parse(text, "iotdb")
    assert isinstance(statement, TreeSelect)
    return statement.query


def _condition(text: str) -> Expression | None:
    return _query(f"select a from root.d where {text}").where


def _insert(text: str) -> TreeInsert:
    statement = parse(text, "iotdb")
    assert isinstance(statement, TreeInsert)
    return statement


def test_paths_are_columns_with_all_their_nodes() -> None:
    query = _query("select A.`b c`.*, count(s*) from root.sg.`d-1`.**")
    assert query.items[0].expression == ColumnRef("A.`b c`.*")
    assert query.items[1].expression == Call("count", (ColumnRef("s*"),))
    assert query.prefixes == (PathPattern(("root", "sg", "`d-1`", "**")),)


def test_functions_keep_their_spelling_and_their_attributes() -> None:
    call = _query("select Top_K(a, 'k'='3') from root.d").items[0].expression
    assert call == Call("top_k", (ColumnRef("a"),), attributes=(("k", "3"),))
    assert isinstance(call, Call)
    assert call.spelling == "Top_K"


def test_a_negation_takes_one_operand() -> None:
    assert _condition("not a > 1") == Call(">", (Call("not", (ColumnRef("a"),)), Literal(1)))


def test_instants_are_text_with_a_type_and_durations_come_one_by_one() -> None:
    assert _condition("time > 2017/11/01 00:05:00") == Call(
        ">", (ColumnRef("time"), Cast(Literal("2017-11-01 00:05:00"), TIMESTAMP))
    )
    day_ago = Call("-", (Call("now"), DurationLiteral(Duration(1, "d"))))
    assert _condition("timestamp > now() - 1d2ms") == Call(
        ">", (ColumnRef("time"), Call("-", (day_ago, DurationLiteral(Duration(2, "a")))))
    )


def test_windows_by_time_keep_their_units() -> None:
    grouping = _query("select count(a) from root.d group by ((0, 10], 1mo15d, 1us)").grouping
    assert grouping is not None
    assert grouping.time == GroupByTime(
        (Duration(1, "n"), Duration(15, "d")), (Duration(1, "u"),), TimeRange(Literal(0), Literal(10), left_open=True)
    )


def test_rows_to_keep_are_at_least_the_number_alone() -> None:
    grouping = _query("select count(a) from root.d group by condition(a, 3)").grouping
    assert grouping is not None
    assert grouping.rows == GroupByCondition(ColumnRef("a"), (">=", 3))


def test_a_series_has_the_type_of_the_model() -> None:
    statement = parse("create aligned timeseries root.d(a text, b string, c blob, d boolean)", "iotdb")
    assert isinstance(statement, CreateTimeseries)
    kinds = [TypeKind.VARCHAR, TypeKind.NCHAR, TypeKind.VARBINARY, TypeKind.BOOL]
    assert [spec.type for spec in statement.series] == [DataType(kind) for kind in kinds]


def test_rows_are_read_without_their_time() -> None:
    statement = _insert("insert into root.d(a, time, b) values (1, now() - 1d1h, 'x'), (null, 2017/01/01, X'0a')")
    assert statement.measurements == ("a", "b")
    assert statement.times == (Now(-90_000_000_000_000), "2017-01-01")
    assert statement.rows == ((1, "x"), (None, b"\n"))


def test_a_row_without_a_time_has_none() -> None:
    assert _insert("insert into root.d(a) values (1)").times == (None,)


def test_rows_and_paths_know_where_they_stand() -> None:
    text = "insert into root.d(time, a) values (1, 2) /* and */ ,\n( 3 , 'a)b' )"
    statement = _insert(text)
    assert [text[span.start : span.end] for span in statement.row_spans] == ["(1, 2)", "( 3 , 'a)b' )"]
    assert statement.device.span is not None
    assert text[statement.device.span.start : statement.device.span.end] == "root.d"


def test_a_condition_of_show_says_what_it_looks_at() -> None:
    assert parse("show timeseries where tags(unit)='c'", "iotdb") == TreeShow("timeseries", where=("tag", "unit", "=", "c"))


def test_a_continuous_query_carries_its_text_and_its_body() -> None:
    text = "CREATE  CQ c RESAMPLE EVERY 1m BEGIN select a into root.x(y)  from root.d END"
    statement = parse(f" /* mine */ {text} ; ", "iotdb")
    assert isinstance(statement, CreateContinuousQuery)
    assert (statement.text, statement.body) == (text, "select a into root.x(y)  from root.d")


def test_a_script_is_divided_between_statements() -> None:
    texts = [text for text, _ in parse_script("show cqs; -- ;\nshow version;", "iotdb")]
    assert texts == ["show cqs", "show version"]


@pytest.mark.parametrize(
    ("text", "status"),
    [("select", 700), ("select 'a", 700), ("select a from root.d limit 0", 701), ("insert into root.d(time) values (1)", 701)],
)
def test_errors_carry_the_status_of_iotdb(text: str, status: int) -> None:
    with pytest.raises(SqlSyntaxError) as refused:
        parse(text, "iotdb")
    assert refused.value.status == status
    assert refused.value.message.startswith(f"{status}: ")


def test_what_comes_later_is_not_supported() -> None:
    with pytest.raises(NotSupportedError, match="views come with a later version"):
        parse("drop view root.v", "iotdb")


def test_parameters_are_written_as_the_language_has_them() -> None:
    insert = split_template("insert into root.d(time, a, b, c, d) values (?, ?, ?, ?, ?)", "iotdb")
    moment = datetime(2024, 5, 1, 12, 30, 0, 500, tzinfo=UTC)
    written = insert.render([moment, "it's", b"\x0a", None, date(2024, 5, 1)])
    statement = _insert(written)
    assert statement.times == ("2024-05-01 12:30:00.000500+00:00",)
    assert statement.rows == (("it's", b"\n", None, "2024-05-01"),)
    query = split_template("select a from root.d where time > ? and b = ?", "iotdb")
    assert _query(query.render([moment, -1.5])).where == _condition("time > 2024-05-01 12:30:00.000500+00:00 and b = -1.5")


def test_many_rows_become_one_insert() -> None:
    written = render_many("insert into root.d(time, a) aligned values (?, ?)", [(1, 2), (3, None)], "iotdb")
    assert written is not None
    statement = _insert(written)
    assert (statement.times, statement.rows, statement.aligned) == ((1, 3), ((2,), (None,)), True)
