"""The role of a stream for its snode, decided from its desired and observed state, without effects."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from headrace.model.jobs import DesiredState, JobKind, JobRecord, JobState

if TYPE_CHECKING:
    from headrace.settings import Settings

# The pause before the first retry of a stream that stopped for a transient reason, and the longest pause.
FIRST_RETRY_MS: Final = 1_000
MAX_RETRY_MS: Final = 300_000


class Role(StrEnum):
    """What an snode does about a stream in this round."""

    POLL = "poll"
    """The source pollers run it, or remove it if it is to be paused."""
    FILL = "fill"
    """This snode backfills it."""
    WAIT = "wait"
    """Nothing: a backfill elsewhere, or a user, has to act first."""
    GO_LIVE = "go live"
    """Its backfill is complete: rebuild the state as of the boundary."""
    RETRY = "retry"
    """It stopped for a transient reason, and the pause is over."""
    EXECUTE = "execute"
    """It is a continuous query, which the timers or Airflow execute when it is due."""
    FORGET = "forget"
    """It was dropped: delete its state and record."""


def role(record: JobRecord, *, filled: bool, fills: bool, retry_at: int, now: int) -> Role:
    """Return the role of a stream.

    Args:
        record: The stream.
        filled: Whether all chunks of its history are done.
        fills: Whether this snode runs backfills.
        retry_at: When a stream that stopped for a transient reason may run again, in epoch ms.
        now: The present, in epoch ms.
    """
    if record.desired is DesiredState.DROPPED:
        return Role.FORGET
    if record.state is JobState.STOPPED:
        is_transient = record.reason is not None and record.reason.transient and record.desired is DesiredState.RUNNING
        return Role.RETRY if is_transient and now >= retry_at else Role.WAIT
    if record.definition.kind is JobKind.CONTINUOUS_QUERY:
        return Role.EXECUTE
    if record.desired is DesiredState.PAUSED or record.is_live:
        return Role.POLL
    return history_role(record, filled, fills)


def history_role(record: JobRecord, filled: bool, fills: bool) -> Role:
    """Return the role of a stream that is to run, and whose history is not complete or not followed by the live stream yet."""
    if filled or record.state is JobState.RUNNING:
        return Role.GO_LIVE
    return Role.FILL if fills else Role.WAIT


def is_resident(record: JobRecord, settings: Settings) -> bool:
    """Return whether an snode executes a continuous query by its own timer, since it is due too often for Airflow."""
    return record.definition.schedule.every < settings.cq_resident_every_ms


def retry_pause(attempt: int) -> int:
    """Return the milliseconds to wait before a retry. `attempt` counts from 1, and the pause doubles with each."""
    return min(MAX_RETRY_MS, FIRST_RETRY_MS << min(attempt - 1, 16))
