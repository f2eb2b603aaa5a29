"""Whatever a statement is, its text is that statement; whatever a text is, it is a statement or a named error."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import Error
from headrace.model.expressions import Expression
from headrace.model.statements import Statement
from headrace.model.tree_statements import TreeSelect
from headrace.sql import expression_sql, parse, parse_script, to_sql
from tests.sql.cases import cases
from tests.sql.iotdb import strategies

thorough = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
TEXTS = [case.text for case in cases(Path(__file__).parent / "fixtures")]
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
    "::",
    "${",
    "*",
    "**",
    "select",
    "from",
    "root",
    "time",
    "1",
    "10s",
    "-",
    "é",
]


@given(strategies.statements)
@thorough
def test_a_statement_written_and_parsed_is_the_same_statement(statement: Statement) -> None:
    assert parse(to_sql(statement, "iotdb"), "iotdb") == statement


@given(strategies.expressions)
@thorough
def test_an_expression_written_and_parsed_is_the_same_expression(expression: Expression) -> None:
    statement = parse(f"SELECT a FROM root.d WHERE {expression_sql(expression, 'iotdb')}", "iotdb")
    assert isinstance(statement, TreeSelect)
    assert statement.query.where == expression


@given(st.lists(strategies.statements, max_size=4))
@settings(parent=thorough, max_examples=25)
def test_a_script_holds_its_statements_each_with_its_own_text(statements: list[Statement]) -> None:
    texts = [to_sql(statement, "iotdb") for statement in statements]
    assert parse_script("; -- next\n".join(texts), "iotdb") == list(zip(texts, statements, strict=True))


@given(st.sampled_from(TEXTS), st.randoms(use_true_random=False))
@settings(parent=thorough, max_examples=400)
def test_a_damaged_text_is_a_statement_or_refused_by_name(text: str, chance: random.Random) -> None:
    damaged = _damaged(text, chance)
    outcome = _outcome(damaged)
    if isinstance(outcome, Error):
        assert outcome.span is not None
        assert 0 <= outcome.span.start <= outcome.span.end <= len(damaged)
    else:
        assert parse(to_sql(outcome, "iotdb"), "iotdb") == outcome


def _outcome(text: str) -> Statement | Error:
    try:
        return parse(text, "iotdb")
    except Error as error:
        return error


def _damaged(text: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 3)):
        start = chance.randint(0, len(text))
        end = min(len(text), start + chance.choice([0, 0, 1, 5]))
        text = text[:start] + chance.choice(["", f" {chance.choice(PIECES)} ", chance.choice(PIECES)]) + text[end:]
    return text
