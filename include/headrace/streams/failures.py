"""Translation of exceptions into errors that say what to do, and into the reasons why jobs stop."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headrace.compute.sql_text import unassignable_raised
from headrace.context import Context
from headrace.errors import (
    DataError,
    Error,
    FunctionError,
    InternalError,
    NotFoundError,
    OperationalError,
    TransientError,
)
from headrace.jobs.registry import kind_of
from headrace.model.failpoints import FailpointError
from headrace.model.jobs import JobState, StopReason
from headrace.storage.spark.task_errors import error_of_job, error_of_worker

logger = logging.getLogger(__name__)

RETRY_HINT: Final = "wait: it is retried automatically"


def to_error(error: BaseException) -> Error:
    """Return the `Error` for any exception that ended a micro-batch."""
    if isinstance(error, Error):
        return error
    module = type(error).__module__.partition(".")[0]
    if type(error).__name__ == "Py4JJavaError":
        return error_of_job(str(error))
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
    from pyspark.errors import (
        AnalysisException,
        ArithmeticException,
        NumberFormatException,
        ParseException,
        PythonException,
        SparkRuntimeException,
    )

    if (invalid := unassignable_raised(error)) is not None:
        return invalid
    if isinstance(error, PythonException):
        return error_of_worker(str(error))
    if isinstance(error, AnalysisException | ParseException):
        return InternalError(f"Spark rejected the plan: {first_line(error)}", hint="report this bug in Headrace")
    if isinstance(error, ArithmeticException | NumberFormatException | SparkRuntimeException):
        return DataError(f"a value cannot be computed: {first_line(error)}", hint="exclude such rows with WHERE, or cast the value")
    return error_of_job(str(error))


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, at most 500 characters; its type if there is no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:500]


def reason_of(error: BaseException, now: int, kind: str) -> StopReason:
    """Return the reason why a job of a kind stopped, with a hint; `now` is in epoch ms."""
    translated = to_error(error)
    is_transient = isinstance(translated, TransientError)
    hint = translated.hint or (RETRY_HINT if is_transient else kind_of(kind).fix_hint)
    if isinstance(translated, FunctionError):
        hint += f"; CREATE OR REPLACE FUNCTION, then {kind_of(kind).resume_statement}"
    return StopReason(translated.code, translated.message, hint, now, is_transient)


def stop_job(context: Context, job_id: str, error: Exception) -> None:
    """Mark a job STOPPED with an exception as the reason. Has no effect if it was dropped.

    Raises:
        FencedError: The job belongs to another driver by now.
    """
    try:
        kind = context.catalog.jobs.by_id(job_id).definition.kind
        reason = reason_of(error, context.clock.now(), kind)
        context.catalog.jobs.set_state(job_id, JobState.STOPPED, reason, epoch=context.epoch or None)
    except NotFoundError:
        logger.info("not stopping job %s: it was dropped", job_id)
        return
    logger.error("stopping %s %s", kind, job_id, exc_info=error)
    context.catalog.events.record("job", job_id, "STOPPED", str(reason))


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
