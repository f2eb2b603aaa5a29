"""Translation of exceptions into errors that say what to do: Spark's own exceptions never reach a user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.context import Context
from headrace.errors import DataError, Error, InternalError, NotFoundError, OperationalError, TransientError
from headrace.model.failpoints import FailpointError
from headrace.model.jobs import JobRecord, JobState, StopReason


def to_error(error: BaseException) -> Error:
    """Return the `Error` for any exception that ended a micro-batch."""
    if isinstance(error, Error):
        return error
    module = type(error).__module__.partition(".")[0]
    if module == "py4j" or isinstance(error, ConnectionError):
        return OperationalError(f"Spark does not answer: {first_line(error)}", hint="wait until the driver has been restarted")
    if module == "pyspark":
        return from_spark(error)
    if isinstance(error, MemoryError | OSError):
        return OperationalError(f"the operating system reported: {first_line(error)}", hint="check the machine's memory and disks")
    return InternalError(f"{type(error).__name__}: {first_line(error)}", hint="report this bug in Headrace")


def from_spark(error: BaseException) -> Error:
    """Return the error for one of Spark's exceptions.

    A value that cannot be computed is an error of the data, which a user has to fix. Lost executors and the like are transient.
    """
    from pyspark.errors import AnalysisException, ArithmeticException, NumberFormatException, ParseException, SparkRuntimeException

    if isinstance(error, AnalysisException | ParseException):
        return InternalError(f"Spark rejected the plan: {first_line(error)}", hint="report this bug in Headrace")
    if isinstance(error, ArithmeticException | NumberFormatException | SparkRuntimeException):
        return DataError(f"a value cannot be computed: {first_line(error)}", hint="exclude such rows with WHERE, or cast the value")
    return OperationalError(f"Spark failed: {first_line(error)}", hint="wait for the next try")


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, at most 500 characters; its type if there is no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:500]


def stop_stream(context: Context, record: JobRecord, error: Error) -> None:
    """Mark a stream STOPPED with an error as the reason. Does nothing if the stream has been dropped.

    Raises:
        FencedError: The stream belongs to another driver by now.
    """
    job_id, is_transient = record.definition.id, isinstance(error, TransientError)
    reason = StopReason(error.code, error.message, error.hint, context.clock.now(), is_transient)
    try:
        context.catalog.jobs.set_state(job_id, JobState.STOPPED, reason, epoch=context.epoch or None)
    except NotFoundError:
        return
    context.catalog.events.record("job", job_id, "STOPPED", f"{reason.code}: {reason.message}")


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate exceptions of Spark and its connection into our errors. `FailpointError` passes through."""
    try:
        yield
    except FailpointError:
        raise
    except Exception as error:
        translated = to_error(error)
        if translated is error:
            raise
        raise translated from error
