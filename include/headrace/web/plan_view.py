"""JSON values of the picture of a plan: the lines of EXPLAIN as steps, each with what flows into it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

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
