"""The statements in `fixtures/`: canonical text of valid ones, message, hint and span of invalid ones."""

from __future__ import annotations

import pytest

from headrace.errors import Error, SqlSyntaxError
from headrace.model.expressions import Expression, Star, walk
from headrace.model.statements import Statement
from headrace.sql import parse, to_sql
from tests.sql.cases import Case, Refusal, cases, refusals
from tests.sql.expressions_of import expressions_of

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_statement_is_written_canonically(case: Case) -> None:
    assert to_sql(parse(case.text)) == case.canonical


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_canonical_text_is_the_same_statement(case: Case) -> None:
    assert parse(case.canonical) == parse(case.text)


@pytest.mark.parametrize("case", [case for case in CASES if "own form" not in case.name], ids=lambda case: case.name)
def test_the_text_at_the_span_of_an_expression_is_that_expression(case: Case) -> None:
    for expression in _written_expressions(parse(case.text)):
        assert expression.span is not None
        written = case.text[expression.span.start : expression.span.end]
        assert _first_expression(f"SELECT {written}") == expression


def _written_expressions(statement: Statement) -> list[Expression]:
    return [found for outer in expressions_of(statement) for found in walk(outer) if not isinstance(found, Star)]


def _first_expression(text: str) -> Expression:
    return next(expressions_of(parse(text)))


@pytest.mark.parametrize("refusal", refusals(), ids=lambda refusal: refusal.name)
def test_an_invalid_statement_has_message_hint_and_span(refusal: Refusal) -> None:
    with pytest.raises(Error) as caught:
        parse(refusal.text)
    assert refusal.message in caught.value.message
    assert refusal.hint in caught.value.hint
    assert caught.value.sql == refusal.text
    assert caught.value.span is not None
    assert (caught.value.span.start, caught.value.span.end) == (refusal.start, refusal.end)


def test_a_word_of_its_own_is_taken_for_no_misspelling() -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse("show variables", "tdengine")
    assert "VTABLES" not in caught.value.hint
