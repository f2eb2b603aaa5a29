"""Why a stream stopped, made from the exception that stopped it."""

from __future__ import annotations

import logging
from typing import Final

from headrace.errors import NotFoundError, TransientError
from headrace.model.jobs import JobState, StopReason
from headrace.runtime.context import Context
from headrace.streams.failures import explained

logger = logging.getLogger(__name__)

PASSES: Final = "it is tried again by itself"
STAYS: Final = "mend the cause, then RESUME STREAM"


def reason_of(error: BaseException, now: int) -> StopReason:
    """The reason, with what to do; `now` in epoch milliseconds."""
    known = explained(error)
    passing = isinstance(known, TransientError)
    return StopReason(known.code, known.message, known.hint or (PASSES if passing else STAYS), now, passing)


def stop_stream(context: Context, job_id: str, error: Exception) -> None:
    """Mark a stream STOPPED with an exception as the reason; nothing happens where it was dropped meanwhile.

    Raises:
        FencedError: the stream belongs to another driver by now.
    """
    reason = reason_of(error, context.clock.now())
    try:
        context.catalog.jobs.set_state(job_id, JobState.STOPPED, reason, epoch=context.epoch or None)
    except NotFoundError:
        logger.info("stream %s was dropped", job_id)
        return
    logger.error("stream %s is stopped", job_id, exc_info=error)
    context.catalog.events.record("job", job_id, "STOPPED", str(reason))
