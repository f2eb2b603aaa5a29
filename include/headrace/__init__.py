"""Stream processing declared in SQL, run by Apache Spark on Delta Lake, supervised by Apache Airflow.

`headrace.connect()` opens a home as PEP 249 describes; the errors and clocks are here too. What is heavy is imported when it
is first asked for, so that `import headrace` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headrace.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from headrace.model.clock import ManualClock, SystemClock

if TYPE_CHECKING:
    from headrace.service.connection import Connection, Cursor, apilevel, connect, paramstyle, threadsafety

__version__ = "0.1.0"
__all__ = [
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "ManualClock",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "SystemClock",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

# PEP 249 asks for the name; nothing raises it.
Warning = type("Warning", (Exception,), {"__doc__": "PEP 249: an important warning."})
LAZY = ("Connection", "Cursor", "apilevel", "connect", "paramstyle", "threadsafety")


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return getattr(importlib.import_module("headrace.service.connection"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
