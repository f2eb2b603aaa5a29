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

TOPICS: Final[dict[str, tuple[type[Any], ...]]] = {
    "databases": (
        statements.CreateDatabase,
        statements.AlterDatabase,
        statements.MaintainDatabase,
        statements.DropDatabase,
        statements.UseDatabase,
    ),
    "tables": (statements.CreateTable, statements.DropTable),
    "alterations": (
        statements.AddColumn,
        statements.DropColumn,
        statements.ModifyColumn,
        statements.RenameColumn,
        statements.SetTableOptions,
    ),
    "subtables": (statements.CreateSubtables, statements.CreateSubtablesFromFile, statements.SetTags),
    "virtual_tables": (
        statements.CreateVirtualTable,
        statements.CreateVirtualSubtable,
        statements.AlterVirtualTable,
        statements.SetOrigin,
    ),
    "rows": (statements.Insert, statements.Delete),
    "inserts": (statements.InsertFiles, statements.InsertSelect),
    "shows": (statements.Describe, statements.Show),
    "streams": (statements.CreateStream, statements.DropStream, statements.PauseStream, statements.ResumeStream),
    "replacements": (statements.AlterStream, statements.ResetStream),
    "quarantine": (statements.ReplayStream, statements.DropQuarantine),
    "snodes": (statements.CreateSnode, statements.DropSnode, statements.KillQuery),
    "continuous_queries": (
        tree_statements.CreateContinuousQuery,
        tree_statements.DropContinuousQuery,
        tree_statements.PauseContinuousQuery,
        tree_statements.ResumeContinuousQuery,
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
"""The statements of each topic. Topics are imported on first use because most import Arrow and Delta."""
WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def plan(statement: Statement, session: PlanningContext) -> list[Stage]:
    """Plan a statement. Everything that can be refused is refused here.

    Raises:
        Error: The statement is refused, with a span if the text has a place to blame.
    """
    return load_planner(type(statement))(statement, session)


def load_planner(kind: type[Statement]) -> Callable[[Any, PlanningContext], list[Stage]]:
    """Import and return the planner of a kind of statement: of `CreateTable`, the function `plan_create_table` of its topic."""
    topic = next(topic for topic, kinds in TOPICS.items() if kind in kinds)
    name = f"plan_{WORD_START.sub('_', kind.__name__).lower()}"
    planner: Callable[[Any, PlanningContext], list[Stage]] = getattr(import_module(f"{__package__}.topics.{topic}"), name)
    return planner
