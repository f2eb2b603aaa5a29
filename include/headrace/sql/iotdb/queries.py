"""The parser of SELECT of the IoTDB language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from headrace.model.expressions import ColumnRef, Expression, walk
from headrace.model.paths import ROOT, split_path
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import IntoTarget, TreeFill, TreeFillMode, TreeOrdering, TreeQuery
from headrace.sql.iotdb.expressions import is_constant
from headrace.sql.iotdb.groups import GroupParser
from headrace.sql.iotdb.names import result_name
from headrace.sql.iotdb.paths import INTO_NODE, INTO_NODE_RULE
from headrace.sql.iotdb.words import FOLLOWERS
from headrace.sql.queries import Clause, Fields, misplaced_hints
from headrace.sql.tokens import TokenType

SORT_KEYS: Final = ("TIME", "TIMESERIES", "DEVICE")
PAGES: Final = {"LIMIT": "limit", "OFFSET": "offset", "SLIMIT": "series_limit", "SOFFSET": "series_offset"}
NEEDS_POSITIVE: Final = {"LIMIT": "LIMIT <N>: N should be greater than 0.", "SLIMIT": "SLIMIT <SN>: SN should be greater than 0."}
ONLY_PREVIOUS: Final = "Only FILL(PREVIOUS) support specifying the time duration threshold."
MAX_ROWS: Final = 2**63 - 1
MAX_SERIES: Final = 2**31 - 1
OUT_OF_RANGE: Final = {
    "LIMIT": (MAX_ROWS, "Out of range. LIMIT <N>: N should be Int64."),
    "OFFSET": (MAX_ROWS, "Out of range. OFFSET <OFFSETValue>: OFFSETValue should be Int64."),
    "SLIMIT": (MAX_SERIES, "Out of range. SLIMIT <SN>: SN should be Int32."),
    "SOFFSET": (MAX_SERIES, "Out of range. SOFFSET <SOFFSETValue>: SOFFSETValue should be Int32."),
}

CLAUSES: Final = (
    Clause("INTO", lambda self: self._parse_into()),
    Clause("FROM", lambda self: self._parse_from()),
    Clause("WHERE", lambda self: self._parse_condition("WHERE", "where")),
    Clause("GROUP BY", lambda self: self._parse_grouping()),
    Clause("HAVING", lambda self: self._parse_condition("HAVING", "having")),
    Clause("ORDER BY, FILL", lambda self: self._parse_order_and_fill()),
    Clause("LIMIT, OFFSET, SLIMIT, SOFFSET", lambda self: self._parse_pages()),
    Clause("ALIGN BY", lambda self: self._parse_alignment()),
)
ORDER: Final = " … ".join(("SELECT", *(clause.words for clause in CLAUSES)))


class TreeQueries(GroupParser):
    """Parses a query, with its clauses in IoTDB's order."""

    MISPLACED: ClassVar[Mapping[str, str]] = dict.fromkeys(
        misplaced_hints(CLAUSES, ()), f"the clauses of a query stand in this order, each once: {ORDER}"
    )

    _in_query = False

    def _misplaced(self, word: str) -> str:
        return super()._misplaced(word) if self._in_query else ""

    def _parse_tree_query(self) -> TreeQuery:
        start = self._index
        self._in_query = True
        self._expect("SELECT")
        last = self._parse_last()
        items = self._parse_list(self._parse_item)
        fields: Fields = {}
        for clause in CLAUSES:
            fields |= clause.parse(self)
        self._check_aliases(items)
        return TreeQuery(items, last=last, span=self._span(start), **fields)

    def _parse_last(self) -> bool:
        """Parse `LAST`, unless the word is a path or a function."""
        after = self._peek()
        is_operand = after.kind not in (TokenType.SYMBOL, TokenType.END) or after.word in ("*", "**", "(")
        if self._token.word == "LAST" and is_operand and (after.word not in FOLLOWERS):
            self._advance()
            return True
        return False

    # Items

    def _parse_item(self) -> SelectItem:
        start = self._index
        expression = self._parse_expression()
        self._check_item(expression, start)
        alias = self._parse_constant_text("an alias") if self._accept("AS") else None
        return SelectItem(expression, alias, result_name(expression))

    def _check_item(self, expression: Expression, start: int) -> None:
        span = self._span(start)
        if isinstance(expression, ColumnRef) and expression.name == "time":
            text = "Time column is no need to appear in SELECT Clause explicitly, it will always be returned if possible"
            self._semantic(text, span, hint="leave it out")
        if is_constant(expression):
            hint = "name at least one series"
            self._semantic(f"Constant operand is not allowed: {result_name(expression)}", span, hint=hint)
        self._refuse_full_paths(expression)

    def _refuse_full_paths(self, expression: Expression) -> None:
        """Raise `SqlSyntaxError` for a path in the select list that begins with `root`."""
        for node in walk(expression):
            if isinstance(node, ColumnRef) and split_path(node.name)[0] == ROOT:
                hint = "name the device in FROM and the rest of the path here"
                self._semantic("Path can not start with root in select clause.", node.span, hint=hint)

    def _check_aliases(self, items: tuple[SelectItem, ...]) -> None:
        aliases = [item.alias for item in items if item.alias is not None]
        if len(set(aliases)) < len(aliases):
            self._semantic("duplicate alias in select clause", self._span(0), hint="give each column a name of its own")

    # INTO and FROM

    def _parse_into(self) -> Fields:
        return {"into": self._parse_list(self._parse_target)} if self._accept("INTO") else {}

    def _parse_target(self) -> IntoTarget:
        start = self._index
        aligned = self._token.word == "ALIGNED" and self._peek().word not in (".", "(") and self._accept("ALIGNED")
        device = [self._parse_root() if self._token.word == "ROOT" else self._parse_into_node()]
        while self._accept("."):
            device.append(self._parse_into_node())
        measurements = self._parse_items(self._parse_into_node)
        return IntoTarget(tuple(device), measurements, aligned, self._span(start))

    def _parse_into_node(self) -> str:
        if self._token.word == "::":
            self._advance()
            return "::"
        return self._parse_plain_node(INTO_NODE, INTO_NODE_RULE)

    def _parse_from(self) -> Fields:
        self._expect("FROM")
        return {"prefixes": self._parse_patterns()}

    def _parse_condition(self, word: str, field: str) -> Fields:
        return {field: self._parse_expression()} if self._accept(word) else {}

    # FILL and ORDER BY

    def _parse_order_and_fill(self) -> Fields:
        fields = self._parse_order() | self._parse_fill_clause()
        return fields if "order_by" in fields else fields | self._parse_order()

    def _parse_order(self) -> Fields:
        return {"order_by": self._parse_list(self._parse_tree_ordering)} if self._accept("ORDER", "BY") else {}

    def _parse_tree_ordering(self) -> TreeOrdering:
        start = self._index
        word = self._token.word
        after = self._peek()
        is_key = word in SORT_KEYS and (after.kind is not TokenType.SYMBOL or after.word in (",", ")", ";"))
        if is_key:
            self._advance()
            key: Expression = ColumnRef(word.lower(), span=self._span(start))
        else:
            key = self._parse_expression()
            self._check_sort_key(key, start)
        descending = self._accept_one("ASC", "DESC") == "DESC"
        nulls = self._expect_one("FIRST", "LAST") if not is_key and self._accept("NULLS") else None
        return TreeOrdering(key, descending, None if nulls is None else nulls == "FIRST")

    def _check_sort_key(self, key: Expression, start: int) -> None:
        if is_constant(key):
            self._semantic(f"Constant operand is not allowed: {result_name(key)}", self._span(start), hint="order by a series")

    def _parse_fill_clause(self) -> Fields:
        start = self._index
        if not self._accept("FILL"):
            return {}
        self._expect("(")
        mode = {"LINEAR": TreeFillMode.LINEAR, "PREVIOUS": TreeFillMode.PREVIOUS}.get(self._token.word, TreeFillMode.CONSTANT)
        value = None
        if mode is TreeFillMode.CONSTANT:
            self._expected.extend(("LINEAR", "PREVIOUS"))
            value = self._parse_fill_constant()
        else:
            self._advance()
        max_age = None
        if self._accept(","):
            token = self._token
            max_age = self._parse_duration_parts()
            if mode is not TreeFillMode.PREVIOUS:
                self._semantic(ONLY_PREVIOUS, token, hint="leave the duration out")
        self._expect(")")
        return {"fill": TreeFill(mode, value, max_age, self._span(start))}

    def _parse_fill_constant(self) -> Expression:
        token = self._token
        if token.word in ("NULL", "NAN"):
            text = self.text[token.start : token.end]
            self._semantic(f"Unsupported constant value in FILL: {text}", token, hint="write a number, a text or a boolean")
        return self._parse_constant()

    # LIMIT and ALIGN BY

    def _parse_pages(self) -> Fields:
        """Parse LIMIT, OFFSET, SLIMIT and SOFFSET in any order."""
        fields: Fields = {}
        while word := self._accept_one(*(word for word, field in PAGES.items() if field not in fields)):
            fields[PAGES[word]] = self._parse_page(word)
        return fields

    def _parse_page(self, word: str) -> int:
        token = self._token
        count = self._parse_integer()
        max_length, out_of_range = OUT_OF_RANGE[word]
        if count > max_length:
            self._semantic(out_of_range, token)
        if count == 0 and word in NEEDS_POSITIVE:
            self._semantic(NEEDS_POSITIVE[word], token, hint=f"leave {word} out, or write a greater number")
        return count

    def _parse_alignment(self) -> Fields:
        if not self._accept("ALIGN", "BY"):
            return {}
        return {"by_device": self._expect_one("TIME", "DEVICE") == "DEVICE"}
