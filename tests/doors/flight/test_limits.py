"""What clients of Flight take: results that are not fetched, rows that are sent, and calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest

from headrace.doors.flight import limits
from headrace.doors.flight.limits import FlightLimits
from headrace.doors.flight.statements import ClientStatements
from headrace.doors.gate import DoorConnection, Gate
from headrace.errors import LimitError, NotFoundError, OperationalError
from headrace.model.connections import Origin
from headrace.runtime.budget import Budget
from tests.doors.flight.conftest import PASSWORD

SQL = "SELECT ts, v, n FROM power.d1 WHERE ts < 3"
ROWS = pa.table({"n": list(range(1_000))})


@pytest.fixture
def connection(gate: Gate) -> Iterator[DoorConnection]:
    opened = gate.open(Origin("flight", "test:1"), "root", PASSWORD, "tdengine")
    yield opened
    gate.close(opened)


def test_the_oldest_results_that_are_not_fetched_are_dropped(connection: DoorConnection) -> None:
    size = ClientStatements(connection, Budget(1 << 20, 1 << 20)).run(SQL)[1].nbytes
    memory = Budget(10 * size, 2 * size)
    client = ClientStatements(connection, memory)
    first, second, third = (client.run(SQL)[0] for _ in range(3))
    with pytest.raises(NotFoundError):
        client.take(first)
    assert client.take(second).num_rows == client.take(third).num_rows == 2
    assert not memory._held


def test_results_of_other_connections_of_the_user_are_not_dropped(connection: DoorConnection) -> None:
    size = ClientStatements(connection, Budget(1 << 20, 1 << 20)).run(SQL)[1].nbytes
    memory = Budget(10 * size, 2 * size)
    clients = [ClientStatements(connection, memory) for _ in range(3)]
    for client in clients[:2]:
        client.run(SQL)
    with pytest.raises(LimitError, match="too many results wait"):
        clients[2].run(SQL)
    clients[0].close()
    clients[2].run(SQL)


def test_a_prepared_statement_runs_again_if_its_first_result_was_dropped(connection: DoorConnection) -> None:
    client = ClientStatements(connection, Budget(1 << 20, 1 << 20))
    handle, prepared, _ = client.prepare(SQL)
    assert prepared.result is not None
    client.drop(prepared.result)
    assert client.run_prepared(handle)[1].num_rows == 2
    client.unprepare(handle)


def test_prepared_statements_and_parameters_take_memory_of_the_server(connection: DoorConnection) -> None:
    memory = Budget(1 << 20, 1 << 20)
    client = ClientStatements(connection, memory)
    handle, *_ = client.prepare("INSERT INTO power.d1 VALUES (?, ?, ?)")
    other, *_ = client.prepare("INSERT INTO power.d1 VALUES (?, 0, 0) " + " " * (1 << 18))
    for _ in range(3):
        client.bind(handle, iter(ROWS.to_batches() * 10))
    assert memory._held["root"] > (1 << 18) + 10 * ROWS.nbytes
    with pytest.raises(LimitError, match="too many statements"):
        client.bind(other, iter(ROWS.to_batches() * 100))
    with pytest.raises(LimitError, match="too many statements"):
        client.prepare("INSERT INTO power.d1 VALUES (1, 0, 0)" + " " * (1 << 20))
    client.unprepare(handle)
    client.close()
    assert not memory._held


def test_a_user_has_half_of_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CALLS", 4)
    shared = FlightLimits()
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(shared.call("vera"))
        with pytest.raises(OperationalError, match="too many calls"), shared.call("vera"):
            pass
        stack.enter_context(shared.call("theo"))
    with shared.call("vera"):
        pass


def test_rows_that_are_sent_have_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_SENT_BYTES", 4 * ROWS.nbytes)
    shared = FlightLimits()
    with shared.received("vera", ROWS.to_reader()) as reader:
        assert reader.read_all() == ROWS
        with (
            shared.received("vera", pa.concat_tables([ROWS] * 3).to_reader()) as more,
            pytest.raises(LimitError, match="sent at once"),
        ):
            more.read_all()
    with shared.received("vera", pa.concat_tables([ROWS] * 2).to_reader()) as reader:
        assert reader.read_all().num_rows == 2_000


def test_parameters_have_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_PARAMETER_BYTES", ROWS.nbytes)
    assert len(list(limits.limited(ROWS.to_batches()))) == 1
    with pytest.raises(LimitError, match="parameters"):
        list(limits.limited(ROWS.to_batches() * 2))
