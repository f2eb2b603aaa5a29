"""From a statement to its stages: one planner for each kind of statement."""

from __future__ import annotations

from functools import singledispatch
from typing import Protocol

from headrace.errors import NotSupportedError, ProgrammingError
from headrace.model.statements import Statement
from headrace.model.tables import Database, Name, Table
from headrace.runtime.context import Context
from headrace.service.stages import Stage


class Surroundings(Protocol):
    """What a planner may look at: it reads the catalog and changes nothing."""

    @property
    def context(self) -> Context: ...

    @property
    def database(self) -> str | None: ...


@singledispatch
def plan(statement: Statement, around: Surroundings) -> list[Stage]:  # noqa: ARG001
    """The stages of a statement; everything that can be refused is refused here.

    Raises:
        Error: a named one, with the place in the text where there is one.
    """
    raise NotSupportedError(f"{type(statement).__name__} is not supported")


def database_of(name: Name, around: Surroundings) -> str:
    """The database that a name means."""
    database = name.database or around.database
    if database is None:
        raise ProgrammingError(
            f"no database for {name.name}", hint="name it (database.table), or choose one with USE database", span=name.span
        )
    return database


def find_table(name: Name, around: Surroundings) -> tuple[Table, Database]:
    """The supertable or plain table of a name."""
    catalog = around.context.catalog
    database = catalog.databases.get(database_of(name, around))
    return catalog.tables.get(database.name, name.name), database
