"""What an snode decides to do about a stream."""

from __future__ import annotations

import pytest

from headrace.model.positions import Position
from headrace.model.streams import DesiredState, StopReason, StreamDefinition, StreamProgress, StreamRecord, StreamState
from headrace.runtime.reconcile import LONGEST_RETRY_MS, Role, retry_pause, role

NOW = 1_000_000
PASSING = StopReason("OPERATIONAL", "the disk was full", "wait", NOW, transient=True)
LASTING = StopReason("DATA", "a value does not fit", "mend it", NOW)
AT = {"d.t": 3}
NEW, BOUND, LIVE = StreamProgress(), StreamProgress(boundary=AT), StreamProgress(Position(0, AT), AT)


def stream(
    state: StreamState,
    progress: StreamProgress = NEW,
    desired: DesiredState = DesiredState.RUNNING,
    reason: StopReason | None = None,
    created: int = 0,
) -> StreamRecord:
    definition = StreamDefinition("id", "db", "s", "create stream", "tdengine", "db", "src", "db", "dst", created)
    return StreamRecord(definition, desired, state, progress, reason)


def decide(record: StreamRecord, *, has_history: bool = True, filled: bool = False, fills: bool = True, retry_at: int = 0) -> Role:
    return role(record, has_history=has_history, filled=filled, fills=fills, retry_at=retry_at, now=NOW)


def test_a_stream_without_history_goes_to_the_feeds_at_once() -> None:
    assert decide(stream(StreamState.CREATED), has_history=False) is Role.FEED


def test_a_stream_whose_history_is_being_filled_is_filled_by_the_snode_that_fills() -> None:
    assert decide(stream(StreamState.FILLING, BOUND)) is Role.FILL


def test_a_stream_whose_history_others_fill_is_waited_for() -> None:
    assert decide(stream(StreamState.FILLING, BOUND), fills=False) is Role.WAIT


def test_a_history_that_was_handed_over_goes_live() -> None:
    assert decide(stream(StreamState.RUNNING, BOUND), fills=False) is Role.GO_LIVE


def test_a_filled_history_goes_live_whoever_filled_it() -> None:
    assert decide(stream(StreamState.FILLING, BOUND), filled=True, fills=False) is Role.GO_LIVE
    assert decide(stream(StreamState.FILLING, BOUND), filled=True, fills=True) is Role.GO_LIVE


def test_a_live_stream_goes_to_the_feeds_whatever_its_state_says() -> None:
    assert decide(stream(StreamState.FILLING, LIVE)) is Role.FEED
    assert decide(stream(StreamState.RUNNING, LIVE)) is Role.FEED


def test_a_stream_to_be_paused_goes_to_the_feeds_that_let_it_go() -> None:
    assert decide(stream(StreamState.RUNNING, LIVE, DesiredState.PAUSED)) is Role.FEED
    assert decide(stream(StreamState.FILLING, BOUND, DesiredState.PAUSED)) is Role.FEED


def test_a_stream_resumed_before_its_history_was_filled_is_filled_on() -> None:
    assert decide(stream(StreamState.PAUSED, BOUND)) is Role.FILL


def test_a_stream_whose_creator_died_gets_its_boundary_later_but_one_being_created_is_left_alone() -> None:
    assert decide(stream(StreamState.CREATED)) is Role.BOUND
    assert decide(stream(StreamState.CREATED, created=NOW - 1_000)) is Role.WAIT


def test_a_dropped_stream_is_forgotten_whatever_its_state() -> None:
    for state in StreamState:
        assert decide(stream(state, LIVE, DesiredState.DROPPED, LASTING)) is Role.FORGET


def test_a_stream_that_stopped_for_good_waits_for_a_person() -> None:
    assert decide(stream(StreamState.STOPPED, LIVE, reason=LASTING)) is Role.WAIT


def test_a_stream_that_stopped_for_a_passing_reason_is_retried_when_its_pause_is_over() -> None:
    record = stream(StreamState.STOPPED, LIVE, reason=PASSING)
    assert decide(record, retry_at=NOW + 1) is Role.WAIT
    assert decide(record, retry_at=NOW) is Role.RETRY


def test_a_stopped_stream_that_was_paused_is_not_retried() -> None:
    assert decide(stream(StreamState.STOPPED, LIVE, DesiredState.PAUSED, PASSING)) is Role.WAIT


@pytest.mark.parametrize(
    ("attempt", "pause"), [(1, 1_000), (2, 2_000), (5, 16_000), (9, 256_000), (10, LONGEST_RETRY_MS), (99, LONGEST_RETRY_MS)]
)
def test_pauses_between_retries_double_up_to_a_bound(attempt: int, pause: int) -> None:
    assert retry_pause(attempt) == pause
