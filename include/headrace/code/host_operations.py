"""What a code host does for a request: an operation on a class of user code."""

from __future__ import annotations

import contextlib
import errno
import importlib
import sys
import traceback
from pathlib import Path
from typing import Any, Final

from headrace.code.class_loading import (
    LoadError,
    MissingMethodError,
    check_methods,
    is_vectorized,
    kind_of,
    load_class,
    load_module,
)
from headrace.code.protocol import Header, Message
from headrace.code.requests import Answer, CallLostError, Progress, Request
from headrace.udf.parameters import ParameterError
from headrace.udf.strategies import AccessStrategyError

OPERATIONS: Final = {
    "describe": __name__,
    "configure": "headrace.code.series_operations",
    "series": "headrace.code.series_operations",
    "forget": "headrace.code.series_operations",
    "configure_aggregate": "headrace.code.aggregate_operations",
    "values": "headrace.code.aggregate_operations",
    "merge": "headrace.code.aggregate_operations",
    "create_trigger": "headrace.code.trigger_operations",
    "fire_trigger": "headrace.code.trigger_operations",
    "drop_trigger": "headrace.code.trigger_operations",
    "describe_pipe_plugin": "headrace.code.pipe_operations",
    "validate_pipe_plugin": "headrace.code.pipe_operations",
    "create_pipe_plugin": "headrace.code.pipe_operations",
    "supply_events": "headrace.code.pipe_operations",
    "acknowledge_events": "headrace.code.pipe_operations",
    "process_events": "headrace.code.pipe_operations",
    "handshake_sink": "headrace.code.pipe_operations",
    "heartbeat_sink": "headrace.code.pipe_operations",
    "transfer_events": "headrace.code.pipe_operations",
    "close_pipe_plugin": "headrace.code.pipe_operations",
}
"""The modules of the operations. Those that need Arrow are imported on first use."""


def answer(message: Message) -> Answer:
    """Return the answer to a request. A failure of user code is an answer, too."""
    progress = Progress()
    try:
        name = message.header["operation"]
        if name == "defined_functions":
            return defined_functions(message), None
        class_ = load_class(*message.header["class"])
        operation: Any = getattr(importlib.import_module(OPERATIONS[name]), name)
        result: Answer = operation(Request(class_, message, progress))
    except BaseException as error:  # user code may raise anything, such as SystemExit
        report = describe_error(error, progress, message.header["class"][0])
        with contextlib.suppress(Exception):
            sys.stderr.write(report["traceback"])
        return {"error": report}, None
    return result


def defined_functions(message: Message) -> Header:
    """Say which of some names are functions of a module."""
    path, sha256, name, _ = message.header["class"]
    module = load_module(path, sha256, name)
    return {"functions": [function for function in message.header["names"] if callable(getattr(module, function, None))]}


def describe(request: Request) -> Answer:
    """Say what a class is. It must define the methods of a function, and its instance must be constructible."""
    check_methods(request.class_)
    request.class_()
    return {"kind": kind_of(request.class_), "vectorized": is_vectorized(request.class_)}, None


MAX_TEXT_CHARACTERS: Final = 2_000
MAX_TRACEBACK_CHARACTERS: Final = 20_000
MAX_FRAMES: Final = 20
MAX_CAUSES: Final = 20
MAX_SUBJECT_CHARACTERS: Final = 200


def describe_error(error: BaseException, progress: Progress, path: str) -> Header:
    """Return a report of an error: kind, type, message, line in the user's code, which is in `path`, and the rows.

    The error, its message and its traceback may themselves be hostile.
    """
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
