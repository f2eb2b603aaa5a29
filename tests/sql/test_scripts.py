"""Scripts, dialects, and texts beyond all measure."""

from __future__ import annotations

import pytest

from headrace.errors import LimitError, ProgrammingError, SyntaxError_
from headrace.model.statements import Insert
from headrace.sql import expression_sql, parse, parse_script, to_sql
from headrace.sql.cursor import DEPTH
from headrace.sql.expressions import HEIGHT


def test_a_script_is_divided_outside_quotes_and_comments() -> None:
    script = "use d; -- not; here\n insert into t values (1, 'a;''b'); /* nor; here */ ; select `a;b` from t"
    assert [text for text, _ in parse_script(script)] == ["use d", "insert into t values (1, 'a;''b')", "select `a;b` from t"]


def test_an_empty_script_holds_nothing() -> None:
    assert parse_script(" -- nothing\n ; ;") == []


def test_an_error_in_a_script_stands_in_its_own_statement() -> None:
    with pytest.raises(SyntaxError_) as caught:
        parse_script("use d;\nselct 1;")
    assert caught.value.sql == "selct 1"
    assert "line 1, column 1:\n  selct 1\n  ^^^^^\nhint: write SELECT instead of selct" in str(caught.value)


@pytest.mark.parametrize("text", ["", "  \n", ";", "-- only this", "/* and this */ ;"])
def test_a_text_without_a_statement_is_refused(text: str) -> None:
    with pytest.raises(SyntaxError_, match="there is no statement"):
        parse(text)


def test_semicolons_after_a_statement_do_no_harm() -> None:
    assert parse("show databases ; ;") == parse("show databases")
    assert parse("insert into t values (1);; -- done") == parse("insert into t values (1)")


def test_an_unknown_dialect_is_refused_with_those_there_are() -> None:
    with pytest.raises(ProgrammingError, match="use tdengine"):
        parse("select 1", "tdengin")
    with pytest.raises(ProgrammingError, match="unknown dialect 'oracle'"):
        to_sql(parse("select 1"), dialect="oracle")


def test_a_dialect_is_found_in_any_case() -> None:
    statement = parse("select 1 + a", "TDengine")
    assert to_sql(statement, "TDENGINE") == "SELECT 1 + a"
    assert expression_sql(statement.query.items[0].expression) == "1 + a"  # type: ignore[union-attr]


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
def test_what_nests_too_deep_is_refused(text: str) -> None:
    with pytest.raises(LimitError, match=f"brackets may nest {DEPTH} deep"):
        parse(text)


def test_what_nests_as_deep_as_it_may_can_be_written_again() -> None:
    for opening, inside, closing in (("f(", "1", ")"), ("CASE WHEN 1 THEN ", "1", " END"), ("- ", "a", "")):
        statement = parse(f"SELECT {opening * DEPTH}{inside}{closing * DEPTH}")
        assert parse(to_sql(statement)) == statement


def test_too_many_operators_in_a_row_are_refused() -> None:
    longest = "1 + " * (HEIGHT - 1) + "1"
    assert parse(to_sql(parse(f"SELECT {longest}"))) == parse(f"SELECT {longest}")
    for text in (f"SELECT 1 + {longest}", f"SELECT ({longest}) + 1", "SELECT " + "1 + " * 50_000 + "1"):
        with pytest.raises(LimitError, match=f"an expression may be {HEIGHT} operators high"):
            parse(text)


@pytest.mark.parametrize("lead", [" " * 500, "-" * 500 + "\n", "-- " * 500 + "\n", "/* */" * 500, " \n\t" * 500])
def test_blanks_and_rules_before_a_statement_are_no_burden(lead: str) -> None:
    assert parse(f"{lead}select 1") == parse("select 1")
    assert parse(f"{lead}insert{lead} into t values ({lead}1{lead})") == parse("insert into t values (1)")
    assert [text for text, _ in parse_script(f"{lead}select 1;{lead}")] == ["select 1"]


@pytest.mark.parametrize("text", ["select {}", "select -{}", "select a from t limit {}", "insert into t values ({})", "select {}s"])
@pytest.mark.parametrize(
    "digits", ["9" * 400, "9" * 5000, "0x" + "f" * 5000, "9" * 400 + ".5", "1e400", "1e" + "9" * 5000, "1e", "٣", "²"]
)
def test_a_number_that_is_none_or_beyond_all_measure_is_refused(text: str, digits: str) -> None:
    with pytest.raises(SyntaxError_):
        parse(text.format(digits))


def test_an_insert_may_be_as_long_as_it_likes() -> None:
    rows = [(1_700_000_000_000 + number, number / 8, f"it's {number}", None) for number in range(5_000)]
    written = " ".join(f"({ts}, {value}, {text!r}, NULL)" for ts, value, text, _ in rows)
    statement = parse(f"INSERT INTO t VALUES {written}")
    assert isinstance(statement, Insert)
    assert statement.blocks[0].rows == tuple(rows)
