"""`SELECT` in full: clauses as tables, sources, joins, unions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from headrace.model.queries import Join, Ordering, Query, QuerySource, SelectItem, Source, TableSource, Union
from headrace.sql.tokens import TokenType
from headrace.sql.windows import WindowParser

Fields = dict[str, Any]
"""Fields of the model's query."""


class Clause(NamedTuple):
    """A clause of a query: the words that begin it, for messages, and what parses it. No fields: it does not stand here."""

    words: str
    parse: Callable[[Any], Fields]


def misplaced(clauses: tuple[Clause, ...], tail: tuple[Clause, ...]) -> dict[str, str]:
    """Return the hint for each word of a clause that stands in the wrong place."""
    order = ("SELECT", *(clause.words for clause in clauses), "UNION", *(clause.words for clause in tail))
    hint = f"the clauses of a query stand in this order, each once: {' … '.join(order)}"
    words = (word for clause in order for word in clause.replace(",", "").split() if word.isupper() and word != "BY")
    return dict.fromkeys(words, hint)


class QueryParser(WindowParser):
    """Queries and what they are made of. A dialect says which clauses there are, in their order."""

    CLAUSES: ClassVar[tuple[Clause, ...]] = (
        Clause("FROM", lambda self: self._parse_from()),
        Clause("WHERE", lambda self: self._parse_condition("WHERE", "where")),
        Clause("GROUP BY", lambda self: self._parse_groups()),
        Clause("HAVING", lambda self: self._parse_condition("HAVING", "having")),
    )
    """Clauses after the select list."""

    TAIL: ClassVar[tuple[Clause, ...]] = (
        Clause("ORDER BY", lambda self: self._parse_order()),
        Clause("LIMIT", lambda self: self._parse_limit("LIMIT", "OFFSET")),
    )
    """Clauses that follow a query or a union."""

    UNSUPPORTED_JOINS: ClassVar[Mapping[str, str]] = {}
    """Words of joins that the language has and this system does not, and what to write instead."""

    def _parse_query(self) -> Query | Union:
        """A query or a union, with the ORDER BY and LIMIT of the whole."""
        start = self._index
        found: Query | Union = self._parse_query_term()
        while self._accept("UNION"):
            everything = self._accept("ALL")
            found = Union(found, self._parse_query_term(), everything)
        return self._parse_tail(found, start)

    def _parse_query_term(self) -> Query | Union:
        if self._at("("):
            return self._wrapped(self._parse_query)
        return self._parse_select()

    def _parse_select(self) -> Query:
        start = self._index
        self._expect("SELECT")
        distinct = self._parse_quantifier()
        items = self._list(self._parse_item)
        fields = self._parse_clauses(self.CLAUSES)
        return Query(items, fields.pop("source", None), distinct=distinct, span=self._span(start), **fields)

    def _parse_quantifier(self) -> bool:
        """`[DISTINCT | ALL]`."""
        return self._accept_one("DISTINCT", "ALL") == "DISTINCT"

    def _parse_clauses(self, clauses: tuple[Clause, ...]) -> Fields:
        fields: Fields = {}
        for clause in clauses:
            fields |= clause.parse(self)
        return fields

    def _parse_from(self) -> Fields:
        return {"source": self._parse_source()} if self._accept("FROM") else {}

    def _parse_condition(self, word: str, field: str) -> Fields:
        return {field: self._parse_expression()} if self._accept(word) else {}

    def _parse_groups(self) -> Fields:
        return {"group_by": self._list(self._parse_group_key)} if self._accept("GROUP", "BY") else {}

    # Items

    def _parse_item(self) -> SelectItem:
        """`expression [[AS] alias]`, or a star."""
        start = self._index
        star = self._parse_star()
        return SelectItem(star, None, self._column_name(start)) if star else self._parse_partition_key()

    def _parse_partition_key(self) -> SelectItem:
        """`expression [[AS] alias]`."""
        start = self._index
        expression = self._parse_expression()
        text = self._column_name(start)
        return SelectItem(expression, self._parse_alias(), text)

    def _parse_group_key(self) -> SelectItem:
        start = self._index
        expression = self._parse_expression()
        return SelectItem(expression, None, self._column_name(start))

    def _column_name(self, start: int) -> str:
        """The name of a column without an alias."""
        return self._written(start)

    def _parse_alias(self) -> str | None:
        if self._accept("AS"):
            return self._parse_identifier("an alias")
        if not self._is_name(self._token):
            return None
        self._doubtful = self._index
        return self._parse_identifier("an alias")

    # Sources

    def _parse_source(self) -> Source:
        """Tables and sub-queries, joined or with commas between."""
        found = self._parse_joined()
        while self._accept(","):
            found = Join(found, self._parse_joined(), None)
        return found

    def _parse_joined(self) -> Source:
        found = self._parse_source_term()
        while (kind := self._parse_join_kind()) is not None:
            right = self._parse_source_term()
            self._expect("ON")
            found = Join(found, right, self._parse_expression(), kind)
        return found

    def _parse_join_kind(self) -> str | None:
        """The kind of a join in lower case, `left semi` for one; None where no join stands."""
        side = self._accept_one("INNER", "LEFT", "RIGHT", "FULL")
        if side is None:
            return "inner" if self._accept("JOIN") else None
        if self._token.word in self.UNSUPPORTED_JOINS:
            self._unsupported(f"{side} {self._token.word} JOIN", self.UNSUPPORTED_JOINS[self._token.word])
        outer = side != "INNER" and self._accept("OUTER")
        match = self._accept_one("SEMI", "ANTI") if side in ("LEFT", "RIGHT") and not outer else None
        self._expect("JOIN")
        return (f"{side} {match}" if match else side).lower()

    def _parse_source_term(self) -> Source:
        if self._token.word != "(":
            return TableSource(self._parse_name("a table"), self._parse_alias())
        if self._holds_query():
            return QuerySource(self._wrapped(self._parse_query), self._parse_alias())
        return self._wrapped(self._parse_source)

    def _holds_query(self) -> bool:
        """Whether the brackets that open here hold a query, not joined sources (which may begin with a query in brackets)."""
        depth = 0
        while self._next(depth).word == "(":
            depth += 1
        if self._next(depth).word != "SELECT":
            return False
        return depth == 1 or self._next(self._closing(1) + 1).word in (")", "UNION", "ORDER", "SLIMIT", "LIMIT")

    def _closing(self, ahead: int) -> int:
        """How far ahead the bracket stands that closes the one so far ahead."""
        depth = 0
        while (token := self._next(ahead)).kind is not TokenType.END:
            depth += {"(": 1, ")": -1}.get(token.word, 0)
            if depth == 0:
                break
            ahead += 1
        return ahead

    # What follows a query or a union

    def _parse_tail(self, query: Query | Union, start: int) -> Query | Union:
        """`[ORDER BY …] [LIMIT …]`, and what else the dialect has there."""
        fields = self._parse_clauses(self.TAIL)
        if not fields:
            return query
        if query.order_by or query.limit is not None or (isinstance(query, Query) and query.series_limit is not None):
            what = "ORDER BY or LIMIT after brackets that have their own"
            self._unsupported(what, "write SELECT * FROM (…) ORDER BY … LIMIT …", self._span(start))
        if isinstance(query, Query):
            return replace(query, span=self._span(start), **fields)
        if "series_limit" in fields:
            self._unsupported("SLIMIT of a UNION", "write it in brackets with the query it belongs to", self._span(start))
        return replace(query, **fields)

    def _parse_order(self) -> Fields:
        return {"order_by": self._list(self._parse_ordering)} if self._accept("ORDER", "BY") else {}

    def _parse_ordering(self) -> Ordering:
        expression = self._parse_expression()
        descending = self._accept_one("ASC", "DESC") == "DESC"
        nulls = self._expect_one("FIRST", "LAST") if self._accept("NULLS") else None
        return Ordering(expression, descending, None if nulls is None else nulls == "FIRST")

    def _parse_limit(self, limit: str, offset: str, prefix: str = "") -> Fields:
        """`LIMIT n [OFFSET m]` or `LIMIT m, n`."""
        if not self._accept(limit):
            return {}
        count, skipped = self._parse_integer(), None
        if self._accept(offset):
            skipped = self._parse_integer()
        elif self._accept(","):
            count, skipped = self._parse_integer(), count
        return {f"{prefix}limit": count, f"{prefix}offset": skipped}
