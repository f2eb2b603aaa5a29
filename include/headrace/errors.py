"""Every error a user may see: a code, a message, a hint, and for SQL the position in the text.

Two families decide what supervision does: `TerminalError` waits for a person, `TransientError` may be retried.
The names that PEP 249 asks for (`ProgrammingError`, `OperationalError`, …) are bases of the leaves below.
"""

from __future__ import annotations

from typing import Final, Self

from headrace.model.masking import masked
from headrace.model.spans import Span


class Error(Exception):
    """Base of all errors. `code` is stable, `hint` says what to do; `sql` and `span` show where.

    `status` is the number that the statement's own language has for the error, if it has one; the message begins with it.
    """

    code = "HEADRACE"
    status: int | None = None

    def __init_subclass__(cls, *, code: str | None = None) -> None:
        cls.code = code or cls.code

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
    line, column = span.position(sql)
    begin = sql.rfind("\n", 0, span.start) + 1
    end = sql.find("\n", begin)
    text = masked(sql)[begin : end if end >= 0 else len(sql)]
    first = max(0, column - 61)
    last = first + MAX_LINE_CHARACTERS
    part = ("…" if first else "") + text[first:last] + ("…" if last < len(text) else "")
    offset = column - 1 - first + (1 if first else 0)
    length = min(span.end - span.start, len(part) - offset)
    return f"line {line}, column {column}:\n  {part}\n  {' ' * offset}{'^' * max(1, length)}"


class DatabaseError(Error, code="DATABASE"):
    """PEP 249: an error of the database."""


class InterfaceError(Error, code="INTERFACE"):
    """PEP 249: the interface was misused, for example by using a closed connection."""


class TerminalError(DatabaseError, code="TERMINAL"):
    """Retrying does not help; a user must act."""


class TransientError(DatabaseError, code="TRANSIENT"):
    """Another statement or process is in the way, for example one that holds a lock."""


class StaleDefinitionError(TransientError, code=TransientError.code):
    """The definition of a table has changed since a statement read it. Nothing is written; other writes are not affected."""


class ProgrammingError(TerminalError, code="PROGRAMMING"):
    """PEP 249: the statement is invalid."""


class DataError(TerminalError, code="DATA"):
    """PEP 249: a value is invalid."""


class ExpiredPointsError(DataError, code="EXPIRED_POINTS"):
    """Points to write are older than the time to live of their device. Nothing is written."""


class IntegrityError(TerminalError, code="INTEGRITY"):
    """PEP 249: the statement would violate the integrity of tables or streams."""


class NotSupportedError(TerminalError, code="NOT_SUPPORTED"):
    """PEP 249: the statement is valid, but not supported."""


class UnknownKindError(TerminalError, code="UNKNOWN_JOB_KIND"):
    """The catalog has a job of a kind that no package of this installation has registered."""


class OperationalError(TransientError, code="OPERATIONAL"):
    """PEP 249: Spark, the storage or the catalog's database failed."""


class InternalError(TerminalError, code="INTERNAL"):
    """PEP 249: a bug in Headrace."""


class SqlSyntaxError(ProgrammingError, code="SYNTAX"):
    """The text is not a valid statement of the dialect."""

    expected: tuple[str, ...] = ()
    """What could be in the place of the text at the span: keywords, and descriptions in lower case."""


class AuthenticationError(ProgrammingError, code="AUTHENTICATION"):
    """There is no such user, or the password is wrong. The message does not say which."""


class PermissionDeniedError(ProgrammingError, code="PERMISSION_DENIED"):
    """The user lacks a right that the statement requires, or the owner of a job one that it requires."""


class EgressDeniedError(ProgrammingError, code="EGRESS_DENIED"):
    """The settings do not allow a definition to name, or to reach, a host, a URI, a file or a folder."""


class NotFoundError(ProgrammingError, code="NOT_FOUND"):
    """A database, table, column, tag, stream or function of that name does not exist."""


class ExistsError(ProgrammingError, code="EXISTS"):
    """An object of that name already exists."""


class TypeMismatchError(ProgrammingError, code="TYPE"):
    """An expression has a type that is not allowed there."""


class LimitError(ProgrammingError, code="LIMIT"):
    """A value is beyond a limit of the language."""


class NoDatabaseError(ProgrammingError, code="NO_DATABASE"):
    """A name has no database, and none is selected."""


class InvalidStreamError(ProgrammingError, code="INVALID_STREAM"):
    """A query or option is not allowed in a stream."""


class InvalidCodeError(ProgrammingError, code="INVALID_CODE"):
    """A file of user code has no such class, or one that is no function, trigger or plugin."""


class UserCodeError(OperationalError, code="USER_CODE"):
    """User code failed, took too long, used too much memory, or ended its process."""

    traceback: str = ""
    """The traceback of the user's code, for its author."""


class FunctionError(DataError, code="FUNCTION"):
    """A user's function raised an exception for the rows that it was called with, ended its process, or used too much memory."""

    traceback: str = ""
    """The traceback of the function, for its author."""

    def __init__(self, message: str, *, hint: str = "", cause: str = "", span: Span | None = None, sql: str | None = None) -> None:
        super().__init__(message, hint=hint, span=span, sql=sql)
        self.cause = cause or message


class FunctionTimeoutError(FunctionError, code="FUNCTION_TIMEOUT"):
    """A user's function did not return in time for the rows that it was called with."""


class TriggerFireError(UserCodeError, code="TRIGGER_FIRE"):
    """A trigger failed. The message says whether the rows of the statement are written, and so does `is_written`."""

    is_written: bool = False


class FencedError(TerminalError, code="FENCED"):
    """This driver's lease has passed to another driver, so it may no longer commit."""


class StorageError(OperationalError, code="STORAGE"):
    """A Delta table cannot be read or written, because of the disk, the object store, or a damaged table."""


class ConflictError(StorageError, code="CONFLICT"):
    """Other writers kept committing to the table while this one tried to."""


class DamagedLogError(StorageError, code="LOG_DAMAGED"):
    """An entry in a Delta table's log is empty or cut, as after a power failure, or while a program writes it."""


class HistoryGoneError(TerminalError, code="HISTORY_GONE"):
    """Requested changes have been removed: their versions were vacuumed or their log was cleaned."""


class OffsetAheadError(TerminalError, code="OFFSET_AHEAD"):
    """A job has read versions of its source that do not exist any more, as after restoring the source alone."""


class NotificationRejectedError(TerminalError, code="NOTIFY_REJECTED"):
    """A webhook of NOTIFY has rejected a message, so that sending it again does not help."""


class ConfigurationError(TerminalError, code="CONFIGURATION"):
    """A setting, or a prerequisite (Java, a port), is invalid or missing."""
