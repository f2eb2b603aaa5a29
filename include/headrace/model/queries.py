"""Queries: `SELECT` as data, before names are resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.model.expressions import ColumnRef, Expression
from headrace.model.spans import Span
from headrace.model.tables import Name
from headrace.model.time import Duration


@dataclass(frozen=True, slots=True)
class IntervalClause:
    """`INTERVAL(length[, offset | AUTO]) [SLIDING(sliding)]`."""

    length: Duration
    offset: Duration | None = None
    sliding: Duration | None = None
    span: Span | None = field(default=None, compare=False)
    auto_offset: bool = False


@dataclass(frozen=True, slots=True)
class SessionClause:
    """`SESSION(ts, gap)`: rows at most `gap` apart."""

    timestamp: ColumnRef
    gap: Duration
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class StateClause:
    """`STATE_WINDOW(expr) [TRUE_FOR(d)]`: runs of rows of equal state."""

    expression: Expression
    true_for: Duration | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class EventClause:
    """`EVENT_WINDOW START WITH … END WITH … [TRUE_FOR(d)]`."""

    start: Expression
    end: Expression
    true_for: Duration | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CountClause:
    """`COUNT_WINDOW(count[, sliding])`: a fixed number of rows each."""

    count: int
    sliding: int | None = None
    span: Span | None = field(default=None, compare=False)
    count_span: Span | None = field(default=None, compare=False)
    sliding_span: Span | None = field(default=None, compare=False)


WindowClause = IntervalClause | SessionClause | StateClause | EventClause | CountClause


class FillMode(StrEnum):
    """How FILL gives values to windows without rows; `…_F` also fills groups without rows."""

    NONE = "NONE"
    NULL = "NULL"
    NULL_F = "NULL_F"
    VALUE = "VALUE"
    VALUE_F = "VALUE_F"
    PREV = "PREV"
    NEXT = "NEXT"
    LINEAR = "LINEAR"
    NEAR = "NEAR"


@dataclass(frozen=True, slots=True)
class FillClause:
    """`FILL(mode[, values])`."""

    mode: FillMode
    values: tuple[Expression, ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One item of a select list or PARTITION BY; `text` is what the user wrote, the name if there is no alias."""

    expression: Expression
    alias: str | None = None
    text: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """The column's name in the result: the alias, the column referred to, or the expression's text."""
        if self.alias is not None:
            return self.alias
        return self.expression.name if isinstance(self.expression, ColumnRef) else self.text


@dataclass(frozen=True, slots=True)
class Ordering:
    """A term of ORDER BY. `nulls_first` None means first if ascending, last if descending."""

    expression: Expression
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table in FROM."""

    name: Name
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A sub-query in FROM."""

    query: Query | Union
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """A join in FROM. `kind` is the join type in lower case, such as `left semi`, and `limit` the `JLIMIT` of an ASOF join."""

    left: Source
    right: Source
    condition: Expression | None
    kind: str = "inner"
    limit: int | None = None


Source = TableSource | QuerySource | Join


@dataclass(frozen=True, slots=True)
class InterpolationClause:
    """`RANGE(start, end) EVERY(step)` of an INTERP query; ends as written, None if not written."""

    start: Expression | None = None
    end: Expression | None = None
    every: Duration | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT. With `tags_only` (`SELECT TAGS`) it has a row for each subtable."""

    items: tuple[SelectItem, ...]
    source: Source | None
    where: Expression | None = None
    partition_by: tuple[SelectItem, ...] = ()
    window: WindowClause | None = None
    fill: FillClause | None = None
    interpolation: InterpolationClause | None = None
    group_by: tuple[SelectItem, ...] = ()
    having: Expression | None = None
    order_by: tuple[Ordering, ...] = ()
    limit: int | None = None
    offset: int | None = None
    series_limit: int | None = None
    series_offset: int | None = None
    distinct: bool = False
    span: Span | None = field(default=None, compare=False)
    tags_only: bool = False
    clause_spans: Mapping[str, Span] = field(default_factory=dict, compare=False)
    """Where the clauses that have no span of their own are, by the words that begin them."""

    def span_of(self, clause: str) -> Span | None:
        """Return where a clause is, or the whole query if it is not known."""
        return self.clause_spans.get(clause, self.span)


@dataclass(frozen=True, slots=True)
class Union:
    """`left UNION [ALL] right`, with the ORDER BY and LIMIT of the whole."""

    left: Query | Union
    right: Query | Union
    all: bool = False
    order_by: tuple[Ordering, ...] = ()
    limit: int | None = None
    offset: int | None = None
