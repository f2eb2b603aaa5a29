"""Comparisons of results with DuckDB, which no statement expresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.errors import NotFoundError, NotSupportedError
from headrace.model.access import Privilege
from headrace.model.statements import Select
from headrace.model.tree_queries import TreeQuery
from headrace.model.tree_statements import TreeSelect
from headrace.service.describing import explain_plan
from headrace.service.results import Result
from headrace.service.rights import Action, ObjectKind, Right, Securable, globally, read_rights
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.system_queries import reads_system_tables
from headrace.service.topics.backfills import parse_query_range, stream_definition
from headrace.service.topics.continuous_queries import find_query
from headrace.service.topics.queries import bind_query
from headrace.service.topics.trees.queries import grouped_tags
from headrace.sql import parse

if TYPE_CHECKING:
    from headrace.compute import AnyPlan


def plan_verification(
    session: PlanningContext,
    query: str | None = None,
    stream: str | None = None,
    cq: str | None = None,
    start: str | None = None,
    end: str | None = None,
) -> list[Stage]:
    """Plan to verify the one of a query, a stream (as `database.stream`) and a continuous query that is given."""
    if query is not None:
        return plan_query_verification(session, query)
    if stream is not None:
        return plan_stream_verification(session, stream)
    return plan_continuous_query_verification(session, cq or "", start, end)


def plan_query_verification(session: PlanningContext, text: str) -> list[Stage]:
    """Plan to run a query over tables with Spark and with DuckDB, and compare; `NotSupportedError` if it is not such a SELECT."""
    statement = parse(text, session.dialect)
    if isinstance(statement, TreeSelect):
        return [plan_tree_verification(statement.query, session, text)]
    if not isinstance(statement, Select) or reads_system_tables(statement.query):
        raise NotSupportedError("verify takes a SELECT over tables", hint="or --stream database.stream")
    return [verify_table_query(bind_query(statement.query, session), text)]


def verify_table_query(plan: AnyPlan, text: str) -> Stage:
    def apply(session: SessionState) -> Result:
        from headrace.service.verification import verify_query

        return Result(verification=verify_query(plan, text, session))

    return comparison(plan, apply)


def comparison(plan: AnyPlan, apply: Callable[[SessionState], Result]) -> Stage:
    """Return the stage that runs a query with Spark and with DuckDB, and compares."""
    lines = ("query on Spark", "run it again with DuckDB, and compare")
    return Stage(read_rights(plan), lambda: [lines[0], *explain_plan(plan), lines[1]], apply)


def plan_continuous_query_verification(session: PlanningContext, name: str, start: str | None, end: str | None) -> list[Stage]:
    """Plan to compare what a continuous query has written with what its query returns, for the executions of a range."""
    definition = find_query(name, session.context).definition
    first, last = parse_query_range(definition, start, end, session)

    def apply(session: SessionState) -> Result:
        from headrace.service.cq_verification import verify_continuous_query

        return Result(verification=verify_continuous_query(definition, first, last, session.context))

    which = "its latest execution" if first is None and last is None else "the executions in the range"
    described = f"compare the targets of continuous query {definition} with what DuckDB computes, for {which}"
    return [Stage(globally(Privilege.USE_CQ), lambda: [described], apply)]


def plan_stream_verification(session: PlanningContext, stream: str) -> list[Stage]:
    """Plan to compare a stream's target with what its query returns for the rows that the stream has processed."""
    job = stream_definition(session, stream)

    def apply(session: SessionState) -> Result:
        from headrace.service.verification import verify_stream

        return Result(verification=verify_stream(job, session.context))

    tables = (*job.sources, *((job.target,) if job.target is not None else ()))
    rights = tuple(Right(Action.READ, Securable(ObjectKind.TABLE, table.database, table.name)) for table in tables)
    return [Stage(rights, lambda: [f"compare {job.target} with what DuckDB computes from {job.source}"], apply)]


def plan_tree_verification(query: TreeQuery, session: PlanningContext, text: str) -> Stage:
    """Plan to run a query with Spark and with DuckDB, and compare; `NotSupportedError` if it cannot be verified."""
    if query.last or query.into:
        clause = "LAST" if query.last else "INTO"
        raise NotSupportedError(f"verify does not support {clause}", hint="leave it out of the query to verify the rest")
    from headrace.compute.iotdb.binding import bind_tree
    from headrace.compute.iotdb.by_tags import TagQuery
    from headrace.service.tree_user_code import checkable_tree_query
    from headrace.trees.scope import tree_scope

    scope, tags = tree_scope(query, session.context), grouped_tags(query)
    bound = TagQuery(query, scope, tags).plan() if tags else bind_tree(query, scope)
    if bound is None:
        raise NotFoundError("the query's paths match no series", hint="SHOW TIMESERIES lists what there is", span=query.span)
    plan, part = bound, checkable_tree_query(query, bound, scope, session.context.catalog.functions.all(session.dialect))

    def apply(session: SessionState) -> Result:
        from headrace.service.tree_verification import verify_tree_query

        return Result(verification=verify_tree_query(part, plan, scope, text, session))

    return comparison(plan.plan, apply)
