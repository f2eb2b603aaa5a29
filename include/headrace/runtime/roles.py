"""The role of a job for its snode, decided from its desired and observed state, without effects."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from headrace.model.jobs import DesiredState, JobRecord, JobState

# The pause before the first retry of a job that stopped for a transient reason, and the longest pause.
FIRST_RETRY_MS: Final = 1_000
MAX_RETRY_MS: Final = 300_000


class Role(StrEnum):
    """What an snode does about a job in this round."""

    HOST = "host"
    """The host of its kind runs it, or what has to be done before it runs."""
    WAIT = "wait"
    """Nothing: a backfill elsewhere, or a user, has to act first."""
    RETRY = "retry"
    """It stopped for a transient reason, and the pause is over."""
    FORGET = "forget"
    """It was dropped: delete its state and record."""
    POLL = "poll"
    """The source pollers run it, or remove it if it is to be paused."""
    FILL = "fill"
    """This snode backfills it."""
    GO_LIVE = "go live"
    """Its backfill is complete: rebuild the state as of the boundary."""


def role(record: JobRecord, *, retry_at: int, now: int) -> Role:
    """Return the role of any job; `retry_at` is when one that stopped for a transient reason may run again (epoch ms)."""
    if record.desired is DesiredState.DROPPED:
        return Role.FORGET
    if record.state is JobState.STOPPED:
        is_transient = record.reason is not None and record.reason.transient and record.desired is DesiredState.RUNNING
        return Role.RETRY if is_transient and now >= retry_at else Role.WAIT
    return Role.HOST


def polled_role(record: JobRecord, *, filled: bool, fills: bool) -> Role:
    """Return the role of a job that reads the changes of tables, and whose role is HOST.

    `filled` says whether all chunks of its history are done, `fills` whether this snode runs its backfill.
    """
    if record.desired is DesiredState.PAUSED or record.is_live:
        return Role.POLL
    if filled or record.state is JobState.RUNNING:
        return Role.GO_LIVE
    return Role.FILL if fills else Role.WAIT


def retry_pause(attempt: int) -> int:
    """Return the milliseconds to wait before a retry. `attempt` counts from 1, and the pause doubles with each."""
    return min(MAX_RETRY_MS, FIRST_RETRY_MS << min(attempt - 1, 16))
