"""Walking over the tokens of one statement, remembering what would have fitted where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, NoReturn, TypeVar

from headrace.errors import LimitError, NotSupportedError, SyntaxError_
from headrace.model.spans import Span
from headrace.model.tables import Name
from headrace.sql.lexis import DIGITS, Lexis
from headrace.sql.syntax_errors import likely_intended, name_hint, rewrite, unexpected_token
from headrace.sql.tokens import Token, TokenType, tokenize

T = TypeVar("T")

DEPTH = 48
"""How deep brackets may nest: deeper, Python's own stack would run out in the rooms that walk the tree."""


class Cursor:
    """A place among tokens. Every word asked for in vain is kept, so that an error can say what was expected."""

    LEXIS: ClassVar[Lexis]

    MISPLACED: ClassVar[Mapping[str, str]] = {}
    """Hints for words that stand in the wrong place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = tokenize(text, self.LEXIS)
        self._index = 0
        self._token = self._tokens[0]
        self._tried: list[str] = []
        self._doubtful = -1
        self._depth = 0

    # Moving

    def _advance(self) -> Token:
        """Step over the current token and return it."""
        token = self._token
        if token.kind is not TokenType.END:
            self._index += 1
            self._token = self._tokens[self._index]
            self._tried = []
        return token

    def _next(self, ahead: int = 1) -> Token:
        return self._tokens[min(self._index + ahead, len(self._tokens) - 1)]

    def _accept(self, word: str, *rest: str) -> bool:
        """Step over `word` if it stands here; `rest` must then follow."""
        if self._token.word != word:
            self._tried.append(" ".join((word, *rest)))
            return False
        self._advance()
        for following in rest:
            self._expect(following)
        return True

    def _accept_one(self, *words: str) -> str | None:
        """Step over whichever of the words stands here, and say which."""
        word = self._token.word
        if word in words:
            self._advance()
            return word
        self._tried.extend(words)
        return None

    def _expect(self, *words: str) -> None:
        for word in words:
            if self._token.word != word:
                self._fail(word)
            self._advance()

    def _expect_one(self, *words: str) -> str:
        return self._accept_one(*words) or self._fail()

    def _at(self, *words: str) -> bool:
        """Whether one of the words stands here; remembered as possible if not."""
        if self._token.word in words:
            return True
        self._tried.extend(words)
        return False

    def _expect_end(self) -> None:
        closed = False
        while self._accept(";"):
            closed = True
        if self._token.kind is not TokenType.END:
            self._fail(
                *(("the end of the statement",) if closed else ()), hint="run several statements as a script" if closed else ""
            )

    # Combining

    def _list(self, parse: Callable[[], T]) -> tuple[T, ...]:
        """One or more, with commas between."""
        found = [parse()]
        while self._accept(","):
            found.append(parse())
        return tuple(found)

    def _wrapped(self, parse: Callable[[], T]) -> T:
        """What stands in round brackets."""
        self._expect("(")
        found = self._nested(parse)
        self._expect(")")
        return found

    def _nested(self, parse: Callable[[], T]) -> T:
        self._depth += 1
        if self._depth > DEPTH:
            raise LimitError(f"brackets may nest {DEPTH} deep", hint="split the statement", span=self._here(), sql=self.text)
        found = parse()
        self._depth -= 1
        return found

    # Leaves

    def _parse_identifier(self, what: str = "a name") -> str:
        """A name: an unquoted word that is not reserved, in lower case, or what stands in back quotes."""
        token = self._token
        if self._is_name(token):
            self._advance()
            name = self.LEXIS.name(self.text[token.start : token.end])
            return name or self._refuse("a name cannot be empty", token)
        return self._fail(what, hint=name_hint(self.LEXIS, self.text[token.start : token.end], self._tried))

    def _is_name(self, token: Token) -> bool:
        if token.kind is TokenType.WORD:
            return token.word not in self.LEXIS.reserved and token.word.isascii() and token.word.isidentifier()
        return token.kind is TokenType.QUOTED

    def _parse_name(self, what: str) -> Name:
        """`[database.]name`."""
        start = self._index
        first = self._parse_identifier(what)
        if not self._accept("."):
            return Name(None, first, self._span(start))
        return Name(first, self._parse_identifier(what), self._span(start))

    def _parse_string(self, what: str = "a string") -> str:
        token = self._token
        if token.kind is not TokenType.STRING:
            self._fail(what)
        self._advance()
        return self.LEXIS.unquote(self.text[token.start : token.end])

    def _parse_integer(self, what: str = "a whole number") -> int:
        token = self._token
        written = self.text[token.start : token.end]
        if token.kind is not TokenType.NUMBER or not written.isdigit() or len(written) > DIGITS:
            self._fail(what)
        self._advance()
        return int(written)

    def _parse_exists(self) -> bool:
        """`[IF EXISTS]`."""
        return self._accept("IF", "EXISTS")

    def _parse_not_exists(self) -> bool:
        """`[IF NOT EXISTS]`."""
        return self._accept("IF", "NOT", "EXISTS")

    # Places and errors

    def _span(self, start: int) -> Span:
        """From the token of that index to the last one stepped over."""
        return Span(self._tokens[start].start, self._tokens[self._index - 1].end)

    def _here(self) -> Span:
        return Span(self._token.start, self._token.end)

    def _written(self, start: int) -> str:
        """The text from the token of that index to the last one stepped over."""
        return self.text[self._tokens[start].start : self._tokens[self._index - 1].end]

    def _fail(self, *wanted: str, hint: str = "") -> NoReturn:
        """Refuse the current token; name what was tried here. A doubtful name before it may be a misspelt keyword instead."""
        before = self._tokens[self._index - 1]
        if self._doubtful == self._index - 1 and likely_intended(before.word, self._tried):
            raise unexpected_token(self.text, Span(before.start, before.end), self._tried)
        written = self.text[self._token.start : self._token.end]
        if not hint and all(word.isupper() for word in wanted):
            hint = self.MISPLACED.get(self._token.word, "")
        hint = hint or rewrite(written, [*self._possible(), *wanted])
        raise unexpected_token(self.text, self._here(), [*self._tried, *wanted], hint=hint)

    def _possible(self) -> list[str]:
        """The keywords that could stand here."""
        return self._tried

    def _refuse(self, message: str, token: Token, hint: str = "") -> NoReturn:
        raise SyntaxError_(message, hint=hint, span=Span(token.start, token.end), sql=self.text)

    def _unsupported(self, what: str, hint: str, span: Span | None = None) -> NoReturn:
        """Refuse something that the language has and this system does not; the current token shows where, if not `span`."""
        raise NotSupportedError(f"{what} is not supported", hint=hint, span=span or self._here(), sql=self.text)
