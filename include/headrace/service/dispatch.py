"""Dispatch each kind of statement to its planner."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from headrace.model import statements, tree_statements
from headrace.model.statements import Statement

if TYPE_CHECKING:
    from headrace.service.stage import Stage
    from headrace.service.state import PlanningContext

PLANNERS: Final[dict[type[Any], tuple[str, str]]] = {
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
    tree_statements.CreateContinuousQuery: ("continuous_queries", "create"),
    tree_statements.DropContinuousQuery: ("continuous_queries", "drop"),
    tree_statements.PauseContinuousQuery: ("continuous_queries", "pause"),
    tree_statements.ResumeContinuousQuery: ("continuous_queries", "resume"),
}
"""Module and function of each statement's planner, imported on first use because most import Arrow and Delta."""
TOPICS: Final[dict[str, tuple[type[Any], ...]]] = {
    "databases": (
        statements.CreateDatabase,
        statements.AlterDatabase,
        statements.MaintainDatabase,
        statements.DropDatabase,
        statements.UseDatabase,
    ),
    "queries": (statements.Select, statements.Explain),
    "functions": (tree_statements.CreateFunction, tree_statements.DropFunction),
    "trees.databases": (tree_statements.CreateTreeDatabase, tree_statements.DropTreeDatabases, tree_statements.SetTTL),
    "trees.series": (tree_statements.CreateTimeseries, tree_statements.DropTimeseries, tree_statements.AlterTimeseries),
    "trees.templates": (
        tree_statements.CreateTemplate,
        tree_statements.AlterTemplate,
        tree_statements.DropTemplate,
        tree_statements.SetTemplate,
        tree_statements.ActivateTemplate,
        tree_statements.DeactivateTemplate,
    ),
    "trees.points": (tree_statements.TreeInsert, tree_statements.TreeDelete),
    "trees.queries": (tree_statements.TreeSelect,),
    "trees.shows": (tree_statements.TreeShow,),
}
"""The statements of each topic, whose modules are imported on first use because most import Arrow and Delta."""


WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def plan(statement: Statement, session: PlanningContext) -> list[Stage]:
    """Plan a statement. Everything that can be refused is refused here.

    Raises:
        Error: The statement is refused, with a span if the text has a place to blame.
    """
    return load_planner(type(statement))(statement, session)


def load_planner(kind: type[Statement]) -> Callable[[Any, PlanningContext], list[Stage]]:
    """Import and return the planner of a kind of statement."""
    if kind in PLANNERS:
        module, name = PLANNERS[kind]
        module = f"planning.{module}"
    else:
        module = next(f"topics.{topic}" for topic, kinds in TOPICS.items() if kind in kinds)
        name = f"plan_{WORD_START.sub('_', kind.__name__).lower()}"
    function: Callable[[Any, PlanningContext], list[Stage]] = getattr(import_module(f"{__package__}.{module}"), name)
    return function
