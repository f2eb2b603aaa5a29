"""The tokens of a statement, by the patterns of `LexicalRules`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from headrace.sql.lexical_rules import LexicalRules


class TokenType(Enum):
    """The kinds of tokens. END follows the last token of a statement."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    INSTANT = "instant"
    BINARY = "binary"
    SYMBOL = "symbol"
    END = "end"


TOKEN_TYPES: Final = {kind.value: kind for kind in TokenType}
"""Token types by the names of the groups in `LexicalRules.token`."""
TYPES_WITH_WORD: Final = (TokenType.WORD, TokenType.SYMBOL)


@dataclass(slots=True)
class Token:
    """A token. `word` is in upper case for words, the symbol itself for symbols, and empty otherwise."""

    kind: TokenType
    word: str
    start: int
    end: int


def tokenize(text: str, lexical_rules: LexicalRules) -> list[Token]:
    """Split a text into tokens, followed by END. Raise `SyntaxError_` if a string, name or comment is not closed."""
    tokens: list[Token] = []
    for piece in lexical_rules.token.finditer(text):
        if piece.lastgroup == "open":
            lexical_rules.check_closed(text)
        if piece.lastgroup in TOKEN_TYPES:
            kind = TOKEN_TYPES[piece.lastgroup]
            tokens.append(Token(kind, piece[0].upper() if kind in TYPES_WITH_WORD else "", piece.start(), piece.end()))
    last = tokens[-1].end if tokens else len(text)
    return [*tokens, Token(TokenType.END, "", last, last)]
