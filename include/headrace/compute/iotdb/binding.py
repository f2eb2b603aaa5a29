"""Binding of queries over trees: expand paths to series, then bind with the shared binder."""

from __future__ import annotations

from headrace.compute.iotdb.by_device import DeviceQuery
from headrace.compute.iotdb.by_time import TimeQuery
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.iotdb.select import TreePlan
from headrace.errors import LimitError, ProgrammingError
from headrace.model.tree_queries import TreeGrouping, TreeQuery


def bind_tree(query: TreeQuery, scope: TreeScope) -> TreePlan | None:
    """Bind a query. Return None if its paths match no series, so that the result has no rows.

    Raises:
        NotFoundError, TypeMismatchError, LimitError, NotSupportedError, ProgrammingError: The query is invalid.
    """
    check_clauses(query)
    if query.by_device:
        return DeviceQuery(query, scope).plan()
    return TimeQuery(query, scope).plan()


def check_clauses(query: TreeQuery) -> None:
    """Raise an error for clauses that cannot be combined."""
    grouping = query.grouping or TreeGrouping()
    if grouping.levels and query.by_device:
        raise ProgrammingError("GROUP BY LEVEL does not support align by device now.", hint="remove one of them", span=query.span)
    if grouping.rows is not None and grouping.time is not None:
        raise ProgrammingError("only one of GROUP BY TIME, VARIATION, CONDITION, SESSION and COUNT is possible", span=query.span)
    if query.limit == 0:
        raise LimitError("LIMIT <N>: N should be greater than 0.", hint="leave it out for all rows", span=query.span)
    if query.series_limit == 0:
        raise LimitError("SLIMIT <SN>: SN should be greater than 0.", hint="leave it out for all columns", span=query.span)
