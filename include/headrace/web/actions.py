"""Actions on a job that the page offers. Each is a statement that the user sees before it runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import Error
from headrace.jobs.actions import ALLOWED
from headrace.jobs.registry import is_known, kind_of
from headrace.model.jobs import JobRecord

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


Json = dict[str, Any]
SOURCE: Final = re.compile(r"(scan|align by time|union|rows of|one row|sub-query|\w+ join|\d+ copies)\b")
"""Lines that start a chain of steps; the indented lines after them are what they read."""
WORDS: Final = re.compile(
    r"(scan|filter|time range|partition by|group by|window|aggregate|fill|having|distinct|order by|limit|result)\b:? ?"
)
INDENT: Final = "  "


def plan_chains(lines: Sequence[str]) -> list[list[Json]]:
    """Return chains of steps in the order in which rows pass them.

    Each step has `kind`, `texts` (several of steps that run at once, such as aggregates), and `inputs`, which are chains again. A
    plan is one chain, the sides of a join are two.
    """
    chains: list[list[Json]] = []
    for line, children in blocks(lines):
        step = step_of(line, children)
        if not chains or SOURCE.match(line):
            chains.append([step])
        elif step["kind"] == chains[-1][-1]["kind"] == "aggregate":
            chains[-1][-1]["texts"] += step["texts"]
        else:
            chains[-1].append(step)
    return chains


def blocks(lines: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the lines that are not indented, each with the indented lines after it, which lose one level."""
    result: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith(INDENT) and result:
            result[-1][1].append(line.removeprefix(INDENT))
        else:
            result.append((line, []))
    return result


def step_of(line: str, children: Sequence[str]) -> Json:
    word = WORDS.match(line)
    kind = word.group(1) if word else "read" if SOURCE.match(line) else "step"
    text = line[word.end() :] if word else line
    return {"kind": kind, "texts": [text] if text else [], "inputs": plan_chains(children)}
