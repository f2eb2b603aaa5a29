"""Writing of statements about virtual tables on one line."""

from __future__ import annotations

from headrace.model import statements as model
from headrace.model.tables import Column
from headrace.sql.tdengine.render import join_words, name_sql, parenthesize, statement_sql, text_if, using_sql
from headrace.sql.tdengine.words import LEXICAL_RULES

__all__ = ["statement_sql"]


def origin_sql(origin: model.Origin) -> str:
    """Write `[database.]table.column`."""
    return f"{name_sql(origin.table)}.{LEXICAL_RULES.name_sql(origin.column)}"


def _virtual_column_sql(column: Column, origin: model.Origin | None) -> str:
    source = "" if origin is None else f"FROM {origin_sql(origin)}"
    return join_words(LEXICAL_RULES.name_sql(column.name), str(column.type), source)


def _assigned_origin_sql(column: str | None, origin: model.Origin) -> str:
    return origin_sql(origin) if column is None else f"{LEXICAL_RULES.name_sql(column)} FROM {origin_sql(origin)}"


@statement_sql.register
def _(statement: model.CreateVirtualTable) -> str:
    exists = text_if(statement.if_not_exists, "IF NOT EXISTS")
    columns = map(_virtual_column_sql, statement.columns, statement.origins)
    return join_words("CREATE VTABLE", exists, name_sql(statement.name), parenthesize(columns))


@statement_sql.register
def _(statement: model.CreateVirtualSubtable) -> str:
    spec = statement.spec
    origins = parenthesize(_assigned_origin_sql(column, origin) for column, origin in statement.origins)
    exists = text_if(spec.if_not_exists, "IF NOT EXISTS")
    return join_words("CREATE VTABLE", exists, name_sql(spec.name), origins, using_sql(spec))


@statement_sql.register
def _(statement: model.AlterVirtualTable) -> str:
    change = statement_sql(statement.change).replace("ALTER TABLE", "ALTER VTABLE", 1)
    return join_words(change, "" if statement.origin is None else f"FROM {origin_sql(statement.origin)}")


@statement_sql.register
def _(statement: model.SetOrigin) -> str:
    origin = "NULL" if statement.origin is None else origin_sql(statement.origin)
    return f"ALTER VTABLE {name_sql(statement.table)} ALTER COLUMN {LEXICAL_RULES.name_sql(statement.column)} SET {origin}"
