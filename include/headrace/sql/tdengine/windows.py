"""Window clauses, FILL, and the clauses of INTERP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from headrace.model.expressions import ColumnRef, Expression
from headrace.model.queries import Count, Event, Fill, FillMode, Interpolation, Interval, Session, State, Window
from headrace.model.time import Duration
from headrace.sql.tdengine.expressions import TDengineExpressions

WITH_VALUES = (FillMode.VALUE, FillMode.VALUE_F)


class TDengineWindows(TDengineExpressions):
    """`INTERVAL`, `SESSION`, `STATE_WINDOW`, `EVENT_WINDOW`, `COUNT_WINDOW`; `FILL`; `RANGE … EVERY`."""

    WINDOWS: ClassVar[Mapping[str, Callable[[Any, int], Window]]] = {
        "INTERVAL": lambda self, start: self._parse_interval(start),
        "SESSION": lambda self, start: self._parse_session(start),
        "STATE_WINDOW": lambda self, start: self._parse_state(start),
        "EVENT_WINDOW": lambda self, start: self._parse_event(start),
        "COUNT_WINDOW": lambda self, start: self._parse_count(start),
    }

    def _parse_window(self) -> Window | None:
        start = self._index
        if self._token.word == "ANOMALY_WINDOW":
            self._unsupported("ANOMALY_WINDOW", f"use one of {', '.join(self.WINDOWS)}")
        word = self._accept_one(*self.WINDOWS)
        return self.WINDOWS[word](self, start) if word else None

    def _parse_interval(self, start: int) -> Window:
        self._expect("(")
        length = self._parse_duration()
        offset = self._parse_interval_offset() if self._accept(",") else None
        self._expect(")")
        sliding = self._wrapped(self._parse_duration) if self._accept("SLIDING") else None
        return Interval(length, offset, sliding, self._span(start))

    def _parse_interval_offset(self) -> Duration:
        if self._token.word == "AUTO":
            self._unsupported("INTERVAL(…, AUTO)", "write the offset as a duration")
        return self._parse_duration()

    def _parse_session(self, start: int) -> Window:
        self._expect("(")
        timestamp = self._parse_column()
        assert isinstance(timestamp, ColumnRef)
        self._expect(",")
        gap = self._parse_duration()
        self._expect(")")
        return Session(timestamp, gap, self._span(start))

    def _parse_state(self, start: int) -> Window:
        expression = self._wrapped(self._parse_expression)
        return State(expression, self._parse_true_for(), self._span(start))

    def _parse_event(self, start: int) -> Window:
        self._expect("START", "WITH")
        opening = self._parse_expression()
        self._expect("END", "WITH")
        closing = self._parse_expression()
        return Event(opening, closing, self._parse_true_for(), self._span(start))

    def _parse_count(self, start: int) -> Window:
        self._expect("(")
        count = self._parse_integer()
        sliding = self._parse_integer() if self._accept(",") else None
        self._expect(")")
        return Count(count, sliding, self._span(start))

    def _parse_true_for(self) -> Duration | None:
        return self._wrapped(self._parse_duration) if self._accept("TRUE_FOR") else None

    def _parse_fill(self) -> Fill | None:
        start = self._index
        if not self._accept("FILL"):
            return None
        self._expect("(")
        mode = FillMode(self._expect_one(*FillMode))
        values: tuple[Expression, ...] = ()
        if mode in WITH_VALUES:
            self._expect(",")
            values = self._list(self._parse_expression)
        self._expect(")")
        return Fill(mode, values, self._span(start))

    def _parse_interpolation(self) -> Interpolation | None:
        """`[RANGE(start[, end])] [EVERY(step)]`."""
        start = self._index
        ends = self._wrapped(lambda: self._list(self._parse_expression)) if self._accept("RANGE") else ()
        if len(ends) > 2:
            self._unsupported("RANGE of more than a start and an end", "write RANGE(start, end)", self._span(start))
        every = self._wrapped(self._parse_duration) if self._accept("EVERY") else None
        if not ends and every is None:
            return None
        return Interpolation(ends[0] if ends else None, ends[1] if len(ends) > 1 else None, every)
