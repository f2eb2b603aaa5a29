"""Queries of the TDengine language: its clauses and their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from headrace.model.queries import InterpolationClause, WindowClause
from headrace.sql.queries import ASOF, Clause, Fields, QueryParser, misplaced_hints
from headrace.sql.tdengine.expressions import TDengineExpressions

WINDOWS: Final[Mapping[str, Callable[[Any, int], WindowClause]]] = {
    "INTERVAL": lambda self, start: self._parse_interval(start),
    "SESSION": lambda self, start: self._parse_session(start),
    "STATE_WINDOW": lambda self, start: self._parse_state(start),
    "EVENT_WINDOW": lambda self, start: self._parse_event(start),
    "COUNT_WINDOW": lambda self, start: self._parse_count(start),
}
SOURCE, WHERE, GROUP, HAVING = QueryParser.CLAUSES
ORDER, LIMIT = QueryParser.TAIL
CLAUSES: Final = (
    SOURCE,
    WHERE,
    Clause("PARTITION BY", lambda self: self._parse_partitions()),
    Clause("RANGE … EVERY", lambda self: self._parse_interpolation()),
    Clause(f"{', '.join([*WINDOWS][:-1])} or {[*WINDOWS][-1]}", lambda self: self._parse_window_clause()),
    Clause("FILL", lambda self: self._parse_fill_clause()),
    GROUP,
    HAVING,
)
TAIL: Final = (ORDER, Clause("SLIMIT", lambda self: self._parse_limit("SLIMIT", "SOFFSET", "series_")), LIMIT)
JOIN_HINT: Final = "use ASOF JOIN, or join on equal timestamps"


class TDengineQueries(TDengineExpressions):
    """Parses `PARTITION BY`, `RANGE … EVERY`, a window and `FILL`. Names of columns are in lower case."""

    CLAUSES = CLAUSES
    TAIL = TAIL
    WINDOWS = WINDOWS
    MISPLACED: ClassVar[Mapping[str, str]] = misplaced_hints(CLAUSES, TAIL)
    UNSUPPORTED_WINDOWS = ("ANOMALY_WINDOW",)
    MATCHES = ("SEMI", "ANTI", ASOF)
    UNSUPPORTED_JOINS: ClassVar[Mapping[str, str]] = {"WINDOW": JOIN_HINT}

    def _parse_quantifier(self) -> Fields:
        return {"tags_only": True} if self._accept("TAGS") else super()._parse_quantifier()

    def _column_name(self, start: int) -> str:
        """Return the text, in lower case outside quotes."""
        return self.LEXICAL_RULES.lower(self._text_since(start))

    def _parse_partitions(self) -> Fields:
        return {"partition_by": self._parse_list(self._parse_partition_key)} if self._accept("PARTITION", "BY") else {}

    def _parse_window_clause(self) -> Fields:
        window = self._parse_window()
        return {} if window is None else {"window": window}

    def _parse_fill_clause(self) -> Fields:
        fill = self._parse_fill()
        return {} if fill is None else {"fill": fill}

    def _parse_interpolation(self) -> Fields:
        """Parse `[RANGE(start[, end])] [EVERY(step)]`."""
        start = self._index
        ends = self._parse_parenthesized(lambda: self._parse_list(self._parse_expression)) if self._accept("RANGE") else ()
        if len(ends) > 2:
            self._fail_unsupported("RANGE of more than a start and an end", "write RANGE(start, end)", self._span(start))
        every = self._parse_parenthesized(self._parse_duration) if self._accept("EVERY") else None
        if not ends and every is None:
            return {}
        return {"interpolation": InterpolationClause(ends[0] if ends else None, ends[1] if len(ends) > 1 else None, every)}
