"""What applying definitions would change in the catalog."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace.cli.project.definitions import JOBS, Definition, comparable
from headrace.errors import Error, ExistsError, NotFoundError
from headrace.model.jobs import DesiredState, JobRecord
from headrace.model.masking import masked
from headrace.model.statements import CreateDatabase, CreateStream, CreateTable
from headrace.pipes.kind import PIPE
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.sql import parse
from headrace.streams.kind import STREAM

if TYPE_CHECKING:
    from headrace.service.session import Session

DROP: Final = {STREAM: "DROP STREAM {}", CONTINUOUS_QUERY: "DROP CONTINUOUS QUERY {}", PIPE: "DROP PIPE {}"}
AGAIN: Final = {
    CONTINUOUS_QUERY: "it is dropped and created again: its targets keep their rows, and its schedule begins again",
    PIPE: "it is dropped and created again: it transfers its history again",
}
WORD: Final = re.compile(r"\w+")
COSTS: Final = ("fill history", "replace", "recompute", "keep", "drop")
"""How the lines of EXPLAIN begin that say what is computed, and at which cost."""


class Action(Enum):
    """What is to be done, with the sign that shows it."""

    CREATE = "+"
    REPLACE = "~"
    KEEP = "="
    DIFFER = "!"
    EXTRA = "-"


@dataclass(frozen=True)
class Change:
    """One object: what is to be done, by which statements, and what to say about it."""

    action: Action
    kind: str
    name: str
    definition: Definition | None = None
    statements: tuple[tuple[str, str], ...] = ()
    details: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The object and the place of its definition."""
        place = "" if self.definition is None else f"  {self.definition.place}"
        return f"{self.action.value} {self.kind} {self.name}{place}"


def plan_changes(sessions: dict[str, Session], definitions: Sequence[Definition]) -> list[Change]:
    """Return a change for each definition, and one for each job of their databases that no file defines.

    Raises:
        Error: A definition is invalid; the message has its place.
    """
    records = present_jobs(next(iter(sessions.values())))
    changes: list[Change] = []
    for definition in definitions:
        is_pending = needs_any(definition, [change.definition for change in changes if change.action is Action.CREATE])
        record = records.get((definition.kind, definition.name))
        try:
            changes.append(plan_change(sessions[definition.dialect], definition, record, is_pending=is_pending))
        except Error as error:
            error.message = f"{definition.place}: {error.message}"
            raise
    return [*changes, *extra_jobs(records, definitions)]


def needs_any(definition: Definition, pending: Sequence[Definition | None]) -> bool:
    """Return whether a definition reads, or is in, something that is yet to be created."""
    _, _, reads = definition.sql.upper().partition("FROM ")
    words = set(WORD.findall(reads)) | set(WORD.findall(definition.name.upper().rpartition(".")[0]))
    return any(words & names_of(other) for other in pending if other is not None)


def names_of(definition: Definition) -> set[str]:
    """Return the names under which others read what a definition creates, in upper case."""
    target = getattr(definition.statement, "target", None)
    names = [definition.name, *([str(target)] if target is not None else [])]
    return {name.upper().rpartition(".")[2] for name in names}


def present_jobs(session: Session) -> dict[tuple[str, str], JobRecord]:
    """Return the streams, continuous queries and pipes of the catalog by kind and full name."""
    records = session.context.catalog.jobs.all()
    return {
        (record.definition.kind, str(record.definition)): record for record in records if record.desired is not DesiredState.DROPPED
    }


def plan_change(session: Session, definition: Definition, record: JobRecord | None, *, is_pending: bool) -> Change:
    """Return what one definition changes. With `is_pending`, it needs what the changes before it create."""
    if record is not None:
        return plan_known(session, definition, record)
    try:
        if has_database(session, definition):
            raise ExistsError("it exists", hint="")
        session.database = definition.database
        lines = session.explain(session.stages(definition.sql))
    except ExistsError:
        return compare_table(session, definition)
    except NotFoundError:
        if not is_pending:
            raise
        lines = []
    return Change(
        Action.CREATE, definition.kind, definition.name, definition, ((definition.dialect, definition.sql),), costs(lines)
    )


def plan_known(session: Session, definition: Definition, record: JobRecord) -> Change:
    """Return what a definition changes of a job that the catalog has."""
    kind, name, stored = definition.kind, definition.name, record.definition
    present = comparable(parse(stored.sql, stored.dialect), stored.database or None)
    if present == comparable(definition.statement, definition.database):
        return Change(Action.KEEP, kind, name, definition)
    difference = tuple(sql_difference(masked(stored.sql), masked(definition.sql)))
    if isinstance(definition.statement, CreateStream):
        sql = with_replacement(definition)
        session.database = definition.database
        lines = session.explain(session.stages(sql))
        return Change(Action.REPLACE, kind, name, definition, ((definition.dialect, sql),), (*difference, *costs(lines)))
    drop = DROP[kind].format(name)
    statements = ((definition.dialect, drop), (definition.dialect, definition.sql))
    return Change(Action.REPLACE, kind, name, definition, statements, (*difference, AGAIN[kind]))


def has_database(session: Session, definition: Definition) -> bool:
    """Return whether a definition is of a database that exists."""
    if not isinstance(definition.statement, CreateDatabase):
        return False
    return any(database.name == definition.statement.name.name for database in session.context.catalog.databases.all())


def compare_table(session: Session, definition: Definition) -> Change:
    """Return whether a table has the columns of its definition; other objects that exist are not compared."""
    statement = definition.statement
    if not isinstance(statement, CreateTable):
        return Change(Action.KEEP, definition.kind, definition.name, definition)
    database, _, name = definition.name.rpartition(".")
    table = session.context.catalog.tables.get(database, name)
    wanted = {column.name: str(column.type) for column in (*statement.columns, *statement.tags)}
    present = {column.name: str(column.type) for column in (*table.columns, *table.tags)}
    details = [f"column {column} {wanted[column]} is missing: ALTER the table" for column in wanted if column not in present]
    details += [
        f"column {column} is in no definition" for column in present if column not in wanted and wanted.keys() & present.keys()
    ]
    details += [
        f"column {column} is {present[column]}, not {wanted[column]}"
        for column in wanted.keys() & present.keys()
        if wanted[column] != present[column]
    ]
    action = Action.DIFFER if details else Action.KEEP
    return Change(action, definition.kind, definition.name, definition, details=tuple(sorted(details)))


def extra_jobs(records: dict[tuple[str, str], JobRecord], definitions: Sequence[Definition]) -> Iterator[Change]:
    """Yield the jobs of the catalog that no file defines, of kinds and databases that files define some of."""
    known = {(definition.kind, definition.name) for definition in definitions}
    databases = {definition.name.partition(".")[0] for definition in definitions if isinstance(definition.statement, JOBS)}
    kinds = {definition.kind for definition in definitions}
    for (kind, name), record in records.items():
        job = record.definition
        if (kind, name) not in known and kind in kinds and (not job.database or job.database in databases):
            yield Change(Action.EXTRA, kind, name, statements=((job.dialect, DROP[kind].format(name)),))


def with_replacement(definition: Definition) -> str:
    """Return the statement of a stream with OR REPLACE."""
    head, tail = definition.sql[:6], definition.sql[6:]
    return definition.sql if getattr(definition.statement, "or_replace", False) else f"{head} OR REPLACE{without_condition(tail)}"


def without_condition(text: str) -> str:
    """Return the rest of a CREATE statement without IF NOT EXISTS, which excludes OR REPLACE."""
    words = text.split(maxsplit=4)
    is_conditional = [word.upper() for word in words[1:4]] == ["IF", "NOT", "EXISTS"]
    return f" {words[0]} {words[4]}" if is_conditional else text


def costs(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of EXPLAIN that say what is computed, and at which cost, with what is indented below them."""
    chosen, inside = [], False
    for line in lines:
        inside = line.startswith(COSTS) if not line.startswith(" ") else inside
        if inside:
            chosen.append(line)
    return tuple(chosen)


def sql_difference(before: str, after: str) -> Iterator[str]:
    """Yield the lines that differ, marked as `diff` does."""
    for line in difflib.ndiff(before.strip().splitlines(), after.strip().splitlines()):
        if line[:1] in "+-":
            yield line.rstrip()
