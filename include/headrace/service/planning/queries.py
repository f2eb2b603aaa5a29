"""SELECT and EXPLAIN."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.errors import NotFoundError
from headrace.model.queries import Join, Query, QuerySource, Source, TableSource, Union
from headrace.model.statements import Explain, Select
from headrace.model.tables import Name
from headrace.service import system
from headrace.service.planning.dispatch import Surroundings, current_timezone, plan
from headrace.service.results import Result
from headrace.service.rights import CATALOG, Action, Right
from headrace.service.stages import DescribeStages, ReadCatalog, RunQuery, Stage
from headrace.sql import to_sql
from headrace.storage.sandbox import open_database

if TYPE_CHECKING:
    from headrace.compute import AnyPlan

DESCRIBE_CATALOG: Final = (Right(Action.DESCRIBE, CATALOG),)


def select(statement: Select, around: Surroundings) -> list[Stage]:
    if asks_system(statement.query):
        return [ReadCatalog(f"query of {system.SCHEMA}", partial(query_system, statement, around), DESCRIBE_CATALOG)]
    return [RunQuery(bind_query(statement.query, around))]


def bind_query(query: Query | Union, around: Surroundings) -> AnyPlan:
    """Bind a query over tables to the catalog."""
    from headrace.compute import bind
    from headrace.streams.define import catalog_scope

    context, database = around.context, around.database
    timezone, now = current_timezone(around), context.clock.now()
    scope = catalog_scope(context.catalog, database, dialect=around.dialect, timezone=timezone, now=now)
    return bind(query, scope)


def explain(statement: Explain, around: Surroundings) -> list[Stage]:
    return [DescribeStages(tuple(plan(statement.statement, around)))]


def asks_system(query: Query | Union) -> bool:
    """Whether a query reads system tables."""
    if isinstance(query, Union):
        return asks_system(query.left) or asks_system(query.right)
    return query.source is not None and any(name.database == system.SCHEMA for name in names(query.source))


def names(source: Source) -> list[Name]:
    """Names of the tables of a FROM clause, sub-queries included."""
    match source:
        case TableSource(name=name):
            return [name]
        case Join(left=left, right=right):
            return names(left) + names(right)
        case QuerySource(query=Query(source=inner)):
            return names(inner) if inner is not None else []
        case _:
            return []


def query_system(statement: Select, around: Surroundings) -> Result:
    """System tables are small and change with every batch: DuckDB answers over them, Spark need not start."""
    import duckdb
    import sqlglot

    tree = sqlglot.parse_one(to_sql(statement), read="mysql")
    for table in tree.find_all(sqlglot.exp.Table):
        table.set("db", None)  # DuckDB has an information_schema of its own
    text = tree.sql("duckdb")
    with open_database() as connection:
        for name, read in system.RELATIONS.items():
            if name in text:
                connection.register(name, read(around.context).arrow())
        try:
            return Result(connection.sql(text).to_arrow_table())
        except (duckdb.CatalogException, duckdb.BinderException) as error:
            raise NotFoundError(
                f"{system.SCHEMA} cannot answer that: {error}", hint=f"it has {', '.join(system.RELATIONS)}"
            ) from None
