"""How a dialect writes strings, names and comments: the part of its grammar that lies below the tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.errors import SyntaxError_
from headrace.model.spans import Span

COMMENT = r"--[^\n]*|/\*.*?\*/"
BLANKS = rf"(?:\s+|{COMMENT})*+"
"""Never given back once matched: else a line of dashes could be cut into comments in more ways than there is time to try."""
DIGITS = 40
"""Digits of a number at most: more than any type holds, and far fewer than Python refuses to convert."""
QUOTED_NAME = r"`[^`]*(?:``[^`]*)*`"
NUMBER = r"(?:0[xX][0-9a-fA-F]+|(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]+)?)(?!\w)"
"""What goes on with a letter, such as 10s or 1.5s, is a word."""
WORD = r"[A-Za-z_][A-Za-z0-9_]*"


class Lexis:
    """Strings in `'` or `"`, names in back quotes; a doubled quote stands for itself.

    `escapes` says what a backslash and a character stand for (none: a backslash is an ordinary character), `kept` before
    which characters the backslash stays, `reserved` (upper case) which words are names only in back quotes.
    """

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
        self._blank = re.compile(rf"(?:\s+|{COMMENT}|;)*+", re.S)
        self.sign = re.compile(rf"{quoted}|[+-]?\w+(?:\.\w+)*|.", re.S)
        self.token = re.compile(
            rf"(?P<blank>\s+|{COMMENT})|(?P<string>{self.string})|(?P<quoted>{QUOTED_NAME})|(?P<open>['\"`]|/\*)"
            rf"|(?P<number>{NUMBER})|(?P<word>(?:[0-9]++\.)?\w+)|(?P<symbol>->|[<>!=]=|<>|.)",
            re.S,
        )
        self._unquoted = re.compile(rf"({quoted})|[^'\"`]+", re.S)
        self._piece = re.compile(rf"(?P<blank>\s+|{COMMENT})|(?P<stop>;)|{quoted}|(?P<open>['\"`]|/\*)|[^\s;'\"`/-]+|.", re.S)

    def unquote(self, raw: str) -> str:
        """The value of a string as written, quotes included."""
        body = raw[1:-1]
        quote = raw[0]
        if "\\" not in body and quote not in body:
            return body
        return self._pair.sub(lambda found: self._value(found, quote), body)

    def _value(self, found: re.Match[str], quote: str) -> str:
        if found[1]:
            return self._escapes.get(found[1], found[1])
        return quote if found[2] == quote else found[0]

    def quote(self, value: str) -> str:
        """A string written so that `unquote` gives it back."""
        return "'" + value.translate(self._quoting) + "'"

    def name(self, raw: str) -> str:
        """The name that a word or a back-quoted text stands for; unquoted ones are lower case."""
        return raw[1:-1].replace("``", "`") if raw[0] == "`" else raw.lower()

    def name_sql(self, name: str) -> str:
        """A name, in back quotes where it needs them."""
        if self._simple_name.fullmatch(name) and name.upper() not in self.reserved:
            return name
        return "`" + name.replace("`", "``") + "`"

    def lower(self, text: str) -> str:
        """A text in lower case, save what stands in quotes."""
        return self._unquoted.sub(lambda found: found[0] if found[1] else found[0].lower(), text)

    def statements(self, text: str) -> list[str]:
        """The statements of a script, split at `;`, without blanks and comments around them; empty ones are left out."""
        return [text[span.start : span.end] for span in self.statement_spans(text)]

    def statement_spans(self, text: str) -> list[Span]:
        """Where the statements of a script are."""
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
        """Whether a text holds no statement: only blanks, comments and `;`."""
        return self._blank.fullmatch(text) is not None

    def require_closed(self, text: str) -> None:
        """Refuse a text with a string, name or comment that is not closed."""
        for piece in self._piece.finditer(text):
            if piece.lastgroup == "open":
                what = {"`": "name", "/*": "comment"}.get(piece[0], "string")
                close = "*/" if what == "comment" else piece[0]
                raise SyntaxError_(
                    f"this {what} is not closed",
                    hint=f"close it with {close}",
                    span=Span(piece.start(), len(text)),
                    sql=text,
                )
