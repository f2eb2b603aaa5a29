"""Errors of user code: a failure in a code host as an error that names the function and the rows."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.code.host_main import CHANNEL_EXIT
from headrace.code.protocol import GarbageError, Header
from headrace.errors import (
    Error,
    FunctionError,
    FunctionTimeoutError,
    InvalidCodeError,
    LimitError,
    TypeMismatchError,
    UserCodeError,
)

MAX_TEXT_CHARACTERS: Final = 20_000
REFUSAL_HINT: Final = "if it may, add its owner and its name to that setting, as owner/name"


@dataclass(frozen=True, slots=True)
class Call:
    """What has been asked of user code: the function's name, and the rows, whose first column is a series or group.

    `rows` says which rows there are if their first column does not. If it `is_function`, it fails because of its rows.
    """

    function: str
    table: pa.Table | None = None
    rows: str = ""
    is_function: bool = False

    @property
    def fails_by_rows(self) -> bool:
        """Whether a failure is an error of the rows, as one of a value that cannot be computed is."""
        return self.is_function and self.table is not None

    def failure(self, rows: str = "") -> str:
        """Return a text that says that the call has failed on some rows, by default on all."""
        rows = rows or self._rows()
        return f"{self.function} failed{f' on {rows}' if rows else ''}"

    def rows_text(self, number: int, times: Any) -> str:
        """Return a text that names a series or group, and the first and last time of its rows, if it has such."""
        name = self.table.schema.names[0] if self.table is not None else "series"
        return f"{name} {number}{when_text(times)}"

    def _rows(self) -> str:
        if self.rows:
            return self.rows
        if self.table is None or not self.table.num_rows:
            return ""
        name, has_times = self.table.schema.names[0], "time" in self.table.schema.names
        first, last = pc.min_max(self.table[name]).as_py().values()
        if first == last:
            return self.rows_text(first, [self.table["time"][index].as_py() for index in (0, -1)] if has_times else None)
        return f"{name} {first} to {last}"


def when_text(times: Any) -> str:
    """Return a text that names the first and last time of rows, empty if they have none."""
    match times:
        case [int(first), int(last)]:
            return f" at time {first}" if first == last else f" between times {first} and {last}"
    return ""


def error_of_answer(call: Call, error: Header, *, network: bool) -> Error:
    """Return the error that an answer of a host, with or without the network, describes. It may come from hostile code."""
    kind, type_name, message, line, trace = (text(error, name) for name in ("kind", "type", "message", "line", "traceback"))
    if kind in ("parameter", "strategy"):
        return parameter_error(message, is_executed=kind == "strategy" or call.table is not None)
    if kind == "load":
        return InvalidCodeError(message, hint="check the name of the class, which is written as 'module.Class', and the URI")
    if kind == "method":
        return InvalidCodeError(message, hint="define it in the class, or in one of those that it derives from")
    if kind == "lost":
        return UserCodeError(f"{call.failure()}: its code host was replaced in the middle of the rows", hint="try again")
    place = f" at {line}" if line else ""
    cause = {"exit": f"ended the process by {type_name}", "memory": f"used more memory than allowed: {type_name}"}
    is_refused = not network and error.get("is_of_network") is True
    refusal = "; HEADRACE_CODE_NETWORK does not let it open connections" if is_refused else ""
    reason = f"{cause.get(kind, type_name)}{f': {message}' if message else ''}{place}{refusal}"
    hint = REFUSAL_HINT if is_refused else hints(kind)
    message = f"{call.failure(rows_of(call, error))}: {reason}"
    failure = FunctionError(message, hint=hint, cause=reason) if call.fails_by_rows else UserCodeError(message, hint=hint)
    failure.traceback = trace
    return failure


def parameter_error(message: str, *, is_executed: bool = False, hint: str = "") -> TypeMismatchError:
    """Return the error for parameters that a function rejects by `ParameterError`, possibly when it is executed."""
    from headrace.compute.iotdb.types import (  # Spark's workers run functions, and need nothing else of `compute`
        EXECUTION_ERROR,
        SEMANTIC_ERROR,
        type_error,
    )

    return type_error(message, hint, EXECUTION_ERROR if is_executed else SEMANTIC_ERROR)


def limit_error(message: str) -> LimitError:
    """Return the error for a function that would take too many steps, or too much memory."""
    from headrace.compute.iotdb.types import EXECUTION_ERROR

    return LimitError(message, hint="narrow the query with WHERE, or change the parameters").with_status(EXECUTION_ERROR)


def hints(kind: str) -> str:
    if kind == "memory":
        return "process fewer rows at a time, or raise HEADRACE_CODE_MEMORY"
    return "correct the function; its output is in the log of the code host"


def timeout_error(call: Call, timeout_s: float) -> UserCodeError | FunctionError:
    """Return the error for a call that was ended because it took too long."""
    cause, hint = f"it took longer than {timeout_s:g} s and was ended", "correct the function, or raise HEADRACE_CODE_TIMEOUT_S"
    if call.fails_by_rows:
        return FunctionTimeoutError(f"{call.failure()}: {cause}", hint=hint, cause=cause)
    return UserCodeError(f"{call.failure()}: {cause}", hint=hint)


def garbage_error(call: Call, error: GarbageError) -> UserCodeError:
    """Return the error for a host whose answer cannot be read."""
    hint = "the function must not write to descriptors that it has not opened"
    return UserCodeError(f"{call.failure()}: its code host sent an answer that cannot be read ({error})", hint=hint)


def death_error(call: Call, status: int) -> UserCodeError | FunctionError:
    """Return the error for a host that has ended; `status` is the exit status, negative for a signal."""
    cause, hint = cause_of_death(status), "correct the function; its output is in the log of the code host"
    if call.fails_by_rows and status != -signal.SIGKILL:
        return FunctionError(f"{call.failure()}: {cause}", hint=hint, cause=cause)
    return UserCodeError(f"{call.failure()}: {cause}", hint=hint)


def cause_of_death(status: int) -> str:
    if status == -signal.SIGKILL:
        return "its code host was killed, by another process or for lack of memory"
    if status < 0:
        return f"its code host crashed by signal {-status} ({signal.strsignal(-status)})"
    if status == CHANNEL_EXIT:
        return "it closed the pipes of its code host"
    return f"its code host ended with status {status}"


def rows_of(call: Call, error: Header) -> str:
    """Return which rows were processed, as far as the host has reported it."""
    if subject := text(error, "subject"):
        return f"{subject}{when_text(error.get('times'))}"
    number = error.get("number")
    return call.rows_text(number, error.get("times")) if isinstance(number, int) else ""


def text(header: Header, name: str) -> str:
    """Return a text of a header as one that can be stored and shown: of limited length, and without control characters."""
    value: Any = header.get(name)
    if not isinstance(value, str):
        return ""
    shown = value[:MAX_TEXT_CHARACTERS].encode(errors="replace").decode()
    return "".join(character if character.isprintable() or character in "\n\t" else "�" for character in shown)
