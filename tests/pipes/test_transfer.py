"""Chunks that tasks transfer: large histories, and ranges of time that a user wants again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from deltalake import DeltaTable

import headrace
from headrace.errors import LimitError, NotSupportedError, StorageError
from headrace.jobs.hosts import Driving
from headrace.model.ledger import ChunkState
from headrace.pipes import history, transfer
from headrace.pipes.events import InsertEvent
from headrace.pipes.history import HISTORY
from headrace.pipes.kind import PIPE
from headrace.pipes.plugins import Delivery
from headrace.pipes.sinks.delta import DeltaSink
from headrace.pipes.sources import change_source
from headrace.pipes.transfer import plan_chunks, transfer_chunk
from headrace.runtime.airflow_tasks import BackfillRange
from headrace.runtime.job_host import JobHost
from headrace.runtime.pipe_tasks import plan_history, plan_range
from headrace.settings import load
from headrace.storage.delta import share_planning

ROWS = 60
numbers = count()


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    home = load(home=tmp_path_factory.mktemp("home"), driver_rows=10, resident_history_rows=10)
    with headrace.connect(dialect="iotdb", settings=home) as opened:
        yield opened


@pytest.fixture
def large_chunks(tmp_path: Path) -> Iterator[headrace.Connection]:
    """Open a home whose chunks have rows of several devices."""
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path / "home", driver_rows=0)) as opened:
        yield opened


@pytest.fixture
def pipe(connection: headrace.Connection, tmp_path: Path) -> str:
    """Create a pipe over a history of a few devices to a Delta table in `tmp_path`, and return its id."""
    return create_pipe(connection, tmp_path)


def create_pipe(connection: headrace.Connection, tmp_path: Path) -> str:
    name = f"p{next(numbers)}"
    for device in range(3):
        rows = ", ".join(f"({time}, {device * 100 + time})" for time in range(ROWS // 3))
        connection.execute(f"insert into root.{name}.d{device}(time, a) values {rows}")
    sink = f"'sink'='delta-sink', 'uri'='{tmp_path / 'table'}'"
    connection.execute(f"create pipe {name} with source ('path'='root.{name}.**') with sink ({sink})")
    return connection.session.context.catalog.jobs.get("", name, PIPE).definition.id


def stored(folder: Path) -> set[tuple[str, float]]:
    """Return the devices and values that were transferred."""
    rows = DeltaTable(str(folder / "table")).to_pyarrow_table().to_pylist()
    return {(row["device"].rpartition(".")[2], row["a"]) for row in rows}


def step_all(connection: headrace.Connection, pipe: str) -> bool:
    """Run a pipe as an snode does that leaves large histories to tasks; return whether its history is done."""
    context = connection.session.context
    pipes = JobHost(Driving(context, runs_all=False))
    pipes.reconcile([context.catalog.jobs.by_id(pipe)])
    for _ in range(10):
        pipes.poll(0.1)
    pipes.close()
    return "#history" not in (context.catalog.jobs.by_id(pipe).offsets or {})


def test_tasks_transfer_a_large_history_before_the_snode_continues(
    connection: headrace.Connection, pipe: str, tmp_path: Path
) -> None:
    context = connection.session.context
    chunks = plan_history(context, pipe)
    assert len(chunks) > 1
    assert not step_all(connection, pipe)
    for chunk in chunks:
        assert transfer_chunk(context, pipe, HISTORY, chunk.number).state is ChunkState.DONE
    assert context.catalog.ledger.summary(pipe, HISTORY).complete
    assert plan_history(context, pipe) == []
    assert len(stored(tmp_path)) == ROWS
    assert step_all(connection, pipe)


def test_all_parts_of_a_chunk_are_transferred_also_after_a_failure_between_them(
    large_chunks: headrace.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, pipe = large_chunks.session.context, create_pipe(large_chunks, tmp_path)
    monkeypatch.setattr(share_planning, "TARGET_ROWS", ROWS // 3)
    (chunk,) = plan_chunks(context, pipe)
    deliver, parts = DeltaSink.transfer, count(1)

    def fail_at_the_second_part(sink: DeltaSink, delivery: Delivery) -> None:
        if next(parts) == 2:
            raise StorageError("the disk is full", hint="wait")
        deliver(sink, delivery)

    monkeypatch.setattr(DeltaSink, "transfer", fail_at_the_second_part)
    with pytest.raises(StorageError):
        transfer_chunk(context, pipe, HISTORY, chunk.number)
    assert 0 < len(stored(tmp_path)) < ROWS
    assert transfer_chunk(context, pipe, HISTORY, chunk.number).state is ChunkState.DONE
    assert len(stored(tmp_path)) == ROWS


def test_a_chunk_that_fails_is_recorded_and_done_by_a_later_try(connection: headrace.Connection, pipe: str, tmp_path: Path) -> None:
    context, folder = connection.session.context, tmp_path / "table"
    (first, *_) = plan_history(context, pipe)
    moved = folder.rename(tmp_path / "moved")
    folder.write_text("not a folder")
    with pytest.raises(StorageError):
        transfer_chunk(context, pipe, HISTORY, first.number)
    (chunk, *_) = context.catalog.ledger.chunks(pipe, HISTORY)
    assert (chunk.state, chunk.message is not None) == (ChunkState.FAILED, True)
    folder.unlink()
    moved.rename(folder)
    assert transfer_chunk(context, pipe, HISTORY, first.number).state is ChunkState.DONE


def test_a_range_is_transferred_again(connection: headrace.Connection, pipe: str, tmp_path: Path) -> None:
    context = connection.session.context
    start, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (5, 7))
    chunks = plan_range(context, pipe, "manual__1", BackfillRange(start, end))
    for chunk in chunks:
        transfer_chunk(context, pipe, chunk.run, chunk.number)
    assert stored(tmp_path) == {(f"d{device}", device * 100 + time) for device in range(3) for time in (5, 6)}
    assert plan_range(context, pipe, "manual__1", BackfillRange(start, end))[0].run != chunks[0].run


def test_rows_that_have_to_stay_in_order_are_not_transferred_in_chunks(connection: headrace.Connection, pipe: str) -> None:
    context = connection.session.context
    name = context.catalog.jobs.by_id(pipe).definition.name
    connection.execute(f"alter pipe {name} replace processor ('processor'='changing-value-sampling-processor')")
    assert plan_history(context, pipe) == []
    with pytest.raises(NotSupportedError, match="cannot be transferred again in any order"):
        plan_range(context, pipe, "manual__1", BackfillRange())


def test_a_chunk_that_cannot_be_read_in_shares_has_its_series_alone(
    connection: headrace.Connection, pipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = connection.session.context
    chunks = plan_history(context, pipe)
    monkeypatch.setattr(share_planning, "MAX_READS", 0.0)
    delivered: list[int] = []
    deliver = DeltaSink.transfer

    def record(sink: DeltaSink, delivery: Delivery) -> None:
        delivered.extend(event.data.rows.num_rows for event in delivery.events if isinstance(event, InsertEvent))
        deliver(sink, delivery)

    monkeypatch.setattr(DeltaSink, "transfer", record)
    for chunk in chunks:
        transfer_chunk(context, pipe, HISTORY, chunk.number)
    assert sum(delivered) == len(stored(tmp_path)) == ROWS


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[tuple[headrace.Connection, str]]:
    """Open a home with three databases that make six chunks by their rows, and a pipe over them; yield its id."""
    home = load(home=tmp_path / "home", driver_rows=ROWS // 2, resident_history_rows=ROWS)
    with headrace.connect(dialect="iotdb", settings=home) as opened:
        for database in range(3):
            opened.execute(f"create database root.db{database}")
            for device in range(4):
                rows = ", ".join(f"({time}, {device * 100 + time})" for time in range(ROWS // 4))
                opened.execute(f"insert into root.db{database}.d{device}(time, a) values {rows}")
        sink = f"'sink'='delta-sink', 'uri'='{tmp_path / 'table'}'"
        opened.execute(f"create pipe p with source ('path'='root.**') with sink ({sink})")
        yield opened, opened.session.context.catalog.jobs.get("", "p", PIPE).definition.id


def test_the_chunks_of_all_tables_together_are_bounded(
    databases: tuple[headrace.Connection, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, pipe = databases
    context = connection.session.context
    unbounded = len(plan_range(context, pipe, "manual__1", BackfillRange()))
    assert unbounded > 4
    monkeypatch.setattr(transfer, "MAX_CHUNKS", 4)
    chunks = plan_history(context, pipe)
    assert 3 <= len(chunks) <= 4
    assert sum(chunk.rows for chunk in chunks) == 3 * ROWS
    for chunk in chunks:
        transfer_chunk(context, pipe, HISTORY, chunk.number)
    assert DeltaTable(str(tmp_path / "table")).to_pyarrow_table().num_rows == 3 * ROWS


def test_more_tables_than_there_can_be_tasks_are_left_to_the_snode(
    databases: tuple[headrace.Connection, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, pipe = databases
    context = connection.session.context
    for module in (transfer, history, change_source):
        monkeypatch.setattr(module, "MAX_CHUNKS", 2)
    with pytest.raises(LimitError, match="more than the maximum of 2"):
        plan_range(context, pipe, "manual__1", BackfillRange())
    assert plan_history(context, pipe) == []
    assert step_all(connection, pipe)
    assert DeltaTable(str(tmp_path / "table")).to_pyarrow_table().num_rows == 3 * ROWS
