"""`SELECT` in full: clauses, sources, joins, unions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from headrace.model.queries import Item, Join, Ordering, Query, QuerySource, Source, TableSource, Union
from headrace.sql.tdengine.windows import TDengineWindows
from headrace.sql.tokens import Kind

CLAUSES: Final = (
    "SELECT",
    "FROM",
    "WHERE",
    "PARTITION BY",
    "RANGE",
    "EVERY",
    "INTERVAL, SESSION, STATE_WINDOW, EVENT_WINDOW or COUNT_WINDOW",
    "FILL",
    "GROUP BY",
    "HAVING",
    "UNION",
    "ORDER BY",
    "SLIMIT",
    "LIMIT",
)
CLAUSE_WORDS: Final = frozenset(word for clause in CLAUSES for word in clause.replace(",", "").split() if word.isupper()) - {"BY"}
ORDER_HINT: Final = f"the clauses of a query stand in this order, each once: {' … '.join(CLAUSES)}"


class TDengineQueries(TDengineWindows):
    """Queries and what they are made of."""

    MISPLACED: ClassVar[Mapping[str, str]] = dict.fromkeys(CLAUSE_WORDS, ORDER_HINT)

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
        if self._token.word == "TAGS":
            self._unsupported("SELECT TAGS", "SELECT DISTINCT tbname and the tags")
        distinct = self._accept_one("DISTINCT", "ALL") == "DISTINCT"
        items = self._list(self._parse_item)
        source = self._parse_source() if self._accept("FROM") else None
        where = self._parse_expression() if self._accept("WHERE") else None
        partition = self._list(self._parse_partition_key) if self._accept("PARTITION", "BY") else ()
        interpolation = self._parse_interpolation()
        window = self._parse_window()
        fill = self._parse_fill()
        groups = self._list(self._parse_group_key) if self._accept("GROUP", "BY") else ()
        having = self._parse_expression() if self._accept("HAVING") else None
        return Query(
            items,
            source,
            where,
            partition,
            window,
            fill,
            interpolation,
            groups,
            having,
            distinct=distinct,
            span=self._span(start),
        )

    # Items

    def _parse_item(self) -> Item:
        """`expression [[AS] alias]`, or a star."""
        start = self._index
        star = self._parse_star()
        return Item(star, None, self._column_name(start)) if star else self._parse_partition_key()

    def _parse_partition_key(self) -> Item:
        """`expression [[AS] alias]`."""
        start = self._index
        expression = self._parse_expression()
        text = self._column_name(start)
        return Item(expression, self._parse_alias(), text)

    def _parse_group_key(self) -> Item:
        start = self._index
        expression = self._parse_expression()
        return Item(expression, None, self._column_name(start))

    def _column_name(self, start: int) -> str:
        """What TDengine calls a column without an alias: the text, which it takes in lower case outside quotes."""
        return self.LEXIS.lower(self._written(start))

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
        if self._token.word in ("ASOF", "WINDOW"):
            self._unsupported(f"{side} {self._token.word} JOIN", "join on equal timestamps, or use a window")
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
        while (token := self._next(ahead)).kind is not Kind.END:
            depth += {"(": 1, ")": -1}.get(token.word, 0)
            if depth == 0:
                break
            ahead += 1
        return ahead

    # What follows a query or a union

    def _parse_tail(self, found: Query | Union, start: int) -> Query | Union:
        """`[ORDER BY …] [SLIMIT …] [LIMIT …]`."""
        order = self._list(self._parse_ordering) if self._accept("ORDER", "BY") else ()
        series = self._parse_limit("SLIMIT", "SOFFSET")
        limit = self._parse_limit("LIMIT", "OFFSET")
        if not (order or series or limit):
            return found
        return self._with_tail(found, start, order, series or (None, None), limit or (None, None))

    def _with_tail(
        self,
        found: Query | Union,
        start: int,
        order: tuple[Ordering, ...],
        series: tuple[int | None, int | None],
        limit: tuple[int | None, int | None],
    ) -> Query | Union:
        if found.order_by or found.limit is not None or (isinstance(found, Query) and found.series_limit is not None):
            what = "ORDER BY or LIMIT after brackets that have their own"
            self._unsupported(what, "write SELECT * FROM (…) ORDER BY … LIMIT …", self._span(start))
        if isinstance(found, Union):
            if series[0] is not None:
                self._unsupported("SLIMIT of a UNION", "write it in brackets with the query it belongs to", self._span(start))
            return replace(found, order_by=order, limit=limit[0], offset=limit[1])
        return replace(
            found,
            order_by=order,
            limit=limit[0],
            offset=limit[1],
            series_limit=series[0],
            series_offset=series[1],
            span=self._span(start),
        )

    def _parse_ordering(self) -> Ordering:
        expression = self._parse_expression()
        descending = self._accept_one("ASC", "DESC") == "DESC"
        nulls = self._expect_one("FIRST", "LAST") if self._accept("NULLS") else None
        return Ordering(expression, descending, None if nulls is None else nulls == "FIRST")

    def _parse_limit(self, limit: str, offset: str) -> tuple[int, int | None] | None:
        """`LIMIT n [OFFSET m]` or `LIMIT m, n`, as (n, m)."""
        if not self._accept(limit):
            return None
        first = self._parse_integer()
        if self._accept(offset):
            return first, self._parse_integer()
        return (self._parse_integer(), first) if self._accept(",") else (first, None)
