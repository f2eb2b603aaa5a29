"""Queries of system tables, which DuckDB answers: they are small, so there is no need to start Spark.

DuckDB sees the relations that a query names, and is asked for known functions only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Final

from headrace.errors import DataError, LimitError, NotFoundError, NotSupportedError
from headrace.model.expressions import Call
from headrace.model.queries import Query, TableSource, Union
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

    relations = check_query(statement.query)
    with open_database(**SETTINGS) as connection, running.canceling(connection.interrupt):
        for name in relations:
            connection.register(name, system_tables.RELATIONS[name](session.context).arrow())
        running.check()
        try:
            table = connection.sql(system_tables.duckdb_sql(statement)).to_arrow_table()
        except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException) as error:
            raise not_found(f"{system_tables.SCHEMA} cannot answer the query: {error}") from None
        except duckdb.OutOfMemoryException:
            raise LimitError(f"the query needs more than {MEMORY}", hint="narrow it with WHERE or LIMIT") from None
        except duckdb.DataError as error:
            message = str(error).splitlines()[0]
            raise DataError(message, hint="a value is not valid for the expression; cast it, or leave it out with WHERE") from None
        running.check(table.num_rows, table.nbytes)
        return Result(table)


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
