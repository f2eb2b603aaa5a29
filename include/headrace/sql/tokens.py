"""The tokens of a statement.

They are cut by the patterns that `Lexis` has for strings, names and comments anyway. sqlglot could do it too, but importing it is
a quarter of the time of a short command such as `SHOW STREAMS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from headrace.sql.lexis import Lexis


class TokenType(Enum):
    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


TOKEN_TYPES: Final = {kind.value: kind for kind in TokenType}
"""By the names of the groups in `Lexis.token`."""
TYPES_WITH_WORD: Final = (TokenType.WORD, TokenType.SYMBOL)


@dataclass(slots=True)
class Token:
    """A token: `word` is upper case for words, the sign itself for symbols, empty for all else."""

    kind: TokenType
    word: str
    start: int
    end: int


def tokenize(text: str, lexis: Lexis) -> list[Token]:
    """The tokens of a text, closed by one that stands for its end.

    Raises:
        SyntaxError_: a string, name or comment is not closed.
    """
    found: list[Token] = []
    for piece in lexis.token.finditer(text):
        if piece.lastgroup == "open":
            lexis.require_closed(text)
        if piece.lastgroup in TOKEN_TYPES:
            kind = TOKEN_TYPES[piece.lastgroup]
            found.append(Token(kind, piece[0].upper() if kind in TYPES_WITH_WORD else "", piece.start(), piece.end()))
    last = found[-1].end if found else len(text)
    return [*found, Token(TokenType.END, "", last, last)]
