"""A scanner that reads text with compiled patterns instead of tokens, for statements that are mostly data."""

from __future__ import annotations

import re
from typing import NoReturn

from headrace.errors import NotSupportedError
from headrace.model.spans import Span
from headrace.model.tables import Name
from headrace.sql.lexical_rules import QUOTED_NAME, WORD, LexicalRules
from headrace.sql.syntax_errors import name_hint, unexpected_token

NAME = re.compile(rf"{QUOTED_NAME}|{WORD}")
KEYWORD = re.compile(WORD)


class Scanner:
    """A position in a text, always at the beginning of a word or symbol. What did not match is collected for error messages.

    `_end` is where the last part of a name ended.
    """

    def __init__(self, text: str, lexical_rules: LexicalRules) -> None:
        self.text = text
        self.lexical_rules = lexical_rules
        self._offset = 0
        self._end = 0
        self._expected: list[str] = []
        self._move_to(0)

    def _move_to(self, offset: int) -> None:
        """Move to the first word or symbol at or after an offset."""
        match = self.lexical_rules.blanks.match(self.text, offset)
        self._offset = match.end() if match else offset
        self._expected = []

    def _current_word(self) -> str:
        """Return the word here in upper case, or the symbol, or an empty string at the end."""
        match = KEYWORD.match(self.text, self._offset)
        return match[0].upper() if match else self.text[self._offset : self._offset + 1]

    def _accept(self, word: str) -> bool:
        if self._current_word() != word:
            self._expected.append(word)
            return False
        self._move_to(self._offset + len(word))
        return True

    def _expect(self, *words: str) -> None:
        for word in words:
            if not self._accept(word):
                self._fail()

    def _at_end(self) -> bool:
        return self._offset >= len(self.text)

    def _parse_identifier(self, what: str) -> str:
        match = NAME.match(self.text, self._offset)
        if match is None or match[0].upper() in self.lexical_rules.reserved or match[0] == "``":
            span = self._span_at(self._offset)
            return self._fail(what, hint=name_hint(self.lexical_rules, self.text[span.start : span.end], self._expected))
        self._end = match.end()
        self._move_to(self._end)
        return self.lexical_rules.name(match[0])

    def _parse_name(self, what: str) -> Name:
        start = self._offset
        first = self._parse_identifier(what)
        if not self._accept("."):
            return Name(None, first, Span(start, self._end))
        second = self._parse_identifier(what)
        return Name(first, second, Span(start, self._end))

    def _parse_names(self, what: str) -> tuple[str, ...]:
        self._expect("(")
        names = [self._parse_identifier(what)]
        while self._accept(","):
            names.append(self._parse_identifier(what))
        self._expect(")")
        return tuple(names)

    def _span_at(self, offset: int) -> Span:
        match = self.lexical_rules.sign.match(self.text, offset)
        return Span(offset, match.end() if match else offset)

    def _fail(self, *expected: str, hint: str = "") -> NoReturn:
        raise unexpected_token(self.text, self._span_at(self._offset), [*self._expected, *expected], hint=hint)

    def _fail_unsupported(self, what: str, hint: str) -> NoReturn:
        raise NotSupportedError(f"{what} is not supported", hint=hint, span=self._span_at(self._offset), sql=self.text)
