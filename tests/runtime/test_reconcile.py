"""The role of a stream for its snode."""

from __future__ import annotations

import pytest

from headrace.model.jobs import DesiredState, JobDefinition, JobProgress, JobRecord, JobState, StopReason
from headrace.model.positions import Position
from headrace.model.tables import TableId
from headrace.runtime.roles import MAX_RETRY_MS, Role, polled_role, retry_pause, role
from headrace.streams.kind import STREAM

NOW = 1_000_000
PASSING = StopReason("OPERATIONAL", "the disk was full", "wait", NOW, transient=True)
LASTING = StopReason("DATA", "a value is invalid", "mend it", NOW)
AT = {"d.t": 3}
BOUND, LIVE = JobProgress(boundary=AT), JobProgress(Position(0, AT), AT)


def stream(
    state: JobState,
    progress: JobProgress,
    desired: DesiredState = DesiredState.RUNNING,
    reason: StopReason | None = None,
) -> JobRecord:
    definition = JobDefinition(
        id="id",
        kind=STREAM,
        database="db",
        name="s",
        sql="create stream",
        dialect="tdengine",
        sources=(TableId("db", "src"),),
        target=TableId("db", "dst"),
        created=0,
    )
    return JobRecord(definition, desired, state, progress, reason)


def decide(record: JobRecord, *, filled: bool = False, fills: bool = True, retry_at: int = 0) -> Role:
    decided = role(record, retry_at=retry_at, now=NOW)
    return polled_role(record, filled=filled, fills=fills) if decided is Role.HOST else decided


def test_a_stream_without_history_goes_to_the_pollers_at_once() -> None:
    assert decide(stream(JobState.CREATED, LIVE)) is Role.POLL


def test_a_stream_whose_history_is_being_filled_is_filled_by_the_snode_that_fills() -> None:
    assert decide(stream(JobState.FILLING, BOUND)) is Role.FILL


def test_a_stream_whose_history_others_fill_is_waited_for() -> None:
    assert decide(stream(JobState.FILLING, BOUND), fills=False) is Role.WAIT


def test_a_history_that_was_handed_over_goes_live() -> None:
    assert decide(stream(JobState.RUNNING, BOUND), fills=False) is Role.GO_LIVE


def test_a_filled_history_goes_live_whoever_filled_it() -> None:
    assert decide(stream(JobState.FILLING, BOUND), filled=True, fills=False) is Role.GO_LIVE
    assert decide(stream(JobState.FILLING, BOUND), filled=True, fills=True) is Role.GO_LIVE


def test_a_live_stream_goes_to_the_pollers_whatever_its_state_says() -> None:
    assert decide(stream(JobState.FILLING, LIVE)) is Role.POLL
    assert decide(stream(JobState.RUNNING, LIVE)) is Role.POLL


def test_a_stream_to_be_paused_goes_to_the_pollers_that_let_it_go() -> None:
    assert decide(stream(JobState.RUNNING, LIVE, DesiredState.PAUSED)) is Role.POLL
    assert decide(stream(JobState.FILLING, BOUND, DesiredState.PAUSED)) is Role.POLL


def test_a_stream_resumed_before_its_backfill_ended_is_backfilled_further() -> None:
    assert decide(stream(JobState.PAUSED, BOUND)) is Role.FILL


def test_a_dropped_stream_is_forgotten_whatever_its_state() -> None:
    for state in JobState:
        assert decide(stream(state, LIVE, DesiredState.DROPPED, LASTING)) is Role.FORGET


def test_a_stream_that_stopped_permanently_waits_for_a_user() -> None:
    assert decide(stream(JobState.STOPPED, LIVE, reason=LASTING)) is Role.WAIT


def test_a_stream_that_stopped_for_a_transient_reason_is_retried_when_its_pause_is_over() -> None:
    record = stream(JobState.STOPPED, LIVE, reason=PASSING)
    assert decide(record, retry_at=NOW + 1) is Role.WAIT
    assert decide(record, retry_at=NOW) is Role.RETRY


def test_a_stopped_stream_that_was_paused_is_not_retried() -> None:
    assert decide(stream(JobState.STOPPED, LIVE, DesiredState.PAUSED, PASSING)) is Role.WAIT


@pytest.mark.parametrize(
    ("attempt", "pause"), [(1, 1_000), (2, 2_000), (5, 16_000), (9, 256_000), (10, MAX_RETRY_MS), (99, MAX_RETRY_MS)]
)
def test_pauses_between_retries_double_up_to_a_bound(attempt: int, pause: int) -> None:
    assert retry_pause(attempt) == pause
