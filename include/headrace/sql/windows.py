"""Parsing of window clauses and FILL."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from headrace.model.expressions import ColumnRef, Expression
from headrace.model.queries import (
    CountClause,
    EventClause,
    FillClause,
    FillMode,
    IntervalClause,
    SessionClause,
    StateClause,
    WindowClause,
)
from headrace.model.time import Duration
from headrace.sql.tokens import TokenType
from headrace.sql.types import FormParser

MODES_WITH_VALUES = (FillMode.VALUE, FillMode.VALUE_F)
NAME_TYPES: Final = (TokenType.WORD, TokenType.QUOTED)


class WindowParser(FormParser):
    """Parses window clauses, by a table of the words that begin them, and `FILL`."""

    WINDOWS: ClassVar[Mapping[str, Callable[[Any, int], WindowClause]]] = {}
    """Parsers of the rest of a window clause, from the index of its first token."""

    UNSUPPORTED_WINDOWS: ClassVar[tuple[str, ...]] = ()
    """Windows of the language that Headrace lacks."""

    @abstractmethod
    def _parse_duration(self) -> Duration:
        """Parse a duration of the dialect."""

    def _parse_window(self) -> WindowClause | None:
        start = self._index
        if self._token.word in self.UNSUPPORTED_WINDOWS:
            self._fail_unsupported(self._token.word, f"use one of {', '.join(self.WINDOWS)}")
        word = self._accept_one(*self.WINDOWS)
        return self.WINDOWS[word](self, start) if word else None

    def _parse_interval(self, start: int) -> WindowClause:
        self._expect("(")
        length = self._parse_duration()
        has_offset = self._accept(",")
        is_auto = has_offset and self._accept("AUTO")
        offset = self._parse_duration() if has_offset and not is_auto else None
        self._expect(")")
        sliding = self._parse_parenthesized(self._parse_duration) if self._accept("SLIDING") else None
        return IntervalClause(length, offset, sliding, self._span(start), is_auto)

    def _parse_session(self, start: int) -> WindowClause:
        self._expect("(")
        timestamp = self._parse_column()
        assert isinstance(timestamp, ColumnRef)
        self._expect(",")
        gap = self._parse_duration()
        self._expect(")")
        return SessionClause(timestamp, gap, self._span(start))

    def _parse_state(self, start: int) -> WindowClause:
        expression = self._parse_parenthesized(self._parse_expression)
        return StateClause(expression, self._parse_true_for(), self._span(start))

    def _parse_event(self, start: int) -> WindowClause:
        self._expect("START", "WITH")
        opening = self._parse_expression()
        self._expect("END", "WITH")
        closing = self._parse_expression()
        return EventClause(opening, closing, self._parse_true_for(), self._span(start))

    def _parse_count(self, start: int) -> WindowClause:
        self._expect("(")
        at = self._index
        count, count_span = self._parse_integer(), self._span(at)
        at = self._index + 1
        sliding = self._parse_count_step() if self._accept(",") else None
        sliding_span = None if sliding is None else self._span(at)
        self._expect(")")
        return CountClause(count, sliding, self._span(start), count_span, sliding_span)

    def _parse_count_step(self) -> int:
        step = None if self._token.kind in NAME_TYPES else self._parse_integer()
        if step is None or self._accept(","):
            hint = "only rows that pass WHERE count: write WHERE a IS NOT NULL OR b IS NOT NULL"
            self._fail_unsupported("a column in COUNT_WINDOW", hint)
        return step

    def _parse_true_for(self) -> Duration | None:
        return self._parse_parenthesized(self._parse_duration) if self._accept("TRUE_FOR") else None

    def _parse_fill(self) -> FillClause | None:
        start = self._index
        if not self._accept("FILL"):
            return None
        self._expect("(")
        mode = FillMode(self._expect_one(*FillMode))
        values: tuple[Expression, ...] = ()
        if mode in MODES_WITH_VALUES:
            self._expect(",")
            values = self._parse_list(self._parse_expression)
        self._expect(")")
        return FillClause(mode, values, self._span(start))
