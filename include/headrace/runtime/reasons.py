"""The reason why a stream stopped, from the exception that stopped it."""

from __future__ import annotations

import logging
from typing import Final

from headrace.errors import NotFoundError, TransientError
from headrace.model.jobs import JobState, StopReason
from headrace.runtime.context import Context
from headrace.streams.failures import to_error

logger = logging.getLogger(__name__)

RETRY_HINT: Final = "wait: it is retried automatically"
FIX_HINT: Final = "fix the cause, then run RESUME STREAM"


def reason_of(error: BaseException, now: int) -> StopReason:
    """Return the reason, with a hint; `now` is in epoch ms."""
    translated = to_error(error)
    is_transient = isinstance(translated, TransientError)
    return StopReason(
        translated.code, translated.message, translated.hint or (RETRY_HINT if is_transient else FIX_HINT), now, is_transient
    )


def stop_stream(context: Context, job_id: str, error: Exception) -> None:
    """Mark a stream STOPPED with an exception as the reason. Has no effect if it was dropped.

    Raises:
        FencedError: The stream belongs to another driver by now.
    """
    reason = reason_of(error, context.clock.now())
    try:
        context.catalog.jobs.set_state(job_id, JobState.STOPPED, reason, epoch=context.epoch or None)
    except NotFoundError:
        logger.info("not stopping stream %s: it was dropped", job_id)
        return
    logger.error("stopping stream %s", job_id, exc_info=error)
    context.catalog.events.record("job", job_id, "STOPPED", str(reason))
