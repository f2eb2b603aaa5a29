"""Scripts, dialects, and texts of extreme size."""

from __future__ import annotations

import pytest

from headrace.errors import LimitError, ProgrammingError, SqlSyntaxError
from headrace.model.statements import Insert
from headrace.sql import expression_sql, parse, parse_script, to_sql
from headrace.sql.cursor import MAX_NESTING
from headrace.sql.expressions import MAX_HEIGHT


def test_a_script_is_split_outside_quotes_and_comments() -> None:
    script = "use d; -- not; here\n insert into t values (1, 'a;''b'); /* nor; here */ ; select `a;b` from t"
    assert [text for text, _ in parse_script(script)] == ["use d", "insert into t values (1, 'a;''b')", "select `a;b` from t"]


def test_an_empty_script_has_no_statements() -> None:
    assert parse_script(" -- nothing\n ; ;") == []


def test_the_span_of_an_error_in_a_script_is_within_its_statement() -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_script("use d;\nselct 1;")
    assert caught.value.sql == "selct 1"
    assert "line 1, column 1:\n  selct 1\n  ^^^^^\nhint: write SELECT instead of selct" in str(caught.value)


@pytest.mark.parametrize("text", ["", "  \n", ";", "-- only this", "/* and this */ ;"])
def test_a_text_without_a_statement_is_refused(text: str) -> None:
    with pytest.raises(SqlSyntaxError, match="the statement is empty"):
        parse(text)


def test_trailing_semicolons_are_ignored() -> None:
    assert parse("show databases ; ;") == parse("show databases")
    assert parse("insert into t values (1);; -- done") == parse("insert into t values (1)")


def test_the_error_for_an_unknown_dialect_lists_the_dialects() -> None:
    with pytest.raises(ProgrammingError, match="use tdengine"):
        parse("select 1", "tdengin")
    with pytest.raises(ProgrammingError, match="unknown dialect 'oracle'"):
        to_sql(parse("select 1"), dialect="oracle")


def test_a_dialect_is_found_in_any_case() -> None:
    statement = parse("select 1 + a", "TDengine")
    assert to_sql(statement, "TDENGINE") == "SELECT 1 + a"
    assert expression_sql(statement.query.items[0].expression) == "1 + a"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT {open}1{close}".format(open="(" * 60, close=")" * 60),
        "SELECT {open}1{close}".format(open="f(" * 60, close=")" * 60),
        "SELECT {open}1{close}".format(open="CASE WHEN 1 THEN " * 60, close=" END" * 60),
        "SELECT * FROM {open}t{close}".format(open="(SELECT * FROM " * 60, close=")" * 60),
        "SELECT {open}1".format(open="NOT " * 60),
    ],
)
def test_parentheses_nested_too_deep_are_refused(text: str) -> None:
    with pytest.raises(LimitError, match=f"parentheses are nested more than {MAX_NESTING} deep"):
        parse(text)


def test_the_deepest_allowed_nesting_round_trips() -> None:
    for opening, inside, closing in (("f(", "1", ")"), ("CASE WHEN 1 THEN ", "1", " END"), ("- ", "a", "")):
        statement = parse(f"SELECT {opening * MAX_NESTING}{inside}{closing * MAX_NESTING}")
        assert parse(to_sql(statement)) == statement


def test_too_many_operators_in_a_row_are_refused() -> None:
    longest = "1 + " * (MAX_HEIGHT - 1) + "1"
    assert parse(to_sql(parse(f"SELECT {longest}"))) == parse(f"SELECT {longest}")
    for text in (f"SELECT 1 + {longest}", f"SELECT ({longest}) + 1", "SELECT " + "1 + " * 50_000 + "1"):
        with pytest.raises(LimitError, match=f"the expression is more than {MAX_HEIGHT} operators high"):
            parse(text)


@pytest.mark.parametrize("lead", [" " * 500, "-" * 500 + "\n", "-- " * 500 + "\n", "/* */" * 500, " \n\t" * 500])
def test_long_leading_blanks_and_comments_parse_in_linear_time(lead: str) -> None:
    assert parse(f"{lead}select 1") == parse("select 1")
    assert parse(f"{lead}insert{lead} into t values ({lead}1{lead})") == parse("insert into t values (1)")
    assert [text for text, _ in parse_script(f"{lead}select 1;{lead}")] == ["select 1"]


@pytest.mark.parametrize("text", ["select {}", "select -{}", "select a from t limit {}", "insert into t values ({})", "select {}s"])
@pytest.mark.parametrize(
    "digits", ["9" * 400, "9" * 5000, "0x" + "f" * 5000, "9" * 400 + ".5", "1e400", "1e" + "9" * 5000, "1e", "٣", "²"]
)
def test_malformed_and_out_of_range_numbers_are_refused(text: str, digits: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse(text.format(digits))


def test_an_insert_may_have_any_length() -> None:
    rows = [(1_700_000_000_000 + number, number / 8, f"it's {number}", None) for number in range(5_000)]
    written = " ".join(f"({ts}, {value}, {text!r}, NULL)" for ts, value, text, _ in rows)
    statement = parse(f"INSERT INTO t VALUES {written}")
    assert isinstance(statement, Insert)
    assert statement.blocks[0].rows == tuple(rows)


@pytest.mark.parametrize("dialect", ["tdengine", "iotdb"])
def test_a_word_that_resembles_no_keyword_gets_no_hint(dialect: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse("SHOW TRANSACTIONS", dialect)
    assert "FUNCTIONS instead" not in caught.value.hint
