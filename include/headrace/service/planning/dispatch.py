"""From a statement to its stages: one planner for each kind of statement."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.errors import ProgrammingError
from headrace.model import statements
from headrace.model.spans import Span
from headrace.model.statements import Statement
from headrace.model.tables import Database, Name, Table

if TYPE_CHECKING:
    from headrace.runtime.context import Context
    from headrace.service.stages import Stage

PLANNERS: Final[dict[type[Statement], tuple[str, str]]] = {
    statements.CreateDatabase: ("tables", "create_database"),
    statements.DropDatabase: ("tables", "drop_database"),
    statements.UseDatabase: ("tables", "use_database"),
    statements.CreateTable: ("tables", "create_table"),
    statements.DropTable: ("tables", "drop_table"),
    statements.AddColumn: ("alterations", "add_column"),
    statements.DropColumn: ("alterations", "drop_column"),
    statements.ModifyColumn: ("alterations", "modify_column"),
    statements.RenameColumn: ("alterations", "rename_column"),
    statements.CreateSubtables: ("rows", "create_subtables"),
    statements.SetTags: ("rows", "set_tags"),
    statements.Insert: ("rows", "insert"),
    statements.Delete: ("rows", "delete"),
    statements.Select: ("queries", "select"),
    statements.Explain: ("queries", "explain"),
    statements.Describe: ("shows", "describe"),
    statements.Show: ("shows", "show"),
    statements.CreateStream: ("streams", "create_stream"),
    statements.DropStream: ("streams", "drop_stream"),
    statements.PauseStream: ("streams", "pause_stream"),
    statements.ResumeStream: ("streams", "resume_stream"),
}
"""Module and planner of each kind of statement; imported when first asked for, because most bring Arrow and Delta along."""


class PlanningContext(Protocol):
    """What a planner may look at: it reads the catalog and changes nothing."""

    @property
    def context(self) -> Context: ...

    @property
    def database(self) -> str | None: ...

    @property
    def dialect(self) -> str: ...


def plan(statement: Statement, session: PlanningContext) -> list[Stage]:
    """The stages of a statement; everything that can be refused is refused here.

    Raises:
        Error: a named one, with the place in the text where there is one.
    """
    return planner(type(statement))(statement, session)


def planner(kind: type[Statement]) -> Callable[[Any, PlanningContext], list[Stage]]:
    """The planner of a kind of statement."""
    module, name = PLANNERS[kind]
    found: Callable[[Any, PlanningContext], list[Stage]] = getattr(import_module(f"{__package__}.{module}"), name)
    return found


def parse_name(text: str) -> Name:
    """Read `database.name`, or a name alone."""
    database, dot, name = text.rpartition(".")
    return Name(database.strip("`") if dot else None, name.strip("`"), Span(0, len(text)))


def database_of(name: Name, session: PlanningContext) -> str:
    """The database that a name means."""
    database = name.database or session.database
    if database is None:
        raise ProgrammingError(
            f"no database for {name.name}", hint="name it (database.table), or choose one with USE database", span=name.span
        )
    return database


def current_timezone(session: PlanningContext) -> str:
    """The time zone of what is not of any table: that of the current database, else of the settings."""
    context, database = session.context, session.database
    return context.catalog.databases.get(database).timezone if database else context.settings.timezone


def find_table(name: Name, session: PlanningContext) -> tuple[Table, Database]:
    """The supertable or plain table of a name."""
    catalog = session.context.catalog
    database = catalog.databases.get(database_of(name, session))
    return catalog.tables.get(database.name, name.name), database
