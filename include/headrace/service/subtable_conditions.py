"""Privileges on a part of a supertable: conditions on tags, by which the subtables are chosen whenever they are needed.

Queries get the conditions in their WHERE, so they are evaluated where the rows are read. Writes and lists ask for the names of the
subtables. Rows of others are as if they did not exist. Nothing else goes by a privilege on a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Final

from headrace.errors import Error
from headrace.model.access import Privilege
from headrace.model.expressions import Call, Expression
from headrace.model.queries import Join, Query, QuerySource, Source, TableSource, Union
from headrace.model.statements import Select
from headrace.model.tables import Database, Name, Table, TableId
from headrace.service.rights import Action, denied_table
from headrace.sql import parse

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.context import Context
    from headrace.service.stage import PlanningContext

DIALECT: Final = "tdengine"


@lru_cache(maxsize=256)
def parsed_condition(text: str) -> Expression:
    """Return the condition of a grant."""
    statement = parse(f"SELECT 1 FROM t WHERE {text}", DIALECT)
    assert isinstance(statement, Select)
    assert isinstance(statement.query, Query)
    assert statement.query.where is not None
    return statement.query.where


def any_of(conditions: Sequence[str]) -> Expression:
    """Return the condition that one of several holds."""
    return reduce(lambda left, right: Call("or", (left, right)), map(parsed_condition, conditions))


def chosen_subtables(table: Table, database: Database, conditions: Sequence[Expression], context: Context) -> frozenset[str]:
    """Return the names of the subtables for which all conditions hold.

    Raises:
        Error: A condition cannot be evaluated.
    """
    from headrace.compute import language
    from headrace.service.subtable_filter import SubtableFilter  # imports DuckDB and the binder

    tags = context.tables.tags.of_subtables(table)
    return frozenset(SubtableFilter(table, database, tags, language(DIALECT), context.clock.now(), context.spark).names(conditions))


def permitted_subtables(table: Table, conditions: Sequence[str], context: Context) -> frozenset[str]:
    """Return the names of the subtables for which one of some conditions holds; none if they do not fit the table any more."""
    database = context.catalog.databases.get(table.database)
    try:
        return chosen_subtables(table, database, [any_of(conditions)], context)
    except Error:
        return frozenset()


def writing(table: Table, subtables: pa.ChunkedArray, session: PlanningContext) -> Action:
    """Return what a user needs to write rows of some subtables.

    Raises:
        PermissionDeniedError: The user may write to a part of the table that does not include them.
    """
    conditions = session.context.permissions().conditions(Privilege.WRITE_TABLE, table.database, table.name)
    if not conditions:
        return Action.WRITE
    import pyarrow.compute as pc

    if not permitted_subtables(table, conditions, session.context).issuperset(pc.unique(subtables).to_pylist()):
        raise denied_table()
    return Action.WRITE_PART


@dataclass(slots=True)
class QueryRestriction:
    """Adds conditions to queries over supertables of which the user may read a part.

    Attributes:
        session: Whose user it is.
        parts: The tables whose rows are restricted.
        whole: The tables that a query joins, to which no condition can be added.
    """

    session: PlanningContext
    parts: set[TableId] = field(default_factory=set)
    whole: set[TableId] = field(default_factory=set)

    def action(self, table: Table) -> Action:
        """Return what a user needs to read a table as the queries do."""
        id_ = TableId(table.database, table.name)
        return Action.READ_PART if id_ in self.parts - self.whole else Action.READ

    def apply(self, query: Query | Union) -> Query | Union:
        """Return a query with conditions.

        Raises:
            PermissionDeniedError: It names a subtable that the user may not read.
        """
        if isinstance(query, Union):
            return replace(query, left=self.apply(query.left), right=self.apply(query.right))
        match query.source:
            case QuerySource(query=inner):
                return replace(query, source=replace(query.source, query=self.apply(inner)))
            case TableSource(name=name):
                condition = self._condition(name)
                if condition is None:
                    return query
                where = condition if query.where is None else Call("and", (query.where, condition))
                return replace(query, where=where)
            case Join():
                return replace(query, source=self._joined(query.source))
            case _:
                return query

    def _joined(self, source: Source) -> Source:
        match source:
            case Join(left=left, right=right):
                return replace(source, left=self._joined(left), right=self._joined(right))
            case QuerySource(query=inner):
                return replace(source, query=self.apply(inner))
            case TableSource(name=name):
                table = self._table(name)
                if table is not None:
                    self.whole.add(TableId(table.database, table.name))
        return source

    def _condition(self, name: Name) -> Expression | None:
        table, context = self._table(name), self.session.context
        if table is None:
            return None
        conditions = context.permissions().conditions(Privilege.READ_TABLE, table.database, table.name)
        if not conditions:
            return None
        if name.name != table.name and name.name not in permitted_subtables(table, conditions, context):
            raise denied_table()
        self.parts.add(TableId(table.database, table.name))
        return any_of(conditions)

    def _table(self, name: Name) -> Table | None:
        """Return the table of a name, or the supertable of a subtable."""
        catalog, database = self.session.context.catalog, name.database or self.session.database
        if database is None:
            return None
        subtable = catalog.subtables.find(database, [name.name]).get(name.name)
        return catalog.tables.find(database, name.name if subtable is None else subtable.table)
