"""Why a stream stopped, made from the exception that stopped it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headrace.errors import DataError, Error, NotFoundError, OperationalError, TransientError
from headrace.model.streams import StopReason, StreamState
from headrace.runtime.context import Context

logger = logging.getLogger(__name__)

RESUME: Final = "mend the cause, then RESUME STREAM"
VALUE_CONDITIONS: Final = ("CAST_", "ARITHMETIC", "DIVIDE", "NUMERIC", "INVALID_")


def reason_of(error: BaseException, now: int) -> StopReason:
    """The reason, with what to do; what nobody foresaw waits for a person, save the loss of the JVM. `now` in epoch ms."""
    if isinstance(error, Error):
        hint = error.hint or ("it is tried again by itself" if isinstance(error, TransientError) else RESUME)
        return StopReason(error.code, error.message, hint, now, isinstance(error, TransientError))
    if is_jvm_loss(error):
        message = f"Spark's JVM does not answer: {error}"
        return StopReason("OPERATIONAL", message, "it goes on when the snode has restarted", now, True)
    return StopReason("INTERNAL", f"{type(error).__name__}: {error}", f"a fault of Headrace; {RESUME}", now)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turns exceptions of Spark, and of the way to it, into ours; `what` begins the message."""
    from pyspark.errors import PySparkException

    try:
        yield
    except Error:
        raise
    except Exception as error:
        if is_jvm_loss(error):
            raise OperationalError(f"{what}: Spark's JVM does not answer", hint="it may be tried again") from error
        if not isinstance(error, PySparkException):
            raise
        first = str(error).strip().splitlines()[0]
        if (error.getCondition() or "").startswith(VALUE_CONDITIONS):
            raise DataError(f"{what}: {first}", hint="a value does not fit; cast it, or leave it out with WHERE") from error
        raise OperationalError(f"{what}: {first}", hint="see the driver's log") from error


def is_jvm_loss(error: BaseException) -> bool:
    """Whether an exception tells that the driver's JVM is gone, not that it refused something."""
    from py4j.protocol import Py4JNetworkError

    return isinstance(error, Py4JNetworkError | ConnectionError | EOFError)


def stop_stream(context: Context, stream_id: str, error: Exception) -> None:
    """Mark a stream STOPPED with an exception as the reason; nothing happens where it was dropped meanwhile."""
    reason = reason_of(error, context.clock.now())
    try:
        context.catalog.streams.set_state(stream_id, StreamState.STOPPED, reason, epoch=context.epoch)
        context.catalog.events.record("stream", stream_id, "STOPPED", f"[{reason.code}] {reason.message}")
    except NotFoundError:
        logger.info("stream %s was dropped", stream_id)
