"""Queries over a tree of devices, before paths are resolved.

In expressions a path is a `ColumnRef` whose `name` is the dotted path as canonical nodes: a suffix of the FROM prefixes, or in full
if it begins with `root`. `time` is `ColumnRef("time")`, `*` and other wildcards are part of the name. Two words that are no paths
look like some: `__endTime` in the select list, and `KEEP` in the second argument of `count_if`.
An instant is `Cast(Literal(text), TIMESTAMP)`, with text that `parse_instant` reads; `now() - 1d12h` is a chain of calls with one
duration each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from headrace.model.expressions import Expression
from headrace.model.paths import PathPattern
from headrace.model.queries import SelectItem
from headrace.model.spans import Span
from headrace.model.time import Duration

CompoundDuration = tuple[Duration, ...]
"""A duration of several units, such as `1d12h`, longest unit first."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """`[start, end)` or, if `left_open`, `(start, end]`; both are constant instants (`2024-01-01`, `now() - 1h`, ticks)."""

    start: Expression
    end: Expression
    left_open: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class GroupByTime:
    """`GROUP BY ([range,] interval [, step])`."""

    interval: CompoundDuration
    step: CompoundDuration | None = None
    range: TimeRange | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class GroupByVariation:
    """`VARIATION(expr [, delta] [, ignoreNull=…])`."""

    expression: Expression
    delta: float = 0.0
    ignore_null: bool = True


@dataclass(frozen=True, slots=True)
class GroupByCondition:
    """`CONDITION(expr, [KEEP] operator n [, ignoreNull=…])`; `keep` is the operator (> >= = <= < or <>) and the number of rows."""

    expression: Expression
    keep: tuple[str, int] | None = None
    ignore_null: bool = True


@dataclass(frozen=True, slots=True)
class GroupBySession:
    """`SESSION(gap)`."""

    gap: CompoundDuration


@dataclass(frozen=True, slots=True)
class GroupByCount:
    """`COUNT(expr, n [, ignoreNull=…])`."""

    expression: Expression
    count: int
    ignore_null: bool = True
    count_span: Span | None = field(default=None, compare=False)


RowGrouping = GroupByVariation | GroupByCondition | GroupBySession | GroupByCount


@dataclass(frozen=True, slots=True)
class TreeGrouping:
    """All that GROUP BY says: at most one of `time` and `rows`, and levels or tags beside `time`."""

    time: GroupByTime | None = None
    rows: RowGrouping | None = None
    levels: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False)


class TreeFillMode(StrEnum):
    """How FILL makes values for empty cells."""

    PREVIOUS = "PREVIOUS"
    LINEAR = "LINEAR"
    CONSTANT = "CONSTANT"


@dataclass(frozen=True, slots=True)
class TreeFill:
    """`FILL(PREVIOUS [, max age] | LINEAR | constant)`."""

    mode: TreeFillMode
    value: Expression | None = None
    max_age: CompoundDuration | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TreeOrdering:
    """One ORDER BY item: `key` is `time`, `device`, `timeseries`, or an expression."""

    key: Expression
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class IntoTarget:
    """`[ALIGNED] device(name, …)` of INTO; nodes may be `::` or hold `${n}`."""

    device: tuple[str, ...]
    measurements: tuple[str, ...]
    aligned: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TreeQuery:
    """One SELECT."""

    items: tuple[SelectItem, ...]
    prefixes: tuple[PathPattern, ...]
    into: tuple[IntoTarget, ...] = ()
    where: Expression | None = None
    grouping: TreeGrouping | None = None
    having: Expression | None = None
    fill: TreeFill | None = None
    order_by: tuple[TreeOrdering, ...] = ()
    limit: int | None = None
    offset: int | None = None
    series_limit: int | None = None
    series_offset: int | None = None
    by_device: bool = False
    last: bool = False
    span: Span | None = field(default=None, compare=False)
