"""What a code host does for a request: an operation on a class of user code."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any, Final

from headrace.code.class_loading import check_methods, is_vectorized, kind_of, load_class, load_module
from headrace.code.error_reports import describe_error
from headrace.code.protocol import Header, Message
from headrace.code.requests import Answer, Progress, Request

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
