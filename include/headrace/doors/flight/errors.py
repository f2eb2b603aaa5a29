"""Errors of statements as those of Flight, which clients see with their status codes of gRPC."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from headrace.errors import AuthenticationError, Error, InternalError, NotFoundError, NotSupportedError, TransientError
from headrace.service.rights import PermissionDeniedError

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


def to_flight_error(error: Error) -> Exception:
    """Return the error of Flight that says the same."""
    text = str(error)
    match error:
        case AuthenticationError():
            return flight.FlightUnauthenticatedError(text)
        case PermissionDeniedError():
            return flight.FlightUnauthorizedError(text)
        case NotSupportedError():
            return pa.ArrowNotImplementedError(text)
        case NotFoundError():
            return pa.ArrowKeyError(text)
        case InternalError():
            return flight.FlightInternalError(text)
        case TransientError():
            return flight.FlightUnavailableError(text)
        case _:
            return pa.ArrowInvalid(text)


def with_flight_errors(method: Callable[P, T]) -> Callable[P, T]:
    """Have a method of the server raise errors of Flight only."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except Error as error:
            raise to_flight_error(error) from None
        except (flight.FlightError, pa.ArrowException):
            raise
        except Exception as error:
            logger.exception("unexpected error in a call of Flight")
            raise flight.FlightInternalError(f"{type(error).__name__}: {error}") from None

    return call
