"""What pipes do, by hand: loops over a Delta table and the same clients, without positions, patterns, or retries."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, sleep
from typing import Any, Final

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.iotdb_server import rows_by_device
from headrace.pipes.iotdb import messages, requests
from headrace.pipes.iotdb.connection import Connection, Login, Node
from headrace.pipes.iotdb.queries import query

RAW_TABLET: Final = 3
DOUBLE: Final = b"\x04\x00\x00"
COLUMNS: Final = ("time", "device", "v")
CONSUMED: Final = 10_000
POLL_SECONDS: Final = 0.02


class IotdbClient:
    """A client of an IoTDB server that sends tablets as pipes do."""

    def __init__(self, address: str) -> None:
        """Connect to `host:port` as the default user."""
        host, _, port = address.partition(":")
        self.connection = Connection(Node(host, int(port)), Login("root", "root"))
        identity = {"clusterID": "by-hand", "timestampPrecision": "ms", "username": "root", "password": "root"}
        self._transfer(requests.handshake(identity).body, requests.HANDSHAKE)

    def send(self, rows: pa.Table) -> None:
        """Send rows with the columns `time`, `device` and `v`: a tablet for each device."""
        for device, own in rows_by_device(rows):
            self._transfer(raw_tablet(device, own["time"].cast(pa.int64()).to_numpy() // 1000, own["v"].to_numpy()), RAW_TABLET)

    def _transfer(self, body: bytes, kind: int) -> None:
        answer = self.connection.call("pipeTransfer", messages.Transfer(version=requests.VERSION, type=kind, body=body))
        assert answer.status.code == 200, answer.status

    def drop(self, database: str) -> None:
        """Drop a database if there is one."""
        self.connection.execute([f"DELETE DATABASE {database}"])

    def sums(self, database: str) -> tuple[int, float]:
        """Return the number of values of a database, and their sum."""
        table = query(self.connection, f"SELECT count(v), sum(v) FROM {database}.** ALIGN BY DEVICE")
        counts, sums = (table.column(number).to_pylist() if table.num_rows else [] for number in (1, 2))
        return sum(counts), round(sum(value or 0.0 for value in sums), 3)

    def has(self, device: str, time: int) -> bool:
        """Return whether a device has a value at a time."""
        return bool(query(self.connection, f"SELECT v FROM {device} WHERE time = {time}").num_rows)

    def execute(self, *statements: str) -> None:
        """Run statements; raise what the server says if one fails."""
        for statement in statements:
            status = self.connection.execute([statement])
            assert status.code == 200, status

    def close(self) -> None:
        """Disconnect."""
        self.connection.close()


class OwnPipe:
    """The pipe of an IoTDB server to another one, with a history that it has flushed."""

    def __init__(self, source: str, receiver: IotdbClient, receiver_address: str, database: str) -> None:
        """Connect to the server with the history, at `host:port`."""
        self._source, self._receiver, self._database = IotdbClient(source), receiver, database
        host, _, port = receiver_address.partition(":")
        self._create = (
            f"CREATE PIPE bench WITH SOURCE ('source.pattern'='{database}', 'realtime.enable'='false') "
            f"WITH SINK ('sink'='iotdb-thrift-sink', 'sink.ip'='{host}', 'sink.port'='{port}')"
        )

    def write(self, rows: pa.Table) -> None:
        """Write the history."""
        self._source.drop(self._database)
        self._source.send(rows)
        self._source.execute("FLUSH")

    def seconds(self, rows: int) -> float:
        """Return how long the receiver takes to have the history, from the creation of a pipe on."""
        start = perf_counter()
        self._source.execute(self._create)
        while self._receiver.sums(self._database)[0] < rows:
            sleep(POLL_SECONDS)
        seconds = perf_counter() - start
        self._source.execute("DROP PIPE bench")
        return seconds

    def close(self) -> None:
        """Remove the history, and disconnect."""
        self._source.drop(self._database)
        self._source.close()


def raw_tablet(device: str, times: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> bytes:
    """Return the rows of a device in IoTDB's layout."""
    path = device.encode()
    parts = [struct.pack(">i", len(path)), path, struct.pack(">i", len(times))]
    parts += [b"\x01\x00\x00\x00\x01\x01", struct.pack(">i", 1), b"v", DOUBLE, struct.pack(">i", 0)]
    parts += [b"\x01", times.astype(">i8").tobytes(), b"\x00\x01\x01", values.astype(">f8").tobytes(), b"\x00"]
    return b"".join(parts)


def read_rows(location: str) -> pa.Table:
    """Return all rows of a table."""
    return DeltaTable(location).to_pyarrow_table(columns=list(COLUMNS))


def with_texts(rows: pa.Table) -> pa.Table:
    """Return rows with devices in a type that can be sorted."""
    return rows.set_column(1, "device", rows["device"].cast(pa.string()))


@contextmanager
def following(location: str, client: IotdbClient, pause_s: float) -> Iterator[None]:
    """Send what is committed to a table while the block runs; look for it after each pause."""
    ended = threading.Event()

    def follow() -> None:
        table = DeltaTable(location)
        version = table.version()
        while not ended.wait(pause_s):
            table.update_incremental()
            if table.version() > version:
                changes = pa.table(table.load_cdf(version + 1, table.version()).read_all())
                client.send(with_texts(changes.select(list(COLUMNS))))
                version = table.version()

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def produce(rows: pa.Table, server: str, topic: str) -> None:
    """Send a message for each row."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": server, "acks": "all", "enable.idempotence": True, "linger.ms": 5})
    times = rows["time"].cast(pa.int64()).to_pylist()
    for time, device, value in zip(times, rows["device"].to_pylist(), rows["v"].to_pylist(), strict=True):
        payload = {"device": device, "timestamp": time // 1000, "measurements": ["v"], "values": [value]}
        while True:
            try:
                producer.produce(topic, json.dumps(payload), device)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(60) == 0


def consume(server: str, topic: str, count: int, location: str) -> None:
    """Read messages and append them to a Delta table."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": server, "group.id": "by-hand", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        while count > 0:
            payloads = [json.loads(message.value() or b"") for message in consumer.consume(CONSUMED, 1.0)]
            count -= len(payloads)
            if payloads:
                write_deltalake(location, tablet_rows(payloads), mode="append")
    finally:
        consumer.close()


def tablet_rows(payloads: list[dict[str, Any]]) -> pa.Table:
    """Return the rows of payloads."""
    return pa.table(
        {
            "time": [payload["timestamp"] for payload in payloads],
            "device": [payload["device"] for payload in payloads],
            "v": [payload["values"][0] for payload in payloads],
        }
    )
