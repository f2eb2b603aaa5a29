"""Statements of the page's worksheet. Snodes run them, with the rights of the user: the web server starts no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.context import Context
from headrace.errors import Error, OperationalError
from headrace.model.masking import masked
from headrace.model.queries import Query, TableSource
from headrace.model.statements import Select, Statement, UseDatabase
from headrace.model.tables import Name
from headrace.model.tree_queries import TreeQuery
from headrace.model.tree_statements import TreeSelect
from headrace.runtime.living_snodes import endpoint_of, living_snodes
from headrace.runtime.snode_client import JSON, post
from headrace.service.completion import Suggestion, complete
from headrace.service.completion_names import VisibleNames
from headrace.service.concealment import SYSTEM_SCHEMA
from headrace.service.session import Session
from headrace.service.statement_kinds import only_reads
from headrace.sql import lexical_rules_of, parse

if TYPE_CHECKING:
    from headrace.model.snodes import Heartbeat
    from headrace.web.users import MappedAccess, StatementRights

ANSWER_S: Final = 5.0
"""Seconds to wait for the answer to what should take none: the end of a query, and names to complete a path with."""
MAX_CHILDREN: Final = 200
NOT_IN_STREAMS: Final = ("ORDER BY", "SLIMIT", "LIMIT")
"""Clauses at the end of a query that a stream may not have."""
AWAY: Final = "start one with `headrace up`, or see why its DAG does not run"


@dataclass(frozen=True, slots=True)
class WorksheetStatement:
    """A statement, its dialect and current database, and the name by which its user may cancel it."""

    sql: str
    dialect: str
    database: str | None
    label: str = ""


class StatementSlots:
    """Bounds the statements that run at a time. Used from one thread."""

    def __init__(self, max_count: int) -> None:
        """Create it; one user may have half of them."""
        self._max_count, self._max_own = max_count, max(1, max_count // 2)
        self._counts: dict[str, int] = {}

    @contextmanager
    def taken(self, user: str) -> Iterator[None]:
        """Hold one of them.

        Raises:
            OperationalError: All are held, or those of the user.
        """
        own = self._counts.get(user, 0)
        if own >= self._max_own or sum(self._counts.values()) >= self._max_count:
            whose = "yours run" if own >= self._max_own else "run"
            raise OperationalError(f"too many statements of worksheets {whose}", hint="wait until one has ended, or cancel one")
        self._counts[user] = own + 1
        try:
            yield
        finally:
            self._counts[user] -= 1
            if not self._counts[user]:
                del self._counts[user]


class Worksheet:
    """Runs, cancels and completes statements for users of the page. Thread-safe."""

    def __init__(self, access: MappedAccess, context: Callable[[], Context]) -> None:
        """Create it; `context` has the catalog and the settings."""
        self._access, self._context = access, context

    def run(self, user: Any, statement: WorksheetStatement, origin: str) -> bytes:
        """Run a statement, and return the first rows of its result as JSON, as `POST /sql` of an snode writes it.

        Raises:
            Error: The statement failed, or no snode is there to run it.
        """
        changes = not only_reads(parse(statement.sql, statement.dialect))
        rights = self._access.statement_rights(user, changes=changes)
        return self._send(rights, statement, origin, self._context().settings.worksheet_rows)

    def cancel(self, user: Any, label: str) -> bool:
        """End the queries that a user runs under a label; return False if there are none, as before a query has begun.

        Raises:
            Error: An snode does not answer.
        """
        rights = self._access.statement_rights(user, changes=False)
        body = {"label": label, "user": rights.principal.name}
        answers = [post(endpoint_of(snode, self._context()), "/sql/cancel", body, JSON, ANSWER_S) for snode in self._snodes(rights)]
        return any(b"true" in content for _, content in filter(None, answers))

    def is_ready(self, user: Any) -> bool:
        """Return whether an snode is alive that may run statements of a user.

        Raises:
            Error: The user may run none.
        """
        return next(self._snodes(self._access.statement_rights(user, changes=False)), None) is not None

    def databases(self, user: Any) -> list[str]:
        """Return the databases that a user may know of, without trees."""
        return self._names("tdengine", None, self._access.statement_rights(user, changes=False)).databases()

    def complete(self, user: Any, text: str, cursor: int, dialect: str, database: str | None) -> tuple[list[Suggestion], int]:
        """Return what may take the place of the word before a cursor, and the length of that word."""
        rights = self._access.statement_rights(user, changes=False)
        return complete(text, cursor, dialect, database, self._names(dialect, database, rights))

    def names(self, user: Any, dialect: str, path: Sequence[str]) -> list[dict[str, str]]:
        """Return what a user may know of below a path: databases, the tables of one, the columns of a table, or nodes of a tree.

        Each has its name, the `text` by which a statement names it, and the type of a column.
        """
        names = self._names(dialect, None, self._access.statement_rights(user, changes=False))
        quote = lexical_rules_of(dialect).name_sql
        match dialect, path:
            case "iotdb", []:
                return [{"name": name, "text": name, "type": ""} for name in names.trees()]
            case "iotdb", [tree, *nodes] if tree in names.trees():
                above = ".".join((tree, *map(quote, nodes)))
                return [{"name": name, "text": f"{above}.{quote(name)}", "type": ""} for name in names.children(above)]
            case "tdengine", []:
                return [{"name": name, "text": quote(name), "type": ""} for name in names.databases()]
            case "tdengine", [database]:
                tables = names.tables(database)
                return [{"name": name, "text": f"{quote(database)}.{quote(name)}", "type": ""} for name in tables]
            case "tdengine", [database, table]:
                return [{"name": name, "text": quote(name), "type": type_} for name, type_ in names.columns(database, table)]
        return []

    def _names(self, dialect: str, database: str | None, rights: StatementRights) -> VisibleNames:
        session = Session(self._context(), dialect, database, principal=rights.principal, reads_files=False)
        return VisibleNames(session.context, partial(self._children, rights))

    def _children(self, rights: StatementRights, path: str) -> list[str]:
        """Return the nodes below a path of a tree; none if no snode answers."""
        import json

        statement = WorksheetStatement(f"SHOW CHILD NODES {path}", "iotdb", None)
        try:
            return [name for (name,) in json.loads(self._send(rights, statement, "page", MAX_CHILDREN, ANSWER_S))["rows"]]
        except Error:
            return []

    def _snodes(self, rights: StatementRights) -> Iterator[Heartbeat]:
        return (snode for snode in living_snodes(self._context()) if snode.snode in rights.snodes)

    def _send(
        self, rights: StatementRights, statement: WorksheetStatement, origin: str, max_rows: int, timeout_s: float | None = None
    ) -> bytes:
        """Have the first snode that can be reached run a statement."""
        body = {
            "sql": statement.sql,
            "dialect": statement.dialect,
            "database": statement.database or None,
            "user": rights.principal.name,
            "origin": origin,
            "label": statement.label,
            "max_rows": max_rows,
        }
        answers = (post(endpoint_of(snode, self._context()), "/sql", body, JSON, timeout_s) for snode in self._snodes(rights))
        answer = next((one for one in answers if one is not None), None)
        if answer is None:
            raise OperationalError("no snode is alive to run the statement", hint=AWAY)
        return answer[1]


def statements_of(text: str, dialect: str) -> list[dict[str, Any]]:
    """Return the statements of a text: where each is, its text without secrets, the database that a `USE` chooses, and its job."""
    spans = lexical_rules_of(dialect).statement_spans(text)
    return [{"start": span.start, "end": span.end, **describe(text[span.start : span.end], dialect)} for span in spans]


def describe(sql: str, dialect: str) -> dict[str, Any]:
    try:
        statement: Statement | None = parse(sql, dialect)
    except Error:
        statement = None
    use = statement.name.name if isinstance(statement, UseDatabase) else None
    return {"masked": masked(sql), "use": use, "job": job_of(sql, statement)}


def job_of(sql: str, statement: Statement | None) -> dict[str, str] | None:
    """Return kind, name and statement of a job that maintains the result of a query; None if it is not a query for one.

    What a stream may not have at the end of its query is left out.
    """
    match statement:
        case Select(query=Query(source=TableSource(name=Name(database=database)))) if database == SYSTEM_SCHEMA:
            return None
        case Select(query=Query(source=source, clause_spans=spans)) if source is not None:
            end = min((spans[clause].start for clause in NOT_IN_STREAMS if clause in spans), default=len(sql))
            return {
                "kind": "stream",
                "name": "my_stream",
                "sql": f"CREATE STREAM my_stream INTO my_stream_out AS\n{sql[:end].rstrip()}",
            }
        case TreeSelect(query=TreeQuery(into=(_, *_), grouping=grouping)) if grouping is not None:
            return {
                "kind": "continuous query",
                "name": "my_query",
                "sql": f"CREATE CONTINUOUS QUERY my_query BEGIN\n  {sql}\nEND",
            }
    return None
