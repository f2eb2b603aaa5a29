"""What failed, as an error that says what to do: Spark's own exceptions never reach a user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import DataError, Error, InternalError, NotFoundError, OperationalError, TransientError
from headrace.model.failpoints import FailpointError
from headrace.model.jobs import JobRecord, JobState, StopReason
from headrace.streams.context import Context


def explained(error: BaseException) -> Error:
    """An error of ours for whatever ended a batch."""
    if isinstance(error, Error):
        return error
    module = type(error).__module__.partition(".")[0]
    if module == "py4j" or isinstance(error, ConnectionError):
        return OperationalError(f"Spark does not answer: {first_line(error)}", hint="the driver is started again")
    if module == "pyspark":
        return of_spark(error)
    if isinstance(error, MemoryError | OSError):
        return OperationalError(f"the machine refused: {first_line(error)}", hint="see to its memory and disks")
    return InternalError(f"{type(error).__name__}: {first_line(error)}", hint="this is a fault of Headrace; please report it")


def of_spark(error: BaseException) -> Error:
    """Spark's exceptions: values that cannot be computed wait for a person, lost executors and the like may be tried again."""
    from pyspark.errors import AnalysisException, ArithmeticException, NumberFormatException, ParseException, SparkRuntimeException

    if isinstance(error, AnalysisException | ParseException):
        return InternalError(f"Spark refused the plan: {first_line(error)}", hint="this is a fault of Headrace; please report it")
    if isinstance(error, ArithmeticException | NumberFormatException | SparkRuntimeException):
        return DataError(f"a value cannot be computed: {first_line(error)}", hint="filter such rows with WHERE, or cast")
    return OperationalError(f"Spark failed: {first_line(error)}", hint="it is tried again")


def first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:500]


def stop(context: Context, record: JobRecord, error: Error) -> None:
    """Mark a stream STOPPED with an error as the reason; does nothing if it was dropped meanwhile.

    Raises:
        FencedError: the stream belongs to another driver by now.
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
    """Translate what Spark and the way to it raise into our errors; armed failpoints pass through."""
    try:
        yield
    except FailpointError:
        raise
    except Exception as error:
        known = explained(error)
        if known is error:
            raise
        raise known from error
