"""The parser of paths and names of the IoTDB language: nodes, wildcards, identifiers, properties."""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Callable
from typing import Final, NoReturn

from headrace.model.paths import ROOT, PathPattern, quote_node
from headrace.model.spans import Span
from headrace.model.tree_types import TREE_TYPES
from headrace.model.types import DataType
from headrace.sql.iotdb.status import semantic_error
from headrace.sql.iotdb.words import FOLLOWERS, LEXICAL_RULES
from headrace.sql.tokens import Token, TokenType
from headrace.sql.types import FormParser

NODE: Final = re.compile(r"[A-Za-z0-9_\u2E80-\u9FFF]+")
INTO_NODE: Final = re.compile(r"[A-Za-z0-9_${}\u2E80-\u9FFF]+")
NUMBER_NODE: Final = re.compile(r"[0-9]+(?:E[0-9]+)?")
"""A node that looks like a number needs back quotes."""

STARS: Final = ("*", "**")
DATA: Final = (TokenType.NUMBER, TokenType.STRING, TokenType.INSTANT, TokenType.BINARY, TokenType.QUOTED)
NODE_RULE: Final = (
    "{} is illegal, unquoted node name can only consist of digits, characters and underscore, or start or end with wildcard"
)
INTO_NODE_RULE: Final = (
    "{} is illegal, unquoted node name in select into clause can only consist of digits, characters, $, {{ and }}"
)
IDENTIFIER_RULE: Final = (
    "{} is illegal, identifier not enclosed with backticks can only consist of digits, characters and underscore."
)


class PathParser(FormParser, ABC):
    """Parses paths of the tree. Names keep their case, and any word but `root`, `time` and `timestamp` can be a name."""

    LEXICAL_RULES = LEXICAL_RULES

    # Whole paths

    def _parse_pattern(self) -> PathPattern:
        """Parse `root.node.…`, which may have wildcards."""
        return self._parse_nodes(self._parse_node)

    def _parse_path(self) -> PathPattern:
        """Parse `root.node.…` without wildcards."""
        return self._parse_nodes(self._parse_plain_node)

    def _parse_nodes(self, parse: Callable[[], str]) -> PathPattern:
        start = self._index
        nodes = [self._parse_root()]
        while self._accept("."):
            nodes.append(parse())
        return PathPattern(tuple(nodes), self._span(start))

    def _parse_patterns(self) -> tuple[PathPattern, ...]:
        return self._parse_list(self._parse_pattern)

    def _parse_optional_pattern(self) -> tuple[PathPattern, ...]:
        """Parse a pattern if the next token begins one."""
        return (self._parse_pattern(),) if self._is_at("ROOT") else ()

    def _parse_root(self) -> str:
        if self._token.word != "ROOT":
            written = self.text[self._token.start : self._token.end]
            named = self._is_name(self._token)
            self._fail("a path that begins with root", hint=f"write root.{written}" if named else "")
        self._advance()
        return ROOT

    # Nodes

    def _parse_node(self, in_expression: bool = False) -> str:
        """Parse a node, return its canonical spelling. A star after it is a wildcard unless, in an expression, it multiplies."""
        token = self._token
        if token.word in STARS:
            self._advance()
            return token.word + (self._parse_node_after_star(in_expression) if token.word == "*" else "")
        node = str(self._parse_integer()) if self._at_number_wildcard(in_expression) else self._parse_plain_node()
        return node if node.startswith("`") else node + self._parse_star_after_node(in_expression)

    def _at_number_wildcard(self, in_expression: bool) -> bool:
        """Return whether the next tokens are the node `1*`, not a multiplication."""
        star = self._peek()
        adjacent = self._token.kind is TokenType.NUMBER and star.word == "*" and star.start == self._token.end
        return adjacent and not (in_expression and self._is_multiplication(1))

    def _parse_node_after_star(self, in_expression: bool) -> str:
        """Parse the rest of `*s` or `*s*`, which directly follows its star."""
        token = self._token
        adjacent = token.start == self._tokens[self._index - 1].end
        if not adjacent or token.kind not in (TokenType.WORD, TokenType.NUMBER):
            return ""
        rest = self._parse_plain_node() if token.kind is TokenType.WORD else str(self._parse_integer())
        return rest + self._parse_star_after_node(in_expression)

    def _parse_star_after_node(self, in_expression: bool) -> str:
        if self._token.word != "*" or (in_expression and self._is_multiplication()):
            return ""
        self._advance()
        return "*"

    def _is_multiplication(self, ahead: int = 0) -> bool:
        """Return whether the star `ahead` tokens on multiplies: what follows can only be its right operand."""
        after = self._peek(ahead + 1)
        if after.kind is TokenType.WORD:
            return after.word not in FOLLOWERS
        if after.word in STARS:
            return self._peek(ahead).start > self._peek(ahead - 1).end
        return after.kind in DATA or after.word in ("(", "!")

    def _parse_plain_node(self, pattern: re.Pattern[str] = NODE, rule: str = NODE_RULE) -> str:
        """Parse a node without wildcards, and return its canonical spelling."""
        token = self._token
        if not self._is_name(token):
            self._refuse_node(token)
        self._advance()
        written = self.text[token.start : token.end]
        if token.kind is TokenType.QUOTED:
            return quote_node(self.LEXICAL_RULES.name(written))
        if not pattern.fullmatch(written):
            self._semantic(rule.format(written), token, hint=f"write `{written}`")
        return written

    def _refuse_node(self, token: Token) -> NoReturn:
        written = self.text[token.start : token.end]
        quotable = token.kind in (TokenType.NUMBER, TokenType.WORD)
        self._fail("a node", hint=f"as a node's name write `{written}`" if quotable else "")

    # Identifiers

    def _is_name(self, token: Token) -> bool:
        if token.kind is TokenType.WORD:
            return token.word not in self.LEXICAL_RULES.reserved and token.word != "::" and not NUMBER_NODE.fullmatch(token.word)
        return token.kind is TokenType.QUOTED

    def _parse_identifier(self, what: str = "a name") -> str:
        token = self._token
        name = super()._parse_identifier(what)
        if token.kind is TokenType.WORD and not NODE.fullmatch(name):
            self._semantic(IDENTIFIER_RULE.format(name), token, hint=f"write `{name}`")
        return name

    def _parse_constant_text(self, what: str) -> str:
        """Parse an identifier or a constant, such as a key, a value or an alias, and return its text."""
        token = self._token
        if token.kind is TokenType.STRING:
            return self._parse_string()
        if token.kind in (TokenType.NUMBER, TokenType.INSTANT) or token.word in ("-", "+", "TIMESTAMP"):
            sign = self._advance()
            last = self._advance() if sign.word in ("-", "+") else sign
            return self.text[sign.start : last.end]
        return self._parse_identifier(what)

    def _parse_key(self) -> str:
        return self._parse_constant_text("a key")

    def _parse_property(self) -> tuple[str, str]:
        key = self._parse_key()
        self._expect_one("=", "==")
        return key, self._parse_constant_text("a value")

    # Types

    def _parse_type(self) -> DataType:
        token = self._token
        name = self._parse_constant_text("a type")
        if name.upper() not in TREE_TYPES:
            self._semantic(f"Unsupported datatype: {name.upper()}", token, hint=f"use one of {', '.join(TREE_TYPES)}")
        return TREE_TYPES[name.upper()]

    # Errors

    def _semantic(self, message: str, where: Token | Span | None = None, hint: str = "") -> NoReturn:
        """Raise `SqlSyntaxError` for text that is grammatical but not a valid statement."""
        span = Span(where.start, where.end) if isinstance(where, Token) else where or self._current_span()
        raise semantic_error(message, hint=hint, span=span, sql=self.text)
