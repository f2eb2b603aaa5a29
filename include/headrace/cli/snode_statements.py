"""Statements that only read, answered by a live snode: it has imported what this process would have to import first."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.files import locate_error_in_file
from headrace.errors import Error
from headrace.runtime.snode_client import ARROW, JSON, SnodeEndpoint, read_endpoint, send_statement
from headrace.sql import DIALECTS, lexical_rules_of

if TYPE_CHECKING:
    from headrace.cli.output import Tabular

READING: Final = re.compile(r"(?:SELECT|SHOW|DESC|DESCRIBE)\b(?!.*\bINTO\b)", re.IGNORECASE | re.DOTALL)
"""Statements that change nothing."""
CATALOG_STATEMENT: Final = re.compile("SHOW|DESC", re.IGNORECASE)
CATALOG_SECONDS: Final = 10.0
"""After this long the client reads the catalog itself, which must be possible while an snode hangs."""


@dataclass(frozen=True, slots=True)
class JsonRows:
    """Rows from the JSON of an snode."""

    columns: list[dict[str, str]]
    rows: list[list[Any]]

    @property
    def names(self) -> list[str]:
        """Column names in order."""
        return [column["name"] for column in self.columns]

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows as Python values."""
        readers = [reader_of(column["type"]) for column in self.columns]
        for row in self.rows:
            yield tuple(None if value is None else read(value) for read, value in zip(readers, row, strict=True))


def find_endpoint(home: str | None, environment: Mapping[str, str]) -> SnodeEndpoint | None:
    """Return where the snode of a home serves statements; None if its last driver did not say, or it is of another catalog.

    Reads the few settings that it needs, since importing all settings takes longer than the statement.
    """
    settings = {name.upper(): value for name, value in environment.items()}
    if settings.get("HEADRACE_PASSWORD") or settings.get("HEADRACE_AUTH", "auto").lower() != "auto":
        return None  # A session has to check who this is.
    folder = os.path.realpath(os.path.expanduser(home or settings.get("HEADRACE_HOME") or ".headrace"))
    catalog_url = settings.get("HEADRACE_CATALOG_URL") or f"sqlite:///{os.path.join(folder, 'catalog.db')}"
    return read_endpoint(folder, catalog_url, settings.get("HEADRACE_SNODE") or "default")


def ask_snode(
    endpoint: SnodeEndpoint, text: str, dialect: str, database: str | None, file: str | None = None
) -> tuple[list[Tabular], Error | None] | None:
    """Have an snode answer statements if all of them only read; None if this process must run them.

    Returns the results of the statements before the first error, and the error, which names the file that they were read from.
    After a syntax error there are no results, as if all statements had been parsed first.
    """
    if dialect not in DIALECTS:
        return None
    spans = lexical_rules_of(dialect).statement_spans(text)
    if not spans or not all(READING.match(text, span.start, span.end) for span in spans):
        return None
    results: list[Tabular] = []
    for span in spans:
        try:
            with locate_error_in_file(text, span, file):
                rows = request_rows(endpoint, text[span.start : span.end], dialect, database)
        except Error as error:
            return [] if error.code == "SYNTAX" else results, error
        if rows is None:
            return None
        results.append(rows)
    return results, None


def request_rows(endpoint: SnodeEndpoint, statement: str, dialect: str, database: str | None) -> Tabular | None:
    """Have an snode run a statement, and return its rows; None if it does not answer."""
    timeout_s = CATALOG_SECONDS if CATALOG_STATEMENT.match(statement) else None
    body = {"sql": statement, "dialect": dialect, "database": database}
    response = send_statement(endpoint, body, f"{JSON}, {ARROW}", timeout_s)
    if response is None:
        return None
    content_type, content = response
    if content_type == JSON:
        answer = json.loads(content)
        return JsonRows(answer["columns"], answer["rows"])
    import pyarrow as pa

    from headrace.service.results import Result

    return Result(pa.ipc.open_stream(content).read_all())


def reader_of(arrow_type: str) -> Callable[[Any], Any]:
    """Return what turns a value of the JSON into a Python value, as those of `Result.tuples`."""
    if arrow_type.startswith("timestamp"):
        return datetime.fromisoformat
    if arrow_type.startswith("decimal") and arrow_type.endswith(" 0)"):
        return int
    if arrow_type in ("double", "float"):
        return float
    return base64.b64decode if "binary" in arrow_type else lambda value: value
