"""A cursor over the tokens of one statement that collects what it expected, for error messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from headrace.errors import LimitError, NotSupportedError, SqlSyntaxError
from headrace.model.spans import Span
from headrace.model.statements import Statement
from headrace.model.tables import Name
from headrace.model.time import Duration, Precision
from headrace.sql.lexical_rules import MAX_DIGITS, LexicalRules
from headrace.sql.syntax_errors import likely_intended, name_hint, spelling_hint, unexpected_token
from headrace.sql.tokens import Token, TokenType, tokenize

T = TypeVar("T")

MAX_INT64 = 2**63 - 1
MAX_MONTHS = 2**31 - 1
MAX_NESTING = 48
"""Maximum depth of parentheses. Functions that walk the tree recursively would exceed Python's stack beyond it."""


class Cursor:
    """A position among tokens. Words that were tried and did not match are collected, so that an error can list them."""

    LEXICAL_RULES: ClassVar[LexicalRules]

    STATEMENTS: ClassVar[Mapping[str, Callable[[Any], Statement]]] = {}
    """Parsers of statements after the keyword that begins them; that of SELECT is at it."""

    MISPLACED: ClassVar[Mapping[str, str]] = {}
    """Hints for words in the wrong place."""

    def __init__(self, text: str, end: int | None = None) -> None:
        """Begin at the first token; `end` is where a part of the text ends that is to be read alone."""
        self.text = text
        self._tokens = tokenize(text[:end], self.LEXICAL_RULES)
        self._index = 0
        self._token = self._tokens[0]
        self._expected: list[str] = []
        self._implicit_alias = -1
        self._depth = 0

    def statement(self) -> Statement:
        """Parse the text as one statement."""
        statement = self._parse_statement()
        self._expect_end()
        return statement

    def _parse_statement(self) -> Statement:
        word = self._token.word
        if word not in self.STATEMENTS:
            self._fail(*self.STATEMENTS, "INSERT")
        if word != "SELECT":
            self._advance()
        return self.STATEMENTS[word](self)

    def _parse_explained(self) -> Statement:
        """Parse the statement after EXPLAIN."""
        if self._token.word == "EXPLAIN":
            self._fail(*(word for word in self.STATEMENTS if word != "EXPLAIN"))
        return self._parse_statement()

    # Movement

    def _advance(self) -> Token:
        """Move past the current token and return it."""
        token = self._token
        if token.kind is not TokenType.END:
            self._index += 1
            self._token = self._tokens[self._index]
            self._expected = []
        return token

    def _peek(self, ahead: int = 1) -> Token:
        return self._tokens[min(self._index + ahead, len(self._tokens) - 1)]

    def _accept(self, word: str, *rest: str) -> bool:
        """Move past `word` if it is the current token. `rest` must then follow."""
        if self._token.word != word:
            self._expected.append(" ".join((word, *rest)))
            return False
        self._advance()
        for following in rest:
            self._expect(following)
        return True

    def _accept_one(self, *words: str) -> str | None:
        """Move past the current token if it is one of the words, and return it."""
        word = self._token.word
        if word in words:
            self._advance()
            return word
        self._expected.extend(words)
        return None

    def _expect(self, *words: str) -> None:
        for word in words:
            if self._token.word != word:
                self._fail(word)
            self._advance()

    def _past(self, *words: str) -> Self:
        """Expect words, and return the parser, for tables of statements."""
        self._expect(*words)
        return self

    def _expect_one(self, *words: str) -> str:
        return self._accept_one(*words) or self._fail()

    def _is_at(self, *words: str) -> bool:
        """Return whether the current token is one of the words, and otherwise record them as expected."""
        if self._token.word in words:
            return True
        self._expected.extend(words)
        return False

    def _expect_end(self) -> None:
        closed = False
        while self._accept(";"):
            closed = True
        if self._token.kind is not TokenType.END:
            self._fail(
                *(("the end of the statement",) if closed else ()), hint="run several statements as a script" if closed else ""
            )

    # Combinators

    def _parse_list(self, parse: Callable[[], T]) -> tuple[T, ...]:
        """Parse one or more items separated by commas."""
        items = [parse()]
        while self._accept(","):
            items.append(parse())
        return tuple(items)

    def _parse_parenthesized(self, parse: Callable[[], T]) -> T:
        """Parse the content of parentheses."""
        self._expect("(")
        content = self._parse_nested(parse)
        self._expect(")")
        return content

    def _parse_items(self, parse: Callable[[], T]) -> tuple[T, ...]:
        """Parse one or more items separated by commas, in parentheses."""
        return self._parse_parenthesized(lambda: self._parse_list(parse))

    def _parse_nested(self, parse: Callable[[], T]) -> T:
        self._depth += 1
        if self._depth > MAX_NESTING:
            message = f"parentheses are nested more than {MAX_NESTING} deep"
            raise LimitError(message, hint="split the statement", span=self._current_span(), sql=self.text)
        result = parse()
        self._depth -= 1
        return result

    # Leaves

    def _parse_identifier(self, what: str = "a name") -> str:
        """Parse a name: an unquoted word that is not reserved, in lower case, or a name in backquotes."""
        token = self._token
        if self._is_name(token):
            self._advance()
            name = self.LEXICAL_RULES.name(self.text[token.start : token.end])
            return name or self._fail_invalid("a name cannot be empty", token)
        return self._fail(what, hint=name_hint(self.LEXICAL_RULES, self.text[token.start : token.end], self._expected))

    def _is_name(self, token: Token) -> bool:
        if token.kind is TokenType.WORD:
            return token.word not in self.LEXICAL_RULES.reserved and token.word.isascii() and token.word.isidentifier()
        return token.kind is TokenType.QUOTED

    def _parse_name(self, what: str) -> Name:
        """Parse `[database.]name`."""
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
        return self.LEXICAL_RULES.unquote(self.text[token.start : token.end])

    def _parse_integer(self, what: str = "a whole number") -> int:
        token = self._token
        text = self.text[token.start : token.end]
        if token.kind is not TokenType.NUMBER or not text.isdigit() or len(text) > MAX_DIGITS:
            self._fail(what)
        self._advance()
        return int(text)

    def _parse_int64(self, what: str) -> int:
        """Parse a whole number that fits in 64 bits."""
        start = self._index
        number = self._parse_integer(what)
        if number > MAX_INT64:
            raise LimitError(f"{number} is greater than {MAX_INT64}", hint="use a smaller number", span=self._span(start))
        return number

    def _bounded(self, duration: Duration, span: Span) -> Duration:
        """Return a duration with its span, or raise `LimitError` if milliseconds of 64 bits, or months of 32, cannot count it."""
        if duration.months > MAX_MONTHS or duration.fixed_ticks(Precision.MILLISECOND) > MAX_INT64:
            raise LimitError(f"{duration} is longer than the range of timestamps", hint="use a shorter duration", span=span)
        return replace(duration, span=span)

    def _parse_exists(self) -> bool:
        """Parse `[IF EXISTS]`."""
        return self._accept("IF", "EXISTS")

    def _parse_not_exists(self) -> bool:
        """Parse `[IF NOT EXISTS]`."""
        return self._accept("IF", "NOT", "EXISTS")

    # Spans and errors

    def _span(self, start: int) -> Span:
        """Return the span from the token with an index to the last one consumed."""
        return Span(self._tokens[start].start, self._tokens[self._index - 1].end)

    def _current_span(self) -> Span:
        return Span(self._token.start, self._token.end)

    def _text_since(self, start: int) -> str:
        """Return the text from the token with an index to the last one consumed."""
        return self.text[self._tokens[start].start : self._tokens[self._index - 1].end]

    def _fail(self, *expected: str, hint: str = "") -> NoReturn:
        """Raise a syntax error at the current token, listing what was expected.

        If the token before it was taken as an alias but resembles an expected keyword, the error is there instead.
        """
        before = self._tokens[self._index - 1]
        if self._implicit_alias == self._index - 1 and likely_intended(before.word, self._expected):
            raise unexpected_token(self.text, Span(before.start, before.end), self._expected)
        text = self.text[self._token.start : self._token.end]
        if not hint and all(word.isupper() for word in expected):
            hint = self._misplaced(self._token.word)
        hint = hint or spelling_hint(text, [*self._expected_words(), *expected])
        raise unexpected_token(self.text, self._current_span(), [*self._expected, *expected], hint=hint)

    def _misplaced(self, word: str) -> str:
        """Return the hint for a keyword in the wrong place."""
        return self.MISPLACED.get(word, "")

    def _expected_words(self) -> list[str]:
        """Return the keywords that are possible here."""
        return self._expected

    def _fail_invalid(self, message: str, token: Token, hint: str = "") -> NoReturn:
        raise SqlSyntaxError(message, hint=hint, span=Span(token.start, token.end), sql=self.text)

    def _fail_unsupported(self, what: str, hint: str, span: Span | None = None) -> NoReturn:
        """Raise an error for a feature of the language that Headrace lacks, at `span` or the current token."""
        raise NotSupportedError(f"{what} is not supported", hint=hint, span=span or self._current_span(), sql=self.text)
