"""SELECT and EXPLAIN, and reading the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import NotSupportedError
from headrace.model.access import Permissions, Privilege
from headrace.model.expressions import Call
from headrace.model.queries import Query, Union
from headrace.model.statements import Explain, Select
from headrace.service.describing import describe_query, indent
from headrace.service.dispatch import plan
from headrace.service.names import current_timezone
from headrace.service.results import INT, STRING, CatalogRows, Result, Type, rows_result
from headrace.service.rights import Action, Right, on_catalog, read_rights
from headrace.service.stage import PlanningContext, SessionState, Stage, describe_all, required_rights
from headrace.service.subtable_conditions import QueryRestriction
from headrace.service.system_queries import query_system_tables, reads_system_tables
from headrace.service.system_tables import SCHEMA

if TYPE_CHECKING:
    from headrace.compute import AnyPlan

DESCRIBE_CATALOG: Final = on_catalog(Action.DESCRIBE)
TDENGINE_VERSION: Final = "3.3.6.0"
"""The version of TDengine whose language and interfaces this is: clients decide by it what they may send."""
Value = tuple[Type, Callable[[SessionState], Any]]
SESSION_FUNCTIONS: Final[dict[str, Value]] = {
    "server_version": (STRING, lambda _: TDENGINE_VERSION),
    "client_version": (STRING, lambda _: TDENGINE_VERSION),
    "server_status": (INT, lambda _: 1),
    "database": (STRING, lambda session: session.database),
    "current_user": (STRING, lambda session: session.user),
    "user": (STRING, lambda session: session.user),
}
"""Functions about the server and the session, as clients of TDengine ask for when they connect."""


def run_query(plan: AnyPlan, required: tuple[Right, ...] | None = None) -> Stage:
    """Run a query. `required` are the rights to read; None for those on its tables."""

    def apply(session: SessionState) -> Result:
        from headrace.queries.evaluation import evaluate_query

        return Result(evaluate_query(plan, session.context, max_rows=session.max_rows))

    return Stage(read_rights(plan) if required is None else required, lambda: describe_query(plan), apply, is_query=True, plan=plan)


def analyze_query(query: Stage, plan: AnyPlan, *, verbose: bool, planning_ms: float) -> Stage:
    """Run a query, and describe it with what it did instead of its result. `planning_ms` is how long planning it took."""

    def apply(session: SessionState) -> Result:
        from headrace.queries import analysis
        from headrace.service.analysis import analysis_lines

        analyzed = analysis.analyze_query(plan, session.context)
        if not reads_all(plan, session.context.permissions()):
            analyzed = analyzed.without_reading()
        return lines_result(analysis_lines(plan, analyzed, planning_ms, verbose=verbose))

    # Its figures of what was read include other subtables.
    required = tuple(replace(right, action=Action.READ) if right.action is Action.READ_PART else right for right in query.required)
    return Stage(required, lambda: ["run and discard the result:", *indent(describe_query(plan))], apply)


def reads_all(plan: AnyPlan, permissions: Permissions) -> bool:
    """Return whether a user may read all of the tables that a query reads. Else what it has read includes what is hidden."""
    return all(permissions.allows_table(Privilege.READ_TABLE, scan.table.database, scan.table.name) for scan in plan.scans)


def read_catalog(title: str, read: Callable[[], Result], required: tuple[Right, ...]) -> Stage:
    """Answer SHOW, DESCRIBE or a query of system tables from the catalog alone."""
    return Stage(required, lambda: [f"{title}: read the catalog"], lambda _: read())


def describe_stages(stages: Sequence[Stage]) -> Stage:
    """Describe the stages of another statement, and the rights that they require.

    It needs DESCRIBE on the same objects, so that EXPLAIN can tell users which rights they lack. The stages are described to who
    has these rights: descriptions count rows, and name what conditions match.
    """
    required = tuple(dict.fromkeys(Right(Action.DESCRIBE, right.target) for right in required_rights(stages)))
    return Stage(required, lambda: ["explain"], lambda session: lines_result(describe_all(stages, session)))


def lines_result(lines: Sequence[str]) -> Result:
    return rows_result(("plan",), [(line,) for line in lines])


def plan_select(statement: Select, session: PlanningContext) -> list[Stage]:
    """Plan a query: on Spark, over system tables from the catalog, or of the session."""
    if reads_system_tables(statement.query):
        title = f"query of {SCHEMA}: read the catalog"
        return [Stage(DESCRIBE_CATALOG, lambda: [title], lambda session: query_system_tables(statement, session), is_limited=True)]
    if session.dialect == "tdengine" and (stages := plan_session_functions(statement.query)) is not None:
        return stages
    restriction = QueryRestriction(session)
    plan = bind_query(restriction.apply(statement.query), session)
    return [run_query(plan, read_rights(plan, restriction.action))]


def bind_query(query: Query | Union, session: PlanningContext) -> AnyPlan:
    """Bind a query over tables to the catalog."""
    from headrace.compute import bind
    from headrace.streams.definition.define import catalog_scope

    context, database = session.context, session.database
    timezone, now = current_timezone(session), context.clock.now()
    scope = catalog_scope(context.catalog, database, dialect=session.dialect, timezone=timezone, now=now, settings=context.settings)
    return bind(query, scope)


def plan_explain(statement: Explain, session: PlanningContext) -> list[Stage]:
    """Plan the description of another statement's stages; with ANALYZE, run a query."""
    started = perf_counter()
    planned = plan(statement.statement, session)
    if not statement.analyze:
        return [describe_stages(planned)]
    query = planned[0].plan if len(planned) == 1 else None
    if query is None:
        raise NotSupportedError("EXPLAIN ANALYZE runs only queries of rows", hint="use EXPLAIN, which executes nothing")
    return [analyze_query(planned[0], query, verbose=statement.verbose, planning_ms=(perf_counter() - started) * 1000)]


def plan_session_functions(query: Query | Union) -> list[Stage] | None:
    """Plan a query of such functions and nothing else; None if it is another one."""
    if isinstance(query, Union) or query.source is not None or not query.items or query.where is not None:
        return None
    calls = [item.expression for item in query.items]
    if not all(isinstance(call, Call) and call.function in SESSION_FUNCTIONS and not call.arguments for call in calls):
        return None
    names = [item.name for item in query.items]
    values = [SESSION_FUNCTIONS[call.function] for call in calls if isinstance(call, Call)]
    return [Stage(on_catalog(Action.DESCRIBE), lambda: ["ask the session"], lambda session: read_values(names, values, session))]


def read_values(names: list[str], values: list[Value], session: SessionState) -> Result:
    columns = {name: type_ for name, (type_, _) in zip(names, values, strict=True)}
    row = {name: read(session) for name, (_, read) in zip(names, values, strict=True)}
    return Result(CatalogRows(columns, [tuple(row.values())]))
