"""SELECT over trees: its paths are looked up in the catalog, then it is bound; INTO adds the writing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.errors import NotFoundError, NotSupportedError, ProgrammingError
from headrace.model.tree_queries import TreeQuery
from headrace.model.tree_statements import TreeSelect
from headrace.service.planning.dispatch import PlanningContext
from headrace.service.planning.queries import DESCRIBE_CATALOG
from headrace.service.results import INSTANT, STRING, CatalogRows, Result
from headrace.service.results import Type as ResultType
from headrace.service.stages import ReadCatalog, RunQuery, Stage
from headrace.service.tree_stages import FindLast, GroupByTags, VerifyTree, WriteInto
from headrace.sql.iotdb.status import SEMANTIC_ERROR

if TYPE_CHECKING:
    from headrace.compute.iotdb.select import TreePlan


def select(statement: TreeSelect, session: PlanningContext) -> list[Stage]:
    """Plan a query, and with INTO the writing of its result. An error has the status of a semantic error, unless it has another."""
    try:
        return query_stages(statement.query, session)
    except ProgrammingError as error:
        raise error.with_status(SEMANTIC_ERROR) from None


def query_stages(query: TreeQuery, session: PlanningContext) -> list[Stage]:
    """Plan a query."""
    if query.into:
        from headrace.compute.iotdb.into import check_into

        check_into(query)
    if query.last:
        return [last(query, session)]
    if tags := grouped_tags(query):
        return [by_tags(query, tags, session)]
    bound = bind(query, session)
    if query.into:
        from headrace.compute.iotdb.into import into_targets

        return [WriteInto(bound, into_targets(query, bound) if bound is not None else ())]
    if bound is None:
        return [no_series({"Time": INSTANT})]
    return [RunQuery(bound.plan)]


def plan_tree_verification(query: TreeQuery, session: PlanningContext, text: str) -> Stage:
    """Plan to run a query with Spark and with DuckDB, and compare.

    Raises:
        NotSupportedError: It cannot be verified.
    """
    if query.last or query.into:
        clause = "LAST" if query.last else "INTO"
        raise NotSupportedError(f"verify does not support {clause}", hint="leave it out of the query to verify the rest")
    from headrace.compute.iotdb.binding import bind_tree
    from headrace.compute.iotdb.by_tags import TagQuery
    from headrace.trees.scope import tree_scope

    scope, tags = tree_scope(query, session.context), grouped_tags(query)
    bound = TagQuery(query, scope, tags).plan() if tags else bind_tree(query, scope)
    if bound is None:
        raise NotFoundError("the query's paths match no series", hint="SHOW TIMESERIES lists what there is", span=query.span)
    return VerifyTree(query, bound, scope, text)


def bind(query: TreeQuery, session: PlanningContext) -> TreePlan | None:
    """Bind a query; None if its paths match no series."""
    from headrace.compute.iotdb.binding import bind_tree
    from headrace.trees.scope import tree_scope

    return bind_tree(query, tree_scope(query, session.context))


def last(query: TreeQuery, session: PlanningContext) -> Stage:
    """Plan SELECT LAST."""
    from headrace.compute.iotdb.last import bind_last
    from headrace.trees.scope import tree_scope

    bound = bind_last(query, tree_scope(query, session.context))
    if bound is None:
        columns = {"Time": INSTANT, "Timeseries": STRING, "Value": STRING, "DataType": STRING}
        return no_series(columns)
    return FindLast(bound)


def grouped_tags(query: TreeQuery) -> tuple[str, ...]:
    """Return the tags of GROUP BY; GROUP BY LEVEL takes precedence."""
    return () if query.grouping is None or query.grouping.levels else query.grouping.tags


def by_tags(query: TreeQuery, tags: tuple[str, ...], session: PlanningContext) -> Stage:
    """Plan a query with GROUP BY TAGS."""
    from headrace.compute.iotdb.by_tags import TagQuery
    from headrace.trees.scope import tree_scope

    bound = TagQuery(query, tree_scope(query, session.context), tags).plan()
    return no_series({"Time": INSTANT}) if bound is None else GroupByTags(bound)


def no_series(columns: Mapping[str, ResultType]) -> Stage:
    """Return the stage of a query whose paths match no series."""
    return ReadCatalog("a query of no series", lambda: Result(CatalogRows(dict(columns), [])), DESCRIBE_CATALOG)
