"""Binding of queries over trees: expand paths to series, then bind with the shared binder."""

from __future__ import annotations

from headrace.compute.iotdb.by_device import DeviceQuery
from headrace.compute.iotdb.by_time import TimeQuery
from headrace.compute.iotdb.checks import check_clauses, check_columns, check_having, check_sliding
from headrace.compute.iotdb.scope import TreeScope
from headrace.compute.iotdb.select import TreePlan, as_tuple
from headrace.model.tree_queries import TreeQuery


def bind_tree(query: TreeQuery, scope: TreeScope) -> TreePlan | None:
    """Bind a query, with the errors of `bind`. Return None if its paths match no series, so that the result has no rows."""
    check_clauses(query)
    check_columns(query, scope.language)
    check_having(query, scope.language)
    plan = DeviceQuery(query, scope).plan() if query.by_device else TimeQuery(query, scope).plan()
    if plan is not None:
        keys = (order.key for order in query.order_by)
        check_sliding(query, [*(column.expression for column in plan.columns), *as_tuple(query.having), *keys])
    return plan
