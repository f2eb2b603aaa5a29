"""Parsing of `SELECT`: clauses as tables, sources, joins, unions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple

from headrace.model.queries import Join, Ordering, Query, QuerySource, SelectItem, Source, TableSource, Union
from headrace.model.spans import Span
from headrace.sql.tokens import TokenType
from headrace.sql.windows import WindowParser

Fields = dict[str, Any]
"""Fields of `headrace.model.queries.Query`."""

ASOF: Final = "ASOF"
"""The word of joins that take the closest rows in time, whose ON may be left out."""


class Clause(NamedTuple):
    """A clause of a query. `words` begin it, for messages. `parse` returns its fields, none if the clause is absent."""

    words: str
    parse: Callable[[Any], Fields]


def misplaced_hints(clauses: tuple[Clause, ...], tail: tuple[Clause, ...]) -> dict[str, str]:
    """Return a hint for each keyword that begins a clause, for use if it is in the wrong place."""
    order = ("SELECT", *(clause.words for clause in clauses), "UNION", *(clause.words for clause in tail))
    hint = f"write the clauses of a query in this order, each once: {' … '.join(order)}"
    words = (word for clause in order for word in clause.replace(",", "").split() if word.isupper() and word != "BY")
    return dict.fromkeys(words, hint)


QUANTIFIER: Final = Clause("DISTINCT", lambda self: self._parse_quantifier())


class QueryParser(WindowParser):
    """Parses queries. A dialect lists its clauses in order."""

    CLAUSES: ClassVar[tuple[Clause, ...]] = (
        Clause("FROM", lambda self: self._parse_from()),
        Clause("WHERE", lambda self: self._parse_condition("WHERE", "where")),
        Clause("GROUP BY", lambda self: self._parse_listed("GROUP BY", "group_by", self._parse_group_key)),
        Clause("HAVING", lambda self: self._parse_condition("HAVING", "having")),
    )
    """Clauses after the select list."""

    TAIL: ClassVar[tuple[Clause, ...]] = (
        Clause("ORDER BY", lambda self: self._parse_listed("ORDER BY", "order_by", self._parse_ordering)),
        Clause("LIMIT", lambda self: self._parse_limit("LIMIT", "OFFSET")),
    )
    """Clauses that may follow a query or a union."""

    MATCHES: ClassVar[tuple[str, ...]] = ("SEMI", "ANTI")
    """What may follow LEFT and RIGHT instead of OUTER."""

    UNSUPPORTED_JOINS: ClassVar[Mapping[str, str]] = {}
    """Joins of the language that Headrace lacks, and what to write instead."""

    def _parse_query(self) -> Query | Union:
        """Parse a query or union, with the ORDER BY and LIMIT that apply to all of it."""
        start = self._index
        query: Query | Union = self._parse_query_term()
        while self._accept("UNION"):
            keeps_duplicates = self._accept("ALL")
            query = Union(query, self._parse_query_term(), keeps_duplicates)
        return self._parse_tail(query, start)

    def _parse_query_term(self) -> Query | Union:
        if self._is_at("("):
            return self._parse_parenthesized(self._parse_query)
        return self._parse_select()

    def _parse_select(self) -> Query:
        start = self._index
        self._expect("SELECT")
        fields, spans = self._parse_clauses((QUANTIFIER,))
        items = self._parse_list(self._parse_item)
        clauses, clause_spans = self._parse_clauses(self.CLAUSES)
        fields |= clauses
        return Query(items, fields.pop("source", None), span=self._span(start), clause_spans=spans | clause_spans, **fields)

    def _parse_quantifier(self) -> Fields:
        return {"distinct": self._accept_one("DISTINCT", "ALL") == "DISTINCT"}

    def _parse_clauses(self, clauses: tuple[Clause, ...]) -> tuple[Fields, dict[str, Span]]:
        """Return the fields of the clauses that are there, and where each is."""
        fields: Fields = {}
        spans = {}
        for clause in clauses:
            start = self._index
            fields |= clause.parse(self)
            if self._index > start:
                spans[clause.words] = self._span(start)
        return fields, spans

    def _parse_from(self) -> Fields:
        return {"source": self._parse_source()} if self._accept("FROM") else {}

    def _parse_condition(self, word: str, field: str) -> Fields:
        return {field: self._parse_expression()} if self._accept(word) else {}

    def _parse_listed(self, words: str, field: str, parse: Callable[[], object]) -> Fields:
        return {field: self._parse_list(parse)} if self._accept(*words.split()) else {}

    # Items

    def _parse_item(self) -> SelectItem:
        """Parse `expression [[AS] alias]` or a star."""
        start = self._index
        star = self._parse_star()
        return SelectItem(star, None, self._column_name(start)) if star else self._parse_partition_key()

    def _parse_partition_key(self) -> SelectItem:
        start = self._index
        expression = self._parse_expression()
        text = self._column_name(start)
        return SelectItem(expression, self._parse_alias(), text)

    def _parse_group_key(self) -> SelectItem:
        start = self._index
        expression = self._parse_expression()
        return SelectItem(expression, None, self._column_name(start))

    def _column_name(self, start: int) -> str:
        """Return the name of a column without an alias, which began at the token with index `start`."""
        return self._text_since(start)

    def _parse_alias(self) -> str | None:
        if self._accept("AS"):
            return self._parse_identifier("an alias")
        if not self._is_name(self._token):
            return None
        self._implicit_alias = self._index
        return self._parse_identifier("an alias")

    # Sources

    def _parse_source(self) -> Source:
        """Parse tables and sub-queries that are joined or separated by commas."""
        source = self._parse_joined()
        while self._accept(","):
            source = Join(source, self._parse_joined(), None)
        return source

    def _parse_joined(self) -> Source:
        left = self._parse_source_term()
        while (kind := self._parse_join_kind()) is not None:
            right = self._parse_source_term()
            if kind.endswith(ASOF.lower()):
                condition = self._parse_expression() if self._accept("ON") else None
                left = Join(left, right, condition, kind, self._parse_integer() if self._accept("JLIMIT") else None)
            else:
                self._expect("ON")
                left = Join(left, right, self._parse_expression(), kind)
        return left

    def _parse_join_kind(self) -> str | None:
        """Parse the kind of a join, such as `left semi`. Return None if there is no join."""
        side = self._accept_one("INNER", "LEFT", "RIGHT", "FULL")
        if side is None:
            return "inner" if self._accept("JOIN") else None
        if self._token.word in self.UNSUPPORTED_JOINS:
            self._fail_unsupported(f"{side} {self._token.word} JOIN", self.UNSUPPORTED_JOINS[self._token.word])
        outer = side != "INNER" and self._accept("OUTER")
        match = self._accept_one(*self.MATCHES) if side in ("LEFT", "RIGHT") and not outer else None
        self._expect("JOIN")
        return (f"{side} {match}" if match else side).lower()

    def _parse_source_term(self) -> Source:
        if self._token.word != "(":
            return TableSource(self._parse_name("a table"), self._parse_alias())
        if self._is_subquery():
            return QuerySource(self._parse_parenthesized(self._parse_query), self._parse_alias())
        return self._parse_parenthesized(self._parse_source)

    def _is_subquery(self) -> bool:
        """Return whether the parentheses here contain a query rather than joined sources, which may begin with a sub-query."""
        depth = 0
        while self._peek(depth).word == "(":
            depth += 1
        if self._peek(depth).word != "SELECT":
            return False
        return depth == 1 or self._peek(self._find_closing(1) + 1).word in (")", "UNION", "ORDER", "SLIMIT", "LIMIT")

    def _find_closing(self, ahead: int) -> int:
        """Return how many tokens ahead the parenthesis at `ahead` is closed."""
        depth = 0
        while (token := self._peek(ahead)).kind is not TokenType.END:
            depth += {"(": 1, ")": -1}.get(token.word, 0)
            if depth == 0:
                break
            ahead += 1
        return ahead

    # Clauses after a query or a union

    def _parse_tail(self, query: Query | Union, start: int) -> Query | Union:
        """Parse `[ORDER BY …] [LIMIT …]` and other clauses that the dialect allows there."""
        fields, spans = self._parse_clauses(self.TAIL)
        if not fields:
            return query
        if query.order_by or query.limit is not None or (isinstance(query, Query) and query.series_limit is not None):
            what = "ORDER BY or LIMIT after parentheses that have their own"
            self._fail_unsupported(what, "write SELECT * FROM (…) ORDER BY … LIMIT …", self._span(start))
        if isinstance(query, Query):
            return replace(query, span=self._span(start), clause_spans={**query.clause_spans, **spans}, **fields)
        if "series_limit" in fields:
            self._fail_unsupported("SLIMIT of a UNION", "write it in parentheses with the query it belongs to", self._span(start))
        return replace(query, **fields)

    def _parse_ordering(self) -> Ordering:
        expression = self._parse_expression()
        descending = self._accept_one("ASC", "DESC") == "DESC"
        nulls = self._expect_one("FIRST", "LAST") if self._accept("NULLS") else None
        return Ordering(expression, descending, None if nulls is None else nulls == "FIRST")

    def _parse_row_count(self) -> int:
        return min(self._parse_integer(), 2**63 - 1)  # no result has more

    def _parse_limit(self, limit: str, offset: str, prefix: str = "") -> Fields:
        if not self._accept(limit):
            return {}
        count, skipped = self._parse_row_count(), None
        if self._accept(offset):
            skipped = self._parse_row_count()
        elif self._accept(","):
            count, skipped = self._parse_row_count(), count
        return {f"{prefix}limit": count, f"{prefix}offset": skipped}
