"""IoTDB's statuses: which one an error has for its clients."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Final

from headrace.errors import (
    AuthenticationError,
    Error,
    ExistsError,
    InternalError,
    LimitError,
    NotFoundError,
    NotSupportedError,
    PermissionDeniedError,
    ProgrammingError,
    SqlSyntaxError,
)
from headrace.pipes.iotdb.messages import Status, SubStatus

logger = logging.getLogger(__name__)

SUCCESS: Final = 200
UNSUPPORTED: Final = 300
EXECUTION_ERROR: Final = 301
MULTIPLE_ERROR: Final = 302
ILLEGAL_PARAMETER: Final = 303
INTERNAL_ERROR: Final = 305
PARSE_ERROR: Final = 700
SEMANTIC_ERROR: Final = 701
NOT_LOGGED_IN: Final = 802
WRONG_LOGIN: Final = 801
NO_PERMISSION: Final = 803
PIPE_TYPE_ERROR: Final = 1801
PIPE_VERSION_ERROR: Final = 1800
PIPE_HANDSHAKE_ERROR: Final = 1802
PIPE_USER_CONFLICT: Final = 1810
PIPE_UNAVAILABLE: Final = 1808

CODES: Final[tuple[tuple[type[Error], int], ...]] = (
    (AuthenticationError, WRONG_LOGIN),
    (PermissionDeniedError, NO_PERMISSION),
    (SqlSyntaxError, PARSE_ERROR),
    (NotSupportedError, UNSUPPORTED),
    (LimitError, EXECUTION_ERROR),
    (NotFoundError, 508),
    (ExistsError, 506),
    (InternalError, INTERNAL_ERROR),
    (ProgrammingError, SEMANTIC_ERROR),
)
"""The status of errors that have none of their own. The first that applies counts."""
PREFIX: Final = re.compile(r"(\d{3,4}): ")


def success(message: str | None = None) -> Status:
    """Return the status of what is done."""
    return Status(code=SUCCESS, message=message)


def failure(error: Error) -> Status:
    """Return the status of an error, with its message and hint."""
    message = PREFIX.sub("", error.message, count=1) if error.status is not None else error.message
    return Status(code=status_code(error), message=f"{message} (hint: {error.hint})" if error.hint else message)


def status_code(error: Error) -> int:
    if error.status is not None:
        return error.status
    return next((code for kind, code in CODES if isinstance(error, kind)), EXECUTION_ERROR)


def combined(statuses: Sequence[Status]) -> Status:
    """Return the status of several parts of a request: success if all have succeeded."""
    if all(status.code == SUCCESS for status in statuses):
        return success()
    parts = [SubStatus(code=status.code, message=status.message) for status in statuses]
    return Status(code=MULTIPLE_ERROR, message="some parts of the request failed", subStatus=parts)


def as_error(error: BaseException) -> Error:
    """Return an exception of a call as one of ours; what is a bug is logged."""
    if isinstance(error, Error):
        return error
    logger.error("unexpected error in a call of an IoTDB client", exc_info=error)
    return InternalError(f"{type(error).__name__}: {error}", hint="this is a bug in Headrace; see the log of the snode")


def attempt(action: Callable[[], Status]) -> Status:
    """Return the status of an action, also if it fails."""
    try:
        return action()
    except Exception as error:  # a part of a request that failed is answered, whatever the reason
        return failure(as_error(error))
