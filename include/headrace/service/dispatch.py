"""Dispatch each kind of statement to its planner."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import NotFoundError
from headrace.model.statements import Statement
from headrace.model.tables import Name

if TYPE_CHECKING:
    from headrace.service.stage import PlanningContext, Stage

TOPICS: Final = {
    "access": (
        "create_user alter_user drop_user create_role drop_role grant_role grant_privileges list_users list_roles"
        " list_privileges grant_tables grant_secret"
    ),
    "databases": "create_database alter_database maintain_database drop_database use_database",
    "tables": "create_table drop_table",
    "external_tables": "create_external_table create_external_database",
    "alterations": "add_column drop_column modify_column rename_column set_table_options",
    "subtables": "create_subtables create_subtables_from_file set_tags",
    "virtual_tables": "create_virtual_table create_virtual_subtable alter_virtual_table set_origin",
    "rows": "insert delete",
    "inserts": "insert_files insert_select",
    "shows": "describe show",
    "streams": "create_stream drop_stream pause_stream resume_stream replay_stream drop_quarantine",
    "replacements": "alter_stream reset_stream",
    "snodes": "create_snode drop_snode kill_query kill_queries kill_connection",
    "continuous_queries": "create_continuous_query drop_continuous_query pause_continuous_query resume_continuous_query",
    "queries": "select explain",
    "functions": "create_function drop_function",
    "module_functions": "create_module_function drop_module_function",
    "trees.databases": "create_tree_database drop_tree_databases set_ttl",
    "trees.series": "create_timeseries drop_timeseries alter_timeseries",
    "trees.templates": "create_template alter_template drop_template set_template activate_template deactivate_template",
    "trees.points": "tree_insert tree_delete",
    "trees.pipes": "create_pipe alter_pipe drop_pipe start_pipe stop_pipe",
    "trees.triggers": "create_trigger drop_trigger start_trigger stop_trigger",
    "trees.pipe_plugins": "create_pipe_plugin drop_pipe_plugin",
    "trees.queries": "tree_select",
    "trees.shows": "tree_show",
}
"""The statements of each topic, in snake case. Topics are imported on first use because most import Arrow and Delta."""
WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def plan(statement: Statement, session: PlanningContext) -> list[Stage]:
    """Plan a statement. Everything that can be refused is refused here.

    Raises:
        Error: The statement is refused, with a span if the text has a place to blame.
    """
    try:
        return load_planner(type(statement))(statement, session)
    except NotFoundError as error:
        error.span = error.span or next((name.span for name in names_of(statement) if name.name in error.message), None)
        raise


def names_of(statement: Statement) -> Iterator[Name]:
    """Yield the names of tables, streams and databases that are fields of a statement."""
    for field in fields(statement):  # type: ignore[arg-type]  # all are dataclasses
        value = getattr(statement, field.name)
        yield from (name for name in (value if isinstance(value, tuple) else (value,)) if isinstance(name, Name))


def load_planner(kind: type[Statement]) -> Callable[[Any, PlanningContext], list[Stage]]:
    """Import and return the planner of a kind of statement: of `CreateTable`, the function `plan_create_table` of its topic."""
    name = WORD_START.sub("_", kind.__name__).lower()
    topic = next(topic for topic, names in TOPICS.items() if name in names.split())
    planner: Callable[[Any, PlanningContext], list[Stage]] = getattr(import_module(f"{__package__}.topics.{topic}"), f"plan_{name}")
    return planner
