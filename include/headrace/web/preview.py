"""Statements that show the latest rows of what a job reads or writes. The page's user runs them like those of the worksheet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from headrace.sql import lexical_rules_of

if TYPE_CHECKING:
    from headrace.model.jobs import JobDefinition
    from headrace.model.tables import TableId

Json = dict[str, Any]
PATH: Final = re.compile(r"root(?:\.(?:\w+|\*{1,2}|`[^`]+`))*")
PREVIEW_ROWS: Final = 20
MAX_RESULTS: Final = 20
"""Targets of a job whose rows can be shown."""


def table_preview(table: TableId) -> Json:
    """Return the statement for the latest rows of a table."""
    quote = lexical_rules_of("tdengine").name_sql
    name = f"{quote(table.database)}.{quote(table.name)}"
    return {"sql": f"SELECT * FROM {name} ORDER BY _rowts DESC LIMIT {PREVIEW_ROWS}", "dialect": "tdengine"}


def path_preview(path: str) -> Json | None:
    """Return the statement for the latest rows of devices; None if the text is no path of names and wildcards alone."""
    if PATH.fullmatch(path) is None:
        return None
    return {"sql": f"SELECT * FROM {path} ORDER BY TIME DESC LIMIT {PREVIEW_ROWS}", "dialect": "iotdb"}


def result_previews(definition: JobDefinition) -> list[Json]:
    """Return the targets of a job with the statement for the latest rows of each."""
    query = definition.continuous_query
    if query is not None:
        previews = [(target, path_preview(target)) for target in query.targets[:MAX_RESULTS]]
        return [{"label": label, **preview} for label, preview in previews if preview is not None]
    if definition.target is None or definition.pipe is not None:
        return []
    return [{"label": str(definition.target), **table_preview(definition.target)}]
