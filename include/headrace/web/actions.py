"""Actions on a job that the page offers. Each is a statement that the user sees before it runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.errors import Error
from headrace.jobs.actions import ALLOWED
from headrace.jobs.registry import is_known, kind_of
from headrace.model.jobs import JobRecord
from headrace.web.plan_view import plan_chains

if TYPE_CHECKING:
    from headrace.context import Context


def action_statement(action: str, record: JobRecord) -> str | None:
    """Return the statement of an action, or None if the job's state does not allow it."""
    definition = record.definition
    job_action = kind_of(definition).actions.get(action)
    if job_action is None or not ALLOWED[action](record):
        return None
    return job_action.sql(definition)


def shell_command(sql: str, dialect: str, default_dialect: str) -> str:
    option = "" if dialect == default_dialect else f"--dialect {dialect} "
    return f"headrace sql {option}{shlex.quote(sql)}"


def available_actions(
    record: JobRecord, is_permitted: Callable[[str], bool], default_dialect: str = "tdengine"
) -> list[dict[str, str]]:
    """Return the actions that the user has the right to and the job's state allows.

    Each has the action's name and label, its SQL statement, the shell command that runs the statement, and a sentence about its
    effect.
    """
    definition = record.definition
    if not is_known(definition.kind):
        return []
    effects, permitted = kind_of(definition).actions, filter(is_permitted, ALLOWED)
    statements = {action: action_statement(action, record) for action in permitted}
    return [
        {
            "action": action,
            "label": effects[action].label or action,
            "sql": sql,
            "command": shell_command(sql, definition.dialect, default_dialect),
            "effect": effects[action].effect(definition),
        }
        for action, sql in statements.items()
        if sql
    ]


def describe_plan(context: Context, record: JobRecord) -> dict[str, Any]:
    """Return the plan of a job's query as text and as steps, or the error that prevents planning it, without steps."""
    try:
        lines = list(kind_of(record.definition).page().plan(context, record.definition))
    except Error as error:
        return {"plan": str(error), "chains": []}
    return {"plan": "\n".join(lines), "chains": plan_chains(lines)}
