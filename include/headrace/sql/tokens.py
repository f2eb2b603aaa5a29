"""The tokens of a statement.

They are cut by the patterns that `Lexis` has for strings, names and comments anyway. sqlglot could do it too, but takes longer to
import than all else that a short command such as `SHOW STREAMS` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.sql.lexis import Lexis


class Kind(Enum):
    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


@dataclass(slots=True)
class Token:
    """A token: `word` is upper case for words, the sign itself for symbols, empty for all else."""

    kind: Kind
    word: str
    start: int
    end: int


NAMED = (Kind.WORD, Kind.SYMBOL)


def tokens_of(text: str, lexis: Lexis) -> list[Token]:
    """The tokens of a text, closed by one that stands for its end.

    Raises:
        SyntaxError_: a string, name or comment is not closed.
    """
    found: list[Token] = []
    for piece in lexis.token.finditer(text):
        if piece.lastgroup == "open":
            lexis.require_closed(text)
        if piece.lastgroup is not None and piece.lastgroup != "blank":
            kind = Kind(piece.lastgroup)
            found.append(Token(kind, piece[0].upper() if kind in NAMED else "", piece.start(), piece.end()))
    last = found[-1].end if found else len(text)
    return [*found, Token(Kind.END, "", last, last)]
