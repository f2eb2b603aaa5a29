"""The definitions of a project: CREATE statements in files, in the order in which they are applied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final

from headrace.cli.files import locate_error_in_file
from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.spans import Span
from headrace.model.statements import CreateStream, CreateSubtables, Statement, UseDatabase
from headrace.model.tables import Name
from headrace.model.tree_statements import CreateContinuousQuery, CreatePipe
from headrace.sql import lexical_rules_of, parse

DIALECT: Final = re.compile(r"\s*--\s*dialect:\s*(\w+)")
"""The first line of a file whose statements are not in the dialect of the command."""
KINDS: Final = (
    "database",
    "stable",
    "table",
    "vtable",
    "aligned timeseries",
    "timeseries",
    "schema template",
    "device template",
    "aggregate function",
    "function",
    "pipeplugin",
    "stream",
    "continuous query",
    "cq",
    "pipe",
    "stateless trigger",
    "stateful trigger",
    "trigger",
)
"""What a project may define, in the order in which objects need each other."""
WORDS: Final = "|".join(KINDS).replace(" ", r"\s+")
CREATE: Final = re.compile(rf"CREATE\s+(?:OR\s+REPLACE\s+)?({WORDS})\s", re.IGNORECASE)


@dataclass(frozen=True)
class Definition:
    """A CREATE statement of a file. `database` is that of `USE` before it."""

    file: Path
    text: str
    span: Span
    sql: str
    dialect: str
    statement: Statement = field(compare=False)
    database: str | None = None

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.file}:{self.span.position(self.text)[0]}"

    @property
    def kind(self) -> str:
        """What the statement creates, in lower case."""
        found = CREATE.match(self.sql)
        assert found is not None
        kind = " ".join(found[1].lower().split())
        return "continuous query" if kind == "cq" else kind

    @property
    def name(self) -> str:
        """What it is called, as `database.name` if it belongs to a database."""
        statement = self.statement
        if isinstance(statement, CreateSubtables):
            return ", ".join(self._full_name(subtable.name) for subtable in statement.subtables)
        name = getattr(statement, "name", None) or getattr(statement, "path", None) or getattr(statement, "device", "")
        return self._full_name(name) if isinstance(name, Name) and self.kind != "database" else str(name)

    def _full_name(self, name: Name) -> str:
        database = name.database or self.database
        return f"{database}.{name.name}" if database else name.name

    @property
    def rank(self) -> int:
        """Its place in `KINDS`."""
        return KINDS.index(self.kind)


JOBS: Final = (CreateStream, CreateContinuousQuery, CreatePipe)
"""Statements that the catalog keeps, so that it is known whether they have changed."""


def read_definitions(path: Path, dialect: str) -> list[Definition]:
    """Return the definitions of a file, or of the `.sql` files of a folder and its folders, in the order to apply them.

    Raises:
        NotFoundError: There is no file.
        ProgrammingError: A statement creates nothing.
        SqlSyntaxError: A statement cannot be parsed; the message has its place.
    """
    files = [path] if path.is_file() else sorted(path.rglob("*.sql"))
    if not files:
        raise NotFoundError(f"{path} has no definitions", hint="name a .sql file, or a folder with such files")
    definitions = [definition for file in files for definition in read_file(file, dialect)]
    return sorted(definitions, key=lambda definition: definition.rank)


def read_file(file: Path, dialect: str) -> Iterator[Definition]:
    """Yield the definitions of a file in their order."""
    text, database = file.read_text(), None
    marked = DIALECT.match(text)
    language = marked[1].lower() if marked else dialect
    for span in lexical_rules_of(language).statement_spans(text):
        sql = text[span.start : span.end]
        with locate_error_in_file(text, span, str(file)):
            statement = parse(sql, language)
            if isinstance(statement, UseDatabase):
                database = statement.name.name
                continue
            if not CREATE.match(sql):
                raise ProgrammingError(
                    f"a definition creates a {', '.join(KINDS)}", hint="run other statements with `headrace sql -f FILE`"
                )
        yield Definition(file, text, span, sql, language, statement, database)


def comparable(statement: Statement, database: str | None) -> Statement:
    """Return a statement with full names and without what only says how to apply it."""
    flags = {name: False for name in ("if_not_exists", "or_replace") if hasattr(statement, name)}
    plain: Statement = replace(qualified(statement, database), **flags)
    return plain


def qualified(part: Any, database: str | None) -> Any:
    """Return a part of a statement in which all names have their database."""
    if isinstance(part, Name):
        return replace(part, database=part.database or database)
    if isinstance(part, tuple):
        return tuple(qualified(item, database) for item in part)
    if not is_dataclass(part) or isinstance(part, type):
        return part
    own = {f.name: getattr(part, f.name) for f in fields(part) if f.init}
    changed = {name: new for name, value in own.items() if (new := qualified(value, database)) is not value}
    return replace(part, **changed) if changed else part
