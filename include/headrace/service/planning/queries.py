"""Plan SELECT and EXPLAIN."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final

from headrace.errors import NotFoundError, NotSupportedError
from headrace.model.queries import Join, Query, QuerySource, Source, TableSource, Union
from headrace.model.statements import Explain, Select
from headrace.model.tables import Name
from headrace.service import system_tables
from headrace.service.planning.dispatch import PlanningContext, current_timezone, plan
from headrace.service.results import Result
from headrace.service.rights import CATALOG, Action, Right
from headrace.service.stages import AnalyzeQuery, DescribeStages, ReadCatalog, RunQuery, Stage
from headrace.sql import to_sql

if TYPE_CHECKING:
    from headrace.compute import AnyPlan

DESCRIBE_CATALOG: Final = (Right(Action.DESCRIBE, CATALOG),)


def select(statement: Select, session: PlanningContext) -> list[Stage]:
    """Plan a query: on Spark, or over system tables from the catalog."""
    if reads_system_tables(statement.query):
        return [ReadCatalog(f"query of {system_tables.SCHEMA}", partial(query_system_tables, statement, session), DESCRIBE_CATALOG)]
    return [RunQuery(bind_query(statement.query, session))]


def bind_query(query: Query | Union, session: PlanningContext) -> AnyPlan:
    """Bind a query over tables to the catalog."""
    from headrace.compute import bind
    from headrace.streams.definition.define import catalog_scope

    context, database = session.context, session.database
    timezone, now = current_timezone(session), context.clock.now()
    scope = catalog_scope(context.catalog, database, dialect=session.dialect, timezone=timezone, now=now)
    return bind(query, scope)


def explain(statement: Explain, session: PlanningContext) -> list[Stage]:
    """Plan the description of another statement's stages; with ANALYZE, run a query."""
    started = perf_counter()
    planned = tuple(plan(statement.statement, session))
    if not statement.analyze:
        return [DescribeStages(planned)]
    match planned:
        case (RunQuery(plan=query),):
            return [AnalyzeQuery(query, statement.verbose, (perf_counter() - started) * 1000)]
        case _:
            raise NotSupportedError("EXPLAIN ANALYZE runs only queries of rows", hint="use EXPLAIN, which executes nothing")


def reads_system_tables(query: Query | Union) -> bool:
    """Return True if a query reads system tables."""
    if isinstance(query, Union):
        return reads_system_tables(query.left) or reads_system_tables(query.right)
    return query.source is not None and any(name.database == system_tables.SCHEMA for name in table_names(query.source))


def table_names(source: Source) -> list[Name]:
    """Return the table names in a FROM clause, including those in sub-queries."""
    match source:
        case TableSource(name=name):
            return [name]
        case Join(left=left, right=right):
            return table_names(left) + table_names(right)
        case QuerySource(query=Query(source=inner)):
            return table_names(inner) if inner is not None else []
        case _:
            return []


def query_system_tables(statement: Select, session: PlanningContext) -> Result:
    """Run a query over system tables with DuckDB: they are small, so there is no need to start Spark."""
    import duckdb
    import sqlglot

    from headrace.storage.sandbox import open_database

    tree = sqlglot.parse_one(to_sql(statement), read="mysql")
    for table in tree.find_all(sqlglot.exp.Table):
        table.set("db", None)  # DuckDB has an information_schema of its own
    text = tree.sql("duckdb")
    with open_database() as connection:
        for name, read in system_tables.RELATIONS.items():
            if name in text:
                connection.register(name, read(session.context).arrow())
        try:
            return Result(connection.sql(text).to_arrow_table())
        except (duckdb.CatalogException, duckdb.BinderException) as error:
            raise NotFoundError(
                f"{system_tables.SCHEMA} cannot answer the query: {error}",
                hint=f"its tables are {', '.join(system_tables.RELATIONS)}",
            ) from None
