"""The sink `delta-sink`: its table has what was written and not deleted, whatever is delivered twice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ConfigurationError, FencedError, ProgrammingError, StorageError
from headrace.model.time import Precision
from headrace.model.types import BIGINT, DOUBLE
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DEVICE, TIME, DeleteEvent, DeviceRows, Event, InsertEvent, Measurement
from headrace.pipes.plugins import Delivery
from headrace.pipes.sinks import delta
from headrace.pipes.sinks.delta import DeltaOptions, DeltaSink
from tests.pipes.receivers import Points, apply_events
from tests.pipes.thrift import unlimited

DAY_MS = 86_400_000
keys = st.tuples(st.sampled_from(["root.p.d1", "root.p.d2"]), st.integers(0, 3).map(lambda step: step * DAY_MS // 2))
rows = st.lists(st.tuples(keys, st.none() | st.integers(0, 9), st.none() | st.floats(0, 1)), min_size=1, max_size=5)
events = st.builds(lambda kind, own: kind(data_of(own)), st.sampled_from([InsertEvent, InsertEvent, DeleteEvent]), rows)
batches = st.lists(st.lists(events, min_size=1, max_size=3), min_size=1, max_size=4)


def data_of(own: list[tuple[tuple[str, int], int | None, float | None]]) -> DeviceRows:
    """Return rows of a measurement `a`, and of one that has a name of the sink's own."""
    table = pa.table(
        {
            TIME: pa.array([key[1] for key, _, _ in own], pa.int64()),
            DEVICE: pa.array([key[0] for key, _, _ in own]).dictionary_encode(),
            "a": pa.array([a for _, a, _ in own], pa.int64()),
            "time_2": pa.array([b for _, _, b in own], pa.float64()),
        }
    )
    return DeviceRows(table, {"a": Measurement("a", BIGINT), "time_2": Measurement("`time`", DOUBLE)}, Precision.MILLISECOND)


def stored_points(uri: Path) -> Points:
    """Return what the table has."""
    points: Points = {}
    for row in DeltaTable(str(uri)).to_pyarrow_table().to_pylist():
        time = round(row.pop("time").timestamp() * 1000)
        device, _ = row.pop("device"), row.pop("day", None)
        names = {"a": "a", "time_double": "`time`"}
        points |= {(device, time, names[name]): value for name, value in row.items() if value is not None}
    return points


@given(batches, st.booleans(), st.data())
@settings(max_examples=15, deadline=None)
def test_the_table_has_what_was_written_and_not_deleted(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[Event]], by_day: bool, data: Any
) -> None:
    uri = tmp_path_factory.mktemp("table")
    sink = DeltaSink(DeltaOptions(str(uri), by_day), unlimited())
    sink.handshake()
    received: Points = {}
    for number, own in enumerate(history, start=1):
        for _ in range(1 + data.draw(st.booleans(), "delivered again")):
            sink.transfer(Delivery("pipe", number, own))
        apply_events(received, own)
        assert stored_points(uri) == received


def points(*values: int) -> InsertEvent:
    return InsertEvent(data_of([(("root.p.d1", number * DAY_MS), value, None) for number, value in enumerate(values)]))


def test_a_batch_that_has_grown_since_it_was_delivered_is_delivered(tmp_path: Path) -> None:
    sink = DeltaSink(DeltaOptions(str(tmp_path), False), unlimited())
    sink.handshake()
    sink.transfer(Delivery("pipe", 1, [points(1)]))
    sink.transfer(Delivery("pipe", 1, [points(1, 2)]))
    assert sorted(stored_points(tmp_path).values()) == [1, 2]


def test_a_chunk_is_delivered_once(tmp_path: Path) -> None:
    sink = DeltaSink(DeltaOptions(str(tmp_path), False), unlimited())
    sink.handshake()
    sink.transfer(Delivery("job/run/1", 1, [points(1)], is_same=True))
    sink.transfer(Delivery("pipe", 1, [points(2)]))
    sink.transfer(Delivery("job/run/1", 1, [points(1)], is_same=True))
    assert list(stored_points(tmp_path).values()) == [2]


def test_a_chunk_in_several_parts_is_delivered_again_unless_it_has_ended(tmp_path: Path) -> None:
    sink = DeltaSink(DeltaOptions(str(tmp_path), False), unlimited())
    sink.handshake()
    first, last = (Delivery("job/run/1", 1, [points(*own)], is_same=True, is_last=len(own) > 1) for own in ([1], [1, 2]))
    for _ in range(2):
        sink.transfer(first)
    sink.transfer(Delivery("pipe", 1, [points(3)]))
    sink.transfer(first)
    sink.transfer(last)
    assert sorted(stored_points(tmp_path).values()) == [1, 2]
    sink.transfer(Delivery("pipe", 2, [points(3, 4)]))
    sink.transfer(first)
    sink.transfer(last)
    assert sorted(stored_points(tmp_path).values()) == [3, 4]


def test_a_driver_with_an_older_lease_writes_nothing(tmp_path: Path) -> None:
    old, new = (DeltaSink(DeltaOptions(str(tmp_path), False), unlimited()) for _ in range(2))
    old.handshake()
    old.transfer(Delivery("pipe", 1, [points(1)], epoch=3))
    new.transfer(Delivery("pipe", 2, [points(2)], epoch=4))
    with pytest.raises(FencedError, match="a driver with a newer lease"):
        old.transfer(Delivery("pipe", 2, [points(1)], epoch=3))
    old.transfer(Delivery("another", 1, [points(3)], epoch=1))
    assert list(stored_points(tmp_path).values()) == [3]


def test_a_commit_of_an_older_driver_fails_if_a_newer_one_commits_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (DeltaSink(DeltaOptions(str(tmp_path), False), unlimited()) for _ in range(2))
    old.handshake()
    old.transfer(Delivery("pipe", 1, [points(1)], epoch=3))

    def take_over(*arguments: Any) -> None:
        monkeypatch.undo()
        delta.refuse_older(*arguments)
        new.transfer(Delivery("pipe", 2, [points(2)], epoch=4))

    monkeypatch.setattr(delta, "refuse_older", take_over)
    with pytest.raises(StorageError):
        old.transfer(Delivery("pipe", 2, [points(1)], epoch=3))
    assert list(stored_points(tmp_path).values()) == [2]


def test_a_folder_with_another_table_is_refused(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path), pa.table({"x": [1]}))
    with pytest.raises(ConfigurationError, match="holds another Delta table"):
        DeltaSink(DeltaOptions(str(tmp_path), by_day=True), unlimited()).handshake()


def test_the_table_has_to_be_named() -> None:
    with pytest.raises(ProgrammingError, match=r"1107: sink.uri must be specified"):
        delta.validate(PipeAttributes({"sink": "delta-sink"}))


def one_row(number: int) -> InsertEvent:
    return InsertEvent(data_of([(("root.p.d1", number), number, None)]))


@pytest.mark.parametrize("by_day", [True, False])
def test_a_commit_reads_no_file_of_other_times(tmp_path: Path, by_day: bool) -> None:
    sink = DeltaSink(DeltaOptions(str(tmp_path), by_day), unlimited())
    sink.handshake()
    for number in range(5):
        sink.transfer(Delivery("pipe", number, [one_row(10 * number)]))
    (merge,) = DeltaTable(str(tmp_path)).history(1)
    assert (merge["operation"], merge["operationMetrics"]["num_target_files_scanned"]) == ("MERGE", 0)
    sink.transfer(Delivery("pipe", 5, [InsertEvent(data_of([(("root.p.d1", 20), 7, None)]))]))
    assert stored_points(tmp_path)["root.p.d1", 20, "a"] == 7


@pytest.mark.parametrize("by_day", [True, False])
def test_files_do_not_grow_with_commits(tmp_path: Path, by_day: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "COMPACTED_COMMITS", 8)
    sink = DeltaSink(DeltaOptions(str(tmp_path), by_day), unlimited())
    sink.handshake()
    own = tmp_path / "notes.parquet"  # somebody has put it there
    own.touch()
    os.utime(own, (1, 1))
    for number in range(40):
        sink.transfer(Delivery("pipe", number, [one_row(number)]))
        assert len(DeltaTable(str(tmp_path)).file_uris()) <= 8
    assert stored_points(tmp_path) == {("root.p.d1", number, "a"): number for number in range(40)}
    assert own.exists()
