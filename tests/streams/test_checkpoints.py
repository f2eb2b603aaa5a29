"""Checkpoints in several files: whatever is lost or damaged, a state is read as it was written, or not at all."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headrace.compute.plan import SERIES_KEY
from headrace.model.failpoints import FailpointError, armed
from headrace.model.positions import Position
from headrace.streams.state import store as stores
from headrace.streams.state.checkpoints import (
    MAX_EVENT_TIME,
    MAX_EVENT_TIMES,
    StateError,
    StreamState,
    event_times,
)
from headrace.streams.state.store import RETAINED_CHECKPOINTS, StateStore
from headrace.streams.state.tables import StateTable
from headrace.streams.windows.accounting import merge_max_times
from headrace.streams.windows.window_sql import MAX_TIME

WINDOWS = 2000


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateStore:
    monkeypatch.setattr(stores, "MAX_CHANGE_SHARE", 0.5)
    return StateStore(str(tmp_path / "states"), "s1", epoch=1)


def windows(names: list[str], start: int, count: int) -> pa.Table:
    return pa.table({"p0": names, "_wstart": [start] * len(names), "x0": pa.array([count] * len(names), pa.int64())})


def first_state() -> StreamState:
    """A state with many windows and subtables."""
    names = [f"d{number}" for number in range(WINDOWS)]
    times = pa.table({SERIES_KEY: names, MAX_EVENT_TIME: range(WINDOWS)}, schema=MAX_EVENT_TIMES)
    return StreamState(
        Position(0, {"db.readings": 0}),
        windows=StateTable.of(windows(names, 0, 1), ["p0"]),
        max_event_time_by_subtable=event_times(times),
    )


def next_state(state: StreamState) -> StreamState:
    """Return the state after a micro-batch that changes a few windows and event times, and adds and removes some."""
    batch = state.position.batch + 1
    draw = random.Random(batch)
    names = [f"d{number}" for number in draw.sample(range(WINDOWS), 5)] + [f"new{batch}"]
    table = state.windows
    assert table is not None
    before = table.matching(pa.table({"p0": names}))
    times = pa.table({SERIES_KEY: names, MAX_TIME: [WINDOWS + batch] * len(names)})
    return replace(
        state,
        position=Position(batch, {"db.readings": batch}),
        windows=table.replace(before, windows(names[1:], 0, batch)),
        max_event_time_by_subtable=merge_max_times(state.max_event_time_by_subtable, times),
    )


def write_batches(store: StateStore, state: StreamState, count: int) -> Iterator[StreamState]:
    """Write the states of this many micro-batches, each of which is committed before the next."""
    for _ in range(count):
        state = store.write(next_state(state), state.position.batch)
        yield state


def content(state: StreamState | None) -> tuple[object, ...]:
    """Return what has to be read as it was written."""
    assert state is not None
    assert state.windows is not None
    tables = (state.windows.to_table(), state.max_event_time_by_subtable.to_table())
    return (state.position, *(sorted(map(str, table.to_pylist())) for table in tables))


def sizes(store: StateStore) -> dict[int, int]:
    return {int(path.name.split("-")[0]): path.stat().st_size for path in Path(store.folder).glob("*.state")}


def file_of(store: StateStore, batch: int) -> Path:
    (path,) = Path(store.folder).glob(f"{batch:020d}-*.state")
    return path


def test_a_micro_batch_writes_what_it_changes(store: StateStore) -> None:
    *_, last = write_batches(store, store.write(first_state(), 0), 8)
    size = sizes(store)
    assert size[0] > 20 * max(size[batch] for batch in range(1, 9))
    assert content(store.read(8)) == content(last)


def test_every_state_is_read_as_it_was_written(store: StateStore) -> None:
    for state in write_batches(store, store.write(first_state(), 0), 120):
        assert content(store.read(state.position.batch)) == content(state)
        restored = StateStore(store.folder.removesuffix("/s1"), "s1", epoch=1).read(state.position.batch)
        assert content(restored) == content(state)


def test_a_restored_state_is_continued(store: StateStore) -> None:
    state = store.write(first_state(), 0)
    for _ in range(5):
        *_, state = write_batches(store, state, 2)
        restored = store.read(state.position.batch)
        assert restored is not None
        assert content(restored) == content(state)
        state = restored
    assert sizes(store)[10] < sizes(store)[0] / 20


def test_changes_are_written_until_they_are_as_large_as_half_of_the_state(store: StateStore) -> None:
    *_, last = write_batches(store, store.write(first_state(), 0), 150)
    checkpoint = last.checkpoint
    assert checkpoint is not None
    assert checkpoint.change_bytes <= checkpoint.complete_bytes / 2
    assert 0 not in store.batches()


def test_the_number_of_files_is_limited(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MAX_FILES", 4)
    for state in write_batches(store, store.write(first_state(), 0), 20):
        assert state.checkpoint is not None
        assert len(state.checkpoint.files) <= 4
        assert content(store.read(state.position.batch)) == content(state)


def test_a_small_state_is_written_completely(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MIN_COMPLETE_BYTES", 1 << 30)
    for state in write_batches(store, store.write(first_state(), 0), 10):
        assert state.checkpoint is not None
        assert len(state.checkpoint.files) == 1
    assert store.batches() == list(range(11 - RETAINED_CHECKPOINTS - 1, 11))


def test_old_files_go_but_those_that_a_checkpoint_continues(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MAX_FILES", 10)
    *_, last = write_batches(store, store.write(first_state(), 0), 34)
    assert store.batches() == list(range(20, 35)), "the files from 30 on, and the checkpoint before with its own"
    assert content(store.read(34)) == content(last)
    file_of(store, 30).unlink()
    with pytest.raises(StateError):
        store.read(34)
    assert store.read(29) is not None


@pytest.mark.parametrize("batch", [0, 3, 6])
@pytest.mark.parametrize("damage", ["missing", "truncated", "changed", "another"])
def test_a_damaged_file_is_an_error_for_what_continues_it(store: StateStore, batch: int, damage: str) -> None:
    states = list(write_batches(store, store.write(first_state(), 0), 6))
    file = file_of(store, batch)
    data = bytearray(file.read_bytes())
    match damage:
        case "missing":
            file.unlink()
        case "truncated":
            file.write_bytes(data[:-5])
        case "changed":
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        case _:
            file.write_bytes(file_of(store, batch - 1 if batch else 1).read_bytes())
    for state in states:
        number = state.position.batch
        if number < batch:
            assert content(store.read(number)) == content(state)
        elif number > batch or damage in ("truncated", "changed"):
            with pytest.raises(StateError):
                store.read(number)


@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize("point", ["streams.state.rename", "streams.state.delete"])
def test_a_crash_between_files_leaves_the_last_committed_state(
    store: StateStore, monkeypatch: pytest.MonkeyPatch, point: str, count: int
) -> None:
    monkeypatch.setattr(stores, "MAX_FILES", 3)
    state = store.write(first_state(), 0)
    with armed(f"{point}:{count}:raise"):
        try:
            for written in write_batches(store, state, 40):
                state = written
        except FailpointError:
            pass
        else:
            pytest.fail("nothing failed")
    restored = store.read(state.position.batch)
    assert content(restored) == content(state)
    assert restored is not None
    for written in write_batches(store, restored, 10):
        assert content(store.read(written.position.batch)) == content(written)


def test_drivers_of_different_epochs_never_mix_their_files(store: StateStore) -> None:
    """The older one goes on writing from the same state, as if it had been frozen."""
    *_, state = write_batches(store, store.write(first_state(), 0), 3)
    newer = StateStore(store.folder.removesuffix("/s1"), "s1", epoch=2)
    taken_over = newer.read(3)
    assert taken_over is not None
    mine = list(write_batches(newer, taken_over, 5))
    frozen = replace(state, windows=StateTable.of(windows(["other"], 0, 0), ["p0"]))
    assert content(*write_batches(store, frozen, 1)) != content(mine[0])
    for written in mine:
        assert content(newer.read(written.position.batch)) == content(written)
    *_, last = write_batches(newer, mine[-1], 5)
    assert content(newer.read(13)) == content(last)


def test_a_micro_batch_that_is_repeated_differently_invalidates_what_continued_it(store: StateStore) -> None:
    *_, third = write_batches(store, store.write(first_state(), 0), 3)
    list(write_batches(store, third, 2))
    restored = store.read(3)
    assert restored is not None
    assert restored.windows is not None
    other = replace(
        restored, position=Position(4, {"db.readings": 9}), windows=restored.windows.replace(np.array([7]), windows([], 0, 0))
    )
    other = store.write(other, 3)
    assert content(store.read(4)) == content(other)
    with pytest.raises(StateError):
        store.read(5)
    *_, last = write_batches(store, other, 1)
    assert content(store.read(5)) == content(last)


def test_a_table_that_did_not_follow_from_the_last_one_is_written_completely(store: StateStore) -> None:
    *_, state = write_batches(store, store.write(first_state(), 0), 2)
    (state,) = write_batches(store, replace(state, windows=StateTable.of(windows(["a", "b"], 5, 5), ["p0"])), 1)
    assert content(store.read(3)) == content(state)
    (state,) = write_batches(store, state, 1)
    assert content(store.read(4)) == content(state)
    without_windows = store.write(replace(state, position=Position(5, {}), windows=None), 4)
    assert store.read(5) == without_windows
