"""Round trips: a statement written and parsed is the same, and any text is a statement or a specific error."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import Error
from headrace.model.expressions import Expression
from headrace.model.statements import Select, Statement
from headrace.sql import expression_sql, parse, parse_script, to_sql
from tests.sql import strategies
from tests.sql.cases import cases

thorough = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
TEXTS = [case.text for case in cases()]
PIECES = [
    "(",
    ")",
    ",",
    ";",
    "'",
    '"',
    "`",
    ".",
    "--",
    "/*",
    "\\",
    "select",
    "from",
    "a",
    "1",
    "10s",
    "null",
    "not",
    "as",
    "*",
    "-",
    "é",
    "\0",
]


@given(strategies.statements)
@thorough
def test_a_statement_written_and_parsed_is_the_same_statement(statement: Statement) -> None:
    assert parse(to_sql(statement)) == statement


@given(strategies.expressions)
@thorough
def test_an_expression_written_and_parsed_is_the_same_expression(expression: Expression) -> None:
    statement = parse(f"SELECT {expression_sql(expression)}")
    assert isinstance(statement, Select)
    assert [item.expression for item in statement.query.items] == [expression]  # type: ignore[union-attr]


@given(st.lists(strategies.statements, max_size=4))
@settings(parent=thorough, max_examples=25)
def test_a_script_holds_its_statements_each_with_its_own_text(statements: list[Statement]) -> None:
    texts = [to_sql(statement) for statement in statements]
    assert parse_script("; -- next\n".join(texts)) == list(zip(texts, statements, strict=True))


@given(st.sampled_from(TEXTS), st.randoms(use_true_random=False))
@settings(parent=thorough, max_examples=300)
def test_a_damaged_text_is_a_statement_or_refused_by_name(text: str, chance: random.Random) -> None:
    damaged = _damaged(text, chance)
    outcome = _outcome(damaged)
    if isinstance(outcome, Error):
        assert outcome.span is not None
        assert 0 <= outcome.span.start <= outcome.span.end <= len(damaged)
    else:
        assert parse(to_sql(outcome)) == outcome


def _outcome(text: str) -> Statement | Error:
    try:
        return parse(text)
    except Error as error:
        return error


def _damaged(text: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 3)):
        start = chance.randint(0, len(text))
        end = min(len(text), start + chance.choice([0, 0, 1, 5]))
        text = text[:start] + chance.choice(["", f" {chance.choice(PIECES)} ", chance.choice(PIECES)]) + text[end:]
    return text
