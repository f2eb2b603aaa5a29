"""Errors of statements as those of Flight, which clients see with their status codes of gRPC."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Final, ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from headrace.errors import (
    AuthenticationError,
    Error,
    InternalError,
    NotSupportedError,
    PermissionDeniedError,
    TransientError,
)

logger = logging.getLogger(__name__)

KINDS: Final[Sequence[tuple[type[Error], type[Exception]]]] = (
    (AuthenticationError, flight.FlightUnauthenticatedError),
    (PermissionDeniedError, flight.FlightUnauthorizedError),
    (NotSupportedError, pa.ArrowNotImplementedError),
    (InternalError, flight.FlightInternalError),
    (TransientError, flight.FlightUnavailableError),
)
"""The errors of Flight for our own; any other is a `FlightServerError`. To errors that are not of Flight, Arrow appends the
server's traceback. That is only worth it for what is not supported, since clients look for this code."""

P = ParamSpec("P")
T = TypeVar("T")


def to_flight_error(error: Error) -> Exception:
    """Return the error of Flight that says the same."""
    kind = next((flight_kind for ours, flight_kind in KINDS if isinstance(error, ours)), flight.FlightServerError)
    return kind(str(error))


def with_flight_errors(method: Callable[P, T]) -> Callable[P, T]:
    """Have a method of the server raise errors of Flight only."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except Error as error:
            raise to_flight_error(error) from None
        except (flight.FlightError, pa.ArrowNotImplementedError):
            raise
        except pa.ArrowException as error:
            raise flight.FlightServerError(str(error)) from None
        except Exception as error:
            logger.exception("unexpected error in a call of Flight")
            raise flight.FlightInternalError(f"{type(error).__name__}: {error}") from None

    return call
