"""Checks of a query before its paths are resolved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.compute.iotdb.expansion import COUNT_TIME, END_TIME, counts_times
from headrace.compute.iotdb.types import EXECUTION_ERROR, type_error
from headrace.compute.language import Language
from headrace.errors import LimitError, ProgrammingError
from headrace.model.expressions import Call, ColumnRef, Expression, Literal, transform, walk
from headrace.model.paths import split_path
from headrace.model.tree_queries import CompoundDuration, GroupByTime, TreeGrouping, TreeQuery

NOT_SLIDING: Final = ("mode", "time_duration", "count_if")
MONTH: Final = 30 * 86_400_000_000_000


def check_clauses(query: TreeQuery) -> None:
    """Raise an error for clauses and functions that cannot be combined."""
    grouping = query.grouping or TreeGrouping()
    if grouping.levels and query.by_device:
        raise ProgrammingError(
            "GROUP BY LEVEL does not support align by device now.", hint="remove one of them", span=grouping.span
        )
    if grouping.rows is not None and grouping.time is not None:
        raise ProgrammingError("only one of GROUP BY TIME, VARIATION, CONDITION, SESSION and COUNT is possible", span=grouping.span)
    if grouping.levels and grouping.rows is not None:
        raise ProgrammingError(
            "GROUP BY CLAUSES doesn't support GROUP BY LEVEL now.", hint="remove one of them", span=grouping.span
        )
    if query.limit == 0:
        raise LimitError("LIMIT <N>: N should be greater than 0.", hint="leave it out for all rows", span=query.span)
    if query.series_limit == 0:
        raise LimitError("SLIMIT <SN>: SN should be greater than 0.", hint="leave it out for all columns", span=query.span)
    check_count_time(query)
    paths = (part for item in query.items for part in walk(item.expression) if isinstance(part, ColumnRef))
    if query.by_device and any(len(split_path(path.name)) > 1 or path.name == "**" for path in paths):
        message = "ALIGN BY DEVICE: the suffix paths can only be measurement or one-level wildcard"
        raise ProgrammingError(message, hint="move the other nodes to FROM", span=query.span)


def check_columns(query: TreeQuery, language: Language) -> None:
    """Raise `ProgrammingError` unless all columns are aggregated, or none is and no clause groups rows."""
    nodes = [item.expression for item in query.items if item.expression != ColumnRef(END_TIME)]
    raw = [node for node in nodes if not is_aggregated(node, language)]
    if raw and len(raw) < len(nodes):
        raise ProgrammingError(
            "Raw data and aggregation hybrid query is not supported.", hint="aggregate every column, or none", span=raw[0].span
        )
    if len(raw) == len(nodes) and query.grouping is not None:
        message = "Common queries and aggregated queries are not allowed to appear at the same time"
        raise ProgrammingError(message, hint="aggregate every column, as in count(s1)", span=query.grouping.span)


def is_aggregated(node: Expression, language: Language) -> bool:
    return any(is_aggregate(part, language) for part in walk(node))


def check_having(query: TreeQuery, language: Language) -> None:
    """Raise `ProgrammingError` unless HAVING consists of aggregates, in a query that aggregates."""
    if query.having is None:
        return
    if not any(is_aggregated(item.expression, language) for item in query.items):
        raise ProgrammingError(
            "Expression of HAVING clause can not be used in NonAggregationQuery", hint="use WHERE", span=query.having.span
        )
    plain = transform(query.having, lambda part: Literal(None) if is_aggregate(part, language) else None)
    if any(isinstance(part, ColumnRef) for part in walk(plain)):
        raise ProgrammingError(
            "Expression of HAVING clause must to be an Aggregation", hint="aggregate it, or use WHERE", span=query.having.span
        )


def is_aggregate(node: Expression, language: Language) -> bool:
    return isinstance(node, Call) and language.aggregate(node.function) is not None


def check_count_time(query: TreeQuery) -> None:
    """Raise an error unless `count_time(*)` is the only column, and without the clauses that it does not support."""
    selected = [item.expression for item in query.items if item.expression != ColumnRef(END_TIME)]
    if not any(counts_times(node) for node in (*selected, *(() if query.having is None else (query.having,)))):
        return
    if query.having is not None:
        raise type_error("Count_time aggregation function can not be used with having clause.", hint="leave HAVING out")
    if len(selected) > 1 or not is_count_time(selected[0]):
        message = "Count_time aggregation can only exist alone, and cannot used with other queries or aggregations."
        raise type_error(message, hint="select it in a query of its own")
    if query.grouping is not None and query.grouping.levels:
        raise type_error("Count_time aggregation function using with group by level is not supported.", hint="name the paths")


def is_count_time(node: Expression) -> bool:
    """Return whether an expression is a call of `count_time`. Raise an error unless it counts `*`."""
    if not isinstance(node, Call) or node.function != COUNT_TIME:
        return False
    if node.arguments != (ColumnRef("*"),):
        raise type_error("The parameter of count_time aggregation can only be '*'.", hint="write count_time(*)")
    return True


def slides(clause: GroupByTime) -> bool:
    """Return whether windows overlap."""
    return clause.step is not None and approximate_length(clause.step) < approximate_length(clause.interval)


def approximate_length(duration: CompoundDuration) -> int:
    """Return a duration in nanoseconds, with months of 30 days."""
    return sum(part.months * MONTH if part.is_calendar else part.nanoseconds for part in duration)


def check_sliding(query: TreeQuery, nodes: Iterable[Expression]) -> None:
    """Raise an error if a column, HAVING or ORDER BY calls an aggregate that IoTDB does not compute over windows that overlap."""
    clause = (query.grouping or TreeGrouping()).time
    if clause is None or not slides(clause):
        return
    calls = (part for node in nodes for part in walk(node) if isinstance(part, Call))
    for call in calls:
        if call.function in NOT_SLIDING:
            message = f"{call.function.upper()} with slidingWindow is not supported now"
            raise type_error(message, hint="make the step as long as the interval", status=EXECUTION_ERROR)
        if call.function == COUNT_TIME:
            message = "This type of accumulator does not support remove input!"
            raise type_error(message, hint="make the step as long as the interval", status=EXECUTION_ERROR)
