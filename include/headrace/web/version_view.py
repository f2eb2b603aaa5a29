"""JSON values that the page shows of the versions of a job's statement."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import Error
from headrace.model.masking import masked
from headrace.sql import parse, to_sql

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.model.jobs import JobDefinition

Json = dict[str, Any]
TOKEN: Final = re.compile(r"\s*(?:\w+|[^\w\s])|\s+$")
MAX_TOKENS: Final = 2_000
"""Longer statements are not compared word by word, which would take seconds."""
SAME: Final = "same"
REMOVED: Final = "removed"
ADDED: Final = "added"


def version_rows(catalog: Catalog, definition: JobDefinition) -> list[Json]:
    """Return the versions of a job, newest first, each with what the present statement changes of it."""
    current = comparable(definition.sql, definition.dialect)
    return [
        {
            "number": version.number,
            "time": version.time,
            "user": version.user_name,
            "changes": differences(comparable(version.sql, definition.dialect), current),
        }
        for version in reversed(catalog.job_versions.all(definition.id))
    ]


def comparable(sql: str, dialect: str) -> str:
    """Return a statement in the form that ALTER writes, so that spaces and upper case are no difference."""
    try:
        return masked(to_sql(parse(sql, dialect), dialect))
    except Error:
        return masked(sql)


def differences(old: str, new: str) -> list[tuple[str, str]]:
    """Return the texts of which two statements consist, in order, and whether each is the same, removed or added."""
    before, after = TOKEN.findall(old), TOKEN.findall(new)
    if old == new:
        return [(SAME, new)]
    if max(len(before), len(after)) > MAX_TOKENS:
        return [(REMOVED, old), (ADDED, new)]
    parts: list[tuple[str, str]] = []
    for action, first, end, other_first, other_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if action == "equal":
            parts.append((SAME, "".join(before[first:end])))
            continue
        parts += [(REMOVED, "".join(before[first:end])), (ADDED, "".join(after[other_first:other_end]))]
    return [part for part in parts if part[1]]
