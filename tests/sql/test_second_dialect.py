"""A second dialect by tables over the shared parser: keywords, operators, types, and clauses in its own order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest

from headrace.errors import SqlSyntaxError
from headrace.model.expressions import Call, Cast, ColumnRef, Literal
from headrace.model.queries import CountClause, FillClause, FillMode, Query, TableSource, Union, WindowClause
from headrace.model.tables import Name
from headrace.model.time import Duration
from headrace.model.types import DataType, TypeKind
from headrace.sql.lexical_rules import LexicalRules
from headrace.sql.operators import AND, OR, SUM, Operator
from headrace.sql.queries import Clause, Fields, QueryParser, misplaced_hints
from headrace.sql.types import TypeRule

RESERVED = frozenset(
    ("SELECT", "FROM", "WHERE", "GROUP", "BY", "ORDER", "LIMIT", "FILL", "INTO", "AND", "OR", "NOT", "AS", "JOIN", "ON", "UNION")
)
SOURCE, WHERE, _, HAVING = QueryParser.CLAUSES
ORDER, LIMIT = QueryParser.TAIL
CLAUSES = (SOURCE, WHERE, Clause("GROUP BY", lambda self: self._parse_grouping()), HAVING)
TAIL = (ORDER, Clause("FILL", lambda self: self._parse_gaps()), LIMIT)


class Toy(QueryParser):
    """`||` instead of `+`, no LIKE, windows inside GROUP BY, FILL after ORDER BY, durations such as `1d12h`."""

    LEXICAL_RULES = LexicalRules(reserved=RESERVED, escapes={}, kept="")
    BINARY: ClassVar[Mapping[str, Operator]] = {"OR": Operator("or", OR), "AND": Operator("and", AND), "+": Operator("plus", SUM)}
    PREDICATES: ClassVar[Mapping[str, str]] = {"=": "=", "<": "<"}
    NEGATED: ClassVar[Mapping[str, str]] = {}
    TYPES: ClassVar[Mapping[str, TypeRule]] = {"INT64": TypeRule(TypeKind.BIGINT), "TEXT": TypeRule(TypeKind.VARCHAR)}
    WINDOWS: ClassVar[Mapping[str, Callable[[Any, int], WindowClause]]] = {"COUNT": lambda self, start: self._parse_count(start)}
    CLAUSES = CLAUSES
    TAIL = TAIL
    MISPLACED: ClassVar[Mapping[str, str]] = misplaced_hints(CLAUSES, TAIL)

    def _parse_duration(self) -> Duration:
        written = self.text[self._token.start : self._token.end]
        parts = re.findall(r"([0-9]+)([dh])", written)
        self._advance()
        return Duration(sum(int(count) * {"d": 24, "h": 1}[unit] for count, unit in parts), "h")

    def _parse_grouping(self) -> Fields:
        return {"window": self._parse_window()} if self._accept("GROUP", "BY") else {}

    def _parse_gaps(self) -> Fields:
        if not self._accept("FILL"):
            return {}
        self._parse_parenthesized(lambda: self._expect("PREVIOUS"))
        return {"fill": FillClause(FillMode.PREV)}

    def query(self) -> Query | Union:
        query = self._parse_query()
        self._expect_end()
        return query


def query(sql: str) -> Query:
    parsed = Toy(sql).query()
    assert isinstance(parsed, Query)
    return parsed


def test_clauses_operators_and_types_are_those_of_the_dialect() -> None:
    parsed = query(
        "SELECT a + 1 AS b, CAST(a AS INT64) FROM db.t WHERE a < 2 GROUP BY COUNT(3) ORDER BY a DESC FILL(PREVIOUS) LIMIT 5"
    )
    first, second = (item.expression for item in parsed.items)
    assert first == Call("plus", (ColumnRef("a"), Literal(1)))
    assert second == Cast(ColumnRef("a"), DataType(TypeKind.BIGINT))
    assert (parsed.source, parsed.window, parsed.fill) == (TableSource(Name("db", "t")), CountClause(3), FillClause(FillMode.PREV))
    assert (parsed.limit, parsed.order_by[0].descending, parsed.items[0].name) == (5, True, "b")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT a FROM t LIMIT 5 WHERE a < 2", "SELECT … FROM … WHERE … GROUP BY … HAVING … UNION … ORDER BY … FILL … LIMIT"),
        ("SELECT a FROM t WHERE a LIKE 'x'", 'unexpected "like"'),
        ("SELECT CAST(a AS INT) FROM t", "expected one of INT64, TEXT"),
        ("SELECT a FROM t GROUP BY SESSION(3)", 'unexpected "session"'),
    ],
)
def test_features_the_dialect_lacks_are_refused_with_its_keywords(sql: str, message: str) -> None:
    with pytest.raises(SqlSyntaxError) as refused:
        Toy(sql).query()
    shown = f"{refused.value} {refused.value.hint}".lower()
    assert message.lower() in shown
