"""The reason why a job stopped, from the exception that stopped it."""

from __future__ import annotations

import logging
from typing import Final

from headrace.errors import NotFoundError, TransientError
from headrace.jobs.registry import kind_of
from headrace.model.jobs import JobState, StopReason
from headrace.runtime.context import Context
from headrace.streams.failures import to_error

logger = logging.getLogger(__name__)

RETRY_HINT: Final = "wait: it is retried automatically"


def reason_of(error: BaseException, now: int, kind: str) -> StopReason:
    """Return the reason why a job of a kind stopped, with a hint; `now` is in epoch ms."""
    translated = to_error(error)
    is_transient = isinstance(translated, TransientError)
    hint = translated.hint or (RETRY_HINT if is_transient else kind_of(kind).fix_hint)
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
