"""What an snode has to do about one stream, decided from what is asked for and what is observed: no effects, no tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from headrace.model.jobs import DesiredState, JobRecord, JobState

# The first retry of a stream that stopped for a passing reason, and the longest pause between two.
FIRST_RETRY_MS: Final = 1_000
MAX_RETRY_MS: Final = 300_000


class Role(StrEnum):
    """What becomes of a stream in this round."""

    POLL = "poll"
    """It belongs to the source pollers, which run it, or let it go when it is to pause."""
    FILL = "fill"
    """Its history is to be filled by this snode."""
    WAIT = "wait"
    """Others have to act: whoever fills its history, or a person."""
    GO_LIVE = "go live"
    """Its history is filled: state has to be rebuilt as of the boundary."""
    RETRY = "retry"
    """It stopped for a passing reason long enough ago."""
    FORGET = "forget"
    """It was dropped: state and record go."""


def role(record: JobRecord, *, filled: bool, fills: bool, retry_at: int, now: int) -> Role:
    """The role of a stream.

    Args:
        filled: whether every chunk of its history is done.
        fills: whether this snode fills histories itself.
        retry_at: when a stream that stopped for a passing reason may run again, epoch milliseconds.
        now: the present, epoch milliseconds.
    """
    if record.desired is DesiredState.DROPPED:
        return Role.FORGET
    if record.state is JobState.STOPPED:
        passing = record.reason is not None and record.reason.transient and record.desired is DesiredState.RUNNING
        return Role.RETRY if passing and now >= retry_at else Role.WAIT
    if record.desired is DesiredState.PAUSED or record.is_live:
        return Role.POLL
    return history_role(record, filled, fills)


def history_role(record: JobRecord, filled: bool, fills: bool) -> Role:
    """The role of a stream that should run and whose history is not behind it."""
    if filled or record.state is JobState.RUNNING:
        return Role.GO_LIVE
    return Role.FILL if fills else Role.WAIT


def retry_pause(attempt: int) -> int:
    """Milliseconds to wait before a retry; `attempt` counts from 1 and the pause doubles with each."""
    return min(MAX_RETRY_MS, FIRST_RETRY_MS << min(attempt - 1, 16))
