"""Queries of system tables, which DuckDB answers: they are small, so there is no need to start Spark.

DuckDB sees the relations that a query names, and is asked for known functions only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Final

from headrace.errors import DataError, LimitError, NotFoundError, NotSupportedError
from headrace.model.expressions import Call, ColumnRef, Star
from headrace.model.queries import Query, SelectItem, TableSource, Union
from headrace.model.spelling import did_you_mean
from headrace.model.statements import Select
from headrace.queries import running
from headrace.service import system_tables
from headrace.service.results import Result
from headrace.service.stage import SessionState

MEMORY: Final = "256MiB"
SETTINGS: Final = {
    "default_null_order": "nulls_first_on_asc_last_on_desc",
    "memory_limit": MEMORY,
    "temp_directory": "",
    "threads": "1",
}
OPERATORS: Final = "unary-|is null|is not null|not like|not in|not between|+|-|*|/|%|&|=|<>|<|<=|>|>=|and|or|not|like|in|between"
FUNCTIONS: Final = (
    "count sum avg min max first last any_value median mode stddev stddev_pop variance var_pop",
    "abs ceil floor round sign sqrt power mod log ln exp greatest least coalesce ifnull nullif",
    "length char_length lower upper trim ltrim rtrim substr substring concat concat_ws starts_with position ascii",
    "now today to_timestamp date_trunc date_part year month day hour minute second",
)
NAMES: Final = frozenset(name for line in FUNCTIONS for name in line.split())
SUPPORTED: Final = NAMES | frozenset([*OPERATORS.split("|"), "|"])
"""The operators and functions of these queries. None of them makes a value much larger than its arguments."""


def reads_system_tables(query: Query | Union) -> bool:
    """Return whether a query reads a system table."""
    if isinstance(query, Union):
        return reads_system_tables(query.left) or reads_system_tables(query.right)
    parts = parts_of(query.source)
    return any(isinstance(part, TableSource) and part.name.database == system_tables.SCHEMA for part in parts)


def query_system_tables(statement: Select, session: SessionState) -> Result:
    """Run a query over system tables.

    Raises:
        NotFoundError: It names another relation, or a column that there is not.
        NotSupportedError: It has another function.
        DataError: A value is not valid for an expression.
        LimitError: It needs too much memory.
    """
    import duckdb

    from headrace.storage.sandbox import open_database

    relations, query = check_query(statement.query), named(statement.query)
    with open_database(**SETTINGS) as connection, running.canceling(connection.interrupt):
        tables = {name: system_tables.RELATIONS[name](session.context).arrow() for name in relations}
        check_columns(query, {name: table.column_names for name, table in tables.items()})
        for name, table in tables.items():
            connection.register(name, table)
        running.check()
        try:
            result = connection.sql(system_tables.duckdb_sql(replace(statement, query=query))).to_arrow_table()
        except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException) as error:
            raise not_found(f"{system_tables.SCHEMA} cannot answer the query: {error}") from None
        except duckdb.OutOfMemoryException:
            raise LimitError(f"the query needs more than {MEMORY}", hint="narrow it with WHERE or LIMIT") from None
        except duckdb.DataError as error:
            message = str(error).splitlines()[0]
            raise DataError(message, hint="a value is not valid for the expression; cast it, or leave it out with WHERE") from None
        running.check(result.num_rows, result.nbytes)
        return Result(result)


def check_query(query: Query | Union) -> list[str]:
    """Return the relations that a query reads; raise an error if it has others than ours, or other functions than are known."""
    relations = []
    for part in parts_of(query):
        if isinstance(part, TableSource):
            name = part.name.name.lower()
            if name not in system_tables.RELATIONS or part.name.database not in (None, system_tables.SCHEMA):
                raise not_found(f"{system_tables.SCHEMA} has no table {part.name}")
            relations.append(name)
        elif isinstance(part, Call) and part.function not in SUPPORTED:
            hint = f"functions of system tables are {', '.join(sorted(NAMES))}"
            raise NotSupportedError(f"{part.function} is not supported in queries of system tables", hint=hint, span=part.span)
    return list(dict.fromkeys(relations))


def check_columns(query: Query | Union, columns: Mapping[str, Collection[str]]) -> None:
    """Raise `NotFoundError` for a column that neither a relation has nor an alias of the query names."""
    parts = list(parts_of(query))
    known = {name.lower() for names in columns.values() for name in names}
    known |= {part.alias.lower() for part in parts if isinstance(part, SelectItem) and part.alias is not None}
    for part in parts:
        if isinstance(part, ColumnRef) and part.name.lower() not in known:
            hint = did_you_mean(part.name.lower(), known, f"the columns are {', '.join(sorted(known))}")
            raise NotFoundError(f"there is no column {part.name} in {', '.join(columns)}", hint=hint, span=part.span)


def named(query: Query | Union) -> Query | Union:
    """Return a query whose expressions have their text as the name of their column, as in other queries."""
    if isinstance(query, Union):
        return replace(query, left=named(query.left))
    items = (
        item if item.alias is not None or isinstance(item.expression, ColumnRef | Star) else replace(item, alias=item.text)
        for item in query.items
    )
    return replace(query, items=tuple(items))


def parts_of(value: object) -> Iterator[object]:
    """Yield a part of a query, and all parts of it."""
    rest = [value]
    while rest:
        part = rest.pop()
        if is_dataclass(part):
            yield part
            rest += [getattr(part, field.name) for field in reversed(fields(part))]
        elif isinstance(part, tuple):
            rest += reversed(part)


def not_found(message: str) -> NotFoundError:
    return NotFoundError(message, hint=f"its tables are {', '.join(system_tables.RELATIONS)}")
