"""Every error a user may see: a code, a message, a hint, and for SQL the position in the text.

Two families decide what supervision does: `TerminalError` waits for a person, `TransientError` may be retried.
The names that PEP 249 asks for (`ProgrammingError`, `OperationalError`, …) are bases of the leaves below.
"""

from __future__ import annotations

from typing import Final, Self

from headrace.model.notifications import masked
from headrace.model.spans import Span


class Error(Exception):
    """Base of all errors. `code` is stable, `hint` says what to do; `sql` and `span` show where.

    `status` is the number that the statement's own language has for the error, if it has one; the message begins with it.
    """

    code = "HEADRACE"
    status: int | None = None

    def __init__(self, message: str, *, hint: str = "", span: Span | None = None, sql: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.span = span
        self.sql = sql

    def with_sql(self, sql: str) -> Error:
        """Return the error with the statement that caused it."""
        if self.sql is None:
            self.sql = sql
        return self

    def with_status(self, status: int) -> Self:
        """Return the error with a status of the statement's language, unless it has one."""
        if self.status is None:
            self.status = status
            self.message = f"{status}: {self.message}"
        return self

    def __str__(self) -> str:
        parts = [f"[{self.code}] {self.message}"]
        if self.sql is not None and self.span is not None:
            parts.append(underline(self.sql, self.span))
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


MAX_LINE_CHARACTERS: Final = 120
"""Characters shown of a line of the statement."""


def underline(sql: str, span: Span) -> str:
    """Return the line in which a span starts, with the span underlined."""
    line, column = span.position(sql)
    begin = sql.rfind("\n", 0, span.start) + 1
    end = sql.find("\n", begin)
    text = masked(sql[begin : end if end >= 0 else len(sql)])
    first = max(0, column - 61)
    last = first + MAX_LINE_CHARACTERS
    part = ("…" if first else "") + text[first:last] + ("…" if last < len(text) else "")
    offset = column - 1 - first + (1 if first else 0)
    length = min(span.end - span.start, len(part) - offset)
    return f"line {line}, column {column}:\n  {part}\n  {' ' * offset}{'^' * max(1, length)}"


class DatabaseError(Error):
    """PEP 249: an error of the database."""

    code = "DATABASE"


class InterfaceError(Error):
    """PEP 249: the interface was misused, for example by using a closed connection."""

    code = "INTERFACE"


class TerminalError(DatabaseError):
    """Retrying does not help; a user must act."""

    code = "TERMINAL"


class TransientError(DatabaseError):
    """Another statement or process is in the way, for example one that holds a lock."""

    code = "TRANSIENT"


class ProgrammingError(TerminalError):
    """PEP 249: the statement is invalid."""

    code = "PROGRAMMING"


class DataError(TerminalError):
    """PEP 249: a value is invalid."""

    code = "DATA"


class IntegrityError(TerminalError):
    """PEP 249: the statement would violate the integrity of tables or streams."""

    code = "INTEGRITY"


class NotSupportedError(TerminalError):
    """PEP 249: the statement is valid, but not supported."""

    code = "NOT_SUPPORTED"


class UnknownKindError(TerminalError):
    """The catalog has a job of a kind that no package of this installation has registered."""

    code = "UNKNOWN_JOB_KIND"


class OperationalError(TransientError):
    """PEP 249: Spark, the storage or the catalog's database failed."""

    code = "OPERATIONAL"


class InternalError(TerminalError):
    """PEP 249: a bug in Headrace."""

    code = "INTERNAL"


class SqlSyntaxError(ProgrammingError):
    """The text is not a valid statement of the dialect."""

    code = "SYNTAX"


class NotFoundError(ProgrammingError):
    """A database, table, column, tag, stream or function of that name does not exist."""

    code = "NOT_FOUND"


class ExistsError(ProgrammingError):
    """An object of that name already exists."""

    code = "EXISTS"


class TypeMismatchError(ProgrammingError):
    """An expression has a type that is not allowed there."""

    code = "TYPE"


class LimitError(ProgrammingError):
    """A value is beyond a limit of the language."""

    code = "LIMIT"


class InvalidStreamError(ProgrammingError):
    """A query or option is not allowed in a stream."""

    code = "INVALID_STREAM"


class FencedError(TerminalError):
    """This driver's lease has passed to another driver, so it may no longer commit."""

    code = "FENCED"


class StorageError(OperationalError):
    """A Delta table cannot be read or written, because of the disk, the object store, or a damaged table."""

    code = "STORAGE"


class ConflictError(StorageError):
    """Other writers kept committing to the table while this one tried to."""

    code = "CONFLICT"


class HistoryGoneError(TerminalError):
    """Requested changes have been removed: their versions were vacuumed or their log was cleaned."""

    code = "HISTORY_GONE"


class ConfigurationError(TerminalError):
    """A setting, or a prerequisite (Java, a port), is invalid or missing."""

    code = "CONFIGURATION"
