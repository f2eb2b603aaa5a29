"""SELECT over trees: its paths are looked up in the catalog, then it is bound; INTO adds the writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import NotSupportedError
from headrace.model.tree_queries import TreeQuery
from headrace.model.tree_statements import TreeSelect
from headrace.service.planning.dispatch import PlanningContext
from headrace.service.planning.queries import DESCRIBE_CATALOG
from headrace.service.results import BIGINT, STRING, CatalogRows, Result
from headrace.service.stages import ReadCatalog, RunQuery, Stage
from headrace.service.tree_stages import FindLast, WriteInto

if TYPE_CHECKING:
    from headrace.compute.iotdb.select import TreePlan


def select(statement: TreeSelect, session: PlanningContext) -> list[Stage]:
    """Plan a query, and with INTO the writing of its result."""
    query = statement.query
    if query.grouping is not None and query.grouping.tags:
        raise NotSupportedError(
            "GROUP BY TAGS is not supported", hint="group by LEVEL, or name the paths", span=query.grouping.span
        )
    if query.last:
        return [last(query, session)]
    bound = bind(query, session)
    if query.into:
        from headrace.compute.iotdb.into import into_targets

        return [WriteInto(bound, into_targets(query, bound) if bound is not None else ())]
    if bound is None:
        return [ReadCatalog("a query of no series", lambda: Result(CatalogRows({"Time": BIGINT}, [])), DESCRIBE_CATALOG)]
    return [RunQuery(bound.plan)]


def bind(query: TreeQuery, session: PlanningContext) -> TreePlan | None:
    """Bind a query; None if its paths match no series."""
    from headrace.compute.iotdb.binding import bind_tree
    from headrace.queries.scope import tree_scope

    return bind_tree(query, tree_scope(query, session.context))


def last(query: TreeQuery, session: PlanningContext) -> Stage:
    """Plan SELECT LAST."""
    from headrace.compute.iotdb.last import bind_last
    from headrace.queries.scope import tree_scope

    bound = bind_last(query, tree_scope(query, session.context))
    if bound is None:
        columns = {"Time": BIGINT, "Timeseries": STRING, "Value": STRING, "DataType": STRING}
        return ReadCatalog("a query of no series", lambda: Result(CatalogRows(columns, [])), DESCRIBE_CATALOG)
    return FindLast(bound)
