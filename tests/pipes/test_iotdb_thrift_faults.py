"""The sink to IoTDB when connections break and the receiver is killed: afterwards the receiver has all rows, each once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from headrace.errors import OperationalError
from headrace.model.time import Precision
from headrace.model.types import DOUBLE
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DeleteEvent, DeviceRows, Event, InsertEvent, Measurement
from headrace.pipes.iotdb import connection
from headrace.pipes.iotdb.receiver import ThriftSink
from headrace.pipes.plugins import Delivery
from tests.pipes.iotdb_results import rows
from tests.pipes.thrift import sink
from tests.support.breaking_proxy import BreakingProxy, breaking_proxy
from tests.support.frame_proxy import Fault, NextFault, frame_proxy
from tests.support.iotdb_server import Server
from tests.support.waiting import wait_until

DEVICES = 20
ROWS = 50
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def proxy(iotdb_server: Server) -> Iterator[BreakingProxy]:
    with breaking_proxy(iotdb_server.port) as one:
        yield one


def make_sink(port: int) -> ThriftSink:
    return sink(PipeAttributes({"sink.ip": "127.0.0.1", "sink.port": str(port), "sink.batch.size-bytes": "5000"}))


def values(database: str, number: int) -> DeviceRows:
    """Return rows of all devices in a batch; the values say which."""
    times = np.tile(np.arange(ROWS), DEVICES) + number * ROWS
    devices = np.repeat([f"root.{database}.d{device}" for device in range(DEVICES)], ROWS)
    table = pa.table({"time": times, "device": devices, "v": times.astype(float)})
    return DeviceRows(table, {"v": Measurement("v", DOUBLE)}, Precision.MILLISECOND, f"root.{database}")


def deliver(one: ThriftSink, number: int, *events: Event) -> int:
    """Deliver a batch until that succeeds; return how often it failed."""
    failures = 0
    while True:
        try:
            one.transfer(Delivery("pipe", number, events))
        except OperationalError:
            failures += 1
            assert failures < 100
        else:
            return failures


def check_rows(server: Server, database: str, batches: int) -> None:
    expected = list(range(batches * ROWS))
    for device in range(DEVICES):
        found = rows(server, f"SELECT v FROM root.{database}.d{device}")
        assert found == [(time, float(time)) for time in expected]


@pytest.mark.parametrize("lost", ["request_bytes", "answer_bytes"])
def test_a_cut_connection_is_opened_again(iotdb_server: Server, proxy: BreakingProxy, lost: str) -> None:
    one = make_sink(proxy.port)
    one.handshake()
    for number, size in enumerate([0, 10, 3_000, 12_000, 20]):
        proxy.cut(**{lost: size if lost == "request_bytes" else min(size, 30)})
        deliver(one, number, InsertEvent(values(lost, number)))
    one.close()
    assert proxy.broken == 5
    check_rows(iotdb_server, lost, 5)


def test_an_answer_that_does_not_come_is_an_error_and_the_rows_arrive_later(
    iotdb_server: Server, proxy: BreakingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_MS", 300)
    monkeypatch.setattr(connection.Login.__init__, "__defaults__", (None, 300))
    one = make_sink(proxy.port)
    one.handshake()
    proxy.stalls.set()
    with pytest.raises(OperationalError, match="are not available"):
        one.transfer(Delivery("pipe", 0, [InsertEvent(values("stalled", 0))]))
    proxy.stalls.clear()
    deliver(one, 0, InsertEvent(values("stalled", 0)))
    one.close()
    check_rows(iotdb_server, "stalled", 1)


def test_rows_arrive_while_one_of_two_receivers_fails_or_is_gone(iotdb_server: Server) -> None:
    faults = (Fault.CUT, Fault.LOSE, Fault.REPEAT)
    with frame_proxy(iotdb_server.port) as first:
        with frame_proxy(iotdb_server.port) as second:
            nodes = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
            one = sink(PipeAttributes({"sink.node-urls": nodes, "sink.batch.size-bytes": "5000"}))
            one.handshake()
            for number, fault in enumerate(faults * 2):
                (first, second)[number % 2].plan([NextFault(number % 3, fault)])
                assert deliver(one, number, InsertEvent(values("two", number))) == 0
            assert {*first.happened, *second.happened} == set(faults)
            assert first.happened
            assert second.happened
        assert deliver(one, 6, InsertEvent(values("two", 6))) == 0
        one.close()
    check_rows(iotdb_server, "two", 7)


def test_a_killed_receiver_has_all_rows_once_it_runs_again(iotdb_server: Server) -> None:
    one = make_sink(iotdb_server.port)
    delivered = 0
    is_down = threading.Event()

    def send() -> None:
        nonlocal delivered
        for number in range(200):
            deleted = values("killed", 0).rows.slice(0, 10) if number % 10 == 9 else values("killed", 0).rows.slice(0, 0)
            while True:
                try:
                    data = values("killed", number)
                    one.transfer(Delivery("pipe", number, [InsertEvent(data), DeleteEvent(data.with_rows(deleted))]))
                    break
                except OperationalError:
                    is_down.set()
                    assert not ended.wait(0.2)
            delivered += 1

    ended = threading.Event()
    sender = threading.Thread(target=send)
    sender.start()
    try:
        wait_until(lambda: delivered > 5, "some deliveries")
        iotdb_server.kill()
        wait_until(is_down.is_set, "a failed delivery")
        iotdb_server.restart()
        wait_until(lambda: not sender.is_alive(), "the other deliveries")
    finally:
        ended.set()
        sender.join()
    one.close()
    assert delivered == 200
    check = [(time, float(time)) for time in range(200 * ROWS)]
    assert rows(iotdb_server, "SELECT v FROM root.killed.d1") == check
    assert rows(iotdb_server, "SELECT v FROM root.killed.d0") == check[10:]
