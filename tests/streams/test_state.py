"""Checkpoints: a state is read as it was written, and damage is detected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.compute.plan import SERIES_KEY
from headrace.model.failpoints import FailpointError, armed
from headrace.model.jobs import JobCounters
from headrace.model.positions import Position
from headrace.streams.state.checkpoints import MAX_EVENT_TIMES, StateError, StreamState, event_times
from headrace.streams.state.store import StateStore
from headrace.streams.state.tables import StateTable

AT = Position(7, {"db.readings": 40})
STATE = StreamState(
    position=AT,
    windows=StateTable.of(
        pa.table({"p0": ["a", None], "_wstart": [0, 10], "_wend": [9, 19], "x0": [1, 2], "_emitted": [True, False]}),
        ["p0"],
    ),
    max_event_time_by_subtable=event_times(pa.table({SERIES_KEY: ["d1"], "_max_event_time": [17]}, schema=MAX_EVENT_TIMES)),
    max_event_time=17,
    evicted_through=3,
    counters=JobCounters(rows_in=5, rows_used=3, rows_filtered=1, rows_expired=1),
    wake_at=1_700_000_000_000,
    handled_at=1_600_000_000_000,
)


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(str(tmp_path / "states"), "s1", epoch=1)


def files(store: StateStore) -> list[Path]:
    return sorted(Path(store.folder).iterdir())


def test_a_state_is_read_as_it_was_written(store: StateStore) -> None:
    store.write(STATE, 6)
    assert store.read(7) == STATE


def test_a_state_before_the_first_window_is_read_as_it_was_written(store: StateStore) -> None:
    store.write(StreamState(Position(0, {})), 0)
    assert store.read(0) == StreamState(Position(0, {}))


def test_a_micro_batch_without_checkpoint_has_none(store: StateStore) -> None:
    assert store.read(7) is None
    assert store.batches() == []


@pytest.mark.parametrize("keep", [0, 4, 20, -1])
def test_a_truncated_file_is_an_error_and_never_a_state(store: StateStore, keep: int) -> None:
    store.write(STATE, 6)
    (file,) = files(store)
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(StateError):
        store.read(7)


def test_a_changed_byte_is_an_error_and_never_a_state(store: StateStore) -> None:
    store.write(STATE, 6)
    (file,) = files(store)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(StateError):
        store.read(7)


def test_a_file_cut_short_by_a_crash_is_not_taken_for_a_state(store: StateStore) -> None:
    with armed("streams.state.rename:1:raise"), pytest.raises(FailpointError):
        store.write(STATE, 6)
    assert store.read(7) is None
    assert store.batches() == []


def test_the_state_of_the_newer_epoch_counts(store: StateStore, tmp_path: Path) -> None:
    newer = StateStore(str(tmp_path / "states"), "s1", epoch=2)
    newer.write(replace(STATE, max_event_time=18), 6)
    store.write(STATE, 6)
    found = store.read(7)
    assert found is not None
    assert found.max_event_time == 18


def test_old_states_go_and_the_committed_one_stays_however_often_a_batch_is_tried(store: StateStore) -> None:
    for batch in range(1, 8):
        store.write(replace(STATE, position=Position(batch, AT.offsets)), batch - 1)
    for batch in range(8, 20):
        store.write(replace(STATE, position=Position(batch, AT.offsets)), 7)
    assert 7 in store.batches()
    assert 1 not in store.batches()


def test_clearing_removes_everything_and_may_be_repeated(store: StateStore) -> None:
    store.write(STATE, 6)
    store.clear()
    store.clear()
    assert store.batches() == []
