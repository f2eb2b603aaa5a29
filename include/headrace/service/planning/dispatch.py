"""Dispatch each kind of statement to its planner; shared lookups of names."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.errors import NotFoundError, NotSupportedError, ProgrammingError
from headrace.model import statements, tree_statements
from headrace.model.spans import Span
from headrace.model.statements import Statement
from headrace.model.tables import Database, Name, Table, TableKind

if TYPE_CHECKING:
    from headrace.model.jobs import JobRecord
    from headrace.runtime.context import Context
    from headrace.service.stages import Stage

PLANNERS: Final[dict[type[Any], tuple[str, str]]] = {
    statements.CreateDatabase: ("tables", "create_database"),
    statements.AlterDatabase: ("tables", "alter_database"),
    statements.MaintainDatabase: ("maintenance", "maintain_database"),
    statements.DropDatabase: ("tables", "drop_database"),
    statements.UseDatabase: ("tables", "use_database"),
    statements.CreateTable: ("tables", "create_table"),
    statements.DropTable: ("tables", "drop_table"),
    statements.AddColumn: ("alterations", "add_column"),
    statements.DropColumn: ("alterations", "drop_column"),
    statements.ModifyColumn: ("alterations", "modify_column"),
    statements.RenameColumn: ("alterations", "rename_column"),
    statements.SetTableOptions: ("alterations", "set_options"),
    statements.CreateSubtables: ("rows", "create_subtables"),
    statements.CreateSubtablesFromFile: ("subtable_files", "create_subtables"),
    statements.SetTags: ("rows", "set_tags"),
    statements.CreateVirtualTable: ("virtual_tables", "create_table"),
    statements.CreateVirtualSubtable: ("virtual_tables", "create_subtable"),
    statements.AlterVirtualTable: ("virtual_tables", "alter_table"),
    statements.SetOrigin: ("virtual_tables", "set_origin"),
    statements.Insert: ("rows", "insert"),
    statements.InsertFiles: ("inserts", "insert_files"),
    statements.InsertSelect: ("inserts", "insert_select"),
    statements.Delete: ("rows", "delete"),
    statements.Select: ("queries", "select"),
    statements.Explain: ("queries", "explain"),
    statements.Describe: ("shows", "describe"),
    statements.Show: ("shows", "show"),
    statements.CreateStream: ("streams", "create_stream"),
    statements.AlterStream: ("replacements", "alter_stream"),
    statements.ResetStream: ("replacements", "reset_stream"),
    statements.ReplayStream: ("streams", "replay_stream"),
    statements.DropQuarantine: ("streams", "drop_quarantine"),
    statements.DropStream: ("streams", "drop_stream"),
    statements.PauseStream: ("streams", "pause_stream"),
    statements.ResumeStream: ("streams", "resume_stream"),
    statements.CreateSnode: ("snodes", "create_snode"),
    statements.DropSnode: ("snodes", "drop_snode"),
    statements.KillQuery: ("snodes", "kill_query"),
    tree_statements.CreateTreeDatabase: ("trees", "create_database"),
    tree_statements.DropTreeDatabases: ("trees", "drop_databases"),
    tree_statements.CreateTimeseries: ("trees", "create_timeseries"),
    tree_statements.DropTimeseries: ("trees", "drop_timeseries"),
    tree_statements.AlterTimeseries: ("trees", "alter_timeseries"),
    tree_statements.SetTTL: ("trees", "set_ttl"),
    tree_statements.CreateTemplate: ("tree_templates", "create_template"),
    tree_statements.AlterTemplate: ("tree_templates", "alter_template"),
    tree_statements.DropTemplate: ("tree_templates", "drop_template"),
    tree_statements.SetTemplate: ("tree_templates", "set_template"),
    tree_statements.ActivateTemplate: ("tree_templates", "activate_template"),
    tree_statements.DeactivateTemplate: ("tree_templates", "deactivate_template"),
    tree_statements.TreeInsert: ("tree_rows", "insert"),
    tree_statements.TreeDelete: ("tree_rows", "delete"),
    tree_statements.TreeSelect: ("tree_queries", "select"),
    tree_statements.TreeShow: ("tree_shows", "show"),
    tree_statements.CreateFunction: ("functions", "create"),
    tree_statements.DropFunction: ("functions", "drop"),
    tree_statements.CreateContinuousQuery: ("continuous_queries", "create"),
    tree_statements.DropContinuousQuery: ("continuous_queries", "drop"),
    tree_statements.PauseContinuousQuery: ("continuous_queries", "pause"),
    tree_statements.ResumeContinuousQuery: ("continuous_queries", "resume"),
}
"""Module and function of each statement's planner, imported on first use because most import Arrow and Delta."""


class PlanningContext(Protocol):
    """What a planner may read of the session. Planners change nothing."""

    @property
    def context(self) -> Context:
        """The catalog, tables and settings in use."""

    @property
    def database(self) -> str | None:
        """The current database."""

    @property
    def reads_files(self) -> bool:
        """Whether statements may read files of this machine."""

    @property
    def dialect(self) -> str:
        """The language of statements."""


def plan(statement: Statement, session: PlanningContext) -> list[Stage]:
    """Plan a statement. Everything that can be refused is refused here.

    Raises:
        Error: The statement is refused, with a span if the text has a place to blame.
    """
    return load_planner(type(statement))(statement, session)


def load_planner(kind: type[Statement]) -> Callable[[Any, PlanningContext], list[Stage]]:
    """Import and return the planner of a kind of statement."""
    module, name = PLANNERS[kind]
    function: Callable[[Any, PlanningContext], list[Stage]] = getattr(import_module(f"{__package__}.{module}"), name)
    return function


def parse_name(text: str) -> Name:
    """Parse `database.name`, or a name alone."""
    database, dot, name = text.rpartition(".")
    return Name(database.strip("`") if dot else None, name.strip("`"), Span(0, len(text)))


def database_of(name: Name, session: PlanningContext) -> str:
    """Return the database of a name: its own, else the current one."""
    database = name.database or session.database
    if database is None:
        raise ProgrammingError(
            f"no database for {name.name}", hint="name it (database.table), or choose one with USE database", span=name.span
        )
    return database


def current_timezone(session: PlanningContext) -> str:
    """Return the time zone for values of no table: that of the current database, else that of the settings."""
    context, database = session.context, session.database
    return context.catalog.databases.get(database).timezone if database else context.settings.timezone


def find_table(name: Name, session: PlanningContext) -> tuple[Table, Database]:
    """Return the supertable or plain table of a name, with its database."""
    catalog = session.context.catalog
    database = catalog.databases.get(database_of(name, session))
    return catalog.tables.get(database.name, name.name), database


def refuse_virtual(table: Table, name: Name) -> None:
    """Raise `ProgrammingError` if a table is virtual: it stores no rows."""
    if table.is_virtual:
        raise ProgrammingError(
            f"{name.name} is a virtual table, whose rows are those of other tables",
            hint="write to the tables that its columns come from; SHOW CREATE VTABLE names them",
            span=name.span,
        )


def find_writable_table(name: Name, session: PlanningContext) -> tuple[Table, Database]:
    """Return the supertable or plain table of a name, with its database.

    Raises:
        ProgrammingError: It is virtual.
        NotSupportedError: It is a tree, whose series only its language changes.
    """
    table, database = find_table(name, session)
    refuse_virtual(table, name)
    if table.kind is TableKind.TREE:
        raise NotSupportedError(
            f"{table.name} is the table of the tree {database.name}, which this dialect only reads",
            hint="write to the tree with the iotdb dialect",
            span=name.span,
        )
    return table, database


def find_stream(name: Name, session: PlanningContext, missing_ok: bool) -> JobRecord | None:
    """Return the stream of a name, or None if it is missing and `missing_ok`."""
    jobs, database = session.context.catalog.jobs, database_of(name, session)
    if missing_ok:
        return jobs.find(database, name.name)
    try:
        return jobs.get(database, name.name)
    except NotFoundError as error:
        error.span = error.span or name.span
        raise
