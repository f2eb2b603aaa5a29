"""How a code host reports an error of user code. The error, its message and its traceback may themselves be hostile."""

from __future__ import annotations

import errno
import traceback
from pathlib import Path
from typing import Final

from headrace.code.class_loading import LoadError, MissingMethodError
from headrace.code.protocol import Header
from headrace.code.requests import CallLostError, Progress
from headrace.udf.parameters import ParameterError
from headrace.udf.strategies import AccessStrategyError

MAX_TEXT_CHARACTERS: Final = 2_000
MAX_TRACEBACK_CHARACTERS: Final = 20_000
MAX_FRAMES: Final = 20
MAX_CAUSES: Final = 20
MAX_SUBJECT_CHARACTERS: Final = 200


def describe_error(error: BaseException, progress: Progress, path: str) -> Header:
    """Return a report of an error: kind, type, message, line in the user's code, which is in `path`, and the rows."""
    return {
        "kind": kind_of_error(error),
        "type": type(error).__name__,
        "message": message_of(error),
        "line": line_of(error, path),
        "traceback": traceback_of(error),
        "number": progress.number,
        "subject": shorten(progress.subject, MAX_SUBJECT_CHARACTERS),
        "times": progress.time_range(),
        "is_of_network": is_of_network(error),
    }


def kind_of_error(error: BaseException) -> str:
    if isinstance(error, AccessStrategyError):
        return "strategy"
    if isinstance(error, ParameterError):
        return "parameter"
    if isinstance(error, LoadError):
        return "method" if isinstance(error, MissingMethodError) else "load"
    if isinstance(error, CallLostError):
        return "lost"
    if isinstance(error, MemoryError):
        return "memory"
    return "user" if isinstance(error, Exception) else "exit"


def is_of_network(error: BaseException) -> bool:
    """Return whether an error, or what it was raised for, says that there is no network, or no names of hosts."""
    try:
        for _ in range(MAX_CAUSES):
            if isinstance(error, OSError) and (error.errno == errno.ENETDOWN or type(error).__name__ == "gaierror"):
                return True
            cause = error.__cause__ or error.__context__
            if cause is None:
                return False
            error = cause
    except BaseException:
        return False
    return False


def message_of(error: BaseException) -> str:
    """Return the message of an error, which is user code, too."""
    try:
        return shorten(str(error), MAX_TEXT_CHARACTERS)
    except BaseException:
        return ""


def line_of(error: BaseException, path: str) -> str:
    """Return the innermost line in the user's code as `file:line`; empty if there is none, as for a missing class."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames if path and frame.filename.startswith(path)]
    return lines[-1] if lines else ""


def traceback_of(error: BaseException) -> str:
    """Return the traceback of the user's code, shortened."""
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-MAX_FRAMES, chain=False)
        return shorten("".join(lines), MAX_TRACEBACK_CHARACTERS)
    except BaseException:
        return ""


def shorten(text: str, size: int) -> str:
    return text if len(text) <= size else text[:size] + "…"
