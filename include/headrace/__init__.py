"""Stream processing declared in SQL, run by Apache Spark on Delta Lake, supervised by Apache Airflow.

`headrace.connect()` opens a home through a PEP 249 interface; errors and clocks are exported too. Heavy modules are imported on
first use, so that `import headrace` is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import headrace.allocator  # noqa: F401  (before delta-rs)
from headrace.errors import (
    AuthenticationError,
    ConfigurationError,
    ConflictError,
    DamagedLogError,
    DatabaseError,
    DataError,
    EgressDeniedError,
    Error,
    ExistsError,
    ExpiredPointsError,
    FencedError,
    FunctionError,
    FunctionTimeoutError,
    HistoryGoneError,
    IntegrityError,
    InterfaceError,
    InternalError,
    InvalidCodeError,
    InvalidStreamError,
    LimitError,
    NoDatabaseError,
    NotFoundError,
    NotificationRejectedError,
    NotSupportedError,
    OffsetAheadError,
    OperationalError,
    PermissionDeniedError,
    ProgrammingError,
    SqlSyntaxError,
    StorageError,
    TerminalError,
    TransientError,
    TriggerFireError,
    TypeMismatchError,
    UnknownKindError,
    UserCodeError,
)
from headrace.model.clock import ManualClock, SystemClock

if TYPE_CHECKING:
    from headrace.service.connecting import connect
    from headrace.service.connection import Connection, Cursor, apilevel, paramstyle, threadsafety
    from headrace.service.dbapi_types import (
        BINARY,
        DATETIME,
        NUMBER,
        ROWID,
        STRING,
        Binary,
        Date,
        DateFromTicks,
        Time,
        TimeFromTicks,
        Timestamp,
        TimestampFromTicks,
    )
    from headrace.streams.quarantine.quarantine import QuarantineFullError
    from headrace.streams.state.checkpoints import StateError
    from headrace.verify import VerificationResult

__version__ = "0.1.0"
__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "AuthenticationError",
    "Binary",
    "ConfigurationError",
    "ConflictError",
    "Connection",
    "Cursor",
    "DamagedLogError",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "EgressDeniedError",
    "Error",
    "ExistsError",
    "ExpiredPointsError",
    "FencedError",
    "FunctionError",
    "FunctionTimeoutError",
    "HistoryGoneError",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "InvalidCodeError",
    "InvalidStreamError",
    "LimitError",
    "ManualClock",
    "NoDatabaseError",
    "NotFoundError",
    "NotSupportedError",
    "NotificationRejectedError",
    "OffsetAheadError",
    "OperationalError",
    "PermissionDeniedError",
    "ProgrammingError",
    "QuarantineFullError",
    "SqlSyntaxError",
    "StateError",
    "StorageError",
    "SystemClock",
    "TerminalError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TransientError",
    "TriggerFireError",
    "TypeMismatchError",
    "UnknownKindError",
    "UserCodeError",
    "VerificationResult",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

# PEP 249 requires the name; nothing raises it.
Warning = type("Warning", (Exception,), {"__doc__": "PEP 249: an important warning."})
DBAPI_TYPES = "headrace.service.dbapi_types"
LAZY = {
    "connect": "headrace.service.connecting",
    **dict.fromkeys(("Connection", "Cursor", "apilevel", "paramstyle", "threadsafety"), "headrace.service.connection"),
    **dict.fromkeys(("BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "Binary", "Date", "DateFromTicks"), DBAPI_TYPES),
    **dict.fromkeys(("Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks"), DBAPI_TYPES),
    "PermissionDeniedError": "headrace.service.rights",
    "QuarantineFullError": "headrace.streams.quarantine.quarantine",
    "StateError": "headrace.streams.state.checkpoints",
    "VerificationResult": "headrace.verify",
}
"""The module of each name that is imported on first use."""


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return getattr(importlib.import_module(LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
