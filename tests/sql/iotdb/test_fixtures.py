"""The statements in `fixtures/`: what is accepted is written canonically, what is refused says why and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import Error
from headrace.model.expressions import Cast, DurationLiteral, Expression, Literal, children
from headrace.model.statements import Statement
from headrace.model.tree_statements import TreeSelect
from headrace.sql import parse, to_sql
from tests.sql.cases import Case, Refusal, cases, refusals
from tests.sql.expressions_of import expressions_of

FOLDER = Path(__file__).parent / "fixtures"
CASES = cases(FOLDER)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_statement_is_written_canonically(case: Case) -> None:
    assert to_sql(parse(case.text, "iotdb"), "iotdb") == case.canonical


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_canonical_text_is_the_same_statement(case: Case) -> None:
    assert parse(case.canonical, "iotdb") == parse(case.text, "iotdb")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_text_at_the_span_of_an_expression_is_that_expression(case: Case) -> None:
    for expression in _written_expressions(parse(case.text, "iotdb")):
        assert expression.span is not None
        written = case.text[expression.span.start : expression.span.end]
        assert _condition(f"SELECT a FROM root.d WHERE {written}") == expression


def _written_expressions(statement: Statement) -> list[Expression]:
    return [found for outer in expressions_of(statement) for found in _alone(outer)]


def _alone(expression: Expression) -> list[Expression]:
    """An expression and its descendants that can stand alone: the parts of an instant can't."""
    if isinstance(expression, Cast) and isinstance(expression.operand, Literal):
        return [expression]
    if any(isinstance(child, DurationLiteral) for child in children(expression)):
        return [expression]
    return [expression, *(found for child in children(expression) for found in _alone(child))]


def _condition(text: str) -> Expression | None:
    statement = parse(text, "iotdb")
    assert isinstance(statement, TreeSelect)
    return statement.query.where


@pytest.mark.parametrize("refusal", refusals(FOLDER), ids=lambda refusal: refusal.name)
def test_a_refusal_says_what_is_wrong_what_to_do_and_where(refusal: Refusal) -> None:
    with pytest.raises(Error) as caught:
        parse(refusal.text, "iotdb")
    assert refusal.message in caught.value.message
    assert refusal.hint in caught.value.hint
    assert caught.value.sql == refusal.text
    assert caught.value.span is not None
    assert (caught.value.span.start, caught.value.span.end) == (refusal.start, refusal.end)
