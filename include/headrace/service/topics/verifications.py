"""Comparisons of results with DuckDB, which no statement expresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import NotFoundError, NotSupportedError
from headrace.model.jobs import JobDefinition
from headrace.model.queries import Query, Union
from headrace.model.statements import Select
from headrace.model.tree_queries import TreeQuery
from headrace.model.tree_statements import TreeSelect
from headrace.service.describing import explain_plan
from headrace.service.results import Result
from headrace.service.rights import CATALOG, Action, ObjectKind, Right, Securable, read_rights
from headrace.service.stage import Stage
from headrace.service.state import PlanningContext, SessionState
from headrace.service.topics.backfills import parse_query_range, stream_definition
from headrace.service.topics.continuous_queries import find_query
from headrace.service.topics.queries import bind_query, reads_system_tables
from headrace.service.topics.trees.queries import grouped_tags
from headrace.sql import parse

if TYPE_CHECKING:
    from headrace.compute import AnyPlan
    from headrace.compute.iotdb.by_tags import TagPlan
    from headrace.compute.iotdb.scope import TreeScope
    from headrace.compute.iotdb.select import TreePlan


@dataclass(frozen=True, slots=True)
class VerifyQuery(Stage):
    """Run a query with Spark and with DuckDB, and compare. `sql` is the query's text."""

    query: Query | Union
    plan: AnyPlan
    sql: str

    @property
    def required(self) -> tuple[Right, ...]:
        return read_rights(self.plan)

    def describe(self) -> list[str]:
        return ["query on Spark", *explain_plan(self.plan), "run it again with DuckDB, and compare"]

    def apply(self, session: SessionState) -> Result:
        from headrace.service.verification import verify_query

        return Result(verification=verify_query(self, session))


@dataclass(frozen=True, slots=True)
class VerifyContinuousQuery(Stage):
    """Compare what a continuous query has written in `[start, end)` with DuckDB; with None for both, its latest execution."""

    definition: JobDefinition
    start: int | None
    end: int | None

    @property
    def required(self) -> tuple[Right, ...]:
        """READ on the catalog, since its paths may name any series."""
        return (Right(Action.READ, CATALOG),)

    def describe(self) -> list[str]:
        which = "its latest execution" if self.start is None and self.end is None else "the executions in the range"
        return [f"compare the targets of continuous query {self.definition} with what DuckDB computes, for {which}"]

    def apply(self, session: SessionState) -> Result:
        from headrace.service.cq_verification import verify_continuous_query

        return Result(verification=verify_continuous_query(self, session.context))


@dataclass(frozen=True, slots=True)
class VerifyStream(Stage):
    """Compare a stream's target with what DuckDB computes from the rows that the stream has processed."""

    definition: JobDefinition

    @property
    def required(self) -> tuple[Right, ...]:
        stream = self.definition
        tables = (*stream.sources, *((stream.target,) if stream.target is not None else ()))
        return tuple(Right(Action.READ, Securable(ObjectKind.TABLE, table.database, table.name)) for table in tables)

    def describe(self) -> list[str]:
        stream = self.definition
        return [f"compare {stream.target} with what DuckDB computes from {stream.source}"]

    def apply(self, session: SessionState) -> Result:
        from headrace.service.verification import verify_stream

        return Result(verification=verify_stream(self, session.context))


@dataclass(frozen=True, slots=True)
class VerifyTree(Stage):
    """Run a query over trees with Spark and with DuckDB, and compare. `sql` is the query's text."""

    query: TreeQuery
    plan: TreePlan | TagPlan
    scope: TreeScope
    sql: str

    @property
    def required(self) -> tuple[Right, ...]:
        return read_rights(self.plan.plan)

    def describe(self) -> list[str]:
        return ["query on Spark", *explain_plan(self.plan.plan), "run it again with DuckDB, and compare"]

    def apply(self, session: SessionState) -> Result:
        from headrace.service.tree_verification import verify_tree_query

        return Result(verification=verify_tree_query(self, session))


def plan_query_verification(session: PlanningContext, text: str, dialect: str) -> list[Stage]:
    """Plan to run a query with Spark and with DuckDB, and compare.

    Raises:
        NotSupportedError: It is not a SELECT over tables.
    """
    statement = parse(text, dialect)
    if isinstance(statement, TreeSelect):
        return [plan_tree_verification(statement.query, session, text)]
    if not isinstance(statement, Select) or reads_system_tables(statement.query):
        raise NotSupportedError("verify takes a SELECT over tables", hint="or --stream database.stream")
    plan = bind_query(statement.query, session)
    return [VerifyQuery(plan.query, plan, text)]


def plan_continuous_query_verification(session: PlanningContext, name: str, start: str | None, end: str | None) -> list[Stage]:
    """Plan to compare what a continuous query has written with what its query returns, for the executions of a range."""
    definition = find_query(name, session.context).definition
    first, last = parse_query_range(definition, start, end, session)
    return [VerifyContinuousQuery(definition, first, last)]


def plan_stream_verification(session: PlanningContext, stream: str) -> list[Stage]:
    """Plan to compare a stream's target with what its query returns for the rows that the stream has processed."""
    return [VerifyStream(stream_definition(session, stream))]


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
