"""The numbers that TDengine has for errors."""

from __future__ import annotations

from typing import Final

from headrace.errors import (
    AuthenticationError,
    Error,
    ExistsError,
    InternalError,
    LimitError,
    NoDatabaseError,
    NotFoundError,
    PermissionDeniedError,
    SqlSyntaxError,
    TransientError,
    TypeMismatchError,
)

SYNTAX_ERROR: Final = 0x2600
TABLE_NOT_FOUND: Final = 0x2603
DATABASE_NOT_FOUND: Final = 0x0388
DATABASE_EXISTS: Final = 0x0381
TABLE_EXISTS: Final = 0x0603
NO_DATABASE: Final = 0x2616
INVALID_TYPE: Final = 0x2605
PERMISSION_DENIED: Final = 0x2644
AUTHENTICATION_FAILED: Final = 0x0357
OTHER: Final = 0xFFFF


def code_of(error: Error) -> int:
    """Return TDengine's number for an error. Those that TDengine does not have, of statements, are syntax errors."""
    if error.status is not None:
        return error.status
    is_database = error.message.startswith("database ")
    match error:
        case NoDatabaseError():
            return NO_DATABASE
        case AuthenticationError():
            return AUTHENTICATION_FAILED
        case PermissionDeniedError():
            return PERMISSION_DENIED
        case SqlSyntaxError():
            return SYNTAX_ERROR
        case NotFoundError():
            return DATABASE_NOT_FOUND if is_database else TABLE_NOT_FOUND
        case ExistsError():
            return DATABASE_EXISTS if is_database else TABLE_EXISTS
        case TypeMismatchError():
            return INVALID_TYPE
        case TransientError() | InternalError() | LimitError():
            return OTHER
        case _:
            return SYNTAX_ERROR


def description(error: Error) -> str:
    """Return an error as clients show it: its message and its hint."""
    return f"{error.message}; {error.hint}" if error.hint else error.message
