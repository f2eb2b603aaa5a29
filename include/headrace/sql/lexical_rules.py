"""How a dialect writes strings, names and comments: the lexical part of its grammar."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from headrace.errors import SqlSyntaxError
from headrace.model.spans import Span

COMMENT = r"--[^\n]*|/\*.*?\*/"
BLANKS = rf"(?:\s+|{COMMENT})*+"
"""Possessive, because a line of dashes could otherwise be split into comments in exponentially many ways."""
MAX_DIGITS = 40
"""Maximum digits of a number: more than any type holds, and fewer than Python's limit for converting text to integers."""
QUOTED_NAME = r"`[^`]*(?:``[^`]*)*`"
NUMBER = r"(?:0[xX][0-9a-fA-F]+|(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]+)?)(?!\w)"
"""A number directly followed by a letter, such as 10s or 1.5s, is a word."""
WORD = r"[A-Za-z_][A-Za-z0-9_]*"


class LexicalRules:
    """The lexical rules of a dialect: strings in `'` or `"`, names in backquotes, a doubled quote for a quote.

    Words in `reserved` (upper case) are names only in backquotes. `escapes` are what a backslash and a character stand for; without
    them, a backslash is an ordinary character. Before a character in `kept`, it stays in the value.
    """

    COMMENT: ClassVar[str] = COMMENT
    UNQUOTED: ClassVar[str] = rf"(?P<number>{NUMBER})|(?P<word>(?:[0-9]++\.)?\w+)|(?P<symbol>->|[<>!=]=|<>|.)"
    """Tokens outside quotes, as named groups."""

    def __init__(self, *, reserved: frozenset[str], escapes: Mapping[str, str], kept: str = "") -> None:
        self.reserved = reserved
        self._quoting = str.maketrans(
            {"'": "''", **({"\\": "\\\\"} if escapes else {}), **{v: f"\\{k}" for k, v in escapes.items()}}
        )
        self._escapes = {**escapes, **{character: f"\\{character}" for character in kept}}
        inside, pair = (r"[^{0}\\]*", r"\\.|{0}{0}") if escapes else (r"[^{0}]*", r"{0}{0}")
        self.string = "|".join(f"{q}{inside}(?:(?:{pair}){inside})*{q}".format(q) for q in "'\"")
        quoted = f"{self.string}|{QUOTED_NAME}"
        self._pair = re.compile(r"\\(.)|(['\"])\2" if escapes else r"()(['\"])\2", re.S)
        self._simple_name = re.compile(r"[a-z_][a-z0-9_]*")
        self._blank = re.compile(rf"(?:\s+|{self.COMMENT}|;)*+", re.S)
        self.blanks = re.compile(rf"(?:\s+|{self.COMMENT})*+", re.S)
        self.sign = re.compile(rf"{quoted}|[+-]?\w+(?:\.\w+)*|.", re.S)
        self.token = re.compile(
            rf"(?P<blank>\s+|{self.COMMENT})|(?P<string>{self.string})|(?P<quoted>{QUOTED_NAME})|(?P<open>['\"`]|/\*)"
            rf"|{self.UNQUOTED}",
            re.S,
        )
        self._unquoted = re.compile(rf"({quoted})|[^'\"`]+", re.S)
        self._piece = re.compile(rf"(?P<blank>\s+|{self.COMMENT})|(?P<stop>;)|{quoted}|(?P<open>['\"`]|/\*)|[^\s;'\"`/-]+|.", re.S)

    def unquote(self, raw: str) -> str:
        """Return the value of a string literal with its quotes."""
        body = raw[1:-1]
        quote = raw[0]
        if "\\" not in body and quote not in body:
            return body
        return self._pair.sub(lambda match: self._value(match, quote), body)

    def _value(self, match: re.Match[str], quote: str) -> str:
        if match[1]:
            return self._escapes.get(match[1], match[1])
        return quote if match[2] == quote else match[0]

    def quote(self, value: str) -> str:
        """Write a string literal."""
        return "'" + value.translate(self._quoting) + "'"

    def name(self, raw: str) -> str:
        """Return the name that a word or quoted name denotes. Unquoted names become lower case."""
        return raw[1:-1].replace("``", "`") if raw[0] == "`" else raw.lower()

    def name_sql(self, name: str) -> str:
        """Write a name, in backquotes if it needs them."""
        if self._simple_name.fullmatch(name) and name.upper() not in self.reserved:
            return name
        return "`" + name.replace("`", "``") + "`"

    def lower(self, text: str) -> str:
        """Convert a text to lower case except inside quotes."""
        return self._unquoted.sub(lambda match: match[0] if match[1] else match[0].lower(), text)

    def statements(self, text: str) -> list[str]:
        """Split a script at `;`, without surrounding blanks and comments. Empty statements are omitted."""
        return [text[span.start : span.end] for span in self.statement_spans(text)]

    def statement_spans(self, text: str) -> list[Span]:
        """Return the spans of the statements of a script."""
        spans: list[Span] = []
        start: int | None = None
        end = 0
        for piece in self._piece.finditer(text):
            if piece.lastgroup == "stop":
                spans.extend([] if start is None else [Span(start, end)])
                start = None
            elif piece.lastgroup != "blank":
                start = piece.start() if start is None else start
                end = piece.end()
        return spans if start is None else [*spans, Span(start, end)]

    def is_blank(self, text: str) -> bool:
        """Return whether a text contains no statement: only blanks, comments and `;`."""
        return self._blank.fullmatch(text) is not None

    def check_closed(self, text: str) -> None:
        """Raise `SqlSyntaxError` if a string, name or comment is not closed."""
        for piece in self._piece.finditer(text):
            if piece.lastgroup == "open":
                what = {"`": "name", "/*": "comment"}.get(piece[0], "string")
                close = "*/" if what == "comment" else piece[0]
                raise SqlSyntaxError(
                    f"this {what} is not closed", hint=f"close it with {close}", span=Span(piece.start(), len(text)), sql=text
                )
