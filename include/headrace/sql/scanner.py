"""Reading text with compiled patterns instead of tokens: for statements that are mostly data."""

from __future__ import annotations

import re
from typing import NoReturn

from headrace.errors import NotSupportedError
from headrace.model.spans import Span
from headrace.model.tables import Name
from headrace.sql.lexis import BLANKS, QUOTED_NAME, WORD, Lexis
from headrace.sql.syntax_errors import name_hint, unexpected_token

SPACE = re.compile(BLANKS, re.DOTALL)
NAME = re.compile(rf"{QUOTED_NAME}|{WORD}")
KEYWORD = re.compile(WORD)


class Scanner:
    """A place in a text, always at the beginning of a word or sign. What is asked for in vain is kept for messages.

    `_end` is where the last part of a name ended.
    """

    def __init__(self, text: str, lexis: Lexis) -> None:
        self.text = text
        self.lexis = lexis
        self._place = 0
        self._end = 0
        self._tried: list[str] = []
        self._move(0)

    def _move(self, place: int) -> None:
        """Go to the first word or sign at or after a place."""
        found = SPACE.match(self.text, place)
        self._place = found.end() if found else place
        self._tried = []

    def _word(self) -> str:
        """The word here in upper case, or the sign; empty at the end."""
        found = KEYWORD.match(self.text, self._place)
        return found[0].upper() if found else self.text[self._place : self._place + 1]

    def _accept(self, word: str) -> bool:
        if self._word() != word:
            self._tried.append(word)
            return False
        self._move(self._place + len(word))
        return True

    def _expect(self, *words: str) -> None:
        for word in words:
            if not self._accept(word):
                self._fail()

    def _at_end(self) -> bool:
        return self._place >= len(self.text)

    def _name_part(self, what: str) -> str:
        found = NAME.match(self.text, self._place)
        if found is None or found[0].upper() in self.lexis.reserved or found[0] == "``":
            here = self._here(self._place)
            return self._fail(what, hint=name_hint(self.lexis, self.text[here.start : here.end], self._tried))
        self._end = found.end()
        self._move(self._end)
        return self.lexis.name(found[0])

    def _name(self, what: str) -> Name:
        """`[database.]name`."""
        start = self._place
        first = self._name_part(what)
        if not self._accept("."):
            return Name(None, first, Span(start, self._end))
        second = self._name_part(what)
        return Name(first, second, Span(start, self._end))

    def _names(self, what: str) -> tuple[str, ...]:
        """`(name, …)`."""
        self._expect("(")
        names = [self._name_part(what)]
        while self._accept(","):
            names.append(self._name_part(what))
        self._expect(")")
        return tuple(names)

    def _here(self, place: int) -> Span:
        """The whole word or sign at a place."""
        found = self.lexis.sign.match(self.text, place)
        return Span(place, found.end() if found else place)

    def _fail(self, *wanted: str, hint: str = "") -> NoReturn:
        raise unexpected_token(self.text, self._here(self._place), [*self._tried, *wanted], hint=hint)

    def _unsupported(self, what: str, hint: str) -> NoReturn:
        raise NotSupportedError(f"{what} is not supported", hint=hint, span=self._here(self._place), sql=self.text)
